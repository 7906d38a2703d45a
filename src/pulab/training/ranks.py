"""One model that several processes train together, each with a part of the rows.

Every rank passes its own rows of a batch through the network. The logits of all ranks are then gathered, so every rank
computes the same loss over the whole batch. So a clamp, or a divergence between shares, is that of one process, though
it is no mean over rows. Back through the gathering, each rank keeps the gradient of its own rows, and torch's
DistributedDataParallel adds up the gradients of the weights.
"""

import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from pulab.errors import InputError


class Share(NamedTuple):
    """The part of a stream that this rank holds. The parts of the ranks follow each other."""

    rank: int
    sizes: tuple[int, ...]

    @classmethod
    def even(cls, rank: int, n_ranks: int, n: int) -> "Share":
        """Equal parts of n rows."""
        ends = np.linspace(0, n, n_ranks + 1).round().astype(int).tolist()
        return cls(rank, tuple(end - start for start, end in pairwise(ends)))

    @property
    def own(self) -> slice:
        """Where the own part lies in the whole."""
        start = sum(self.sizes[: self.rank])
        return slice(start, start + self.sizes[self.rank])

    def split(self, positions: Tensor) -> tuple[Tensor, tuple[int, ...]]:
        """Of positions (1, n) of the whole: the own ones, counted from the start of the part; how many each has."""
        ends = torch.tensor(self.sizes, device=positions.device).cumsum(0)
        rank = torch.bucketize(positions[0], ends, right=True)
        counts = torch.bincount(rank, minlength=len(self.sizes))
        return positions[:, rank == self.rank] - self.own.start, tuple(counts.tolist())


class Ranks(NamedTuple):
    """This process among those that train together."""

    rank: int
    size: int

    @classmethod
    def here(cls) -> "Ranks":
        """As torch's process group says; alone without one."""
        if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
            return cls(0, 1)
        return cls(torch.distributed.get_rank(), torch.distributed.get_world_size())

    def of_first(self, value: Any) -> Any:
        """The first rank's value, on all ranks."""
        if self.size == 1:
            return value
        box = [value]
        torch.distributed.broadcast_object_list(box, src=0)
        return box[0]

    def reduced(self, values: np.ndarray[Any, np.dtype[np.float64]], how: str) -> Any:
        """The sums or the maxima over all ranks."""
        if self.size == 1:
            return values
        found: list[Any] = [None] * self.size
        torch.distributed.all_gather_object(found, values)  # a few numbers, and the same sum on every rank
        return np.max(found, axis=0) if how == "max" else np.sum(found, axis=0)


class _Gather(torch.autograd.Function):
    """The rows of all ranks, one rank after the other. Back: the gradient of the own rows."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, counts: Sequence[int], rank: int) -> Tensor:
        ctx.rows, ctx.size = slice(sum(counts[:rank]), sum(counts[: rank + 1])), len(counts)
        padded = own.new_zeros((own.shape[0], max(counts), *own.shape[2:]))  # some backends want equal sizes
        padded[:, : own.shape[1]] = own
        parts = [torch.empty_like(padded) for _ in counts]
        torch.distributed.all_gather(parts, padded)
        return torch.cat([part[:, :n] for part, n in zip(parts, counts, strict=True)], dim=1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        # DistributedDataParallel takes the mean over the ranks. What is needed is the sum.
        return gradients[0][:, ctx.rows] * ctx.size, None, None


def whole(own: Tensor, counts: Sequence[int], rank: int) -> Tensor:
    """The rows of all ranks, from (1, own rows, …) to (1, all rows, …). The gradient flows back to the own rows."""
    gathered: Tensor = _Gather.apply(own, counts, rank)  # type: ignore[no-untyped-call]
    return gathered


def total(counts: Tensor) -> Tensor:
    """Counts, added up over all ranks."""
    summed = counts.clone()
    torch.distributed.all_reduce(summed)
    return summed


def parallel(module: nn.Module) -> nn.Module:
    """The module in training passes. It begins with the first rank's weights and adds up the ranks' gradients."""
    if any(isinstance(layer, nn.modules.batchnorm._BatchNorm) for layer in module.modules()):
        raise InputError(
            "the module has BatchNorm, whose statistics would be those of each rank's rows. Use GroupNorm or LayerNorm."
        )
    with warnings.catch_warnings():
        # torch 2.13 has another name for it. Buffers hold each rank's own seeds of dropout.
        warnings.simplefilter("ignore", FutureWarning)
        return nn.parallel.DistributedDataParallel(module, broadcast_buffers=False)
