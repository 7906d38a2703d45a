"""Columns that give the label away: they are written when a row is labelled, or only for labelled rows.

If labels are given to positives at random, the unlabeled positives look like the labelled ones. So values that many
labelled rows have must occur among unlabeled rows, too. If they hardly do, then either hardly any positive is left
without a label, or the values were written because of the label. A model learns the second kind, and finds nothing.

The test: let a labelled and b unlabeled rows have such values, and suppose that at least HIDDEN times as many positives
are unlabeled as labelled. Then each positive with these values is unlabeled with a chance of at least 1/3. So b is at
least a binomial number, even if no negative has these values. A column is named if this has a chance below
ERROR / (number of sets of values looked at, over all columns), and b is below ALMOST_NEVER · a. So a table in which
labels are given at random gets any such warning with a chance below ERROR.

A strong predictor does not fail the test, since it holds for unlabeled positives, too. The supposition is wrong if
nearly all positives are labelled. Then a predictor without any exception may be named, and the warning says so.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import binom

from pulab.metrics import Array
from pulab.tables._columns import Column

Marks = NDArray[np.bool_]
HIDDEN = 0.5  # unlabeled positives for each labelled one
ERROR = 0.01
ALMOST_NEVER = 0.05
FEWEST = 12  # labelled rows with a value: with fewer, no test can be sure
INTERVALS = 8  # parts of the labelled numbers, of which all adjacent ones are joined in turn
WORDS_AT_ONCE = 50_000  # rows whose texts are taken apart together
MOST_WORDS = 300  # words of the labelled texts
SHOWN = 20  # columns with a warning of their own


class Evidence(NamedTuple):
    """Values that labelled rows have, and unlabeled rows hardly."""

    column: str
    what: str  # is said of rows, such as "have a value there"
    labelled: int
    unlabeled: int

    @property
    def chance(self) -> float:
        """The chance of so few unlabeled rows, if labels were given at random."""
        return float(binom.cdf(self.unlabeled, self.labelled + self.unlabeled, HIDDEN / (1 + HIDDEN)))


def giveaways(frame: pl.DataFrame, columns: Sequence[Column], labelled: Marks) -> list[Evidence]:
    """The strongest evidence for each column that gives the label away. ``frame`` has been read by ``conform``."""
    found = [evidence for column in columns for evidence in _sets(frame[column.name], column.kind, labelled)]
    sure = [
        evidence
        for evidence in found
        if evidence.labelled >= FEWEST
        and evidence.unlabeled <= ALMOST_NEVER * evidence.labelled
        and evidence.chance < ERROR / len(found)
    ]
    strongest: dict[str, Evidence] = {}
    for evidence in sorted(sure, key=lambda item: item.chance):
        strongest.setdefault(evidence.column, evidence)
    return list(strongest.values())


def warnings_of(found: Sequence[Evidence], labelled: Marks) -> list[str]:
    """A warning for each, which names the column and says what to do."""
    n_p, n_u = int(labelled.sum()), int((~labelled).sum())
    warnings = [
        f"Column {item.column!r} probably gives the label away: {item.labelled:,} of {n_p:,} labelled rows "
        f"{item.what}, but {item.unlabeled or 'none'} of {n_u:,} unlabeled rows. Either hardly any unlabeled row is "
        "positive, or the column is written when a row is labelled. In that case the model finds nothing, and its "
        f"figures are wrong: leave the column out (--drop {_quoted(item.column)})."
        for item in found[:SHOWN]
    ]
    if more := [item.column for item in found[SHOWN:]]:
        named = ", ".join(map(repr, more[:SHOWN])) + (", …" if len(more) > SHOWN else "")
        warnings.append(f"{len(more):,} more columns probably give the label away, with weaker evidence: {named}.")
    return warnings


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[\w.-]+", name) else f'"{name}"'


def _sets(values: pl.Series, kind: str, labelled: Marks) -> Iterator[Evidence]:
    """Sets of a column's values, with the numbers of labelled and unlabeled rows that have them."""
    name, missing = values.name, values.is_null().to_numpy()
    if missing.any():
        for marks, what in ((~missing, "have a value there"), (missing, "have none there")):
            yield Evidence(name, what, int((marks & labelled).sum()), int((marks & ~labelled).sum()))
    parts = [values.filter(pl.Series(marks & ~missing)) for marks in (labelled, ~labelled)]
    if kind in ("number", "time", "date"):
        yield from _ranges(name, kind, *(np.sort(part.to_physical().to_numpy().astype(np.float64)) for part in parts))
    yield from _values(name, *parts)
    if kind == "text":
        yield from _words(name, *parts)


def _values(name: str, positive: pl.Series, unlabeled: pl.Series) -> Iterator[Evidence]:
    """Values that many labelled rows share."""
    counts = positive.alias("value").value_counts(name="n").filter(pl.col("n") >= FEWEST)
    others = unlabeled.alias("value").value_counts(name="others")  # a column of the table may be called n, too
    for value, n, other in counts.join(others, on="value", how="left").select("value", "n", "others").iter_rows():
        yield Evidence(name, f"have {_shown(value)}", n, other or 0)


def _ranges(name: str, kind: str, positive: Array, unlabeled: Array) -> Iterator[Evidence]:
    """Numbers or dates beyond nearly all unlabeled ones, and between two quantiles of the labelled ones."""
    if len(positive) < FEWEST or not len(unlabeled):
        return
    above, below = ("after", "before") if kind == "date" else ("above", "below")
    most = int(min(ALMOST_NEVER * len(positive), len(unlabeled) - 1))
    for beyond in sorted({0, *(2**i for i in range(20) if 2**i <= most)}):  # unlabeled rows that may lie beyond
        high, low = unlabeled[-1 - beyond], unlabeled[beyond]
        a, b = (int((part > high).sum()) for part in (positive, unlabeled))
        yield Evidence(name, f"have one {above} {_number(high, kind)}", a, b)
        a, b = (int((part < low).sum()) for part in (positive, unlabeled))
        yield Evidence(name, f"have one {below} {_number(low, kind)}", a, b)
    edges = np.unique(np.quantile(positive, np.linspace(0, 1, INTERVALS + 1), method="nearest"))
    for i, start in enumerate(edges):
        for end in edges[i + 1 :]:
            a, b = (
                int(np.searchsorted(part, end, side="right") - np.searchsorted(part, start))
                for part in (positive, unlabeled)
            )
            yield Evidence(name, f"have one from {_number(start, kind)} to {_number(end, kind)}", a, b)


def _words(name: str, positive: pl.Series, unlabeled: pl.Series) -> Iterator[Evidence]:
    """Words within longer texts. A word is given up as soon as it is too frequent in unlabeled rows."""
    if not positive.str.contains(r"\w\W+\w").any():
        return
    counts = _rows_with_words(positive).filter(pl.col("n") >= FEWEST).sort("n", "word", descending=True)
    left = counts.head(MOST_WORDS).with_columns(others=pl.lit(0, pl.UInt32))
    for start in range(0, len(unlabeled), WORDS_AT_ONCE):
        if left.is_empty():
            break
        more = _rows_with_words(unlabeled[start : start + WORDS_AT_ONCE]).rename({"n": "more"})
        left = left.join(more, on="word", how="left").with_columns(pl.col("others") + pl.col("more").fill_null(0))
        left = left.drop("more").filter(pl.col("others") <= ALMOST_NEVER * pl.col("n"))
    given_up = counts.head(MOST_WORDS).height - left.height
    for _ in range(given_up):  # they were looked at, too
        yield Evidence(name, "", 0, 0)
    for word, n, others in left.iter_rows():
        yield Evidence(name, f"have the word {word!r}", n, others)


def _rows_with_words(texts: pl.Series) -> pl.DataFrame:
    """For each word, the number of texts that contain it."""
    words = texts.str.to_lowercase().str.extract_all(r"\w+").list.unique().explode().drop_nulls()
    return words.alias("word").value_counts(name="n")


def _number(value: float, kind: str) -> str:
    if kind == "date":
        return str(np.datetime64(int(value), "ms").astype("datetime64[s]")).replace("T", " ").removesuffix(" 00:00:00")
    return f"{value:.6g}"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = f"{value:.6g}" if isinstance(value, float) else str(value).removesuffix(" 00:00:00")
    text = text if len(text) <= 40 else text[:39] + "…"
    return repr(text) if isinstance(value, str) else text
