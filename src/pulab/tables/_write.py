"""Write tables to files, piece by piece, all or nothing."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import polars as pl

from pulab.errors import InputError

ENDINGS = (".csv", ".parquet", ".pq")


def check_target(path: Path) -> None:
    """Refuse a path that no table can be written to, before any work is done."""
    if path.suffix.lower() not in ENDINGS:
        raise InputError(f"scores go to a file that ends in .csv or .parquet, got {path}.")
    if (path.exists() and not path.is_file()) or not path.absolute().parent.is_dir():
        raise InputError(f"--out must be a file in a folder that exists, got {path}.")


@contextmanager
def table_writer(path: Path) -> Iterator[Callable[[pl.DataFrame], None]]:
    """Write frames to a file. It appears under its name when all of them are written."""
    check_target(path)
    target = path.resolve()
    unfinished = target.with_name(f".{target.name}-{uuid4().hex[:8]}")
    try:
        with _csv(unfinished) if path.suffix.lower() == ".csv" else _parquet(unfinished) as write:
            yield write
        unfinished.replace(target)
    except BaseException:  # a full disk, Ctrl-C
        unfinished.unlink(missing_ok=True)
        raise


@contextmanager
def _csv(path: Path) -> Iterator[Callable[[pl.DataFrame], None]]:
    with path.open("wb") as file:
        yield lambda frame: flat(frame).write_csv(file, include_header=file.tell() == 0)


def flat(frame: pl.DataFrame) -> pl.DataFrame:
    """The columns that a CSV file can hold."""
    kinds = frame.schema.items()
    return frame.select(name for name, kind in kinds if not kind.is_nested() and kind not in (pl.Binary, pl.Object))


@contextmanager
def _parquet(path: Path) -> Iterator[Callable[[pl.DataFrame], None]]:
    from pyarrow.parquet import ParquetWriter

    writer: Any = None

    def write(frame: pl.DataFrame) -> None:
        nonlocal writer
        table = frame.to_arrow()
        writer = writer or ParquetWriter(path, table.schema)
        writer.write_table(table.cast(writer.schema))

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()
