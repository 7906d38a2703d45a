"""Calibration: scores become probabilities, without negatives."""

import math
from typing import Any, Self

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit, ndtr

from pulab._validation import check_prior
from pulab.errors import InputError
from pulab.metrics import Array, finite_values, split
from pulab.priors import Sample, density_ratio


class PUCalibrator:
    """The probability of being positive as a rising function of a score.

    It is prior · f_P(score) / f(score), made monotone. f_P and f are the densities of the score among labelled rows and
    in the population. The mean over the population is the prior. No probability is higher than the labelled rows can
    support: with few of them, even the best rows are not surely positive. Fit it on rows that the scoring model has not
    seen.

    Parameters
    ----------
    prior : float
        The share of positives in the population.
    scenario : {"case-control", "single-sample"}

    Examples
    --------
    >>> import numpy as np
    >>> from pulab.calibration import PUCalibrator
    >>> rng = np.random.default_rng(0)
    >>> y = rng.random(5000) < 0.3
    >>> scores = rng.normal(size=5000) + 2 * y
    >>> s = y & (rng.random(5000) < 0.2)
    >>> probability = PUCalibrator(prior=0.3, scenario="single-sample").fit(scores, s)(scores)
    >>> bool(abs(probability.mean() - 0.3) < 1e-3)
    True
    """

    def __init__(self, prior: float, scenario: str = "case-control") -> None:
        self.prior = prior
        self.scenario = scenario

    def fit(self, scores: Any, s: Any) -> Self:
        """Learn the function from scores and PU labels."""
        prior = check_prior(self.prior)
        parts = split(s, scores, self.scenario)
        # With a small constant the probabilities can add up to any prior, even if the classes lie far apart.
        ratio = 0.999 * density_ratio(Sample(parts.positive, parts.population)) + 0.001
        share = _weight(ratio, prior) * ratio
        if share.max() >= 1:
            most = max(prior, _most(parts.positive, parts.population, prior))
            share = np.minimum(_weight(ratio, prior, most) * ratio, most)
        order = np.argsort(parts.population, kind="stable")
        self.scores_, first = np.unique(parts.population[order], return_index=True)
        self.probabilities_ = np.maximum.accumulate(share[order][first])
        return self

    def check(self) -> None:
        """Refuse attributes that no fit produces."""
        scores, shares = self.scores_, self.probabilities_
        sound = scores.shape == shares.shape and scores.ndim == 1 and len(scores) > 0 and np.isfinite(scores).all()
        if not sound or (np.diff(scores) < 0).any() or not ((shares >= 0) & (shares <= 1)).all():
            raise InputError("the calibrator does not hold probabilities of rising scores. Fit it again.")

    def __call__(self, scores: Any) -> Array:
        """The probabilities of rows with these scores."""
        if not hasattr(self, "scores_"):
            raise InputError("the calibrator has not been fitted. Call fit(scores, s) first.")
        return np.interp(finite_values(scores), self.scores_, self.probabilities_)


class PULogisticCalibrator:
    """The probability of being positive as σ(slope · asinh(logit) + offset): two numbers, for few held-out rows.

    They minimise the PU risk with the logistic loss, which is convex in them. At the minimum the mean probability over
    the population is the prior. A small penalty keeps the slope finite where the labelled rows lie apart; it weighs as
    much as one labelled row. Where the labelled rows do not score above the population, the slope is zero.

    asinh is nearly straight between -1 and 1 and grows like a logarithm beyond. A network is often far too sure, and a
    few of its logits would otherwise decide about the slope. The order of the rows stays the same.

    Networks are calibrated by it. With 10 to 60 held-out labelled rows it is as good for them as :class:`PUCalibrator`
    (``docs/log.md``).

    Parameters
    ----------
    prior : float
        The share of positives in the population.
    scenario : {"case-control", "single-sample"}

    Attributes
    ----------
    slope_, offset_ : float

    Examples
    --------
    >>> import numpy as np
    >>> from pulab.calibration import PULogisticCalibrator
    >>> rng = np.random.default_rng(0)
    >>> y = rng.random(5000) < 0.3
    >>> logits = rng.normal(size=5000) + 2 * y
    >>> s = y & (rng.random(5000) < 0.2)
    >>> probability = PULogisticCalibrator(prior=0.3, scenario="single-sample").fit(logits, s)(logits)
    >>> bool(abs(probability.mean() - 0.3) < 1e-3)
    True
    """

    def __init__(self, prior: float, scenario: str = "case-control") -> None:
        self.prior = prior
        self.scenario = scenario

    def fit(self, logits: Any, s: Any, sample_weight: Any = None) -> Self:
        """Learn slope and offset from logits and PU labels. Of weighted rows the prior is the share by weight."""
        prior = check_prior(self.prior)
        values = np.arcsinh(finite_values(logits))
        parts = split(s, values, self.scenario)
        given = np.ones(len(values)) if sample_weight is None else finite_values(sample_weight, len(values))
        of_p, of_population, _ = (weight / weight.sum() for weight in split(s, given, self.scenario))
        middle = float(of_population @ parts.population)
        spread = math.sqrt(of_population @ (parts.population - middle) ** 2)
        self.slope_, self.offset_ = 0.0, float(logit(prior))
        if spread > 1e-12 * abs(middle):
            mean_of_p = float(of_p @ (parts.positive - middle)) / spread
            h = (parts.population - middle) / spread
            slope, offset = _line(mean_of_p, h, of_population, prior, penalty=prior / len(parts.positive))
            if slope > 0:
                self.slope_, self.offset_ = slope / spread, offset - slope * middle / spread
        return self

    def __call__(self, logits: Any) -> Array:
        """The probabilities of rows with these logits."""
        if not hasattr(self, "slope_"):
            raise InputError("the calibrator has not been fitted. Call fit(logits, s) first.")
        return np.asarray(expit(self.slope_ * np.arcsinh(finite_values(logits)) + self.offset_))


def _line(mean_of_p: float, h: Array, weight: Array, prior: float, penalty: float) -> tuple[float, float]:
    """The slope and the offset with the lowest risk: mean log(1 + e^z) over the population − prior · mean z over P."""

    def risk(line: Array) -> tuple[float, Array]:
        slope, offset = line
        z = slope * h + offset
        p = expit(z)
        value = weight @ np.logaddexp(0, z) - prior * (slope * mean_of_p + offset) + penalty * slope**2 / 2
        return value, np.array([weight @ (p * h) - prior * mean_of_p + penalty * slope, weight @ p - prior])

    def curvature(line: Array) -> Array:
        p = expit(line[0] * h + line[1])
        curved = weight * p * (1 - p)
        return np.array([[curved @ h**2 + penalty, curved @ h], [curved @ h, curved.sum()]])

    start = np.array([0.0, logit(prior)])
    line = minimize(risk, start, jac=True, hess=curvature, method="trust-exact", options={"gtol": 1e-9}).x
    for _ in range(2):  # Newton's steps to the last digits: logits that differ by rounding must give the same line
        line = line - np.linalg.lstsq(curvature(line), risk(line)[1])[0]
    return float(line[0]), float(line[1])


def _weight(ratio: Array, prior: float, most: float = 1.0) -> float:
    """The factor w for which the mean of min(w · ratio, most) is the prior."""
    low, high = prior, prior
    while np.minimum(high * ratio, most).mean() < prior and high < 1e12:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if np.minimum(middle * ratio, most).mean() < prior else (low, middle)
    return high


def _most(positive: Array, population: Array, prior: float) -> float:
    """The highest share of positives that the labelled rows support for the rows above any score.

    Above a score, the share of positives is prior · recall / share of the population. Both are counted, so it has a
    standard error. What is expected of it, given that it is between 0 and 1, is the mean of a truncated normal
    distribution. Of a pure top with 37 of 100 labelled rows .90 is expected, of one with 95 of them .98.
    """
    at = np.unique(positive)
    n_p, n = len(positive), len(population)
    recall = (n_p - np.searchsorted(np.sort(positive), at) + 0.5) / (n_p + 1)
    above = np.maximum(n - np.searchsorted(np.sort(population), at), 0.5) / n
    share = np.minimum(prior * recall / above, 1)
    error = share * np.sqrt((1 - recall) / (recall * n_p) + (1 - above) / (above * n))
    low, high = -share / error, (1 - share) / error
    density = np.exp(-(low**2) / 2) - np.exp(-(high**2) / 2)
    expected = share + error * density / (np.sqrt(2 * np.pi) * (ndtr(high) - ndtr(low)))
    return float(expected.max())


def among_unlabeled(
    probability: Array, *, prior: float, n_labeled: int, n_unlabeled: int, scenario: str = "single-sample"
) -> Array:
    """The probability of being positive, given that the row is unlabeled.

    In a single sample a share c of the positives is labelled and missing from U, so that p becomes p·(1 − c)/(1 − c·p).
    For case-control data U is the population, and p stays.
    """
    if scenario == "case-control":
        return np.asarray(probability)
    c = min(1.0, n_labeled / (prior * (n_labeled + n_unlabeled)))
    return np.asarray(probability * (1 - c) / np.maximum(1 - c * probability, 1e-12))
