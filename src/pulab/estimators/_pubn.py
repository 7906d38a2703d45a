"""PUbN: learn which rows look labelled at all, then take the others for negatives, weighted."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from pulab._validation import check_number, check_rows, hold_out
from pulab.errors import InputError
from pulab.estimators._base import BasePUClassifier, ModuleLike, Task
from pulab.losses import (
    logistic_loss,
    nnpu_risk,
    pubn_negative,
    pubn_positive,
    pubn_sigma_risk,
    pubn_unlabeled,
    upu_risk,
)
from pulab.training import Record, Step, Stream, predict_logits


class SigmaObjective:
    """First stage: σ(x), the probability that a row is of a kind that gets labelled."""

    def __init__(self, prior: float, rho: float) -> None:
        self._prior, self._rho = prior, rho

    def begin_epoch(self, epoch: int) -> None:
        """Nothing is kept from one epoch to the next."""

    def step(self, g: Mapping[str, Tensor], positions: Mapping[str, Tensor]) -> Step:
        if "n" in g:
            risk = pubn_sigma_risk(g["p"], g["u"], g["n"], self._prior, self._rho)
        else:
            risk = nnpu_risk(g["p"], g["u"], self._prior, logistic_loss)
        return Step(risk.objective, {"loss": risk.value})

    def end_epoch(self, epoch: int) -> Record:
        return {}

    def validation_risk(self, g: Mapping[str, Tensor]) -> Tensor:
        """The squared distance of σ to the truth, but for a constant."""
        sigma = {name: torch.sigmoid(values) for name, values in g.items()}
        risk = (sigma["u"] ** 2).mean() - 2 * self._prior * sigma["p"].mean()
        return risk - 2 * self._rho * sigma["n"].mean() if "n" in sigma else risk


class PUbNObjective:
    """Second stage: rows of U that σ finds unlike the labelled ones are negatives; P stands in for the rest."""

    def __init__(self, sigma: Mapping[str, Tensor], eta: float, prior: float, rho: float) -> None:
        self._sigma, self._eta, self._prior, self._rho = sigma, eta, prior, rho

    def begin_epoch(self, epoch: int) -> None:
        """Nothing is kept from one epoch to the next."""

    def step(self, g: Mapping[str, Tensor], positions: Mapping[str, Tensor]) -> Step:
        sigma = {name: self._sigma[name].index_select(0, rows) for name, rows in positions.items()}
        loss = self._prior * pubn_positive(g["p"], sigma["p"], self._eta).mean()
        loss = loss + pubn_unlabeled(g["u"], sigma["u"], self._eta).mean()
        if "n" in g:
            loss = loss + self._rho * pubn_negative(g["n"], sigma["n"], self._eta).mean()
        return Step(loss, {"loss": loss})

    def end_epoch(self, epoch: int) -> Record:
        return {}

    def validation_risk(self, g: Mapping[str, Tensor]) -> Tensor:
        return upu_risk(g["p"], g["u"], self._prior).value


class PUbNClassifier(BasePUClassifier):
    """PUbN\\N, and PUbN where some (biased) negatives are known: ``fit(X, y, X_negative=…)``.

    A first network learns σ(x), the probability that a row is of the labelled kind. Its low end over the unlabeled
    rows are negatives, weighted by 1 − σ; a second network is trained on these and on the labelled rows.

    Parameters
    ----------
    {prior}
    tau : float in (0, 1]
        Which share of the expected negatives in U is taken from σ's low end.
    rho : float
        P(negative, and of the kind that X_negative is drawn from) in the population. Used with ``X_negative`` only.
    lr_sigma : float or None
        Learning rate of the first network. None: as ``lr``.
    {shared}

    Attributes
    ----------
    sigma_module_, sigma_history_
        The first network, and how it was trained.
    eta_ : float
        Rows of U with σ above it are not taken for negatives.
    {attributes}

    References
    ----------
    Hsieh, Niu, Sugiyama: Classification from Positive, Unlabeled and Biased Negative Data. ICML 2019.

    Examples
    --------
    >>> from pulab import PUbNClassifier
    >>> from pulab.datasets import load_digits, make_pu
    >>> digits = load_digits(positive=(0,))
    >>> pu = make_pu(digits.X_train, digits.y_train, n_labeled=50, random_state=0)
    >>> clf = PUbNClassifier(prior=pu.prior, random_state=0).fit(pu.X, pu.s)
    >>> clf.score(digits.X_test, digits.y_test) > 0.9
    True
    """

    def __init__(
        self,
        *,
        prior: float = 0.5,
        tau: float = 0.9,
        rho: float = 0.1,
        lr_sigma: float | None = None,
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
        self.tau = tau
        self.rho = rho
        self.lr_sigma = lr_sigma

    def _check_params(self) -> None:
        check_number("tau", self.tau, low=0, high=1, ends="(]")
        check_number("rho", self.rho, low=0, high=1, ends="()")
        if self.lr_sigma is not None:
            check_number("lr_sigma", self.lr_sigma, low=0, ends="(]")

    def fit(self, X: Any, y: Any, *, X_negative: Any = None, X_val: Any = None, y_val: Any = None) -> Self:
        """Learn from positive and unlabeled rows and, if there are any, from rows that are known to be negative.

        Parameters
        ----------
        X, y, X_val, y_val
            As for every method.
        X_negative : like X, optional
            Known negatives, which need not be representative. ``validation_fraction`` of them is held out.
        """
        task = self._prepare(X, y, X_val, y_val)
        self._run(task if X_negative is None else self._with_negatives(task, X_negative))
        return self

    def _with_negatives(self, task: Task, X_negative: Any) -> Task:
        if task.prior + self.rho >= 1:
            raise InputError(f"prior + rho must be below 1, got {task.prior:g} + {self.rho:g}.")
        X_negative = check_rows(self, X_negative, reset=False)
        rows = self._rows(X_negative, task.dtype, task.device)
        index = np.arange(len(rows))
        held_out = index[:0]
        if task.validation is not None:
            index, held_out = hold_out(index, self.validation_fraction, np.random.default_rng(task.seeds["split-n"]))
        streams = task.streams | {"n": Stream(rows, torch.from_numpy(index).to(task.device))}
        validation = task.validation
        if validation is not None:
            validation = validation | {"n": Stream(rows, torch.from_numpy(held_out).to(task.device))}
        return replace(task, streams=streams, validation=validation)

    def _run(self, task: Task) -> None:
        rho = self.rho if "n" in task.streams else 0.0
        self.sigma_module_, self.sigma_history_, _ = self._train(
            task, SigmaObjective(task.prior, rho), self._schedule(task, self.lr_sigma), stage="σ"
        )
        sigma = {
            name: torch.sigmoid(predict_logits(self.sigma_module_, stream.rows, stream.index))
            for name, stream in task.streams.items()
        }
        share = int((1 - task.prior - rho) * self.tau * 100)  # whole percents, as the authors' code has it
        self.eta_ = float(np.percentile(sigma["u"].cpu().numpy(), share))
        objective = PUbNObjective(sigma, self.eta_, task.prior, rho)
        self.module_, self.history_, self.best_epoch_ = self._train(task, objective, self._schedule(task))
