"""Data sets for the comparison of the defaults: some to choose by, others to show the result on.

Each gives a pool of rows with their classes. Mixtures of normal clouds also know the density of both classes, and so
the lowest error that any classifier can have.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulab.datasets import DATASETS

Array = NDArray[np.float64]
POOL = 12_000  # rows of a synthetic pool: half of them positive


@dataclass(frozen=True)
class Clouds:
    """Two classes, each a mixture of normal clouds that weigh the same."""

    positive: Sequence[Sequence[float]]  # the centres
    negative: Sequence[Sequence[float]]
    spread: tuple[float, float] = (1.0, 1.0)
    noise: int = 0  # further columns that tell nothing

    def pool(self) -> tuple[Array, NDArray[np.int64]]:
        """Rows and their classes."""
        rng = np.random.default_rng(0)
        y = np.repeat([1, 0], POOL // 2)
        parts = []
        for centres, spread in zip((self.positive, self.negative), self.spread, strict=True):
            at = np.array(centres)[rng.integers(len(centres), size=POOL // 2)]
            parts.append(at + spread * rng.normal(size=at.shape))
        return np.hstack([np.vstack(parts), rng.normal(size=(POOL, self.noise))]), y

    def is_positive(self, X: Array, prior: float) -> NDArray[np.bool_]:
        """The decisions of the best possible rule."""
        return prior * self._density(X, 0) > (1 - prior) * self._density(X, 1)

    def _density(self, X: Array, which: int) -> Array:
        centres, spread = np.array((self.positive, self.negative)[which]), self.spread[which]
        distance = ((X[:, None, : centres.shape[1]] - centres) ** 2).sum(2)
        return np.asarray(np.exp(-distance / (2 * spread**2)).mean(1) / spread ** centres.shape[1])


def rings() -> tuple[Array, NDArray[np.int64]]:
    """A noisy circle in a larger one."""
    return _in_plane(lambda rng, n, which: _circle(rng, n, 1.0 + 0.8 * (1 - which)), noise=0.3)


def banana() -> tuple[Array, NDArray[np.int64]]:
    """Two bent, noisy arcs that interlock."""

    def arc(rng: np.random.Generator, n: int, which: int) -> Array:
        at = np.pi * rng.random(n)
        up = np.stack([np.cos(at), np.sin(at)], 1)
        return up if which else np.stack([1 - up[:, 0], 0.5 - up[:, 1]], 1)

    return _in_plane(arc, noise=0.35)


def _circle(rng: np.random.Generator, n: int, radius: float) -> Array:
    at = 2 * np.pi * rng.random(n)
    return radius * np.stack([np.cos(at), np.sin(at)], 1)


def _in_plane(shape: Callable[[np.random.Generator, int, int], Array], noise: float) -> tuple[Array, NDArray[np.int64]]:
    rng = np.random.default_rng(0)
    X = np.vstack([shape(rng, POOL // 2, which) for which in (1, 0)])
    return X + noise * rng.normal(size=X.shape), np.repeat([1, 0], POOL // 2)


def pictures(name: str) -> tuple[Array, NDArray[np.int64]]:
    """The first 30 principal components of 12,000 pictures."""
    from sklearn.decomposition import PCA

    data = DATASETS[name].load()
    rows = data.X_train[:POOL].reshape(POOL, -1)
    return PCA(30, random_state=0).fit_transform(rows).astype(np.float64), data.y_train[:POOL]


def ours(name: str) -> tuple[Array, NDArray[np.int64]]:
    """Rows of one of pulab's data sets."""
    data = DATASETS[name].load()
    rows = np.random.default_rng(0).permutation(len(data.y_train))[:POOL]
    return data.X_train[rows].reshape(len(rows), -1).astype(np.float64), data.y_train[rows]


def real(name: str) -> tuple[Array, NDArray[np.int64]]:
    """A real table as numbers: a column for each of at most 20 words, gaps filled by the median."""
    import polars as pl
    from _real_tables import read

    frame, truth = read(name)
    columns = []
    for column in frame:
        if column.dtype.is_numeric() or column.dtype == pl.Boolean:
            values = column.cast(pl.Float64).fill_nan(None)
            columns.append(values.fill_null(values.median()).to_numpy())
        elif column.dtype in (pl.String, pl.Categorical, pl.Enum) and column.n_unique() <= 20:
            words = column.cast(pl.String)
            columns += [
                (words == word).fill_null(False).to_numpy().astype(float)
                for word in sorted(words.drop_nulls().unique())
            ]
    rows = np.random.default_rng(0).permutation(len(truth))[:60_000]
    return np.stack(columns, 1)[rows], truth[rows].astype(np.int64)


Pool = Callable[[], tuple[Array, NDArray[np.int64]]]

# Defaults were chosen on these alone ...
DEVELOPMENT: dict[str, Clouds | Pool] = {
    "two spreads": Clouds([[0.0] * 4], [[0.8] * 4], spread=(1.0, 1.6)),
    "overlap": Clouds([[0.6] * 3], [[0.0] * 3], noise=7),
    "parity": Clouds(
        [[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]],
        [[-1, -1, -1], [-1, 1, 1], [1, -1, 1], [1, 1, -1]],
        spread=(0.5, 0.5),
    ),
    "rings": rings,
    "mnist": lambda: pictures("mnist"),
    "spambase": lambda: ours("spambase"),
    "adult": lambda: ours("adult"),
    "churn": lambda: real("churn"),
}
# ... and these show what came of it.
HELD_OUT: dict[str, Clouds | Pool] = {
    "gaussians": Clouds([[0.75, 0.75, 0, 0, 0]], [[-0.75, -0.75, 0, 0, 0]]),
    "xor": Clouds([[1, 1], [-1, -1]], [[1, -1], [-1, 1]], spread=(0.6, 0.6), noise=3),
    "mixture": Clouds([[0, 0, 0], [3, 0, 1]], [[1.5, 1.5, 0], [1.5, -1.5, 0], [-2, 0, 1]], spread=(0.8, 1.0), noise=2),
    "banana": banana,
    "fashion-mnist": lambda: pictures("fashion-mnist"),
    "caravan": lambda: real("caravan"),
    "chains": lambda: real("chains"),
    "diamonds": lambda: real("diamonds"),
    "voters": lambda: real("voters"),
}
SETS = {"development": DEVELOPMENT, "held-out": HELD_OUT}


@cache
def pool(name: str) -> tuple[Array, NDArray[np.int64]]:
    """Rows and classes of a data set, made once."""
    data = (DEVELOPMENT | HELD_OUT)[name]
    return data.pool() if isinstance(data, Clouds) else data()


def best_rule(name: str) -> Callable[[Any, float], NDArray[np.bool_]] | None:
    """The best possible decisions, where the densities are known."""
    data = (DEVELOPMENT | HELD_OUT)[name]
    return data.is_positive if isinstance(data, Clouds) else None
