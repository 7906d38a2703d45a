"""Methods for tables without a network. Each uses a scikit-learn classifier."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from pulab._scaling import CutScaler
from pulab._threads import threads_for
from pulab._validation import (
    SCENARIOS,
    check_choice,
    check_fitted,
    check_labels,
    check_number,
    check_rows,
    check_weights,
    draw_seed,
    one_error,
)
from pulab.calibration import PUCalibrator
from pulab.errors import InputError, short
from pulab.estimators._contract import PRIOR_DOC, SCENARIO_DOC, PUClassifier
from pulab.estimators._prior import resolve_prior
from pulab.metrics import Array, finite_values, prior_of_unlabeled
from pulab.model_selection import PUStratifiedKFold, logits_of

Marks = NDArray[np.bool_]

SHARED_DOCS = {
    "shared": PRIOR_DOC + SCENARIO_DOC + "    random_state : int, RandomState or None\n",
    "attributes": """\
    classes_ : array of two labels, the positive one last
    prior_, prior_interval_ : the prior, and its interval if it was estimated
    scores_ : array of shape (n,)
        Scores of the rows of X by models that had not seen them; NaN for rows without such a model.
    calibrator_ : PUCalibrator
        Turns scores into probabilities; fitted on ``scores_``.
    n_features_in_, row_shape_
""",
}


class TablePUClassifier(PUClassifier):
    """Base of methods that give scores. Held-out scores and the prior calibrate the probabilities.

    A method implements ``_learn``, and ``_score`` unless it keeps one classifier as ``model_``. A row is called
    positive if its probability exceeds one half.
    """

    prior: float | str | None = None
    scenario: str = "case-control"
    random_state: Any = None

    _docs = SHARED_DOCS

    @abstractmethod
    def _learn(self, X: Any, positive: Marks, rng: np.random.Generator, held_out: bool) -> Array | None:
        """Fit to rows, the labelled ones first. Return the score of each row by models that have not seen it.

        NaN for a row that every model has seen. If no held-out scores are wanted, None saves the time that they take.
        """

    def _score(self, X: Any) -> Array:
        """Scores of checked rows, on the same scale."""
        return logits_of(self.model_, X)

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from positive and unlabeled rows.

        Parameters
        ----------
        X : array of shape (n, features), data frame, or sparse matrix
        y : array of shape (n,)
            1 for a known positive, 0 for an unlabeled row. Also accepted: booleans, {1, -1}, a value and NaN or None,
            any two classes (the one that sorts last is positive).
        """
        return self._fit_and_calibrate(X, y)

    def fit_ranking(self, X: Any, y: Any) -> Self:
        """Learn what ranks rows, without the held-out scores that probabilities need: most methods are fitted once.

        Afterwards :meth:`raw_scores` works. Probabilities need :meth:`calibrate`.
        """
        with self._whole_or_nothing():
            self._fit(X, y, held_out=False)
        return self

    def calibrate(self, scores: Array, y: Any) -> Self:
        """Turn scores into probabilities by raw scores of rows that other models of this kind have not seen."""
        check_fitted(self, "prior_")
        scores = finite_values(scores)
        positive = check_labels(y, len(scores)).positive
        self.scores_ = scores
        self.calibrator_ = PUCalibrator(self.prior_, self.scenario).fit(scores, positive)
        return self

    def raw_scores(self, X: Any) -> Array:
        """Scores before calibration: they rank rows, and do not depend on the calibration."""
        check_fitted(self, "prior_")
        rows = self._rows(X, reset=False)
        with one_error(f"{type(self).__name__} fails on these rows: "):
            return self._score(rows)

    def _fit_and_calibrate(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        with self._whole_or_nothing():
            scores, positive, rng = self._fit(X, y, held_out=True, sample_weight=sample_weight)
            assert scores is not None
            self.scores_ = scores
            self.calibrator_ = PUCalibrator(self.prior_, self.scenario).fit(*_of_the_population(scores, positive, rng))
        return self

    @contextmanager
    def _whole_or_nothing(self) -> Iterator[None]:
        """A fit that fails or is interrupted leaves an unfitted estimator."""
        self._forget()
        try:
            yield
        except BaseException:
            self._forget()
            raise

    def _fit(
        self, X: Any, y: Any, held_out: bool, sample_weight: Any = None
    ) -> tuple[Array | None, Marks, np.random.Generator]:
        """Fit to P and U. Returns held-out scores if wanted, and which rows are labelled, in the order of X."""
        check_choice("scenario", self.scenario, SCENARIOS)
        self._check_estimator()
        X = self._rows(X, reset=True)
        labels = check_labels(y, X.shape[0])
        rng = np.random.default_rng(draw_seed(self.random_state))
        # P first, then U, each in its order: the result must not depend on how they are interleaved.
        order = np.concatenate([np.flatnonzero(labels.positive), np.flatnonzero(~labels.positive)])
        positive = labels.positive[order]
        X = X[order]
        with threads_for(X.shape[0] * X.shape[1]):
            prior, interval = resolve_prior(self.prior, X, positive, self.scenario, int(rng.integers(2**31)))
            self.classes_, self.prior_, self.prior_interval_ = labels.classes, prior, interval
            weight = {} if sample_weight is None else {"weight": check_weights(sample_weight, labels.positive)[order]}
            with one_error(f"{type(self).__name__} fails on these rows: "):
                ordered = self._learn(X, positive, rng, held_out, **weight)
        if ordered is None:
            return None, labels.positive, rng
        scores = np.empty(len(ordered))
        scores[order] = ordered
        return scores, labels.positive, rng

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the two classes, in the order of ``classes_``."""
        check_fitted(self, "calibrator_")
        scores = self.raw_scores(X)
        probability = self.calibrator_(scores)
        # The calibrated probability has flat parts. A small part of the score keeps the order of rows within them.
        probability = probability + 1e-4 * (_squeezed(scores, self.calibrator_.scores_) - probability)
        return np.stack([1 - probability, probability], axis=1)

    def decision_function(self, X: Any) -> Array:
        """Log-odds of being positive: above 0 if a row is more likely positive than negative."""
        return np.asarray(logit(self.predict_proba(X)[:, 1]))

    def predict(self, X: Any) -> Any:
        """The more likely class of each row."""
        is_positive = self.predict_proba(X)[:, 1] > 0.5
        return self.classes_[is_positive.astype(int)]

    def _check_estimator(self) -> None:
        """Refuse what is no classifier."""
        estimator = getattr(self, "estimator", None)
        if estimator is not None and (isinstance(estimator, type) or not is_classifier_like(estimator)):
            raise InputError(
                f"estimator must be a scikit-learn classifier with fit and predict_proba or decision_function, got "
                f"{short(estimator)}. Pass an instance such as LogisticRegression(), or None."
            )

    def _takes_gaps(self) -> bool:
        """Whether NaN may mean a missing number, by the classifier's tags."""
        estimator = getattr(self, "estimator", None)
        return estimator is not None and bool(get_tags(estimator).input_tags.allow_nan)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._takes_gaps()
        return tags

    def _rows(self, X: Any, reset: bool) -> Any:
        X = check_rows(self, X, reset=reset, allow_nan=self._takes_gaps())
        return X if X.ndim == 2 else X.reshape(len(X), -1)


def is_classifier_like(estimator: Any) -> bool:
    """Whether it can be copied and fitted, and gives scores."""
    gives_scores = hasattr(estimator, "predict_proba") or hasattr(estimator, "decision_function")
    return all(hasattr(estimator, name) for name in ("fit", "get_params", "set_params")) and gives_scores


class WeightedPUClassifier(TablePUClassifier):
    """Base of the methods that can give rows more or less weight. Their ``_learn`` takes it."""

    @abstractmethod
    def _learn(
        self, X: Any, positive: Marks, rng: np.random.Generator, held_out: bool, weight: Array | None = None
    ) -> Array | None:
        """Fit to rows, with a weight for each row or with none."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from positive and unlabeled rows.

        Parameters
        ----------
        X, y
            As for all methods for tables: 1 marks a known positive, 0 an unlabeled row.
        sample_weight : array of shape (n,), optional
            How much the ranking learns from each row. Only the ratios of weights count. The prior and the probabilities
            are about rows, whatever their weights.
        """
        return self._fit_and_calibrate(X, y, sample_weight)

    def fit_ranking(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn what ranks rows, without the held-out scores that probabilities need: the method is fitted once.

        Afterwards :meth:`raw_scores` works. Probabilities need :meth:`calibrate`.
        """
        with self._whole_or_nothing():
            self._fit(X, y, held_out=False, sample_weight=sample_weight)
        return self


def check_jobs(n_jobs: Any) -> None:
    """Refuse what is no number of threads. Negative numbers count from the number of cores, as in scikit-learn."""
    if n_jobs is not None:
        check_number("n_jobs", n_jobs, low=-MOST_JOBS, high=MOST_JOBS, whole=True)
    if n_jobs == 0:
        raise InputError("n_jobs must be a number of threads, or -1 for all cores, got 0.")


MOST_JOBS = 10_000


def _squeezed(scores: Array, like: Array) -> Array:
    """The scores mapped to the open interval (0, 1), in the same order."""
    return np.asarray(expit(np.clip((scores - np.median(like)) / (4 * (like.std() or 1.0)), -30, 30)))


def _of_the_population(scores: Array, positive: Marks, rng: np.random.Generator) -> tuple[Array, Marks]:
    """Held-out scores and labels, with the share of labelled rows that all rows have.

    If only a part of U was scored, copies of its rows stand for the others.
    """
    rows = np.flatnonzero(np.isfinite(scores))
    p, u = rows[positive[rows]], rows[~positive[rows]]
    n_u = round((~positive).sum() * len(p) / positive.sum())
    rows = np.concatenate([p, u, rng.choice(u, max(0, n_u - len(u)))]) if len(u) < n_u else rows
    return scores[rows], positive[rows]


def _copy_of(estimator: Any) -> Any:
    """An unfitted copy of the classifier; by default, logistic regression of standardised features."""
    if estimator is None:
        # If a column such as a year is not centred, it lies thousands of deviations from zero, and the solver fails.
        return make_pipeline(CutScaler(), LogisticRegression(max_iter=1000))
    return clone(estimator)


def folds(positive: Marks, rng: np.random.Generator) -> Iterator[tuple[Any, Any]]:
    """Training rows and rows to score, in five folds or as many as the labelled rows allow."""
    n_splits = int(min(5, positive.sum(), (~positive).sum()))
    if n_splits < 2:
        raise InputError(
            f"this method needs at least two labelled and two unlabeled rows, got {positive.sum()} and "
            f"{(~positive).sum()}. Use one of the networks, or label more."
        )
    yield from PUStratifiedKFold(n_splits, random_state=int(rng.integers(2**31))).split(positive, positive)


def out_of_fold(scores_of: Callable[[Any, Any], Array], positive: Marks, rng: np.random.Generator) -> Array:
    """Scores of each row by a model of the other folds: ``scores_of(train, test)`` fits it and scores the test rows."""
    scores = np.empty(len(positive))
    for train, test in folds(positive, rng):
        scores[test] = scores_of(train, test)
    return scores


def _out_of_fold(fit: Callable[[Any], Any], X: Any, positive: Marks, rng: np.random.Generator) -> Array:
    """Logits of each row by a classifier that was fitted to the rows of the other folds."""
    return out_of_fold(lambda train, test: logits_of(fit(train), X[test]), positive, rng)


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

    def _learn(
        self, X: Any, positive: Marks, rng: np.random.Generator, held_out: bool, weight: Array | None = None
    ) -> Array | None:
        check_choice("form", self.form, ("scale", "weights"))

        def unseen(share: Array | None = None) -> Array:
            def fit(rows: Any) -> Any:
                return self._fitted(X[rows], positive[rows], rows_of(weight, rows), rows_of(share, rows))

            return _out_of_fold(fit, X, positive, rng)

        if self.form == "scale":
            self.model_ = self._fitted(X, positive, weight)
            return unseen() if held_out else None
        n_p, n_u = positive.sum(), (~positive).sum()
        c = n_p / (self.prior_ * len(positive) if self.scenario == "single-sample" else n_p + self.prior_ * n_u)
        c = min(c, 1.0)  # by chance a sample may hold more labelled rows than the prior allows
        share = np.where(positive, 1.0, np.clip((1 - c) / c * np.exp(unseen()), 0, 1))
        self.model_ = self._fitted(X, positive, weight, share)
        return unseen(share) if held_out else None

    def _fitted(self, X: Any, positive: Marks, weight: Array | None = None, share: Array | None = None) -> Any:
        """A fitted copy of the classifier. A row with a share counts as a positive by it, as a negative by the rest."""
        model = _copy_of(self.estimator)
        marks = positive.astype(int)
        if share is not None:
            split = np.flatnonzero(share < 1)
            rows = np.concatenate([np.arange(len(share)), split])
            X, marks = X[rows], np.repeat([1, 0], [len(share), len(split)])
            shares = np.concatenate([share, 1 - share[split]])
            weight = shares if weight is None else shares * weight[rows]
        return _fit_weighted(model, X, marks, weight)


def _fit_weighted(model: Any, X: Any, marks: Any, weight: Array | None) -> Any:
    """Fit a classifier, with weights if there are any."""
    return model.fit(X, marks, **({} if weight is None else {_weight_of(model): weight}))


def rows_of(values: Array | None, rows: Any) -> Array | None:
    """The values of some rows, if there are values."""
    return None if values is None else values[rows]


def _weight_of(model: Any) -> str:
    """The name of the weights in ``fit``; those of a pipeline go to its last step."""
    name, last = model.steps[-1] if hasattr(model, "steps") else ("", model)
    if not has_fit_parameter(last, "sample_weight"):
        raise InputError(
            f"weights need an estimator whose fit takes sample_weight, got {type(last).__name__}. Pass another "
            'estimator, or for elkan-noto form="scale" and no weights.'
        )
    return f"{name}__sample_weight" if name else "sample_weight"


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

    def _learn(
        self, X: Any, positive: Marks, rng: np.random.Generator, held_out: bool, weight: Array | None = None
    ) -> Array | None:
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
        bags = []
        for _ in range(self.n_estimators):
            # P is drawn with replacement, so that every labelled row is missing from some bags.
            drawn = [p[rng.integers(len(p), size=n_p)], u[rng.choice(len(u), size=min(size, len(u)), replace=False)]]
            bags.append((np.concatenate(drawn), int(rng.integers(2**31))))
        scored = np.arange(len(positive))
        if self.oob_rows is not None and self.oob_rows < len(scored):  # P is first
            n_more = max(self.oob_rows - n_p, min(n_u, 1000))
            scored = np.concatenate([scored[:n_p], n_p + np.sort(rng.choice(n_u, min(n_more, n_u), replace=False))])
        X_scored = X if len(scored) == len(positive) else X[scored]
        X_scored = X_scored if held_out else X_scored[:1]
        fitted = Parallel(self.n_jobs, prefer="threads")(
            delayed(self._fit_bag)(X, positive, rows, X_scored, seed, weight) for rows, seed in bags
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
            _fit_weighted(model, X[rows], positive[rows].astype(int), rows_of(weight, rows))
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

    def _learn(
        self, X: Any, positive: Marks, rng: np.random.Generator, held_out: bool, weight: Array | None = None
    ) -> Array | None:
        check_number("spy_fraction", self.spy_fraction, low=0, high=1, ends="()")
        check_number("tolerance", self.tolerance, low=0, high=1, ends="[)")
        self.model_, self.n_reliable_negatives_ = self._two_steps(X, positive, rng, weight)
        if not held_out:
            return None

        def fit(rows: Any) -> Any:
            return self._two_steps(X[rows], positive[rows], rng, rows_of(weight, rows))[0]

        return _out_of_fold(fit, X, positive, rng)

    def _two_steps(self, X: Any, positive: Marks, rng: np.random.Generator, weight: Array | None) -> tuple[Any, int]:
        labelled, unlabeled = np.flatnonzero(positive), np.flatnonzero(~positive)
        n_spies = min(max(1, round(self.spy_fraction * len(labelled))), max(1, len(labelled) - 1))
        spies = rng.choice(labelled, n_spies, replace=False)
        seen = positive.copy()
        seen[spies] = len(labelled) == 1  # a single positive must stay labelled
        first = logits_of(_fit_weighted(_copy_of(self.estimator), X, seen.astype(int), weight), X)
        below = int((first[unlabeled] < np.quantile(first[spies], self.tolerance)).sum())
        share = prior_of_unlabeled(self.prior_, len(labelled), len(unlabeled), self.scenario)
        room = math.ceil((1 - share) * len(unlabeled))
        n_negatives = max(1, min(below, room) or room // 2)
        negatives = unlabeled[np.argsort(first[unlabeled], kind="stable")[:n_negatives]]
        rows = np.concatenate([labelled, negatives])
        second = _copy_of(self.estimator)
        return _fit_weighted(second, X[rows], positive[rows].astype(int), rows_of(weight, rows)), n_negatives
