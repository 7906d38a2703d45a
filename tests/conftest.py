"""What many tests share."""

import random
from collections.abc import Callable, Iterator
from functools import wraps
from threading import get_ident
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from pulab.datasets import find
from pulab.estimators._contract import PUClassifier
from pulab.methods import METHODS

torch.set_num_threads(1)  # the fits are small; two threads on a busy machine can be fifty times slower than one


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    no_gpu = pytest.mark.skip(reason="there is no CUDA device here")
    for item in items:
        if "gpu" in item.keywords and not torch.cuda.is_available():
            item.add_marker(no_gpu)
        for mark in item.iter_markers("realdata"):
            (folder,) = mark.args
            if not find([folder]):
                item.add_marker(pytest.mark.skip(reason=f"no folder of data has {folder} in it: set PULAB_DATA"))


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Modules that a test makes have the same weights in any company."""
    torch.manual_seed(0)


def global_state() -> dict[str, Any]:
    """What a call of pulab must leave as it was. torch's threads, number type and flags; numpy's errors."""
    return {
        "threads of torch": torch.get_num_threads(),
        "default dtype": torch.get_default_dtype(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "cudnn": (torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark),
        "gradients": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        "errors of numpy": np.geterr(),
    }


def random_state() -> dict[str, Any]:
    """The global sources of random numbers."""
    kind, keys, *rest = np.random.get_state()  # noqa: NPY002
    return {
        "numpy": (kind, keys.tobytes(), *rest),
        "random": random.getstate(),
        "torch": torch.get_rng_state().numpy().tobytes(),
    }


_running: list[int] = []  # threads of the guarded calls that have begun, until all of them have ended
_ended: list[int] = []
CALLS = ("fit", "predict", "predict_proba", "decision_function", "score", "calibrate", "raw_scores")


def guarded(call: Callable[..., Any]) -> Callable[..., Any]:
    """The same method, which fails if it changes global settings or random numbers, also when it raises an error.

    Without a number as ``random_state`` a fit draws its seed from numpy's global source, as in scikit-learn. A module
    of the user's own may draw from torch's when it predicts.
    """

    @wraps(call)
    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        excused = {"numpy"} if not isinstance(getattr(self, "random_state", 0), int) else set()
        excused |= {"torch"} if getattr(self, "module", None) is not None and call.__name__ != "fit" else set()
        before = global_state() | random_state()
        _running.append(get_ident())
        try:
            return call(self, *args, **kwargs)
        finally:
            after = global_state() | random_state()
            changed = {name for name in before if after[name] != before[name]} - excused
            alone = set(_running) == {get_ident()}  # fits of several threads share what is global until all have ended
            _ended.append(get_ident())
            if len(_ended) == len(_running):
                _running.clear()
                _ended.clear()
            assert not (alone and changed), f"{type(self).__name__}.{call.__name__} changes: {changed}"

    return checked


@pytest.fixture(scope="session", autouse=True)
def every_call_is_guarded() -> None:
    """All methods of all classifiers, in all tests."""
    classes = {cls for method in METHODS.values() for cls in method.load().__mro__ if issubclass(cls, PUClassifier)}
    for cls in classes:
        for name in set(CALLS) & vars(cls).keys():
            setattr(cls, name, guarded(vars(cls)[name]))


@pytest.fixture(autouse=True)
def nothing_is_left_behind(seeded: None) -> Iterator[None]:
    """No test, and so no call of pulab in it, changes global settings. Tests that do it on purpose restore them."""
    before = global_state()
    yield
    after = global_state()
    assert after == before, [name for name in before if after[name] != before[name]]


class Blobs:
    """Two clouds far apart: PU data in either scenario, and the truth."""

    def __init__(self, scenario: str, seed: int = 0, n: int = 400, n_labeled: int = 60) -> None:
        rng = np.random.default_rng(seed)
        self.prior = 0.4
        self.y_true = (np.arange(n) < self.prior * n).astype(np.int64)
        self.X = self._points(self.y_true, rng)
        self.s = np.zeros(n, dtype=np.int64)
        if scenario == "single-sample":
            self.s[:n_labeled] = 1
        else:
            self.X = np.concatenate([self._points(np.ones(n_labeled), rng), self.X])
            self.y_true = np.concatenate([np.ones(n_labeled, dtype=np.int64), self.y_true])
            self.s = np.concatenate([np.ones(n_labeled, dtype=np.int64), self.s])
        order = rng.permutation(len(self.s))
        self.X, self.s, self.y_true = self.X[order], self.s[order], self.y_true[order]

    @staticmethod
    def _points(y: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float64]:
        return rng.normal(size=(len(y), 5)) + 4.0 * (np.asarray(y)[:, None] - 0.5)


@pytest.fixture
def blobs() -> Blobs:
    return Blobs("case-control")
