"""Labelling that depends on named columns: figures by strata, within which labelled rows are like the other positives.

A stratum is a group of rows with alike values of the named columns. Its labelled rows are a random sample of its
positives. So the rows tell two things for each stratum: a range of the number of its positives, and where they stand in
the ranking. They do not tell how often positives are labelled in one stratum against another, because a row may be
labelled rarely for two reasons: positives are rare there, or their labels are. So a figure of the whole table is a
mean over the strata whose weights are known within ranges. Its own range has its ends at the worst such weights.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypedDict, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pulab.errors import InputError
from pulab.metrics import Array
from pulab.priors import PriorEstimate, Sample, bbe, dedpul, limits
from pulab.summary import ODDS, Stratum, _checked
from pulab.tables._columns import Column, check_column

Marks = NDArray[np.bool_]
Index = NDArray[np.intp]
Triple = tuple[float, float, float]  # a value and the ends of its range

MATTERS = 0.01  # share of the rows
LEAST = 10  # labelled rows of a stratum; smaller ones are joined
CELLS = 4  # a column of numbers is cut at its quartiles
FEW = 10  # unless it has at most so many values
WORDS = 50  # a column of words has at most so many values
MOST = 10_000  # combinations of the values of several columns
STEPS = 20
BIAS = 3.0  # what is asked of a column that was not named: one kind of rows is labelled so many times as often


# Which rows belong to a stratum ---------------------------------------------------------------------------------------


class Cells(TypedDict):
    """How the values of a column are divided. The last cell is for missing values."""

    name: str
    edges: list[float]  # upper ends of the cells of numbers or dates; the last cell has none
    words: list[str]  # the cells of words
    are_dates: bool


class Strata(TypedDict):
    """The strata of a table, as plain JSON. A row with values that the fit has not seen belongs to none of them."""

    columns: list[Cells]
    strata: int  # their number
    stratum_of: list[int]  # by combination of cells, the first column first; their number for one without rows
    offset: list[float]  # by stratum, what is added to a model's score. The last item is for rows of no stratum
    low: list[float]  # by stratum, the number of positives for one labelled row: the least
    high: list[float]  # the most
    value: list[float] | None  # the number itself, if the share of positives is known


def check_strata(document: Any) -> Strata | None:
    """Strata from a file. Raises ValueError if they are damaged."""
    if document is None:
        return None
    strata = cast(Strata, _checked(document, Strata, "strata"))
    n = strata["strata"] + 1
    ends = [strata["low"], strata["high"], strata["value"] or strata["low"]]
    if len(strata["offset"]) != n or any(len(weights) != n or min(weights) <= 0 for weights in ends):
        raise ValueError("strata have weights that do not fit")
    indices = strata["stratum_of"]
    if len(indices) != math.prod(map(_size, strata["columns"])) or not 0 <= min(indices) <= max(indices) < n:
        raise ValueError("strata do not fit their columns")
    return strata


def learn_strata(names: Sequence[str], frame: pl.DataFrame, columns: Sequence[Column], labelled: Marks) -> Strata:
    """Divide the rows by the values of these columns. Values with few labelled rows are joined."""
    kinds = {column.name: column.kind for column in columns}
    cells = [_learn_cells(frame[name], kinds[name]) for name in dict.fromkeys(names)]
    size = math.prod(map(_size, cells))
    if size > MOST:
        raise InputError(f"labelled_by gives {size:,} combinations of values. Name fewer columns, or those with fewer.")
    places = _places(frame, cells)
    rows, known = (np.bincount(part, minlength=size) for part in (places, places[labelled]))
    large = np.flatnonzero(known >= LEAST)
    stratum = np.full(size, len(large))
    stratum[large] = np.arange(len(large))
    if len(large) and known.sum() - known[large].sum() < LEAST:  # too few for a stratum of their own
        stratum[stratum == len(large)] = np.argmin(known[large])
    if stratum.max() == 0:
        raise InputError(
            f"labelled_by needs {LEAST} labelled rows in each of two groups of rows, but no two groups by "
            f"{', '.join(map(repr, dict.fromkeys(names)))} have so many. Label more rows, or name another column."
        )
    n = int(stratum.max()) + 1
    stratum[rows == 0] = n
    of_place = stratum.tolist()
    return {"columns": cells, "strata": n, "stratum_of": of_place, "offset": [], "low": [], "high": [], "value": None}


def stratum_of(strata: Strata, frame: pl.DataFrame) -> Index:
    """The stratum of each row, whose columns were read by ``conform``. Rows of no stratum have one number more."""
    places = _places(frame, strata["columns"])
    return np.where(places < 0, strata["strata"], np.array(strata["stratum_of"])[places])


def without_labels(strata: Strata, frame: pl.DataFrame, labelled: Marks) -> list[str]:
    """A warning if many rows have values with which none is labelled."""
    places = _places(frame, strata["columns"])
    known = np.bincount(places[labelled], minlength=len(strata["stratum_of"]))
    alone = known[places] == 0
    if alone.mean() < MATTERS:
        return []
    most = int(np.bincount(places[alone]).argmax())
    name = _place_name([_cell_names(cells) for cells in strata["columns"]], most)
    return [
        f"{alone.mean():.0%} of the rows have values with which no row is labelled, such as {name}. Nothing tells "
        "about positives there. They are taken to be like those of other values."
    ]


def check_names(
    names: Any, label: str, id: str | None, known: Sequence[str], where: str, notes: dict[str, str]
) -> None:
    """Refuse columns that labelling cannot depend on, or that the model does not learn from."""
    if isinstance(names, str):
        raise InputError(f"labelled_by must be a list of columns, got {names!r}. Pass [{names!r}].")
    for name in names:
        check_column(name, known, where, "labelled_by")
        if name in (label, id):
            raise InputError(f"labelled_by cannot name {name!r}, which is the label or the id. Name another column.")
        if name in notes:
            raise InputError(
                f"labelled_by names {name!r}, which the model does not learn from: {notes[name]}. The scores can only "
                "be corrected for a column that the model sees. Name another column."
            )


def _learn_cells(values: pl.Series, kind: str) -> Cells:
    cells: Cells = {"name": values.name, "edges": [], "words": [], "are_dates": kind == "date"}
    known = values.drop_nulls()
    if kind in ("text", "boolean"):
        cells["words"] = sorted(known.cast(pl.String).unique().to_list())
        if len(cells["words"]) > WORDS:
            raise InputError(
                f"labelled_by names {values.name!r}, which has {len(cells['words']):,} different values, and "
                f"{WORDS} are possible. Name a column with fewer, such as a group of these."
            )
        return cells
    numbers = known.to_physical().cast(pl.Float64).to_numpy()
    different = np.unique(numbers)
    ends = different if len(different) <= FEW else np.quantile(numbers, np.arange(1, CELLS) / CELLS, method="lower")
    cells["edges"] = [float(end) for end in np.unique(ends) if end < different[-1]]
    return cells


def _size(cells: Cells) -> int:
    return (len(cells["words"]) or len(cells["edges"]) + 1) + 1


def _places(frame: pl.DataFrame, columns: Sequence[Cells]) -> Index:
    """The combination of cells of each row; below 0 where a word was not seen in the fit."""
    result, unseen = np.zeros(frame.height, np.intp), np.zeros(frame.height, bool)
    for cells in columns:
        values, missing = frame[cells["name"]], _size(cells) - 1
        if cells["words"]:
            index = {word: i for i, word in enumerate(cells["words"])}
            own = values.cast(pl.String).replace_strict(index, default=-1, return_dtype=pl.Int64).to_numpy()
        else:
            own = np.searchsorted(cells["edges"], values.to_physical().cast(pl.Float64).fill_null(0.0).to_numpy())
        own = np.where(values.is_null().to_numpy(), missing, own)
        unseen |= own < 0
        result = result * _size(cells) + own
    return np.where(unseen, -1, result)


def _names(strata: Strata) -> list[str]:
    """Each stratum in words: the values of its columns."""
    words = [_cell_names(cells) for cells in strata["columns"]]
    parts: list[list[str]] = [[] for _ in range(strata["strata"] + 1)]
    for place, stratum in enumerate(strata["stratum_of"]):
        parts[stratum].append(_place_name(words, place))
    return [part[0] if len(part) == 1 else "other" for part in parts[:-1]]


def _place_name(words: Sequence[Sequence[str]], place: int) -> str:
    cells = np.unravel_index(place, [len(own) for own in words])
    return ", ".join(own[int(i)] for own, i in zip(words, cells, strict=True))


def _cell_names(cells: Cells) -> list[str]:
    name, edges = cells["name"], [f"{edge:.6g}" for edge in cells["edges"]]
    if cells["are_dates"]:
        edges = [str(np.datetime64(int(edge), "ms").astype("datetime64[D]")) for edge in cells["edges"]]
    if cells["words"]:
        return [*(f"{name} = {word}" for word in cells["words"]), f"{name} missing"]
    ranges = [f"{name} up to {edge}" if i == 0 else f"{name} {edges[i - 1]} to {edge}" for i, edge in enumerate(edges)]
    return [*ranges, f"{name} above {edges[-1]}" if edges else f"{name} known", f"{name} missing"]


# How many positives they hold -----------------------------------------------------------------------------------------


class Box(NamedTuple):
    """Numbers of positives by stratum, each within a range, and the range of their sum.

    Where labelled rows are given, the odds of a positive to be labelled are at most ODDS times as high in one stratum
    as in another. Otherwise all hidden positives might be in one stratum.
    """

    low: Array
    high: Array
    value: Array
    total: tuple[float, float]
    labelled: Array | None = None
    counts_labelled: bool = False  # whether the numbers include the labelled rows

    def mean(self, parts: Sequence[Triple]) -> Triple:
        """The mean over all positives, and its range, of something whose mean in each stratum has a range, too."""
        value, low, high = np.array(parts).T
        weights = self.value if self.value.sum() > 0 else np.ones_like(value)
        middle = float((weights * value).sum() / weights.sum())
        boxes = list(self._of_alike_odds()) or [self]
        lowest = min(0.0 - box._largest_mean(-low) for box in boxes)
        return middle, min(lowest, middle), max(middle, *(box._largest_mean(high) for box in boxes))

    def _of_alike_odds(self) -> Iterator["Box"]:
        """Parts of the box, by the lowest number of hidden positives for one labelled row."""
        if self.labelled is None:
            return
        base = self.labelled if self.counts_labelled else np.zeros_like(self.labelled)
        most = float(((self.high - base) / self.labelled).min())
        least = float(((self.low - base) / self.labelled).max()) / ODDS
        if most <= max(least, 0):
            return
        for hidden in np.geomspace(max(least, most / 1000), most, STEPS):
            low = np.maximum(self.low, base + hidden * self.labelled)
            high = np.minimum(self.high, base + ODDS * hidden * self.labelled)
            if low.sum() <= self.total[1] and high.sum() >= self.total[0] and (low <= high).all():
                yield Box(low, high, self.value, self.total)

    def sums(self, parts: Sequence[Triple]) -> tuple[float, float]:
        """The range of the number of positives in some rows, from the share of each stratum's positives in them."""
        _, low, high = np.array(parts).T
        return 0.0 - self._largest_sum(-low, self.total[0]), self._largest_sum(high, self.total[1])

    def _filled(self, values: Array) -> tuple[Array, Array]:
        """Positives put where the value is largest: their number whenever a stratum is full, and the sum of values."""
        order = np.argsort(-values)
        room = (self.high - self.low)[order]
        numbers = self.low.sum() + np.concatenate([[0.0], np.cumsum(room)])
        return numbers, (self.low * values).sum() + np.concatenate([[0.0], np.cumsum(room * values[order])])

    def _largest_sum(self, values: Array, total: float) -> float:
        return float(np.interp(total, *self._filled(values)))

    def _largest_mean(self, values: Array) -> float:
        """Between two numbers at which a stratum is full, the mean rises or falls steadily. So these are tried."""
        numbers, sums = self._filled(values)
        ends = np.clip(self.total, numbers[0], numbers[-1])
        tried = np.concatenate([ends, numbers[(numbers >= ends[0]) & (numbers <= ends[1])]])
        tried = tried[tried > 1e-9]
        return float((np.interp(tried, numbers, sums) / tried).max()) if len(tried) else float(values.max())


class Counted(NamedTuple):
    """The rows of each stratum, and how many of them are positive."""

    of_row: Index
    rows: Array
    labelled: Array
    low: Array
    high: Array
    value: Array  # what is taken where one number is needed
    estimate: Array  # what the estimators say, which is the upper end unless pure positives are evident
    evident: bool  # in all strata

    @classmethod
    def of(cls, raw: Array, marks: Marks, of_row: Index) -> "Counted":
        """From the held-out scores of a model that was taught labelled against unlabeled rows.

        Without evidence of pure positives, the number that is taken is the geometric middle of its range.
        """
        n = int(of_row.max()) + 1
        rows, labelled = (np.bincount(part, minlength=n).astype(float) for part in (of_row, of_row[marks]))
        low, high, value, estimate = np.empty((4, n))
        evident = True
        for a in range(n):
            own = of_row == a
            sample = Sample(raw[own & marks], raw[own & ~marks])
            if not len(sample.unlabeled):
                low[a] = high[a] = value[a] = estimate[a] = labelled[a]
                continue
            found = limits(sample, "single-sample")
            low[a], high[a] = found.low * rows[a], found.high * rows[a]
            share = (dedpul(sample) + bbe(sample)) / 2
            estimate[a] = np.clip(labelled[a] + share * (rows[a] - labelled[a]), low[a], high[a])
            value[a] = estimate[a] if found.evident else math.sqrt(labelled[a] * estimate[a])
            evident &= found.evident
        return cls(of_row, rows, labelled, low, high, value, estimate, evident)

    @property
    def offset(self) -> Array:
        """By stratum, what is added to the scores of a model. The last item is for rows of no stratum.

        The chance to be labelled is that of being positive times that of a positive to be labelled, and the last one
        is taken out. Scores are logarithms of odds, which are nearly those of chances where labels are rare.

        The estimators take the upper end of the numbers of positives. Unless it is evident, the geometric middle of
        the range is used. On 17 tables with labelling biased 9 to 1 (51 draws), the first hundred then have 59.9
        positives and the ROC AUC is .806. Without correction these are 58.8 and .799, with the upper end 58.8 and .795,
        with the true numbers 62.2 and .808.
        """
        weight = (self.estimate / self.labelled) ** (1.0 if self.evident else 0.5)
        return np.append(np.log(weight) - math.log((weight * self.labelled).sum() / self.labelled.sum()), 0.0)

    def prior(self) -> PriorEstimate:
        """What is known of the share of positives in the table."""
        n = self.rows.sum()
        low, high, share = (
            float(np.clip(part.sum() / n, 1e-6, 1 - 1e-6)) for part in (self.low, self.high, self.estimate)
        )
        return PriorEstimate(share, (low, high), "auto", {"methods": {}, "warnings": []}, evident=self.evident)

    def box(self, prior: PriorEstimate) -> Box:
        """The numbers of positives that are possible. A prior that was given limits their sum."""
        n = self.rows.sum()
        least, most = (end * n for end in prior.interval)
        high = self.high if self.high.sum() >= least else self.rows  # a prior that the rows exclude: it was given
        total = (max(least, self.low.sum()), max(min(most, high.sum()), self.low.sum()))
        middle = self.value
        if prior.value is not None:  # numbers between the ends with the known sum
            known = np.clip(prior.value * n, *total)
            start, end = (self.low, self.value) if self.value.sum() > known else (self.value, high)
            span = (end - start).sum()
            middle = start + (end - start) * ((known - start.sum()) / span if span > 0 else 0.0)
        return Box(self.low, high, middle, total, self.labelled, counts_labelled=True)

    def hidden(self, prior: PriorEstimate) -> Box:
        """The same for the positives that are not labelled."""
        low, high, value, (least, most), *_ = self.box(prior)
        n = self.labelled.sum()
        low, high, value = low - self.labelled, high - self.labelled, value - self.labelled
        return Box(low, high, value, (least - n, most - n), self.labelled)

    def weights(self, strata: Strata, prior: PriorEstimate) -> Strata:
        """The strata with what scoring needs."""
        low, high, value, (least, most), *_ = self.box(prior)
        lowest = np.maximum(low, least - (high.sum() - high))  # the others cannot hold more than their upper ends
        highest = np.minimum(high, most - (low.sum() - low))

        def by_label(numbers: Array) -> list[float]:
            return [*(numbers / self.labelled).tolist(), float(numbers.sum() / self.labelled.sum())]

        known = None if known_share(prior, self) is None else by_label(value)
        ends = {"low": by_label(lowest), "high": by_label(np.maximum(highest, lowest))}
        return cast(Strata, {**strata, "offset": self.offset.tolist(), **ends, "value": known})

    def summary(self, strata: Strata) -> list[Stratum]:
        """The strata for the report."""
        columns = zip(_names(strata), self.rows, self.labelled, self.low, self.high, strict=True)
        return [
            {"name": name, "rows": int(rows), "labelled": int(labelled), "low": float(low), "high": float(high)}
            for name, rows, labelled, low, high in columns
        ]


def known_share(prior: PriorEstimate, strata: Counted | None) -> float | None:
    """The share of positives, if it is known in every stratum. A known share of the whole table is not enough."""
    return prior.value if strata is None or strata.evident else None
