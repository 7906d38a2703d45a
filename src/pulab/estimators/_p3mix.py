"""P3Mix-C: sure rows of U become positives, unsure ones are mixed with labelled positives near the border."""

from collections.abc import Mapping, Sequence
from typing import Self

import torch
from torch import Tensor

from pulab._validation import check_number
from pulab.errors import InputError, warn
from pulab.estimators._base import BasePUClassifier, Task
from pulab.losses import bernoulli_entropy, bernoulli_kl, lee_liu_risk
from pulab.training import Batch, Objective, Schedule, Step, Stream, mix, pick
from pulab.training.streams import stack_streams


class P3MixObjective(Objective):
    """KL of mixed labels to the predictions of mixed rows, for P and for U, and a little entropy.

    ``memory["unsure"]`` has the entropy of each labelled row, ``memory["partners"]`` the positions of the least sure.
    """

    _stacked_otherwise = ("p",)

    def __init__(self, p: Stream, n_partners: int, e_start: int, teacher_decay: float, **numbers: Tensor) -> None:
        super().__init__(**numbers)
        self.p, self._e_start, self.teacher_decay = p, e_start, teacher_decay
        entropy = numbers["low"].new_zeros((1, len(p)))
        first = torch.arange(min(n_partners, len(p)), device=entropy.device)[None]
        self.memory = {"unsure": entropy, "partners": first, "started": torch.zeros_like(numbers["low"])}

    def begin_epoch(self, epoch: int) -> None:
        if epoch >= self._e_start:
            self.memory["started"].fill_(1.0)
            order = self.memory["unsure"].argsort(dim=1, descending=True, stable=True)
            self.memory["partners"].copy_(order[:, : self.memory["partners"].shape[1]])

    def step(self, batch: Batch) -> Step:
        x, n = batch.inputs, self.numbers
        n_p, n_u = x["p"].shape[1], x["u"].shape[1]
        clean = batch.logits(grad=False)
        # A row of P may come twice in a batch, with two values where there is dropout: take the larger one.
        entropy = bernoulli_entropy(clean["p"])
        self.memory["unsure"].scatter_reduce_(1, batch.positions["p"], entropy, "amax", include_self=False)
        p_u, started = clean["u"].sigmoid(), self.memory["started"][:, None] > 0
        sure = started & (p_u >= n["high"][:, None])
        unsure = started & (p_u > n["low"][:, None]) & ~sure
        rows = torch.cat([x["p"], x["u"]], dim=1)
        labels = torch.cat([torch.ones_like(clean["p"]), sure.to(p_u.dtype)], dim=1)

        # The partner is any row; of an unsure row one of the labelled rows that are least sure.
        any_row = batch.random.integers(n_p + n_u, n_p + n_u)
        near = batch.random.integers(self.memory["partners"].shape[1], n_u)
        near_rows = self.p[self.memory["partners"].gather(1, near)]
        partner, its_label = pick(rows, any_row), labels.gather(1, any_row)
        of_u = torch.where(unsure.view(*unsure.shape, *(1,) * (rows.ndim - 2)), near_rows, partner[:, n_p:])
        partner = torch.cat([partner[:, :n_p], of_u], dim=1)
        its_label = torch.cat([its_label[:, :n_p], its_label[:, n_p:].masked_fill(unsure, 1.0)], dim=1)

        share = batch.random.beta(n["mixup_alpha"], n["mixup_alpha"], 1)
        share = torch.maximum(share, 1 - share)
        mixed, labels = mix(rows, partner, share), mix(labels, its_label, share)
        g = batch.logits({"p": mixed[:, :n_p], "u": mixed[:, n_p:]})
        terms = {
            "positive": bernoulli_kl(labels[:, :n_p], g["p"]).mean(-1),
            "kl": bernoulli_kl(labels[:, n_p:], g["u"]).mean(-1),
            "entropy": bernoulli_entropy(torch.cat([g["p"], g["u"]], dim=1)).mean(-1),
        }
        loss = terms["positive"] + n["unlabeled_weight"] * terms["kl"] + n["entropy_weight"] * terms["entropy"]
        shares = {"sure": sure.to(p_u.dtype).mean(-1), "unsure": unsure.to(p_u.dtype).mean(-1)}
        return Step(loss, {"loss": loss, **terms, **shares})

    def validation_risk(self, g: Mapping[str, Tensor]) -> Tensor:
        return lee_liu_risk(g["p"], g["u"])

    def stack(self, others: Sequence[Self]) -> Self:
        stacked = super().stack(others)
        stacked.p = stack_streams([{"p": objective.p} for objective in (self, *others)])["p"]
        return stacked


class P3MixClassifier(BasePUClassifier):
    """Partially positive mixup (P3Mix-C): needs no class prior.

    A network that takes U for negative draws its border too close to the labelled rows. P3Mix moves it back. At first
    every row is mixed with any other one, and rows of U count as negatives. From epoch ``e_start`` on, rows of U with a
    prediction of ``high`` or more count as positives. Rows between ``low`` and ``high`` are mixed with one of the
    ``n_partners`` labelled rows that the network is least sure of. The larger share of a mixture is the row's own. A
    mean teacher is kept.

    The authors use Adam (0.5, 0.99) with a learning rate of 1e-3, 256 rows of P and of U per step, and 40 epochs of 100
    steps, from the 16th of which labels are corrected. They can also mix hidden layers; here rows are mixed. The epoch
    is chosen by Lee and Liu's criterion on held-out rows, which needs neither a prior nor negatives.

    Parameters
    ----------
    high, low : float in [0, 1]
        Predictions at which a row of U counts as positive, and below which its partner is any row.
    e_start : int or None
        Labels are corrected from this epoch on. None: when a twentieth of ``epochs`` is over. On a few hundred rows a
        network memorises the first labels in less time than the authors give it.
    n_partners : int
        Labelled rows that unsure rows are mixed with.
    mixup_alpha : float
        Shares of a mixture are drawn from Beta(mixup_alpha, mixup_alpha), one for each step.
    unlabeled_weight : float
        Weight of U where that of P is 1. Below 1 the border begins further from P.
    entropy_weight : float
        Weight of the entropy of the predictions of mixed rows.
    teacher_decay : float
        The teacher keeps this share of its weights in every step.
    {shared}

    Attributes
    ----------
    {attributes without prior}

    References
    ----------
    Li, Li, Feng, Ouyang: Who Is Your Right Mixup Partner in Positive and Unlabeled Learning. ICLR 2022.

    Examples
    --------
    >>> from pulab import P3MixClassifier
    >>> from pulab.datasets import load_digits, make_pu
    >>> digits = load_digits(positive=(0,))
    >>> pu = make_pu(digits.X_train, digits.y_train, n_labeled=50, random_state=0)
    >>> clf = P3MixClassifier(epochs=30, random_state=0).fit(pu.X, pu.s)
    >>> clf.score(digits.X_test, digits.y_test) > 0.9
    True
    """

    _u_is_population = False  # the labels of the labelled rows are known

    high: float = 0.85
    low: float = 0.15
    e_start: int | None = None
    n_partners: int = 100
    mixup_alpha: float = 0.5
    unlabeled_weight: float = 0.5
    entropy_weight: float = 0.05
    teacher_decay: float = 0.997
    batch_size_p: int | None = 64

    def _check_params(self) -> None:
        for name in ("high", "low"):
            check_number(name, getattr(self, name), low=0, high=1)
        if self.low > self.high:
            raise InputError(f"low must not be above high, got {self.low} and {self.high}. Swap them.")
        if self.e_start is not None:
            check_number("e_start", self.e_start, low=1, whole=True)
        check_number("n_partners", self.n_partners, low=1, whole=True)
        check_number("mixup_alpha", self.mixup_alpha, low=0, ends="(]")
        for name in ("unlabeled_weight", "entropy_weight"):
            check_number(name, getattr(self, name), low=0)
        check_number("teacher_decay", self.teacher_decay, low=0, high=1, ends="[)")

    def _objective(self, task: Task, schedule: Schedule) -> P3MixObjective:
        e_start = self.e_start or 1 + max(1, round(schedule.epochs / 20))
        if schedule.epochs < e_start:
            warn(f"labels are never corrected: e_start is {e_start}, but there are only {schedule.epochs} epochs.")
        names = ("high", "low", "mixup_alpha", "unlabeled_weight", "entropy_weight")
        numbers = task.numbers(**{name: getattr(self, name) for name in names})
        return P3MixObjective(task.streams["p"], self.n_partners, e_start, self.teacher_decay, **numbers)
