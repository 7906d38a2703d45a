"""The share of positives among unlabeled rows, estimated from scores: DEDPUL, BBE, Elkan and Noto's."""

import math
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter1d
from sklearn.isotonic import isotonic_regression
from sklearn.linear_model import LogisticRegression

from pulab.metrics import Array
from pulab.priors._sample import Sample


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
    low, high = np.quantile(both, (0.0005, 0.9995))
    margin = 0.1 * (high - low) + 1e-9
    low, high = low - margin, high + margin
    step = (high - low) / bins

    # Both densities get the same width: U then stays a mixture of P and the rest, and the ratio at most 1/share.
    quartiles = np.quantile(positive, (0.25, 0.75))
    spread = min(positive.std(), (quartiles[1] - quartiles[0]) / 1.34) or positive.std() or step
    width = 1.5 * spread * len(positive) ** -0.2  # slightly wider than Silverman's rule

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
    ratio, best, _ = _bins(sample, delta, gamma)
    return float(min(1.0, ratio[best]))


def _bins(sample: Sample, delta: float = 0.1, gamma: float = 0.01) -> tuple[Array, int, Array]:
    """The ratio q_U/q_P at every threshold, the index of the best threshold, and q_P."""
    positive, unlabeled = sample
    thresholds = np.sort(unlabeled)[::-1]
    q_u = 1 - np.searchsorted(np.sort(unlabeled), thresholds, side="left") / len(unlabeled)  # ties count together
    q_p = 1 - np.searchsorted(np.sort(positive), thresholds, side="left") / len(positive)
    slack = (1 + gamma) * sum(math.sqrt(math.log(4 / delta) / (2 * len(part))) for part in sample)
    usable = np.maximum(q_p, 1e-12)
    best = int(np.argmin(np.where(q_p > 0, (q_u + slack) / usable, np.inf)))
    return np.asarray(q_u / usable), best, np.asarray(q_p)


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


def shows_pure_positives(sample: Sample, share: float) -> bool:
    """Whether the sample shows a region of pure positives, which every estimate assumes.

    There are two checks. First, the ratio q_U/q_P should be constant above BBE's threshold. If it falls there by more
    than a twentieth and more than chance explains, still purer rows exist beyond the sample. Second, at least two
    fifths of the estimated positives in U should have a probability of 0.9 or more. Among synthetic samples most with a
    pure region pass this, and few whose classes overlap everywhere.
    """
    certain = np.minimum(share * density_ratio(sample), 1)
    stand_out = certain[certain >= 0.9].sum() >= 0.4 * certain.sum()
    return bool(stand_out) and not _falls_further_up(sample)


def _falls_further_up(sample: Sample) -> bool:
    ratio, best, q_p = _bins(sample)
    q_u = ratio * np.maximum(q_p, 1e-12)
    for part in (0.5, 0.25):
        inner = int(np.argmin(np.abs(q_p - q_p[best] * part)))
        kept_p, kept_u = q_p[inner] / q_p[best], q_u[inner] / q_u[best]
        if not 0 < kept_p < 1 or not 0 < kept_u < 1:
            continue
        n_p, n_u = q_p[best] * len(sample.positive), q_u[best] * len(sample.unlabeled)
        chance = math.sqrt((1 - kept_p) / (kept_p * n_p) + (1 - kept_u) / (kept_u * n_u))
        if math.log(ratio[best] / ratio[inner]) > max(0.05, 1.64 * chance):
            return True
    return False
