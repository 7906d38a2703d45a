"""Models on disk. Loading a model runs no code from its files.

A model is a folder. ``model.json`` describes it and holds the checksum of every other file. Arrays are in
``arrays.safetensors``, and trees in their library's own format. Parts fitted by scikit-learn and skrub are in skops
files, which may hold only types of a fixed list. There is no pickle and no fallback.
"""

import hashlib
import json
import math
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED

import numpy as np

from pulab import __version__
from pulab._scaling import Scaler
from pulab._validation import AnyArray
from pulab.calibration import PUCalibrator
from pulab.errors import InputError, ModelFileError, in_one_line, warn
from pulab.methods import METHODS

FORMAT = 2
DOCUMENT, ARRAYS = "model.json", "arrays.safetensors"
MODEL_FILES = re.compile(r"model\.json|arrays\.safetensors|part-\d+\.\w+|report\.html|candidates\.csv")

# The types of skrub's preprocessing and of the usual base learners, beyond those of numpy, scipy and scikit-learn that
# skops knows. None of them runs code when it is loaded. Trees are checked before use.
TRUSTED = (
    "collections.OrderedDict",
    "lightgbm.basic.Booster",
    "lightgbm.sklearn.LGBMClassifier",
    "numpy.dtype",
    "polars.datatypes.classes.Date",
    "polars.datatypes.classes.Datetime",
    "pulab._scaling.CutScaler",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.tree._tree.Tree",
    "skrub._apply_to_each_col.ApplyToEachCol",
    "skrub._check_input.CheckInputDataFrame",
    "skrub._clean_categories.CleanCategories",
    "skrub._clean_null_strings.CleanNullStrings",
    "skrub._dataframe._common.is_any_date",
    "skrub._dataframe._common.is_categorical",
    "skrub._dataframe._common.is_numeric",
    "skrub._datetime_encoder.DatetimeEncoder",
    "skrub._drop_uninformative.DropUninformative",
    "skrub._duration_to_float.DurationToFloat",
    "skrub._string_encoder.StringEncoder",
    "skrub._table_vectorizer.PassThrough",
    "skrub._table_vectorizer.ShortReprDict",
    "skrub._table_vectorizer.TableVectorizer",
    "skrub._table_vectorizer._created_by_predicate",
    "skrub._to_datetime.ToDatetime",
    "skrub._to_float.ToFloat",
    "skrub._to_str.ToStr",
    "skrub.selectors._base.All",
    "skrub.selectors._base.And",
    "skrub.selectors._base.Cols",
    "skrub.selectors._base.Filter",
    "skrub.selectors._base.Sub",
    "skrub.selectors._selectors._cardinality_below",
    "xgboost.core.Booster",
    "xgboost.sklearn.XGBClassifier",
)


def save_model(model: Any, folder: str | Path) -> Path:
    """Save a fitted classifier to a folder. Either all files are written or none.

    Parameters
    ----------
    model : classifier of pulab, fitted
    folder : path
        A new folder, or the folder of a saved model, which is replaced.

    Examples
    --------
    >>> import tempfile
    >>> from pulab import ElkanNotoClassifier
    >>> from pulab.datasets import load_digits, make_pu
    >>> from pulab.persistence import load_model, save_model
    >>> digits = load_digits()
    >>> pu = make_pu(digits.X_train, digits.y_train, n_labeled=100, random_state=0)
    >>> clf = ElkanNotoClassifier(prior=pu.prior, random_state=0).fit(pu.X, pu.s)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     loaded = load_model(save_model(clf, f"{folder}/model"))
    >>> bool((loaded.predict_proba(digits.X_test) == clf.predict_proba(digits.X_test)).all())
    True
    """
    content = Content()
    document = {"kind": "classifier", "model": content.pack(model)}
    return write_folder(Path(folder), document, content)


def load_model(folder: str | Path, *, module: Any = None) -> Any:
    """Load the classifier in a folder. No code from its files is run.

    Parameters
    ----------
    folder : path
    module : nn.Module or function that makes one, optional
        The module of a network that was fitted with ``module=…``: the files hold its weights, not its code.
    """
    document, content = read_folder(Path(folder), "classifier")
    with damage_is_told(Path(folder)):
        model = content.unpack(document["model"], module)
        check_scores(model)
    return model


def check_scores(model: Any) -> None:
    """Refuse a model that cannot score a row of zeros: the contents of its files do not fit together."""
    if math.prod(model.row_shape_) > 2**26:
        raise ModelFileError(f"its rows have the shape {model.row_shape_}")
    rows = np.zeros((2, *model.row_shape_))
    shares = np.asarray(model.predict_proba(rows))
    prior = getattr(model, "prior_", None)  # some methods have none
    if len(model.predict(rows)) != 2 or not (prior is None or 0 < prior < 1):
        raise ModelFileError("its classes or its prior are invalid")
    if shares.shape != (2, 2) or not ((shares >= 0) & (shares <= 1)).all():
        raise ModelFileError(f"it gives probabilities such as {shares.ravel()[:2].tolist()}")


# Folders --------------------------------------------------------------------------------------------------------------


def write_folder(
    folder: Path, document: Mapping[str, Any], content: "Content", extra: Mapping[str, bytes] | None = None
) -> Path:
    """Write a model and ``extra`` files to a temporary folder, flush them to the disk, then move the folder."""
    from safetensors.numpy import save as save_arrays

    files = {ARRAYS: save_arrays(content.arrays), **content.blobs}
    whole = {
        "format": FORMAT,
        "pulab": __version__,
        **document,
        "files": {name: _checksum(raw) for name, raw in files.items()},
    }
    whole["checksum"] = _checksum(_canonical(whole))
    files[DOCUMENT] = json.dumps(whole, indent=1, allow_nan=False).encode()
    with new_folder(folder) as unfinished:
        for name, raw in (files | dict(extra or {})).items():
            with (unfinished / name).open("wb") as file:
                file.write(raw)
                file.flush()
                os.fsync(file.fileno())
    return folder


def check_folder(folder: Path) -> None:
    """Refuse a folder where no model can be written. Call it before long work."""
    folder = folder.resolve()  # the target of a link
    if not folder.parent.is_dir():
        raise InputError(f"the model's folder must be in an existing one, got {folder}. Create {folder.parent} first.")
    if folder.exists() and not (folder / DOCUMENT).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists and is not a pulab model. Name another folder; this one is not changed.")
    if (folder.parent / DOCUMENT).is_file():
        raise InputError(f"{folder} would lie within a model. Name a folder elsewhere.")
    inside = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    strangers = [name for name in inside if not MODEL_FILES.fullmatch(name)]
    if strangers:
        raise InputError(f"{folder} holds {strangers[0]!r} beside a model. Name another folder, or move that file.")
    try:
        _folder_beside(folder).rmdir()
    except OSError as error:
        raise InputError(f"{folder} cannot be created: {error.strerror}. Name a folder elsewhere.") from None


def _folder_beside(place: Path) -> Path:
    return Path(tempfile.mkdtemp(prefix=f".{place.name}-", dir=place.parent))


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder to fill. It is moved to its place at the end, or deleted after an error."""
    check_folder(folder)
    place = folder.resolve()
    beside = _folder_beside(place)
    unfinished, old = beside / "new", beside / "old"
    try:
        unfinished.mkdir()
        yield unfinished
        if place.exists():
            place.rename(old)
        unfinished.rename(place)
    except BaseException:  # a full disk, Ctrl-C
        if old.exists() and not place.exists():
            old.rename(place)
        raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def read_folder(folder: Path, kind: str) -> tuple[dict[str, Any], "Content"]:
    """The contents of a model's files, after a check of their checksums."""
    from safetensors.numpy import load as load_arrays

    path = folder / DOCUMENT
    if not path.is_file():
        raise ModelFileError(f"{folder} holds no model: it has no {DOCUMENT}. Name a folder that pulab wrote.")
    with damage_is_told(folder):
        document = json.loads(path.read_bytes())
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            written = document.get("format") if isinstance(document, dict) else None
            raise ModelFileError(f"{DOCUMENT} has format {written!r}, and this pulab reads {FORMAT}")
        if document.pop("checksum", None) != _checksum(_canonical(document)):
            raise ModelFileError(f"{DOCUMENT} has been changed since it was written")
        if document.get("kind") != kind:
            raise ModelFileError(f"it holds a {document.get('kind')}, not a {kind}")
        # Only the last part of a name: a model's files lie in its folder.
        files = {name: (folder / Path(name).name).read_bytes() for name in document["files"]}
        for name, raw in files.items():
            if _checksum(raw) != document["files"][name]:
                raise ModelFileError(f"{name} is cut off or has been changed since it was written")
        return document, Content(load_arrays(files.pop(ARRAYS)), files)


@contextmanager
def damage_is_told(folder: Path) -> Iterator[None]:
    """Turn any error while a model's files are read into one of one line."""
    try:
        yield
    except InputError:  # the caller can correct it, for example a missing module
        raise
    except Exception as error:
        line = f"the model in {folder} cannot be read: {in_one_line(error)}. Fit it again, or copy it again."
        raise ModelFileError(line) from error


def _checksum(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def _canonical(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


# Values ---------------------------------------------------------------------------------------------------------------


@dataclass
class Content:
    """The arrays and files that packed values refer to."""

    arrays: dict[str, AnyArray] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)

    def pack(self, value: Any) -> Any:
        """A value as JSON. Plain values stay as they are; all others become ``{kind: …}``."""
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
            return value
        if isinstance(value, list) and not _all_fitted(value):
            return [self.pack(item) for item in value]
        for kind, (is_kind, pack, _) in KINDS.items():
            if is_kind(value):
                return {kind: pack(self, value)}
        name = f"{type(value).__module__}.{type(value).__name__}"
        if hasattr(value, "get_params"):
            raise InputError(
                f"a {name} cannot be saved: this class is not in pulab.methods, so a file cannot name it. "
                "Add it to pulab.methods.METHODS, or pickle the model."
            )
        raise InputError(f"a model that holds a {name} cannot be saved.")

    def unpack(self, packed: Any, module: Any = None) -> Any:
        """The value that was packed."""
        if isinstance(packed, list):
            return [self.unpack(item, module) for item in packed]
        if not isinstance(packed, dict):
            return packed
        ((kind, inner),) = packed.items()
        return KINDS[kind][2](self, inner, module)

    def add(self, ending: str, raw: bytes) -> str:
        """Add a file and return its new name."""
        name = f"part-{len(self.blobs)}.{ending}"
        self.blobs[name] = raw
        return name


def _pack_array(content: Content, value: AnyArray) -> Any:
    if value.dtype.kind in "OUS":
        return {"values": value.tolist(), "kind": value.dtype.kind}
    name = f"array-{len(content.arrays)}"
    content.arrays[name] = np.ascontiguousarray(value)
    return name


def _unpack_array(content: Content, inner: Any, module: Any) -> AnyArray:
    if isinstance(inner, str):
        return content.arrays[inner]
    return np.array(inner["values"], dtype=object if inner["kind"] == "O" else None)


def _pack_network(content: Content, module: Any) -> Any:
    return {name: content.pack(tensor.detach().cpu().numpy()) for name, tensor in module.state_dict().items()}


def _pack_object(content: Content, value: Any) -> Any:
    """A classifier or a part of one: the name of its class, and its attributes."""
    state = dict(vars(value))
    if hasattr(value, "row_shape_") and hasattr(value, "module"):
        state["module"] = None if value.module is None else "given"
        state["device"], state["device_"] = "auto", None
    if "random_state" in state and not isinstance(state["random_state"], int | None):
        state["random_state"] = None
    if "dtype" in state:
        state["dtype"] = str(state["dtype"]).removeprefix("torch.")
    if callable(state.get("augment")):
        state["augment"] = None
        warn("the function augment is not saved. Set augment again before you fit the loaded model.")
    return {"class": type(value).__name__, "state": {name: content.pack(item) for name, item in state.items()}}


def _unpack_object(content: Content, inner: Any, module: Any) -> Any:
    cls = _class_of(inner["class"])
    packed = inner["state"]
    networks = {name: item["net"] for name, item in packed.items() if isinstance(item, dict) and "net" in item}
    state = {name: content.unpack(item, module) for name, item in packed.items()}
    value = cls.__new__(cls)
    vars(value).update(state)
    if isinstance(value, PUCalibrator):
        value.check()
    if "module" in state:
        if state["module"] is not None and module is None:
            raise InputError(
                "this model was fitted with a module of your own, and the files do not hold its code. Pass module=…."
            )
        value.module = module if state["module"] is not None else None
        import torch

        value.device_ = torch.device("cpu")
    for name, net in networks.items():
        setattr(value, name, _network(value, {key: content.unpack(item) for key, item in net.items()}))
    return value


def _network(classifier: Any, state: dict[str, AnyArray]) -> Any:
    """The classifier's network with these weights.

    Our own networks are first created without memory, since a file may claim false sizes.
    """
    import torch

    with torch.device("meta") if classifier.module is None else nullcontext():
        net = classifier._make_module()
    tensors = {name: torch.from_numpy(np.array(value)) for name, value in state.items()}
    net.load_state_dict(tensors, strict=True, assign=True)
    net.eval()
    if len(classifier.row_shape_) == 3:  # files store arrays in the default memory order only
        from pulab.training import use_channels_last

        with torch.no_grad():
            use_channels_last(net, torch.zeros(2, *classifier.row_shape_, dtype=next(net.parameters()).dtype))
    return net


def _class_of(name: Any) -> Any:
    """The class that a file names. Only pulab's own classes are allowed."""
    parts = {cls.__name__: cls for cls in (PUCalibrator, Scaler)}
    classifiers = {method.class_name: method for method in METHODS.values()}
    if name in parts:
        return parts[name]
    if name not in classifiers:
        raise ModelFileError(f"it names a class {name!r}, which pulab does not have")
    return classifiers[name].load()


def _is_ours(value: Any) -> bool:
    """Whether the class of a value can be named in a file."""
    try:
        return type(value) is _class_of(type(value).__name__)
    except ModelFileError:
        return False


def _all_fitted(values: list[Any]) -> bool:
    return bool(values) and all(_is_fitted_elsewhere(value) for value in values)


def _is_fitted_elsewhere(value: Any) -> bool:
    """Whether it is an estimator of scikit-learn or skrub, or a list of such. Subclasses of ours are not."""
    if isinstance(value, list):
        return _all_fitted(value)
    return hasattr(value, "get_params") and not any(c.__module__.startswith("pulab.") for c in type(value).__mro__)


def _pack_skops(content: Content, value: Any) -> str:
    from skops.io import dumps, get_untrusted_types

    raw = dumps(value, compression=ZIP_DEFLATED)
    unknown = sorted(set(get_untrusted_types(data=raw)) - set(TRUSTED))
    if unknown:
        raise InputError(f"a model that holds {', '.join(unknown)} cannot be saved: these types cannot be loaded.")
    return content.add("skops", raw)


def _unpack_skops(content: Content, name: str, module: Any) -> Any:
    from skops.io import loads

    value = loads(content.blobs[name], trusted=list(TRUSTED))
    _check_trees(value)
    return value


def _check_trees(value: Any) -> None:
    """Refuse trees whose nodes point outside the tree or back: scikit-learn would follow them unchecked."""
    if isinstance(value, np.ndarray | list | tuple):
        for item in value if not isinstance(value, np.ndarray) or value.dtype == object else ():
            _check_trees(item)
    elif type(value).__name__ == "Tree":
        left, right, feature = value.children_left, value.children_right, value.feature
        _check_nodes(left, right, feature, left < 0, value.n_features)
    elif type(value).__name__ == "TreePredictor":
        nodes = value.nodes
        _check_nodes(nodes["left"], nodes["right"], nodes["feature_idx"], nodes["is_leaf"] == 1, None)
    elif hasattr(value, "get_params"):
        for item in vars(value).values():
            _check_trees(item)


def _check_nodes(left: AnyArray, right: AnyArray, feature: AnyArray, is_leaf: AnyArray, n_features: int | None) -> None:
    inner = np.flatnonzero(~is_leaf)
    for child in (left[inner].astype(np.int64), right[inner].astype(np.int64)):
        if not ((child > inner) & (child < len(left))).all():
            raise ModelFileError("a tree in it is invalid")
    if not ((feature[inner] >= 0) & (feature[inner] < (n_features or np.inf))).all():
        raise ModelFileError("a tree in it uses features that do not exist")


def _unpack_lightgbm(content: Content, name: str, module: Any) -> Any:
    import lightgbm

    text = content.blobs[name].decode()
    check_lightgbm(text)
    return lightgbm.Booster(model_str=text)


def check_lightgbm(text: str) -> None:
    """Refuse a text with incomplete trees, or with nodes that point outside the tree or back: LightGBM would crash."""
    head, *trees = re.split(r"(?m)^Tree=", text)
    header = dict(re.findall(r"(?m)^(\w+)=(.*)$", head))
    sizes = [int(size) for size in header["tree_sizes"].split()]
    starts = [match.start() for match in re.finditer(r"(?m)^Tree=", text)]
    ends = [start + size for start, size in zip(starts, sizes, strict=True)]
    if ends[:-1] != starts[1:] or (ends and not text[ends[-1] :].startswith("end of trees")):
        raise ModelFileError("its trees are cut off")
    for tree in trees:
        fields = dict(re.findall(r"(?m)^(\w+)=(.*)$", tree))
        n_leaves = int(fields["num_leaves"])
        inner = np.arange(n_leaves - 1)
        if not np.isfinite(np.array(fields["leaf_value"].split(), dtype=float)).all():
            raise ModelFileError("a tree in it has leaves that are not finite numbers")
        for side in ("left_child", "right_child"):
            child = np.array(fields.get(side, "").split(), dtype=np.int64)
            is_leaf = (child < 0) & (~child < n_leaves)
            if len(child) != len(inner) or not (is_leaf | ((child > inner) & (child < len(inner)))).all():
                raise ModelFileError("a tree in it is invalid")
        feature = np.array(fields.get("split_feature", "").split(), dtype=np.int64)
        if len(feature) != len(inner) or not ((feature >= 0) & (feature <= int(header["max_feature_idx"]))).all():
            raise ModelFileError("a tree in it uses features that do not exist")


def _unpack_xgboost(content: Content, name: str, module: Any) -> Any:
    import xgboost

    booster = xgboost.Booster()
    booster.load_model(bytearray(content.blobs[name]))
    return booster


def _comes_from(package: str) -> Callable[[Any], bool]:
    return lambda value: type(value).__module__.startswith(f"{package}.") and type(value).__name__ == "Booster"


# kind: (whether a value is of this kind, its packing function, its unpacking function)
KINDS: dict[str, tuple[Callable[[Any], bool], Callable[..., Any], Callable[..., Any]]] = {
    "float": (
        lambda v: isinstance(v, float),
        lambda content, v: str(v),  # NaN and infinity: JSON has neither
        lambda content, inner, module: float(inner),
    ),
    "tuple": (
        lambda v: isinstance(v, tuple),
        lambda content, v: [content.pack(item) for item in v],
        lambda content, inner, module: tuple(content.unpack(item, module) for item in inner),
    ),
    "dict": (
        lambda v: isinstance(v, dict) and all(isinstance(key, str) for key in v),
        lambda content, v: {key: content.pack(item) for key, item in v.items()},
        lambda content, inner, module: {key: content.unpack(item, module) for key, item in inner.items()},
    ),
    "array": (lambda v: isinstance(v, np.ndarray), _pack_array, _unpack_array),
    "net": (lambda v: hasattr(v, "named_parameters"), _pack_network, lambda content, inner, module: None),
    "lightgbm": (
        _comes_from("lightgbm"),
        lambda content, v: content.add("txt", v.model_to_string(num_iteration=-1).encode()),
        _unpack_lightgbm,
    ),
    "xgboost": (
        _comes_from("xgboost"),
        lambda content, v: content.add("ubj", bytes(v.save_raw("ubj"))),
        _unpack_xgboost,
    ),
    "skops": (_is_fitted_elsewhere, _pack_skops, _unpack_skops),
    "object": (_is_ours, _pack_object, _unpack_object),
}
