"""Parts fitted by scikit-learn and skrub, in skops files.

skops checks types. It does not check contents, and some compiled code of scikit-learn follows the numbers in a file
unchecked: a wrong one ends the process. So three things are checked here. Before skops sees a file: its sizes, and that
it pairs only known types with known ways to make them. After skops made the objects, and before any of them is used:
the numbers that compiled code would follow.
"""

import io
import json
import math
import re
from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np

from pulab._packing._boosters import check_lightgbm
from pulab._packing._json import read_json
from pulab._validation import AnyArray
from pulab.errors import InputError, ModelFileError

TOO_LARGE = 1e100  # sums of such numbers may be infinite

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
    unknown = sorted({name for loader, name, _ in _nodes(_schema(raw)) if not _is_known(loader, name)})
    if unknown:
        raise InputError(f"a model that holds {', '.join(unknown)} cannot be saved: these types cannot be loaded.")
    return raw


def loaded(raw: bytes) -> Any:
    """The value in a skops file."""
    from skops.io import loads

    trusted = _check_file(raw)
    value = loads(raw, trusted=trusted)
    check_contents(value)
    return value


# Before skops sees the file -------------------------------------------------------------------------------------------


def _schema(raw: bytes) -> Any:
    return json.loads(ZipFile(io.BytesIO(raw)).read("schema.json"))


def _nodes(node: Any) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every object of a schema: how it is made, its type, and its description."""
    left = [node]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            if "__loader__" in node:
                yield str(node["__loader__"]), f"{node['__module__']}.{node['__class__']}", node
            left += node.values()
        elif isinstance(node, list):
            left += node


def _is_known(loader: str, name: str) -> bool:
    return loader in LOADERS and LOADERS[loader].fullmatch(name) is not None


def _check_file(raw: bytes) -> list[str]:
    """Refuse a file that lies about its sizes or types. Returns the names of the types in it."""
    with ZipFile(io.BytesIO(raw)) as file:
        members = {member.filename: member for member in file.infolist()}
        _must(len(members) == len(file.infolist()), "two parts of it have one name")
        as_they_are = all(member.compress_type == ZIP_STORED for member in members.values())
        _must(as_they_are, "a part of it is compressed, and could grow to any size")
        # Not even if members share bytes of the file.
        _must(sum(member.file_size for member in members.values()) <= len(raw), "its parts are larger than the file")
        nodes = list(_nodes(read_json(file.read("schema.json"))))
        by_id: dict[int, list[dict[str, Any]]] = {}
        for loader, name, node in nodes:
            if not _is_known(loader, name):
                raise ModelFileError(f"it holds a {name[:80]} ({loader[:30]}), which pulab does not load")
            _must(type(node["__id__"]) is int and node["__id__"] > 0, "a part of it has no number")
            by_id.setdefault(node["__id__"], []).append(node)
        owners: dict[str, int] = {}
        for loader, name, node in nodes:
            if "file" in node and node["file"] not in owners:
                with file.open(members[node["file"]]) as member:
                    _check_array(member, members[node["file"]].file_size)
            if "file" in node:  # skops would read it once for each number
                _must(
                    owners.setdefault(node["file"], node["__id__"]) == node["__id__"], "two arrays of it share a file"
                )
            if name == "lightgbm.basic.Booster":
                _must("handle" not in node["content"]["content"], "its booster has two texts")  # an older name
                check_lightgbm(_json_in(node["content"], "_handle", by_id))
            if loader == "RandomGeneratorNode":
                _must(
                    _json_in(node["content"]["seed_seq"], "pool_size", by_id) == 4,
                    "a random generator in it is invalid",
                )
    return sorted({name for _, name, _ in nodes})


def _json_in(dictionary: dict[str, Any], key: str, by_id: dict[int, list[dict[str, Any]]]) -> Any:
    """A value of a dict in the schema. Nodes with the same number must be equal: skops may take any of them."""
    value = dictionary["content"][key]
    same = all(other == node for node in (dictionary, value) for other in by_id[node["__id__"]])
    _must(same and value["__loader__"] == "JsonNode", "two parts of it have one number")
    return json.loads(value["content"])


def _check_array(file: Any, size: int) -> None:
    """Refuse an array whose header claims another size than its file has."""
    version = np.lib.format.read_magic(file)
    read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
    shape, _, dtype = read_header(file)
    if math.prod(shape) * dtype.itemsize != size - file.tell() or math.prod(shape) > size:
        raise ModelFileError("an array in it has another size than its header says")


# Before the objects are used ------------------------------------------------------------------------------------------


def check_contents(value: Any) -> None:
    """Check every object that can be reached from a value."""
    seen: dict[int, Any] = {}
    left = [value]
    while left:
        item = left.pop()
        if id(item) in seen or isinstance(item, str | int | float | type(None)):
            continue
        seen[id(item)] = item
        for kind, check in CHECKS.items():
            if any(cls.__name__ == kind for cls in type(item).__mro__):
                check(item)
        if isinstance(item, dict):
            check_jobs(item)
            left += item.values()
        elif isinstance(item, list | tuple | set) or (isinstance(item, np.ndarray) and item.dtype == object):
            left += list(item)
        elif hasattr(item, "__dict__") and not isinstance(item, type | FunctionType):
            left.append(vars(item))


def check_jobs(settings: Mapping[Any, Any]) -> None:
    """Refuse numbers of threads and processes that no machine has: OpenMP would end the process."""
    for name in ("n_jobs", "num_threads", "num_thread", "nthread", "nthreads"):
        jobs = settings.get(name)
        if jobs is not None and not (type(jobs) is int and abs(jobs) <= 1024):
            raise ModelFileError(f"{name} in it is {str(jobs)[:20]}")


def _must(holds: Any, what: str) -> None:
    if not holds:
        raise ModelFileError(what)


def _check_tree_owner(owner: Any) -> None:
    """A tree reads the columns of its rows unchecked: it must know as many as its owner lets through."""
    if hasattr(owner, "tree_"):
        _check_width([owner.tree_], owner.n_features_in_)


def _check_forest(forest: Any) -> None:
    """A forest passes its rows to its trees unchecked."""
    if hasattr(forest, "estimators_"):
        _check_width([tree.tree_ for tree in forest.estimators_], forest.n_features_in_)


def _check_isolation(model: Any) -> None:
    """Its trees get its rows unchecked. pulab gives each of them all columns."""
    if hasattr(model, "estimators_"):
        _must(model._max_features == model.n_features_in_, "a tree in it uses other columns")
        _check_width([tree.tree_ for tree in model.estimators_], model.n_features_in_)


def _check_stages(model: Any) -> None:
    """Boosting reads its trees itself, and writes one number for each row and column of trees."""
    if hasattr(model, "estimators_"):
        trees = model.estimators_
        one = isinstance(trees, np.ndarray) and trees.shape == (len(trees), 1) and len(model.classes_) == 2
        _must(one and model.n_trees_per_iteration_ == 1, "its trees do not fit its classes")
        _check_width([tree.tree_ for tree in trees.ravel()], model.n_features_in_)


def _check_width(trees: list[Any], n_features: int) -> None:
    for tree in trees:
        _must(type(tree).__name__ == "Tree", "a tree in it is invalid")
        _must(tree.n_features == n_features, "a tree in it uses features that do not exist")


def _check_tree(tree: Any) -> None:
    left, right, feature = tree.children_left, tree.children_right, tree.feature
    _must(len(left) == tree.node_count > 0, "a tree in it is invalid")
    _must((np.abs(tree.value) < TOO_LARGE).all(), "a tree in it has values that are no numbers")
    _check_nodes(left, right, feature, left == -1, tree.n_features)


def _check_hist(model: Any) -> None:
    """The trees of histogram boosting read columns and the bitsets of categories unchecked."""
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE

    if not hasattr(model, "_predictors"):
        return
    n = model.n_features_in_
    _must(len(model._bin_mapper.is_categorical_) == n, "a tree in it uses features that do not exist")
    for predictor in (one for some in model._predictors for one in some):
        _must(type(predictor).__name__ == "TreePredictor", "a tree in it is invalid")
        nodes = predictor.nodes
        _must(nodes.dtype == PREDICTOR_RECORD_DTYPE and nodes.ndim == 1 and len(nodes) > 0, "a tree in it is invalid")
        _must((np.abs(nodes["value"]) < TOO_LARGE).all(), "a tree in it has values that are no numbers")
        is_leaf = nodes["is_leaf"] == 1
        _must((nodes["is_leaf"] <= 1).all(), "a tree in it is invalid")
        _check_nodes(nodes["left"], nodes["right"], nodes["feature_idx"], is_leaf, n)
        # pulab passes numbers alone. Categories would need more checks, of the bitsets of the bins.
        _must(not nodes["is_categorical"].any() and not np.any(model._bin_mapper.is_categorical_), "it has categories")


def _check_nodes(left: AnyArray, right: AnyArray, feature: AnyArray, is_leaf: AnyArray, n_features: int) -> None:
    """Refuse trees whose nodes point outside the tree or back: scikit-learn would follow them."""
    inner = np.flatnonzero(~is_leaf)
    for child in (left[inner].astype(np.int64), right[inner].astype(np.int64)):
        _must(((child > inner) & (child < len(left))).all(), "a tree in it is invalid")
    used = feature[inner].astype(np.int64)
    _must(((used >= 0) & (used < n_features)).all(), "a tree in it uses features that do not exist")


def _check_svm(model: Any) -> None:
    """libsvm reads its arrays by the counts in ``_n_support``."""
    if not hasattr(model, "support_vectors_"):
        return
    one_class = type(model).__name__ == "OneClassSVM"  # which has a count of all vectors, twice
    n, n_classes = len(model.support_), 2 if one_class else len(model.classes_)
    counts, pairs = model._n_support, n_classes * (n_classes - 1) // 2
    arrays = {
        "support_": (np.int32, (n,)),
        "_n_support": (np.int32, (n_classes,)),
        "support_vectors_": (np.float64, (n, model.n_features_in_)),
        "_dual_coef_": (np.float64, (n_classes - 1, n)),
        "_intercept_": (np.float64, (pairs,)),
    }
    for name, (dtype, shape) in arrays.items():
        array = vars(model).get(name)
        _must(isinstance(array, np.ndarray) and array.dtype == dtype and array.shape == shape, f"its {name} do not fit")
    for name in ("_probA", "_probB"):
        array = vars(model).get(name)
        _must(isinstance(array, np.ndarray) and array.dtype == np.float64 and array.shape in ((0,), (pairs,)), name)
    whole = counts.tolist() == [n, n] if one_class else counts.min() >= 0 and counts.sum() == n
    _must(whole and n_classes > 1, "its _n_support do not fit")
    _must(model._sparse is False and model.kernel in ("linear", "poly", "rbf", "sigmoid"), "its kernel is unknown")


def _check_random(state: Any) -> None:
    """A place outside the state would be read at the next random number."""
    found = state.get_state(legacy=False)
    _must(found["bit_generator"] == "MT19937" and 0 <= found["state"]["pos"] <= 624, "a random state in it is invalid")


def _check_generator(generator: Any) -> None:
    _must(type(generator.bit_generator).__name__ == "PCG64", "a random generator in it is invalid")


CHECKS = {
    "Tree": _check_tree,
    "BaseDecisionTree": _check_tree_owner,
    "BaseForest": _check_forest,
    "IsolationForest": _check_isolation,
    "BaseGradientBoosting": _check_stages,
    "BaseHistGradientBoosting": _check_hist,
    "BaseLibSVM": _check_svm,
    "RandomState": _check_random,
    "Generator": _check_generator,
}
