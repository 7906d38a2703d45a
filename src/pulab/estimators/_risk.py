"""Methods that minimise a risk: the supervised oracle, the naive baseline, uPU and nnPU."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pulab._validation import check_choice, check_number, check_prior
from pulab.estimators._base import BasePUClassifier, ModuleLike, Task
from pulab.losses import LOSSES, Risk, nnpu_risk, pn_risk, upu_risk
from pulab.training import Record, Schedule, Step

RiskFunction = Callable[[Tensor, Tensor], Risk]


class RiskObjective:
    """Minimise one risk of P and U logits; choose the epoch by another."""

    def __init__(self, train: RiskFunction, validate: RiskFunction) -> None:
        self._train, self._validate = train, validate

    def begin_epoch(self, epoch: int) -> None:
        """Nothing is kept from one epoch to the next."""

    def step(self, g: Mapping[str, Tensor], positions: Mapping[str, Tensor]) -> Step:
        risk = self._train(g["p"], g["u"])
        return Step(risk.objective, {"loss": risk.value})

    def end_epoch(self, epoch: int) -> Record:
        return {}

    def validation_risk(self, g: Mapping[str, Tensor]) -> Tensor:
        return self._validate(g["p"], g["u"]).value


class UPUClassifier(BasePUClassifier):
    """Unbiased PU learning: the risk of a classifier, estimated without bias from positive and unlabeled rows.

    A flexible network can drive the estimate below zero by memorising P; :class:`NNPUClassifier` cannot.

    Parameters
    ----------
    {prior}
    loss : {"sigmoid", "logistic"}
        Loss in training. The epoch is always chosen by the sigmoid-loss risk.
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

    def __init__(
        self,
        *,
        prior: float = 0.5,
        loss: str = "sigmoid",
        scenario: str = "case-control",
        module: ModuleLike = None,
        epochs: int | None = None,
        lr: float = 1e-3,
        lr_milestones: Sequence[int] = (),
        weight_decay: float = 1e-4,
        batch_size_u: int | None = None,
        batch_size_p: int | None = None,
        validation_fraction: float = 0.2,
        dtype: str | torch.dtype = "float32",
        device: str | torch.device = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            prior=prior,
            scenario=scenario,
            module=module,
            epochs=epochs,
            lr=lr,
            lr_milestones=lr_milestones,
            weight_decay=weight_decay,
            batch_size_u=batch_size_u,
            batch_size_p=batch_size_p,
            validation_fraction=validation_fraction,
            dtype=dtype,
            device=device,
            random_state=random_state,
            verbose=verbose,
        )
        self.loss = loss

    def _check_params(self) -> None:
        check_choice("loss", self.loss, LOSSES)

    def _objective(self, task: Task, schedule: Schedule) -> RiskObjective:
        train = partial(upu_risk, prior=task.prior, loss=LOSSES[self.loss])
        return RiskObjective(train, validate=partial(upu_risk, prior=task.prior))


class NNPUClassifier(BasePUClassifier):
    """Non-negative PU learning: unbiased PU risk whose negative part is not allowed to fall below zero.

    Parameters
    ----------
    {prior}
    loss : {"sigmoid", "logistic"}
        Loss in training. The epoch is always chosen by the sigmoid-loss risk.
    beta, gamma : float, default 0 and 1
        Where the negative part of a batch falls below -beta, the step climbs back along it, scaled by gamma.
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

    def __init__(
        self,
        *,
        prior: float = 0.5,
        loss: str = "sigmoid",
        beta: float = 0.0,
        gamma: float = 1.0,
        scenario: str = "case-control",
        module: ModuleLike = None,
        epochs: int | None = None,
        lr: float = 1e-3,
        lr_milestones: Sequence[int] = (),
        weight_decay: float = 1e-4,
        batch_size_u: int | None = None,
        batch_size_p: int | None = None,
        validation_fraction: float = 0.2,
        dtype: str | torch.dtype = "float32",
        device: str | torch.device = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            prior=prior,
            scenario=scenario,
            module=module,
            epochs=epochs,
            lr=lr,
            lr_milestones=lr_milestones,
            weight_decay=weight_decay,
            batch_size_u=batch_size_u,
            batch_size_p=batch_size_p,
            validation_fraction=validation_fraction,
            dtype=dtype,
            device=device,
            random_state=random_state,
            verbose=verbose,
        )
        self.loss = loss
        self.beta = beta
        self.gamma = gamma

    def _check_params(self) -> None:
        check_choice("loss", self.loss, LOSSES)
        check_number("beta", self.beta, low=0)
        check_number("gamma", self.gamma, low=0, high=1)

    def _objective(self, task: Task, schedule: Schedule) -> RiskObjective:
        train = partial(nnpu_risk, prior=task.prior, loss=LOSSES[self.loss], beta=self.beta, gamma=self.gamma)
        return RiskObjective(train, validate=partial(nnpu_risk, prior=task.prior))


class PNClassifier(BasePUClassifier):
    """Supervised learning: the oracle that PU methods are measured against. Here ``y`` is the truth.

    Parameters
    ----------
    prior : float in (0, 1) or None
        Share of positives in the population. None: as counted in the rows that are trained on.
    loss : {"sigmoid", "logistic"}
        Loss in training. The epoch is always chosen by the sigmoid-loss risk.
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

    _u_is_population = False  # y is the truth: what is not positive is negative, in either scenario

    def __init__(
        self,
        *,
        prior: float | None = None,
        loss: str = "logistic",
        scenario: str = "case-control",
        module: ModuleLike = None,
        epochs: int | None = None,
        lr: float = 1e-3,
        lr_milestones: Sequence[int] = (),
        weight_decay: float = 1e-4,
        batch_size_u: int | None = None,
        batch_size_p: int | None = None,
        validation_fraction: float = 0.2,
        dtype: str | torch.dtype = "float32",
        device: str | torch.device = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            prior=prior,
            scenario=scenario,
            module=module,
            epochs=epochs,
            lr=lr,
            lr_milestones=lr_milestones,
            weight_decay=weight_decay,
            batch_size_u=batch_size_u,
            batch_size_p=batch_size_p,
            validation_fraction=validation_fraction,
            dtype=dtype,
            device=device,
            random_state=random_state,
            verbose=verbose,
        )
        self.loss = loss

    def _check_params(self) -> None:
        check_choice("loss", self.loss, LOSSES)

    def _prior(self, positive: NDArray[np.bool_]) -> float:
        return float(positive.mean()) if self.prior is None else check_prior(self.prior)

    def _objective(self, task: Task, schedule: Schedule) -> RiskObjective:
        train = partial(pn_risk, prior=task.prior, loss=LOSSES[self.loss])
        return RiskObjective(train, validate=partial(pn_risk, prior=task.prior))


class NaivePUClassifier(PNClassifier):
    """The baseline that takes every unlabeled row for a negative: supervised learning on PU labels.

    Its only use is to show what a PU method has to beat.

    Parameters
    ----------
    prior : float in (0, 1) or None
        Weight of the labelled positives against the unlabeled rows. None: their share of the rows, as for anyone who
        fits a classifier to the labels as they are.
    loss : {"sigmoid", "logistic"}
        Loss in training. The epoch is always chosen by the sigmoid-loss risk.
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
