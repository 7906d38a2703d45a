"""What a path of a table names: a file of some format, a sheet, a query, a folder, or all files of a pattern."""

import fnmatch
import glob
import gzip
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path, PurePath
from typing import NamedTuple
from urllib.parse import unquote

import polars as pl
import pyarrow as pa

from pulab.errors import DataFormatError, DataNotFoundError, InputError, in_one_line, nearest
from pulab.tables._arrow import arrow_file_pieces, arrow_stream_pieces, parquet_pieces
from pulab.tables._columns import WORDS
from pulab.tables._csv import csv_fault, csv_pieces, open_plain
from pulab.tables._databases import duckdb_pieces, sqlite_pieces
from pulab.tables._excel import excel_pieces
from pulab.tables._json import json_pieces

# What files begin with. A DuckDB file has its mark after eight other bytes.
PARQUET, ARROW, STREAM, FEATHER_1 = b"PAR1", b"ARROW1", b"\xff\xff\xff\xff", b"FEA1"
SQLITE, DUCKDB = b"SQLite format 3\0", b"DUCK"
ZIP, OLD_EXCEL = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"
OTHER_PACKERS = (b"BZh", b"\xfd7zXZ", b"(\xb5/\xfd", b"7z\xbc\xaf")
BOOKS = ("xl/workbook.xml", "xl/workbook.bin", "content.xml")  # in the archive that an Excel file is
ENDINGS = (".parquet", ".pq")  # of the files that are read from a folder
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"

Read = Callable[[Path, Sequence[str] | None], Iterator[pl.DataFrame]]
PLAIN: dict[str, Read] = {
    "a CSV": csv_pieces,
    "a JSON Lines": json_pieces,
    "a Parquet": parquet_pieces,
    "an Arrow": arrow_file_pieces,
    "an Arrow stream": arrow_stream_pieces,
}
WITH_PART = {"an Excel": excel_pieces, "a SQLite": sqlite_pieces, "a DuckDB": duckdb_pieces}


class Source(NamedTuple):
    """The files of a table, in their order."""

    files: list[Path]
    root: Path | None = None  # where folders such as year=2024 begin
    query: str | None = None
    sheet: str | None = None
    pattern: str | None = None


def source_of(given: str | Path) -> Source:
    """What is meant by a path. A file of exactly this name goes first."""
    text, path = str(given), Path(given)
    if not _is_there(path):
        file, mark, query = text.partition("::")
        if mark:
            return Source([_existing(Path(file))], query=query)
        for mark_at in (match.start() for match in re.finditer("#", text)):
            file = text[:mark_at]
            if _is_there(Path(file)) and Path(file).is_file():
                return Source([Path(file)], sheet=text[mark_at + 1 :])
        if re.search(r"[*?[]", text) and not is_address(text):
            return _of_pattern(text)
    return _of_folder(path) if _is_there(path) and path.is_dir() else Source([_existing(path)])


def short_name(given: str | Path) -> str:
    """The name of the file or the folder, or the pattern, without a query."""
    path = Path(given)
    if not _is_there(path):
        path = Path(str(given).partition("::")[0])
    return path.name or path.resolve().name


def is_changed_by(given: str | Path, target: Path) -> bool:
    """Whether a table would be another if this file were written."""
    source, target = source_of(given), target.resolve()
    if target in _resolved(source):
        return True
    if source.pattern is not None:
        return fnmatch.fnmatch(str(target), str(Path(source.pattern).resolve()))
    return source.root is not None and source.root.resolve() in target.parents and target.suffix.lower() in ENDINGS


def is_inside(given: str | Path, folder: Path) -> bool:
    """Whether a file of the table is in this folder."""
    return any(folder.resolve() in file.parents for file in _resolved(source_of(given)))


def pieces(given: str | Path, columns: Sequence[str] | None) -> Iterator[pl.DataFrame]:
    """A table in pieces, file by file."""
    source = source_of(given)
    if len(source.files) == 1 and source.root is None:
        yield from _file_pieces(source.files[0], source, columns)
        return
    first: pl.DataFrame | None = None
    for file in source.files:
        for frame in _file_pieces(file, source, columns):
            frame = _with_folders(frame, file, source.root)
            first = frame.clear() if first is None else first
            yield _like(frame, file, first, source.files[0])


def _file_pieces(path: Path, source: Source, columns: Sequence[str] | None) -> Iterator[pl.DataFrame]:
    """A file in pieces. Errors of pyarrow and gzip become one line."""
    kind = ""
    try:
        kind = _kind(path)
        if source.query is not None and kind not in ("a SQLite", "a DuckDB"):
            raise InputError(f"{path} is {kind} file. Only a SQLite or DuckDB file can be queried.")
        if source.sheet is not None and kind != "an Excel":
            raise InputError(f"{path} is {kind} file. Only an Excel file has sheets.")
        if kind in PLAIN:
            yield from PLAIN[kind](path, columns)
        else:
            yield from WITH_PART[kind](path, source.sheet if kind == "an Excel" else source.query, columns)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataFormatError(f"{path} is cut off or damaged: {in_one_line(error)}. Copy it again.") from error
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        fault = csv_fault(path) if kind == "a CSV" else ""
        as_kind = f" as {kind} file" if kind else ""
        raise DataFormatError(fault or f"{path} cannot be read{as_kind}: {in_one_line(error)}.") from error


# Paths ----------------------------------------------------------------------------------------------------------------


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a query is too long for a name
        return False


def is_address(text: str) -> bool:
    """Whether a text names a file elsewhere, such as s3://bucket/file."""
    return re.match(r"\w{2,}:/", text) is not None


def _existing(path: Path) -> Path:
    if is_address(str(path)):
        address = str(path).replace(":/", "://", 1)  # a Path has one slash less
        on_ray = ", or score it by `pulab score … --ray local`" if re.match("(s3|gs|abfss?|hdfs):", address) else ""
        raise InputError(f"{address} is an address, not a file. Download it first{on_ray}.")
    if not _is_there(path):
        near = nearest(path.name, [p.name for p in path.parent.iterdir()] if _is_there(path.parent) else [])
        raise DataNotFoundError(f"there is no file {path}.{near}")
    if not path.is_file():
        raise InputError(f"{path} is a pipe or a device, and a table is read more than once. Save it to a file first.")
    return path


def _of_folder(folder: Path) -> Source:
    """The Parquet files of a folder and of the folders in it. Names that begin with a dot or _ are not data."""
    if (folder / "_delta_log").is_dir():
        raise InputError(f"{folder} is a Delta table, in which some files are outdated. Export it to Parquet first.")
    inside = [path.relative_to(folder) for path in folder.rglob("*") if path.suffix.lower() in ENDINGS]
    found = [folder / path for path in inside if not any(part.startswith((".", "_")) for part in path.parts)]
    files = sorted(filter(Path.is_file, found), key=_natural)
    if not files:
        raise InputError(f"the folder {folder} has no Parquet files. Name a file, or files by '{folder / '*.csv'}'.")
    return Source(files, root=folder)


def _of_pattern(pattern: str) -> Source:
    files = sorted((path for path in map(Path, glob.glob(pattern, recursive=True)) if path.is_file()), key=_natural)  # noqa: PTH207
    if not files:
        raise DataNotFoundError(f"no file matches {pattern}.")
    root = Path(*takewhile(lambda part: not re.search(r"[*?[]", part), Path(pattern).parts))
    return Source(files, root=root, pattern=pattern)


def _natural(path: Path) -> list[str | int]:
    """Sorts part-10 behind part-9."""
    return [int(part) if i % 2 else part for i, part in enumerate(re.split(r"([0-9]+)", path.as_posix()))]


def _resolved(source: Source) -> list[Path]:
    return [file.resolve() for file in source.files]


# Several files --------------------------------------------------------------------------------------------------------


def _with_folders(frame: pl.DataFrame, file: PurePath, root: PurePath | None) -> pl.DataFrame:
    """Folders such as year=2024 are columns."""
    folders = file.relative_to(root).parts[:-1] if root is not None else ()
    values = dict(folder.split("=", 1) for folder in folders if "=" in folder)
    return frame.with_columns(
        pl.lit(None if value == NO_VALUE else unquote(value), dtype=pl.String).alias(name)
        for name, value in values.items()
        if name not in frame.columns
    )


def _like(frame: pl.DataFrame, file: PurePath, first: pl.DataFrame, first_file: PurePath | str) -> pl.DataFrame:
    """Refuse a file that has other columns than the first, or values of another kind in them."""
    more = [f"{name!r} more" for name in frame.columns if name not in first.columns]
    less = [f"no {name!r}" for name in first.columns if name not in frame.columns]
    other = [
        f"{frame[name].dtype} in {name!r}, not {first[name].dtype}"
        for name in first.columns
        if not less and not _alike(frame[name].dtype, first[name].dtype)
    ]
    if found := [*less, *more, *other]:
        raise DataFormatError(
            f"the files of a table must have the same columns, but {file} has {', '.join(found[:3])}, unlike "
            f"{first_file}. Correct it, or name fewer files."
        )
    return frame.select(first.columns)


def _alike(a: pl.DataType, b: pl.DataType) -> bool:
    return (
        pl.Null in (a, b) or a.base_type() == b.base_type() or (a.is_numeric() and b.is_numeric()) or {a, b} <= {*WORDS}
    )


# Content --------------------------------------------------------------------------------------------------------------


def _kind(path: Path) -> str:
    """The format of a file, by its content."""
    with path.open("rb") as file:
        start = file.read(16)
    marks = {PARQUET: "a Parquet", ARROW: "an Arrow", STREAM: "an Arrow stream", SQLITE: "a SQLite"}
    for mark, kind in marks.items():
        if start.startswith(mark):
            return kind
    if start[8:12] == DUCKDB:
        return "a DuckDB"
    if start.startswith(OLD_EXCEL) or (start.startswith(ZIP) and _is_book(path)):
        return "an Excel"
    with open_plain(path) as file:
        text = file.read(2**16).removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith((ZIP, *OTHER_PACKERS)):
        raise DataFormatError(f"{path} is an archive or compressed, and not by gzip. Unpack it first.")
    if text.startswith((PARQUET, ARROW, SQLITE)):
        raise DataFormatError(f"{path} is a compressed file that cannot be read in pieces. Unpack it first.")
    if text.startswith(FEATHER_1):
        raise DataFormatError(f"{path} is a Feather file of version 1. Save it as version 2, or as Parquet.")
    if re.match(rb"\[\s*[\[{]", text):
        raise DataFormatError(f"{path} is one JSON list. Save it as JSON Lines: one object a line, without commas.")
    return "a JSON Lines" if re.match(rb'\{\s*["}]', text) else "a CSV"


def _is_book(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name in BOOKS for name in archive.namelist())
    except zipfile.BadZipFile:
        return False
