"""The source of batches: rows that are gathered by index, and the streams that a training passes over."""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from pulab.errors import InputError

K = TypeVar("K")


class Rows:
    """The rows of an array or a CSR matrix as tensors on a device, gathered by index.

    A dense array is moved to the device once. A sparse one stays sparse and is made dense a batch at a time, so a wide
    text matrix needs little memory.
    """

    def __init__(self, X: Any, dtype: torch.dtype, device: torch.device) -> None:
        self.shape: tuple[int, ...] = X.shape
        self.dtype, self.device = dtype, device
        self.sparse = sparse.csr_array(X) if sparse.issparse(X) else None
        values = X if self.sparse is None else self.sparse.data
        with warnings.catch_warnings():  # torch warns of read-only memory (a memmap), but we never write
            warnings.filterwarnings("ignore", message=".*not writable")
            self.dense = torch.from_numpy(np.ascontiguousarray(values)).to(device, dtype)
        if not torch.isfinite(self.dense).all():
            raise InputError(
                f"X holds values up to {np.abs(values).max():.3g}, too large for {dtype}. "
                "Scale X, or pass dtype='float64'."
            )

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Tensor) -> Tensor:
        """The rows at an index of any shape. The result has the shape of the index, then that of a row."""
        if self.sparse is None:
            batch = self.dense.index_select(0, index.flatten())
        else:
            chosen = self.sparse[index.flatten().cpu().numpy()].toarray()
            batch = torch.from_numpy(chosen).to(self.device, self.dtype)
        return batch.view(*index.shape, *self.shape[1:])


@dataclass(frozen=True)
class Stream:
    """Some of the rows, for one model or for several that train together. Every epoch passes over them.

    ``index`` has a line per model with the numbers of its rows in ``rows``. A position counts along this line.
    """

    rows: Rows
    index: Tensor

    def __len__(self) -> int:
        return self.index.shape[1]

    def __getitem__(self, positions: Tensor) -> Tensor:
        return self.rows[self.index.gather(1, positions)]

    def positions(self) -> Tensor:
        """Every position, for every model."""
        return torch.arange(len(self), device=self.index.device).expand(self.index.shape)


def stack_streams(jobs: Sequence[Mapping[K, Stream]]) -> dict[K, Stream]:
    """The streams of several models as one set of streams. Rows that models share are held once."""
    if len(jobs) == 1:
        return dict(jobs[0])
    distinct = {id(stream.rows): stream.rows for streams in jobs for stream in streams.values()}
    starts = dict(zip(distinct, np.cumsum([0, *map(len, distinct.values())]).tolist(), strict=False))
    rows = _join(list(distinct.values()))
    return {
        name: Stream(rows, torch.cat([streams[name].index + starts[id(streams[name].rows)] for streams in jobs]))
        for name in jobs[0]
    }


def _join(parts: Sequence[Rows]) -> Rows:
    """Dense rows, already validated, one after the other."""
    if len(parts) == 1:
        return parts[0]
    joined = object.__new__(Rows)
    joined.shape = (sum(map(len, parts)), *parts[0].shape[1:])
    joined.dtype, joined.device, joined.sparse = parts[0].dtype, parts[0].device, None
    joined.dense = torch.cat([rows.dense for rows in parts])
    return joined


def epoch_order(n: int, steps: int, batch_size: int | None, generator: torch.Generator) -> Tensor:
    """Positions of a stream of n rows in random order, enough for the steps of an epoch.

    Without a batch size every row comes once. If there are fewer rows than steps, or fewer than ``steps × batch_size``,
    the rows are shuffled again and repeated.
    """
    wanted = max(n, steps) if batch_size is None else steps * batch_size
    passes = [torch.randperm(n, generator=generator, device="cpu") for _ in range(math.ceil(wanted / n))]
    return torch.cat(passes)[:wanted]
