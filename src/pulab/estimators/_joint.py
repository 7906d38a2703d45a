"""The paper's method: a network and soft pseudo-labels of the unlabeled rows, optimised jointly."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pulab._validation import check_choice, check_number
from pulab.errors import warn
from pulab.estimators._base import Task
from pulab.estimators._weighted import WeightedNetwork
from pulab.losses import LOSSES, joint_terms, nnpu_risk
from pulab.training import Batch, LabelRing, Objective, Schedule, Step, Trained, predict_logits

INITS = ("prior", "negative", "random")
N_BINS = 20


class JointObjective(Objective):
    """Algorithm 1: λ·L_P + KL to the labels + α·KL of the predicted share to the prior + β·entropy.

    ``numbers`` are the hyper-parameters, each with a value per model.
    """

    _stacked_otherwise = ("labels",)

    def __init__(
        self, labels: LabelRing, numbers: Mapping[str, Tensor], epochs: int, e_start: int, positive_loss: str
    ) -> None:
        super().__init__(**numbers)
        self.labels, self._r = labels, labels.r
        self._epochs, self._e_start, self._positive_loss = epochs, e_start, positive_loss
        self.memory["lambda"] = numbers["lambda_init"].clone()

    def begin_epoch(self, epoch: int) -> None:
        first, last = self.numbers["lambda_init"], self.numbers["lambda_final"]
        left = (self._epochs - epoch) / (self._epochs - 1) if self._epochs > 1 else 0.0
        self.memory["lambda"].copy_(left * (first - last) + last)

    def step(self, batch: Batch) -> Step:
        g, rows, n = batch.logits(), batch.positions["u"], self.numbers
        # The memory gets the same predictions that the gradient comes from: dropout on, batch statistics.
        self.labels.remember(rows, batch.own("u", torch.sigmoid(g["u"].detach())))
        y_u = batch.whole("u", self.labels.current.gather(1, rows))
        terms = joint_terms(g["p"], g["u"], y_u, n["prior"], LOSSES[self._positive_loss])
        loss = (
            self.memory["lambda"] * terms.positive + terms.kl + n["alpha"] * terms.prior_kl + n["beta"] * terms.entropy
        )
        return Step(loss, {"loss": loss, **terms._asdict()})

    def end_epoch(self, epoch: int) -> Mapping[str, Tensor]:
        self.labels.end_epoch(epoch, update=epoch >= self._e_start)
        bins = (self.labels.current * N_BINS).long().clamp_(0, N_BINS - 1)
        counts = torch.zeros((len(bins), N_BINS), dtype=torch.long, device=bins.device)
        return {"lambda": self.memory["lambda"], "label_histogram": counts.scatter_add_(1, bins, torch.ones_like(bins))}

    def validation_risk(self, g: Mapping[str, Tensor]) -> Tensor:
        return nnpu_risk(g["p"], g["u"], self.numbers["prior"]).value

    def stack(self, others: Sequence[Self]) -> Self:
        stacked = super().stack(others)
        stacked.labels = LabelRing.stack([self.labels, *(other.labels for other in others)])
        return stacked

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "labels": self.labels.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.labels.load_state_dict(state["labels"])


class JointPUClassifier(WeightedNetwork):
    """Joint optimisation of a network and soft pseudo-labels that begin at the class prior.

    Every unlabeled row carries a label between 0 and 1. The network is fitted to the labelled positives and to these
    labels; from epoch ``e_start`` on each label becomes the mean of the network's last ``r`` predictions of its row.
    The loss of a step is λ·L_P + KL(labels ‖ predictions) + α·KL(prior ‖ predicted share) + β·entropy, with λ falling
    linearly from ``lambda_init`` to n_p/n_u; in a single sample the labelled rows are a part of U, so that it ends at
    n_p/(n_p + n_u).

    Parameters
    ----------
    {prior}
    init : {"prior", "negative", "random"}
        Initial labels: all equal to the prior, all 0, or random 0 and 1 with exactly the prior's share of 1.
    lambda_init : float
        Weight of the labelled positives in the first epoch.
    alpha : float
        Weight of the term that keeps the share of predicted positives at the prior. Without it training collapses.
    beta : float
        Weight of the entropy. It pushes predictions towards 0 and 1.
    r : int
        Number of epochs whose predictions a label averages.
    e_start : int or None
        Labels are updated after this epoch and all later ones. None: a fifth of ``epochs``, as in the
        paper for MNIST and 20 Newsgroups (for CIFAR-10 it has a tenth).
    positive_loss : {"sigmoid", "logistic"}
        Loss of a labelled positive.
    {shared}

    Attributes
    ----------
    pseudo_labels_ : array of shape (number of unlabeled rows,)
        Labels after the last epoch, in the order of the rows. For rows that were held out for validation, or have no
        weight: the probability given by ``module_``, before calibration.
    {attributes}

    References
    ----------
    Tanaka, Ikami, Aizawa: A Novel Perspective for Positive-Unlabeled Learning via Noisy Labels. arXiv 2103.04685.

    Examples
    --------
    >>> from pulab import JointPUClassifier
    >>> from pulab.datasets import load_digits, make_pu
    >>> digits = load_digits(positive=(0,))
    >>> pu = make_pu(digits.X_train, digits.y_train, n_labeled=50, random_state=0)
    >>> clf = JointPUClassifier(prior=pu.prior, random_state=0).fit(pu.X, pu.s)
    >>> clf.score(digits.X_test, digits.y_test) > 0.9
    True
    """

    _takes_shards = True

    prior: float | str | None = None
    init: str = "prior"
    lambda_init: float = 10.0
    alpha: float = 20.0
    beta: float = 2.0
    r: int = 10
    e_start: int | None = None
    positive_loss: str = "sigmoid"
    lr: float = 2e-3

    def _check_params(self) -> None:
        check_choice("init", self.init, INITS)
        check_choice("positive_loss", self.positive_loss, LOSSES)
        for name in ("lambda_init", "alpha", "beta"):
            check_number(name, getattr(self, name), low=0)
        check_number("r", self.r, low=1, whole=True)
        if self.e_start is not None:
            check_number("e_start", self.e_start, low=1, whole=True)

    def _objective(self, task: Task, schedule: Schedule) -> JointObjective:
        e_start = self.e_start or max(2, round(schedule.epochs / 5))
        if schedule.epochs < e_start:
            warn(f"labels are never updated: e_start is {e_start}, but there are only {schedule.epochs} epochs.")
        u = task.streams["u"]
        initial = torch.from_numpy(initial_labels(self.init, u.total, task.prior, task.seeds["labels"])[u.own])
        weights = {"alpha": self.alpha, "beta": self.beta, "lambda_init": self.lambda_init}
        return JointObjective(
            LabelRing(initial.to(task.device, task.dtype)[None], min(self.r, schedule.epochs)),
            task.numbers(prior=task.prior, lambda_final=task.streams["p"].total / u.total, **weights),
            schedule.epochs,
            e_start,
            self.positive_loss,
        )

    def _finish(self, task: Task, trained: Trained) -> None:
        super()._finish(task, trained)
        labels = task.streams["u"].whole(trained.objective.labels.current[trained.line][None])[0]
        self.pseudo_labels_ = labels_by_row(task, self.module_, labels)


def labels_by_row(task: Task, module: nn.Module, trained: Tensor) -> NDArray[np.float64]:
    """Labels of the unlabeled rows: those of training as they are, the others by the module."""
    labels = np.full(len(task.positive), np.nan)
    labels[task.u_rows] = trained.cpu().numpy()
    others = np.flatnonzero(np.isnan(labels) & ~task.positive)
    if len(others) and task.validation is not None and task.validation["u"].share is not None:
        u = task.validation["u"]  # its last rows, of which each process has a part
        g = u.whole(predict_logits(module, u.rows, u.index[0])[None])[0, -len(others) :]
        labels[others] = torch.sigmoid(g).cpu().numpy()
    elif len(others):
        index = torch.from_numpy(others).to(task.device)
        labels[others] = torch.sigmoid(predict_logits(module, task.rows, index)).cpu().numpy()
    return labels[~task.positive]


def initial_labels(init: str, n: int, prior: float, seed: int) -> NDArray[np.float64]:
    """Initial labels. Random ones have exactly the prior as their mean, as in the paper."""
    if init == "random":
        return np.random.default_rng(seed).permutation(np.arange(n) < round(prior * n)).astype(np.float64)
    return np.full(n, prior if init == "prior" else 0.0)
