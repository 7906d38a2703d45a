"""The values of a model as JSON, arrays and files, and back."""

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pulab._scaling import Scaler
from pulab._validation import AnyArray
from pulab.calibration import PUCalibrator
from pulab.errors import InputError, ModelFileError, warn
from pulab.estimators._pu_trees import PUTrees
from pulab.methods import METHODS
from pulab._packing._checks import check_jobs
from pulab._packing._lightgbm import Checked, check_lightgbm
from pulab._packing._skops import dumped, loaded
from pulab._packing._xgboost import checked_xgboost


class ModuleNeeded(InputError):
    """The model holds the weights of a module whose code the caller must pass."""


@dataclass
class Content:
    """The arrays and files that packed values refer to. Each is taken out when it is unpacked, so that it can go."""

    arrays: dict[str, AnyArray] = field(default_factory=dict)
    blobs: dict[str, Any] = field(default_factory=dict)

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
        return content.arrays.pop(inner)
    return np.array(inner["values"], dtype=object if inner["kind"] == "O" else None)


def _pack_network(content: Content, module: Any) -> Any:
    return {name: content.pack(tensor.detach().cpu().numpy()) for name, tensor in module.state_dict().items()}


def _pack_object(content: Content, value: Any) -> Any:
    """A classifier or a part of one: the name of its class, and its attributes."""
    state = dict(vars(value))
    if hasattr(value, "module"):
        state["module"] = None if value.module is None else "given"
        state["device"], state["device_"] = "auto", None
        state["checkpoint"] = None  # of the fit that has ended
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
    check_jobs(state)
    value = cls.__new__(cls)
    vars(value).update(state)
    if isinstance(value, PUCalibrator | PUTrees):
        value.check()
    if "module" in state:
        if state["module"] not in (None, "given"):
            raise ModelFileError("it does not say whose module it holds")
        if state["module"] is not None and module is None:
            raise ModuleNeeded(
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
    tensors = {name: torch.from_numpy(value) for name, value in state.items()}
    net.load_state_dict(tensors, strict=True, assign=True)
    net.eval()
    if len(classifier.row_shape_) == 3:  # files store arrays in the default memory order only
        from pulab.training import use_channels_last

        with torch.no_grad():
            use_channels_last(net, torch.zeros(2, *classifier.row_shape_, dtype=next(net.parameters()).dtype))
    return net


def _class_of(name: Any) -> Any:
    """The class that a file names. Only pulab's own classes are allowed."""
    parts = {cls.__name__: cls for cls in (PUCalibrator, PUTrees, Scaler)}
    classifiers = {method.class_name: method for method in METHODS.values()}
    if name in parts:
        return parts[name]
    if name == "PositiveKindsClassifier":
        from pulab.estimators._kinds import PositiveKindsClassifier

        return PositiveKindsClassifier
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


def _pack_lightgbm(content: Content, booster: Any) -> str:
    text = booster.model_to_string(num_iteration=-1)
    raw = text.encode()
    _can_be_loaded(check_lightgbm, raw)
    return content.add("txt", raw)


def _unpack_lightgbm(content: Content, name: str, module: Any) -> Any:
    raw = content.blobs.pop(name)
    raw = raw[: check_lightgbm(raw)]  # without the settings of the training, which say how to run it
    import lightgbm

    return lightgbm.Booster(model_str=Checked.of(raw))


def _pack_xgboost(content: Content, booster: Any) -> str:
    raw = bytes(booster.save_raw("json"))
    _can_be_loaded(checked_xgboost, raw.decode("ascii"))
    return content.add("json", raw)


def _unpack_xgboost(content: Content, name: str, module: Any) -> Any:
    raw = checked_xgboost(content.blobs.pop(name).decode("ascii"))
    import xgboost

    booster = xgboost.Booster()
    booster.load_model(raw)
    return booster


def _can_be_loaded(check: Callable[[Any], Any], model: Any) -> None:
    """A model that loading would refuse is not saved."""
    try:
        check(model)
    except ModelFileError as error:
        raise InputError(f"a model of boosted trees cannot be saved: {error}.") from None


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
    "pairs": (
        lambda v: isinstance(v, dict),
        lambda content, v: [[content.pack(key), content.pack(item)] for key, item in v.items()],
        lambda content, inner, module: {content.unpack(k): content.unpack(item, module) for k, item in inner},
    ),
    "array": (lambda v: isinstance(v, np.ndarray), _pack_array, _unpack_array),
    "net": (lambda v: hasattr(v, "named_parameters"), _pack_network, lambda content, inner, module: None),
    "lightgbm": (
        _comes_from("lightgbm"),
        _pack_lightgbm,
        _unpack_lightgbm,
    ),
    "xgboost": (
        _comes_from("xgboost"),
        _pack_xgboost,
        _unpack_xgboost,
    ),
    "skops": (
        _is_fitted_elsewhere,
        lambda content, v: content.add("skops", dumped(v)),
        lambda content, inner, module: loaded(content.blobs.pop(inner)),
    ),
    "object": (_is_ours, _pack_object, _unpack_object),
}
