"""CSV files, plain or compressed with gzip. Their values stay text until :mod:`._columns` reads them."""

import codecs
import csv
import gzip
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import polars as pl
import pyarrow as pa
import pyarrow.csv

from pulab.errors import DataFormatError
from pulab.tables._arrow import from_arrow, refuse_twins, wanted

GZIP = b"\x1f\x8b"


def open_plain(path: Path) -> BinaryIO:
    """The bytes of a file, unpacked if it is compressed with gzip."""
    return cast(BinaryIO, gzip.open(path)) if begins(path, GZIP) else path.open("rb")


def begins(path: Path, *marks: bytes) -> bool:
    """Whether a file begins with one of these bytes."""
    with path.open("rb") as file:
        return file.read(max(map(len, marks))).startswith(marks)


def csv_pieces(path: Path, columns: Sequence[str] | None) -> Iterator[pl.DataFrame]:
    """A CSV file, piece by piece."""
    separator = _separator(path)
    with open_plain(path) as file:
        n_quotes = sum(piece.count(b'"') for piece in iter(lambda: file.read(2**24), b""))
    if n_quotes % 2 and (fault := csv_fault(path)):  # pyarrow would take the rest of the file for one value
        raise DataFormatError(fault)
    read = pa.csv.ReadOptions(block_size=2**22)
    parse = pa.csv.ParseOptions(delimiter=separator, newlines_in_values=True)
    with pa.csv.open_csv(_stream(path), read, parse) as reader:
        written = reader.schema.names
    parse.ignore_empty_lines = len(written) > 1  # in a file of one column an empty line is a missing value
    names = [name or f"column {i + 1}" for i, name in enumerate(written)]
    refuse_twins(names)
    convert = pa.csv.ConvertOptions(column_types=dict.fromkeys(written, pa.string()))
    kept = names
    if len(set(written)) == len(written) and not n_quotes:  # several may have no name, and any may swallow lines
        kept = wanted(columns, names)
        convert.include_columns = [written[names.index(name)] for name in kept]
    with pa.csv.open_csv(_stream(path), read, parse, convert) as reader:
        for batch in reader:
            frame = from_arrow(pa.Table.from_batches([batch]).rename_columns(kept))
            _refuse_swallowed_lines(frame, separator, len(names), path)
            yield frame


def _stream(path: Path) -> Any:
    """The same bytes for pyarrow, unpacked by content and not by the ending.

    Nobody may close the stream but pyarrow: a thread of its reader may still be reading ahead. If the stream is closed
    meanwhile, the next file gets its number, and the thread takes a block of 4 MB from it (seen in 1 of 600 reads).
    """
    return pa.input_stream(str(path), compression="gzip" if begins(path, GZIP) else None)


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
    with open_plain(path) as file:
        begin = file.read(2**20)
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(begin)  # the last letter may be cut off
    except UnicodeDecodeError:
        raise DataFormatError(not_utf8(path)) from None
    if not re.split(r"[\r\n]", text, maxsplit=1)[0].strip():
        raise DataFormatError(f"{path} is empty or begins with an empty line. Its first line must name the columns.")
    header = re.split(r"[\r\n]", re.sub(r'"[^"]*("|$)', "", text), maxsplit=1)[0]
    return max(",;\t|", key=lambda mark: (header.count(mark), mark == ","))


def not_utf8(path: Path) -> str:
    """The message about a file in another encoding."""
    return f"{path} is not UTF-8 text. Save it in UTF-8, or as Parquet."


def csv_fault(path: Path) -> str:
    """What is wrong with a CSV file, and where; empty if nothing is found."""
    limit = csv.field_size_limit(2**31 - 1)  # a quote that is not closed makes long fields
    try:
        with io.TextIOWrapper(open_plain(path), encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=_separator(path), strict=True)
            n_names = len(next(reader, []))
            for fields in reader:
                if fields and len(fields) != n_names:
                    return (
                        f"line {reader.line_num} of {path} has {len(fields)} fields, but its first line names "
                        f"{n_names} columns. Correct that line: a field with a separator in it must be quoted."
                    )
    except UnicodeDecodeError:
        return not_utf8(path)
    except csv.Error as error:
        return f"{path} has a quote that is not closed or out of place ({error}). Correct the quotes."
    finally:
        csv.field_size_limit(limit)
    return ""
