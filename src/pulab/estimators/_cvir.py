"""CVIR: the best rows of U count as positives and are dropped. TEDⁿ: their share is estimated in turns."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pulab._validation import AnyArray, check_number
from pulab.errors import InputError, warn
from pulab.estimators._base import BasePUClassifier, Task
from pulab.losses import cvir_risk, lee_liu_risk, nnpu_risk
from pulab.priors import Sample, bbe, limits
from pulab.training import Batch, Objective, Schedule, Step, Trained, predict_logits

IN_TURNS = "ted-n"


class CVIRObjective(Objective):
    """Cross-entropy of P against the rows of U that are kept. Before the warm start ends, all are kept.

    A row's score is its logit in the pass that trained on it, so ranking costs no pass of its own. The authors pass U
    once more at the beginning of each epoch.
    """

    def __init__(self, score: Tensor, warm_start: int, in_turns: bool, scenario: str, prior: Tensor) -> None:
        super().__init__(prior=prior)
        self._warm_start, self._in_turns, self._scenario = warm_start, in_turns, scenario
        self.memory = {"score": score, "kept": torch.ones_like(score), "prior": prior.clone()}

    def begin_epoch(self, epoch: int) -> None:
        if epoch > self._warm_start:
            score, n = self.memory["score"], self.memory["score"].shape[1]
            rank = score.argsort(dim=1, descending=True, stable=True).argsort(dim=1)  # the highest score has rank 0
            n_dropped = (self.memory["prior"] * n).round().clamp_max(n - 1)
            self.memory["kept"].copy_(rank >= n_dropped[:, None])

    def step(self, batch: Batch) -> Step:
        g, rows = batch.logits(), batch.positions["u"]
        self.memory["score"].scatter_(1, rows, g["u"].detach())
        loss = cvir_risk(g["p"], g["u"], self.memory["kept"].gather(1, rows))
        return Step(loss, {"loss": loss})

    def end_epoch(self, epoch: int) -> Mapping[str, Tensor]:
        return {"dropped": 1 - self.memory["kept"].mean(-1)}

    def validation_risk(self, g: Mapping[str, Tensor]) -> Tensor:
        """In turns, the held-out rows also give the share that the next epoch drops."""
        if not self._in_turns:
            return nnpu_risk(g["p"], g["u"], self.numbers["prior"]).value
        shares = [_share(_sample(p, u, self._scenario), self._scenario) for p, u in zip(g["p"], g["u"], strict=True)]
        self.memory["prior"].copy_(torch.tensor(shares, dtype=g["p"].dtype))
        return lee_liu_risk(g["p"], g["u"])


class CVIRClassifier(BasePUClassifier):
    """Conditional value ignoring risk: drop as many of the best rows of U as are positive, learn from the rest.

    In the warm start the network learns to tell P from U. Then, before each epoch, the rows of U are ranked by their
    last scores. The highest ones, a share of the prior, are dropped. The loss is the logistic loss of P and of the
    other rows of U as negatives, half and half.

    With ``prior="ted-n"`` nobody has to know the prior: after each epoch it is estimated by best bin estimation on the
    held-out rows, and the next epoch drops this share (TEDⁿ: transform, estimate, discard).

    The authors use SGD with a learning rate of 0.1, a weight decay of 5e-4, batches of 200 rows of P and of U, a warm
    start of 100 epochs for TEDⁿ and none for CVIR, then 2,000 epochs, of which they keep the last. Here the epoch with
    the lowest held-out risk is kept: nnPU's, and for TEDⁿ one that needs no prior, Lee and Liu's criterion.

    Parameters
    ----------
    prior : float in (0, 1), "ted-n", "estimate" or None
        Share of positives in the population: in U for case-control data, in all rows for a single sample. "ted-n":
        estimated after each epoch, which needs held-out rows. "estimate": estimated once, before the training, by
        :func:`pulab.priors.estimate_prior`. None: 0.5, with a warning.
    warm_start_epochs : int or None
        Epochs before rows are dropped. None: a fifth of ``epochs``.
    {shared}

    Attributes
    ----------
    {attributes}

    Notes
    -----
    With ``prior="ted-n"``, ``prior_`` is what the kept network says about the held-out rows, and ``prior_interval_`` is
    the range that its scores tell. ``history_`` has the share of U that was dropped in each epoch, ``dropped``.

    References
    ----------
    Garg, Wu, Smola, Balakrishnan, Lipton: Mixture Proportion Estimation and PU Learning: A Modern Approach.
    NeurIPS 2021.

    Examples
    --------
    >>> from pulab import CVIRClassifier
    >>> from pulab.datasets import load_digits, make_pu
    >>> digits = load_digits(positive=(0,))
    >>> pu = make_pu(digits.X_train, digits.y_train, n_labeled=50, random_state=0)
    >>> clf = CVIRClassifier(prior=pu.prior, random_state=0).fit(pu.X, pu.s)
    >>> clf.score(digits.X_test, digits.y_test) > 0.9
    True
    """

    prior: float | str | None = IN_TURNS
    warm_start_epochs: int | None = None

    @property
    def _in_turns(self) -> bool:
        return isinstance(self.prior, str) and self.prior == IN_TURNS

    def _check_params(self) -> None:
        if self.warm_start_epochs is not None:
            check_number("warm_start_epochs", self.warm_start_epochs, low=1, whole=True)

    def _resolve_prior(
        self, prior: Any, X: Any, positive: NDArray[np.bool_], seed: int, weight: AnyArray | None
    ) -> tuple[float, tuple[float, float]]:
        if self._in_turns:
            return math.nan, (math.nan, math.nan)  # `_finish` tells
        return super()._resolve_prior(prior, X, positive, seed, weight)

    def _can_be_calibrated(self) -> bool:
        return not self._in_turns and super()._can_be_calibrated()

    def _objective(self, task: Task, schedule: Schedule) -> CVIRObjective:
        if self._in_turns and task.validation is None:
            raise InputError(
                "prior='ted-n' estimates the prior on held-out rows, but there are none. Pass X_val and y_val, or a "
                "validation_fraction above 0."
            )
        warm_start = self.warm_start_epochs or max(1, round(schedule.epochs / 5))
        if schedule.epochs <= warm_start:
            warn(f"no row is ever dropped: the warm start has {warm_start} of {schedule.epochs} epochs.")
        return CVIRObjective(
            task.per_row(0.0), warm_start, self._in_turns, self.scenario, **task.numbers(prior=task.prior)
        )

    def _finish(self, task: Task, trained: Trained) -> None:
        super()._finish(task, trained)
        if self._in_turns and task.validation is not None:
            g = {name: predict_logits(self.module_, s.rows, s.index[0]) for name, s in task.validation.items()}
            sample = _sample(g["p"], g["u"], self.scenario)
            self.prior_ = _share(sample, self.scenario)
            low, high, _ = limits(sample, self.scenario)
            self.prior_interval_ = min(low, self.prior_), max(high, self.prior_)


def _sample(p: Tensor, population: Tensor, scenario: str) -> Sample:
    """The scores of P and of U alone. In a single sample the population begins with the labelled rows."""
    u = population[len(p) :] if scenario == "single-sample" else population
    return Sample(p.double().cpu().numpy(), u.double().cpu().numpy())


def _share(sample: Sample, scenario: str) -> float:
    """The share of positives in the population, by best bin estimation."""
    share, n_p, n_u = bbe(sample), len(sample.positive), len(sample.unlabeled)
    return (n_p + share * n_u) / (n_p + n_u) if scenario == "single-sample" else share
