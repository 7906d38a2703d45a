"""Extremely randomised trees that minimise the non-negative PU risk. All nodes of a depth are split at once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pulab.errors import InputError
from pulab.metrics import Array

Index = NDArray[np.int64]
Count = NDArray[np.integer[Any]]
Tree = tuple[Any, ...]  # arrays with an item per node
Keep = Callable[[Callable[[], Tree]], Tree]
LEAF = -1
WIDE = 64  # of more columns, features are drawn with replacement: a permutation per node would cost more


def risk(of_positives: Array, of_population: Array) -> Array:
    """The least non-negative PU risk of a node with the quadratic loss: 4·w_U·v·(1 − v), and 0 where v > 1.

    w_P is the prior times the share of P in the node, w_U the share of the population in it, and v = w_P/w_U.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        value = 4 * of_positives * (1 - of_positives / of_population)
    return np.asarray(np.where(of_positives < of_population, value, 0.0))


@dataclass
class PUTrees:
    """A forest as arrays with an item per node. The children of a node come after it. A leaf has no children."""

    n_features: int
    roots: Index
    feature: NDArray[np.int32]
    threshold: Array
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    gaps_left: NDArray[np.bool_]
    share: Array

    def __call__(self, X: Any) -> Array:
        """The mean over the trees of the share of positives in the leaf of each row."""
        if X.shape[1] != self.n_features:
            raise InputError(f"these trees know {self.n_features} features, got {X.shape[1]}. Pass the same columns.")
        total = np.zeros(len(X))
        for start in range(0, len(X), 2**14):  # blocks that fit into the cache of the processor
            block = X[start : start + 2**14]
            for root in self.roots:
                total[start : start + 2**14] += self.share[self._leaves(block, root)]
        return total / len(self.roots)

    def _leaves(self, X: Any, root: int) -> Index:
        node = np.full(len(X), root)
        rows = np.arange(len(X))
        while len(rows):
            here = node[rows]
            inner = self.left[here] != LEAF
            rows, here = rows[inner], here[inner]
            value = X[rows, self.feature[here]]
            goes_left = (value <= self.threshold[here]) | (np.isnan(value) & self.gaps_left[here])
            node[rows] = np.where(goes_left, self.left[here], self.right[here])
        return node

    def check(self) -> None:
        """Refuse arrays that no fit produces: a child before its parent would be followed for ever."""
        arrays = (self.feature, self.threshold, self.left, self.right, self.gaps_left, self.share)
        n, roots = len(self.share), self.roots
        kinds = tuple(array.dtype.kind for array in (*arrays, roots))
        sound = n > 0 and all(array.shape == (n,) for array in arrays) and kinds == ("i", "f", "i", "i", "b", "f", "i")
        sound = sound and roots.ndim == 1 and len(roots) > 0 and bool(((roots >= 0) & (roots < n)).all())
        if sound:
            inner = np.flatnonzero(self.left != LEAF)
            children = np.stack([self.left[inner], self.right[inner]])
            sound = bool(((children > inner) & (children < n)).all())
            sound &= bool(((self.feature[inner] >= 0) & (self.feature[inner] < self.n_features)).all())
            sound &= bool(((self.share >= 0) & (self.share <= 1)).all())
        if not sound:
            raise InputError("the trees are invalid. Fit them again.")


class _Best(NamedTuple):
    """The best split of each node: its risk (infinite if there is none), feature and threshold."""

    risk: Array
    feature: Index
    threshold: Array
    gaps_left: NDArray[np.bool_]


class Grower:
    """Grows trees on labelled and unlabeled rows. In a single sample the labelled ones count in the population, too."""

    def __init__(
        self,
        X: Any,
        positive: NDArray[np.bool_],
        prior: float,
        scenario: str,
        *,
        n_tried: int,
        min_leaf: int,
        max_depth: int | None,
    ) -> None:
        self._X = np.ascontiguousarray(np.asarray(X, dtype=np.float64).T)  # by column
        self._positive = positive
        self._n_tried, self._min_leaf, self._max_depth = n_tried, min_leaf, max_depth
        self._in_population = scenario == "single-sample"
        self._weight_p = prior / positive.sum()
        self._weight_u = 1 / (len(positive) if self._in_population else (~positive).sum())
        self._has_gaps = bool(np.isnan(self._X).any())

    def _shares(self, labelled: Count, rows: Count) -> tuple[Array, Array]:
        """w_P and w_U of nodes with so many labelled rows and so many rows."""
        of_population = rows if self._in_population else rows - labelled
        return np.asarray(self._weight_p * labelled), np.asarray(self._weight_u * of_population)

    def forest(self, n_trees: int, rng: np.random.Generator, keep: Keep = lambda make: make()) -> PUTrees:
        """n trees, one after the other.

        ``keep`` gets a function that makes a tree. It returns this tree, or the same one from a checkpoint.
        """
        trees, roots, n = [], [], 0
        for _ in range(n_trees):
            tree = keep(lambda: self._tree(rng))
            moved = [np.where(children == LEAF, LEAF, children + n) for children in (tree[2], tree[3])]
            trees.append((tree[0], tree[1], *moved, *tree[4:]))
            roots.append(n)
            n += len(tree[0])
        feature, threshold, left, right, gaps_left, share = (np.concatenate(part) for part in zip(*trees, strict=True))
        return PUTrees(
            len(self._X),
            np.array(roots, dtype=np.int64),
            feature.astype(np.int32),
            threshold,
            left.astype(np.int32),
            right.astype(np.int32),
            gaps_left,
            share,
        )

    def _tree(self, rng: np.random.Generator) -> Tree:
        """Arrays of one tree. Its nodes are numbered by depth."""
        levels: list[tuple[Any, ...]] = []
        rows, starts, n_before, depth = np.arange(self._X.shape[1]), np.zeros(1, dtype=np.int64), 0, 0
        while len(starts):
            n = len(starts)
            node, count = _node_of_row(rows, starts), np.diff(starts, append=len(rows))
            of_p, of_u = self._shares(np.bincount(node, self._positive[rows], minlength=n), count)
            share = np.where(of_p < of_u, of_p / np.where(of_u > 0, of_u, 1), 1.0)
            splits = (risk(of_p, of_u) > 0) & (count >= 2 * self._min_leaf)
            splits &= self._max_depth is None or depth < self._max_depth
            rows, starts = _of_nodes(rows, starts, splits)
            best = self._best_splits(rows, starts, rng)
            found = np.isfinite(best.risk)
            rows, starts = _of_nodes(rows, starts, found)
            splits[splits] = found
            feature, threshold, gaps_left = best.feature[found], best.threshold[found], best.gaps_left[found]

            node = _node_of_row(rows, starts)
            value = self._X[feature[node], rows]
            goes_right = ~((value <= threshold[node]) | (np.isnan(value) & gaps_left[node]))
            side = 2 * node + goes_right
            rows = rows[np.argsort(side, kind="stable")]
            starts = np.concatenate([[0], np.cumsum(np.bincount(side, minlength=2 * len(starts)))[:-1]])
            starts = starts if len(rows) else starts[:0]

            first = n_before + n + 2 * np.arange(splits.sum())
            level = [np.zeros(n, dtype=np.int64), np.zeros(n), *(np.full(n, LEAF) for _ in "lr"), np.zeros(n, bool)]
            for array, values in zip(level, (feature, threshold, first, first + 1, gaps_left), strict=True):
                array[splits] = values
            levels.append((*level, share))
            n_before, depth = n_before + n, depth + 1
        return tuple(np.concatenate(part) for part in zip(*levels, strict=True))

    def _best_splits(self, rows: Index, starts: Index, rng: np.random.Generator) -> _Best:
        m, d = len(starts), len(self._X)
        if d <= WIDE:
            tried = np.argsort(rng.random((m, d)), axis=1)[:, : self._n_tried]
        else:
            tried = rng.integers(d, size=(m, self._n_tried))
        best = self._evaluated(rows, starts, tried, rng)
        failed = ~np.isfinite(best.risk)
        if failed.any() and self._n_tried < d:  # perhaps only constant features were drawn
            again, starts_again = _of_nodes(rows, starts, failed)
            tried = self._varying(again, starts_again, rng)
            for array, second in zip(best, self._evaluated(again, starts_again, tried, rng), strict=True):
                array[failed] = second
        return best

    def _varying(self, rows: Index, starts: Index, rng: np.random.Generator) -> Index:
        """For each node some features that are not constant in it, if there are any."""
        tried = np.zeros((len(starts), self._n_tried), dtype=np.int64)
        for i, part in enumerate(np.split(rows, starts[1:])):
            block = self._X[:, part]
            same = (block == block[:, :1]) | (np.isnan(block) & np.isnan(block[:, :1]))
            varying = np.flatnonzero(~same.all(axis=1))
            if len(varying):
                tried[i] = np.resize(rng.permutation(varying), self._n_tried)
        return tried

    def _evaluated(self, rows: Index, starts: Index, tried: Index, rng: np.random.Generator) -> _Best:
        """The best of the tried features of each node, each with one random threshold."""
        m, k = tried.shape
        if not m:
            return _Best(np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0, dtype=bool))
        node = _node_of_row(rows, starts)
        values = self._X.ravel()[(tried.T * self._X.shape[1])[:, node] + rows]  # (features, rows)
        with np.errstate(invalid="ignore"):
            low, high = np.fmin.reduceat(values, starts, axis=1), np.fmax.reduceat(values, starts, axis=1)
        place = rng.random((k, m))
        threshold = low * (1 - place) + high * place
        threshold = np.where(threshold < high, np.maximum(threshold, low), low)

        # Counts of labelled rows and of all rows, per feature and node.
        labelled = np.flatnonzero(self._positive[rows])
        cell = node[labelled] + m * np.arange(k)[:, None]

        def counts(marks: NDArray[np.bool_]) -> Count:
            of_labelled = np.bincount(cell[marks[:, labelled]], minlength=m * k).reshape(k, m)
            return np.stack([of_labelled, np.add.reduceat(marks, starts, axis=1, dtype=np.int32)])

        whole = np.stack([np.bincount(node[labelled], minlength=m), np.bincount(node, minlength=m)])[:, None]
        left = counts(values <= threshold[:, node])
        options = [left]
        if self._has_gaps:
            options.append(left + counts(np.isnan(values)))
        risks = np.stack([self._risk_of(side, whole) for side in options])  # (gaps right or left, features, nodes)
        flat = risks.reshape(-1, m)
        at = flat.argmin(axis=0)
        gaps, which, nodes = at // k, at % k, np.arange(m)
        # Where no gap was seen, a gap goes with the greater part of the rows.
        heavier_left = left[1, which, nodes] * 2 > whole[1, 0]
        seen = flat[which, nodes] != flat[which + k, nodes] if self._has_gaps else np.zeros(m, dtype=bool)
        gaps_left = np.where(seen, gaps == 1, heavier_left)
        return _Best(flat[at, nodes], tried[nodes, which], threshold[which, nodes], gaps_left)

    def _risk_of(self, left: Count, whole: Count) -> Array:
        """The risk of splits, infinite where a side has too few rows."""
        right = whole - left
        value = risk(*self._shares(*left)) + risk(*self._shares(*right))
        return np.where(np.minimum(left[1], right[1]) >= self._min_leaf, value, np.inf)


def _node_of_row(rows: Index, starts: Index) -> Index:
    """The number of the node of each row. The rows are sorted by their nodes, which begin at ``starts``."""
    return np.repeat(np.arange(len(starts)), np.diff(starts, append=len(rows)))


def _of_nodes(rows: Index, starts: Index, keep: NDArray[np.bool_]) -> tuple[Index, Index]:
    """The rows of some nodes, and where these begin."""
    sizes = np.diff(starts, append=len(rows))
    kept = rows[np.repeat(keep, sizes)]
    return kept, np.concatenate([[0], np.cumsum(sizes[keep])[:-1]]).astype(np.int64)[: keep.sum()]
