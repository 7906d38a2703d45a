"""Parts fitted by scikit-learn and skrub, in skops files.

skops writes these files. pulab reads them itself, which takes less memory. Some compiled code of scikit-learn follows
the numbers in a file unchecked: a wrong number ends the process. So there are checks before and after the objects are
made. Before: the sizes in the file, and that it pairs only known types with known ways to make them. After, and before
any object is used: the numbers that compiled code would follow.
"""

import json
import re
from typing import Any
from zipfile import ZIP_STORED

from pulab._packing._checks import check_contents, must
from pulab._packing._json import read_json
from pulab._packing._lightgbm import check_lightgbm
from pulab._packing._objects import Maker, Node, as_node, nodes
from pulab._packing._parts import Skops, part_of, read_skops
from pulab._validation import AnyArray
from pulab.errors import InputError, ModelFileError

PROTOCOL = 2  # of the files of skops
BOOSTER = "lightgbm.basic.Booster"

# Classes that are made without a call and get their attributes. Their prediction runs in numpy, or is checked below.
# Nearest neighbours are not among them: their compiled trees cannot be checked.
OBJECTS = re.compile(
    r"sklearn\.(?:"
    r"(?:linear_model|naive_bayes|discriminant_analysis|calibration|pipeline|preprocessing|impute|compose|dummy)\b.*"
    r"|neural_network\..*|feature_extraction\.text\..*|isotonic\.IsotonicRegression"
    r"|decomposition\._pca\.PCA|decomposition\._truncated_svd\.TruncatedSVD"
    r"|svm\._classes\.(?:SVC|NuSVC|LinearSVC|OneClassSVM)"
    r"|tree\._classes\.(?:DecisionTree|ExtraTree)(?:Classifier|Regressor)"
    r"|ensemble\.(?:_forest|_gb|_voting|_stacking|_bagging|_weight_boosting)\.\w+Classifier"
    r"|ensemble\._iforest\.IsolationForest"
    r"|ensemble\._hist_gradient_boosting\.(?:gradient_boosting\.HistGradientBoostingClassifier"
    r"|binning\._BinMapper|predictor\.TreePredictor)"
    r"|_loss\.link\.\w+|_loss\.loss\.\w+"
    r")|skrub\.(?:_apply_to_each_col\.ApplyToEachCol|_check_input\.CheckInputDataFrame|_clean_categories\.CleanCategories"
    r"|_clean_null_strings\.CleanNullStrings|_datetime_encoder\.DatetimeEncoder|_drop_uninformative\.DropUninformative"
    r"|_duration_to_float\.DurationToFloat|_string_encoder\.StringEncoder"
    r"|_table_vectorizer\.(?:PassThrough|ShortReprDict|TableVectorizer)|_to_datetime\.ToDatetime|_to_float\.ToFloat"
    r"|_to_str\.ToStr|selectors\._base\.(?:All|And|Cols|Filter|Sub))"
    r"|pulab\._scaling\.CutScaler"
    r"|polars\.datatypes\.classes\.(?:Date|Datetime)|lightgbm\.basic\.Booster|lightgbm\.sklearn\.LGBMClassifier"
)
_NUMBERS = r"numpy\.(?:bool_?|u?int(?:8|16|32|64)|float(?:16|32|64)|str_)"
# How skops makes an object, and the types that may be made so.
LOADERS = {
    "JsonNode": re.compile(r"builtins\.str"),
    "DictNode": re.compile(r"builtins\.dict|collections\.OrderedDict|sklearn\.utils\._bunch\.Bunch"),
    "DefaultDictNode": re.compile(r"collections\.defaultdict"),
    "ListNode": re.compile(r"builtins\.list"),
    "TupleNode": re.compile(r"builtins\.tuple"),
    "SetNode": re.compile(r"builtins\.set"),
    "SliceNode": re.compile(r"builtins\.slice"),
    "NdArrayNode": re.compile(rf"numpy\.ndarray|{_NUMBERS}"),
    "DTypeNode": re.compile(r"numpy\.dtype"),
    "TypeNode": re.compile(rf"builtins\.(?:str|int|float|bool)|collections\.OrderedDict|{_NUMBERS}"),
    "RandomStateNode": re.compile(r"numpy\.random\.mtrand\.RandomState"),
    "RandomGeneratorNode": re.compile(r"numpy\.random\._generator\.Generator"),
    "FunctionNode": re.compile(
        r"skrub\._dataframe\._common\.is_(?:any_date|categorical|numeric)"
        r"|skrub\._table_vectorizer\._created_by_predicate|skrub\.selectors\._selectors\._cardinality_below"
    ),
    "LossNode": re.compile(
        r"sklearn\._loss\._loss\.CyHalfBinomialLoss|sklearn\.linear_model\._sgd_fast\.(?:Hinge|SquaredHinge|ModifiedHuber)"
    ),
    "TreeNode": re.compile(r"sklearn\.tree\._tree\.Tree"),
    "ObjectNode": OBJECTS,
}


def dumped(value: Any) -> bytes:
    """The skops file of a value. Refuses a value that could not be loaded."""
    from skops.io import dumps

    raw: bytes = dumps(value, compression=ZIP_STORED)  # a compressed file could grow to any size
    root = _parsed(read_skops(part_of(raw)))
    unknown = sorted({node.name for node in nodes(root) if not _is_known(node)})
    if unknown:
        raise InputError(f"a model that holds {', '.join(unknown)} cannot be saved: these types cannot be loaded.")
    return raw


def loaded(file: Skops) -> Any:
    """The value in a skops file."""
    root = _parsed(file)
    _check(root, file.arrays)
    value = Maker(file.arrays, {})(root)
    check_contents(value)
    return value


def _parsed(file: Skops) -> Node:
    root = read_json(file.schema.pop(), as_node)
    if not isinstance(root, Node) or root.protocol != PROTOCOL:
        raise ModelFileError("it is of a version of skops that pulab does not read")
    return root


def _is_known(node: Node) -> bool:
    return node.loader in LOADERS and LOADERS[node.loader].fullmatch(node.name) is not None


def _check(root: Node, arrays: dict[str, AnyArray]) -> None:
    """Refuse unknown types, and nodes that two objects would share. Nothing is made before."""
    by_id: dict[int, list[Node]] = {}
    owners: dict[str, int] = {}
    special = []
    for node in nodes(root):
        if not _is_known(node):
            raise ModelFileError(f"it holds a {node.name[:80]} ({node.loader[:30]}), which pulab does not load")
        if node.file is not None:
            must(node.file in arrays, "an array of it is missing")
            must(owners.setdefault(node.file, node.id) == node.id, "two arrays of it share a file")
        if node.name == BOOSTER or node.loader == "RandomGeneratorNode":
            special.append(node)
    if not special:
        return
    for node in nodes(root):
        by_id.setdefault(node.id, []).append(node)
    for node in special:
        if node.name == BOOSTER:
            must("handle" not in node.content.content, "its booster has two texts")  # an older name
            check_lightgbm(_json_in(node.content, "_handle", by_id).encode())
        else:
            size = _json_in(node.content["seed_seq"], "pool_size", by_id)
            must(size == 4, "a random generator in it is invalid")


def _json_in(dictionary: Node, key: str, by_id: dict[int, list[Node]]) -> Any:
    """A value of a dict in the schema. Nodes with the same number must be equal: any of them may be taken."""
    value = dictionary.content[key]
    same = all(other == node for node in (dictionary, value) for other in by_id[node.id])
    must(same and value.loader == "JsonNode", "two parts of it have one number")
    return json.loads(value.content)
