"""The beginning of a fit: the table, its label and its columns."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pulab.errors import InputError
from pulab.metrics import Array
from pulab.tables._columns import LEFT_OUT, Column, check_column, column_of, conform, with_numbers
from pulab.tables._features import Features, Single
from pulab.tables._frame import name_of, read_table
from pulab.tables._labels import LabelColumn, read_labels
from pulab.tables._model import RESERVED
from pulab.tables._strata import Strata, check_names, learn_strata, without_labels

WEIGHTED_ROWS = 8  # so many labelled and unlabeled rows must have a weight: each fold needs some


class Request(NamedTuple):
    """What the caller asked for, and when."""

    method: str
    scenario: str
    random_state: int
    started: float


class TableData(NamedTuple):
    """A table that was read: its columns and their kinds, and which rows are labelled."""

    name: str
    frame: pl.DataFrame
    conformed: pl.DataFrame  # the columns to learn from, as they are read
    columns: list[Column]
    notes: dict[str, str]  # why a column was left out
    label: LabelColumn
    labelled: NDArray[np.bool_]
    answers: NDArray[np.int8]  # of a person: 1 for a confirmed positive, -1 for a confirmed negative, 0 for none
    id: str | None
    warnings: tuple[str, ...] = ()  # what may be wrong with the table
    strata: Strata | None = None  # by the columns that labelling depends on
    weight: str | None = None  # the column of the weights
    weights: Array | None = None  # how much is learned from each row

    @property
    def n_labelled(self) -> int:
        """The number of labelled rows."""
        return int(self.labelled.sum())

    @property
    def n_unlabeled(self) -> int:
        """The number of rows without a label, answered or not."""
        return len(self.labelled) - self.n_labelled

    @property
    def open(self) -> NDArray[np.bool_]:
        """The rows with neither a label nor an answer. They are the candidates."""
        return np.asarray(~self.labelled & (self.answers == 0))

    @property
    def counts(self) -> str:
        """The numbers of rows as text."""
        text = f"{self.n_labelled:,} labelled, {self.open.sum():,} unlabeled"
        yes, no = (int((self.answers == answer).sum()) for answer in (1, -1))
        return f"{text}, {yes:,} confirmed positive, {no:,} confirmed negative" if yes or no else text


def prepare(
    source: Any,
    label: str,
    *,
    id: str | None = None,
    positive: Any = None,
    negative: Any = None,
    drop: Sequence[str] = (),
    labelled_by: Sequence[str] = (),
    weight: str | None = None,
) -> TableData:
    """Read a table and decide how to read its columns."""
    frame = read_table(source, id if isinstance(id, str) else None)
    name = name_of(source)
    for column, option in ((label, "the label"), (id, "the id"), (weight, "the weight")):
        if column is not None or option == "the label":
            check_column(column, frame.columns, name, option)
    label_column, labelled = read_labels(frame[label], positive, negative)
    answers = -label_column.refuted(frame[label]).astype(np.int8)
    warnings = [] if id is None else _check_id(id, label, frame, name)
    weights = None if weight is None else _weights(weight, (label, id), frame, labelled, name)
    if isinstance(drop, str):
        raise InputError(f"drop must be a list of columns, got {drop!r}. Pass [{drop!r}].")
    for other in drop:
        check_column(other, frame.columns, name, "the columns to drop")
        if other in (label, id, weight):
            raise InputError(
                f"{other!r} is the label, the id or the weight, which no method learns from. Drop other columns."
            )
    rest = [other for other in frame.columns if other not in (label, id, weight)]
    dropped = {other: Column(other, LEFT_OUT, note="it was to be dropped") for other in drop}
    by_name = dict(zip(frame.columns, frame.get_columns(), strict=True))  # frame[name] takes long in a wide frame
    every = [dropped.get(other) or column_of(by_name[other]) for other in rest]
    columns = [column for column in every if column.kind != LEFT_OUT]
    notes = {column.name: column.note for column in every if column.kind == LEFT_OUT}
    if not columns:
        reasons = "; ".join(f"{other!r}: {note}" for other, note in list(notes.items())[:5])
        raise InputError(f"{name} has no column to learn from beside the label. {reasons}".rstrip(". ") + ".")
    whole, conformed = with_numbers(frame, columns, name), conform(frame, columns, name)
    unused = notes | ({} if weight is None else {weight: "it is the weight"})
    check_names(labelled_by, label, id, frame.columns, name, unused)
    strata = learn_strata(labelled_by, conformed, columns, labelled) if labelled_by else None
    if strata is not None:
        warnings += without_labels(strata, conformed, labelled)
    read = (name, whole, conformed, columns, notes, label_column, labelled, answers, id)
    return TableData(*read, tuple(warnings), strata, weight, weights)


def _weights(
    column: str, others: tuple[str | None, ...], frame: pl.DataFrame, labelled: NDArray[np.bool_], table: str
) -> Array:
    """The numbers of the column that says how much is learned from each row."""
    check_column(column, frame.columns, table, "the weight")
    if column in others:
        raise InputError(f"{column!r} cannot be both the weight and the label or the id. Name another column.")
    values = frame[column]
    weights = np.full(len(values), np.nan)
    if values.dtype == pl.String:
        values = values.str.strip_chars()
    if values.dtype.is_numeric() or values.dtype in (pl.String, pl.Boolean):
        weights = values.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(wrong):
        row = int(wrong[0])
        got = "empty" if values.null_count() and values[row] is None else f"{str(values[row])[:40]!r}"
        raise InputError(
            f"weights must be numbers of at least 0 with a decimal point, but row {row + 1} of column {column!r} is "
            f"{got}. {len(wrong):,} of {len(values):,} rows are like this."
        )
    for marks, kind in ((labelled, "labelled"), (~labelled, "unlabeled")):
        n_used = int((weights[marks] > 0).sum())
        if n_used < min(WEIGHTED_ROWS, int(marks.sum())):
            raise InputError(
                f"at least {WEIGHTED_ROWS} {kind} rows need a weight above 0 in column {column!r}, got {n_used}."
            )
    return np.asarray(weights, dtype=np.float64)


def _check_id(id: str, label: str, frame: pl.DataFrame, table: str) -> list[str]:
    """Refuse a column that cannot name rows. Returns a warning if some rows share their names."""
    if id == label:
        raise InputError(f"{id!r} cannot be both the label and the id. Name two columns.")
    check_column(id, frame.columns, table, "the id")
    values = frame[id]
    if values.dtype.is_nested() or values.dtype in (pl.Binary, pl.Object):
        raise InputError(f"ids must be text or numbers, but column {id!r} holds {values.dtype}. Name another (--id).")
    n_nan = int(values.is_nan().sum()) if values.dtype.is_float() else 0
    n_missing = values.null_count() + n_nan + int((values.cast(pl.String) == "").sum())
    if n_missing:
        raise InputError(f"{n_missing:,} rows have no id in column {id!r}. Fill them in, or fit without --id.")
    if id in RESERVED:
        raise InputError(f"the id column cannot be called {id!r}, like a column of the results. Rename it.")
    shared = values.filter(values.is_duplicated())
    if shared.is_empty():
        return []
    return [
        f"{len(shared):,} rows share their id in column {id!r} with others, such as {str(shared[0])!r}. If they are "
        "copies, remove them: a model looks too good if it is tested on copies of rows that it has seen."
    ]


def learn_features(data: TableData, seed: int) -> tuple[Features, Single]:
    """Features, fitted to P and then U: the embedding of texts depends on the order of the rows."""
    order = np.concatenate([np.flatnonzero(data.labelled), np.flatnonzero(~data.labelled)])
    features, ordered = Features.learn(data.conformed[order], data.columns, seed)
    numbers = np.empty_like(ordered)
    numbers[order] = ordered
    return features, numbers
