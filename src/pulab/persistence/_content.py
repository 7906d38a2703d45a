"""Classifiers of pulab and their parts, packed: the name of a class, and its attributes."""

from contextlib import nullcontext
from typing import Any

from pulab._packing import Content as Plain
from pulab._packing import check_jobs
from pulab._scaling import Scaler
from pulab._validation import AnyArray
from pulab.calibration import PUCalibrator
from pulab.errors import InputError, ModelFileError, warn
from pulab.estimators._pu_trees import PUTrees
from pulab.methods import METHODS


class ModuleNeeded(InputError):
    """The model holds the weights of a module whose code the caller must pass."""


class Content(Plain):
    """Values as in ``pulab._packing``, and also classifiers of pulab."""


def _pack_network(content: Content, module: Any) -> Any:
    return {name: content.pack(tensor.detach().cpu().numpy()) for name, tensor in module.state_dict().items()}


def _pack_object(content: Content, value: Any) -> Any:
    """A classifier or a part of one: the name of its class, and its attributes."""
    state = dict(vars(value))
    if hasattr(value, "module"):
        state["module"] = None if value.module is None else "given"
        state["device"], state["device_"] = "auto", None
    if "checkpoint" in state:
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


# The own kinds come first: a Scaler, which both know, is an "object" in every model file.
Content.kinds = {
    "net": (lambda v: hasattr(v, "named_parameters"), _pack_network, lambda content, inner, module: None),
    "object": (_is_ours, _pack_object, _unpack_object),
    **Plain.kinds,
}
