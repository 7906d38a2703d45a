"""What the scores of labelled and unlabeled rows tell about the share of positives, and whether pure positives show."""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import beta

from pulab.metrics import Array
from pulab.priors._sample import Sample

TAIL = 0.025  # the chance that a limit misses the truth
PURE = 0.9  # where pure positives are evident, at least so many rows of the best half are positive
SAME = 1.5  # the best half of the positives may look so much purer than the next two fifths, at most
COUNTS = 0.75  # each labelled row counts so much: the models of several folds learn from the same labelled rows
RARE = 0.5  # the region that holds nine tenths of the positives has at most this share of the population


class Range(NamedTuple):
    """Limits of the share of positives in the population, each with an error of 2.5 %.

    ``high`` needs no assumption but random labelling. ``low`` counts the labelled rows, or is the lower limit of the
    estimate where a region of pure positives is evident.
    """

    low: float
    high: float
    evident: bool


def limits(scores: Sample, scenario: str) -> Range:
    """The range of the share of positives, from the scores of held-out rows."""
    in_one_sample = scenario == "single-sample"
    positive = scores.positive
    population = np.concatenate(scores) if in_one_sample else scores.unlabeled
    known = len(positive) / len(population) if in_one_sample else 0.0
    high = max(_upper_limit(positive, population, drawn=not in_one_sample), known)
    if not _is_pure(positive, population):
        return Range(known, high, False)
    half = len(positive) // 2
    of_population = _share_above(np.sort(positive)[-half], population)
    of_positives = beta.ppf(1 - TAIL, half, len(positive) - half + 1)  # the share of all positives that score so high
    return Range(float(np.clip(PURE * of_population / of_positives, known, high)), high, True)


def _upper_limit(positive: Array, population: Array, drawn: bool) -> float:
    """An upper limit of the share of positives. ``drawn``: the population's scores are a sample of it.

    No set of rows holds more positives than rows: prior · (share of the positives in the set) is at most the share of
    the population in it. This holds for the rows above any threshold, whatever the quality of the scores. Labelled rows
    estimate the first share. The lower limits of it at all thresholds hold together.
    """
    n_p, n = len(positive), len(population)
    thresholds = np.sort(positive)[::-1][_ranks(n_p) - 1]
    above = _share_above(thresholds, population)
    found = _share_above(thresholds, positive) * n_p  # ties count together
    if drawn:  # Clopper and Pearson's upper limit at the one threshold that counts in the end
        rows = np.round(above * n)
        above = np.where(rows < n, beta.ppf(1 - TAIL, rows + 1, np.maximum(n - rows, 1)), 1.0)
    least = beta.ppf(_level(n_p), COUNTS * found, COUNTS * (n_p - found) + 1)
    return float(min(1.0, (above / least).min()))


def _share_above(thresholds: Any, values: Array) -> Array:
    return np.asarray(1 - np.searchsorted(np.sort(values), thresholds, side="left") / len(values))


def _ranks(n_p: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """A tenth of the labelled rows, but at least ten if there are so many; then a seventh more each, up to all."""
    first = max(min(10, n_p), n_p // 10)
    steps = np.geomspace(first, n_p, 1 + math.ceil(math.log(n_p / first) / math.log(1.15)))
    return np.unique(steps.round().astype(int))


@lru_cache(maxsize=64)
def _level(n_p: int) -> float:
    """The level of each lower limit at which all of them hold together, by simulation.

    The share of all positives above the k-th highest of n_p labelled ones is the k-th smallest of n_p uniform numbers.
    """
    ranks = _ranks(n_p)
    gaps = np.diff([0, *ranks, n_p + 1])
    sums = np.cumsum(np.random.default_rng(0).gamma(gaps, size=(4000, len(gaps))), axis=1)
    levels = beta.cdf(sums[:, :-1] / sums[:, -1:], ranks, n_p - ranks + 1)
    return float(np.quantile(levels.min(axis=1), TAIL))


def _is_pure(positive: Array, population: Array) -> bool:
    """Whether a region of pure positives is evident.

    The ratio of the densities must be flat at its top, over nine tenths of the positives: the best half may exceed the
    next two fifths by half at most, as an upper limit. And that region must be rare in the population, because an
    attribute that all positives share makes a flat top, too.
    """
    n_p = len(positive)
    if n_p < 10:
        return False
    ends = np.sort(positive)[::-1][[n_p // 2 - 1, int(0.9 * n_p) - 1]]
    labelled = _share_above(ends, positive) * n_p
    rows = _share_above(ends, population) * len(population)
    (first, second), (rows_first, rows_second) = (np.diff(x, prepend=0) for x in (labelled, rows))
    if rows.max() > RARE * len(population) or not second or not rows_second:
        return False
    ratio = (first / rows_first) / (second / rows_second)
    error = math.sqrt(1 / first + 1 / second + 1 / rows_first + 1 / rows_second)
    return bool(ratio * math.exp(1.645 * error) <= SAME)
