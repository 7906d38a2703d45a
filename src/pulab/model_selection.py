"""Choosing among models without negatives: folds that deal out P and U alike, scorers for scikit-learn's searches."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit
from sklearn.utils import check_random_state

from pulab._validation import SCENARIOS, check_choice, check_labels, check_number
from pulab.errors import InputError
from pulab.metrics import METRICS

Index = NDArray[np.intp]


class PUStratifiedKFold:
    """Folds with the same share of labelled rows in each, for labels of every kind that ``fit`` reads.

    Parameters
    ----------
    n_splits : int
    shuffle : bool
    random_state : int, RandomState or None

    Examples
    --------
    >>> from pulab.model_selection import PUStratifiedKFold
    >>> s = [1, 1, None, None, None, None]
    >>> [sum(s[i] == 1 for i in test) for _, test in PUStratifiedKFold(2, random_state=0).split(s, s)]
    [1, 1]
    """

    def __init__(self, n_splits: int = 5, *, shuffle: bool = True, random_state: Any = None) -> None:
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state

    def split(self, X: Any, y: Any, groups: Any = None) -> Iterator[tuple[Index, Index]]:
        """Rows to train on and rows to test on, fold by fold."""
        check_number("n_splits", self.n_splits, low=2, whole=True)
        labelled = check_labels(y, len(y)).positive
        fewest = min(labelled.sum(), (~labelled).sum())
        if fewest < self.n_splits:
            raise InputError(
                f"n_splits={self.n_splits} needs as many labelled and unlabeled rows, got {labelled.sum()} and "
                f"{(~labelled).sum()}. Use n_splits={max(2, fewest)} or label more."
            )
        # P and U are dealt out each in its own order: how their rows are interleaved must not matter.
        rng = check_random_state(self.random_state)
        fold = np.empty(len(labelled), dtype=np.intp)
        for marks in (labelled, ~labelled):
            rows = np.flatnonzero(marks)
            dealt = np.arange(len(rows)) % self.n_splits
            fold[rows] = rng.permutation(dealt) if self.shuffle else np.sort(dealt)
        for k in range(self.n_splits):
            yield np.flatnonzero(fold != k), np.flatnonzero(fold == k)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """How many folds there are."""
        return self.n_splits


class PUScorer:
    """A figure of :mod:`pulab.metrics` as a scorer: ``scorer(estimator, X, s)``, more is better.

    Parameters
    ----------
    metric : str
        A key of ``pulab.metrics.METRICS``. Risks are negated.
    prior : float or None
        The share of positives in the population. None: what the estimator was told or found (``prior_``).
    scenario : {"case-control", "single-sample"} or None
        None: the estimator's, or "case-control" where it has none.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from pulab import NNPUClassifier
    >>> from pulab.datasets import load_digits, make_pu
    >>> from pulab.model_selection import PUScorer, PUStratifiedKFold
    >>> digits = load_digits()
    >>> pu = make_pu(digits.X_train, digits.y_train, n_labeled=100, random_state=0)
    >>> clf = NNPUClassifier(prior=pu.prior, epochs=5, random_state=0)
    >>> scores = cross_val_score(clf, pu.X, pu.s, scoring=PUScorer("roc_auc"), cv=PUStratifiedKFold(3, random_state=0))
    >>> bool(scores.mean() > 0.7)
    True
    """

    def __init__(self, metric: str, *, prior: float | None = None, scenario: str | None = None) -> None:
        check_choice("metric", metric, METRICS)
        if scenario is not None:
            check_choice("scenario", scenario, SCENARIOS)
        self.metric, self.prior, self.scenario = metric, prior, scenario

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        metric = METRICS[self.metric]
        last = _last(estimator)
        scenario = self.scenario or getattr(last, "scenario", "case-control")
        value = metric.function(y, _values(estimator, X, metric.of), prior=self._prior(last), scenario=scenario)
        return value if metric.more_is_better else -value

    def __repr__(self) -> str:
        return f"PUScorer({self.metric!r}, prior={self.prior!r}, scenario={self.scenario!r})"

    def _prior(self, estimator: Any) -> float | None:
        prior = self.prior if self.prior is not None else getattr(estimator, "prior_", None)
        if prior is None and METRICS[self.metric].needs_prior:
            raise InputError(f"{self.metric} needs the prior, and the estimator has none. Pass prior=… to the scorer.")
        return prior


def _last(estimator: Any) -> Any:
    """The classifier itself: the winner of a search, the last step of a pipeline."""
    estimator = getattr(estimator, "best_estimator_", estimator)
    return estimator[-1] if hasattr(estimator, "steps") else estimator


def _values(estimator: Any, X: Any, of: str) -> NDArray[np.float64]:
    """Decisions, scores or logits of an estimator, from whichever of its methods gives them."""
    if of == "decisions":
        predicted = np.asarray(estimator.predict(X))
        return np.asarray(predicted == estimator.classes_[-1], dtype=np.float64)
    return logits_of(estimator, X)


def logits_of(estimator: Any, X: Any) -> NDArray[np.float64]:
    """Log-odds of the positive class by any classifier; where it has only probabilities, from these."""
    if hasattr(estimator, "decision_function"):
        return np.asarray(estimator.decision_function(X), dtype=np.float64)
    share = np.asarray(estimator.predict_proba(X), dtype=np.float64)[:, 1]
    return np.asarray(logit(np.clip(share, 1e-9, 1 - 1e-9)))
