"""The base of all network classifiers: from arrays to streams, from streams to a fitted module."""

import copy
import math
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from pulab._scaling import Scaler
from pulab._torch import Seeds, resolve_device, resolve_dtype, seeded
from pulab._validation import (
    SCENARIOS,
    AnyArray,
    Index,
    check_choice,
    check_fitted,
    check_labels,
    check_number,
    check_rows,
    check_weights,
    draw_seed,
    hold_out,
    is_out_of_memory,
    out_of_memory,
)
from pulab.augment import POLICIES, policy
from pulab.errors import InputError, PulabError, TrainingError, in_one_line, short, warn
from pulab.estimators._calibration import check_calibration, line_of
from pulab.estimators._contract import PRIOR_DOC, SCENARIO_DOC, PUClassifier
from pulab.estimators._identity import identity_of
from pulab.estimators._prior import resolve_prior
from pulab.estimators._warm import FitBefore, copy_module
from pulab.estimators._work import check_checkpoint
from pulab.nets import MLP, InDouble, default_net, logits
from pulab.training import (
    LR_SCHEDULES,
    OPTIMIZERS,
    Augment,
    Checkpoint,
    Job,
    Objective,
    OnEpoch,
    Rows,
    Schedule,
    Stream,
    Trained,
    ignore,
    predict_logits,
    train,
    use_channels_last,
)

Stages = Generator[Job, Trained, None]
ModuleLike = nn.Module | Callable[[], nn.Module] | None


@dataclass(frozen=True)
class Task:
    """The validated inputs of a fit."""

    prior: float  # NaN for a method that needs none
    streams: dict[str, Stream]
    validation: dict[str, Stream] | None
    positive: NDArray[np.bool_]  # of all rows, in the caller's order
    u_rows: Index  # the caller's row of each position of the U stream
    rows: Rows
    seeds: Seeds
    device: torch.device
    dtype: torch.dtype
    before: FitBefore | None = None  # what a warm start goes on from

    def per_row(self, value: float) -> Tensor:
        """A memory of the rows of U for an objective: this value for each row, with a line per model, here one."""
        return torch.full((1, len(self.streams["u"])), value, dtype=self.dtype, device=self.device)

    def numbers(self, **values: float) -> dict[str, Tensor]:
        """Hyper-parameters that may differ between the models of a fleet, as tensors with one value."""
        return {name: torch.tensor([value], dtype=self.dtype, device=self.device) for name, value in values.items()}


# Parts of docstrings. They replace {prior}, {shared} and {attributes} in the docstring of each class.
SHARED_DOCS = {
    "prior": PRIOR_DOC,
    "shared": SCENARIO_DOC
    + """\
    module : nn.Module, function that makes one, or None
        The network, one logit per row. A module is copied, never changed: every fit starts from its weights. A
        function makes a new module, whose weights are drawn by ``random_state``. None: an MLP for a table, a small CNN
        for images, on features standardised by the training rows. Your own module gets X as you pass it. The parameters
        and buffers of its best epoch are kept, but no other state, such as a cache.
    epochs : int or None
        Passes over U. None: 20 to 100, so that there are about 2,000 steps.
    optimizer : {"amsgrad", "adamw", "sgd"}
        Adam with the AMSGrad correction, AdamW, or SGD with Nesterov momentum 0.9.
    lr : float
        Learning rate.
    lr_schedule : {"constant", "cosine"}
        Constant: falls to a tenth after each of the epochs in ``lr_milestones``, and stays where it is without any.
        Cosine: falls to zero over all epochs, step by step.
    lr_milestones : sequence of int
    lr_warmup : float
        Epochs, or a part of one, in which the learning rate first rises from zero, step by step.
    weight_decay : float
    augment : None, {"weak", "strong", "stronger", "digits", "mask", "noise"} or function
        Random changes of the training rows, new ones in every step. For images: "weak" flips and crops, "strong" adds
        an affine map, other colours and a hole, "stronger" has more of them, "digits" has an affine and an elastic map
        and no flip. For tables: "mask" sets a third of the features of a row to zero, "noise" adds normal noise. A
        function ``augment(rows, random)`` gets rows of shape (models, n, …) and a
        :class:`~pulab.training.RandomSource`, and returns rows of the same shape. Validation and prediction see the
        rows as they are.
    batch_size_u : int or None
        Unlabeled rows per step. None: a twentieth of them, from 32 to 512.
    batch_size_p : int or None
        Labelled rows per step. None: P is passed over once per epoch, like U.
    validation_fraction : float in [0, 1)
        Share of P and of U that is held out to choose the best epoch, if ``fit`` gets no validation set. 0: keep the
        last epoch.
    calibration : "auto", True or False
        How the logit becomes a probability, and so a decision; the ranking stays. False: as it is, which means little.
        True: by :class:`~pulab.calibration.PULogisticCalibrator`, from the prior and the validation rows. "auto": the
        same, if the method is told the prior and at least five validation rows are labelled.
    dtype : {"float32", "float64", "bfloat16"}
        Number type of weights and data. With "bfloat16" they stay in float32 and the network computes in bfloat16, if
        the device has instructions for it. Use it for large networks.
    device : {"auto", "cpu", "cuda"} or torch.device
    random_state : int, RandomState or None
        It seeds the global generators of torch, numpy and Python during a fit. They are restored afterwards.
    verbose : int
        Above 0: a progress bar.
    warm_start : bool
        True: another ``fit`` begins with the weights and the scaling of the last fit. All else begins anew: optimiser,
        learning rates, pseudo-labels, history and the choice of the best epoch. Copies, as in a search, begin anew.
    checkpoint : path or None
        A file to keep the training in while it runs, about every 30 seconds and on Ctrl-C. A fit that was killed is
        run again with the same data and parameters; it goes on from there and ends with the same bits. The file is
        removed when the fit is done. A file of another training is refused. For many fits, as in a grid search, pass
        an existing folder: each fit has its own files there, and they stay until you delete the folder. Needs a
        ``random_state``.
""",
    "attributes without prior": """\
    classes_ : array of two labels, the positive one last
    module_ : nn.Module
        The network as it stood at ``best_epoch_``.
    history_ : list of dict
        One record per epoch: the loss and its terms, the learning rate, the mean predicted share of positives in U,
        the validation risk. ``pandas.DataFrame(clf.history_)`` makes a table of it.
    best_epoch_ : int
        The epoch with the lowest validation risk, counted from 1.
    calibration_ : tuple of two floats, or None
        Slope and offset: ``decision_function`` gives slope · asinh(logit) + offset. None: the logit itself.
    device_, n_features_in_, row_shape_, scaler_
""",
}
SHARED_DOCS["attributes"] = """\
    prior_ : float
    prior_interval_ : tuple of two floats
        The interval of the prior, where it was estimated; the prior itself, twice, where it was given.
""" + SHARED_DOCS["attributes without prior"]


class BasePUClassifier(PUClassifier):
    """The link between scikit-learn's contract and the training loop. A method writes ``_objective``."""

    _docs = SHARED_DOCS

    # False for supervised and naive methods: their second stream holds the rows that are not P, in both scenarios.
    _u_is_population = True

    # The words that ``augment`` takes.
    _augments = tuple(POLICIES)

    # The number of trainings in a fit.
    _n_trainings = 1

    # The parameters that all network methods share.
    scenario: str = "case-control"
    module: ModuleLike = None
    epochs: int | None = None
    optimizer: str = "amsgrad"
    lr: float = 1e-3
    lr_schedule: str = "constant"
    lr_milestones: Sequence[int] = ()
    lr_warmup: float = 0.0
    weight_decay: float = 1e-4
    augment: str | Augment | None = None
    batch_size_u: int | None = None
    batch_size_p: int | None = None
    validation_fraction: float = 0.2
    calibration: str | bool = "auto"
    dtype: str | torch.dtype = "float32"
    device: str | torch.device = "auto"
    random_state: Any = None
    verbose: int = 0
    warm_start: bool = False
    checkpoint: str | PathLike[str] | None = None

    # The parts that a method writes ----------------------------------------------------------------------------

    def _objective(self, task: Task, schedule: Schedule) -> Objective:
        """The objective of the loop. A method of two stages (PUbN) overrides :meth:`_stages` instead."""
        raise TypeError(f"{type(self).__name__} must define _objective or _stages.")

    def _check_params(self) -> None:
        """Raise an error for invalid hyper-parameters of the method."""

    def _can_be_calibrated(self) -> bool:
        """Whether the method is told the prior of U, or of P and U, and has no cut of its own."""
        return hasattr(self, "prior") and self._u_is_population

    def _resolve_prior(
        self, prior: Any, X: Any, positive: NDArray[np.bool_], seed: int, weight: AnyArray | None
    ) -> tuple[float, tuple[float, float]]:
        return resolve_prior(prior, X, positive, self.scenario, seed)

    # scikit-learn's contract -----------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, *, X_val: Any = None, y_val: Any = None) -> Self:
        """Learn from positive and unlabeled rows.

        Parameters
        ----------
        X : array of shape (n, features) or (n, channels, height, width), data frame, or sparse matrix
        y : array of shape (n,)
            1 for a known positive, 0 for an unlabeled row. Other forms: booleans, {1, -1}, a value and NaN or None,
            any two classes (the one that sorts last is positive).
        X_val, y_val : like X and y, optional
            Rows to choose the best epoch. Without them ``validation_fraction`` of P and of U is held out.
        """
        return self._fit({"X": X, "y": y, "X_val": X_val, "y_val": y_val})

    def decision_function(self, X: Any) -> AnyArray:
        """Log-odds of being positive: above 0 where a row is more likely positive than not."""
        check_fitted(self, "module_")
        return self._logits(self.module_, X)

    def _logits(self, fitted: nn.Module, X: Any) -> AnyArray:
        X = check_rows(self, X, reset=False)
        # A table is scored in float64. The score of a row must not depend on the other rows, and float32 kernels differ
        # between batch sizes by more than scikit-learn's 1e-7. Only for our own net: others may not allow float64.
        exact = self.scaler_ is not None and X.ndim == 2
        module = InDouble(fitted) if exact and isinstance(fitted, MLP) else fitted
        weight = next(fitted.parameters())
        dtype = weight.dtype if module is fitted else torch.float64
        g: AnyArray = predict_logits(module, self._rows(X, dtype, weight.device)).cpu().numpy()
        if self.calibration_ is None:
            return g
        slope, offset = self.calibration_
        return slope * np.arcsinh(g) + offset

    def predict_proba(self, X: Any) -> AnyArray:
        """Probabilities of the two classes, in the order of ``classes_``."""
        positive = torch.sigmoid(torch.from_numpy(self.decision_function(X))).numpy()
        return np.stack([1 - positive, positive], axis=1)

    def predict(self, X: Any) -> AnyArray:
        """The more likely class of each row."""
        is_positive = self.decision_function(X) > 0
        chosen: AnyArray = self.classes_[is_positive.astype(int)]
        return chosen

    def __getstate__(self) -> dict[str, Any]:
        # A pickle may be loaded where there is no GPU.
        state: dict[str, Any] = super().__getstate__()
        return state | {
            name: copy.deepcopy(value).cpu()
            for name, value in state.items()
            if name.endswith("_") and isinstance(value, nn.Module) and next(value.parameters()).device.type != "cpu"
        }

    # From arrays to a fitted module ----------------------------------------------------------------------------

    def _prepare(
        self,
        X: Any,
        y: Any,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight: Any = None,
        sample_weight_val: Any = None,
    ) -> Task:
        before = FitBefore.of(self)
        self._forget()
        self._check_shared_params()
        self._check_params()
        if (X_val is None) != (y_val is None):
            raise InputError("X_val and y_val must be passed together, got only one of them.")
        if X_val is None and sample_weight_val is not None:
            raise InputError("sample_weight_val needs X_val and y_val, got neither.")
        device = resolve_device(self.device)
        dtype, _ = resolve_dtype(self.dtype, device)
        X = check_rows(self, X, reset=True)
        labels = check_labels(y, X.shape[0])
        weight = None if sample_weight is None else check_weights(sample_weight, labels.positive)
        self.classes_ = labels.classes
        seeds = Seeds(draw_seed(self.random_state))
        prior = math.nan
        if hasattr(self, "prior"):
            prior, interval = self._resolve_prior(self.prior, X, labels.positive, seeds["prior"], weight)
            self.prior_, self.prior_interval_ = prior, interval
        self.device_ = device
        check_calibration(self, held_out=X_val is not None or self.validation_fraction > 0)

        # P and U are separated before any arithmetic, so the order in which their rows are mixed has no influence.
        p, u = rows_of_both(labels.positive, weight)
        if len(p) == 1:
            warn("there is only one labelled positive: results will be poor. Label more rows.")
        nothing = np.empty(0, dtype=np.int64)
        p_val, u_val = nothing, nothing
        if X_val is None and self.validation_fraction > 0:
            rng = np.random.default_rng(seeds["split"])
            p, p_val = hold_out(p, self.validation_fraction, rng)
            u, u_val = hold_out(u, self.validation_fraction, rng)
        stream_rows = self._stream_rows(p, u)
        population = stream_rows["u"] if self._u_is_population else np.concatenate([p, u])
        self.scaler_ = Scaler.fit(X, population) if self.module is None else None
        if before is not None:
            before.check(self.row_shape_, self.classes_)
            self.scaler_ = before.scaler
        rows = self._rows(X, dtype, device)
        validation = None
        if X_val is not None:
            X_val = check_rows(self, X_val, reset=False)
            is_p = check_labels(y_val, X_val.shape[0], classes=labels.classes, name="y_val").positive
            if (w_val := sample_weight_val) is not None:
                w_val = check_weights(w_val, is_p, "sample_weight_val")
            val_rows = self._rows(X_val, dtype, device)
            validation = make_streams(val_rows, self._stream_rows(*rows_of_both(is_p, w_val)), device, w_val)
        elif len(p_val):
            validation = make_streams(rows, self._stream_rows(p_val, u_val), device, weight)
        return Task(
            prior=prior,
            streams=make_streams(rows, stream_rows, device, weight),
            validation=validation,
            positive=labels.positive,
            u_rows=stream_rows["u"],
            rows=rows,
            seeds=seeds,
            device=device,
            dtype=dtype,
            before=before,
        )

    def _check_shared_params(self) -> None:
        check_choice("scenario", self.scenario, SCENARIOS)
        check_number("lr", self.lr, low=0, ends="(]")
        check_number("weight_decay", self.weight_decay, low=0)
        check_number("lr_warmup", self.lr_warmup, low=0)
        check_choice("optimizer", self.optimizer, OPTIMIZERS)
        check_choice("lr_schedule", self.lr_schedule, LR_SCHEDULES)
        check_number("validation_fraction", self.validation_fraction, low=0, high=1, ends="[)")
        for name in ("epochs", "batch_size_u", "batch_size_p"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), low=1, whole=True)
        if not isinstance(self.lr_milestones, list | tuple | range | np.ndarray) or np.ndim(self.lr_milestones) != 1:
            raise InputError(f"lr_milestones must be a sequence of epochs, got {short(self.lr_milestones)}.")
        for milestone in self.lr_milestones:
            check_number("each of lr_milestones", milestone, low=0, whole=True)
        if len(self.lr_milestones) and self.lr_schedule != "constant":
            raise InputError(
                f"lr_milestones need lr_schedule='constant', got {self.lr_schedule!r}. Leave one of them out."
            )
        check_augment("augment", self.augment, self._augments)
        if not isinstance(self.warm_start, bool):
            raise InputError(f"warm_start must be True or False, got {short(self.warm_start)}.")
        if self.checkpoint is not None:
            check_checkpoint(self.checkpoint, self.random_state)

    def _stream_rows(self, p: Index, u: Index) -> dict[str, Index]:
        population = np.concatenate([p, u]) if self._u_is_population and self.scenario == "single-sample" else u
        return {"p": p, "u": population}

    def _rows(self, X: Any, dtype: torch.dtype, device: torch.device) -> Rows:
        if self.scaler_ is not None:
            X = self.scaler_(X, str(dtype).removeprefix("torch."))
        return Rows(X, dtype, device)

    def _fit(self, given: dict[str, Any]) -> Self:
        return self._fit_task(lambda: self._prepare(**given))

    def _fit_task(self, prepare: Callable[[], Task]) -> Self:
        try:
            with torch.inference_mode(False), torch.enable_grad(), self._progress() as on_epoch, out_of_memory():
                (failure,) = fit_tasks([self], [prepare()], on_epoch=on_epoch)
                if failure:
                    raise failure
        except BaseException:  # Ctrl-C, too
            self._forget()
            raise
        return self

    def _stages(self, task: Task) -> Stages:
        """Yield a training and receive its result. A method of two stages yields twice."""
        schedule = self._schedule(task)
        trained = yield self._job(task, self._objective(task, schedule), schedule)
        self._finish(task, trained)

    def _finish(self, task: Task, trained: Trained) -> None:
        """Keep the result of the last training."""
        self.module_, self.history_, self.best_epoch_ = trained.module, trained.history, trained.best_epoch
        self.calibration_ = line_of(self, task)

    def _schedule(self, task: Task, lr: float | None = None) -> Schedule:
        n_u, n = task.streams["u"].total, len(task.positive)
        # int: numpy's own integers may be of one byte, and their products then wrap
        batch_size_u = min(int(self.batch_size_u or min(max(32, math.ceil(n_u / 20)), 512)), n_u)
        steps = math.ceil(n_u / batch_size_u)
        return Schedule(
            epochs=int(self.epochs) if self.epochs else min(max(20, math.ceil(2000 / steps)), 100),
            lr=self.lr if lr is None else lr,
            lr_milestones=tuple(self.lr_milestones),
            weight_decay=self.weight_decay,
            batch_size_u=batch_size_u,
            batch_size_p=None
            if self.batch_size_p is None
            else min(int(self.batch_size_p), n),  # more only repeats rows
            autocast=resolve_dtype(self.dtype, task.device)[1],
            optimizer=self.optimizer,
            lr_schedule=self.lr_schedule,
            lr_warmup=float(self.lr_warmup),
        )

    def _job(self, task: Task, objective: Objective, schedule: Schedule, stage: str = "") -> Job:
        """A training with a fresh module."""
        seeds = Seeds(task.seeds["training" + stage])
        module = self._new_module(task, stage)
        return Job(
            module, objective, task.streams, task.validation, schedule, seeds, task.device, self._augment(), name=stage
        )

    def _augment(self) -> Augment | None:
        return policy(self.augment, self.row_shape_) if isinstance(self.augment, str) else self.augment

    def _new_module(self, task: Task, stage: str) -> nn.Module:
        with seeded(task.seeds["weights" + stage], task.device):
            try:
                module = self._make_module()
                if any(p.is_complex() for p in module.parameters() if not is_lazy(p)):
                    raise InputError("the module has complex parameters, which cannot be trained. Use two real ones.")
                module = module.to(task.device, task.dtype)
                # A pass of two rows: a module that does not fit fails here, a lazy one gets its parameters.
                module.eval()
                rows = task.rows[torch.arange(2, device=task.device)]
                with torch.no_grad():
                    out = logits(module, rows)
                    if len(self.row_shape_) == 3:
                        use_channels_last(module, rows)
            except PulabError:
                raise
            except Exception as error:
                if is_out_of_memory(error):
                    raise
                reason = in_one_line(error)
                raise InputError(f"the module fails on rows of shape {self.row_shape_}: {reason}.") from error
        if not out.is_floating_point() or not any(p.requires_grad for p in module.parameters()):
            raise InputError("the module must have parameters to learn and give floating-point logits.")
        if any(map(is_lazy, module.parameters())):
            raise InputError("the module has lazy parameters that get no size in a pass in evaluation mode.")
        if task.before is not None:
            task.before.load(module, stage)
        return module

    def _make_module(self) -> nn.Module:
        if self.module is None:
            return default_net(self.row_shape_)
        given: Any = self.module
        makes_one = callable(given) and not isinstance(given, nn.Module)
        module = given() if makes_one else given
        if not isinstance(module, nn.Module):
            raise InputError(f"module must be an nn.Module or a function that makes one, got {short(self.module)}.")
        try:
            return copy_module(module)  # also the result of a function, which may return the same module each time
        except Exception as error:
            if is_out_of_memory(error):
                raise
            if makes_one and given() is not module:
                return module
            reason = in_one_line(error)
            raise InputError(f"the module cannot be copied: {reason}. Pass a function that makes one.") from error

    def _progress(self) -> AbstractContextManager[OnEpoch]:
        if not isinstance(self.verbose, bool):
            check_number("verbose", self.verbose, low=0)
        if not self.verbose:
            return nullcontext(ignore)
        from pulab.estimators._progress import epoch_progress

        return epoch_progress(type(self).__name__)


def fit_tasks(
    estimators: Sequence[BasePUClassifier],
    tasks: Sequence[Task],
    *,
    batched: bool = False,
    side_by_side: int = 1,
    on_epoch: OnEpoch = ignore,
    owners: Sequence[str] = (),
) -> list[TrainingError | None]:
    """Take every estimator through its stages. Trainings of the same stage run together.

    Returns an error or None for each estimator. One with an error is not fitted; the others are. Error messages about
    inputs begin with the estimator's entry in ``owners``.
    """
    owners = owners or [""] * len(estimators)
    stages = [estimator._stages(task) for estimator, task in zip(estimators, tasks, strict=True)]
    kept: list[list[Checkpoint]] = [[] for _ in estimators]  # by estimator, one for each training so far

    def completed(i: int, job: Job) -> Job:
        if (place := estimators[i].checkpoint) is None or job.checkpoint is not None:
            return replace(job, owner=owners[i])
        number = len(kept[i]) + 1
        file = Path(place) if number == 1 or Path(place).is_dir() else Path(f"{place}.{number}")
        kept[i].append(Checkpoint(file, [identity_of(estimators[i], tasks[i], job, number)]))
        return replace(job, owner=owners[i], checkpoint=kept[i][-1])

    waiting = {}
    for i, stage in enumerate(stages):
        with owned(owners[i]):
            waiting[i] = completed(i, next(stage))
    failures: list[TrainingError | None] = [None] * len(estimators)
    while waiting:
        jobs, waiting = waiting, {}
        done = train(list(jobs.values()), batched=batched, side_by_side=side_by_side, on_epoch=on_epoch)
        for i, trained in zip(jobs, done, strict=True):
            if trained.failure:
                estimators[i]._forget()
                failures[i] = TrainingError(trained.failure)
            else:
                # Between two trainings the module predicts. It may draw random numbers by itself.
                between = seeded(tasks[i].seeds["between"], tasks[i].device)
                with suppress(StopIteration), between, owned(owners[i]):
                    waiting[i] = completed(i, stages[i].send(trained))
                if i not in waiting:
                    for checkpoint in kept[i]:
                        checkpoint.remove()
    return failures


def check_augment(name: str, value: Any, words: Sequence[str]) -> None:
    """Refuse what is no view of rows."""
    if not callable(value) and value is not None:
        check_choice(name, value, words)


@contextmanager
def owned(owner: str) -> Iterator[None]:
    """Inside, messages of input errors begin with ``owner``."""
    try:
        yield
    except ValueError as error:
        if not owner:
            raise
        kind = type(error) if isinstance(error, InputError) else InputError
        raise kind(f"{owner}{error}") from error


def rows_of_both(positive: NDArray[np.bool_], weight: AnyArray | None) -> tuple[Index, Index]:
    """The rows of P and of U. A row without weight is in neither."""
    used = np.ones_like(positive) if weight is None else weight > 0
    return np.flatnonzero(positive & used), np.flatnonzero(~positive & used)


def make_streams(
    rows: Rows, index: dict[str, Index], device: torch.device, weight: AnyArray | None = None
) -> dict[str, Stream]:
    """Streams of one model over some of the rows."""
    return {
        name: Stream(rows, torch.from_numpy(i).to(device)[None], None if weight is None else weight[i][None])
        for name, i in index.items()
    }
