"""Which rows a person is asked about: a random draw by depth of the ranking, in a fixed order."""

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pulab.metrics import Array

Index = NDArray[np.intp]

SIZE = 400  # rows that are drawn at most
EQUAL = 0.4  # this part of the draw is spread equally over the bands


class Drawn(NamedTuple):
    """A stratified draw. Any number of its first rows is a random sample of each band."""

    rows: Index  # positions among the unlabeled rows, in the order of review
    stratum: Index  # the band of each of them, counted from 0
    ends: Index  # the last rank of each band
    labelled: Index  # labelled rows that score as high as each band


class Draw(NamedTuple):
    """The draw of a fitted table, with all that a reviewer sees."""

    frame: pl.DataFrame  # row (counted from 1), the id if there is one, and the columns of the table
    stratum: list[int]
    ends: list[int]
    labelled: list[int]


def draw(unlabeled: Array, labelled: Array, upper: float, rng: np.random.Generator, size: int = SIZE) -> Drawn:
    """Draw unlabeled rows at random from bands of their ranking, highest score first.

    Parameters
    ----------
    unlabeled, labelled : arrays
        Held-out scores of unlabeled and of labelled rows.
    upper : float
        The largest share of positives that is possible.
    rng : Generator
    size : int
        Number of rows, or all if there are fewer.
    """
    ranking = np.argsort(-unlabeled, kind="stable")
    ends = bands(len(ranking))
    sizes = np.diff(ends, prepend=0)
    counts = _labelled_by_band(unlabeled[ranking], labelled, ends, rng)
    lower = len(labelled) / (len(labelled) + len(unlabeled))
    shares = allocation(sizes, counts, float(np.sqrt(lower * max(upper, lower))))
    stratum = _turns(shares, sizes, min(size, len(ranking)))
    rows = np.empty(len(stratum), dtype=np.intp)
    for band, last in enumerate(ends):
        places = np.flatnonzero(stratum == band)
        rows[places] = ranking[rng.choice(np.arange(last - sizes[band], last), len(places), replace=False)]
    return Drawn(rows, stratum, ends, counts)


def bands(n: int) -> Index:
    """The last ranks of the bands: 100, 500, and then up to five more that grow by the same factor.

    >>> bands(4000).tolist(), bands(300_000).tolist(), bands(60).tolist()
    ([100, 500, 1000, 2000, 4000], [100, 500, 1797, 6460, 23220, 83462, 300000], [7, 14, 29, 60])
    """
    first = [end for end in (100, 500) if 2 * end <= n]
    start = first[-1] if first else max(1, n // 8)
    steps = int(np.clip(round(np.log2(n / start)), 1, 5))
    further = np.geomspace(start, n, steps + 1).round()[bool(first) :]
    return np.unique(np.concatenate([first, further])).astype(np.intp)


def allocation(sizes: Index, labelled: Index, share: float) -> Array:
    """The parts of the draw that the bands get.

    One part is spread equally, so that the precision of every band is measured. The other follows Neyman: it gives the
    narrowest interval of the share of positives, if labelled rows are spread like other positives.
    """
    lift = (labelled + 0.5) / (labelled + 0.5).sum() * sizes.sum() / sizes
    expected = np.clip(share * lift, 1e-4, 0.9)
    neyman = sizes * np.sqrt(expected * (1 - expected))
    return np.asarray(EQUAL / len(sizes) + (1 - EQUAL) * neyman / neyman.sum())


def _turns(shares: Array, sizes: Index, n: int) -> Index:
    """Whose turn it is, n times: always the band that is farthest behind its part."""
    taken = np.zeros(len(sizes))
    turns = np.empty(n, dtype=np.intp)
    for turn in range(n):
        behind = np.where(taken < sizes, shares * (turn + 1) - taken, -np.inf)
        turns[turn] = np.argmax(behind)
        taken[turns[turn]] += 1
    return turns


def _labelled_by_band(ranked: Array, labelled: Array, ends: Index, rng: np.random.Generator) -> Index:
    """The number of labelled rows that belong in each band. Those that tie with unlabeled rows go to either side."""
    before = np.searchsorted(-ranked, -labelled, side="left")
    through = np.searchsorted(-ranked, -labelled, side="right")
    places = rng.integers(before, through + 1)
    band = np.searchsorted(ends[:-1], places, side="left")  # a row right after the last of a band counts for it
    return np.bincount(band, minlength=len(ends)).astype(np.intp)
