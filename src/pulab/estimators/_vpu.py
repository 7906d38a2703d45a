"""VPU: a variational bound in the place of the class prior, and mixup of P and U."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from pulab._validation import AnyArray, check_number
from pulab.estimators._base import Task
from pulab.estimators._weighted import WeightedNetwork
from pulab.losses import vpu_risk
from pulab.training import Batch, Objective, Schedule, Step, Trained, mix, pick, predict_logits


class VPUObjective(Objective):
    """log mean_U φ − mean_P log φ + weight · (log of the mixed label − log φ of the mixed row)²."""

    def step(self, batch: Batch) -> Step:
        g, n = batch.logits(), self.numbers
        risk = vpu_risk(g["p"], g["u"])
        mixup = self._mixup(batch, logsigmoid(g["u"]))
        loss = risk + n["weight"] * mixup
        return Step(loss, {"loss": loss, "risk": risk, "mixup": mixup})

    def _mixup(self, batch: Batch, log_phi_u: Tensor) -> Tensor:
        """Every unlabeled row is mixed with a random positive, whose label is 1. One share for the whole batch."""
        p, u = batch.inputs["p"], batch.inputs["u"]
        partner = batch.random.integers(p.shape[1], u.shape[1])
        share = batch.random.beta(self.numbers["alpha"], self.numbers["alpha"], 1)
        mixed = mix(u, pick(p, partner), share)
        log_label = torch.logaddexp(share.log() + log_phi_u, (-share).log1p().expand_as(log_phi_u))
        log_phi = logsigmoid(batch.logits({"mixed": mixed})["mixed"])
        return (log_label - log_phi).square().mean(-1)

    def validation_risk(self, g: Mapping[str, Tensor]) -> Tensor:
        return vpu_risk(g["p"], g["u"])


class VPUClassifier(WeightedNetwork):
    """Variational PU learning: needs no class prior.

    The network gives φ(x) between 0 and 1. The loss log mean_U φ − mean_P log φ is lowest where φ is proportional to
    the probability of being positive. A mixup term makes φ smooth. A row is called positive if φ is above half of its
    largest value over U: the method takes the best rows of U for sure positives. Where classes overlap everywhere there
    are no such rows, and too many rows are called positive. The ranking does not depend on this. Probabilities come
    from the logit, counted from that threshold.

    Parameters
    ----------
    mixup_weight : float
        Weight of the mixup term. The authors take 0.03 or 0.3.
    mixup_alpha : float
        Shares of a mixture are drawn from Beta(mixup_alpha, mixup_alpha).
    {shared}

    Attributes
    ----------
    threshold_ : float
        The logit at which φ is half of its largest value over U. ``decision_function`` counts from it.
    {attributes without prior}

    References
    ----------
    Chen, Liu, Wang, Zhao, Wu: A Variational Approach for Learning from Positive and Unlabeled Data. NeurIPS 2020.

    Examples
    --------
    >>> from pulab import VPUClassifier
    >>> from pulab.datasets import load_digits, make_pu
    >>> digits = load_digits(positive=(0,))
    >>> pu = make_pu(digits.X_train, digits.y_train, n_labeled=50, random_state=0)
    >>> clf = VPUClassifier(epochs=30, random_state=0).fit(pu.X, pu.s)
    >>> clf.score(digits.X_test, digits.y_test) > 0.9
    True
    """

    mixup_weight: float = 0.3
    mixup_alpha: float = 0.3
    calibration: str | bool = False  # that needs the prior

    def _check_params(self) -> None:
        check_number("mixup_weight", self.mixup_weight, low=0)
        check_number("mixup_alpha", self.mixup_alpha, low=0, ends="(]")

    def _objective(self, task: Task, schedule: Schedule) -> VPUObjective:
        return VPUObjective(**task.numbers(weight=self.mixup_weight, alpha=self.mixup_alpha))

    def _finish(self, task: Task, trained: Trained) -> None:
        super()._finish(task, trained)
        u = task.streams["u"]
        half = 0.5 * torch.sigmoid(predict_logits(self.module_, u.rows, u.index[0]).double().max()).item()
        self.threshold_ = math.log(half) - math.log1p(-half) if half > 0 else 0.0

    def decision_function(self, X: Any) -> AnyArray:
        return super().decision_function(X) - self.threshold_
