"""Methods that minimise a risk: the supervised oracle, the naive baseline, uPU and nnPU."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pulab._validation import AnyArray, check_choice, check_number, check_prior
from pulab.estimators._base import Task
from pulab.estimators._weighted import WeightedNetwork
from pulab.losses import LOSSES, Risk, nnpu_risk, pn_risk, upu_risk
from pulab.training import Batch, Objective, Schedule, Step

RiskFunction = Callable[..., Risk]


class RiskObjective(Objective):
    """Minimise a risk of P and U logits; choose the epoch by the same risk with the sigmoid loss.

    ``numbers`` are the risk's parameters, the prior among them, with a value per model.
    """

    def __init__(self, risk: RiskFunction, loss: str, numbers: Mapping[str, Tensor]) -> None:
        super().__init__(**numbers)
        self._risk, self._loss = risk, LOSSES[loss]

    def step(self, batch: Batch) -> Step:
        g = batch.logits()
        risk = self._risk(g["p"], g["u"], loss=self._loss, **self.numbers)
        return Step(risk.objective, {"loss": risk.value})

    def validation_risk(self, g: Mapping[str, Tensor]) -> Tensor:
        return self._risk(g["p"], g["u"], self.numbers["prior"]).value


class UPUClassifier(WeightedNetwork):
    """Unbiased PU learning: the risk of a classifier, estimated without bias from positive and unlabeled rows.

    A flexible network can push the estimate below zero by memorising P. :class:`NNPUClassifier` prevents this.

    Parameters
    ----------
    {prior}
    loss : {"sigmoid", "logistic"}
        Loss in training. The best epoch is always chosen by the risk with the sigmoid loss.
    {shared}

    Attributes
    ----------
    {attributes}

    References
    ----------
    du Plessis, Niu, Sugiyama: Analysis of Learning from Positive and Unlabeled Data. NeurIPS 2014.
    du Plessis, Niu, Sugiyama: Convex Formulation for Learning from Positive and Unlabeled Data. ICML 2015.

    Examples
    --------
    >>> from pulab import UPUClassifier
    >>> from pulab.datasets import load_digits, make_pu
    >>> digits = load_digits(positive=(0,))
    >>> pu = make_pu(digits.X_train, digits.y_train, n_labeled=50, random_state=0)
    >>> clf = UPUClassifier(prior=pu.prior, random_state=0).fit(pu.X, pu.s)
    >>> clf.score(digits.X_test, digits.y_test) > 0.9
    True
    """

    _takes_shards = True

    prior: float | str | None = None
    loss: str = "sigmoid"

    def _check_params(self) -> None:
        check_choice("loss", self.loss, LOSSES)

    def _objective(self, task: Task, schedule: Schedule) -> Objective:
        return RiskObjective(upu_risk, self.loss, task.numbers(prior=task.prior))


class NNPUClassifier(WeightedNetwork):
    """Non-negative PU learning: unbiased PU risk whose negative part is not allowed to fall below zero.

    Parameters
    ----------
    {prior}
    loss : {"sigmoid", "logistic"}
        Loss in training. The best epoch is always chosen by the risk with the sigmoid loss.
    beta, gamma : float, default 0 and 1
        If the negative part of a batch falls below -beta, the step goes back along it, scaled by gamma.
    {shared}

    Attributes
    ----------
    {attributes}

    References
    ----------
    Kiryo, Niu, du Plessis, Sugiyama: Positive-Unlabeled Learning with Non-Negative Risk Estimator. NeurIPS 2017.

    Examples
    --------
    >>> from pulab import NNPUClassifier
    >>> from pulab.datasets import load_digits, make_pu
    >>> digits = load_digits(positive=(0,))
    >>> pu = make_pu(digits.X_train, digits.y_train, n_labeled=50, random_state=0)
    >>> clf = NNPUClassifier(prior=pu.prior, random_state=0).fit(pu.X, pu.s)
    >>> clf.score(digits.X_test, digits.y_test) > 0.9
    True
    """

    _takes_shards = True

    prior: float | str | None = None
    loss: str = "sigmoid"
    beta: float = 0.0
    gamma: float = 1.0

    def _check_params(self) -> None:
        check_choice("loss", self.loss, LOSSES)
        check_number("beta", self.beta, low=0)
        check_number("gamma", self.gamma, low=0, high=1)

    def _objective(self, task: Task, schedule: Schedule) -> Objective:
        return RiskObjective(nnpu_risk, self.loss, task.numbers(prior=task.prior, beta=self.beta, gamma=self.gamma))


class PNClassifier(WeightedNetwork):
    """Supervised learning: the oracle that PU methods are measured against. Here ``y`` is the truth.

    Parameters
    ----------
    prior : float in (0, 1) or None
        Share of positives in the population. None: as counted in ``y``, by weight if there are weights.
    loss : {"sigmoid", "logistic"}
        Loss in training. The best epoch is always chosen by the risk with the sigmoid loss.
    {shared}

    Attributes
    ----------
    {attributes}

    Examples
    --------
    >>> from pulab import PNClassifier
    >>> from pulab.datasets import load_digits
    >>> digits = load_digits(positive=(0,))
    >>> clf = PNClassifier(random_state=0).fit(digits.X_train, digits.y_train)
    >>> clf.score(digits.X_test, digits.y_test) > 0.95
    True
    """

    _u_is_population = False  # y is the truth: a row that is not positive is negative, in both scenarios

    prior: float | str | None = None
    loss: str = "logistic"
    calibration: str | bool = False  # no PU data to do it by

    def _check_params(self) -> None:
        check_choice("loss", self.loss, LOSSES)

    def _resolve_prior(
        self, prior: Any, X: Any, positive: NDArray[np.bool_], seed: int, weight: AnyArray | None
    ) -> tuple[float, tuple[float, float]]:
        by_labels = prior is None or (isinstance(prior, str) and prior == "estimate")
        share = float(np.average(positive, weights=weight)) if by_labels else check_prior(prior)
        return share, (share, share)

    def _objective(self, task: Task, schedule: Schedule) -> Objective:
        return RiskObjective(pn_risk, self.loss, task.numbers(prior=task.prior))


class NaivePUClassifier(PNClassifier):
    """The baseline that takes every unlabeled row for a negative: supervised learning on PU labels.

    It shows what a PU method has to beat.

    Parameters
    ----------
    prior : float in (0, 1) or None
        Weight of the labelled positives against the unlabeled rows. None: their share of the rows, as in an ordinary
        fit to the labels.
    loss : {"sigmoid", "logistic"}
        Loss in training. The best epoch is always chosen by the risk with the sigmoid loss.
    {shared}

    Attributes
    ----------
    {attributes}

    Examples
    --------
    >>> from pulab import NaivePUClassifier
    >>> from pulab.datasets import load_digits, make_pu
    >>> digits = load_digits(positive=(0,))
    >>> pu = make_pu(digits.X_train, digits.y_train, n_labeled=50, random_state=0)
    >>> clf = NaivePUClassifier(random_state=0).fit(pu.X, pu.s)
    >>> print(clf.predict(digits.X_test).mean() < pu.prior)
    True
    """
