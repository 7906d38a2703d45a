"""Write tables to files, piece by piece, all or nothing."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl

from pulab._files import whole_file
from pulab.errors import InputError
from pulab.tables._sources import is_address

ENDINGS = (".csv", ".parquet", ".pq")


def check_target(path: Path) -> None:
    """Refuse a path that no table can be written to, before any work is done."""
    if is_address(str(path)):
        raise InputError("--out is an address, and only `pulab score … --ray` writes to one. Name a file.")
    if path.suffix.lower() not in ENDINGS:
        raise InputError(f"scores go to a file that ends in .csv or .parquet, got {path}.")
    if (path.exists() and not path.is_file()) or not path.absolute().parent.is_dir():
        raise InputError(f"--out must be a file in a folder that exists, got {path}.")


@contextmanager
def table_writer(path: Path) -> Iterator[Callable[[pl.DataFrame], None]]:
    """Write frames to a file. It appears under its name when all of them are written."""
    check_target(path)
    with whole_file(path) as file, _csv(file) if path.suffix.lower() == ".csv" else _parquet(file) as write:
        yield write


@contextmanager
def _csv(file: BinaryIO) -> Iterator[Callable[[pl.DataFrame], None]]:
    yield lambda frame: flat(frame).write_csv(file, include_header=file.tell() == 0)


def flat(frame: pl.DataFrame) -> pl.DataFrame:
    """The columns that a CSV file can hold."""
    kinds = frame.schema.items()
    return frame.select(name for name, kind in kinds if not kind.is_nested() and kind not in (pl.Binary, pl.Object))


@contextmanager
def _parquet(file: BinaryIO) -> Iterator[Callable[[pl.DataFrame], None]]:
    from pyarrow.parquet import ParquetWriter

    writer: Any = None

    def write(frame: pl.DataFrame) -> None:
        nonlocal writer
        table = frame.to_arrow()
        writer = writer or ParquetWriter(file, table.schema)
        writer.write_table(table.cast(writer.schema))

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()
