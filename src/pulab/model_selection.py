"""Model selection without negatives: folds that are stratified by P and U, scorers for scikit-learn's searches."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import logit
from sklearn.utils.validation import _num_samples

from pulab._validation import (
    SCENARIOS,
    Index,
    check_choice,
    check_labels,
    check_number,
    one_error,
    plain,
    random_numbers,
)
from pulab.errors import InputError
from pulab.metrics import METRICS, Array


class PUStratifiedKFold:
    """Folds with equal shares of labelled rows, for all labels that ``fit`` accepts.

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
        """The training and the test rows of each fold."""
        check_number("n_splits", self.n_splits, low=2, whole=True)
        with one_error():
            n = _num_samples(plain(y))
        labelled = check_labels(y, n).positive
        fewest = min(labelled.sum(), (~labelled).sum())
        if fewest < self.n_splits:
            raise InputError(
                f"n_splits={self.n_splits} needs as many labelled and unlabeled rows, got {labelled.sum()} and "
                f"{(~labelled).sum()}. Use n_splits={max(2, fewest)} or label more."
            )
        # P and U are divided separately: the folds must not depend on how their rows are interleaved.
        rng = random_numbers(self.random_state)
        fold = np.empty(len(labelled), dtype=np.intp)
        for marks in (labelled, ~labelled):
            rows = np.flatnonzero(marks)
            numbers = np.arange(len(rows)) % self.n_splits
            fold[rows] = rng.permutation(numbers) if self.shuffle else np.sort(numbers)
        for k in range(self.n_splits):
            yield np.flatnonzero(fold != k), np.flatnonzero(fold == k)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """The number of folds."""
        return self.n_splits


class PUScorer:
    """A metric of :mod:`pulab.metrics` as a scorer: ``scorer(estimator, X, s)``; more is better.

    Parameters
    ----------
    metric : str
        A key of ``pulab.metrics.METRICS``. Risks are negated.
    prior : float or None
        The share of positives in the population. None: the estimator's ``prior_``.
    scenario : {"case-control", "single-sample"} or None
        None: the estimator's, or "case-control" if it has none.

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
        last = getattr(estimator, "best_estimator_", estimator)  # of a search
        last = last[-1] if hasattr(last, "steps") else last  # of a pipeline
        scenario = self.scenario or getattr(last, "scenario", "case-control")
        prior = getattr(last, "prior_", None) if self.prior is None else self.prior
        if prior is None and metric.needs_prior:
            raise InputError(f"{self.metric} needs the prior, but the estimator has none. Pass prior=… to the scorer.")
        if metric.of == "decisions":
            values = np.asarray(np.asarray(estimator.predict(X)) == estimator.classes_[-1], dtype=np.float64)
        else:
            values = logits_of(estimator, X)
        value = metric.function(y, values, prior=prior, scenario=scenario)
        return value if metric.more_is_better else -value

    def __repr__(self) -> str:
        return f"PUScorer({self.metric!r}, prior={self.prior!r}, scenario={self.scenario!r})"


def logits_of(estimator: Any, X: Any) -> Array:
    """Log-odds of the positive class by any classifier, computed from probabilities if it has no decision function."""
    if hasattr(estimator, "decision_function"):
        return np.asarray(estimator.decision_function(X), dtype=np.float64)
    share = np.asarray(estimator.predict_proba(X), dtype=np.float64)[:, 1]
    return np.asarray(logit(np.clip(share, 1e-9, 1 - 1e-9)))
