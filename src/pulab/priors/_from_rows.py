"""The share of positives among unlabeled rows, estimated from the rows themselves: TIcE and KM2."""

import heapq
import math

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from pulab.metrics import Array
from pulab.priors._sample import Sample


def tice(sample: Sample, rng: np.random.Generator) -> float:
    """TIcE: the label frequency is at least that of any subset. A tree searches for the subset with the highest one."""
    X = np.concatenate(sample)
    labelled = np.arange(len(X)) < len(sample.positive)
    fold = rng.permutation(len(X)) % 5
    frequency = 0.5
    for _ in range(2):  # the first estimate improves the bound of the second
        bounds = [_highest_bound(X, labelled, fold == k, frequency) for k in range(5)]
        frequency = float(np.clip(np.mean(bounds), 1e-6, 1 - 1e-6))
    share_of_all = labelled.mean() / frequency
    return float(np.clip((share_of_all * len(X) - labelled.sum()) / len(sample.unlabeled), 0, 1))


def _highest_bound(X: Array, labelled: NDArray[np.bool_], tree: NDArray[np.bool_], frequency: float) -> float:
    """Grow a tree on one part of the rows, best leaf first. Return the best lower bound on the other rows."""
    delta = max(0.025, 1 / (1 + 0.004 * (~tree).sum()))
    best = labelled[~tree].mean()
    leaves: list[tuple[float, int, NDArray[np.intp]]] = [(-1.0, 0, np.arange(len(X)))]
    n_splits = 0
    while leaves and n_splits < 500:
        _, _, rows = heapq.heappop(leaves)
        children = _split(X, labelled, rows, tree)
        n_splits += 1
        for child in children:
            judged = child[~tree[child]]
            if len(judged) >= 10:
                slack = math.sqrt(frequency * (1 - frequency) * (1 - delta) / (delta * len(judged)))
                best = max(best, labelled[judged].mean() - slack)
                heapq.heappush(leaves, (-float(labelled[child[tree[child]]].mean()), 2 * n_splits + len(leaves), child))
    return float(best)


def _split(
    X: Array, labelled: NDArray[np.bool_], rows: NDArray[np.intp], tree: NDArray[np.bool_]
) -> list[NDArray[np.intp]]:
    """The split, at a quartile of a feature, whose better side has the highest share of labelled rows."""
    grown = rows[tree[rows]]
    if len(grown) < 20:
        return []
    values, marks = X[grown], labelled[grown].astype(np.float64)
    best, where = -1.0, None
    for quartile in (0.25, 0.5, 0.75):
        cuts = np.quantile(values, quartile, axis=0)
        left = values <= cuts
        n_left = left.sum(axis=0)
        in_left = marks @ left
        sides = np.stack([in_left / (n_left + 5), (marks.sum() - in_left) / (len(grown) - n_left + 5)])
        sides[:, (n_left < 5) | (n_left > len(grown) - 5)] = -1
        feature = int(sides.max(axis=0).argmax())
        if sides[:, feature].max() > best:
            best, where = float(sides[:, feature].max()), (feature, cuts[feature])
    if where is None:
        return []
    on_left = X[rows, where[0]] <= where[1]
    return [rows[on_left], rows[~on_left]]


def km2(sample: Sample, rng: np.random.Generator) -> float:
    """KM2: how far U can be moved away from P, in kernel space, before it is no mixture of the sample's points."""
    unlabeled, positive = (
        part[rng.choice(len(part), min(len(part), 400), replace=False)] for part in (sample.unlabeled, sample.positive)
    )
    X = np.concatenate([unlabeled, positive])
    if X.shape[1] > 50:
        X = PCA(50, random_state=0).fit_transform(X)
    squares = (X**2).sum(axis=1)
    distances = np.maximum(squares[:, None] + squares - 2 * X @ X.T, 0)
    n, m = len(unlabeled), len(positive)
    apart = np.concatenate([np.full(n, 1 / n), np.full(m, -1 / m)])
    kernels = [np.exp(-distances / (2 * np.median(distances) * w**2 + 1e-300)) for w in np.logspace(-1, 1, 5)]
    kernel = max(kernels, key=lambda k: float(apart @ k @ apart))
    norm = math.sqrt(max(float(apart @ kernel @ apart), 1e-300))
    solver = _SimplexProjection(kernel)

    def distance(weight: float) -> float:
        return solver(np.concatenate([np.full(n, weight / n), np.full(m, (1 - weight) / m)]))

    begin = (distance(1.05) - distance(1.0)) / 0.05
    threshold = 0.8 * begin + 0.2 * norm
    low, high, step = 1.0, 8.0, 0.04
    while high - low > step:
        middle = (low + high) / 2
        slope = (distance(middle + step / 2) - distance(middle)) * 2 / step
        low, high = (low, middle) if slope > threshold else (middle, high)
    weight = (low + high) / 2
    return (weight - 1) / weight


class _SimplexProjection:
    """The distance, in kernel space, of a signed mixture of points from the nearest true mixture.

    Computed by accelerated gradient descent.
    """

    def __init__(self, kernel: Array) -> None:
        self._kernel = kernel
        self._rate = 1 / float(np.linalg.eigvalsh(kernel)[-1])
        self._last = np.full(len(kernel), 1 / len(kernel))

    def __call__(self, mixture: Array) -> float:
        target = self._kernel @ mixture
        here = ahead = self._last
        momentum = 1.0
        for _ in range(300):
            there = _onto_simplex(ahead - self._rate * (self._kernel @ ahead - target))
            following = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
            ahead = there + (momentum - 1) / following * (there - here)
            moved = float(np.abs(there - here).sum())
            here, momentum = there, following
            if moved < 1e-7:
                break
        self._last = here
        off = mixture - here
        return math.sqrt(max(float(off @ self._kernel @ off), 0.0))


def _onto_simplex(values: Array) -> Array:
    """The nearest point with non-negative coordinates that add up to one."""
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, len(values) + 1)
    return np.asarray(np.maximum(values - excess[np.flatnonzero(ordered > excess)[-1]], 0))
