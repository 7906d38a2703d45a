"""Where batches come from: rows that can be gathered by index, and the streams that a training passes over."""

import math
import warnings
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
        self._dtype, self._device = dtype, device
        self._sparse = sparse.csr_array(X) if sparse.issparse(X) else None
        if self._sparse is None:
            self._dense = self._tensor(X)
            self._refuse_overflow(self._dense, X)
        else:
            self._refuse_overflow(self._tensor(self._sparse.data), self._sparse.data)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Tensor) -> Tensor:
        if self._sparse is None:
            batch = self._dense.index_select(0, index)
        else:
            batch = self._tensor(self._sparse[index.cpu().numpy()].toarray())
        # 1.2 × faster convolutions on a CPU (and more on a GPU) than in torch's default order.
        return batch.contiguous(memory_format=torch.channels_last) if batch.ndim == 4 else batch

    def _tensor(self, values: Any) -> Tensor:
        with warnings.catch_warnings():  # read-only memory (a memmap): torch warns, we never write
            warnings.filterwarnings("ignore", message=".*not writable")
            return torch.from_numpy(np.ascontiguousarray(values)).to(self._device, self._dtype)

    def _refuse_overflow(self, tensor: Tensor, values: Any) -> None:
        if not torch.isfinite(tensor).all():
            raise InputError(
                f"X holds values up to {np.abs(values).max():.3g}, too large for {self._dtype}. Scale X, or pass "
                "dtype='float64'."
            )


@dataclass(frozen=True)
class Stream:
    """Some of the rows, passed over again and again; a position in the stream stands for one of them."""

    rows: Rows
    index: Tensor

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, positions: Tensor) -> Tensor:
        return self.rows[self.index.index_select(0, positions)]


def epoch_order(n: int, steps: int, batch_size: int | None, generator: torch.Generator) -> tuple[Tensor, ...]:
    """Positions of a stream of n rows, in random order, dealt to the steps of an epoch as evenly as can be.

    Without a batch size every row comes up once; where there are fewer rows than steps, or ``steps × batch_size`` asks
    for more, the rows are shuffled again and repeated. Even shares leave no last batch of one, which BatchNorm could
    not take and which would weigh as much as a full one.
    """
    wanted = max(n, steps) if batch_size is None else steps * batch_size
    passes = [torch.randperm(n, generator=generator) for _ in range(math.ceil(wanted / n))]
    return torch.cat(passes)[:wanted].tensor_split(steps)
