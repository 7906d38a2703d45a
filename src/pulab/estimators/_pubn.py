"""PUbN: learn which rows look like labelled ones, then take the others for weighted negatives."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from pulab._validation import check_number, check_rows, hold_out
from pulab.errors import InputError, warn
from pulab.estimators._base import BasePUClassifier, Stages, Task, make_streams
from pulab.losses import (
    logistic_loss,
    nnpu_risk,
    pubn_negative,
    pubn_positive,
    pubn_sigma_risk,
    pubn_stand_ins,
    pubn_unlabeled,
    upu_risk,
)
from pulab.training import Batch, Objective, Step, predict_logits


class SigmaObjective(Objective):
    """First stage: σ(x), the probability that a row is of the labelled kind."""

    def __init__(self, prior: Tensor, rho: Tensor) -> None:
        super().__init__(prior=prior, rho=rho)

    def step(self, batch: Batch) -> Step:
        g = batch.logits()
        if "n" in g:
            risk = pubn_sigma_risk(g["p"], g["u"], g["n"], self.numbers["prior"], self.numbers["rho"])
        else:
            risk = nnpu_risk(g["p"], g["u"], self.numbers["prior"], logistic_loss)
        return Step(risk.objective, {"loss": risk.value})

    def validation_risk(self, g: Mapping[str, Tensor]) -> Tensor:
        """The squared distance of σ to the truth, up to a constant."""
        sigma = {name: torch.sigmoid(values) for name, values in g.items()}
        risk = (sigma["u"] ** 2).mean(-1) - 2 * self.numbers["prior"] * sigma["p"].mean(-1)
        return risk - 2 * self.numbers["rho"] * sigma["n"].mean(-1) if "n" in sigma else risk


class PUbNObjective(Objective):
    """Second stage: rows of U with a low σ are negatives. Labelled rows stand in for the other negatives.

    ``sigma`` holds σ of every row of a stream, a line per model.
    """

    def __init__(self, sigma: Mapping[str, Tensor], eta: Tensor, prior: Tensor, rho: Tensor) -> None:
        super().__init__(eta=eta[:, None], prior=prior, rho=rho, **{f"sigma_{name}": s for name, s in sigma.items()})

    def step(self, batch: Batch) -> Step:
        g, n = batch.logits(), self.numbers
        positions = batch.positions.items()
        sigma = {name: batch.whole(name, n[f"sigma_{name}"].gather(1, rows)) for name, rows in positions}
        loss = n["prior"] * pubn_positive(g["p"], sigma["p"], n["eta"]).mean(-1)
        loss = loss + pubn_unlabeled(g["u"], sigma["u"], n["eta"]).mean(-1)
        if "n" in g:
            loss = loss + n["rho"] * pubn_negative(g["n"], sigma["n"], n["eta"]).mean(-1)
        return Step(loss, {"loss": loss})

    def validation_risk(self, g: Mapping[str, Tensor]) -> Tensor:
        return upu_risk(g["p"], g["u"], self.numbers["prior"]).value


class PUbNClassifier(BasePUClassifier):
    """``PUbN\\N``, and PUbN where some (biased) negatives are known: ``fit(X, y, X_negative=…)``.

    A first network learns σ(x), the probability that a row is of the labelled kind. Unlabeled rows with a low σ are
    negatives, weighted by 1 − σ. A second network is trained on these and on the labelled rows.

    Parameters
    ----------
    {prior}
    tau : float in (0, 1]
        Share of the expected negatives in U that is taken from the rows with the lowest σ.
    rho : float or None
        P(negative, and of the kind that X_negative is drawn from) in the population. Only needed with ``X_negative``.
    lr_sigma : float or None
        Learning rate of the first network. None: the same as ``lr``.
    {shared}

    Attributes
    ----------
    sigma_module_, sigma_history_
        The first network and its history.
    eta_ : float
        Rows of U with a higher σ are not taken for negatives.
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
    >>> clf = PUbNClassifier(prior=pu.prior, epochs=30, random_state=0).fit(pu.X, pu.s)
    >>> clf.score(digits.X_test, digits.y_test) > 0.9
    True
    """

    _n_trainings = 2
    _takes_shards = True

    prior: float | str | None = None
    tau: float = 0.9
    rho: float | None = None
    lr_sigma: float | None = None

    def _check_params(self) -> None:
        check_number("tau", self.tau, low=0, high=1, ends="(]")
        if self.rho is not None:
            check_number("rho", self.rho, low=0, high=1, ends="()")
        if self.lr_sigma is not None:
            check_number("lr_sigma", self.lr_sigma, low=0, ends="(]")

    def fit(self, X: Any, y: Any, *, X_negative: Any = None, X_val: Any = None, y_val: Any = None) -> Self:
        """Learn from positive and unlabeled rows, and from known negatives if there are any.

        Parameters
        ----------
        X, y, X_val, y_val
            As for every method.
        X_negative : like X, optional
            Known negatives, which need not be representative. ``validation_fraction`` of them is held out.
        """
        return self._fit({"X": X, "y": y, "X_val": X_val, "y_val": y_val, "X_negative": X_negative})

    def _prepare(  # type: ignore[override]  # it takes no weights
        self, X: Any, y: Any, X_val: Any = None, y_val: Any = None, X_negative: Any = None
    ) -> Task:
        task = super()._prepare(X, y, X_val, y_val)
        return task if X_negative is None else self._with_negatives(task, X_negative)

    def _with_negatives(self, task: Task, X_negative: Any) -> Task:
        if self.rho is None or task.prior + self.rho >= 1:
            raise InputError(
                f"with X_negative, rho must be a number below 1 - prior = {1 - task.prior:g}, got {self.rho!r}. "
                "Pass the share of the population that is of the kind X_negative is drawn from."
            )
        X_negative = check_rows(self, X_negative, reset=False)
        rows = self._rows(X_negative, task.dtype, task.device)
        index = np.arange(len(rows))
        streams, validation = task.streams, task.validation
        if validation is not None:
            if self.validation_fraction == 0:
                raise InputError(
                    "with X_negative and X_val, validation_fraction must be above 0, got 0. "
                    "The risk that chooses σ needs held-out rows of X_negative."
                )
            index, held_out = hold_out(index, self.validation_fraction, np.random.default_rng(task.seeds["split-n"]))
            validation = validation | make_streams(rows, {"n": held_out}, task.device)
        return replace(task, streams=streams | make_streams(rows, {"n": index}, task.device), validation=validation)

    def _stages(self, task: Task) -> Stages:
        rho = self.rho if self.rho is not None and "n" in task.streams else 0.0
        numbers = task.numbers(prior=task.prior, rho=rho)
        first = yield self._job(task, SigmaObjective(**numbers), self._schedule(task, self.lr_sigma), stage="σ")
        self.sigma_module_, self.sigma_history_ = first.module, first.history
        sigma = {
            name: torch.sigmoid(predict_logits(first.module, stream.rows, stream.index[0]))[None]
            for name, stream in task.streams.items()
        }
        share = int((1 - task.prior - rho) * self.tau * 100)  # whole percents, as the authors' code has it
        self.eta_ = float(np.percentile(task.streams["u"].whole(sigma["u"]).cpu().numpy(), share))
        _check_stand_ins(task.prior * pubn_stand_ins(task.streams["p"].whole(sigma["p"]), self.eta_).double())
        numbers |= task.numbers(eta=self.eta_)
        second = yield self._job(task, PUbNObjective(sigma, **numbers), self._schedule(task))
        self._finish(task, second)


def _check_stand_ins(shares: Tensor) -> None:
    """Warn if labelled rows stand in for more negatives than there can be. One or two rows then rule the training."""
    if shares.mean() > 1:
        warn(
            f"as negatives, the labelled rows weigh {shares.mean():.3g} times the population, but less than 1 is "
            f"possible. A single row weighs {shares.max() / shares.numel():.3g}: the first network is too sure of it. "
            "Raise tau, or lower lr_sigma or epochs."
        )
