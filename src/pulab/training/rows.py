"""Where batches come from: rows that can be gathered by index, and the streams that a training passes over."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from pulab.errors import InputError


class Rows:
    """The rows of an array or a CSR matrix as tensors on a device, gathered by index.

    A dense array is moved to the device once; a sparse one stays as it is and is made dense a batch at a time, so that
    a wide text matrix costs no more memory than it has to.
    """

    def __init__(self, X: Any, dtype: torch.dtype, device: torch.device) -> None:
        self.shape: tuple[int, ...] = X.shape
        self.dtype, self.device = dtype, device
        self.sparse = sparse.csr_array(X) if sparse.issparse(X) else None
        values = X if self.sparse is None else self.sparse.data
        self.dense = self._tensor(values)
        if not torch.isfinite(self.dense).all():
            raise InputError(
                f"X holds values up to {np.abs(values).max():.3g}, too large for {dtype}. "
                "Scale X, or pass dtype='float64'."
            )

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Tensor) -> Tensor:
        """The rows of an index of any shape: its shape, then a row's."""
        if self.sparse is None:
            batch = self.dense.index_select(0, index.flatten())
        else:
            batch = self._tensor(self.sparse[index.flatten().cpu().numpy()].toarray())
        return batch.view(*index.shape, *self.shape[1:])

    def _tensor(self, values: Any) -> Tensor:
        with warnings.catch_warnings():  # read-only memory (a memmap): torch warns, we never write
            warnings.filterwarnings("ignore", message=".*not writable")
            return torch.from_numpy(np.ascontiguousarray(values)).to(self.device, self.dtype)


@dataclass(frozen=True)
class Stream:
    """Some of the rows, passed over again and again, for one model or for several that train together.

    ``index`` has a line per model: the rows of ``rows`` that are this model's. A position counts along the line.
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


def stack_streams(streams: Sequence[Stream]) -> Stream:
    """One stream for several models; rows that they share are held once."""
    distinct = list({id(stream.rows): stream.rows for stream in streams}.values())
    if len(distinct) == 1:
        return Stream(distinct[0], torch.cat([stream.index for stream in streams]))
    starts = dict(zip(map(id, distinct), np.cumsum([0, *(len(rows) for rows in distinct[:-1])]).tolist(), strict=True))
    joined = object.__new__(Rows)  # rows that are behind the door already
    joined.shape = (sum(map(len, distinct)), *distinct[0].shape[1:])
    joined.dtype, joined.device, joined.sparse = distinct[0].dtype, distinct[0].device, None
    joined.dense = torch.cat([rows.dense for rows in distinct])
    return Stream(joined, torch.cat([stream.index + starts[id(stream.rows)] for stream in streams]))


def epoch_order(n: int, steps: int, batch_size: int | None, generator: torch.Generator) -> Tensor:
    """Positions of a stream of n rows in random order, enough for the steps of an epoch.

    Without a batch size every row comes up once; where there are fewer rows than steps, or ``steps × batch_size`` asks
    for more, the rows are shuffled again and repeated.
    """
    wanted = max(n, steps) if batch_size is None else steps * batch_size
    passes = [torch.randperm(n, generator=generator) for _ in range(math.ceil(wanted / n))]
    return torch.cat(passes)[:wanted]
