"""Methods that learn a ranking and call the prior's share of the population positive: PU AUC and PUSB."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from pulab._validation import AnyArray, check_choice, check_number
from pulab.estimators._base import SHARED_DOCS, BasePUClassifier, Task
from pulab.estimators._risk import RiskObjective
from pulab.losses import LOSSES, auc_risk, nnpu_risk, pair_risk
from pulab.training import Batch, Objective, Schedule, Step, Trained, predict_logits

DOCS = {
    "attributes with a cut": """\
    threshold_ : float
        The logit of the cut. ``decision_function`` counts from it.
    {attributes}
"""
}


class CutAtPriorClassifier(BasePUClassifier):
    """Base of methods whose threshold leaves the prior's share of the population above it."""

    _docs = DOCS | SHARED_DOCS  # in this order: the first one holds {attributes}

    def _can_be_calibrated(self) -> bool:
        return False

    def _finish(self, task: Task, trained: Trained) -> None:
        super()._finish(task, trained)
        # The rows of training and of validation: errors of the cuts by one, the other and both differed by less than
        # 1.3 points on five data sets (means of three seeds, 2026-11), and by all rows the share is exact.
        streams = [part["u"] for part in (task.streams, task.validation) if part is not None]
        logits = [predict_logits(self.module_, u.rows, u.index[0]).double().cpu().numpy() for u in streams]
        self.threshold_ = float(np.quantile(np.concatenate(logits), 1 - task.prior))

    def decision_function(self, X: Any) -> AnyArray:
        return super().decision_function(X) - self.threshold_


class PUAUCObjective(Objective):
    """The loss of all pairs of a batch. The epoch is chosen by the AUC of P against U."""

    def __init__(self, loss: str) -> None:
        super().__init__()
        self._loss = loss

    def step(self, batch: Batch) -> Step:
        g = batch.logits()
        loss = pair_risk(g["p"], g["u"], LOSSES[self._loss])
        return Step(loss, {"loss": loss})

    def validation_risk(self, g: Mapping[str, Tensor]) -> Tensor:
        return auc_risk(g["p"], g["u"])


class PUAUCClassifier(CutAtPriorClassifier):
    """PU AUC: the network learns to score labelled rows above unlabeled ones, pair by pair.

    The AUC of positives against the population is π/2 + (1 − π) times the AUC of positives against negatives. So the
    ranking that is best for the one is best for the other, and it needs no prior: neither the training nor the choice
    of the epoch uses it. The prior only puts the cut. It lies where the prior's share of the population, with the rows
    of the validation set, is above it. ``predict_proba`` is the sigmoid of the logit counted from there: a score
    with the right order, not a probability. :class:`pulab.calibration.PUCalibrator` makes probabilities.

    Parameters
    ----------
    {prior}
    loss : {"sigmoid", "logistic"}
        Loss of a pair's difference. With "sigmoid" the loss is a smooth 1 − AUC. "logistic" weighs pairs in the wrong
        order by how wrong they are; its best ranking is the same.
    {shared}

    Attributes
    ----------
    {attributes with a cut}

    References
    ----------
    Sakai, Niu, Sugiyama: Semi-Supervised AUC Optimization Based on Positive-Unlabeled Learning. Machine Learning 2018.
    Xie, Li: Semi-Supervised AUC Optimization without Guessing Labels of Unlabeled Data. AAAI 2018.

    Examples
    --------
    >>> from pulab import PUAUCClassifier
    >>> from pulab.datasets import load_digits, make_pu
    >>> digits = load_digits(positive=(0,))
    >>> pu = make_pu(digits.X_train, digits.y_train, n_labeled=50, random_state=0)
    >>> clf = PUAUCClassifier(prior=pu.prior, random_state=0).fit(pu.X, pu.s)
    >>> clf.score(digits.X_test, digits.y_test) > 0.9
    True
    """

    prior: float | str | None = None
    loss: str = "sigmoid"

    def _check_params(self) -> None:
        check_choice("loss", self.loss, LOSSES)

    def _objective(self, task: Task, schedule: Schedule) -> Objective:
        return PUAUCObjective(self.loss)


class PUSBClassifier(CutAtPriorClassifier):
    """PUSB: for labelled rows that are no random sample of the positives, but the clearer ones among them.

    The assumption is the invariance of order: a row that is more likely positive is more likely labelled, too, among
    the positives. Then the density of labelled rows over that of the population orders the rows as their probability
    of being positive does, but its values say nothing. So the network learns that ratio with the logistic risk of
    nnPU, and the cut lies where the prior's share of the population, with the rows of the validation set, is above it.
    ``predict_proba`` is the sigmoid of the logit counted from there: a score with the right order, not a probability.

    Parameters
    ----------
    {prior}
    beta, gamma : float, default 0 and 1
        If the negative part of a batch falls below -beta, the step goes back along it, scaled by gamma.
    {shared}

    Attributes
    ----------
    {attributes with a cut}

    References
    ----------
    Kato, Teshima, Honda: Learning from Positive and Unlabeled Data with a Selection Bias. ICLR 2019.

    Examples
    --------
    >>> from pulab import PUSBClassifier
    >>> from pulab.datasets import load_digits, make_pu
    >>> digits = load_digits(positive=(0,))
    >>> pu = make_pu(digits.X_train, digits.y_train, n_labeled=50, random_state=0)
    >>> clf = PUSBClassifier(prior=pu.prior, random_state=0).fit(pu.X, pu.s)
    >>> clf.score(digits.X_test, digits.y_test) > 0.9
    True
    """

    prior: float | str | None = None
    beta: float = 0.0
    gamma: float = 1.0

    def _check_params(self) -> None:
        check_number("beta", self.beta, low=0)
        check_number("gamma", self.gamma, low=0, high=1)

    def _objective(self, task: Task, schedule: Schedule) -> Objective:
        return RiskObjective(nnpu_risk, "logistic", task.numbers(prior=task.prior, beta=self.beta, gamma=self.gamma))
