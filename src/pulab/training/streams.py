"""The source of batches: rows that are gathered by index, and the streams that a training passes over."""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from pulab.errors import InputError
from pulab.training.ranks import Share, whole

K = TypeVar("K")
FINENESS = 16  # a validation row of weight 1 is repeated so often: other weights are rounded to sixteenths


class Rows:
    """The rows of an array or a CSR matrix as tensors on a device, gathered by index.

    A dense array is moved to the device once. A file (a memmap) is read where it lies, a batch at a time. A sparse one
    stays sparse and is made dense a batch at a time, so a wide text matrix needs little memory.
    """

    def __init__(self, X: Any, dtype: torch.dtype, device: torch.device) -> None:
        self.shape: tuple[int, ...] = X.shape
        self.dtype, self.device = dtype, device
        self.sparse = sparse.csr_array(X) if sparse.issparse(X) else None
        values = X if self.sparse is None else self.sparse.data
        with warnings.catch_warnings():  # torch warns of read-only memory (a memmap), but we never write
            warnings.filterwarnings("ignore", message=".*not writable")
            self.dense = torch.from_numpy(np.ascontiguousarray(values)).to(
                "cpu" if isinstance(X, np.memmap) and X.dtype == str(dtype).removeprefix("torch.") else device, dtype
            )
        parts = torch.split(self.dense, max(1, 2**22 // max(1, math.prod(self.dense.shape[1:]))))
        if not all(bool(torch.isfinite(part).all()) for part in parts):
            raise InputError(
                f"X holds values up to {np.abs(values).max():.3g}, too large for {dtype}. "
                "Scale X, or pass dtype='float64'."
            )

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def on_device(self) -> bool:
        """Whether batches are gathered on the device. Rows of a file and sparse rows are gathered on the host."""
        return self.sparse is None and self.dense.device.type == self.device.type

    def __getitem__(self, index: Tensor) -> Tensor:
        """The rows at an index of any shape. The result has the shape of the index, then that of a row."""
        if self.sparse is None:
            batch = self.dense.index_select(0, index.flatten().to(self.dense.device)).to(self.device)
        else:
            chosen = self.sparse[index.flatten().cpu().numpy()].toarray()
            batch = torch.from_numpy(chosen).to(self.device, self.dtype)
        return batch.view(*index.shape, *self.shape[1:])


@dataclass(frozen=True)
class Stream:
    """Some of the rows, for one model or for several that train together. Every epoch passes over them.

    ``index`` has a line per model with the numbers of its rows in ``rows``. A position counts along this line.
    ``weight`` has a number above 0 for each position, on the host: how often a row comes. None: all weigh the same.

    With a ``share``, other processes hold other parts of the stream, and these are the rows of this one's part.
    """

    rows: Rows
    index: Tensor
    weight: NDArray[np.float64] | None = None
    share: Share | None = None

    def __len__(self) -> int:
        return self.index.shape[1]

    def __getitem__(self, positions: Tensor) -> Tensor:
        return self.rows[self.index.gather(1, positions)]

    @property
    def total(self) -> int:
        """The number of rows, those of other processes included."""
        return len(self) if self.share is None else sum(self.share.sizes)

    @property
    def own(self) -> slice:
        """Which rows of the whole stream these are."""
        return slice(0, len(self)) if self.share is None else self.share.own

    def whole(self, own: Tensor) -> Tensor:
        """Values of all rows (1, total), from those of the rows that are here."""
        return own if self.share is None else whole(own, self.share.sizes, self.share.rank)

    def positions(self) -> Tensor:
        """Every position, for every model."""
        return torch.arange(len(self), device=self.index.device).expand(self.index.shape)

    def drawn(self, orders: Tensor, seeds: Sequence[int]) -> Tensor:
        """The same orders of positions, a line per model, of rows that are drawn by their weight."""
        if self.weight is None:
            return orders
        drawn = [drawn_by_weight(w, np.random.default_rng(seed)) for w, seed in zip(self.weight, seeds, strict=True)]
        return torch.stack(drawn).gather(1, orders)

    def weighed(self, logits: Tensor) -> Tensor:
        """Logits of all rows, each repeated by its weight: a plain mean of them is the weighted mean of the rows."""
        if self.weight is None or (self.weight == self.weight[:, :1]).all():
            return logits
        counts = [shares(weight, FINENESS * len(self), 0.5) for weight in self.weight]
        repeated = np.stack([np.repeat(np.arange(len(self)), count) for count in counts])
        return logits.gather(1, torch.from_numpy(repeated).to(logits.device))


def share_plan(
    plan: Sequence[Mapping[str, Tensor]], streams: Mapping[str, Stream]
) -> tuple[list[dict[str, Tensor]], list[dict[str, tuple[int, ...]]]]:
    """The positions of each step that are here, and how many each process has. All processes draw the same plan."""
    shares = {name: stream.share for name, stream in streams.items() if stream.share is not None}
    split = [{name: shares[name].split(rows) for name, rows in step.items()} for step in plan]
    own = [{name: rows for name, (rows, _) in step.items()} for step in split]
    return own, [{name: counts for name, (_, counts) in step.items()} for step in split]


def stack_streams(jobs: Sequence[Mapping[K, Stream]]) -> dict[K, Stream]:
    """The streams of several models as one set of streams. Rows that models share are held once."""
    if len(jobs) == 1:
        return dict(jobs[0])
    distinct = {id(stream.rows): stream.rows for streams in jobs for stream in streams.values()}
    starts = dict(zip(distinct, np.cumsum([0, *map(len, distinct.values())]).tolist(), strict=False))
    rows = _join(list(distinct.values()))
    stacked = {}
    for name in jobs[0]:
        parts = [streams[name] for streams in jobs]
        weights = [np.ones(part.index.shape) if part.weight is None else part.weight for part in parts]
        weight = None if all(part.weight is None for part in parts) else np.concatenate(weights)
        stacked[name] = Stream(rows, torch.cat([part.index + starts[id(part.rows)] for part in parts]), weight)
    return stacked


def union(streams: Sequence[Stream]) -> Stream:
    """All rows of one model's streams as one stream: each row once, in the order of the streams."""
    distinct = {id(stream.rows): stream.rows for stream in streams}
    starts = dict(zip(distinct, np.cumsum([0, *map(len, distinct.values())]).tolist(), strict=False))
    numbers = torch.cat([stream.index[0] + starts[id(stream.rows)] for stream in streams]).tolist()
    index = torch.tensor([list(dict.fromkeys(numbers))], device=streams[0].index.device)
    return Stream(_join(list(distinct.values())), index)


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


def drawn_by_weight(weight: NDArray[np.float64], rng: np.random.Generator) -> Tensor:
    """As many positions as there are rows, in rising order: a row comes as often as its weight says, on average.

    Its number is the weight, as a multiple of the mean, rounded up or down at random. So every row comes once if all
    weigh the same, and the plain mean of any function of the rows drawn has the weighted mean as its expectation.
    """
    order = rng.permutation(len(weight))  # otherwise neighbours would share their luck
    counts = np.empty(len(weight), dtype=np.int64)
    counts[order] = shares(weight[order], len(weight), rng.random())
    return torch.from_numpy(np.repeat(np.arange(len(weight)), counts))


def shares(weight: NDArray[np.float64], n: int, offset: float) -> NDArray[np.int64]:
    """How often each row comes in a systematic sample of n: at ``offset``, ``offset + 1``, … of the summed weights."""
    ends = np.cumsum(weight)
    ends *= n / ends[-1]
    before = np.ceil(ends - offset - 1e-9).astype(np.int64)  # less a little: sums of equal weights have rounding errors
    before[-1] = n
    return np.diff(before, prepend=0)
