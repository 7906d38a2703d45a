"""Methods for tables that need no network: any scikit-learn classifier underneath."""

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted

from pulab._threads import threads_for
from pulab._validation import SCENARIOS, check_choice, check_labels, check_number, check_rows
from pulab.calibration import PUCalibrator
from pulab.errors import InputError
from pulab.estimators._contract import PRIOR_DOC, SCENARIO_DOC, PUClassifier
from pulab.estimators._prior import resolve_prior
from pulab.metrics import Floats, prior_of_unlabeled
from pulab.model_selection import PUStratifiedKFold, logits_of

Marks = NDArray[np.bool_]

SHARED_DOCS = {
    "shared": PRIOR_DOC + SCENARIO_DOC + "    random_state : int, RandomState or None\n",
    "attributes": """\
    classes_ : array of two labels, the positive one last
    prior_, prior_interval_ : the prior, and between which values it lies where it was estimated
    scores_ : array of shape (n,)
        Scores of the rows of X by models that had not seen them; NaN where there are none.
    calibrator_ : PUCalibrator
        From scores to probabilities, fitted on these.
    n_features_in_, row_shape_
""",
}


class TablePUClassifier(PUClassifier):
    """Glue between scikit-learn's contract and a score: held-out scores are turned into probabilities by the prior.

    A method says how to learn (``_learn``) and how to score (``_score``); decisions are probabilities above one half,
    which depend on the prior.
    """

    prior: float | str | None
    scenario: str
    random_state: Any

    _docs = SHARED_DOCS

    @abstractmethod
    def _learn(self, X: Any, positive: Marks, rng: np.random.Generator) -> Floats:
        """Fit to rows of which the first are the labelled ones; return the rows' scores by models without them.

        NaN where every model has seen a row.
        """

    @abstractmethod
    def _score(self, X: Any) -> Floats:
        """Scores of other rows, on the same scale."""

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from positive and unlabeled rows.

        Parameters
        ----------
        X : array of shape (n, features), data frame, or sparse matrix
        y : array of shape (n,)
            1 for a known positive, 0 for an unlabeled row. Also read: booleans, {1, -1}, a value and NaN or None, any
            two classes (the one that sorts last is positive).
        """
        check_choice("scenario", self.scenario, SCENARIOS)
        X = self._rows(X, reset=True)
        labels = check_labels(y, X.shape[0])
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        # P first, then U, each in its order: how they are interleaved must not matter.
        order = np.concatenate([np.flatnonzero(labels.positive), np.flatnonzero(~labels.positive)])
        positive = labels.positive[order]
        X = X[order]
        with threads_for(X.shape[0] * X.shape[1]):
            prior, interval = resolve_prior(self.prior, X, positive, self.scenario, int(rng.integers(2**31)))
            self.classes_, self.prior_, self.prior_interval_ = labels.classes, prior, interval
            scores = self._learn(X, positive, rng)
        self.calibrator_ = PUCalibrator(prior, self.scenario).fit(*_of_the_population(scores, positive, rng))
        self.scores_ = np.empty(len(scores))
        self.scores_[order] = scores
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the two classes, in the order of ``classes_``."""
        check_is_fitted(self, "calibrator_")
        scores = self._score(self._rows(X, reset=False))
        probability = self.calibrator_(scores)
        # The calibrated probability has flat parts; a trace of the score keeps the order of rows within them.
        probability = probability + 1e-4 * (_squeezed(scores, self.calibrator_.scores_) - probability)
        return np.stack([1 - probability, probability], axis=1)

    def decision_function(self, X: Any) -> Floats:
        """Log-odds of being positive: above 0 where a row is more likely positive than not."""
        return np.asarray(logit(self.predict_proba(X)[:, 1]))

    def predict(self, X: Any) -> Any:
        """The more likely class of each row."""
        is_positive = self.predict_proba(X)[:, 1] > 0.5
        return self.classes_[is_positive.astype(int)]

    def _takes_gaps(self) -> bool:
        """Whether NaN may stand for a missing number: where the classifier underneath says that it takes it."""
        given = getattr(self, "estimator", None)
        return given is not None and bool(get_tags(given).input_tags.allow_nan)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._takes_gaps()
        return tags

    def _rows(self, X: Any, reset: bool) -> Any:
        X = check_rows(self, X, reset=reset, allow_nan=self._takes_gaps())
        return X if X.ndim == 2 else X.reshape(len(X), -1)


def _squeezed(scores: Floats, like: Floats) -> Floats:
    """Any scores strictly between 0 and 1, in the same order."""
    return np.asarray(expit(np.clip((scores - np.median(like)) / (4 * (like.std() or 1.0)), -30, 30)))


def _of_the_population(scores: Floats, positive: Marks, rng: np.random.Generator) -> tuple[Floats, Marks]:
    """Held-out scores and labels in which labelled rows have the share that they have among all rows.

    Where only a part of U was scored, copies of its rows stand for the others.
    """
    rows = np.flatnonzero(np.isfinite(scores))
    p, u = rows[positive[rows]], rows[~positive[rows]]
    n_u = round((~positive).sum() * len(p) / positive.sum())
    rows = np.concatenate([p, u, rng.choice(u, max(0, n_u - len(u)))]) if len(u) < n_u else rows
    return scores[rows], positive[rows]


def _copy_of(estimator: Any, X: Any) -> Any:
    """An unfitted copy; of nothing, logistic regression of standardised features."""
    if estimator is None:
        # Not centred, a column such as a year lies thousands of deviations from zero, and the solver gives up.
        scale = StandardScaler(with_mean=not sparse.issparse(X))
        return make_pipeline(scale, LogisticRegression(max_iter=1000))
    return clone(estimator)


def folds(positive: Marks, rng: np.random.Generator) -> Iterator[tuple[Any, Any]]:
    """Rows to train on and rows to score, five times or as often as the labelled rows allow."""
    n_splits = int(min(5, positive.sum(), (~positive).sum()))
    if n_splits < 2:
        raise InputError(
            f"this method needs at least two labelled and two unlabeled rows, got {positive.sum()} and "
            f"{(~positive).sum()}. Use one of the networks, or label more."
        )
    yield from PUStratifiedKFold(n_splits, random_state=int(rng.integers(2**31))).split(positive, positive)


class ElkanNotoClassifier(TablePUClassifier):
    """Learn which rows are labelled; a row is positive as often as it is labelled, divided by the label frequency.

    The label frequency c, the share of positives that is labelled, follows from the prior. Two forms:

    - ``"scale"``: one classifier of labelled against unlabeled rows. Dividing its probability by c would exceed 1 where
      it errs; the calibrator does the same within bounds, from held-out scores.
    - ``"weights"``: such a classifier gives every unlabeled row the weight with which it counts as a positive, and a
      second one learns from the weighted rows.

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

    def __init__(
        self,
        estimator: Any = None,
        *,
        form: str = "scale",
        prior: float | str | None = None,
        scenario: str = "case-control",
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.form = form
        self.prior = prior
        self.scenario = scenario
        self.random_state = random_state

    def _learn(self, X: Any, positive: Marks, rng: np.random.Generator) -> Floats:
        check_choice("form", self.form, ("scale", "weights"))
        labelled = self._out_of_fold(X, positive, rng)
        if self.form == "scale":
            self.model_ = self._fitted(X, positive)
            return labelled
        n_p, n_u = positive.sum(), (~positive).sum()
        c = n_p / (self.prior_ * len(positive) if self.scenario == "single-sample" else n_p + self.prior_ * n_u)
        c = min(c, 1.0)  # by chance a sample may hold more labelled rows than the prior allows for
        weight = np.where(positive, 1.0, np.clip((1 - c) / c * np.exp(labelled), 0, 1))
        self.model_ = self._fitted(X, positive, weight)
        return self._out_of_fold(X, positive, rng, weight)

    def _score(self, X: Any) -> Floats:
        return logits_of(self.model_, X)

    def _out_of_fold(self, X: Any, positive: Marks, rng: np.random.Generator, weight: Floats | None = None) -> Floats:
        scores = np.empty(len(positive))
        for train, test in folds(positive, rng):
            model = self._fitted(X[train], positive[train], None if weight is None else weight[train])
            scores[test] = logits_of(model, X[test])
        return scores

    def _fitted(self, X: Any, positive: Marks, weight: Floats | None = None) -> Any:
        """A copy of the classifier, fitted to labels or, with weights, to every row as a positive and as a negative."""
        model = _copy_of(self.estimator, X)
        if weight is None:
            return model.fit(X, positive.astype(int))
        rows = np.concatenate([np.arange(len(weight)), np.flatnonzero(weight < 1)])
        marks = np.repeat([1, 0], [len(weight), (weight < 1).sum()])
        weights = np.concatenate([weight, 1 - weight[weight < 1]])
        name = f"{model.steps[-1][0]}__sample_weight" if hasattr(model, "steps") else "sample_weight"
        return model.fit(X[rows], marks, **{name: weights})


class BaggingPUClassifier(TablePUClassifier):
    """Many classifiers, each of the labelled rows against a small random part of the unlabeled ones; their mean vote.

    A bag holds few positives among its unlabeled rows, and other ones each time, so that no single one of them is
    taught to be a negative by all. A row's held-out score is the mean vote of those bags that it was not in.

    Parameters
    ----------
    estimator : scikit-learn classifier or None
        None: a decision tree.
    n_estimators : int
        How many bags.
    max_samples : int or None
        Unlabeled rows of a bag; None: as many as there are labelled ones.
    oob_rows : int or None
        How many rows get out-of-bag scores: the labelled ones first, then unlabeled ones at random. None: all, which on
        a large table takes longer than the fits.
    n_jobs : int or None
        Bags at a time, in threads; -1: as many as there are cores. The fit of a small bag gets one thread.
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

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_estimators: int = 100,
        max_samples: int | None = None,
        oob_rows: int | None = 20_000,
        n_jobs: int | None = -1,
        prior: float | str | None = None,
        scenario: str = "case-control",
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.max_samples = max_samples
        self.oob_rows = oob_rows
        self.n_jobs = n_jobs
        self.prior = prior
        self.scenario = scenario
        self.random_state = random_state

    def _learn(self, X: Any, positive: Marks, rng: np.random.Generator) -> Floats:
        check_number("n_estimators", self.n_estimators, low=1, whole=True)
        for name in ("max_samples", "oob_rows"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), low=1, whole=True)
        n_p, n_u = int(positive.sum()), int((~positive).sum())
        size = min(self.max_samples or n_p, n_u)
        bags = []
        for _ in range(self.n_estimators):
            # P with replacement, so that a labelled row has bags that it is not in, too.
            drawn = np.concatenate([rng.integers(n_p, size=n_p), n_p + rng.choice(n_u, size=size, replace=False)])
            bags.append((drawn, int(rng.integers(2**31))))
        scored = np.arange(len(positive))
        if self.oob_rows is not None and self.oob_rows < len(scored):  # P is first
            n_more = max(self.oob_rows - n_p, min(n_u, 1000))
            scored = np.concatenate([scored[:n_p], n_p + np.sort(rng.choice(n_u, min(n_more, n_u), replace=False))])
        X_scored = X if len(scored) == len(positive) else X[scored]
        fitted = Parallel(self.n_jobs, prefer="threads")(
            delayed(self._fit_bag)(X, positive, rows, X_scored, seed) for rows, seed in bags
        )
        self.estimators_ = [model for model, _ in fitted]
        total, count = np.zeros(len(scored)), np.zeros(len(scored))
        for (rows, _), (_, votes) in zip(bags, fitted, strict=True):
            outside = np.ones(len(positive), dtype=bool)
            outside[rows] = False
            outside = outside[scored]
            total[outside] += votes[outside]
            count[outside] += 1
        mean = total.sum() / max(count.sum(), 1)
        scores = np.full(len(positive), np.nan)
        scores[scored] = np.where(count > 0, total / np.maximum(count, 1), mean)  # a row may have been in all bags
        return scores

    def _takes_gaps(self) -> bool:
        return self.estimator is None or super()._takes_gaps()  # a tree takes them

    def _fit_bag(self, X: Any, positive: Marks, rows: NDArray[np.intp], X_scored: Any, seed: int) -> tuple[Any, Floats]:
        model = DecisionTreeClassifier() if self.estimator is None else clone(self.estimator)
        if "random_state" in model.get_params():
            model.set_params(random_state=seed)
        with threads_for(len(rows) * X.shape[1]):
            model.fit(X[rows], positive[rows].astype(int))
            return model, _votes(model, X_scored)

    def _score(self, X: Any) -> Floats:
        return np.asarray(np.mean([_votes(model, X) for model in self.estimators_], axis=0))


def _votes(model: Any, X: Any) -> Floats:
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(X), dtype=np.float64)[:, 1]
    return np.asarray(expit(model.decision_function(X)))


class TwoStepPUClassifier(TablePUClassifier):
    """First find rows that are surely negative, then learn from the labelled rows and these.

    Spies find them: some labelled rows are hidden among the unlabeled ones, and a classifier of the other labelled rows
    against all of these is trained. Unlabeled rows that score below nearly all spies are reliable negatives, never more
    of them than the prior leaves room for.

    Parameters
    ----------
    estimator : scikit-learn classifier or None
        None: logistic regression of standardised features.
    spy_fraction : float
        Share of the labelled rows that become spies.
    tolerance : float
        Share of the spies that may score below the threshold: they are taken for noise.
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

    def __init__(
        self,
        estimator: Any = None,
        *,
        spy_fraction: float = 0.15,
        tolerance: float = 0.05,
        prior: float | str | None = None,
        scenario: str = "case-control",
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.spy_fraction = spy_fraction
        self.tolerance = tolerance
        self.prior = prior
        self.scenario = scenario
        self.random_state = random_state

    def _learn(self, X: Any, positive: Marks, rng: np.random.Generator) -> Floats:
        check_number("spy_fraction", self.spy_fraction, low=0, high=1, ends="()")
        check_number("tolerance", self.tolerance, low=0, high=1, ends="[)")
        scores = np.empty(len(positive))
        for train, test in folds(positive, rng):
            model, _ = self._two_steps(X[train], positive[train], rng)
            scores[test] = logits_of(model, X[test])
        self.model_, self.n_reliable_negatives_ = self._two_steps(X, positive, rng)
        return scores

    def _score(self, X: Any) -> Floats:
        return logits_of(self.model_, X)

    def _two_steps(self, X: Any, positive: Marks, rng: np.random.Generator) -> tuple[Any, int]:
        labelled, unlabeled = np.flatnonzero(positive), np.flatnonzero(~positive)
        n_spies = min(max(1, round(self.spy_fraction * len(labelled))), max(1, len(labelled) - 1))
        spies = rng.choice(labelled, n_spies, replace=False)
        seen = positive.copy()
        seen[spies] = len(labelled) == 1  # a single positive cannot be spared
        first = logits_of(_copy_of(self.estimator, X).fit(X, seen.astype(int)), X)
        below = int((first[unlabeled] < np.quantile(first[spies], self.tolerance)).sum())
        share = prior_of_unlabeled(self.prior_, len(labelled), len(unlabeled), self.scenario)
        room = math.ceil((1 - share) * len(unlabeled))
        n_negatives = max(1, min(below, room) or room // 2)
        negatives = unlabeled[np.argsort(first[unlabeled], kind="stable")[:n_negatives]]
        rows = np.concatenate([labelled, negatives])
        return _copy_of(self.estimator, X).fit(X[rows], positive[rows].astype(int)), n_negatives
