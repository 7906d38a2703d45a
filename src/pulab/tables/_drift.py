"""Whether a file to score looks like the table that the model was fitted to, column by column.

The fit keeps a profile of the training table: for each column, the shares of the rows in about ten cells. Cells are
ranges of numbers or dates, frequent words, ranges of the length of texts, and missing values. Scoring keeps a random
sample of the file's rows, so its memory does not depend on the size of the file, and compares the shares at the end.

A column is named if its shares differ for two reasons. First, the total variation (half the sum of the differences) is
above MATTERS. Second, a chi-squared test of two samples excludes chance: over all columns together, a fresh sample of
the same population is named with a chance below ERROR.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypedDict, cast

import numpy as np
import polars as pl
from scipy.stats import chi2, norm

from pulab.metrics import Array
from pulab.summary import _checked
from pulab.tables._columns import Column

MATTERS = 0.1  # total variation
MEAN_MATTERS = 0.25  # relative difference of the mean probability
ERROR = 0.005
CELLS = 10
WORDS = 50  # a column with more different words is described by its most frequent ones
FREQUENT = 20
SAMPLE = 10_000  # rows of the file to score
SHOWN = 10  # columns that are named


class ColumnProfile(TypedDict):
    """A column of the training table."""

    name: str
    kind: str  # "number", "date", "words" or "length", of texts
    edges: list[float]  # upper ends of the cells of numbers; the last cell has none
    words: list[str]  # the cells of words; the last cell is for others
    complete: bool  # whether no other words were seen
    shares: list[float]  # of the rows in each cell; then of those with a missing value
    median: float | None


class Profile(TypedDict):
    """The training table, as plain JSON."""

    rows: int
    columns: list[ColumnProfile]
    mean: float  # of the probabilities of held-out rows
    std: float


class Difference(NamedTuple):
    """A column whose values differ from those of the training table."""

    column: str
    distance: float  # total variation
    text: str


def check_profile(profile: Any) -> Profile | None:
    """A profile from a file. Raises ValueError if it is damaged. Older files have none."""
    if profile is None:
        return None
    checked = cast(Profile, _checked(profile, Profile, "profile"))
    for column in checked["columns"]:
        if len(column["shares"]) != len(column["words"]) + len(column["edges"]) + 2:
            raise ValueError(f"profile of {column['name']!r} has {len(column['shares'])} shares")
    return checked


# In the fit -----------------------------------------------------------------------------------------------------------


def learn_profile(frame: pl.DataFrame, columns: Sequence[Column], probability: Array) -> Profile:
    """The profile of rows of the population, read by ``conform``, and of their held-out probabilities."""
    return {
        "rows": frame.height,
        "columns": [_learn_column(frame[column.name], column.kind) for column in columns],
        "mean": float(probability.mean()),
        "std": float(probability.std()),
    }


def _learn_column(values: pl.Series, kind: str) -> ColumnProfile:
    profile: ColumnProfile = {
        "name": values.name,
        "kind": "date" if kind == "date" else "number",
        "edges": [],
        "words": [],
        "complete": False,
        "shares": [],
        "median": None,
    }
    if kind in ("text", "boolean"):
        counts = values.drop_nulls().cast(pl.String).alias("value").value_counts(sort=True, name="n")
        complete = counts.height <= WORDS
        frequent = counts.head(WORDS if complete else FREQUENT)
        if complete or int(frequent["n"].sum()) > len(values) / 2:
            profile |= {"kind": "words", "words": frequent["value"].to_list(), "complete": complete}
        else:
            profile["kind"] = "length"
    if profile["kind"] != "words":
        numbers = _numbers(values, profile["kind"]).drop_nulls().to_numpy()
        if len(numbers):
            ends = np.quantile(numbers, np.arange(1, CELLS) / CELLS, method="lower")
            profile |= {"edges": np.unique(ends).tolist(), "median": float(np.median(numbers))}
    profile["shares"] = (_counts(_numbers(values, profile["kind"]), profile) / max(1, len(values))).tolist()
    return profile


# In the fit and in scoring --------------------------------------------------------------------------------------------


def _numbers(values: pl.Series, kind: str) -> pl.Series:
    """A column as its profile sees it: words as text, everything else as numbers."""
    if kind == "words":
        return values.cast(pl.String)
    return (values.str.len_chars() if kind == "length" else values.to_physical()).cast(pl.Float64)


def _counts(values: pl.Series, profile: ColumnProfile) -> Array:
    """The number of rows in each cell, and last of those with a missing value."""
    known = values.drop_nulls()
    if profile["kind"] == "words":
        index = {word: i for i, word in enumerate(profile["words"])}
        cells = known.replace_strict(index, default=len(index), return_dtype=pl.Int64).to_numpy()
        n_cells = len(index) + 1
    else:
        cells = np.searchsorted(profile["edges"], known.to_numpy())
        n_cells = len(profile["edges"]) + 1
    return np.append(np.bincount(cells, minlength=n_cells), values.null_count()).astype(np.float64)


# In scoring -----------------------------------------------------------------------------------------------------------


class Watch:
    """A random sample of the rows of a file, collected piece by piece, and how it differs from a profile."""

    def __init__(self, profile: Profile | None, random_state: int = 0) -> None:
        self._profile = profile
        self._rng = np.random.default_rng(random_state)
        self._sample: pl.DataFrame | None = None

    def add(self, frame: pl.DataFrame, probability: Array) -> None:
        """Look at more rows, whose columns were read by ``conform``."""
        if self._profile is None:
            return
        # The rows with the smallest of independent random numbers are a random sample, however the file is cut.
        key = self._rng.random(frame.height)
        largest = 1.0 if self._sample is None or self._sample.height < SAMPLE else self._sample["key"][-1]
        rows = np.flatnonzero(key < largest)
        if len(rows) > SAMPLE:
            rows = rows[np.argpartition(key[rows], SAMPLE)[:SAMPLE]]
        own = frame[rows]
        # Columns may have any names, so they are numbered here.
        columns = {str(i): _numbers(own[c["name"]], c["kind"]) for i, c in enumerate(self._profile["columns"])}
        piece = pl.DataFrame({**columns, "probability": np.asarray(probability)[rows], "key": key[rows]})
        both = piece if self._sample is None else pl.concat([self._sample, piece])
        self._sample = both.sort("key").head(SAMPLE)

    @property
    def sample(self) -> pl.DataFrame | None:
        """The rows kept so far."""
        return self._sample

    def merge(self, sample: pl.DataFrame | None) -> None:
        """Look at the rows that another watch has kept, one of the same profile with other random numbers."""
        kept = [part for part in (self._sample, sample) if part is not None]
        self._sample = pl.concat(kept).sort("key").head(SAMPLE) if kept else None

    def differences(self) -> list[Difference]:
        """The columns that differ, the largest difference first."""
        if self._profile is None or self._sample is None:
            return []
        found = [self._compare(column, self._sample[str(i)]) for i, column in enumerate(self._profile["columns"])]
        return sorted((item for item in found if item is not None), key=lambda item: -item.distance)

    def lines(self) -> list[str]:
        """What to tell: a line for each column that differs, and what follows for the figures. Empty if none does."""
        if self._profile is None or self._sample is None:
            return []
        found = self.differences()
        lines = [f"{item.column!r} looks different: {item.text}." for item in found[:SHOWN]]
        if len(found) > SHOWN:
            lines.append(f"{len(found) - SHOWN} more columns look different.")
        lines += self._shift_of_probabilities()
        if lines:
            lines.append(
                "The share of positives and the probabilities were learned on another mixture of rows, so do not rely "
                "on them or on the decisions here. The ranking may still hold. Fit again with such rows if you can."
            )
        return lines

    def _shift_of_probabilities(self) -> list[str]:
        assert self._profile is not None
        assert self._sample is not None
        now, before = self._sample["probability"].to_numpy(), self._profile["mean"]
        error = np.sqrt(now.var() / len(now) + self._profile["std"] ** 2 / self._profile["rows"])
        difference = abs(float(now.mean()) - before)
        surely = norm.isf(ERROR / (2 * self._n_tests)) * error
        if difference <= MEAN_MATTERS * before or difference <= surely:
            return []
        return [f"The mean probability is {now.mean():.2g}, was {before:.2g}."]

    @property
    def _n_tests(self) -> int:
        assert self._profile is not None
        return len(self._profile["columns"]) + 1

    def _compare(self, column: ColumnProfile, values: pl.Series) -> Difference | None:
        assert self._profile is not None
        counts = _counts(values, column)
        before, now = np.array(column["shares"]), counts / len(values)
        distance = float(np.abs(now - before).sum() / 2)
        if distance <= MATTERS or _chance(before, self._profile["rows"], counts) > ERROR / self._n_tests:
            return None
        return Difference(column["name"], distance, _what_differs(column, values, before, now))


def _chance(shares: Array, n_before: int, counts: Array) -> float:
    """The p-value of a chi-squared test of two samples. Cells in which fewer than five rows are expected are joined."""
    before = shares * n_before
    n = counts.sum()
    small = (before + counts) * n / (n + n_before) < 5
    before, now = (np.append(part[~small], part[small].sum()) for part in (before, counts))
    both = before + now
    before, now, both = before[both > 0], now[both > 0], both[both > 0]
    if len(both) < 2:
        return 1.0
    ratio = np.sqrt(n_before / n)
    return float(chi2.sf(((now * ratio - before / ratio) ** 2 / both).sum(), len(both) - 1))


def _what_differs(column: ColumnProfile, values: pl.Series, before: Array, now: Array) -> str:
    """The plainest part of the difference: missing values, unseen words, the median, or a cell."""
    distance = np.abs(now - before).sum() / 2
    if abs(now[-1] - before[-1]) > distance / 2:
        return f"{now[-1]:.0%} missing, was {before[-1]:.0%}"
    if column["kind"] == "words":
        words = column["words"]
        i = int(np.argmax(np.abs(now - before)[:-1]))
        if i < len(words):
            return f"{words[i]!r} in {now[i]:.0%} of the rows, was {before[i]:.0%}"
        if not column["complete"]:
            return f"{now[i]:.0%} have a rare word, was {before[i]:.0%}"
        unseen = values.filter(~values.is_in(words)).drop_nulls()
        return f"{now[i]:.0%} have a word that the model has never seen, such as {unseen[0]!r}"
    middle = int(np.searchsorted(column["edges"], column["median"] or 0.0))
    if values.null_count() < len(values) and abs((now - before)[: middle + 1].sum()) > distance / 2:
        name = "median length" if column["kind"] == "length" else "median"
        return f"{name} {_shown(values.median(), column)}, was {_shown(column['median'], column)}"
    i = int(np.argmax(np.abs(now - before)[:-1]))
    ends = [_shown(end, column) for end in column["edges"][max(0, i - 1) : i + 1]]
    where = (
        f"from {ends[0]} to {ends[1]}"
        if 0 < i < len(column["edges"])
        else f"{'up to' if i == 0 else 'above'} {ends[-1]}"
    )
    return f"{now[i]:.0%} {where}, was {before[i]:.0%}"


def _shown(value: Any, column: ColumnProfile) -> str:
    if value is None:
        return "missing"
    if column["kind"] == "date":
        return str(np.datetime64(int(value), "ms").astype("datetime64[D]"))
    return f"{value:.4g}"
