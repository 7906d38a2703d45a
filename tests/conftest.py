"""What many tests share."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

torch.set_num_threads(1)  # the fits are small; two threads on a busy machine can be fifty times slower than one


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    no_gpu = pytest.mark.skip(reason="there is no CUDA device here")
    data = Path(os.environ.get("PULAB_DATA", "no such folder"))
    for item in items:
        if "gpu" in item.keywords and not torch.cuda.is_available():
            item.add_marker(no_gpu)
        for mark in item.iter_markers("realdata"):
            (folder,) = mark.args
            if not (data / folder).is_dir():
                item.add_marker(pytest.mark.skip(reason=f"PULAB_DATA names no folder with {folder} in it"))


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Modules that a test makes have the same weights in any company."""
    torch.manual_seed(0)


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
