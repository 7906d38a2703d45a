"""Calibration: scores become probabilities, without negatives."""

from typing import Any, Self

import numpy as np

from pulab._validation import check_prior
from pulab.errors import InputError
from pulab.metrics import Array, split
from pulab.priors import Sample, density_ratio


class PUCalibrator:
    """The probability of being positive as a rising function of a score.

    It is prior · f_P(score) / f(score), made monotone and at most 1. f_P and f are the densities of the score among
    labelled rows and in the population. The mean over the population is the prior. Fit it on rows that the scoring
    model has not seen.

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
        share = np.minimum(_weight(ratio, prior) * ratio, 1.0)
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
        return np.interp(np.asarray(scores, dtype=np.float64), self.scores_, self.probabilities_)


def _weight(ratio: Array, prior: float) -> float:
    """The factor w for which the mean of min(w · ratio, 1) is the prior."""
    low, high = prior, prior
    while np.minimum(high * ratio, 1).mean() < prior and high < 1e12:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if np.minimum(middle * ratio, 1).mean() < prior else (low, middle)
    return high


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
