"""From files and frames to columns. A CSV file's values stay text: what they are is for :mod:`._kinds` to say."""

import codecs
import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from pulab.errors import DataFormatError, DataNotFoundError, InputError
from pulab.tables._kinds import WORDS, nearest

BATCH = 65_536  # rows at a time where a table is streamed
MISSING = [
    *("", "NA", "N/A", "n/a", "NaN", "nan", "-nan", "-NaN", "null", "NULL", "Null", "None", "none", "<NA>"),
    *("?", "...", "#N/A", "#NA", "#N/A N/A"),
]
ZIP, GZIP = b"PK\x03\x04", b"\x1f\x8b"
csv.field_size_limit(2**31 - 1)  # a quote that is never closed makes long fields


def read_table(source: Any, id: str | None = None) -> pl.DataFrame:
    """A table as a polars frame: a CSV or Parquet file, or a frame of polars, pandas or pyarrow."""
    pieces = list(batches(source, id=id))
    frame = pl.concat(pieces, rechunk=True) if pieces else pl.DataFrame()
    if frame.height == 0:
        raise InputError(f"{name_of(source)} has no rows. Pass a table with labelled and unlabeled rows.")
    return frame


def batches(source: Any, columns: Sequence[str] | None = None, id: str | None = None) -> Iterator[pl.DataFrame]:
    """A table in pieces, in its order, some of its columns or all, without ever holding the whole of a file.

    What stands for a gap becomes one. A CSV file's ids stay as they are written: 007 is one, and so is NA.
    """
    for frame in _pieces(source, columns):
        words = [name for name, kind in frame.schema.items() if kind in WORDS and name != id]
        for piece in frame.iter_slices(BATCH):
            text = piece.select(pl.col(words).cast(pl.String))
            bare = text.select(pl.all().str.strip_chars().is_in(MISSING))
            yield piece.with_columns(text[name].set(bare[name], None) for name in words)


def _pieces(source: Any, columns: Sequence[str] | None) -> Iterator[pl.DataFrame]:
    frame = _from_memory(source)
    if frame is not None:
        yield frame
        return
    path = _existing(source)
    with _said_of(path):
        yield from _parquet_pieces(path, columns) if _begins(path, b"PAR1") else _csv_pieces(path, columns)


def name_of(source: Any) -> str:
    """What to call a table."""
    name = Path(source).name if isinstance(source, str | Path) else "the table"
    return name.encode(errors="replace").decode()  # a name may be of bytes that are no text


# Frames ---------------------------------------------------------------------------------------------------------------


def _from_memory(source: Any) -> pl.DataFrame | None:
    if isinstance(source, pl.DataFrame):
        return source
    if isinstance(source, pl.LazyFrame):
        try:
            return source.collect()
        except pl.exceptions.PolarsError as error:
            raise InputError(f"this lazy frame cannot be collected: {_reason(error)}.") from error
    if isinstance(source, pa.Table):
        return _frame(source)
    if type(source).__module__.split(".")[0] == "pandas" and hasattr(source, "columns"):
        return _from_pandas(source)
    if not isinstance(source, str | Path):
        raise InputError(
            f"a table must be a CSV or Parquet file, or a frame of polars, pandas or pyarrow, got {type(source)}."
        )
    return None


def _from_pandas(source: Any) -> pl.DataFrame:
    names = [str(name) for name in source.columns]
    _refuse_twins(names)
    columns = (source.iloc[:, i] for i in range(len(names)))
    return pl.DataFrame([_from_pandas_column(column, name) for column, name in zip(columns, names, strict=True)])


def _from_pandas_column(column: Any, name: str) -> pl.Series:
    """A column as polars reads it; one that it cannot (of mixed objects, say) as text."""
    try:
        return pl.Series(pl.from_pandas(column)).alias(name)
    except Exception:  # pandas holds anything, and each kind fails in its own way
        missing = column.isna()
        return pl.Series(name, [None if gap else str(v) for v, gap in zip(column, missing, strict=True)], pl.String)


def _frame(table: pa.Table) -> pl.DataFrame:
    _refuse_twins(table.column_names)
    for i, field in enumerate(table.schema):
        if pa.types.is_decimal256(field.type):  # which polars has not
            table = table.set_column(i, field.name, table.column(i).cast(pa.float64()))
    table = table.drop_columns([name for name in table.column_names if re.fullmatch(r"__index_level_\d+__", name)])
    try:
        return pl.DataFrame(pl.from_arrow(table))
    except pl.exceptions.PolarsError as error:
        raise DataFormatError(f"the table has a column that cannot be read: {_reason(error)}. Leave it out.") from error


def _refuse_twins(names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataFormatError(f"two columns are called {twice!r}. Give each a name of its own.")


# Files ----------------------------------------------------------------------------------------------------------------


def _existing(source: str | Path) -> Path:
    path = Path(source)
    if re.match(r"\w{2,}:/", str(source)):
        raise InputError(f"{source} is an address, not a file. Download it first.")
    if path.is_dir():
        raise InputError(f"{path} is a folder. Name a CSV or Parquet file.")
    if not path.exists():
        near = nearest(path.name, [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else [])
        raise DataNotFoundError(f"there is no file {path}.{near}")
    if not path.is_file():
        raise InputError(
            f"{path} is no file but a pipe or a device, and a table is read more than once. Save it first."
        )
    return path


def _begins(path: Path, mark: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(mark)) == mark


@contextmanager
def _said_of(path: Path) -> Iterator[None]:
    """What pyarrow says of a file that it cannot read, in one line and in our words."""
    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        kind = "Parquet" if _begins(path, b"PAR1") else "CSV"
        line = "" if kind == "Parquet" else _first_broken_line(path)
        raise DataFormatError(line or f"{path} is no {kind} file that can be read: {_reason(error)}.") from error


def _reason(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200].rstrip(".")


def _wanted(columns: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """Those columns of a file that are asked for; all where it has none of them, so that somebody can say so."""
    asked = set(known if columns is None else columns)
    return [name for name in known if name in asked] or list(known)


def _parquet_pieces(path: Path, columns: Sequence[str] | None) -> Iterator[pl.DataFrame]:
    with pa.parquet.ParquetFile(path, pre_buffer=False, buffer_size=2**20) as file:  # of large row groups a part
        for batch in file.iter_batches(BATCH, columns=_wanted(columns, file.schema_arrow.names)):
            yield _frame(pa.Table.from_batches([batch]))


# CSV ------------------------------------------------------------------------------------------------------------------


def _csv_pieces(path: Path, columns: Sequence[str] | None) -> Iterator[pl.DataFrame]:
    separator = _separator(path)
    quoted = _has_quotes(path, separator)
    read = pa.csv.ReadOptions(block_size=2**22)
    parse = pa.csv.ParseOptions(delimiter=separator, newlines_in_values=True)
    with pa.csv.open_csv(path, read, parse) as reader:
        written = reader.schema.names
    parse.ignore_empty_lines = len(written) > 1  # in a file of one column an empty line is a gap
    names = [name or f"column {i + 1}" for i, name in enumerate(written)]
    _refuse_twins(names)
    convert = pa.csv.ConvertOptions(column_types=dict.fromkeys(written, pa.string()))
    wanted = names
    if len(set(written)) == len(written) and not quoted:  # several may have no name, and any may swallow lines
        wanted = _wanted(columns, names)
        convert.include_columns = [written[names.index(name)] for name in wanted]
    with pa.csv.open_csv(path, read, parse, convert) as reader:
        for batch in reader:
            frame = _frame(pa.Table.from_batches([batch]).rename_columns(wanted))
            _refuse_swallowed_lines(frame, separator, len(written), path)
            yield frame


def _beginning(path: Path) -> str:
    with path.open("rb") as file:
        begin = file.read(2**20)
    if begin.startswith(GZIP):
        raise DataFormatError(f"{path} is compressed. Unpack it first, or save it as Parquet.")
    if begin.startswith(ZIP):
        raise DataFormatError(f"{path} is an Excel file or another archive. Save the table as CSV in UTF-8.")
    try:
        return codecs.getincrementaldecoder("utf-8-sig")().decode(begin)  # which may end amid a letter
    except UnicodeDecodeError:
        raise DataFormatError(f"{path} is not UTF-8 text. Save it as CSV in UTF-8, or as Parquet.") from None


def _separator(path: Path) -> str:
    """What separates the names of the columns, beyond their quotes: a comma, a semicolon, a tab or a bar."""
    begin = _beginning(path)
    if not re.split(r"[\r\n]", begin, maxsplit=1)[0].strip():
        raise DataFormatError(f"{path} is empty or begins with an empty line. Its first line must name the columns.")
    bare = re.split(r"[\r\n]", re.sub(r'"[^"]*("|$)', "", begin), maxsplit=1)[0]
    return max(",;\t|", key=lambda mark: (bare.count(mark), mark == ","))


def _has_quotes(path: Path, separator: str) -> bool:
    """Refuse a file that ends within a quoted field: all lines after the open quote would be one value."""
    with path.open("rb") as file:
        quotes = sum(piece.count(b'"') for piece in iter(lambda: file.read(2**24), b""))
    if quotes % 2 == 0:
        return quotes > 0
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        try:
            for _ in csv.reader(file, delimiter=separator, strict=True):
                pass
        except csv.Error as error:
            if "unexpected end" in str(error):
                raise DataFormatError(
                    f"{path} has a quote that is never closed. Close it, or double a quote within a field."
                ) from None
    return True


def _refuse_swallowed_lines(frame: pl.DataFrame, separator: str, n_columns: int, path: Path) -> None:
    """Refuse a quoted field that holds lines of the table: a stray quote has opened it, and another closed it."""
    for name in frame.columns if n_columns > 1 else ():
        long = frame[name].filter(frame[name].str.contains("\n", literal=True))
        for value in long:
            inner = value.splitlines()[1:-1]
            as_rows = bool(inner) and all(line.count(separator) == n_columns - 1 for line in inner)
            if as_rows and (len(inner) > 1 or n_columns > 5):
                raise DataFormatError(
                    f"column {name!r} of {path} has a value that holds {len(inner)} whole lines of the table, from "
                    f"{inner[0][:40]!r} on: a quote is out of place. Mend the lines before and after."
                )


def _first_broken_line(path: Path) -> str:
    """Where a CSV file goes wrong; an empty text where it does not."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=_separator(path))
            n_fields = len(next(reader, []))
            for fields in reader:
                if fields and len(fields) != n_fields:
                    return (
                        f"line {reader.line_num} of {path} has {len(fields)} fields, but its first line names "
                        f"{n_fields} columns. Mend that line: a field with a separator in it must be quoted."
                    )
    except UnicodeDecodeError:
        return f"{path} is not UTF-8 text. Save it as CSV in UTF-8, or as Parquet."
    except csv.Error as error:
        return f"{path} is no CSV file that can be read: {error}."
    return ""
