"""Values as JSON, arrays and files, and back: plain ones, arrays, and what other libraries have fitted."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from pulab._packing._lightgbm import Checked, check_lightgbm
from pulab._packing._parts import part_of, read_skops
from pulab._packing._skops import dumped, loaded
from pulab._packing._xgboost import checked_xgboost
from pulab._scaling import Scaler
from pulab._validation import AnyArray
from pulab.errors import InputError, ModelFileError

Kind = tuple[Callable[[Any], bool], Callable[..., Any], Callable[..., Any]]


@dataclass
class Content:
    """The arrays and files that packed values refer to. Unpacking takes each out, so that its memory can be freed.

    ``blobs`` has the bytes of each file. Where a model was read from disk, skops files are there as ``Skops``.
    """

    kinds: ClassVar[dict[str, Kind]]

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
        for kind, (is_kind, pack, _) in self.kinds.items():
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
        return self.kinds[kind][2](self, inner, module)

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


def _unpack_skops(content: Content, name: str, module: Any) -> Any:
    file = content.blobs.pop(name)
    return loaded(read_skops(part_of(file)) if isinstance(file, bytes) else file)


def _can_be_loaded(check: Callable[[Any], Any], model: Any) -> None:
    """A model that loading would refuse is not saved."""
    try:
        check(model)
    except ModelFileError as error:
        raise InputError(f"a model of boosted trees cannot be saved: {error}.") from None


def _comes_from(package: str) -> Callable[[Any], bool]:
    return lambda value: type(value).__module__.startswith(f"{package}.") and type(value).__name__ == "Booster"


# kind: (whether a value is of this kind, its packing function, its unpacking function)
Content.kinds = {
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
    "scaler": (
        lambda v: type(v) is Scaler,
        lambda content, v: {name: content.pack(item) for name, item in vars(v).items()},
        lambda content, inner, module: Scaler(**{name: content.unpack(item) for name, item in inner.items()}),
    ),
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
        _unpack_skops,
    ),
}
