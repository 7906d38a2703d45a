"""Dropout that is a function of seed and step, so that a model drops the same units alone and in a fleet."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from pulab.errors import InputError
from pulab.training.random_source import STRIDE, scramble


class CountedDropout(nn.Dropout):
    """Dropout whose mask is a hash of the seed, the step and the place of the unit.

    torch's dropout draws from one generator for all models of a device, so a model would drop other units in a fleet
    than alone. A hash also needs no saved state to resume exactly.
    """

    seed: Tensor
    passes: Tensor
    calls: int  # in this step: a layer that is used twice must not drop the same units twice
    again: bool  # whether the backward pass runs, in which checkpoints compute passes again

    def forward(self, x: Tensor) -> Tensor:
        """Drop units in training."""
        if not self.training or self.p == 0:
            return x
        if not self.again:
            self.calls += 1
        elif self.calls > 1:
            raise InputError(
                "a dropout layer that is used more than once in a step cannot be checkpointed: it does not know which "
                "mask to compute again. Give each use its own layer. If the method passes the network more than once "
                "in a step, switch checkpoints off."
            )
        place = torch.arange(x.numel(), device=x.device).view(x.shape)
        if torch.compiler.is_compiling():  # without this, torch folds the product below into numbers beyond 64 bits
            place = (place ^ self.seed) ^ self.seed
        h = scramble(self.seed + self.passes * STRIDE + self.calls, place)
        kept = ((h >> 40) & 0xFFFFFF) >= round(self.p * 2**24)  # whole numbers, because bfloat16 would round p
        scale = 1 / (1 - self.p) if self.p < 1 else 0.0
        return x.mul_(kept).mul_(scale) if self.inplace else x * kept * scale


@contextmanager
def counted_dropout(module: nn.Module, seed: int) -> Iterator[list[CountedDropout]]:
    """Inside, every plain ``nn.Dropout`` of the module is a counted one. Afterwards it is as before.

    The layer stays the same object, so hooks and other references to it still work.
    """
    device = next(module.parameters()).device
    layers: list[Any] = [layer for layer in module.modules() if is_plain_dropout(layer)]
    try:
        for i, layer in enumerate(layers, 1):
            layer.__class__ = CountedDropout
            layer.calls, layer.again = 0, False
            own = (seed + (i << 32)) % 2**63  # far apart: the number of calls is added to it
            for name, value in (("seed", own), ("passes", 0)):
                layer.register_buffer(name, torch.tensor(value, dtype=torch.int64, device=device), persistent=False)
        yield layers
    finally:
        for layer in layers:
            for name in {"calls", "again", "seed", "passes"} & {*vars(layer), *layer._buffers}:
                delattr(layer, name)
            layer.__class__ = nn.Dropout


def is_plain_dropout(layer: nn.Module) -> bool:
    """Whether a layer is torch's own, without added attributes."""
    return type(layer) is nn.Dropout and vars(layer).keys() == vars(nn.Dropout()).keys() and not layer._buffers
