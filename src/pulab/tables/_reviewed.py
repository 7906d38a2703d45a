"""A person's answers as the input of a fit: which rows of a table they are about, and what they measured."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pulab.errors import InputError
from pulab.persistence import DOCUMENT
from pulab.priors import PriorEstimate
from pulab.review.answers import FILE, WORDS, is_log, read_answers, rows_in_log
from pulab.tables._frame import name_of, read_table
from pulab.tables._model import TableModel
from pulab.tables._prepare import TableData

VALUES = {"yes": 1, "no": -1, "skip": 0}
Answered = list[tuple[int, str]]  # positions of rows from 0, and the answers


def with_reviewed(data: TableData, reviewed: Any) -> tuple[TableData, PriorEstimate | None]:
    """The table with these answers, and the share of positives that the last settled review measured, if one did.

    A row that was confirmed is not among the labelled ones, even if its label says so by now: it was not labelled at
    random.
    """
    answers = data.answers.copy()
    measured = None
    for source in _sources(reviewed):
        answered, share = _answered(source, data)
        measured = share or measured
        _take(answers, answered, data, name_of(source))
    labelled = data.labelled & (answers == 0)
    return data._replace(answers=answers, labelled=labelled), measured


def _sources(reviewed: Any) -> list[Any]:
    if reviewed is None:
        return []
    return list(reviewed) if isinstance(reviewed, list | tuple) else [reviewed]


def _take(answers: NDArray[np.int8], answered: Answered, data: TableData, name: str) -> None:
    """Write answers into the array. Refuses those that contradict the label or another answer."""
    for row, answer in answered:
        value = VALUES[answer]
        if not value:
            continue
        if value < 0 and data.labelled[row]:
            raise InputError(
                f"{_named(data, row)} is labelled positive in {data.name}, but was answered no in {name}. "
                "Correct one of the two."
            )
        if answers[row] == -value:
            raise InputError(
                f"{_named(data, row)} was answered {answer} in {name}, and the other way before. Correct one of the "
                "two."
            )
        answers[row] = value


def _is_model(folder: Path) -> bool:
    return (folder / DOCUMENT).is_file()


def _named(data: TableData, row: int) -> str:
    return f"row {row + 1}" if data.id is None else f"the row with {data.id} {data.frame[data.id][row]!r}"


def _answered(source: Any, data: TableData) -> tuple[Answered, PriorEstimate | None]:
    """The answers of a model's folder, of a log, or of any table with a column of answers."""
    if isinstance(source, str | Path):
        path = Path(source)
        path = path / FILE if _is_model(path) else path
        if path.name == FILE and _is_model(path.parent):
            return _of_model(path, data)
        if path.is_file() and is_log(path):
            return _by_row(rows_in_log(path).items(), data, path.name), None
    return _of_table(source, data), None


def _of_model(path: Path, data: TableData) -> tuple[Answered, PriorEstimate | None]:
    """The answers in a model's folder. The model knows the rows that were drawn, so that these can be compared."""
    if not path.exists():
        raise InputError(f"{path.parent} has no answers yet. Give some by `pulab review {path.parent}` first.")
    model = TableModel.load(path.parent)
    if model.draw is None:
        raise InputError(f"{path.parent} has no rows to review. Fit it again.")
    latest = read_answers(path, model.draw).latest
    drawn = model.draw.frame[list(latest)]
    if data.id is not None and data.id == model.id:
        answered = _by_id(zip(drawn[data.id].cast(pl.String), latest.values(), strict=True), data, path.name)
    else:
        answered = _by_row(zip(drawn["row"], latest.values(), strict=True), data, path.name)
    _check_same(drawn, [row for row, _ in answered], data, path)
    prior = model.summary["prior"]
    if prior["source"] != "measured" or prior["value"] is None:
        return answered, None
    return answered, PriorEstimate(prior["value"], (prior["low"], prior["high"]), "measured", source="measured")


def _check_same(drawn: pl.DataFrame, rows: Sequence[int], data: TableData, path: Path) -> None:
    """Refuse a table whose rows are not those that the reviewer saw."""
    now = data.frame[list(rows)]
    for column in data.columns:
        renamed = f"{column.name} (in the table)"  # a column that is called like one of the draw
        shown = renamed if renamed in drawn.columns else column.name
        if shown not in drawn.columns:
            continue
        seen, here = drawn[shown].cast(pl.String, strict=False), now[column.name].cast(pl.String, strict=False)
        differs = seen.ne_missing(here).arg_true()
        if len(differs):
            i = int(differs[0])
            raise InputError(
                f"{_named(data, rows[i])} of {data.name} is not the one that was answered in {path}: {column.name!r} "
                f"is {here[i]!r}, and was {seen[i]!r}. Pass the table that was reviewed, or rows by --id."
            )


def _of_table(source: Any, data: TableData) -> Answered:
    """The answers of a table that has a column `answer`, and the id or `row`."""
    frame, name = read_table(source, data.id), name_of(source)
    column = "answer"
    while column + "_" in frame.columns:  # `pulab review --export` calls it so if the table has a column `answer`
        column += "_"
    key = data.id if data.id is not None and data.id in frame.columns else "row"
    for needed, what in ((column, "yes, no or skip"), (key, "the numbers of the rows, from 1")):
        if needed not in frame.columns:
            ids = f", or {data.id!r}" if needed == "row" and data.id is not None else ""
            raise InputError(f"{name} has no column {needed!r}{ids}. It must hold {what}.")
    given: list[tuple[str, str]] = []
    for line, (which, word) in enumerate(frame.select(pl.col(key, column).cast(pl.String)).iter_rows(), start=1):
        if not (word or "").strip():
            continue
        answer = WORDS.get(word.strip().lower())
        if answer is None:
            raise InputError(f"row {line} of {name} answers {word!r}. Write yes, no or skip.")
        given.append(((which or "").strip(), answer))
    return _by_id(given, data, name) if key == data.id else _by_row(_numbers(given, name), data, name)


def _numbers(given: Iterable[tuple[str, str]], name: str) -> Answered:
    answered = []
    for which, answer in given:
        try:
            answered.append((int(which.removesuffix(".0")), answer))
        except ValueError:
            raise InputError(f"{name} is about row {which!r}, which is no number of a row.") from None
    return answered


def _by_row(given: Iterable[tuple[int, str]], data: TableData, name: str) -> Answered:
    """Rows by their numbers, counted from 1."""
    answered = [(row - 1, answer) for row, answer in given]
    for row, _ in answered:
        if not 0 <= row < data.frame.height:
            raise InputError(
                f"{name} is about row {row + 1}, but {data.name} has {data.frame.height:,} rows. Pass the table that "
                "was reviewed."
            )
    return answered


def _by_id(given: Iterable[tuple[str, str]], data: TableData, name: str) -> Answered:
    """Rows by their ids."""
    assert data.id is not None
    places: dict[str, list[int]] = {}
    for row, which in enumerate(data.frame[data.id].cast(pl.String)):
        places.setdefault(which, []).append(row)
    answered = []
    for which, answer in given:
        rows = places.get(which, [])
        if len(rows) != 1:
            how_many = f"{len(rows)} rows" if rows else "no row"
            raise InputError(f"{name} is about {data.id} {which!r}, which {how_many} of {data.name} have.")
        answered.append((rows[0], answer))
    return answered
