"""Methods for tables without a network. Each uses a scikit-learn classifier."""

import math
from dataclasses import field
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import clone
from sklearn.tree import DecisionTreeClassifier

from pulab._threads import threads_for
from pulab._validation import check_choice, check_number
from pulab.estimators._table import (
    Marks,
    WeightedPUClassifier,
    check_jobs,
    copy_of,
    fit_weighted,
    logits_out_of_fold,
    rows_of,
)
from pulab.estimators._work import Work
from pulab.metrics import Array, prior_of_unlabeled
from pulab.model_selection import logits_of


class ElkanNotoClassifier(WeightedPUClassifier):
    """Elkan and Noto's method: P(positive) = P(labelled) / c, where c is the label frequency.

    The label frequency c is the share of positives that is labelled. It follows from the prior. There are two forms:

    - ``"scale"``: one classifier of labelled against unlabeled rows. Its probability divided by c may exceed 1. So the
      calibrator does the scaling within bounds, from held-out scores.
    - ``"weights"``: such a classifier gives every unlabeled row a weight as a positive. A second classifier learns from
      the weighted rows.

    Parameters
    ----------
    estimator : scikit-learn classifier or None
        None: logistic regression of standardised features. For "weights" its ``fit`` must take ``sample_weight`` (a
        pipeline's last step must).
    form : {"scale", "weights"}
    {shared}

    Attributes
    ----------
    model_ : the fitted classifier
    {attributes}

    References
    ----------
    Elkan and Noto: Learning Classifiers from Only Positive and Unlabeled Data. KDD 2008.

    Examples
    --------
    >>> from pulab import ElkanNotoClassifier
    >>> from pulab.datasets import load_digits, make_pu
    >>> digits = load_digits(positive=(0,))
    >>> pu = make_pu(digits.X_train, digits.y_train, n_labeled=50, random_state=0)
    >>> clf = ElkanNotoClassifier(prior=pu.prior, random_state=0).fit(pu.X, pu.s)
    >>> clf.score(digits.X_test, digits.y_test) > 0.9
    True
    """

    estimator: Any = field(default=None, kw_only=False)
    form: str = "scale"

    def _learn(self, X: Any, positive: Marks, work: Work, held_out: bool, weight: Array | None = None) -> Array | None:
        check_choice("form", self.form, ("scale", "weights"))

        def unseen(share: Array | None = None) -> Array:
            def fit(rows: Any) -> Any:
                return self._fitted(X[rows], positive[rows], rows_of(weight, rows), rows_of(share, rows))

            return logits_out_of_fold(fit, X, positive, work)

        if self.form == "scale":
            self.model_ = work(lambda: self._fitted(X, positive, weight))
            return unseen() if held_out else None
        n_p, n_u = positive.sum(), (~positive).sum()
        c = n_p / (self.prior_ * len(positive) if self.scenario == "single-sample" else n_p + self.prior_ * n_u)
        c = min(c, 1.0)  # by chance a sample may hold more labelled rows than the prior allows
        share = np.where(positive, 1.0, np.clip((1 - c) / c * np.exp(unseen()), 0, 1))
        self.model_ = work(lambda: self._fitted(X, positive, weight, share))
        return unseen(share) if held_out else None

    def _fitted(self, X: Any, positive: Marks, weight: Array | None = None, share: Array | None = None) -> Any:
        """A fitted copy of the classifier. A row with a share counts as a positive by it, as a negative by the rest."""
        model = copy_of(self.estimator)
        marks = positive.astype(int)
        if share is not None:
            split = np.flatnonzero(share < 1)
            rows = np.concatenate([np.arange(len(share)), split])
            X, marks = X[rows], np.repeat([1, 0], [len(share), len(split)])
            shares = np.concatenate([share, 1 - share[split]])
            weight = shares if weight is None else shares * weight[rows]
        return fit_weighted(model, X, marks, weight)


class BaggingPUClassifier(WeightedPUClassifier):
    """The mean vote of many classifiers, each of labelled rows against a small random part of the unlabeled ones.

    A bag holds few positives among its unlabeled rows, and different ones each time. So no positive is a negative in
    all bags. The held-out score of a row is the mean vote of the bags without it.

    Parameters
    ----------
    estimator : scikit-learn classifier or None
        None: a decision tree whose leaves hold at least a twentieth as many rows as are labelled.
    n_estimators : int
        Number of bags.
    max_samples : int or None
        Number of unlabeled rows in a bag; None: as many as labelled ones.
    oob_rows : int or None
        Number of rows with out-of-bag scores: the labelled ones first, then random unlabeled ones. None: all rows,
        which takes longer than the fits on a large table.
    n_jobs : int or None
        Number of threads, one bag each; -1: one per core. The fit of a small bag uses one thread.
    {shared}

    Attributes
    ----------
    estimators_ : list of the fitted classifiers
    {attributes}

    References
    ----------
    Mordelet and Vert: A Bagging SVM to Learn from Positive and Unlabeled Examples. Pattern Recognition Letters 2014.

    Examples
    --------
    >>> from pulab import BaggingPUClassifier
    >>> from pulab.datasets import load_digits, make_pu
    >>> digits = load_digits(positive=(0,))
    >>> pu = make_pu(digits.X_train, digits.y_train, n_labeled=50, random_state=0)
    >>> clf = BaggingPUClassifier(prior=pu.prior, random_state=0).fit(pu.X, pu.s)
    >>> clf.score(digits.X_test, digits.y_test) > 0.9
    True
    """

    estimator: Any = field(default=None, kw_only=False)
    n_estimators: int = 100
    max_samples: int | None = None
    oob_rows: int | None = 20_000
    n_jobs: int | None = -1

    def _learn(self, X: Any, positive: Marks, work: Work, held_out: bool, weight: Array | None = None) -> Array | None:
        check_number("n_estimators", self.n_estimators, low=1, whole=True)
        for name in ("max_samples", "oob_rows"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), low=1, whole=True)
        check_jobs(self.n_jobs)
        n_p, n_u = int(positive.sum()), int((~positive).sum())
        size = min(self.max_samples or n_p, n_u)
        p, u = np.arange(n_p), n_p + np.arange(n_u)
        if weight is not None:  # a bag needs rows with a weight of both kinds
            p, u = p[weight[p] > 0], u[weight[u] > 0]
        bags, rng = [], work.rng
        for _ in range(self.n_estimators):
            # P is drawn with replacement, so that every labelled row is missing from some bags.
            drawn = [
                p[work.rng.integers(len(p), size=n_p)],
                u[work.rng.choice(len(u), size=min(size, len(u)), replace=False)],
            ]
            bags.append((np.concatenate(drawn), int(work.rng.integers(2**31))))
        scored = np.arange(len(positive))
        if self.oob_rows is not None and self.oob_rows < len(scored):  # P is first
            n_more = max(self.oob_rows - n_p, min(n_u, 1000))
            scored = np.concatenate([scored[:n_p], n_p + np.sort(rng.choice(n_u, min(n_more, n_u), replace=False))])
        X_scored = X if len(scored) == len(positive) else X[scored]
        X_scored = X_scored if held_out else X_scored[:1]
        fitted = Parallel(self.n_jobs, require="sharedmem")(
            delayed(place)(partial(self._fit_bag, X, positive, rows, X_scored, seed, weight))
            for place, (rows, seed) in zip(work.places(len(bags)), bags, strict=True)
        )
        self.estimators_ = [model for model, _ in fitted]
        if not held_out:
            return None
        total, count = np.zeros(len(scored)), np.zeros(len(scored))
        for (rows, _), (_, votes) in zip(bags, fitted, strict=True):
            outside = np.ones(len(positive), dtype=bool)
            outside[rows] = False
            outside = outside[scored]
            total[outside] += votes[outside]
            count[outside] += 1
        mean = total.sum() / max(count.sum(), 1)
        scores = np.full(len(positive), np.nan)
        scores[scored] = np.where(
            count > 0, total / np.maximum(count, 1), mean
        )  # the mean for a row that is in all bags
        return scores

    def _takes_gaps(self) -> bool:
        return self.estimator is None or super()._takes_gaps()  # the default, a tree, accepts gaps

    def _fit_bag(
        self, X: Any, positive: Marks, rows: NDArray[np.intp], X_scored: Any, seed: int, weight: Array | None
    ) -> tuple[Any, Array]:
        if self.estimator is None:
            # Whole trees memorise the few labelled rows. Larger leaves, of a tenth, lose what only several columns
            # together tell: on 32 development samples a twentieth has .5 ± .3 less error than 1 row or a tenth.
            model = DecisionTreeClassifier(min_samples_leaf=max(1, int(positive.sum()) // 20))
        else:
            model = clone(self.estimator)
        if "random_state" in model.get_params():
            model.set_params(random_state=seed)
        with threads_for(len(rows) * X.shape[1]):
            fit_weighted(model, X[rows], positive[rows].astype(int), rows_of(weight, rows))
            return model, _votes(model, X_scored)

    def _score(self, X: Any) -> Array:
        return np.asarray(np.mean([_votes(model, X) for model in self.estimators_], axis=0))


def _votes(model: Any, X: Any) -> Array:
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(X), dtype=np.float64)[:, 1]
    return np.asarray(expit(model.decision_function(X)))


class TwoStepPUClassifier(WeightedPUClassifier):
    """First find reliable negatives, then learn from these and the labelled rows.

    Some labelled rows, the spies, are hidden among the unlabeled ones. A classifier separates the other labelled rows
    from all of these. Unlabeled rows that score below nearly all spies are reliable negatives. Their number is at
    most the number of negatives that follows from the prior.

    Parameters
    ----------
    estimator : scikit-learn classifier or None
        None: logistic regression of standardised features.
    spy_fraction : float
        Share of the labelled rows that become spies.
    tolerance : float
        Share of the spies that may score below the threshold; they count as noise.
    {shared}

    Attributes
    ----------
    model_ : the classifier of the second step
    n_reliable_negatives_ : int
    {attributes}

    References
    ----------
    Liu, Lee, Yu, Li: Partially Supervised Classification of Text Documents. ICML 2002.

    Examples
    --------
    >>> from pulab import TwoStepPUClassifier
    >>> from pulab.datasets import load_digits, make_pu
    >>> digits = load_digits(positive=(0,))
    >>> pu = make_pu(digits.X_train, digits.y_train, n_labeled=50, random_state=0)
    >>> clf = TwoStepPUClassifier(prior=pu.prior, random_state=0).fit(pu.X, pu.s)
    >>> clf.score(digits.X_test, digits.y_test) > 0.9
    True
    """

    estimator: Any = field(default=None, kw_only=False)
    spy_fraction: float = 0.15
    tolerance: float = 0.05

    def _learn(self, X: Any, positive: Marks, work: Work, held_out: bool, weight: Array | None = None) -> Array | None:
        check_number("spy_fraction", self.spy_fraction, low=0, high=1, ends="()")
        check_number("tolerance", self.tolerance, low=0, high=1, ends="[)")
        self.model_, self.n_reliable_negatives_ = work(lambda: self._two_steps(X, positive, work.rng, weight))
        if not held_out:
            return None

        def fit(rows: Any) -> Any:
            return self._two_steps(X[rows], positive[rows], work.rng, rows_of(weight, rows))[0]

        return logits_out_of_fold(fit, X, positive, work)

    def _two_steps(self, X: Any, positive: Marks, rng: np.random.Generator, weight: Array | None) -> tuple[Any, int]:
        labelled, unlabeled = np.flatnonzero(positive), np.flatnonzero(~positive)
        n_spies = min(max(1, round(self.spy_fraction * len(labelled))), max(1, len(labelled) - 1))
        spies = rng.choice(labelled, n_spies, replace=False)
        seen = positive.copy()
        seen[spies] = len(labelled) == 1  # a single positive must stay labelled
        first = logits_of(fit_weighted(copy_of(self.estimator), X, seen.astype(int), weight), X)
        below = int((first[unlabeled] < np.quantile(first[spies], self.tolerance)).sum())
        share = prior_of_unlabeled(self.prior_, len(labelled), len(unlabeled), self.scenario)
        room = math.ceil((1 - share) * len(unlabeled))
        n_negatives = max(1, min(below, room) or room // 2)
        negatives = unlabeled[np.argsort(first[unlabeled], kind="stable")[:n_negatives]]
        rows = np.concatenate([labelled, negatives])
        second = copy_of(self.estimator)
        return fit_weighted(second, X[rows], positive[rows].astype(int), rows_of(weight, rows)), n_negatives
