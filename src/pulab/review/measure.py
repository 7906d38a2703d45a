"""What the answers of a person say: the share of positives, precision at a depth, and whether labelling is random.

Two intervals are computed for the number of positives. The first assumes that the share of positives follows the
ranking: its log-odds by depth are a straight line in those that the labelled rows show. Two numbers of this line are
learned from the answers, its height and its slope. With random labelling the slope is 1, so that the slope also tests
random labelling. The second interval assumes nothing but the random draw, and holds at any time that one may stop.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import betaln, digamma, expit, gammaln, logit, logsumexp

from pulab.metrics import Array

ALPHA = 0.05
TAIL = 0.01  # by simulation, 98 % of the posterior covers 95 % of the time, even if one stops when it is narrow
SLOPE_SD = 0.7  # of the slope, before any answer; with 0.5, strong bias costs two points of coverage
DRAWS = 4000


class Counts(NamedTuple):
    """The answers by band of the ranking, best first. All are arrays of float64."""

    size: Array  # unlabeled rows
    labelled: Array  # labelled rows that score as high
    yes: Array
    no: Array


class Posterior(NamedTuple):
    """Draws of what is not known, given the answers."""

    positives: Array  # unlabeled positives by draw and band
    slope: Array


# The line -------------------------------------------------------------------------------------------------------------


def line(level: Array, slope: Array, log_lift: Array) -> Array:
    """The share of positives by band: log-odds that are a line in those of level · lift. A slope of 1 changes nothing.

    ``level`` is the log of the share of positives among all unlabeled rows. The arrays are broadcast; the last axis is
    that of the bands.
    """
    at = logit(np.exp(level))
    by_labelled = logit(np.exp(np.clip(level + log_lift, -25, -1e-3)))
    return np.asarray(expit(at + slope * (by_labelled - at)))


def posterior(counts: Counts, rng: np.random.Generator, *, slope: float | None = None) -> Posterior:
    """Draws of the number of positives in each band and of the slope, which may be given.

    A grid of levels and slopes is weighed by the likelihood of the answers. The lifts are drawn as the labelled rows
    suggest. A second grid covers the part of the first that has weight.
    """
    levels = _levels(counts)
    slopes = _slopes(slope)
    rough = _likelihood(counts, levels, slopes, _mean_lift(counts)[None])
    has_weight = np.flatnonzero((rough > rough.max() - 12).any(axis=(1, 2)))
    first, last = max(has_weight[0] - 1, 0), min(has_weight[-1] + 1, len(levels) - 1)
    levels = np.linspace(levels[first], levels[last], 41)
    lifts = _log_lift(counts, rng.dirichlet(counts.labelled + 0.5, 60))
    weight = np.exp(_likelihood(counts, levels, slopes, lifts)).ravel()
    drawn = rng.choice(len(weight), DRAWS, p=weight / weight.sum())
    i, j, k = np.unravel_index(drawn, (len(levels), len(slopes), len(lifts)))
    # Spread over the cells of the grid, so that the ends do not depend on its steps.
    level = np.minimum(levels[i] + rng.uniform(-0.5, 0.5, DRAWS) * (levels[1] - levels[0]), -1e-3)
    chosen = slopes[j] + (rng.uniform(-0.5, 0.5, DRAWS) * (slopes[1] - slopes[0]) if slope is None else 0)
    shares = line(level[:, None], chosen[:, None], lifts[k])
    rest = (counts.size - counts.yes - counts.no).astype(np.int64)
    return Posterior(counts.yes + rng.binomial(rest, shares), chosen)


def _levels(counts: Counts) -> Array:
    """From half a positive row to nearly all rows."""
    return np.linspace(np.log(0.5 / counts.size.sum()), np.log(0.98), 80)


def _slopes(slope: float | None) -> Array:
    return np.linspace(1 - 2.5 * SLOPE_SD, 1 + 2.5 * SLOPE_SD, 21) if slope is None else np.array([slope])


def _mean_lift(counts: Counts) -> Array:
    return _log_lift(counts, (counts.labelled + 0.5) / (counts.labelled + 0.5).sum())


def _log_lift(counts: Counts, shares: Array) -> Array:
    return np.asarray(np.log(np.maximum(shares, 1e-12) * counts.size.sum() / counts.size))


def _likelihood(counts: Counts, levels: Array, slopes: Array, lifts: Array) -> Array:
    """The log-likelihood and the log-weight before any answer, by level, slope and lift. The highest is 0."""
    p = np.clip(line(levels[:, None, None, None], slopes[:, None, None], lifts), 1e-12, 1 - 1e-12)
    value = (counts.yes * np.log(p) + counts.no * np.log1p(-p)).sum(axis=-1)
    value -= 0.5 * ((slopes[:, None] - 1) / SLOPE_SD) ** 2
    return np.asarray(value - value.max())


# No assumption --------------------------------------------------------------------------------------------------------


def by_design(counts: Counts) -> tuple[float, float]:
    """Bounds of the number of positives that hold at any time with 95 %, whatever the labelling.

    Let P(K) be the probability of the answers if the bands hold K = (K_1, …) positives, and m their probability under
    any mixture that was fixed before. m / P(K) is a martingale under the true K. By Ville's inequality it ever reaches
    1/α with a probability of at most α. So the K with m / P(K) < 1/α are a confidence sequence (the prior-posterior
    ratio of Waudby-Smith and Ramdas 2020). Rows are drawn without replacement, and P(K) is exact. It is log-concave.
    """
    mixture = _log_mixture(counts)
    return _extreme(counts, mixture, -1.0), _extreme(counts, mixture, 1.0)


def band_by_design(size: float, yes: float, no: float) -> tuple[float, float]:
    """The same for one band alone."""
    counts = Counts(*(np.array([value], dtype=np.float64) for value in (size, 0, yes, no)))
    mixture = float(betaln(yes + 0.5, no + 0.5) - betaln(0.5, 0.5))
    return _extreme(counts, mixture, -1.0), _extreme(counts, mixture, 1.0)


def _log_mixture(counts: Counts) -> float:
    """The log-probability of the answers under a mixture of lines, and of shares near these lines."""
    levels, slopes = _levels(counts), _slopes(None)
    p = line(levels[:, None, None], slopes[:, None], _mean_lift(counts))
    prior = np.broadcast_to(-0.5 * ((slopes - 1) / SLOPE_SD) ** 2, p.shape[:2])
    parts = []
    for strength in (10.0, 100.0):  # of a beta distribution around the line: the fewer, the wider
        a, b = strength * np.clip(p, 1e-4, 1 - 1e-4), strength * np.clip(1 - p, 1e-4, 1 - 1e-4)
        value = (betaln(a + counts.yes, b + counts.no) - betaln(a, b)).sum(axis=-1)
        parts.append(logsumexp(value + prior) - logsumexp(prior) - np.log(2))
    return float(logsumexp(parts))


def _extreme(counts: Counts, mixture: float, sign: float) -> float:
    """The largest (sign 1) or smallest (sign −1) sum of whole numbers K with log P(K) > mixture + log α.

    The best K for a price of log P can be found band by band, by bisection. The lower the price, the more extreme
    the sum. So the lowest price is sought at which K is in the set.
    """
    low, high = -10.0, 10.0  # log10 of the price
    answer = 0.0
    for _ in range(4):
        prices = np.linspace(low, high, 30)
        best = _best(counts, sign, 10.0 ** prices[:, None])
        inside = _log_probability(counts, best).sum(axis=1) > mixture + np.log(ALPHA)
        at = int(np.argmax(inside)) if inside.any() else len(prices) - 1
        answer = float(best[at].sum())
        low, high = prices[max(at - 1, 0)], prices[at]
    return float(np.floor(answer + 1e-6) if sign > 0 else np.ceil(answer - 1e-6))


def _best(counts: Counts, sign: float, price: Array) -> Array:
    """By price and band, the K with the largest sign · K + price · log P(K)."""
    low = np.broadcast_to(counts.yes, (len(price), len(counts.yes)))
    high = np.broadcast_to(counts.size - counts.no, low.shape)
    for _ in range(50):
        middle = (low + high) / 2
        rises = sign + price * _slope_of_log_probability(counts, middle) > 0
        low, high = np.where(rises, middle, low), np.where(rises, high, middle)
    return np.asarray((low + high) / 2)


def _log_probability(counts: Counts, K: Array) -> Array:
    """Of the answers in their order, drawn without replacement from K positives and the rest."""
    N, yes, no = counts.size, counts.yes, counts.no
    drawn = gammaln(N + 1) - gammaln(N - yes - no + 1)
    of_yes = gammaln(K + 1) - gammaln(K - yes + 1)
    return np.asarray(of_yes + gammaln(N - K + 1) - gammaln(N - K - no + 1) - drawn)


def _slope_of_log_probability(counts: Counts, K: Array) -> Array:
    N, yes, no = counts.size, counts.yes, counts.no
    return np.asarray(digamma(K + 1) - digamma(K - yes + 1) - digamma(N - K + 1) + digamma(N - K - no + 1))
