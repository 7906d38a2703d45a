"""Imbalanced nnPU: the risk of nnPU in a population with another prior."""

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from pulab._validation import AnyArray, check_choice, check_number
from pulab.errors import InputError
from pulab.estimators._base import Task
from pulab.estimators._risk import NNPUClassifier, RiskObjective
from pulab.losses import imbalanced_nnpu_risk
from pulab.training import Objective, Schedule, Trained

DECISIONS = ("balanced", "prior")


class ImbalancedObjective(RiskObjective):
    """The epoch is chosen by the risk of the balanced population."""

    def validation_risk(self, g: Mapping[str, Tensor]) -> Tensor:
        n = self.numbers
        return imbalanced_nnpu_risk(g["p"], g["u"], n["prior"], n["balanced_prior"]).value


class ImbalancedNNPUClassifier(NNPUClassifier):
    """Imbalanced nnPU: the risk of nnPU, weighted as if the population had another prior, one half by default.

    The risk is π' E_P ℓ(g) + (1 − π') / (1 − π) · max(0, E_U ℓ(−g) − π E_P ℓ(−g)), where π is the prior and π' is
    ``balanced_prior``. Rare positives weigh as much in it as the negatives. The cut at 0 is the best one in a
    population with the prior π': at one half it is that for balanced accuracy, and more rows than the prior says are
    called positive.

    Parameters
    ----------
    {prior}
    balanced_prior : float in (0, 1)
        The prior of the population that the network learns for.
    decide : {"balanced", "prior"}
        "balanced": predictions are about the population with ``balanced_prior``. "prior": they are about that with
        ``prior``. Logits are then moved by the difference of the log odds of the two priors. This needs
        ``loss="logistic"``, whose logits are log odds.
    loss : {"sigmoid", "logistic"}
        Loss in training. The best epoch is always chosen by the risk with the sigmoid loss.
    beta, gamma : float, default 0 and 1
        If the weighted negative part of a batch falls below -beta, the step goes back along it, scaled by gamma.
    {shared}

    Attributes
    ----------
    threshold_ : float
        The logit from which ``decision_function`` counts: 0, or with ``decide="prior"`` the difference of log odds.
    {attributes}

    References
    ----------
    Su, Chen, Xu: Positive-Unlabeled Learning from Imbalanced Data. IJCAI 2021.

    Examples
    --------
    >>> from pulab import ImbalancedNNPUClassifier
    >>> from pulab.datasets import load_digits, make_pu
    >>> digits = load_digits(positive=(0,))
    >>> pu = make_pu(digits.X_train, digits.y_train, n_labeled=50, random_state=0)
    >>> clf = ImbalancedNNPUClassifier(prior=pu.prior, random_state=0).fit(pu.X, pu.s)
    >>> clf.score(digits.X_test, digits.y_test) > 0.9
    True
    """

    balanced_prior: float = 0.5
    decide: str = "balanced"

    def _check_params(self) -> None:
        super()._check_params()
        check_number("balanced_prior", self.balanced_prior, low=0, high=1, ends="()")
        check_choice("decide", self.decide, DECISIONS)
        if self.decide == "prior" and self.loss != "logistic":
            raise InputError(
                f"decide='prior' needs loss='logistic', whose logits are log odds, got loss={self.loss!r}. "
                "Pass loss='logistic', or decide='balanced'."
            )

    def _can_be_calibrated(self) -> bool:
        return False  # `decide` says where the cut lies

    def _objective(self, task: Task, schedule: Schedule) -> Objective:
        numbers = task.numbers(prior=task.prior, balanced_prior=self.balanced_prior, beta=self.beta, gamma=self.gamma)
        return ImbalancedObjective(imbalanced_nnpu_risk, self.loss, numbers)

    def _finish(self, task: Task, trained: Trained) -> None:
        super()._finish(task, trained)
        to_prior = self.decide == "prior"
        self.threshold_ = _log_odds(self.balanced_prior) - _log_odds(task.prior) if to_prior else 0.0

    def decision_function(self, X: Any) -> AnyArray:
        return super().decision_function(X) - self.threshold_


def _log_odds(p: float) -> float:
    return math.log(p) - math.log1p(-p)
