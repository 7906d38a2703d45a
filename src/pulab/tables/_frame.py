"""From files and frames to polars frames, and back to frames of the caller's kind."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from pulab.errors import InputError, in_one_line
from pulab.tables._arrow import BATCH, from_arrow, refuse_twins
from pulab.tables._columns import WORDS
from pulab.tables._parts import TablePart
from pulab.tables._sources import pieces, short_name

# Texts that stand for a missing value. The word none is not among them: "none, some, many" are values.
MISSING = [
    *("", "NA", "N/A", "n/a", "NaN", "nan", "-nan", "-NaN", "NaT", "null", "NULL", "Null", "<NA>"),
    *("?", "...", "#N/A", "#NA", "#N/A N/A"),
]

NO_NAME = "no name"  # polars and skrub change the name ""


def read_table(source: Any, id: str | None = None) -> pl.DataFrame:
    """A table as a polars frame, from anything that :func:`pulab.tables.fit_table` takes."""
    read = list(batches(source, id=id))
    frame = pl.concat(read, how="vertical_relaxed", rechunk=True) if read else pl.DataFrame()
    if frame.height == 0:
        raise InputError(f"{name_of(source)} has no rows. Pass a table with labelled and unlabeled rows.")
    return frame


def batches(source: Any, columns: Sequence[str] | None = None, id: str | None = None) -> Iterator[pl.DataFrame]:
    """A table in pieces, in its order, with these columns or all. Only an Excel sheet is in memory as a whole.

    Texts that stand for a missing value become missing, and durations become seconds. Ids stay as they are written:
    007 is an id, and so is NA. A column without a name is called ``no name``.
    """
    asked = None if columns is None else [*columns, *([""] if NO_NAME in columns else [])]
    for frame in _pieces(source, asked):
        if "" in frame.columns:
            refuse_twins([name or NO_NAME for name in frame.columns])
            frame = frame.rename({"": NO_NAME})
        words = [name for name, kind in frame.schema.items() if kind in WORDS and name != id]
        in_seconds = frame.with_columns(pl.selectors.duration().dt.total_seconds(fractional=True))
        for piece in in_seconds.iter_slices(BATCH):
            text = piece.select(pl.col(words).cast(pl.String))
            is_missing = text.select(pl.all().str.strip_chars().is_in(MISSING))
            yield piece.with_columns(text[name].set(is_missing[name], None) for name in words)


def _pieces(source: Any, columns: Sequence[str] | None) -> Iterator[pl.DataFrame]:
    if isinstance(source, TablePart):
        yield from source.pieces(columns)
        return
    frame = _from_memory(source)
    if frame is not None:
        yield frame
        return
    yield from pieces(source, columns)


def name_of(source: Any) -> str:
    """What to call a table."""
    if isinstance(source, TablePart):
        return source.table
    name = short_name(source) if isinstance(source, str | Path) else "the table"
    return name.encode(errors="replace").decode()  # the bytes of a file name need not be text


# Frames ---------------------------------------------------------------------------------------------------------------


def _from_memory(source: Any) -> pl.DataFrame | None:
    if isinstance(source, pl.DataFrame | pl.LazyFrame):
        try:
            return source.lazy().collect()
        except (pl.exceptions.PolarsError, OSError) as error:
            raise InputError(f"the lazy frame cannot be collected: {in_one_line(error)}.") from error
    if isinstance(source, pa.Table):
        return from_arrow(source)
    if _is_pandas(source):
        names = [str(name) for name in source.columns]
        refuse_twins(names)
        return pl.DataFrame({name: _from_pandas(source.iloc[:, i], name) for i, name in enumerate(names)})
    if not isinstance(source, str | Path):
        raise InputError(
            "a table must be the path of a file or a folder, or a frame of polars, pandas or pyarrow, "
            f"got {type(source)}."
        )
    return None


def _is_pandas(source: Any) -> bool:
    return type(source).__module__.split(".")[0] == "pandas" and hasattr(source, "columns")


def _from_pandas(column: Any, name: str) -> pl.Series:
    """A column as polars reads it; as text if polars cannot, for example mixed objects."""
    try:
        return pl.Series(pl.from_pandas(column)).alias(name)
    except Exception:  # each type of object fails with its own exception
        values = zip(column, column.isna(), strict=True)
        return pl.Series(name, [None if is_missing else str(value) for value, is_missing in values], pl.String)


def like(source: Any, frame: pl.DataFrame, same_rows: bool = False) -> Any:
    """A frame of the caller's kind: pandas for pandas, pyarrow for pyarrow, polars for everything else.

    With ``same_rows``, the rows are those of the source in their order, and a frame of pandas gets its index.
    """
    if isinstance(source, pa.Table):
        return frame.to_arrow()
    if not _is_pandas(source):
        return frame
    converted = frame.to_pandas()
    if same_rows:
        converted.index = source.index
    return converted
