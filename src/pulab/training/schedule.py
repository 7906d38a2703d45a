"""How long, how fast, how much at once."""

import math
from dataclasses import dataclass

import torch

LR_SCHEDULES = ("constant", "cosine")


@dataclass(frozen=True)
class Schedule:
    """The settings of a training that do not belong to its method.

    Models that are trained as one have everything in common but learning rates, milestones and weight decay.
    """

    epochs: int
    lr: float
    lr_milestones: tuple[int, ...]  # epochs after which a constant rate falls to a tenth
    weight_decay: float
    batch_size_u: int
    batch_size_p: int | None
    autocast: torch.dtype | None = None
    optimizer: str = "amsgrad"
    lr_schedule: str = "constant"
    lr_warmup: float = 0.0  # epochs in which the rate rises from zero, step by step

    def steps(self, n_u: int) -> int:
        """Steps of one epoch: the U stream is passed over exactly once."""
        return math.ceil(n_u / self.batch_size_u)

    @property
    def changes_by_step(self) -> bool:
        """Whether the learning rate moves within an epoch."""
        return self.lr_schedule != "constant" or self.lr_warmup > 0

    def lr_at(self, step: int, steps: int) -> float:
        """The learning rate of a step, counted from 0 over all epochs, where an epoch has ``steps`` of them."""
        warmup = round(min(self.lr_warmup * steps, 2.0**53))  # not infinity
        if self.lr_schedule == "cosine":
            after = max(0, step - warmup) / max(1, self.epochs * steps - warmup)
            rate = self.lr * 0.5 * (1 + math.cos(math.pi * after))
        else:
            rate = self.lr * 0.1 ** sum(step // steps >= milestone for milestone in self.lr_milestones)
        return rate * (step + 1) / (warmup + 1) if step < warmup else rate
