"""One model that several processes train together, each with a part of the rows.

Every rank passes its own rows of a batch through the network. The logits of all ranks are then gathered, so every rank
computes the same loss over the whole batch. So even a term that is no mean over rows, such as a clamp or a divergence
between shares, is the same as in one process. Back through the gathering, each rank keeps the gradient of its own rows,
and torch's DistributedDataParallel adds up the gradients of the weights. BatchNorm uses the statistics of the whole
batch.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
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


class _GatherNumbers(torch.autograd.Function):
    """The numbers of all ranks, a row for each. Back: the sum of all ranks' gradients of the own numbers."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, rank: int, n_ranks: int) -> Tensor:
        ctx.rank = rank
        parts = [torch.empty_like(own) for _ in range(n_ranks)]
        torch.distributed.all_gather(parts, own.contiguous())
        return torch.stack(parts)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        summed = gradients[0].contiguous().clone()
        torch.distributed.all_reduce(summed)
        return summed[ctx.rank], None, None


class WholeBatchNorm:
    """BatchNorm by the rows of all ranks, inside its context. torch's own SyncBatchNorm needs a GPU.

    Layers stay the objects that they are, and afterwards everything is as before.
    """

    def __init__(self) -> None:
        self.unseen = False  # whether this rank has no row of the batch: it then passes one that does not count

    @contextmanager
    def inside(self, *modules: nn.Module) -> Iterator[None]:
        """Replace what the BatchNorm layers of these modules do in training."""
        of_torch, layers = nn.modules.batchnorm._BatchNorm, []
        for name, layer in (pair for module in modules for pair in module.named_modules()):
            if not isinstance(layer, of_torch):
                continue
            if type(layer).forward is not of_torch.forward or "forward" in vars(layer):
                raise InputError(
                    f"several processes train nn.BatchNorm, but {name!r} is a {type(layer).__name__} with a forward of "
                    "its own. Use nn.BatchNorm1d, 2d or 3d, or GroupNorm."
                )
            if layer.running_mean is None:
                raise InputError(
                    f"the BatchNorm {name!r} has track_running_stats=False, so that a score depends on the other rows "
                    "of its batch. Several processes cannot do that. Leave this setting out."
                )
            layers.append(layer)
        try:
            for layer in layers:
                vars(layer)["forward"] = partial(self._forward, layer)
            yield
        finally:
            for layer in layers:
                vars(layer).pop("forward", None)

    def _forward(self, layer: Any, x: Tensor) -> Tensor:
        if not layer.training:
            return type(layer).forward(layer, x)  # type: ignore[no-any-return]
        layer._check_input_dim(x)
        values = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        over = [0, *range(2, x.dim())]
        own = values[:0] if self.unseen else values
        n_own = own.numel() // x.shape[1]
        mean = own.sum(over) / max(n_own, 1)
        squares = (own - _by_channel(mean, x)).square().sum(over)
        ranks, channels = Ranks.here(), len(mean)
        numbers = torch.cat([mean, squares, mean.new_full((1,), n_own)]).double()  # a float counts to 2^24 only
        table: Tensor = _GatherNumbers.apply(numbers, ranks.rank, ranks.size)  # type: ignore[no-untyped-call]
        means, sums, counts = table[:, :channels], table[:, channels:-1], table[:, -1:].detach()
        n = counts.sum()
        if n <= 1:
            raise ValueError(f"Expected more than 1 value per channel when training, got input size {tuple(x.shape)}")
        mean = (counts * means).sum(0) / n
        squares = (sums + counts * (means - mean).square()).sum(0)
        _remember(layer, mean.detach(), squares.detach() / (n - 1))
        scale = (squares / n + layer.eps).rsqrt()
        if layer.weight is not None:
            scale = scale * layer.weight
        out = (values - _by_channel(mean.to(values.dtype), x)) * _by_channel(scale.to(values.dtype), x)
        if layer.bias is not None:
            out = out + _by_channel(layer.bias, x)
        return out.to(x.dtype)


def _by_channel(numbers: Tensor, x: Tensor) -> Tensor:
    return numbers.view(1, -1, *(1,) * (x.dim() - 2))


@torch.no_grad()
def _remember(layer: Any, mean: Tensor, variance: Tensor) -> None:
    """Move the running statistics towards those of a batch, as torch does."""
    layer.num_batches_tracked.add_(1)
    share = layer.momentum if layer.momentum is not None else 1 / float(layer.num_batches_tracked)
    for running, of_batch in ((layer.running_mean, mean), (layer.running_var, variance)):
        running.lerp_(of_batch.to(running.dtype), share)


def parallel(module: nn.Module) -> nn.Module:
    """The module in training passes. It begins with the first rank's weights and adds up the ranks' gradients."""
    with warnings.catch_warnings():
        # torch 2.13 has another name for it. Buffers hold each rank's own seeds of dropout.
        warnings.simplefilter("ignore", FutureWarning)
        return nn.parallel.DistributedDataParallel(module, broadcast_buffers=False)
