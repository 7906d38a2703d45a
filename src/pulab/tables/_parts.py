"""Parts of a table of Parquet files, for machines that score a part each.

A part has the same pieces that one machine would read, row for row, so its scores have the same bits.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import polars as pl
import pyarrow as pa
import pyarrow.parquet

from pulab.errors import DataFormatError, DataNotFoundError, InputError, in_one_line
from pulab.tables._arrow import BATCH, from_arrow, wanted
from pulab.tables._places import File, open_file
from pulab.tables._sources import _like, _with_folders

PART = 16 * BATCH  # rows of a part: some 40 MB of scores


@dataclass(frozen=True)
class TablePart:
    """Some rows of a file of a table, in their order."""

    table: str  # its name, for messages
    file: str
    root: str  # empty for a table of one file
    first: int  # row of the file
    rows: int
    model: pl.DataFrame | None = None  # the columns of the first file, without rows
    model_file: str = ""

    def pieces(self, columns: Sequence[str] | None) -> Iterator[pl.DataFrame]:
        """The rows, piece by piece."""
        for frame in self._pieces(columns):
            if not self.root:
                yield frame
                continue
            path = PurePosixPath(self.file)
            with_folders = _with_folders(frame, path, PurePosixPath(self.root))
            yield with_folders if self.model is None else _like(with_folders, path, self.model, self.model_file)

    def _pieces(self, columns: Sequence[str] | None) -> Iterator[pl.DataFrame]:
        try:
            # Without pre_buffer, only a part of a large row group is in memory.
            with pa.parquet.ParquetFile(open_file(self.file), pre_buffer=False, buffer_size=2**20) as file:
                groups, skip = self._groups(file)
                names = wanted(columns, file.schema_arrow.names)
                read = file.iter_batches(BATCH, row_groups=groups, columns=names)
                for piece in _aligned(read, skip, self.rows):
                    yield from_arrow(piece)
        except FileNotFoundError as error:
            raise DataNotFoundError(
                f"{self.file} is not there. All machines of a cluster must see the table at the same place."
            ) from error
        except (pa.ArrowException, OSError) as error:
            raise DataFormatError(f"{self.file} cannot be read as a Parquet file: {in_one_line(error)}.") from error

    def _groups(self, file: "pa.parquet.ParquetFile") -> tuple[list[int], int]:
        """The row groups that hold these rows, and how many rows lie before them there."""
        groups: list[int] = []
        start = skip = 0
        for i in range(file.num_row_groups):
            end = start + file.metadata.row_group(i).num_rows
            if start < self.first + self.rows and end > self.first:
                skip = skip if groups else self.first - start
                groups.append(i)
            start = end
        return groups, skip


def _aligned(batches: Iterator[pa.RecordBatch], skip: int, rows: int) -> Iterator[pa.Table]:
    """These rows in pieces of BATCH, as if the reading had begun with the first of them."""
    held: list[pa.RecordBatch] = []
    n_held = 0
    for batch in batches:
        cut = min(skip, len(batch))
        skip -= cut
        left = batch.slice(cut, rows)
        rows -= len(left)
        while len(left):
            part = left.slice(0, BATCH - n_held)
            held.append(part)
            n_held, left = n_held + len(part), left.slice(len(part))
            if n_held == BATCH:
                yield pa.Table.from_batches(held)
                held, n_held = [], 0
        if not rows:
            break
    if held:
        yield pa.Table.from_batches(held)


def parts_of(table: str, files: Sequence[File], root: str, columns: Sequence[str]) -> list[TablePart]:
    """All parts of a table, in the order of its rows."""
    parts = []
    for file in files:
        n_rows = _n_rows(file.path)
        parts += [
            TablePart(table, file.path, root, first, min(PART, n_rows - first)) for first in range(0, n_rows, PART)
        ]
    if not parts:
        raise InputError(f"{table} has no rows to score.")
    first = parts[0]
    model = next(first.pieces(columns)).clear() if root else None
    return [TablePart(p.table, p.file, p.root, p.first, p.rows, model, first.file) for p in parts]


def _n_rows(path: str) -> int:
    try:
        with pa.parquet.ParquetFile(open_file(path), pre_buffer=False) as file:
            return int(file.metadata.num_rows)
    except (pa.ArrowException, OSError) as error:
        raise DataFormatError(
            f"on a cluster a table is one of Parquet files, and {path} is not: {in_one_line(error)}."
        ) from error
