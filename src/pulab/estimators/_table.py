"""The base of the methods for tables: from rows to held-out scores, and from scores to probabilities."""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
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
from pulab.estimators._work import Work, check_can_be_kept, check_checkpoint, work_of
from pulab.metrics import Array, finite_values
from pulab.model_selection import PUStratifiedKFold, logits_of

if TYPE_CHECKING:
    from pulab.training import Checkpoint

Marks = NDArray[np.bool_]

SHARED_DOCS = {
    "shared": PRIOR_DOC
    + SCENARIO_DOC
    + """\
    random_state : int, RandomState or None
    checkpoint : path or None
        A file that keeps the finished parts of the fit while it runs: a fitted classifier, a fold's scores, a tree.
        Run a killed fit again with the same data and parameters: it goes on from the file and ends with the same bits.
        Only the part that was not finished starts again. The file is removed when the fit is done. A file of another
        fit is refused. For many fits, pass an existing folder: each fit has its own file there, which stays until you
        delete it. Needs a ``random_state``.
""",
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
    checkpoint: str | PathLike[str] | None = None

    _docs = SHARED_DOCS

    @abstractmethod
    def _learn(self, X: Any, positive: Marks, work: Work, held_out: bool) -> Array | None:
        """Fit to rows, the labelled ones first. Return the score of each row by models that have not seen it.

        NaN for a row that every model has seen. If no held-out scores are wanted, None saves the time that they take.
        What takes long is a piece of ``work``: ``work(lambda: …)``.
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
        if self.checkpoint is not None:
            check_checkpoint(self.checkpoint, self.random_state)
        X = self._rows(X, reset=True)
        labels = check_labels(y, X.shape[0])
        seed = draw_seed(self.random_state)
        rng = np.random.default_rng(seed)
        # P first, then U, each in its order: the result must not depend on how they are interleaved.
        order = np.concatenate([np.flatnonzero(labels.positive), np.flatnonzero(~labels.positive)])
        positive = labels.positive[order]
        arrays, weight = {"X": X, "y": labels.positive}, {}
        if sample_weight is not None:
            arrays["sample_weight"] = check_weights(sample_weight, labels.positive)
            weight["weight"] = arrays["sample_weight"][order]
        checkpoint = self._checkpoint(arrays, seed, held_out)
        X = X[order]
        del arrays
        with threads_for(X.shape[0] * X.shape[1]):
            if self.checkpoint is not None and getattr(self, "estimator", None) is not None:
                check_can_be_kept(_fitted_to_few(self.estimator, X, positive))
            with work_of(rng, checkpoint) as work:
                drawn = int(rng.integers(2**31))
                resolved = partial(resolve_prior, self.prior, X, positive, self.scenario, drawn)
                prior, interval = work(resolved) if isinstance(self.prior, str) else resolved()
                self.classes_, self.prior_, self.prior_interval_ = labels.classes, prior, interval
                with one_error(f"{type(self).__name__} fails on these rows: "):
                    ordered = self._learn(X, positive, work, held_out, **weight)
        if ordered is None:
            return None, labels.positive, rng
        scores = np.empty(len(ordered))
        scores[order] = ordered
        return scores, labels.positive, rng

    def _checkpoint(self, arrays: dict[str, Any], seed: int, held_out: bool) -> "Checkpoint | None":
        if self.checkpoint is None:
            return None
        from pulab.estimators._identity import identity_of_fit
        from pulab.training import Checkpoint

        more = {"whether held-out scores are wanted": held_out}
        return Checkpoint(Path(self.checkpoint), [identity_of_fit(self, arrays, seed, **more)])

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


def _fitted_to_few(estimator: Any, X: Any, positive: Marks) -> Any:
    """A copy that is fitted to a few rows. An unfitted copy if that fails."""
    rows = np.concatenate([np.flatnonzero(marks)[:FEW] for marks in (positive, ~positive)])
    model, state = clone(estimator), np.random.get_state()  # noqa: NPY002 - a fit may draw from numpy's global source
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return model.fit(X[rows], positive[rows].astype(int))
    except Exception:
        return clone(estimator)  # the fit to all rows says why, or works
    finally:
        np.random.set_state(state)  # noqa: NPY002


FEW = 50  # rows of P and of U


def is_classifier_like(estimator: Any) -> bool:
    """Whether it can be copied and fitted, and gives scores."""
    gives_scores = hasattr(estimator, "predict_proba") or hasattr(estimator, "decision_function")
    return all(hasattr(estimator, name) for name in ("fit", "get_params", "set_params")) and gives_scores


class WeightedPUClassifier(TablePUClassifier):
    """Base of the methods that can give rows more or less weight. Their ``_learn`` takes it."""

    @abstractmethod
    def _learn(self, X: Any, positive: Marks, work: Work, held_out: bool, weight: Array | None = None) -> Array | None:
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


def copy_of(estimator: Any) -> Any:
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


def out_of_fold(scores_of: Callable[[Any, Any], Array], positive: Marks, work: Work) -> Array:
    """Scores of each row by a model of the other folds: ``scores_of(train, test)`` fits it and scores the test rows."""
    scores = np.empty(len(positive))
    for train, test in folds(positive, work.rng):
        scores[test] = work(partial(scores_of, train, test))
    return scores


def logits_out_of_fold(fit: Callable[[Any], Any], X: Any, positive: Marks, work: Work) -> Array:
    """Logits of each row by a classifier that was fitted to the rows of the other folds."""
    return out_of_fold(lambda train, test: logits_of(fit(train), X[test]), positive, work)


def fit_weighted(model: Any, X: Any, marks: Any, weight: Array | None) -> Any:
    """Fit a classifier, with weights if there are any."""
    return model.fit(X, marks, **({} if weight is None else {weight_of(model): weight}))


def rows_of(values: Array | None, rows: Any) -> Array | None:
    """The values of some rows, if there are values."""
    return None if values is None else values[rows]


def weight_of(model: Any) -> str:
    """The name of the weights in ``fit``; those of a pipeline go to its last step."""
    name, last = model.steps[-1] if hasattr(model, "steps") else ("", model)
    if not has_fit_parameter(last, "sample_weight"):
        raise InputError(
            f"weights need an estimator whose fit takes sample_weight, got {type(last).__name__}. Pass another "
            'estimator, or for elkan-noto form="scale" and no weights.'
        )
    return f"{name}__sample_weight" if name else "sample_weight"
