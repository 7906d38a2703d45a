"""Standardising features by the training rows."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin

Index = NDArray[np.int64]
Array = NDArray[np.float64]
Over = Callable[[Array, str], Array]


@dataclass(frozen=True)
class Scaler:
    """Standardise features (images: channels) by the training rows, in float64. Outliers are cut at ±20 deviations."""

    unit: Array  # the largest absolute value: squares of values divided by it neither overflow nor underflow
    center: Array
    scale: Array

    LIMIT = 20.0

    @classmethod
    def fit(cls, X: Any, rows: Index, over: Over = lambda values, how: values) -> "Scaler":
        """Mean and standard deviation over these rows. Sparse features are scaled, not centred: zeros stay zeros.

        ``over`` gets sums and maxima over the rows here, and gives those over the rows of all processes.
        """
        unit, center, scale = _sparse_moments(X[rows]) if sparse.issparse(X) else _moments(X, rows, over)
        # The deviation of a constant feature is rounding noise, not 0. Dividing by 1 keeps the feature near 0.
        constant = scale <= 1e-12 * np.abs(center)
        return cls(unit, center, np.where(constant, 1.0, scale))

    def __call__(self, X: Any, dtype: Any) -> Any:
        if sparse.issparse(X) and not self.center.any():
            scaled = sparse.csr_array(X, dtype=np.float64, copy=True)
            scaled.data = np.clip(
                scaled.data / self.unit[scaled.indices] / self.scale[scaled.indices], -self.LIMIT, self.LIMIT
            )
            return scaled.astype(dtype)
        out = np.empty(X.shape, dtype=dtype)
        for block in _blocks(np.arange(X.shape[0]), X):
            out[block] = np.clip((_dense(X[block]) / self.unit - self.center) / self.scale, -self.LIMIT, self.LIMIT)
        return out


class CutScaler(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """The same as a step of a pipeline: one far value must not decide a linear model."""

    def fit(self, X: Any, y: Any = None) -> "CutScaler":
        """Learn from all rows."""
        scaler = Scaler.fit(X, np.arange(X.shape[0]))
        self.unit_, self.center_, self.scale_ = scaler.unit, scaler.center, scaler.scale
        return self

    def transform(self, X: Any) -> Any:
        """Standardised rows."""
        return Scaler(self.unit_, self.center_, self.scale_)(X, np.float64)


def _moments(X: Array, rows: Index, over: Over) -> tuple[Array, Array, Array]:
    axes = (0, *range(2, X.ndim))
    nothing = np.zeros((X.shape[1], *[1] * (X.ndim - 2)))
    count = over(np.array(float(len(rows) * math.prod(X.shape[2:]))), "sum")
    peaks = [np.abs(_dense(X[block])).max(axis=axes, keepdims=True)[0] for block in _blocks(rows, X)]
    unit = _no_zeros(over(np.max([nothing, *peaks], axis=0), "max"))

    def mean(power: int, center: Any = 0.0) -> Any:
        terms = (_dense(X[block]) / unit - center for block in _blocks(rows, X))
        return over(sum(((term**power).sum(axis=axes, keepdims=True)[0] for term in terms), nothing), "sum") / count

    center = mean(1)
    return unit, center, np.sqrt(mean(2, center))


def _sparse_moments(X: Any) -> tuple[Array, Array, Array]:
    unit = _no_zeros(abs(X).max(axis=0).toarray().ravel().astype(np.float64))
    values = X.data / unit[X.indices]
    first, second = (np.bincount(X.indices, values**power, minlength=X.shape[1]) / X.shape[0] for power in (1, 2))
    variance = second - first**2
    return unit, np.zeros(1), np.sqrt(np.where(variance > 1e-12 * second, variance, 0.0))


def _no_zeros(values: Array) -> Array:
    return np.where(values == 0, 1.0, values)


def _blocks(rows: Index, X: Any) -> list[Index]:
    """The rows in blocks of about 32 MiB, so that there is no second copy of X in float64."""
    at_once = max(1, 2**22 // math.prod(X.shape[1:]))
    return np.array_split(rows, math.ceil(len(rows) / at_once)) if len(rows) else []


def _dense(block: Any) -> Array:
    return np.asarray(block.toarray() if sparse.issparse(block) else block, dtype=np.float64)
