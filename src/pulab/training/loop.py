"""The training loop. There is one; methods differ by their objective."""

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from pulab._torch import Seeds, seeded
from pulab.errors import TrainingError
from pulab.nets import logits
from pulab.training.rows import Rows, Stream, epoch_order

Record = dict[str, Any]


class Step(NamedTuple):
    """What an objective makes of a batch: the scalar to differentiate, and what goes into the history, by name."""

    objective: Tensor
    terms: Mapping[str, Tensor]


class Objective(Protocol):
    """What a method adds to the loop. ``g`` and ``positions`` are keyed by stream: "p", "u" and, for PUbN, "n"."""

    def begin_epoch(self, epoch: int) -> None:
        """Epochs count from 1."""

    def step(self, g: Mapping[str, Tensor], positions: Mapping[str, Tensor]) -> Step:
        """From the logits of a batch, and the positions of its rows in their streams, to the loss."""

    def end_epoch(self, epoch: int) -> Record:
        """Whatever else the history should hold of this epoch."""

    def validation_risk(self, g: Mapping[str, Tensor]) -> Tensor:
        """From the logits of the whole validation set to the number whose lowest epoch is kept."""


@dataclass(frozen=True)
class Schedule:
    """How long, how fast, how much at once. The learning rate falls to a tenth after each milestone."""

    epochs: int
    lr: float
    lr_milestones: tuple[int, ...]
    weight_decay: float
    batch_size_u: int
    batch_size_p: int | None

    def steps(self, n_u: int) -> int:
        """Steps of one epoch: the U stream is passed over exactly once."""
        return math.ceil(n_u / self.batch_size_u)

    def lr_at(self, epoch: int) -> float:
        """The learning rate of an epoch, counted from 1."""
        return self.lr * 0.1 ** sum(epoch > milestone for milestone in self.lr_milestones)


class Training:
    """One training: a module, its optimiser, its streams and its random numbers, epoch by epoch.

    After :meth:`run` the module holds the weights of the epoch with the lowest validation risk (of the last epoch,
    where there is no validation set).
    """

    def __init__(
        self,
        module: nn.Module,
        objective: Objective,
        streams: Mapping[str, Stream],
        validation: Mapping[str, Stream] | None,
        schedule: Schedule,
        seeds: Seeds,
        device: torch.device,
    ) -> None:
        self.module, self.objective, self.schedule = module, objective, schedule
        self.streams, self.validation = streams, validation
        self.device = device
        self.epoch = 0
        self.history: list[Record] = []
        self.best_epoch = 0
        self._best_risk = math.inf
        self._best_weights: dict[str, Any] = {}
        self._seeds = seeds
        self._generator = torch.Generator().manual_seed(seeds["batches"])
        self._optimizer = torch.optim.Adam(
            module.parameters(),
            lr=schedule.lr,
            weight_decay=schedule.weight_decay,
            amsgrad=True,
            fused=True,
        )

    def run(self, on_epoch: Callable[[Record], None] = lambda record: None) -> None:
        """Train to the last epoch, then take the best one's weights."""
        with seeded(self._seeds["dropout"], self.device):
            while self.epoch < self.schedule.epochs:
                on_epoch(self._run_epoch())
        self.module.load_state_dict(self._best_weights)
        self.module.eval()

    def _run_epoch(self) -> Record:
        self.epoch += 1
        for group in self._optimizer.param_groups:
            group["lr"] = self.schedule.lr_at(self.epoch)
        self.objective.begin_epoch(self.epoch)
        self.module.train()
        record = self._summary([self._step(positions) for positions in self._epoch_batches()])
        record |= self.objective.end_epoch(self.epoch)
        record["val_risk"] = self._validation_risk()
        self.history.append(record)
        self._keep_best(record["val_risk"])
        return record

    def _epoch_batches(self) -> list[dict[str, Tensor]]:
        """Which rows each step of the epoch takes, by stream."""
        steps = self.schedule.steps(len(self.streams["u"]))
        sizes = {"p": self.schedule.batch_size_p}  # the other streams are passed over once
        orders = {
            name: epoch_order(len(stream), steps, sizes.get(name), self._generator)
            for name, stream in self.streams.items()
        }
        return [{name: order[i].to(self.device) for name, order in orders.items()} for i in range(steps)]

    def _step(self, positions: dict[str, Tensor]) -> Record:
        # All streams in one forward pass: BatchNorm sees them together, as the paper's code does.
        x = torch.cat([self.streams[name][rows] for name, rows in positions.items()])
        parts = torch.split(logits(self.module, x), [len(rows) for rows in positions.values()])
        g = dict(zip(positions, parts, strict=True))
        step = self.objective.step(g, positions)
        self._optimizer.zero_grad(set_to_none=True)
        step.objective.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        return {
            **step.terms,
            "objective": step.objective,
            "positive_share": torch.sigmoid(g["u"]).mean(),
            "rows": len(positions["u"]),
        }

    def _summary(self, steps: list[Record]) -> Record:
        """Means over the rows of the epoch, read from the device once."""
        rows = torch.tensor([step.pop("rows") for step in steps], dtype=torch.float64)
        table = torch.stack([torch.stack([value.detach() for value in step.values()]) for step in steps]).double().cpu()
        bad = ~torch.isfinite(table).all(dim=1)
        if bad.any():
            raise TrainingError(
                f"the loss is no longer finite at epoch {self.epoch}, step {int(bad.nonzero()[0]) + 1} of {len(steps)}."
                " Lower lr, scale X, or look for extreme values in it."
            )
        means = (rows[:, None] * table).sum(0) / rows.sum()
        named = dict(zip(steps[0], means.tolist(), strict=True))
        del named["objective"]
        return {"epoch": self.epoch, "lr": self.schedule.lr_at(self.epoch), **named}

    def _validation_risk(self) -> float | None:
        if self.validation is None:
            return None
        g = {name: predict_logits(self.module, s.rows, s.index) for name, s in self.validation.items()}
        with torch.inference_mode():
            return float(self.objective.validation_risk(g))

    def _keep_best(self, risk: float | None) -> None:
        # A risk that is no number never wins, but some epoch must: the first one stands until a better one comes.
        if risk is None or risk < self._best_risk or not self._best_weights:
            self._best_risk = risk if risk is not None and math.isfinite(risk) else math.inf
            self.best_epoch = self.epoch
            self._best_weights = copy.deepcopy(self.module.state_dict())


def predict_logits(module: nn.Module, rows: Rows, index: Tensor | None = None) -> Tensor:
    """Logits of these rows (all, without an index) in evaluation mode, a bounded number at a time."""
    if index is None:
        index = torch.arange(len(rows), device=next(module.parameters()).device)
    at_once = min(max(64, 2**20 // max(1, math.prod(rows.shape[1:]))), 16384)
    was_training = module.training
    module.eval()
    with torch.inference_mode():
        out = torch.cat([logits(module, rows[part]) for part in torch.split(index, at_once)])
    module.train(was_training)
    return out
