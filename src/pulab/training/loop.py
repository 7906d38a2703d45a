"""The training loop. There is one loop for all methods, for one model and for many."""

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pulab._torch import Seeds, autocast, cpu_threads, fast_convolutions, seed_global, seeded
from pulab._validation import check_number, is_out_of_memory
from pulab.errors import CheckpointError, InputError, PulabError, in_one_line
from pulab.training.capture import CapturedStep, Positions, warn_of_fallback
from pulab.training.checkpoint import Checkpoint, Interrupts, damage_is_told
from pulab.training.model import Model
from pulab.training.objective import Batch, Objective, Step
from pulab.training.optimizers import Optimizer, SharedOptimizer, StackedOptimizer
from pulab.training.predict import predict_stream
from pulab.training.random_source import RandomSource
from pulab.training.ranks import Share, WholeBatchNorm, parallel, total
from pulab.training.schedule import Schedule
from pulab.training.stacking import StackedModel
from pulab.training.streams import Stream, epoch_order, share_plan, stack_streams

Record = dict[str, Any]  # an epoch's line of the history
UNCOMPILED = "the module runs as it is, not compiled"
OnEpoch = Callable[[Record, int], None]  # called after an epoch with its record and the number of epochs
Augment = Callable[[Tensor, RandomSource], Tensor]  # from rows (models, rows, …) to a view of them


def ignore(record: Record, epochs: int) -> None:
    """Show no progress."""


@dataclass(frozen=True)
class Job:
    """Everything that one training needs."""

    module: nn.Module
    objective: Objective
    streams: Mapping[str, Stream]
    validation: Mapping[str, Stream] | None
    schedule: Schedule
    seeds: Seeds
    device: torch.device
    augment: Augment | None = None  # for training rows only, not for validation rows
    name: str = ""
    owner: str = ""  # the beginning of error messages about its module
    checkpoint: Checkpoint | None = None


def _all_streams(job: Job) -> dict[tuple[str, str], Stream]:
    """The streams of training and of validation. Both may use the same rows."""
    parts = (("training", job.streams), ("validation", job.validation or {}))
    return {(part, name): stream for part, streams in parts for name, stream in streams.items()}


class Trained(NamedTuple):
    """The result of a job: the module at its best epoch, its history, its line in the objective's tensors.

    ``failure`` says what went wrong, if anything.
    """

    module: nn.Module
    history: list[Record]
    best_epoch: int
    objective: Any
    line: int
    failure: str | None


class Training:
    """One training of one model, or of many stacked models: model, optimiser, streams and random numbers.

    Each model has its own samples, seeds, history and best epoch. The best epoch has the lowest validation risk.
    Without a validation set it is the last one. A model whose numbers are no longer finite has failed; others go on.
    """

    def __init__(self, jobs: Sequence[Job], objective: Objective) -> None:
        first = jobs[0]
        self.jobs, self.objective, self.schedule, self.device = jobs, objective, first.schedule, first.device
        streams = stack_streams([_all_streams(job) for job in jobs])
        self.streams = {name: streams["training", name] for name in first.streams}
        self.validation = {n: streams["validation", n] for n in first.validation} if first.validation else None
        dtype = self.streams["u"].rows.dtype
        objective.memory = {
            name: value.to(self.device, dtype if value.is_floating_point() else value.dtype)
            for name, value in objective.memory.items()
        }
        if objective.teacher_decay is not None:
            check_number("teacher_decay", objective.teacher_decay, low=0, high=1, ends="[)")
        if any(value.shape[:1] != (len(jobs),) for value in objective.memory.values()):
            raise InputError(
                f"the memory of {type(objective).__name__} must have a line per model: shape (1, …) for one."
            )
        self._memory, self._kind = dict(objective.memory), objective.kind
        self._running = ""  # whose code runs, for errors
        model = Model if len(jobs) == 1 else StackedModel
        self.model = model([job.module for job in jobs], objective.width)
        self.epoch = 0  # number of epochs that have ended
        self.histories: list[list[Record]] = [[] for _ in jobs]
        self.best_epochs = [0] * len(jobs)
        self.failures: list[str | None] = [None] * len(jobs)
        self._best_risks = [math.inf] * len(jobs)
        self._terms: list[Tensor] = []  # of the steps in the current epoch
        self._term_names: list[str] = []
        self._row_counts: list[int] = []
        self._steps_before = 0  # of epochs that have ended
        self.share: Share | None = self.streams["u"].share  # of this process, if several train the model
        # Each process has rows of its own, so it must not drop their units and change them by the numbers of another.
        self._of_rank = f"-{self.share.rank}" if self.share and self.share.rank else ""
        self._counts: list[dict[str, tuple[int, ...]]] = []  # rows of each process, by step and stream
        self._batch_norm = WholeBatchNorm()
        self._own_draws = first.seeds["own-draws" + self._of_rank]
        self.checkpoint = Checkpoint.joined([job.checkpoint for job in jobs])

    @contextmanager
    def started(self) -> Iterator[None]:
        """Steps can be taken inside this context. At its end the modules get their best weights."""
        seeds = [job.seeds["dropout" + self._of_rank] for job in self.jobs]
        with self.model.counted_dropout(seeds), self._batch_norm.inside(*(j.module for j in self.jobs if self.share)):
            self._optimizer = self._make_optimizer()
            dtype = self.streams["u"].rows.dtype
            self._random = RandomSource([job.seeds["draws" + self._of_rank] for job in self.jobs], self.device, dtype)
            if self.objective.teacher_decay is not None:
                self.model.start_teacher()
            if self.share is not None:
                self.model.compiled = parallel(self.jobs[0].module)
            elif self._worth_compiling:
                self._compile()
            on_device = all(stream.rows.on_device for stream in self.streams.values())  # others cannot be recorded
            recorded = self._on_gpu and on_device and self.share is None
            self._take_step = CapturedStep(self._sure_step, self.model) if recorded else self._sure_step
            self._resume()
            try:
                yield
            finally:  # free the recordings now: freed during another recording, they would break it
                del self._take_step
                self.model.compiled = None
            self.model.restore_best()
        self._look_for_nan()

    def _look_for_nan(self) -> None:
        for i, (job, risk) in enumerate(zip(self.jobs, self._best_risks, strict=True)):
            learned = [p for p in job.module.parameters() if p.requires_grad]  # a frozen mask may be infinite
            whole = all(bool(torch.isfinite(weights).all()) for weights in learned)
            if not whole or (self.validation is not None and self.epoch and not math.isfinite(risk)):
                self.failures[i] = self.failures[i] or (
                    "training ended with weights or validation risks that are not finite. Lower lr, or scale X."
                )

    def _make_optimizer(self) -> Optimizer:
        name, parameters = self.schedule.optimizer, self.model.parameters()
        if len({job.schedule for job in self.jobs}) == 1:
            return SharedOptimizer(name, parameters, self.schedule.weight_decay)
        decays = [job.schedule.weight_decay for job in self.jobs]
        return StackedOptimizer(name, parameters, torch.tensor(decays, dtype=torch.float64, device=self.device))

    @property
    def is_over(self) -> bool:
        """Whether all epochs have been run, or every model has failed."""
        return self.epoch >= self.schedule.epochs or all(self.failures)

    @property
    def work(self) -> int:
        """A measure of a step's size: rows times weights."""
        return self.schedule.batch_size_u * sum(weights.numel() for weights in self.model.parameters())

    @property
    def _on_gpu(self) -> bool:
        return self.device.type == "cuda"

    @property
    def _worth_compiling(self) -> bool:
        """Only long trainings of large networks in bfloat16 gain more than the half minute that compiling takes.

        A compiled network is not deterministic: torch chooses its kernels by timing them.
        """
        if not self._on_gpu or len(self.jobs) > 1 or self.schedule.autocast is None:
            return False
        steps = self.schedule.epochs * self._steps_per_epoch
        large = steps >= 5000 and sum(weights.numel() for weights in self.model.parameters()) >= 10**6
        return large and not torch.are_deterministic_algorithms_enabled()

    # An epoch: begin, take the steps, end ------------------------------------------------------------------------

    def begin_epoch(self) -> list[Positions]:
        """The positions of each step of the next epoch, by stream. In a resumed epoch only the steps that are left.

        All batches have nearly the same size. A last batch of one row would weigh as much as a full one, and BatchNorm
        cannot take it.
        """
        epoch, steps = self.epoch + 1, self._steps_per_epoch
        self._plan_rates()
        if not self._terms:  # an epoch that is resumed has begun before
            self.objective.begin_epoch(epoch)
            self._check_state()
        self.model.train(True)
        sizes = {"p": self.schedule.batch_size_p}  # the other streams are passed over once
        # A generator per epoch, seeded by its number: resuming needs no random state.
        generators = [torch.Generator().manual_seed(job.seeds[f"batches-{epoch}"]) for job in self.jobs]
        batches = {}
        for name, stream in self.streams.items():
            orders = [epoch_order(stream.total, steps, sizes.get(name), g) for g in generators]
            drawn = stream.drawn(torch.stack(orders), [job.seeds[f"weights-{name}-{epoch}"] for job in self.jobs])
            batches[name] = drawn.to(self.device).tensor_split(steps, dim=1)
        self._plan = [{name: parts[i] for name, parts in batches.items()} for i in range(steps)]
        self._sizes = [step["u"].shape[1] for step in self._plan]
        if self.share is not None:
            self._plan, self._counts = share_plan(self._plan, self.streams)
        return self._plan[len(self._terms) :]

    def take_step(self, positions: Positions) -> None:
        """One step of the optimiser."""
        self._seed_own_draws()
        if self.schedule.changes_by_step:
            self._optimizer.set_rates(self._planned_rates[len(self._terms)])
        first = not self._terms and not self._steps_before
        terms = self._first_step(positions) if first else self._take_step(positions)
        self._terms.append(terms.clone())
        self._row_counts.append(self._sizes[len(self._row_counts)])

    def end_epoch(self) -> list[Record]:
        """Validate, write the history, keep the best. Here the host waits for the device, once an epoch."""
        self._seed_own_draws()
        self.epoch += 1
        entries = self.objective.end_epoch(self.epoch) or {}
        self._check_lines("end_epoch", entries)
        self._check_state()
        if self.share is not None:
            entries = {name: value if value.is_floating_point() else total(value) for name, value in entries.items()}
        extra = {name: value.tolist() for name, value in entries.items()}
        risks = self._validation_risks()
        records = self._summaries()
        for i, (record, history) in enumerate(zip(records, self.histories, strict=True)):
            record |= {name: values[i] for name, values in extra.items()}
            record["val_risk"] = None if risks is None else risks[i]
            history.append(record)
        self._keep_best(risks)
        self._steps_before += len(self._terms)
        self._terms, self._row_counts = [], []
        return records

    def _seed_own_draws(self) -> None:
        """Seed the random numbers that a user's module draws by itself. The seed depends on model and step only."""
        seed_global((self._own_draws + self._steps_before + len(self._terms)) % 2**63, self.device)

    def _first_step(self, positions: Positions) -> Tensor:
        """The first step, with clear errors for a module, an objective or an ``augment`` that cannot be used."""
        try:
            terms = self._take_step(positions)
        except PulabError:
            raise
        except Exception as error:
            if is_out_of_memory(error):
                raise
            reason = f"{type(error).__name__}: {in_one_line(error)}"
            raise InputError(f"{self.jobs[0].owner}{self._running} fails in training: {reason}.") from error
        self._check_state()
        if all(parameter.grad is None for parameter in self.model.parameters()):
            raise InputError(
                f"{self.jobs[0].owner}the module's output does not depend on its parameters. If it stores a function "
                "that refers to the module, a copy still calls the original: write it as a method."
            )
        return terms

    def _check_state(self) -> None:
        """A recorded step and a resumed training see only memory that is changed in place."""
        objective, name = self.objective, type(self.objective).__name__
        replaced = [n for n, v in objective.memory.items() if v.requires_grad or v is not self._memory.get(n)]
        if replaced:
            raise InputError(
                f"{name} must change memory[{replaced[0]!r}] in place and without a gradient: use copy_ or scatter_, "
                "detach what you store, and make the tensor in __init__."
            )
        if objective.kind != self._kind:
            raise InputError(f"{name} changes an attribute in training. Keep it in memory, and change it in place.")

    @property
    def _steps_per_epoch(self) -> int:
        return self.schedule.steps(self.streams["u"].total)

    def _rates_at(self, step: int) -> list[float]:
        return [job.schedule.lr_at(step, self._steps_per_epoch) for job in self.jobs]

    def _plan_rates(self) -> None:
        """Learning rates of the coming epoch, on the device: one line for all of it, or a line per step."""
        n_lines = self._steps_per_epoch if self.schedule.changes_by_step else 1
        first = self.epoch * self._steps_per_epoch
        rates = [self._rates_at(first + i) for i in range(n_lines)]
        self._planned_rates = torch.tensor(rates, dtype=torch.float64, device=self.device)
        self._optimizer.set_rates(self._planned_rates[0])

    def _compile(self) -> None:
        try:
            self.model.compile()
        except Exception as error:  # torch refuses some interpreters
            warn_of_fallback(UNCOMPILED, error)

    def _sure_step(self, positions: Positions) -> Tensor:
        """A step. If the compiled module fails, the module itself takes over."""
        try:
            return self._step(positions)
        except Exception as error:
            # No second try during a recording: the first try would stay in it.
            if self.share or self.model.compiled is None or (self._on_gpu and torch.cuda.is_current_stream_capturing()):
                raise
            self.model.compiled = None
            warn_of_fallback(UNCOMPILED, error)
            return self._step(positions)

    def _step(self, positions: Positions) -> Tensor:
        """Gather, forward, loss, backward, update; returns the terms of the loss, a line per term."""
        self._running = f"{type(self.objective).__name__}.step"
        self.model.begin_step()
        self._random.begin_step()
        batch = self._batch(positions)
        step = self._checked(self.objective.step(batch))
        self.model.begin_backward()
        self._optimizer.zero_grad()
        step.objective.sum().backward()  # type: ignore[no-untyped-call]  # models share no weights
        self._optimizer.step()
        if self.objective.teacher_decay is not None:
            # At first, the plain mean of all steps. Otherwise a short training's teacher stays near its start.
            towards = (1 / (1 + self._random.steps.double())).clamp_min(1 - self.objective.teacher_decay)
            self.model.move_teacher(towards)
        self.objective.end_step(batch)
        self.model.end_step()
        self._random.end_step()
        share = {} if batch.positive_share is None else {"positive_share": batch.positive_share}
        terms = {**step.terms, **share, "objective": step.objective}
        self._term_names = list(terms)
        return torch.stack([value.detach() for value in terms.values()])

    def _checked(self, step: Step) -> Step:
        if not isinstance(step, Step) or "loss" not in step.terms:
            raise InputError(f"{type(self.objective).__name__}.step must return a Step whose terms hold 'loss'.")
        self._check_lines("step", {"objective of Step": step.objective, **step.terms}, scalars=True)
        return step

    def _check_lines(self, function: str, values: Mapping[str, Tensor], scalars: bool = False) -> None:
        """Check what the objective returned: tensors with a line per model, or with a value per model."""
        where, n = f"{type(self.objective).__name__}.{function}", len(self.jobs)
        for name, value in values.items():
            shape = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            if not isinstance(value, Tensor) or value.shape[: None if scalars else 1] != (n,):
                raise InputError(
                    f"{where} must return a value per model, shape ({n},), but {name} is {shape}. "
                    "Take means over the last axis, mean(-1)."
                )
            if name in ("objective", "epoch", "lr", "positive_share", "val_risk"):
                raise InputError(f"{where}: the name {name!r} is reserved. Rename the entry.")

    def _batch(self, positions: Positions) -> Batch:
        originals = {name: self.streams[name][rows] for name, rows in positions.items()}
        inputs, augment = originals, self.jobs[0].augment
        if augment is not None:
            inputs = {name: self._augmented(augment, rows) for name, rows in originals.items()}
        if self.share is None:
            return Batch(self._forward, originals, inputs, positions, self._random)
        counts = self._counts[len(self._terms)]
        return Batch(self._forward, originals, inputs, positions, self._random, counts, self.share.rank)

    def _augmented(self, augment: Augment, rows: Tensor) -> Tensor:
        self._running = "augment"
        view = augment(rows.clone(), self._random)  # a copy: it may change them in place
        self._running = f"{type(self.objective).__name__}.step"
        if not isinstance(view, Tensor) or view.shape != rows.shape:
            got = tuple(view.shape) if isinstance(view, Tensor) else type(view).__name__
            raise InputError(f"augment must return rows of the same shape, {tuple(rows.shape)}, got {got}.")
        return view.to(rows.dtype)

    def _forward(self, x: Tensor, teacher: bool) -> Tensor:
        if teacher and not self.model.teacher:
            raise InputError("the objective asks for a mean teacher, but has none. Set teacher_decay, say to 0.99.")
        self._running = "the module"
        n = x.shape[1]
        if not n:  # a process that has no row of this batch passes one that nobody sees, to take part in the step
            x = x.new_zeros((1, 1, *x.shape[2:]))
        self._batch_norm.unseen = not n
        with autocast(self.device, self.schedule.autocast):
            out = self.model.forward(x, teacher)[:, :n]
        self._running = f"{type(self.objective).__name__}.step"
        return out

    def _summaries(self) -> list[Record]:
        """Means over the rows of the epoch, for each model, read from the device once."""
        rows = torch.tensor(self._row_counts, dtype=torch.float64, device="cpu")[:, None, None]
        table = torch.stack(self._terms).double().cpu()  # steps × terms × models
        bad = ~torch.isfinite(table).all(dim=1)  # steps × models
        also = "" if self.jobs[0].augment is None else " and in what augment returns"
        for i in bad.any(dim=0).nonzero().flatten().tolist():
            step = int(bad[:, i].nonzero()[0])
            self.failures[i] = self.failures[i] or (
                f"the loss is no longer finite at epoch {self.epoch}, step {step + 1} of {len(table)}, whose batch has "
                f"the rows {self._rows_of(i, step)} of X. Lower lr, scale X, or look for extreme values in it{also}."
                f"{self._last_checkpoint}"
            )
        means = (rows * table).sum(0) / rows.sum()
        return [
            {"epoch": self.epoch, "lr": lr, **dict(zip(self._term_names[:-1], column.tolist(), strict=False))}
            for lr, column in zip(self._rates_at(self.epoch * self._steps_per_epoch - 1), means.T, strict=True)
        ]

    def _rows_of(self, i: int, step: int) -> str:
        """The rows of a model's batch, in words: as many as fit a line."""
        if self.share is not None:
            return "of several processes"
        streams = self.jobs[i].streams  # a self-supervised training has no P
        rows = [streams[name].index[0][self._plan[step][name][i]] for name in ("p", "u") if name in streams]
        numbers = [int(row) for part in rows for row in part[:4]]
        return ", ".join(map(str, numbers)) + (", …" if sum(map(len, rows)) > len(numbers) else "")

    @property
    def _last_checkpoint(self) -> str:
        kept = self.checkpoint
        return f" The last good checkpoint, of {kept.last}, stays: {kept.path}." if kept and kept.last else ""

    def _validation_risks(self) -> list[float] | None:
        if self.validation is None:
            return None
        self.model.train(False)
        autocast_to, teacher = self.schedule.autocast, bool(self.model.teacher)
        streams = self.validation.items()
        g = {name: s.whole(predict_stream(self.model, s, autocast_to, teacher)) for name, s in streams}
        g = {name: s.weighed(g[name]) for name, s in streams}
        with torch.no_grad():
            risks = self.objective.validation_risk(g)
        self._check_lines("validation_risk", {"its result": risks}, scalars=True)
        return [float(risk) for risk in risks.tolist()]

    def _keep_best(self, risks: list[float] | None) -> None:
        # A NaN risk never wins. Some epoch must be kept, so the first one is, until a better one comes.
        improved = [
            risks is None or risks[i] < self._best_risks[i] or self.best_epochs[i] == 0 for i in range(len(self.jobs))
        ]
        for i in (i for i, better in enumerate(improved) if better):
            self.best_epochs[i] = self.epoch
            if risks is not None and math.isfinite(risks[i]):
                self._best_risks[i] = risks[i]
        if any(improved):
            self.model.keep(improved)

    def state_dict(self) -> dict[str, Any]:
        """A copy of the whole state of the training between two steps. It is enough to resume exactly.

        It holds a module's parameters and buffers, but not other attributes that a module may change.
        """
        return copy.deepcopy(self._state())

    def _state(self) -> dict[str, Any]:
        return {
            "epoch": self.epoch,
            "terms": torch.stack(self._terms) if self._terms else [],
            "term_names": self._term_names,
            "row_counts": self._row_counts,
            "steps_before": self._steps_before,
            "model": self.model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "objective": self.objective.state_dict(),
            "histories": self.histories,
            "best_epochs": self.best_epochs,
            "best_risks": self._best_risks,
            "failures": self.failures,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a kept state. Call it inside :meth:`started`, before the first step."""
        state = copy.deepcopy(state)
        self.epoch, self._steps_before = state["epoch"], state["steps_before"]
        self._terms = [terms.to(self.device) for terms in state["terms"]]
        self._term_names, self._row_counts = state["term_names"], state["row_counts"]
        steps = self._steps_before + len(self._terms)
        self.model.load_state_dict(state["model"], steps)
        self._random.go_to(steps)
        self._optimizer.load_state_dict(state["optimizer"])
        self.objective.load_state_dict(state["objective"])
        self.histories, self.best_epochs = state["histories"], state["best_epochs"]
        self._best_risks, self.failures = state["best_risks"], state["failures"]

    # Checkpoints -------------------------------------------------------------------------------------------------

    def _resume(self) -> None:
        """Go on where the checkpoint stands, if there is one."""
        state = self.checkpoint and self.checkpoint.load()
        if self.checkpoint and state:
            with damage_is_told(self.checkpoint.path):
                self._check_loaded(state)
                self.load_state_dict(state)

    def _check_loaded(self, state: dict[str, Any]) -> None:
        """The numbers that steer the loop. The tensors are checked where they are copied."""
        n, n_steps, epoch = len(self.jobs), len(state["terms"]), state["epoch"]
        lists = (state["histories"], state["best_epochs"], state["best_risks"], state["failures"])
        fits = (
            0 <= epoch <= self.schedule.epochs
            and state["steps_before"] == epoch * self._steps_per_epoch
            and len(state["row_counts"]) == n_steps <= self._steps_per_epoch
            and all(len(entries) == n for entries in lists)
            and all(len(history) == epoch for history in state["histories"])
            and all(terms.shape == (len(state["term_names"]), n) for terms in state["terms"])
            and bool(state["model"]["best"]) == (epoch > 0)
        )
        own, kept = self.model.state(), state["model"]["weights"]
        for name in (name for name, _ in self.jobs[0].module.named_parameters()):
            best = state["model"]["best"].get(name, own[name])
            fits = fits and kept[name].shape == best.shape == own[name].shape
        if not fits:
            raise CheckpointError("its parts do not fit together")

    def save(self, only_if_due: bool = True) -> None:
        """Save between two steps, if there is a checkpoint. Numbers that are not finite replace no good ones."""
        if self.checkpoint is None or (only_if_due and not self.checkpoint.is_due):
            return
        if self._on_gpu:  # the steps in the queue are not part of the save's time
            torch.cuda.synchronize(self.device)
        if len(self.jobs) == 1 and not self._is_finite():
            return
        step = f"epoch {self.epoch + 1}, step {len(self._terms)}" if self._terms else f"epoch {self.epoch}"
        self.checkpoint.save(self._state(), step)

    def _is_finite(self) -> bool:
        terms = [torch.stack(self._terms)] if self._terms else []
        return not any(self.failures) and all(bool(torch.isfinite(t).all()) for t in (*self.model.parameters(), *terms))

    def results(self) -> list[Trained]:
        """The result of each job, in their order."""
        return [
            Trained(job.module, self.histories[i], self.best_epochs[i], self.objective, i, self.failures[i])
            for i, job in enumerate(self.jobs)
        ]


def run_in_step(trainings: Sequence[Training], on_epoch: OnEpoch = ignore) -> None:
    """Run trainings side by side, one step of each in turn. On a GPU each has its own CUDA stream.

    A single training takes the same path, so it gives the same result alone and beside others.
    """
    device = trainings[0].device
    streams: list[Any] = [None] * len(trainings)
    if device.type == "cuda":
        streams = [torch.cuda.Stream(device) for _ in trainings]  # type: ignore[no-untyped-call]
    threads = cpu_threads(max(training.work for training in trainings))
    with ExitStack() as stack:
        interrupts = stack.enter_context(Interrupts()) if any(t.checkpoint for t in trainings) else None
        for context in (threads, autocast(device, None), fast_convolutions(device), _all_started(trainings)):
            stack.enter_context(context)
        if device.type == "cuda":  # the tensors were made on another stream
            torch.cuda.synchronize(device)
        for training in trainings:  # epochs that a checkpoint has
            for record in (record for history in training.histories for record in history):
                on_epoch(record, training.schedule.epochs)
        while going := [(t, s) for t, s in zip(trainings, streams, strict=True) if not t.is_over]:
            with seeded(0, device):  # every step has its own seed; this restores the caller's state
                _run_epoch(going, on_epoch, interrupts)


def _run_epoch(going: Sequence[tuple[Training, Any]], on_epoch: OnEpoch, interrupts: Interrupts | None = None) -> None:
    plans = []
    for training, stream in going:
        with torch.cuda.stream(stream):
            plans.append(training.begin_epoch())
    for i in range(max(map(len, plans))):
        for (training, stream), plan in zip(going, plans, strict=True):
            if i < len(plan):
                with torch.cuda.stream(stream):
                    training.take_step(plan[i])
        _save(going, interrupts)
    for training, stream in going:
        with torch.cuda.stream(stream):
            for record in training.end_epoch():
                on_epoch(record, training.schedule.epochs)
            if training.is_over and training.checkpoint and training.checkpoint.is_worth_keeping:
                training.save(only_if_due=False)


def _save(going: Sequence[tuple[Training, Any]], interrupts: Interrupts | None) -> None:
    """Save the trainings that are due; all of them, and then stop, if somebody wants to stop."""
    stop = interrupts is not None and interrupts.came
    for training, stream in going:
        with torch.cuda.stream(stream):
            training.save(only_if_due=not stop)
    if interrupts is not None and stop:
        interrupts.answer()


@contextmanager
def _all_started(trainings: Sequence[Training]) -> Iterator[None]:
    with ExitStack() as stack:
        for training in trainings:
            stack.enter_context(training.started())
        try:
            yield
        finally:  # also after an error: other streams may still write to memory that is about to be freed
            if trainings[0].device.type == "cuda":
                torch.cuda.synchronize(trainings[0].device)
