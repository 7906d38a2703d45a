"""The rows of Parquet files on disk: what a process needs of them, in a flat file that is read as it is trained on."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pulab._scaling import Scaler
from pulab._validation import AnyArray, Index
from pulab.errors import DataFormatError, DataNotFoundError, InputError, in_one_line
from pulab.training import Ranks

READ = 65_536  # rows at a time
ENDINGS = (".parquet", ".pq")


class Shards:
    """The Parquet files of a folder, of a pattern or of a list, by name: columns of numbers and a column of labels."""

    def __init__(self, table: Any, label: str, drop: Sequence[str] = ()) -> None:
        self.paths, self.label = _paths(table), label
        first = self._schema(self.paths[0])
        unknown = [name for name in (label, *drop) if name not in first]
        if unknown:
            raise InputError(f"{self.paths[0]} has no column {unknown[0]!r}, but {', '.join(first)}.")
        self.names = [name for name in first if name != label and name not in drop]
        words = [name for name in self.names if not _is_number(first[name])]
        if words or not self.names:
            raise InputError(
                f"the columns to learn from must be numbers, but {words[0]!r} is {first[words[0]]}. Drop or encode it."
                if words
                else f"{self.paths[0]} has no columns but the label. Add columns of numbers."
            )
        for path in self.paths[1:]:
            schema = self._schema(path)
            if missing := [name for name in (label, *self.names) if name not in schema]:
                raise DataFormatError(f"{path} has no column {missing[0]!r}, unlike {self.paths[0]}.")
        self.lengths = [self._open(path).metadata.num_rows for path in self.paths]
        self.n_rows = sum(self.lengths)

    def labels(self) -> AnyArray:
        """The labels of all rows. Only their column is read."""
        import pyarrow as pa

        parts = [self._open(path).read([self.label]).column(0) for path in self.paths]
        whole: AnyArray = pa.chunked_array([chunk for part in parts for chunk in part.chunks]).to_numpy()
        return whole

    def pieces(self, wanted: Index) -> Iterator[tuple[Index, NDArray[np.float64]]]:
        """The wanted rows, by rising number, piece by piece. Row groups without any are not read."""
        start = 0
        for path in self.paths:
            file = self._open(path)
            for group in range(file.num_row_groups):
                end = start + file.metadata.row_group(group).num_rows
                if np.searchsorted(wanted, start) < np.searchsorted(wanted, end):
                    yield from self._of_group(file, group, start, wanted)
                start = end

    def _of_group(self, file: Any, group: int, start: int, wanted: Index) -> Iterator[tuple[Index, Any]]:
        for batch in file.iter_batches(READ, row_groups=[group], columns=self.names):
            rows = wanted[np.searchsorted(wanted, start) : np.searchsorted(wanted, start + len(batch))]
            if len(rows):
                kept = batch.take(rows - start)
                yield rows, np.column_stack([_numbers(kept.column(name), name) for name in self.names])
            start += len(batch)

    def _open(self, path: Path) -> Any:
        import pyarrow as pa
        import pyarrow.parquet

        try:
            return pa.parquet.ParquetFile(path, pre_buffer=False)
        except (pa.ArrowException, OSError) as error:
            raise DataFormatError(f"{path} cannot be read as a Parquet file: {in_one_line(error)}.") from error

    def _schema(self, path: Path) -> dict[str, Any]:
        schema = self._open(path).schema_arrow
        return dict(zip(schema.names, schema.types, strict=True))


def _paths(table: Any) -> list[Path]:
    if not isinstance(table, str | os.PathLike):
        given = [Path(path) for path in table]
    elif Path(table).is_dir():
        given = sorted(path for path in Path(table).rglob("*") if path.suffix.lower() in ENDINGS and path.is_file())
    else:
        place = Path(table)
        given = [place] if place.is_file() else sorted(place.parent.glob(place.name))
    if not given:
        raise DataNotFoundError(
            f"there are no Parquet files at {table}. Every process must see them at the same place."
        )
    return given


def _is_number(kind: Any) -> bool:
    import pyarrow.types as types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _numbers(column: Any, name: str) -> NDArray[np.float64]:
    values: NDArray[np.float64] = np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
    if not np.isfinite(values).all():
        raise InputError(f"column {name!r} has missing or infinite values. This method takes none. Fill them in first.")
    return values


def flat_file(shape: tuple[int, ...], dtype: Any, folder: Path | None) -> Any:
    """A new array in a file that vanishes with the process. The system keeps in memory what it has room for."""
    descriptor, name = tempfile.mkstemp(prefix="pulab-rows-", dir=folder)
    try:
        os.close(descriptor)
        if 0 in shape:
            return np.zeros(shape, dtype)
        return np.memmap(name, dtype, mode="w+", shape=shape)
    finally:
        Path(name).unlink()


def gathered(
    shards: Shards, wanted: Index, population: Index, ranks: Ranks, scale: bool, dtype: torch.dtype, folder: Path | None
) -> tuple[Any, Scaler | None]:
    """The wanted rows as a flat file, standardised by the population of all processes if ``scale``.

    ``population`` are the rows of it that are this process's to count.
    """
    raw = flat_file((len(wanted), len(shards.names)), np.float64, folder)
    done = 0
    for rows, values in shards.pieces(wanted):
        raw[done : done + len(rows)] = values
        done += len(rows)
    scaler = Scaler.fit(raw, np.searchsorted(wanted, population), ranks.reduced) if scale else None
    name = str(dtype).removeprefix("torch.")
    if scaler is None and name == "float64":
        return raw, None
    out = flat_file(raw.shape, name, folder)
    at_once = max(1, 2**20 // len(shards.names))
    for start in range(0, len(wanted), at_once):
        block = np.asarray(raw[start : start + at_once])
        out[start : start + at_once] = block if scaler is None else scaler(block, name)
    return out, scaler
