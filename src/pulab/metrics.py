"""Metrics of classifiers from labelled positives and unlabeled rows alone.

Every metric estimates the value that true labels would give. It converges to it in both scenarios:

- ``"case-control"``: P and U are drawn independently; U is the population.
- ``"single-sample"``: one sample is drawn and some of its positives are labelled at random. P ∪ U is the population,
  and U has a smaller share of positives. Metrics of *candidates* (``precision_at_k``, ``lift_at_k``) are about U only.

The model must not have been trained on P and U. Nothing is clipped: with few positives an estimate can exceed 1 by
chance. If it stays above 1 as the sample grows, the prior or the scenario is wrong.
"""

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pulab._validation import SCENARIOS, check_choice, check_labels, check_number, check_prior, one_error, plain
from pulab.errors import InputError, InputTypeError, PriorError, PulabWarning, warn

Array = NDArray[np.float64]  # scores, predictions, weights


class Parts(NamedTuple):
    """Values (scores or predictions) of the labelled rows, of the population and of the unlabeled rows."""

    positive: Array
    population: Array
    unlabeled: Array


def split(s: Any, values: Any, scenario: str) -> Parts:
    """Values by the role of their row."""
    check_choice("scenario", scenario, SCENARIOS)
    array = finite_values(values)
    labelled = check_labels(s, len(array), name="s").positive
    unlabeled = array[~labelled]
    return Parts(array[labelled], unlabeled if scenario == "case-control" else array, unlabeled)


def finite_values(values: Any, n: int | None = None) -> Array:
    """Scores or predictions as finite numbers, one per row (of n); of two columns of ``predict_proba`` the second."""
    with one_error("scores and predictions must be numbers, but: "):
        given = np.asarray(plain(values))
        if given.dtype.kind in "cmMV":
            raise InputTypeError(f"scores and predictions must be numbers, got {given.dtype}.")
        array = given.astype(np.float64)
    if array.ndim == 2 and array.shape[1] == 2:
        array = array[:, 1]
    if array.ndim != 1 or n not in (None, len(array)):
        rows = "one per row" if n is None else f"one for each of {n} rows"
        raise InputError(f"scores must be finite numbers, {rows}, got an array of shape {array.shape}.")
    if not np.isfinite(array).all():
        raise InputError("scores must be finite numbers, got NaN or infinity.")
    return array


def prior_of_unlabeled(prior: float, n_labeled: int, n_unlabeled: int, scenario: str = "single-sample") -> float:
    """The share of positives among the unlabeled rows.

    In a single sample the labelled positives are subtracted. By chance a sample may hold slightly more of them than the
    prior allows; the share is then 0. A prior that is too small by more than three standard deviations is refused.
    """
    if scenario == "case-control":
        return prior
    n = n_labeled + n_unlabeled
    left = (prior * n - n_labeled) / n_unlabeled
    if n_labeled > prior * n + 3 * math.sqrt(prior * (1 - prior) * n):
        raise PriorError(
            f"in a single sample the prior is the share of positives in all rows, got {prior:g}, but "
            f"{n_labeled / n:g} of them are labelled already. Pass a larger prior, or scenario='case-control'."
        )
    return max(0.0, left)


def _prior(prior: Any, parts: Parts, scenario: str) -> float:
    """The prior as a float. In a single sample it must exceed the share of labelled rows."""
    checked = check_prior(prior, hint="")
    prior_of_unlabeled(checked, len(parts.positive), len(parts.unlabeled), scenario)
    return checked


def precision_of(prior: float, recall: float, called: float) -> float:
    """Precision from the prior, recall, and the share of the population that is called positive; 0 if none is."""
    return prior * recall / called if called else 0.0


def f1_of(prior: float, recall: float, called: float) -> float:
    """F1 from the same three numbers."""
    return 2 * prior * recall / (prior + called)


def accuracy_of(prior: float, recall: float, called: float) -> float:
    """Accuracy from the same three numbers."""
    return 1 - (2 * prior * (1 - recall) + called - prior)


def roc_auc_of(prior: float, separated: float) -> float:
    """ROC AUC from the prior and the AUC of positives against the population."""
    return (separated - prior / 2) / (1 - prior)


# Of decisions ---------------------------------------------------------------------------------------------------------


def recall(s: Any, y_pred: Any, *, prior: Any = None, scenario: str = "case-control") -> float:
    """The share of positives that is called positive, measured on the labelled ones."""
    return float(_decisions(s, y_pred, scenario).positive.mean())


def precision(s: Any, y_pred: Any, *, prior: float, scenario: str = "case-control") -> float:
    """The share of positives among rows called positive: prior · recall / share called positive; 0 if none are."""
    parts = _decisions(s, y_pred, scenario)
    return float(precision_of(_prior(prior, parts, scenario), parts.positive.mean(), parts.population.mean()))


def f1(s: Any, y_pred: Any, *, prior: float, scenario: str = "case-control") -> float:
    """The harmonic mean of precision and recall: 2 · prior · recall / (prior + share called positive)."""
    parts = _decisions(s, y_pred, scenario)
    return float(f1_of(_prior(prior, parts, scenario), parts.positive.mean(), parts.population.mean()))


def zero_one_risk(s: Any, y_pred: Any, *, prior: float, scenario: str = "case-control") -> float:
    """The share of wrong decisions: 2 · prior · (1 − recall) + share called positive − prior."""
    return 1 - accuracy(s, y_pred, prior=prior, scenario=scenario)


def accuracy(s: Any, y_pred: Any, *, prior: float, scenario: str = "case-control") -> float:
    """The share of right decisions."""
    parts = _decisions(s, y_pred, scenario)
    return float(accuracy_of(_prior(prior, parts, scenario), parts.positive.mean(), parts.population.mean()))


def lee_liu(s: Any, y_pred: Any, *, prior: Any = None, scenario: str = "case-control") -> float:
    """recall² / share called positive (Lee and Liu 2003). It ranks classifiers like F1 and needs no prior."""
    parts = _decisions(s, y_pred, scenario)
    called = parts.population.mean()
    return float(parts.positive.mean() ** 2 / called) if called else 0.0


# Of scores ------------------------------------------------------------------------------------------------------------


def roc_auc(s: Any, y_score: Any, *, prior: float, scenario: str = "case-control") -> float:
    """The chance that a positive scores above a negative: (AUC of P against the population − prior/2) / (1 − prior)."""
    parts = split(s, y_score, scenario)
    return roc_auc_of(_prior(prior, parts, scenario), separation(parts.positive, parts.population))


def average_precision(s: Any, y_score: Any, *, prior: float, scenario: str = "case-control") -> float:
    """The mean of the precision at the scores of the positives, as in scikit-learn.

    A labelled row must not count itself as one that others find: with few of them the mean would be far too high. So
    the share of positives above it comes from the other labelled rows.
    """
    parts = split(s, y_score, scenario)
    prior = _prior(prior, parts, scenario)
    n, n_p = len(parts.population), len(parts.positive)
    if n_p < 2:
        raise InputError(f"average_precision needs at least two labelled rows, got {n_p}. Label more, or use roc_auc.")
    share = (_count_above(parts.positive, parts.positive) - 1) / (n_p - 1)
    rows = _count_above(parts.population, parts.positive)
    if scenario == "single-sample":  # the row itself is one of these rows, and one of the positives
        return float(np.mean((1 + (prior * n - 1) * share) / rows))
    # The row itself comes on top of them. The others need one more in the denominator: if K has a Poisson distribution
    # with mean m, the mean of K/(1 + K) is that of m/(2 + K), where m does not depend on the K that was seen.
    return float(np.mean(1 / (1 + rows) + prior * n * share / (2 + rows)))


def precision_at_k(s: Any, y_score: Any, *, k: int, prior: float, scenario: str = "case-control") -> float:
    """The share of positives among the k unlabeled rows with the highest scores (ties with the last included)."""
    parts = split(s, y_score, scenario)
    checked = check_prior(prior, hint="")
    return prior_of_unlabeled(checked, len(parts.positive), len(parts.unlabeled), scenario) * _lift(parts, k)


def lift_at_k(s: Any, y_score: Any, *, k: int, prior: Any = None, scenario: str = "case-control") -> float:
    """The share of positives among the top k unlabeled rows, divided by that among all. Needs no prior."""
    return _lift(split(s, y_score, scenario), k)


def upu_risk(s: Any, logits: Any, *, prior: float, scenario: str = "case-control") -> float:
    """The unbiased PU risk of logits with the sigmoid loss (eq. 2 of the paper). By chance it may be negative."""
    positive, negative = _risk_parts(s, logits, prior, scenario)
    return positive + negative


def nnpu_risk(s: Any, logits: Any, *, prior: float, scenario: str = "case-control") -> float:
    """The non-negative PU risk of logits with the sigmoid loss (eq. 3 of the paper)."""
    positive, negative = _risk_parts(s, logits, prior, scenario)
    return positive + max(0.0, negative)


def centred_risk(s: Any, logits: Any, *, prior: float, scenario: str = "case-control") -> float:
    """The non-negative PU risk of logits whose confidence has been taken out: for comparing settings of a method.

    Logits are shifted so that the share ``prior`` of the population lies above zero, and divided by a quarter of their
    standard deviation. So mixup or smoothing, which make every logit smaller, do not count against a setting.
    """
    parts = split(s, logits, scenario)
    values = finite_values(logits)
    cut = np.quantile(parts.population, 1 - _prior(prior, parts, scenario))
    spread = max(float(parts.population.std()), np.finfo(np.float64).tiny)
    return nnpu_risk(s, np.clip(4 * (values - cut) / spread, -1e9, 1e9), prior=prior, scenario=scenario)


# Curves ---------------------------------------------------------------------------------------------------------------


def roc_curve(s: Any, y_score: Any, *, prior: float, scenario: str = "case-control") -> tuple[Array, Array, Array]:
    """False positive rates, true positive rates (recall) and thresholds, as scikit-learn's ``roc_curve`` gives them.

    The share q of the population that reaches a threshold is prior · recall + (1 − prior) · false positive rate. The
    area below the curve is :func:`roc_auc`. A false positive rate may be negative or fall by chance, most at the left
    end: nothing is clipped. The first threshold is infinity, which no row reaches.
    """
    parts = split(s, y_score, scenario)
    prior = _prior(prior, parts, scenario)
    thresholds, found, called = _steps(parts)
    return (called - prior * found) / (1 - prior), found, thresholds


def precision_recall_curve(
    s: Any, y_score: Any, *, prior: float, scenario: str = "case-control"
) -> tuple[Array, Array, Array]:
    """Precision, recall and thresholds, from the highest threshold to the lowest.

    The precision is prior · recall / share of the population that reaches the threshold. The curve begins at the
    highest score in the population: above it there is nothing to divide by. With few labelled rows its left end is
    noise; :func:`average_precision` is corrected for that, the area below this curve is not.
    """
    parts = split(s, y_score, scenario)
    prior = _prior(prior, parts, scenario)
    thresholds, found, called = (values[1:] for values in _steps(parts))
    some = called > 0
    return prior * found[some] / called[some], found[some], thresholds[some]


def _steps(parts: Parts) -> tuple[Array, Array, Array]:
    """Falling thresholds, with the shares of P and of the population that reach them. The first is infinity."""
    values = np.unique(np.concatenate([parts.positive, parts.population]))[::-1]
    shares = [_count_above(part, values) / len(part) for part in (parts.positive, parts.population)]
    found, called = (np.concatenate([[0.0], share]) for share in shares)
    return np.concatenate([[np.inf], values]), found, called


# The arithmetic -------------------------------------------------------------------------------------------------------


def _decisions(s: Any, y_pred: Any, scenario: str) -> Parts:
    parts = split(s, y_pred, scenario)
    if not np.isin(parts.population, (0, 1)).all() or not np.isin(parts.positive, (0, 1)).all():
        raise InputError("predictions must be 0 or 1. Compare scores with a threshold, or use a metric of scores.")
    if parts.population.all():
        warn("every row is called positive: recall is 1 for that reason alone, and F1 may look good. Compare roc_auc.")
    return parts


def separation(positive: Array, others: Array) -> float:
    """The probability that one of the first scores above one of the others. A tie counts one half."""
    ordered = np.sort(others)
    below, up_to = (np.searchsorted(ordered, positive, side=side) for side in ("left", "right"))
    return float((below + up_to).mean() / (2 * len(others)))


def _count_above(values: Array, thresholds: Array) -> NDArray[np.intp]:
    """The number of values that reach each threshold."""
    return len(values) - np.searchsorted(np.sort(values), thresholds, side="left")


def _lift(parts: Parts, k: int) -> float:
    check_number("k", k, low=1, high=len(parts.unlabeled), whole=True)
    threshold = np.partition(parts.unlabeled, -k)[-k]
    return float((parts.positive >= threshold).mean() / (parts.unlabeled >= threshold).mean())


def _risk_parts(s: Any, logits: Any, prior: float, scenario: str) -> tuple[float, float]:
    parts = split(s, logits, scenario)
    prior = _prior(prior, parts, scenario)

    def sigmoid(g: Array) -> Array:
        return 0.5 * (1 + np.tanh(g / 2))

    on_p = sigmoid(parts.positive).mean()
    return float(prior * (1 - on_p)), float(sigmoid(parts.population).mean() - prior * on_p)


# By name, with bands --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Metric:
    """A metric: its function, its input, and whether more is better."""

    function: Callable[..., float]
    of: str  # "decisions", "scores" or "logits"
    needs_prior: bool = True
    more_is_better: bool = True


METRICS = {
    "accuracy": Metric(accuracy, "decisions"),
    "zero_one_risk": Metric(zero_one_risk, "decisions", more_is_better=False),
    "precision": Metric(precision, "decisions"),
    "recall": Metric(recall, "decisions", needs_prior=False),
    "f1": Metric(f1, "decisions"),
    "lee_liu": Metric(lee_liu, "decisions", needs_prior=False),
    "roc_auc": Metric(roc_auc, "scores"),
    "average_precision": Metric(average_precision, "scores"),
    "upu_risk": Metric(upu_risk, "logits", more_is_better=False),
    "nnpu_risk": Metric(nnpu_risk, "logits", more_is_better=False),
    "centred_risk": Metric(centred_risk, "logits", more_is_better=False),
}


class Estimate(NamedTuple):
    """A metric's value, its band over the prior's interval, and its 95 % interval over bootstrap samples."""

    value: float
    band: tuple[float, float] | None
    interval: tuple[float, float] | None


@one_error()
def estimate(
    metric: str | Callable[..., float],
    s: Any,
    values: Any,
    *,
    prior: float,
    prior_interval: tuple[float, float] | None = None,
    scenario: str = "case-control",
    n_bootstrap: int = 200,
    random_state: int = 0,
    **options: Any,
) -> Estimate:
    """A metric with its uncertainty, from the prior and from the sample.

    Parameters
    ----------
    metric : str or function
        A name from ``METRICS``, or a function of this module such as ``precision_at_k`` (pass ``k=…``).
    s : array
        1 for labelled, 0 for unlabeled, or any other labels that ``fit`` accepts.
    values : array
        Predictions, scores or logits, whichever the metric needs.
    prior, prior_interval
        The share of positives in the population, and its interval.
    n_bootstrap : int
        Number of bootstrap samples; 0: no interval. For case-control data P and U are drawn separately.
    """
    check_number("n_bootstrap", n_bootstrap, low=0, whole=True)
    if isinstance(metric, str):
        check_choice("metric", metric, METRICS)
        metric = METRICS[metric].function
    array = finite_values(values)
    labelled = check_labels(s, len(array), name="s").positive.astype(int)

    def at(p: float, rows: Any = slice(None)) -> float:
        return metric(labelled[rows], array[rows], prior=p, scenario=scenario, **options)

    value = at(prior)  # may warn about the sample; the further calls are silent
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PulabWarning)
        band = None if prior_interval is None else _band(at, value, prior_interval)
        drawn = [at(prior, rows) for rows in _drawn_again(labelled, scenario, n_bootstrap, random_state)]
    interval = tuple(map(float, np.quantile(drawn, (0.025, 0.975)))) if drawn else None
    return Estimate(value, band, interval)  # type: ignore[arg-type]  # a tuple of two


def _band(at: Callable[[float], float], value: float, prior_interval: tuple[float, float]) -> tuple[float, float]:
    values = [value]
    for prior in np.linspace(*prior_interval, 11):
        with suppress(PriorError):  # the interval may include priors that are impossible
            values.append(at(float(prior)))
    return min(values), max(values)


def _drawn_again(labelled: Any, scenario: str, n: int, random_state: int) -> Iterator[NDArray[np.intp]]:
    """The rows of n bootstrap samples."""
    rng = np.random.default_rng(random_state)
    groups = [np.flatnonzero(labelled == 1), np.flatnonzero(labelled == 0)]
    least = min(2, len(groups[0]))
    if scenario == "single-sample":  # the number of labelled rows is random, too
        groups = [np.arange(len(labelled))]
    for _ in range(n):
        rows = np.concatenate([rng.choice(group, len(group)) for group in groups])
        if least <= labelled[rows].sum() < len(rows):  # a sample without labelled rows has no metric
            yield rows
