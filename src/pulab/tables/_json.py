"""JSON Lines, and columns of Python values."""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl

from pulab.errors import DataFormatError
from pulab.tables._arrow import BATCH, wanted
from pulab.tables._csv import not_utf8, open_plain

NESTED = pl.List(pl.String)


def json_pieces(path: Path, columns: Sequence[str] | None) -> Iterator[pl.DataFrame]:
    """A file with one JSON object a line, piece by piece. A key that a line does not have is missing there.

    The file is read twice, because the type of a column depends on all of its values.
    """
    types: dict[str, set[type]] = {}
    for record in _records(path):
        for name, value in record.items():
            types.setdefault(name, set()).add(_type(value))
    kinds = {name: kind_of(types[name]) for name in wanted(columns, list(types))}
    records = _records(path)
    while some := list(islice(records, BATCH)):
        yield pl.DataFrame({name: series(name, [r.get(name) for r in some], kind) for name, kind in kinds.items()})


def _type(value: Any) -> type:
    is_long = type(value) is int and not -(2**63) <= value < 2**63  # such an id stays exact as text
    return str if is_long else type(value)


def _records(path: Path) -> Iterator[dict[str, Any]]:
    with open_plain(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
            except UnicodeDecodeError:
                raise DataFormatError(not_utf8(path)) from None
            except (ValueError, RecursionError):
                record = None
            if not isinstance(record, dict):
                raise DataFormatError(
                    f"line {number} of {path} is not a JSON object. Write one object a line (JSON Lines)."
                )
            yield record


# Columns of Python values ---------------------------------------------------------------------------------------------


def kind_of(types: Iterable[type]) -> Any:
    """The type of a column that holds values of these types. A mixture of words and others is words."""
    found = set(types) - {type(None)}
    if not found:
        return pl.Null
    if found & {dict, list}:
        return NESTED
    if found == {bool}:
        return pl.Boolean
    if found == {bytes}:
        return pl.Binary
    if found <= {int, float}:
        return pl.Int64 if found == {int} else pl.Float64
    return pl.String


def series(name: str, values: Sequence[Any], kind: Any) -> pl.Series:
    """A column of values of :func:`kind_of` this kind."""
    if kind == pl.String:
        return pl.Series(name, [v if v is None or isinstance(v, str) else _text(v) for v in values], kind)
    if kind == NESTED:
        return pl.Series(name, [None if v is None else [_text(v)] for v in values], kind)
    return pl.Series(name, values, kind, strict=False)


def _text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False)
