"""Tables: one that scikit-learn carries, and two synthetic ones that are hard for their size."""

from typing import Any

import numpy as np

from pulab.datasets._split import Split


def load_breast_cancer() -> Split:
    """Wisconsin breast cancer: 569 rows of 30 features, malignant is positive; 427 to train on and 142 to test on."""
    from sklearn.datasets import load_breast_cancer as load

    bunch = load()
    return _shuffled_split(bunch.data, 1 - bunch.target, n_test=142)


def make_moons() -> Split:
    """Two interleaved half-moons with noise 0.25, a quarter positive: 3,000 rows to train on, 5,000 to test on."""
    from sklearn.datasets import make_moons as make

    X, y = make((6000, 2000), noise=0.25, random_state=0)
    return _shuffled_split(X, y, n_test=5000)


def make_clusters() -> Split:
    """Sixteen clusters on a hypercube's corners in 20 features, a third positive, 2 % of the labels flipped."""
    from sklearn.datasets import make_classification as make

    X, y = make(
        n_samples=10000,
        n_features=20,
        n_informative=6,
        n_redundant=4,
        n_clusters_per_class=8,
        weights=[0.67],
        flip_y=0.02,
        class_sep=1.5,
        random_state=0,
    )
    return _shuffled_split(X, y, n_test=5000)


def make_hundred_thousand() -> Split:
    """Overlapping clouds in 20 features, a tenth positive: 110,000 rows to train on and 10,000 to test on."""
    rng = np.random.default_rng(0)
    y = (rng.random(120_000) < 0.1).astype(np.int64)
    X = rng.normal(size=(len(y), 20)).astype(np.float32)
    X[:, :8] += y[:, None] * rng.choice([-1.0, 1.0], size=8)
    X[:, 8] *= np.where(y == 1, 2.0, 1.0)  # a difference in spread, which no plane can use
    return _shuffled_split(X, y, n_test=10_000)


def _shuffled_split(X: Any, y: Any, n_test: int) -> Split:
    order = np.random.default_rng(0).permutation(len(y))
    test, train = order[:n_test], order[n_test:]
    return Split(X[train], y[train].astype(np.int64), X[test], y[test].astype(np.int64))
