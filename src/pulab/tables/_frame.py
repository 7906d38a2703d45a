"""From files and frames to polars frames. The values of a CSV file stay text until :mod:`._columns` reads them."""

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

from pulab.errors import DataFormatError, DataNotFoundError, InputError, in_one_line
from pulab.tables._columns import WORDS, nearest

BATCH = 65_536  # rows at a time where a table is streamed
MISSING = [
    *("", "NA", "N/A", "n/a", "NaN", "nan", "-nan", "-NaN", "null", "NULL", "Null", "None", "none", "<NA>"),
    *("?", "...", "#N/A", "#NA", "#N/A N/A"),
]
ZIP, GZIP, PARQUET = b"PK\x03\x04", b"\x1f\x8b", b"PAR1"


def read_table(source: Any, id: str | None = None) -> pl.DataFrame:
    """A table as a polars frame: a CSV or Parquet file, or a frame of polars, pandas or pyarrow."""
    pieces = list(batches(source, id=id))
    frame = pl.concat(pieces, rechunk=True) if pieces else pl.DataFrame()
    if frame.height == 0:
        raise InputError(f"{name_of(source)} has no rows. Pass a table with labelled and unlabeled rows.")
    return frame


def batches(source: Any, columns: Sequence[str] | None = None, id: str | None = None) -> Iterator[pl.DataFrame]:
    """A table in pieces, in its order, with these columns or all. A file is never held in memory as a whole.

    Texts that stand for a missing value become missing. Ids stay as they are written: 007 is an id, and so is NA.
    """
    for frame in _pieces(source, columns):
        words = [name for name, kind in frame.schema.items() if kind in WORDS and name != id]
        for piece in frame.iter_slices(BATCH):
            text = piece.select(pl.col(words).cast(pl.String))
            is_missing = text.select(pl.all().str.strip_chars().is_in(MISSING))
            yield piece.with_columns(text[name].set(is_missing[name], None) for name in words)


def _pieces(source: Any, columns: Sequence[str] | None) -> Iterator[pl.DataFrame]:
    frame = _from_memory(source)
    if frame is not None:
        yield frame
        return
    path = _existing(source)
    with _one_line_errors(path):
        yield from _parquet_pieces(path, columns) if _begins(path, PARQUET) else _csv_pieces(path, columns)


def name_of(source: Any) -> str:
    """What to call a table."""
    name = Path(source).name if isinstance(source, str | Path) else "the table"
    return name.encode(errors="replace").decode()  # the bytes of a file name need not be text


# Frames ---------------------------------------------------------------------------------------------------------------


def _from_memory(source: Any) -> pl.DataFrame | None:
    if isinstance(source, pl.DataFrame | pl.LazyFrame):
        try:
            return source.lazy().collect()
        except (pl.exceptions.PolarsError, OSError) as error:
            raise InputError(f"the lazy frame cannot be collected: {in_one_line(error)}.") from error
    if isinstance(source, pa.Table):
        return _frame(source)
    if type(source).__module__.split(".")[0] == "pandas" and hasattr(source, "columns"):
        names = [str(name) for name in source.columns]
        _refuse_twins(names)
        return pl.DataFrame([_from_pandas(source.iloc[:, i], name) for i, name in enumerate(names)])
    if not isinstance(source, str | Path):
        raise InputError(
            f"a table must be a CSV or Parquet file, or a frame of polars, pandas or pyarrow, got {type(source)}."
        )
    return None


def _from_pandas(column: Any, name: str) -> pl.Series:
    """A column as polars reads it; as text if polars cannot, for example mixed objects."""
    try:
        return pl.Series(pl.from_pandas(column)).alias(name)
    except Exception:  # each type of object fails with its own exception
        values = zip(column, column.isna(), strict=True)
        return pl.Series(name, [None if is_missing else str(value) for value, is_missing in values], pl.String)


def _frame(table: pa.Table) -> pl.DataFrame:
    _refuse_twins(table.column_names)
    table = table.drop_columns([name for name in table.column_names if re.fullmatch(r"__index_level_\d+__", name)])
    for i, field in enumerate(table.schema):
        if pa.types.is_decimal256(field.type):  # unknown to polars
            table = table.set_column(i, field.name, table.column(i).cast(pa.float64()))
    try:
        return pl.DataFrame(pl.from_arrow(table))
    except pl.exceptions.PolarsError as error:
        raise DataFormatError(
            f"the table has a column that cannot be read: {in_one_line(error)}. Leave it out."
        ) from error


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
        raise InputError(f"{path} is a pipe or a device, and a table is read more than once. Save it to a file first.")
    return path


def _begins(path: Path, mark: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(mark)) == mark


@contextmanager
def _one_line_errors(path: Path) -> Iterator[None]:
    """Errors of pyarrow about a file, as one line."""
    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        kind = "Parquet" if _begins(path, PARQUET) else "CSV"
        fault = "" if kind == "Parquet" else _fault(path)
        raise DataFormatError(fault or f"{path} cannot be read as a {kind} file: {in_one_line(error)}.") from error


def _wanted(columns: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """The requested columns of a file; all if it has none of them, for a helpful error later."""
    requested = set(known if columns is None else columns)
    return [name for name in known if name in requested] or list(known)


def _parquet_pieces(path: Path, columns: Sequence[str] | None) -> Iterator[pl.DataFrame]:
    # Without pre_buffer, only a part of a large row group is in memory.
    with pa.parquet.ParquetFile(path, pre_buffer=False, buffer_size=2**20) as file:
        for batch in file.iter_batches(BATCH, columns=_wanted(columns, file.schema_arrow.names)):
            yield _frame(pa.Table.from_batches([batch]))


# CSV ------------------------------------------------------------------------------------------------------------------


def _csv_pieces(path: Path, columns: Sequence[str] | None) -> Iterator[pl.DataFrame]:
    separator = _separator(path)
    with path.open("rb") as file:
        n_quotes = sum(piece.count(b'"') for piece in iter(lambda: file.read(2**24), b""))
    if n_quotes % 2 and (fault := _fault(path)):  # pyarrow would take the rest of the file for one value
        raise DataFormatError(fault)
    read = pa.csv.ReadOptions(block_size=2**22)
    parse = pa.csv.ParseOptions(delimiter=separator, newlines_in_values=True)
    with pa.csv.open_csv(path, read, parse) as reader:
        written = reader.schema.names
    parse.ignore_empty_lines = len(written) > 1  # in a file of one column an empty line is a missing value
    names = [name or f"column {i + 1}" for i, name in enumerate(written)]
    _refuse_twins(names)
    convert = pa.csv.ConvertOptions(column_types=dict.fromkeys(written, pa.string()))
    wanted = names
    if len(set(written)) == len(written) and not n_quotes:  # several may have no name, and any may swallow lines
        wanted = _wanted(columns, names)
        convert.include_columns = [written[names.index(name)] for name in wanted]
    with pa.csv.open_csv(path, read, parse, convert) as reader:
        for batch in reader:
            frame = _frame(pa.Table.from_batches([batch]).rename_columns(wanted))
            _refuse_swallowed_lines(frame, separator, len(names), path)
            yield frame


def _refuse_swallowed_lines(frame: pl.DataFrame, separator: str, n_columns: int, path: Path) -> None:
    """Refuse a value that holds lines of the table: one stray quote opened it, and another closed it."""
    for column in frame if n_columns > 1 else ():
        for value in column.filter(column.str.contains("\n", literal=True)):
            lines = value.splitlines()[1:-1]
            if len(lines) >= (2 if n_columns <= 5 else 1) and {x.count(separator) for x in lines} == {n_columns - 1}:
                raise DataFormatError(
                    f"column {column.name!r} of {path} has a value that holds {len(lines)} whole lines of the table, "
                    f"from {lines[0][:40]!r} on: a quote is out of place. Correct the lines before and after."
                )


def _separator(path: Path) -> str:
    """The separator of the column names: a comma, a semicolon, a tab or a bar, whichever is most frequent."""
    with path.open("rb") as file:
        begin = file.read(2**20)
    if begin.startswith(GZIP):
        raise DataFormatError(f"{path} is compressed. Unpack it first, or save it as Parquet.")
    if begin.startswith(ZIP):
        raise DataFormatError(f"{path} is an Excel file or another archive. Save the table as CSV in UTF-8.")
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(begin)  # the last letter may be cut off
    except UnicodeDecodeError:
        raise DataFormatError(_not_utf8(path)) from None
    if not re.split(r"[\r\n]", text, maxsplit=1)[0].strip():
        raise DataFormatError(f"{path} is empty or begins with an empty line. Its first line must name the columns.")
    header = re.split(r"[\r\n]", re.sub(r'"[^"]*("|$)', "", text), maxsplit=1)[0]
    return max(",;\t|", key=lambda mark: (header.count(mark), mark == ","))


def _not_utf8(path: Path) -> str:
    return f"{path} is not UTF-8 text. Save it as CSV in UTF-8, or as Parquet."


def _fault(path: Path) -> str:
    """What is wrong with a CSV file, and where; empty if nothing is found."""
    limit = csv.field_size_limit(2**31 - 1)  # a quote that is not closed makes long fields
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=_separator(path), strict=True)
            n_names = len(next(reader, []))
            for fields in reader:
                if fields and len(fields) != n_names:
                    return (
                        f"line {reader.line_num} of {path} has {len(fields)} fields, but its first line names "
                        f"{n_names} columns. Correct that line: a field with a separator in it must be quoted."
                    )
    except UnicodeDecodeError:
        return _not_utf8(path)
    except csv.Error as error:
        return f"{path} has a quote that is not closed or out of place ({error}). Correct the quotes."
    finally:
        csv.field_size_limit(limit)
    return ""
