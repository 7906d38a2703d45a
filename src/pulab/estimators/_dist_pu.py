"""Dist-PU: predicted labels with the means of the true ones, then mixup with the network's own labels."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from pulab._torch import Seeds
from pulab._validation import check_number
from pulab.estimators._base import SHARED_DOCS, BasePUClassifier, Stages, Task
from pulab.losses import bernoulli_entropy, bernoulli_kl, label_distribution_risk, nnpu_risk
from pulab.training import Batch, Objective, Record, Schedule, Step, mix, pick, predict_logits


class SelfLabelledObjective(Objective):
    """An objective with mixup, if it is given labels of U. They become the network's own predictions, step by step."""

    def __init__(self, labels: Tensor | None, numbers: Mapping[str, Tensor]) -> None:
        super().__init__(**numbers)
        self._has_labels = labels is not None
        if labels is not None:
            self.memory["label"] = labels

    def validation_risk(self, g: Mapping[str, Tensor]) -> Tensor:
        return nnpu_risk(g["p"], g["u"], self.numbers["prior"]).value

    def _mixed(self, batch: Batch, g_u: Tensor) -> tuple[Tensor, Tensor]:
        """Labels and logits of mixed rows: each row of P and U with a random one of both, one share for the batch."""
        p, u, rows = batch.inputs["p"], batch.inputs["u"], batch.positions["u"]
        y_u = self.memory["label"].gather(1, rows)
        y = torch.cat([y_u.new_ones(p.shape[:2]), y_u], dim=1)
        x = torch.cat([p, u], dim=1)
        partner = batch.random.permutation(x.shape[1])
        share = batch.random.beta(self.numbers["mixup_alpha"], self.numbers["mixup_alpha"], 1)
        mixed = mix(y, pick(y, partner), share)
        g = batch.logits({"mixed": mix(x, pick(x, partner), share)})["mixed"]
        self.memory["label"].scatter_(1, rows, torch.sigmoid(g_u.detach()))
        return mixed, g


class DistPUObjective(SelfLabelledObjective):
    """Label distributions and entropy of U. With labels: also mixup and the entropy of mixed rows."""

    def __init__(self, labels: Tensor | None, numbers: Mapping[str, Tensor], epochs: int) -> None:
        super().__init__(labels, numbers)
        self._epochs = epochs
        self.memory["entropy_weight"] = numbers["entropy_weight"].clone()

    def begin_epoch(self, epoch: int) -> None:
        if self._has_labels:  # from 0 upwards, along a cosine
            ramp = 1 - math.cos((epoch - 1) / self._epochs * math.pi / 2)
            self.memory["entropy_weight"].copy_(ramp * self.numbers["entropy_weight_final"])

    def step(self, batch: Batch) -> Step:
        g, n = batch.logits(), self.numbers
        risk = label_distribution_risk(g["p"], g["u"], n["prior"])
        entropy = bernoulli_entropy(g["u"]).mean(-1)
        loss = risk + self.memory["entropy_weight"] * entropy
        terms = {"risk": risk, "entropy": entropy}
        if self._has_labels:
            y, g_mixed = self._mixed(batch, g["u"])
            terms["mixup"] = bernoulli_kl(y, g_mixed).mean(-1)
            terms["mixed_entropy"] = bernoulli_entropy(g_mixed).mean(-1)
            loss = loss + n["mixup_weight"] * terms["mixup"] + n["mixed_entropy_weight"] * terms["mixed_entropy"]
        return Step(loss, {"loss": loss, **terms})


# Parts of docstrings that its methods share, as in `SHARED_DOCS`.
DOCS = {
    "mixup": """\
    mixup_weight : float
        Weight of the mixup term in the second training.
    mixup_alpha : float
        Shares of a mixture are drawn from Beta(mixup_alpha, mixup_alpha).
""",
    "mixup epochs": """\
    mixup_epochs : int or None
        Epochs of the second training. None: as many as in the first. 0: there is no second training.
""",
    "mixup decay": """\
    mixup_weight_decay : float or None
        Weight decay of the second training. None: the same as ``weight_decay``.
""",
    "attributes of both trainings": """\
    first_history_ : list of dict
        One record per epoch of the first training. ``history_`` and ``best_epoch_`` are about the last training.
    {attributes}
""",
}


class SelfLabelledPUClassifier(BasePUClassifier):
    """Base of methods of two trainings, where the second one adds mixup and goes on from the first one's best epoch."""

    _docs = DOCS | SHARED_DOCS  # in this order: the first ones hold {attributes}
    _n_trainings = 2

    prior: float | str | None = None
    mixup_weight: float = 5.0
    mixup_alpha: float = 6.0
    mixup_epochs: int | None = None
    mixup_lr: float | None = None
    mixup_weight_decay: float | None = None

    def _check_params(self) -> None:
        check_number("mixup_weight", self.mixup_weight, low=0)
        check_number("mixup_alpha", self.mixup_alpha, low=0, ends="(]")
        if self.mixup_epochs is not None:
            check_number("mixup_epochs", self.mixup_epochs, low=0, whole=True)
        if self.mixup_lr is not None:
            check_number("mixup_lr", self.mixup_lr, low=0, ends="(]")
        if self.mixup_weight_decay is not None:
            check_number("mixup_weight_decay", self.mixup_weight_decay, low=0)

    @abstractmethod
    def _self_labelled(self, task: Task, schedule: Schedule, labels: Tensor | None) -> SelfLabelledObjective:
        """The objective of the first training, without labels, or of the second one."""

    @property
    def _default_mixup_lr(self) -> float:
        return self.lr

    def _stages(self, task: Task) -> Stages:
        schedule = self._schedule(task)
        job = self._job(task, self._self_labelled(task, schedule, None), schedule)
        trained = yield job
        self.first_history_: list[Record] = trained.history
        epochs = schedule.epochs if self.mixup_epochs is None else self.mixup_epochs
        if epochs:
            u = task.streams["u"]
            labels = torch.sigmoid(predict_logits(trained.module, u.rows, u.index[0]))[None]
            schedule = replace(
                schedule,
                epochs=epochs,
                lr=self._default_mixup_lr if self.mixup_lr is None else self.mixup_lr,
                weight_decay=self.weight_decay if self.mixup_weight_decay is None else self.mixup_weight_decay,
            )
            trained = yield replace(
                job,
                module=trained.module,
                objective=self._self_labelled(task, schedule, labels),
                schedule=schedule,
                seeds=Seeds(task.seeds["training with mixup"]),
                name="mixup",
            )
        self._finish(task, trained)


class DistPUClassifier(SelfLabelledPUClassifier):
    """Dist-PU: the predicted labels of P and of U get the means that the true labels have.

    The loss (1 − mean_P σ) + ``|mean_U σ − π|`` / 2π holds the mean prediction of P at 1 and that of U at the prior. An
    entropy term pushes predictions to 0 and 1. A second training goes on from the best epoch of the first. It adds
    mixup: rows of P and U are mixed, with the network's own predictions of one epoch before as the labels of U.

    The authors' code has batches of about 256 rows, ``optimizer`` Adam, ``lr_schedule="cosine"``, ``epochs=60``,
    ``lr=5e-4``, ``weight_decay=5e-3``, ``mixup_lr=5e-5`` and ``mixup_weight_decay=1e-3``. It keeps the last epoch. Here
    both trainings keep the epoch with the lowest non-negative PU risk of the validation rows.

    Parameters
    ----------
    {prior}
    entropy_weight : float
        Weight of the entropy of U in the first training.
    entropy_weight_final : float
        The weight of the entropy of U that the second training rises towards, from zero.
    {mixup}
    mixed_entropy_weight : float
        Weight of the entropy of mixed rows in the second training.
    {mixup epochs}
    mixup_lr : float or None
        Learning rate of the second training. None: a tenth of ``lr``.
    {mixup decay}
    {shared}

    Attributes
    ----------
    {attributes of both trainings}

    References
    ----------
    Zhao, Xu, Jiang, Wen, Huang: Dist-PU: Positive-Unlabeled Learning from a Label Distribution Perspective. CVPR 2022.

    Examples
    --------
    >>> from pulab import DistPUClassifier
    >>> from pulab.datasets import load_digits, make_pu
    >>> digits = load_digits(positive=(0,))
    >>> pu = make_pu(digits.X_train, digits.y_train, n_labeled=50, random_state=0)
    >>> clf = DistPUClassifier(prior=pu.prior, epochs=20, random_state=0).fit(pu.X, pu.s)
    >>> clf.score(digits.X_test, digits.y_test) > 0.9
    True
    """

    entropy_weight: float = 0.002
    entropy_weight_final: float = 0.004
    mixed_entropy_weight: float = 0.04

    def _check_params(self) -> None:
        super()._check_params()
        for name in ("entropy_weight", "entropy_weight_final", "mixed_entropy_weight"):
            check_number(name, getattr(self, name), low=0)

    @property
    def _default_mixup_lr(self) -> float:
        return self.lr / 10

    def _self_labelled(self, task: Task, schedule: Schedule, labels: Tensor | None) -> DistPUObjective:
        numbers = task.numbers(
            prior=task.prior,
            entropy_weight=self.entropy_weight,
            entropy_weight_final=self.entropy_weight_final,
            mixup_weight=self.mixup_weight,
            mixup_alpha=self.mixup_alpha,
            mixed_entropy_weight=self.mixed_entropy_weight,
        )
        return DistPUObjective(labels, numbers, schedule.epochs)
