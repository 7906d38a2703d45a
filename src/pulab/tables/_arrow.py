"""From pyarrow to polars, and the files that pyarrow reads as they are: Parquet and Arrow."""

import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet

from pulab.errors import DataFormatError, InputError, in_one_line

BATCH = 65_536  # rows at a time where a table is streamed


def from_arrow(table: pa.Table) -> pl.DataFrame:
    """A pyarrow table as polars reads it, without the index that pandas stores."""
    refuse_twins(table.column_names)
    table = table.drop_columns([name for name in table.column_names if re.fullmatch(r"__index_level_\d+__", name)])
    plain = pa.schema([field.remove_metadata() for field in table.schema])  # it may be damaged, and is not needed
    table = pa.Table.from_arrays(table.columns, schema=plain)
    for i, field in enumerate(table.schema):
        if pa.types.is_decimal256(field.type):  # unknown to polars
            table = table.set_column(i, field.name, table.column(i).cast(pa.float64()))
    try:
        table.validate(full=True)  # polars panics at damaged text, and prints hundreds of lines
    except pa.ArrowInvalid as error:
        raise DataFormatError(f"the table is damaged: {in_one_line(error)}. Copy or write it again.") from error
    try:
        frame = pl.DataFrame(pl.from_arrow(table))
        frame.columns = table.column_names  # polars gives a column without a name another one
        return frame
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise DataFormatError(
            f"the table has a column that cannot be read: {in_one_line(error)}. Leave it out."
        ) from error


def refuse_twins(names: Sequence[str]) -> None:
    """Refuse two columns of one name."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataFormatError(f"two columns are called {twice!r}. Give each a name of its own.")


def wanted(columns: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """The requested columns of a file; all if it has none of them, for a helpful error later."""
    refuse_twins(known)
    requested = set(known if columns is None else columns)
    return [name for name in known if name in requested] or list(known)


def need(package: str, extra: str, what: str) -> Any:
    """An optional package, or an error that says how to install it."""
    try:
        return import_module(package)
    except ImportError:
        raise InputError(f"{what} needs the package {package}. Run: pip install 'pulab[{extra}]'.") from None


# Files ----------------------------------------------------------------------------------------------------------------


def parquet_pieces(path: Path, columns: Sequence[str] | None) -> Iterator[pl.DataFrame]:
    """A Parquet file, piece by piece."""
    # Without pre_buffer, only a part of a large row group is in memory.
    with pa.parquet.ParquetFile(path, pre_buffer=False, buffer_size=2**20) as file:
        for batch in file.iter_batches(BATCH, columns=wanted(columns, file.schema_arrow.names)):
            yield from_arrow(pa.Table.from_batches([batch]))


def arrow_file_pieces(path: Path, columns: Sequence[str] | None) -> Iterator[pl.DataFrame]:
    """An Arrow file, which is also Feather version 2, piece by piece."""
    with pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as reader:
        names = wanted(columns, reader.schema.names)
        for i in range(reader.num_record_batches):
            yield from_arrow(pa.Table.from_batches([reader.get_batch(i)]).select(names))


def arrow_stream_pieces(path: Path, columns: Sequence[str] | None) -> Iterator[pl.DataFrame]:
    """A file that holds an Arrow stream, piece by piece."""
    with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as reader:
        names = wanted(columns, reader.schema.names)
        for batch in reader:
            yield from_arrow(pa.Table.from_batches([batch]).select(names))
