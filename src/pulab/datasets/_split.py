"""The result of a loader."""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pulab.errors import InputError


class Split(NamedTuple):
    """Training and test rows with their true labels, 1 for the positive classes."""

    X_train: NDArray[Any]
    y_train: NDArray[np.int64]
    X_test: NDArray[Any]
    y_test: NDArray[np.int64]


def shuffled_split(X: Any, y: Any, n_test: int) -> Split:
    """A random part of the rows for the test, always the same one."""
    order = np.random.default_rng(0).permutation(len(y))
    test, train = order[:n_test], order[n_test:]
    return Split(X[train], y[train].astype(np.int64), X[test], y[test].astype(np.int64))


def positive_classes(positive: Collection[Any], names: Sequence[Any]) -> list[Any]:
    """The names of the positive classes, which are given by name or by number."""
    known = dict(enumerate(names)) | {name: name for name in names}
    try:
        chosen = {known[item] for item in positive}
    except (KeyError, TypeError):  # no such class, or no collection
        chosen = set()
    if not 0 < len(chosen) < len(names):
        raise InputError(
            f"positive must name some, not all, of the {len(names)} classes, in a collection such as "
            f"{tuple(names[:2])}, got {positive!r}."
        )
    return sorted(chosen)
