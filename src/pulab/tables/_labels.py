"""Which rows of a table are known positives."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pulab.errors import InputError
from pulab.tables._frame import MISSING

POSITIVE = ("1", "true", "t", "yes", "y", "positive", "pos", "p", "+", "+1")
OTHERS = ("0", "-1", "false", "f", "no", "n", "negative", "neg", "unlabeled", "unlabelled", "unknown", "u", "-")


@dataclass(frozen=True)
class LabelColumn:
    """The label column, and the value that marks a known positive, as text."""

    name: str
    positive: str
    given: bool = False  # whether the caller named the value
    negative: str | None = None  # the value that marks a confirmed negative

    def of(self, values: pl.Series) -> NDArray[np.bool_]:
        """Whether each row is a known positive. Another table may have true where this one has 1."""
        if _cannot_mark(values):
            return np.zeros(len(values), dtype=bool)
        text = _text(values)
        marked = text.is_in(POSITIVE) if self.positive in POSITIVE and not self.given else text == self.positive
        return np.asarray(marked.fill_null(False).to_numpy(), dtype=bool)

    def refuted(self, values: pl.Series) -> NDArray[np.bool_]:
        """Whether each row is a confirmed negative."""
        if self.negative is None or _cannot_mark(values):
            return np.zeros(len(values), dtype=bool)
        return np.asarray((_text(values) == self.negative).fill_null(False).to_numpy(), dtype=bool)


def read_labels(values: pl.Series, positive: Any = None, negative: Any = None) -> tuple[LabelColumn, NDArray[np.bool_]]:
    """How to read the label column, and which rows it labels.

    ``positive`` is the caller's value for a known positive, ``negative`` that for a confirmed negative.
    """
    if _cannot_mark(values):
        raise InputError(f"column {values.name!r} holds {values.dtype}, not labels. Mark known positives with 1.")
    if negative is not None:
        return _with_negatives(values, positive, str(negative))
    counts = dict(_text(values).alias("value").drop_nulls().value_counts(sort=True).iter_rows())
    if positive is None:
        mark = _plain_mark(values.name, counts, len(values))
    else:
        (mark,) = _text(pl.Series([str(positive)])).to_list()
        if mark not in counts:
            raise InputError(
                f"no row of column {values.name!r} is {str(positive)!r}; it holds {_shown(counts, len(values))}. "
                "Name one of these by positive (--positive)."
            )
    column = LabelColumn(values.name, mark, given=positive is not None)
    labelled = column.of(values)
    if labelled.all():
        raise InputError(
            f"every row of column {values.name!r} is {mark!r}, a known positive. Add unlabeled rows to learn from."
        )
    return column, labelled


def _with_negatives(values: pl.Series, positive: Any, negative: str) -> tuple[LabelColumn, NDArray[np.bool_]]:
    """The same where a third value marks confirmed negatives: the other rows say what the other values mean."""
    (mark,) = _text(pl.Series([negative])).to_list()
    if mark is None:
        raise InputError(f"negative (--negative) must be a value of column {values.name!r}, got {negative!r}.")
    if positive is not None and _text(pl.Series([str(positive)])).to_list() == [mark]:
        raise InputError(f"positive and negative must be two values, got {negative!r} for both.")
    refuted = (_text(values) == mark).fill_null(False)
    if not refuted.any():
        counts = dict(_text(values).alias("value").drop_nulls().value_counts(sort=True).iter_rows())
        raise InputError(
            f"no row of column {values.name!r} is {negative!r}; it holds {_shown(counts, len(values))}. "
            "Name one of these by negative (--negative)."
        )
    column, _ = read_labels(values.filter(~refuted), positive)
    column = replace(column, negative=mark)
    return column, column.of(values) & ~column.refuted(values)


def _plain_mark(name: str, counts: dict[str, int], n: int) -> str:
    """The value that marks a known positive, if there is no doubt."""
    n_missing = n - sum(counts.values())
    marks = [value for value in counts if value in POSITIVE]
    others = [value for value in counts if value in OTHERS]
    if not counts:
        raise InputError(f"column {name!r} is empty: no row is a known positive. Mark some with 1.")
    if len(others) == len(counts):
        raise InputError(
            f"no row of column {name!r} is a known positive: it holds {_shown(counts, n)}. Mark some with 1, or name "
            "the value that marks them by positive (--positive)."
        )
    if len(marks) == len(others) == 1 and len(counts) == 2 and not n_missing:
        return marks[0]
    if len(counts) == 1 and (marks or n_missing):
        return next(iter(counts))
    raise InputError(
        f"column {name!r} holds {_shown(counts, n)}: which value marks the known positives? Name it by positive "
        "(--positive VALUE); all other rows then count as unlabeled."
    )


def _cannot_mark(values: pl.Series) -> bool:
    return values.dtype.is_nested() or values.dtype in (pl.Binary, pl.Object)


def _text(values: pl.Series) -> pl.Series:
    """Values as text. True, TRUE and true are the same, and so are 1 and 1.0. Blanks are missing."""
    if values.dtype.is_float():
        values = values.fill_nan(None)
    text = values.cast(pl.String).str.strip_chars()
    text = text.set(text.is_in([*MISSING, "none", "None"]), None)  # no label
    return text.str.to_lowercase().str.replace(r"^([+-]?\d+)\.0*$", "$1")


def _shown(counts: dict[str, int], n: int) -> str:
    parts = [f"{value!r} ({count:,})" for value, count in list(counts.items())[:5]]
    if len(counts) > 5:
        parts.append(f"{len(counts) - 5:,} other values")
    if n_missing := n - sum(counts.values()):
        parts.append(f"nothing ({n_missing:,})")
    return ", ".join(parts)
