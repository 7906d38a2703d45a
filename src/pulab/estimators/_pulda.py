"""PULDA: Dist-PU with means over many steps, a smooth distance and a margin."""

from collections.abc import Mapping

import torch
from torch import Tensor

from pulab._validation import check_number
from pulab.estimators._base import Task
from pulab.estimators._dist_pu import SelfLabelledObjective, SelfLabelledPUClassifier
from pulab.losses import bernoulli_kl, margin_loss, smooth_distance
from pulab.training import Batch, Schedule, Step


class PULDAObjective(SelfLabelledObjective):
    """The mean label of P at 1, that of U at the prior, logits off the border. With labels of U: also mixup."""

    def __init__(self, labels: Tensor | None, numbers: Mapping[str, Tensor], has_margin: bool) -> None:
        super().__init__(labels, numbers)
        self._has_margin = has_margin
        of_margin = ("hill_p", "hill_u") if has_margin else ()
        for name in ("begun", "mean_u", *of_margin):
            self.memory[name] = torch.zeros_like(numbers["prior"])

    def step(self, batch: Batch) -> Step:
        g, n = batch.logits(), self.numbers
        mean_u, share = self._averaged("mean_u", torch.sigmoid(g["u"]).mean(-1), n["mean_decay"])
        risk = 2 * n["prior"] * (1 - torch.sigmoid(g["p"]).mean(-1))
        risk = risk + smooth_distance(mean_u, n["prior"], n["sharpness"]) / share
        terms = {"risk": risk}
        if self._has_margin:
            terms["margin"] = self._margin(g["p"], g["u"])
        loss = torch.stack(list(terms.values())).sum(0)
        if self._has_labels:
            y, g_mixed = self._mixed(batch, g["u"])
            terms["mixup"] = bernoulli_kl(y, g_mixed).mean(-1)
            loss = loss + n["mixup_weight"] * terms["mixup"]
        self.memory["begun"].fill_(1)
        return Step(loss, {"loss": loss, **terms})

    def _margin(self, g_p: Tensor, g_u: Tensor) -> Tensor:
        """P is pushed above the margin. U is to have as much below it as P has there, times the prior."""
        prior, margin, decay = self.numbers["prior"], self.numbers["margin"][:, None], self.numbers["margin_decay"]
        hill_p, share = self._averaged("hill_p", margin_loss(-g_p, margin).mean(-1), decay)
        hill_u, _ = self._averaged("hill_u", margin_loss(-g_u, margin).mean(-1), decay)
        return prior * margin_loss(g_p, margin).mean(-1) + smooth_distance(hill_u, prior * hill_p, 1.0) / share

    def _averaged(self, name: str, value: Tensor, decay: Tensor) -> tuple[Tensor, Tensor]:
        """The exponential mean of a value over the steps, and the share that this step has in it: all, in the first."""
        share = torch.where(self.memory["begun"] > 0, 1 - decay, 1.0)
        mean = (1 - share) * self.memory[name] + share * value
        self.memory[name].copy_(mean.detach())
        return mean, share


class PULDAClassifier(SelfLabelledPUClassifier):
    """PULDA: Dist-PU with means over many steps, a smooth distance and a margin.

    As in Dist-PU the mean prediction of P is held at 1 and that of U at the prior, and a second training adds mixup.
    The mean of U is an exponential mean over steps, so that batches may be small. Its distance to the prior is
    log(1 + e^βd) / β + log(1 + e^−βd) / β. Predictions that all lie at the border also have the right means. A margin
    term forbids these: the loss σ(g) · σ(m − g) is high between 0 and m. It pushes P upwards. Its mirror image, for
    negatives, is held where it has the same mean over U as over P, times the prior.

    The authors' code has ``batch_size_p=16``, ``batch_size_u=128``, ``optimizer`` Adam, ``lr_schedule="cosine"``,
    ``epochs=60``, ``lr=1e-4``, ``weight_decay=5e-4``, ``mixup_lr=1e-3`` and ``mixup_weight_decay=1e-4``. It keeps the
    last epoch. Here both trainings keep the epoch with the lowest non-negative PU risk of the validation rows.

    Parameters
    ----------
    {prior}
    sharpness : float
        β of the distance. The larger, the nearer is it to the absolute difference.
    mean_decay : float in [0, 1)
        What the mean of U keeps of its value in each step. 0: the mean of the batch.
    margin : float or None
        The margin m, in logits. None: no margin term.
    margin_decay : float in [0, 1)
        As ``mean_decay``, for the two means of the margin term.
    {mixup}
    {mixup epochs}
    mixup_lr : float or None
        Learning rate of the second training. None: the same as ``lr``.
    {mixup decay}
    {shared}

    Attributes
    ----------
    {attributes of both trainings}

    References
    ----------
    Jiang, Xu and others: Positive-Unlabeled Learning with Label Distribution Alignment. IEEE TPAMI 2023.

    Examples
    --------
    >>> from pulab import PULDAClassifier
    >>> from pulab.datasets import load_digits, make_pu
    >>> digits = load_digits(positive=(0,))
    >>> pu = make_pu(digits.X_train, digits.y_train, n_labeled=50, random_state=0)
    >>> clf = PULDAClassifier(prior=pu.prior, epochs=20, random_state=0).fit(pu.X, pu.s)
    >>> clf.score(digits.X_test, digits.y_test) > 0.9
    True
    """

    sharpness: float = 3.5
    mean_decay: float = 0.85
    margin: float | None = 0.6
    margin_decay: float = 0.5
    mixup_weight: float = 4.2
    mixup_alpha: float = 11.0

    def _check_params(self) -> None:
        super()._check_params()
        check_number("sharpness", self.sharpness, low=0, ends="(]")
        for name in ("mean_decay", "margin_decay"):
            check_number(name, getattr(self, name), low=0, high=1, ends="[)")
        if self.margin is not None:
            check_number("margin", self.margin, low=0)

    def _self_labelled(self, task: Task, schedule: Schedule, labels: Tensor | None) -> PULDAObjective:
        numbers = task.numbers(
            prior=task.prior,
            sharpness=self.sharpness,
            mean_decay=self.mean_decay,
            margin=self.margin or 0.0,
            margin_decay=self.margin_decay,
            mixup_weight=self.mixup_weight,
            mixup_alpha=self.mixup_alpha,
        )
        return PULDAObjective(labels, numbers, self.margin is not None)
