"""Dropout that is a function of seed and step, so that a model drops the same units alone and in a fleet."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

# Constants of the 64-bit finaliser of MurmurHash3, as signed numbers; multiplication wraps around.
_MIX1, _MIX2, _STRIDE = -0xAE502812AA7333, -0x3B314601E57A13AD, -0x61C8864680B583EB


class CountedDropout(nn.Module):
    """Dropout whose mask is a hash of a seed, the number of the pass and the place of the unit.

    torch's own draws from one generator for all models of a device, so that what a model drops would depend on its
    company; and no generator has to be saved to go on exactly.
    """

    seed: Tensor
    passes: Tensor

    def __init__(self, p: float, seed: int, like: Tensor) -> None:
        super().__init__()
        self.p = p
        self.calls = 0  # within a pass: a layer that is used twice must not drop the same units twice
        for name, value in (("seed", seed), ("passes", 0)):
            value_on_device = torch.tensor(value, dtype=torch.int64, device=like.device)
            self.register_buffer(name, value_on_device, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        place = torch.arange(x.numel(), device=x.device).view(x.shape)
        if torch.compiler.is_compiling():  # or it would fold the product below into numbers beyond 64 bits
            place = (place ^ self.seed) ^ self.seed
        self.calls += 1
        h = (self.seed + self.passes * _STRIDE + self.calls) ^ (place * _MIX2)
        for factor in (_MIX1, _MIX2):
            h = (h ^ ((h >> 33) & 0x7FFFFFFF)) * factor
        kept = ((h >> 40) & 0xFFFFFF) >= round(self.p * 2**24)  # in whole numbers: bfloat16 would round the share
        return x * kept * (1 / (1 - self.p) if self.p < 1 else 0.0)


@contextmanager
def counted_dropout(module: nn.Module, seed: int) -> Iterator[None]:
    """Within, every ``nn.Dropout`` of the module is a counted one; afterwards it is as it was."""
    like = next(module.parameters())
    swapped: list[tuple[nn.Module, str, nn.Module]] = []
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Dropout:
                swapped.append((parent, name, child))
                own = (seed + (len(swapped) << 32)) % 2**63  # far apart: within a layer, calls are counted on from it
                setattr(parent, name, CountedDropout(child.p, own, like).train(child.training))
    try:
        yield
    finally:
        for parent, name, child in swapped:
            setattr(parent, name, child.train(parent.training))
