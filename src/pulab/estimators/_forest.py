"""A random forest whose splits minimise the non-negative PU risk."""

import math
from typing import Any

import numpy as np
from scipy import sparse

from pulab._validation import check_number
from pulab.estimators._pu_trees import Grower
from pulab.estimators._table import Marks, TablePUClassifier, out_of_fold
from pulab.estimators._work import Work
from pulab.metrics import Array


class PUForestClassifier(TablePUClassifier):
    """PU extra trees: each split minimises the non-negative PU risk among a few random ones.

    The prior takes part in the splits, not only in the probabilities. A node is split until it holds unlabeled rows
    alone, or so many labelled ones that the prior explains all of its rows. NaN may stand for a missing value: a split
    sends gaps to the side where they lower the risk more.

    Parameters
    ----------
    n_estimators : int
        Number of trees.
    max_features : int or None
        Number of features that are tried at a split, with one random threshold each; None: the root of their number.
    min_samples_leaf : int
        Minimal number of rows in a leaf.
    max_depth : int or None
        The greatest depth of a tree; None: no limit.
    {shared}

    Attributes
    ----------
    trees_ : the trees, as arrays
    {attributes}

    Notes
    -----
    The score of a row is the mean over the trees of the share of positives in its leaf. The paper takes the majority of
    the trees instead, which with full-grown trees is nearly the same as a score above one half.

    References
    ----------
    Wilton, Koay, Ko, Xu, Ye: Positive-Unlabeled Learning using Random Forests via Recursive Greedy Risk Minimization.
    NeurIPS 2022.

    Examples
    --------
    >>> from pulab import PUForestClassifier
    >>> from pulab.datasets import load_digits, make_pu
    >>> digits = load_digits(positive=(0,))
    >>> pu = make_pu(digits.X_train, digits.y_train, n_labeled=50, random_state=0)
    >>> clf = PUForestClassifier(n_estimators=20, prior=pu.prior, random_state=0).fit(pu.X, pu.s)
    >>> clf.score(digits.X_test, digits.y_test) > 0.9
    True
    """

    n_estimators: int = 100
    max_features: int | None = None
    min_samples_leaf: int = 1
    max_depth: int | None = None

    def _takes_gaps(self) -> bool:
        return True

    def _learn(self, X: Any, positive: Marks, work: Work, held_out: bool) -> Array | None:
        for name in ("n_estimators", "min_samples_leaf"):
            check_number(name, getattr(self, name), low=1, whole=True)
        for name in ("max_features", "max_depth"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), low=1, whole=True)
        X, seed = _dense(X), int(work.rng.integers(2**31))

        def grown(rows: Any) -> Any:
            tried = math.ceil(math.sqrt(X.shape[1])) if self.max_features is None else self.max_features
            grower = Grower(
                X[rows],
                positive[rows],
                self.prior_,
                self.scenario,
                n_tried=min(tried, X.shape[1]),
                min_leaf=self.min_samples_leaf,
                max_depth=self.max_depth,
            )
            rng = np.random.default_rng(seed)
            return grower.forest(self.n_estimators, rng, lambda make: work(make, rng))

        self.trees_ = grown(np.arange(len(positive)))
        if not held_out:
            return None
        return out_of_fold(lambda train, test: grown(train)(X[test]), positive, work)

    def _score(self, X: Any) -> Array:
        return np.asarray(self.trees_(_dense(X)))


def _dense(X: Any) -> Any:
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
