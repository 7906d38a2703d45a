"""Of which training a checkpoint is: everything that the result of a fit depends on."""

from collections.abc import Mapping
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn

from pulab import __version__
from pulab._scaling import Scaler
from pulab.training import Identity, Job, Stream, checksum
from pulab.training.checkpoint import canonical, sha256

if TYPE_CHECKING:
    from pulab.estimators._base import BasePUClassifier, Task

# Parameters that do not change a result, or whose effect is told by another entry.
LEFT_OUT = ("checkpoint", "verbose", "warm_start", "module", "device", "random_state")


def identity_of(estimator: "BasePUClassifier", task: "Task", job: Job, stage: int) -> Identity:
    """Of the training that a job of this estimator is about to begin. Its module has its first weights."""
    parameters = {n: _shown(value) for n, value in estimator.get_params(deep=False).items() if n not in LEFT_OUT}
    settings = {
        "the version of pulab": __version__,
        "the version of torch": torch.__version__,
        "the method": type(estimator).__name__,
        "the number of the network": stage,
        "the seed by random_state": task.seeds["training"],
        "the device": task.device.type,
        **parameters,
        "prior": task.prior if task.prior == task.prior else None,  # not NaN, which is not equal to itself
    }
    module = _of_module(job.module)
    return Identity(settings, lambda: {"the module": module, **_of_data(task, estimator.scaler_)})


def identity_of_fit(estimator: Any, arrays: Mapping[str, Any], seed: int | None, **more: Any) -> Identity:
    """Of a fit without a network of its own to these arrays. ``more`` are other settings."""
    settings = {
        "the version of pulab": __version__,
        **{f"the version of {name}": version(name) for name in LIBRARIES if find_spec(LIBRARIES[name])},
        "the method": type(estimator).__name__,
        "the seed by random_state": seed,
        **more,
        # Also the parameters of classifiers in it.
        **{n: _shown(value) for n, value in estimator.get_params(deep=True).items() if n not in (*LEFT_OUT, "n_jobs")},
    }
    sums = {name: checksum_of(array) for name, array in arrays.items()}  # now: later they would be held until then
    return Identity(settings, lambda: sums)


# Libraries whose fits such a method may contain, and their modules.
LIBRARIES = {"scikit-learn": "sklearn", "lightgbm": "lightgbm", "xgboost": "xgboost"}


def checksum_of(array: Any) -> str:
    """The checksum of an array of numbers or of other values, sparse or not."""
    if sparse.issparse(array):
        rows = sparse.csr_array(array)
        parts = {"data": rows.data, "columns": rows.indices, "starts": rows.indptr, "shape": np.array(rows.shape)}
    else:
        array = np.asarray(array)
        parts = {"": array}
    if all(part.dtype.kind in "biuf" for part in parts.values()):
        return checksum({name: torch.from_numpy(np.ascontiguousarray(part)) for name, part in parts.items()})
    return sha256(canonical([array.shape, [repr(item) for item in array.ravel().tolist()]]))


def identity_of_body(estimator: "BasePUClassifier", task: "Task", job: Job) -> Identity:
    """Of a self-supervised training: it depends on no label, and on few of the estimator's parameters."""
    settings = {
        "the version of pulab": __version__,
        "the version of torch": torch.__version__,
        "the seed by random_state": job.seeds["draws"],
        "the device": task.device.type,
        "the objective": {name: _shown(value) for name, value in vars(job.objective).items() if name.startswith("_")},
        "the schedule": {name: _shown(value) for name, value in vars(job.schedule).items()},
        "dtype": _shown(task.dtype),
    }
    module = _of_module(job.module)
    return Identity(settings, lambda: {"the module": module, "X": _of_rows(job.streams)})


def _of_module(module: nn.Module) -> str:
    """Its structure and its first weights. The code of its passes cannot be seen."""
    return checksum({repr(module): torch.empty(0), **dict(module.named_parameters()), **dict(module.named_buffers())})


def _of_data(task: "Task", scaler: Scaler | None) -> Mapping[str, str]:
    """The rows as the network sees them, and how they were scaled."""
    scaling = {} if scaler is None else {name: torch.from_numpy(value) for name, value in vars(scaler).items()}
    weighed = {name: stream.weight for name, stream in task.streams.items() if stream.weight is not None}
    data = {
        "X": _of_rows({"X": Stream(task.rows, torch.empty(0))}) + checksum(scaling),
        "y": checksum({"y": torch.from_numpy(task.positive)}),
    }
    others = {
        "X_negative": {name: stream for name, stream in task.streams.items() if name == "n"},
        "X_val or y_val": {n: s for n, s in (task.validation or {}).items() if s.rows is not task.rows and n != "n"},
    }
    if weighed:
        data["sample_weight"] = checksum({name: torch.from_numpy(weight) for name, weight in weighed.items()})
    return data | {name: _of_rows(streams) for name, streams in others.items() if streams}


def _of_rows(streams: Mapping[str, Stream]) -> str:
    parts: dict[str, Tensor] = {}
    for name, stream in streams.items():
        rows = stream.rows
        parts |= {f"{name} rows": rows.dense, f"{name} shape": torch.tensor(rows.shape), f"{name} index": stream.index}
        if rows.sparse is not None:
            parts |= {f"{name} columns": torch.from_numpy(rows.sparse.indices)}
            parts |= {f"{name} starts": torch.from_numpy(rows.sparse.indptr)}
    return checksum(parts)


def _shown(value: Any) -> Any:
    """A parameter as JSON. A function is told by its name."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value != value:
        return "NaN"  # which is equal to itself
    if isinstance(value, Mapping):
        return [[_shown(key), _shown(item)] for key, item in value.items()]
    if isinstance(value, np.random.RandomState):
        return [_shown(item) for item in value.get_state(legacy=True)]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple | range | np.ndarray):
        return [_shown(item) for item in value]
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"
