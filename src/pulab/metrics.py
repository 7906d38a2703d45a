"""How good a classifier is, from labelled positives and unlabeled rows alone.

Every figure is an estimate of what true labels would give, and meets it as the sample grows, in both scenarios:

- ``"case-control"``: P and U are drawn independently; U is the population.
- ``"single-sample"``: one sample, some of its positives labelled at random; P ∪ U is the population, and U alone holds
  a smaller share of positives. Figures about *candidates* (``precision_at_k``, ``lift_at_k``) are about U alone.

P and U must not have been trained on. Nothing is clipped: with few positives an estimate above 1 is chance; where it
stays above 1 as the sample grows, the prior or the scenario is wrong.
"""

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pulab._validation import SCENARIOS, check_choice, check_labels, check_number, check_prior
from pulab.errors import InputError, PriorError, PulabWarning, warn

Array = NDArray[np.float64]


class Parts(NamedTuple):
    """Values (scores or predictions) of the labelled rows, of the population and of the unlabeled rows."""

    positive: Array
    population: Array
    unlabeled: Array


def split(s: Any, values: Any, scenario: str) -> Parts:
    """Values by the role of their row."""
    check_choice("scenario", scenario, SCENARIOS)
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"scores and predictions must be numbers, but: {error}.") from error
    if array.ndim == 2 and array.shape[1] == 2:  # predict_proba's two columns
        array = array[:, 1]
    if array.ndim != 1 or not np.isfinite(array).all():
        raise InputError(f"scores must be finite numbers, one per row, got {_kind(array)}.")
    labelled = check_labels(s, len(array), name="s").positive
    unlabeled = array[~labelled]
    return Parts(array[labelled], unlabeled if scenario == "case-control" else array, unlabeled)


def prior_of_unlabeled(prior: float, n_labeled: int, n_unlabeled: int, scenario: str = "single-sample") -> float:
    """The share of positives among the unlabeled rows.

    In a single sample the labelled ones are taken off. A sample may by chance hold a few more of these than the prior
    allows for, which leaves none; a prior that is too small by more than three standard deviations is refused.
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


def _kind(array: Array) -> str:
    return f"an array of shape {array.shape}" if array.ndim != 1 else "NaN or infinity"


def _prior(prior: Any, found: Parts, scenario: str) -> float:
    """A prior that can be: above the share of rows that are labelled already, in a single sample."""
    checked = check_prior(prior, hint="")
    prior_of_unlabeled(checked, len(found.positive), len(found.unlabeled), scenario)
    return checked


# Of decisions ---------------------------------------------------------------------------------------------------------


def recall(s: Any, y_pred: Any, *, prior: Any = None, scenario: str = "case-control") -> float:
    """The share of positives that is found: of the labelled ones, which stand for all."""
    return float(_decisions(s, y_pred, scenario).positive.mean())


def precision(s: Any, y_pred: Any, *, prior: float, scenario: str = "case-control") -> float:
    """The share of positives in what is called positive: prior · recall / share called positive. 0 if nothing is."""
    found = _decisions(s, y_pred, scenario)
    called = found.population.mean()
    return float(_prior(prior, found, scenario) * found.positive.mean() / called) if called else 0.0


def f1(s: Any, y_pred: Any, *, prior: float, scenario: str = "case-control") -> float:
    """The harmonic mean of precision and recall: 2 · prior · recall / (prior + share called positive)."""
    found = _decisions(s, y_pred, scenario)
    prior = _prior(prior, found, scenario)
    return float(2 * prior * found.positive.mean() / (prior + found.population.mean()))


def zero_one_risk(s: Any, y_pred: Any, *, prior: float, scenario: str = "case-control") -> float:
    """The share of wrong decisions: 2 · prior · (1 − recall) + share called positive − prior."""
    found = _decisions(s, y_pred, scenario)
    prior = _prior(prior, found, scenario)
    return float(2 * prior * (1 - found.positive.mean()) + found.population.mean() - prior)


def accuracy(s: Any, y_pred: Any, *, prior: float, scenario: str = "case-control") -> float:
    """The share of right decisions."""
    return 1 - zero_one_risk(s, y_pred, prior=prior, scenario=scenario)


def lee_liu(s: Any, y_pred: Any, *, prior: Any = None, scenario: str = "case-control") -> float:
    """recall² / share called positive (Lee and Liu 2003): ranks classifiers as F1 does, and needs no prior."""
    found = _decisions(s, y_pred, scenario)
    called = found.population.mean()
    return float(found.positive.mean() ** 2 / called) if called else 0.0


# Of scores ------------------------------------------------------------------------------------------------------------


def roc_auc(s: Any, y_score: Any, *, prior: float, scenario: str = "case-control") -> float:
    """The chance that a positive scores above a negative: (AUC of P against the population − prior/2) / (1 − prior)."""
    found = split(s, y_score, scenario)
    prior = _prior(prior, found, scenario)
    return float((separation(found.positive, found.population) - prior / 2) / (1 - prior))


def average_precision(s: Any, y_score: Any, *, prior: float, scenario: str = "case-control") -> float:
    """The mean over the positives of the precision at their scores, as scikit-learn's."""
    found = split(s, y_score, scenario)
    prior = _prior(prior, found, scenario)
    above_p, above = _share_above(found.positive, found.positive), _share_above(found.population, found.positive)
    # No row of the population may score as high as the best positive; the positive itself is one row of it.
    return float(np.mean(prior * above_p / np.maximum(above, 1 / len(found.population))))


def precision_at_k(s: Any, y_score: Any, *, k: int, prior: float, scenario: str = "case-control") -> float:
    """The share of positives among the k unlabeled rows with the highest scores (with those that tie with the last)."""
    found = split(s, y_score, scenario)
    checked = check_prior(prior, hint="")
    return prior_of_unlabeled(checked, len(found.positive), len(found.unlabeled), scenario) * _lift(found, k)


def lift_at_k(s: Any, y_score: Any, *, k: int, prior: Any = None, scenario: str = "case-control") -> float:
    """How many times more positives the top k unlabeled rows hold than k at random would. Needs no prior."""
    return _lift(split(s, y_score, scenario), k)


def upu_risk(s: Any, logits: Any, *, prior: float, scenario: str = "case-control") -> float:
    """The unbiased PU risk with the sigmoid loss (eq. 2 of the paper); of logits. May fall below zero by chance."""
    positive, negative = _risk_parts(s, logits, prior, scenario)
    return positive + negative


def nnpu_risk(s: Any, logits: Any, *, prior: float, scenario: str = "case-control") -> float:
    """The non-negative PU risk with the sigmoid loss (eq. 3 of the paper); of logits."""
    positive, negative = _risk_parts(s, logits, prior, scenario)
    return positive + max(0.0, negative)


# The arithmetic -------------------------------------------------------------------------------------------------------


def _decisions(s: Any, y_pred: Any, scenario: str) -> Parts:
    found = split(s, y_pred, scenario)
    if not np.isin(found.population, (0, 1)).all() or not np.isin(found.positive, (0, 1)).all():
        raise InputError("predictions must be 0 or 1. Compare scores with a threshold, or use a metric of scores.")
    if found.population.all():
        warn("every row is called positive: recall is 1 for that reason alone, and F1 may look good. Compare roc_auc.")
    return found


def separation(positive: Array, others: Array) -> float:
    """The chance that one of the first scores above one of the others; a tie is half a chance."""
    ordered = np.sort(others)
    below, up_to = (np.searchsorted(ordered, positive, side=side) for side in ("left", "right"))
    return float((below + up_to).mean() / (2 * len(others)))


def _share_above(values: Array, thresholds: Array) -> Array:
    """The share of values that reach each threshold."""
    return 1 - np.searchsorted(np.sort(values), thresholds, side="left") / len(values)


def _lift(found: Parts, k: int) -> float:
    check_number("k", k, low=1, high=len(found.unlabeled), whole=True)
    threshold = np.partition(found.unlabeled, -k)[-k]
    return float((found.positive >= threshold).mean() / (found.unlabeled >= threshold).mean())


def _risk_parts(s: Any, logits: Any, prior: float, scenario: str) -> tuple[float, float]:
    found = split(s, logits, scenario)
    prior = _prior(prior, found, scenario)

    def sigmoid(g: Array) -> Array:
        return 0.5 * (1 + np.tanh(g / 2))

    on_p = sigmoid(found.positive).mean()
    return float(prior * (1 - on_p)), float(sigmoid(found.population).mean() - prior * on_p)


# By name, with bands --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Metric:
    """A figure by name: how to compute it, from what, and whether more is better."""

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
}


class Estimate(NamedTuple):
    """A figure, its band over the prior's interval, and its 95 % interval over samples like this one."""

    value: float
    band: tuple[float, float] | None
    interval: tuple[float, float] | None


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
    """A figure with its uncertainty: from not knowing the prior, and from having a sample only.

    Parameters
    ----------
    metric : str or function
        A name from ``METRICS``, or a function of this module such as ``precision_at_k`` (pass ``k=…``).
    s : array
        1 for labelled, 0 for unlabeled; also read: whatever ``fit`` reads.
    values : array
        Predictions, scores or logits, as the metric asks for.
    prior, prior_interval
        The share of positives in the population, and between which values it lies.
    n_bootstrap : int
        Samples to draw again (of case-control data P and U each on its own); 0: no interval.
    """
    check_number("n_bootstrap", n_bootstrap, low=0, whole=True)
    if isinstance(metric, str):
        check_choice("metric", metric, METRICS)
        metric = METRICS[metric].function
    labelled = check_labels(s, len(values), name="s").positive.astype(int)
    array = np.asarray(values, dtype=np.float64)

    def at(p: float, rows: Any = slice(None)) -> float:
        return metric(labelled[rows], array[rows], prior=p, scenario=scenario, **options)

    value = at(prior)  # what is odd about the sample is said here, and once
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PulabWarning)
        band = None if prior_interval is None else _band(at, value, prior_interval)
        found = [at(prior, rows) for rows in _drawn_again(labelled, scenario, n_bootstrap, random_state)]
    interval = tuple(map(float, np.quantile(found, (0.025, 0.975)))) if found else None
    return Estimate(value, band, interval)  # type: ignore[arg-type]  # of two


def _band(at: Callable[[float], float], value: float, prior_interval: tuple[float, float]) -> tuple[float, float]:
    found = [value]
    for prior in np.linspace(*prior_interval, 11):
        with suppress(PriorError):  # an interval may reach to where no prior can be
            found.append(at(float(prior)))
    return min(found), max(found)


def _drawn_again(labelled: Any, scenario: str, n: int, random_state: int) -> Iterator[NDArray[np.intp]]:
    """Rows of n samples like this one."""
    rng = np.random.default_rng(random_state)
    groups = [np.flatnonzero(labelled == 1), np.flatnonzero(labelled == 0)]
    if scenario == "single-sample":  # one sample: how many of its rows are labelled is chance, too
        groups = [np.arange(len(labelled))]
    for _ in range(n):
        rows = np.concatenate([rng.choice(group, len(group)) for group in groups])
        if 0 < labelled[rows].sum() < len(rows):  # of few labelled rows none may be drawn, which tells nothing
            yield rows
