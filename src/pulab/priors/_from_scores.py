"""The share of positives among unlabeled rows, estimated from scores: DEDPUL, BBE, Elkan and Noto's."""

import math
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter1d
from sklearn.isotonic import isotonic_regression
from sklearn.linear_model import LogisticRegression

from pulab.metrics import Array
from pulab.priors._sample import Sample

FAR = 20  # interquartile ranges


def dedpul(sample: Sample, rng: Any = None) -> float:
    """DEDPUL: the ratio r of the two densities of scores, made monotone, gives the share a with a = mean min(a·r, 1).

    Every a below the true share solves that equation, and no a above it does. With estimated densities the mean is
    always slightly too small. So the largest a is taken whose mean is too small by at most 0.1/√n_p (chosen on
    synthetic samples).
    """
    ratio = density_ratio(sample)
    shares = np.linspace(0.002, 1, 500)
    ordered = np.sort(ratio)
    below = np.concatenate([[0.0], np.cumsum(ordered)])
    n_below = np.searchsorted(ordered, 1 / shares)
    explained = (shares * below[n_below] + (len(ordered) - n_below)) / len(ordered)
    good = shares[shares - explained <= 0.1 / math.sqrt(len(sample.positive))]
    return float(good.max()) if len(good) else float(shares[0])


def density_ratio(sample: Sample, bins: int = 2048) -> Array:
    """f_P/f_U at each unlabeled row, from kernel densities of the logits; monotone in the score, with mean 1."""
    positive, unlabeled = sample
    both = np.concatenate([positive, unlabeled])
    # Of few rows, these quantiles are the outermost scores. One far score must not push all others into one bin.
    low, first, third, high = np.quantile(both, (0.0005, 0.25, 0.75, 0.9995))
    if third > first:
        low, high = max(low, first - FAR * (third - first)), min(high, third + FAR * (third - first))
    margin = 0.1 * (high - low) + 1e-9
    low, high = low - margin, high + margin
    step = (high - low) / bins

    # Both densities get the same width: U then stays a mixture of P and the rest, and the ratio at most 1/share.
    quartiles = np.quantile(positive, (0.25, 0.75))
    spread = min(positive.std(), (quartiles[1] - quartiles[0]) / 1.34) or positive.std() or step
    width = 1.5 * spread * len(positive) ** -0.2  # slightly wider than Silverman's rule
    width = min(width, high - low)  # where U is one point, P may be spread far beyond the range

    def density(values: Array) -> Array:
        counts = np.histogram(np.clip(values, low, high), bins=bins, range=(low, high))[0]
        smooth: Array = gaussian_filter1d(counts.astype(np.float64), max(width / step, 1e-3), mode="constant")
        return smooth / len(values)

    place = np.clip(((unlabeled - low) / step).astype(int), 0, bins - 1)
    order = np.argsort(unlabeled, kind="stable")
    raw = density(positive)[place] / np.maximum(density(unlabeled)[place], 1e-12)
    ratio = np.empty_like(raw)
    ratio[order] = isotonic_regression(raw[order])
    mean = ratio.mean()
    return np.asarray(ratio / mean) if mean > 0 else np.ones_like(ratio)


def bbe(sample: Sample, rng: Any = None, delta: float = 0.1, gamma: float = 0.01) -> float:
    """Best bin estimation: q_U/q_P at the threshold where the upper confidence bound of that ratio is lowest."""
    positive, unlabeled = sample
    thresholds = np.sort(unlabeled)[::-1]
    q_u = 1 - np.searchsorted(np.sort(unlabeled), thresholds, side="left") / len(unlabeled)  # ties count together
    q_p = 1 - np.searchsorted(np.sort(positive), thresholds, side="left") / len(positive)
    slack = (1 + gamma) * sum(math.sqrt(math.log(4 / delta) / (2 * len(part))) for part in sample)
    usable = np.maximum(q_p, 1e-12)
    best = int(np.argmin(np.where(q_p > 0, (q_u + slack) / usable, np.inf)))
    return float(min(1.0, q_u[best] / usable[best]))


def elkan_noto(sample: Sample, rng: Any = None) -> float:
    """Elkan and Noto's e1: the label frequency is the mean probability of being labelled over the labelled rows."""
    # Scores become probabilities first: they may have any scale, and come from balanced classes.
    scores = np.concatenate(sample)[:, None]
    labelled = np.arange(len(scores)) < len(sample.positive)
    scale = float(scores.std()) or 1.0
    platt = LogisticRegression(C=1e6).fit(scores / scale, labelled)
    frequency = float(platt.predict_proba(scores[labelled] / scale)[:, 1].mean())
    odds = len(sample.positive) / len(sample.unlabeled)
    return float(min(1.0, odds * (1 - frequency) / max(frequency, 1e-12)))
