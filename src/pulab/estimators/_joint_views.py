"""`joint` with views: a self-supervised start, and labels that a mean teacher gives to other views of the rows."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from pulab._torch import Seeds, resolve_dtype, seeded
from pulab._validation import check_number
from pulab.augment import POLICIES, policy
from pulab.errors import InputError, short
from pulab.estimators._base import Stages, Task, check_augment
from pulab.estimators._identity import identity_of_body
from pulab.estimators._joint import JointObjective, JointPUClassifier
from pulab.estimators._work import check_checkpoint
from pulab.losses import LOSSES, bernoulli_entropy, bernoulli_kl, contrastive_risk, prior_kl
from pulab.nets import outputs
from pulab.training import (
    Augment,
    Batch,
    Checkpoint,
    Job,
    Objective,
    Record,
    Schedule,
    Step,
    Stream,
    mix,
    pick,
    union,
)

WIDTH = 128  # of the vectors that are compared in self-supervision
TINY = 1e-6
AUTO_VIEWS = {1: "digits", 3: "strong"}  # by the number of channels


class ContrastObjective(Objective):
    """Self-supervision: two views of a row get vectors that are more alike than those of other rows (SimCLR)."""

    width = WIDTH

    def __init__(self, view: Augment | None, temperature: float) -> None:
        super().__init__()
        self._view, self._temperature = view, temperature

    def step(self, batch: Batch) -> Step:
        rows = batch.originals["u"]
        views = {name: rows if self._view is None else self._view(rows, batch.random) for name in ("one", "other")}
        z = batch.logits(views)
        loss = contrastive_risk(z["one"], z["other"], self._temperature)
        return Step(loss, {"loss": loss})

    def validation_risk(self, g: Mapping[str, Tensor]) -> Tensor:
        raise TypeError("a self-supervised training has no validation set")


class JointViewsObjective(JointObjective):
    """The loss of `joint` on one view of the rows; the labels average predictions of another view, by the teacher."""

    def __init__(
        self, *of_joint: Any, label_view: Augment | None, teacher_decay: float | None, align: bool, mixup: bool
    ) -> None:
        super().__init__(*of_joint)
        self.teacher_decay = teacher_decay
        self._label_view, self._align, self._mixup = label_view, align, mixup

    def step(self, batch: Batch) -> Step:
        rows, n = batch.positions["u"], self.numbers
        y = {
            "p": torch.ones_like(batch.positions["p"], dtype=n["prior"].dtype),
            "u": self.labels.current.gather(1, rows),
        }
        inputs, share = batch.inputs, n["prior"]
        if self._mixup:
            before = y["u"].mean(-1)
            inputs, y = self._mixed(batch, y)
            share = (share + y["u"].mean(-1) - before).clamp(TINY, 1 - TINY)
        g = batch.logits(inputs)
        self.labels.remember(rows, torch.sigmoid(self._seen(batch, g["u"])))
        loss_of = LOSSES[self._positive_loss]
        terms = {
            "positive": (y["p"] * loss_of(g["p"]) + (1 - y["p"]) * loss_of(-g["p"])).mean(-1),
            "kl": bernoulli_kl(y["u"], g["u"]).mean(-1),
            "prior_kl": prior_kl(share, g["u"]),
            "entropy": bernoulli_entropy(g["u"]).mean(-1),
        }
        loss = self.memory["lambda"] * terms["positive"] + terms["kl"]
        loss = loss + n["alpha"] * terms["prior_kl"] + n["beta"] * terms["entropy"]
        return Step(loss, {"loss": loss, **terms})

    def _seen(self, batch: Batch, g_u: Tensor) -> Tensor:
        """Logits of the unlabeled rows that go into their labels."""
        if self._label_view is None and self.teacher_decay is None and not self._mixup:
            return g_u.detach()
        view = batch.originals["u"]
        if self._label_view is not None:
            view = self._label_view(view, batch.random)
        return batch.logits({"u": view}, grad=False, teacher=self.teacher_decay is not None)["u"]

    def _mixed(self, batch: Batch, y: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Mix every row of P and U with a random one of both, and their labels. A row keeps the larger share."""
        x = torch.cat([batch.inputs["p"], batch.inputs["u"]], dim=1)
        labels = torch.cat([y["p"], y["u"]], dim=1)
        partner = batch.random.permutation(x.shape[1])
        share = batch.random.beta(self.numbers["mixup_alpha"], self.numbers["mixup_alpha"], x.shape[1])
        share = torch.maximum(share, 1 - share)
        x, labels = mix(x, pick(x, partner), share), mix(labels, pick(labels, partner), share)
        n_p = y["p"].shape[1]
        return {"p": x[:, :n_p], "u": x[:, n_p:]}, {"p": labels[:, :n_p], "u": labels[:, n_p:]}

    def end_epoch(self, epoch: int) -> Mapping[str, Tensor]:
        entries = super().end_epoch(epoch)
        if self._align and epoch >= self._e_start:
            self.labels.align(self.numbers["prior"])
        return entries


class JointViewsPUClassifier(JointPUClassifier):
    """`joint` with views of the rows: a self-supervised start, a mean teacher, labels with the mean of the prior.

    There are two trainings. The first one uses no labels: the network learns to recognise two views of a row as the
    same row, from all rows of P, of U and of the validation set. The second one is `joint` with three changes. The
    network learns from strong views. The labels average what a mean teacher predicts for weak views of the rows. After
    each epoch the labels are shifted on the logit scale so that their mean is the prior. Each part can be switched off.

    With ``augment="auto"`` the views are "strong" for colour images and "digits" for images of one channel. Other rows
    have no views by default, and then only teacher and shift are left.

    Parameters
    ----------
    {prior}
    label_augment : "auto", None, policy or function
        The views from which labels are predicted, as for ``augment``. "auto": "weak" where ``augment`` is
        "strong", else the rows as they are.
    teacher_decay : float or None
        The teacher keeps this share of its weights in every step. None: no teacher, the network predicts the labels.
    align : bool
        Whether labels are shifted to the prior after each epoch.
    mixup_alpha : float
        Above 0: rows of P and U and their labels are mixed, with shares drawn from Beta(mixup_alpha, mixup_alpha).
    pretrain_epochs : int or None
        Epochs of self-supervision. 0: none. None: 100 for images, 0 for other rows. Longer is better: 300 take
        three times as long. The network must end in ``nn.Linear(…, 1)``, which is replaced for this training.
    pretrain_augment : "auto", None, policy or function
        The views of self-supervision. "auto": "stronger" where ``augment`` is "strong", else as ``augment``. None: the
        two passes differ by dropout alone.
    pretrain_batch_size : int
        Rows per step. Every row is compared with all other rows of its batch.
    pretrain_lr : float
        Learning rate of self-supervision, with AdamW, a warm-up and a cosine.
    pretrain_temperature : float
        How sharply similarities are compared.
    pretrain_cache : path or None
        An existing folder to keep self-supervised networks in, also half-trained ones. A fit with the same rows, seed,
        network and settings of this training takes its network from there, whatever its other parameters are.
    init : {"prior", "negative", "random"}
        Initial labels, as for `joint`.
    lambda_init, alpha, beta : float
        Weights of the labelled positives in the first epoch, of the prior's term and of the entropy, as for `joint`.
    r, e_start, positive_loss
        As for `joint`.
    {shared}

    Attributes
    ----------
    pseudo_labels_ : array of shape (number of unlabeled rows,)
        As for `joint`.
    pretrain_history_ : list of dict
        One record per epoch of self-supervision.
    {attributes}

    References
    ----------
    Labels: Tanaka, Ikami, Aizawa, arXiv 2103.04685. Self-supervision: Chen et al. 2020, ICML (SimCLR). Mean teacher:
    Tarvainen and Valpola 2017, NeurIPS. Weak and strong views: Sohn et al. 2020, NeurIPS (FixMatch).

    Examples
    --------
    >>> from pulab import JointViewsPUClassifier
    >>> from pulab.datasets import load_digits, make_pu
    >>> digits = load_digits(positive=(0,), images=True)
    >>> pu = make_pu(digits.X_train, digits.y_train, n_labeled=50, random_state=0)
    >>> clf = JointViewsPUClassifier(prior=pu.prior, augment="digits", pretrain_epochs=5, epochs=10, random_state=0)
    >>> clf.fit(pu.X, pu.s).score(digits.X_test, digits.y_test) > 0.9
    True
    """

    _n_trainings = 2
    _augments = ("auto", *POLICIES)

    lambda_init: float = 0.5
    alpha: float = 2.0
    beta: float = 0.5
    positive_loss: str = "logistic"
    lr: float = 5e-4
    lr_schedule: str = "cosine"
    augment: str | Augment | None = "auto"
    label_augment: str | Augment | None = "auto"
    teacher_decay: float | None = 0.99
    align: bool = True
    mixup_alpha: float = 0.0
    pretrain_epochs: int | None = None
    pretrain_augment: str | Augment | None = "auto"
    pretrain_batch_size: int = 512
    pretrain_lr: float = 1e-3
    pretrain_temperature: float = 0.5
    pretrain_cache: str | PathLike[str] | None = None

    def _check_params(self) -> None:
        super()._check_params()
        for name in ("label_augment", "pretrain_augment"):
            check_augment(name, getattr(self, name), self._augments)
        if self.teacher_decay is not None:
            check_number("teacher_decay", self.teacher_decay, low=0, high=1, ends="[)")
        if not isinstance(self.align, bool):
            raise InputError(f"align must be True or False, got {short(self.align)}.")
        check_number("mixup_alpha", self.mixup_alpha, low=0)
        if self.pretrain_epochs is not None:
            check_number("pretrain_epochs", self.pretrain_epochs, low=0, whole=True)
        check_number("pretrain_batch_size", self.pretrain_batch_size, low=2, whole=True)
        for name in ("pretrain_lr", "pretrain_temperature"):
            check_number(name, getattr(self, name), low=0, ends="(]")
        if self.pretrain_cache is not None:
            check_checkpoint(self.pretrain_cache, self.random_state, "pretrain_cache")
            if not Path(self.pretrain_cache).is_dir():
                raise InputError(f"pretrain_cache must be a folder that exists, got {self.pretrain_cache}.")

    def fit(self, X: Any, y: Any, *, X_val: Any = None, y_val: Any = None) -> Self:  # type: ignore[override]
        """Learn from positive and unlabeled rows. It takes no weights: labels are aligned to the prior by rows.

        Parameters
        ----------
        X, y, X_val, y_val
            As for every method.
        """
        return self._fit({"X": X, "y": y, "X_val": X_val, "y_val": y_val})

    # Views ------------------------------------------------------------------------------------------------------

    @property
    def _views(self) -> dict[str, str | Augment | None]:
        """The views of the student, of the labels and of self-supervision, by name or as functions."""
        of_student = _given(self.augment, AUTO_VIEWS.get(self._n_channels or 0))
        is_strong = isinstance(of_student, str) and of_student == "strong"
        return {
            "student": of_student,
            "labels": _given(self.label_augment, "weak" if is_strong else None),
            "vectors": _given(self.pretrain_augment, "stronger" if is_strong else of_student),
        }

    def _view(self, name: str) -> Augment | None:
        view = self._views[name]
        return policy(view, self.row_shape_) if isinstance(view, str) else view

    def _augment(self) -> Augment | None:
        return self._view("student")

    @property
    def _n_channels(self) -> int | None:
        return self.row_shape_[0] if len(self.row_shape_) == 3 else None

    # The two trainings ------------------------------------------------------------------------------------------

    def _stages(self, task: Task) -> Stages:
        self._augment()  # refused before the views that follow from it
        schedule = self._schedule(task)
        job = self._job(task, self._objective(task, schedule), schedule)
        self.pretrain_history_: list[Record] = []
        if self._pretrain_epochs and task.before is None:
            name, n_in = _last_layer(job.module)
            trained = yield self._pretraining(task, job, name, n_in)
            self.pretrain_history_ = trained.history
            job = replace(
                job, module=_with_last(trained.module, name, partial(nn.Linear, n_in, 1), task, "weights of the logit")
            )
        self._finish(task, (yield job))

    @property
    def _pretrain_epochs(self) -> int:
        if self.pretrain_epochs is None:
            return 100 if self._n_channels else 0
        return int(self.pretrain_epochs)

    def _pretraining(self, task: Task, job: Job, name: str, n_in: int) -> Job:
        """The self-supervised training of the same network on all rows."""
        rows = union([*task.streams.values(), *_same_kind(task)])
        module = _with_last(job.module, name, partial(_vectors, n_in), task, "weights of vectors")
        try:
            with torch.no_grad():
                outputs(module.eval(), task.rows[torch.arange(2, device=task.device)], WIDTH)
        except InputError as error:
            raise InputError(NO_LAST_LAYER) from error
        started = Job(
            module,
            ContrastObjective(self._view("vectors"), float(self.pretrain_temperature)),
            {"u": rows},
            None,
            self._pretrain_schedule(task, len(rows)),
            Seeds(task.seeds["training of vectors"]),
            task.device,
            name="vectors",
        )
        if self.pretrain_cache is None:
            return started
        identity = identity_of_body(self, task, started)
        return replace(started, checkpoint=Checkpoint(Path(self.pretrain_cache), [identity]))

    def _pretrain_schedule(self, task: Task, n: int) -> Schedule:
        epochs = self._pretrain_epochs
        return Schedule(
            epochs=epochs,
            lr=self.pretrain_lr,
            lr_milestones=(),
            weight_decay=1e-2,
            batch_size_u=min(int(self.pretrain_batch_size), n),
            batch_size_p=None,
            autocast=resolve_dtype(self.dtype, task.device)[1],
            optimizer="adamw",
            lr_schedule="cosine",
            lr_warmup=min(10.0, epochs / 10),
        )

    def _objective(self, task: Task, schedule: Schedule) -> JointViewsObjective:
        of_joint = super()._objective(task, schedule)
        numbers = of_joint.numbers | task.numbers(mixup_alpha=max(self.mixup_alpha, TINY))
        return JointViewsObjective(
            of_joint.labels,
            numbers,
            schedule.epochs,
            of_joint._e_start,
            self.positive_loss,
            label_view=self._view("labels"),
            teacher_decay=self.teacher_decay,
            align=self.align,
            mixup=self.mixup_alpha > 0,
        )


def _given(view: str | Augment | None, auto: str | Augment | None) -> str | Augment | None:
    return auto if isinstance(view, str) and view == "auto" else view


def _same_kind(task: Task) -> list[Stream]:
    """The streams of validation whose rows can be joined with those of training. Sparse ones cannot."""
    streams = (task.validation or {}).values()
    return [s for s in streams if s.rows is task.rows or (s.rows.sparse is None and task.rows.sparse is None)]


# The last layer of the network ----------------------------------------------------------------------------------------

NO_LAST_LAYER = (
    "self-supervision needs a module that ends in nn.Linear(…, 1), whose place a layer of vectors can take. Pass such "
    "a module, or pretrain_epochs=0."
)


def _last_layer(module: nn.Module) -> tuple[str, int]:
    """The name of the layer that gives the logit, and the number of its inputs."""
    layers = [(name, m) for name, m in module.named_modules() if isinstance(m, nn.Linear) and m.out_features == 1]
    if not layers or not layers[-1][0]:
        raise InputError(NO_LAST_LAYER)
    name, layer = layers[-1]
    return name, layer.in_features


def _vectors(n_in: int) -> nn.Module:
    return nn.Sequential(nn.Linear(n_in, n_in), nn.ReLU(), nn.Linear(n_in, WIDTH))


def _with_last(module: nn.Module, name: str, layer: Callable[[], nn.Module], task: Task, purpose: str) -> nn.Module:
    """The same module with another last layer, whose weights are drawn for this purpose."""
    owner, _, own_name = name.rpartition(".")
    with seeded(task.seeds[purpose], task.device):
        setattr(module.get_submodule(owner), own_name, layer().to(task.device, task.dtype))
    return module
