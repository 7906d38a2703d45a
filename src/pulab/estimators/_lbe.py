"""LBE: a classifier and the chance of being labelled, estimated together; for labels that were not given at random."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from pulab._validation import AnyArray, check_fitted, check_number
from pulab.errors import warn
from pulab.estimators._base import BasePUClassifier, Stages, Task
from pulab.losses import labelling_risk, logistic_loss, posterior_of_unlabeled
from pulab.nets import logits
from pulab.training import Batch, Objective, Step, Trained


class TwoNetworks(nn.Module):
    """Two logits per row: of being positive, and of a positive's being labelled."""

    def __init__(self, positive: nn.Module, labelled: nn.Module) -> None:
        super().__init__()
        self.positive, self.labelled = positive, labelled

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([logits(self.positive, x), logits(self.labelled, x)], dim=1)


class LBEObjective(Objective):
    """Expectation-maximisation. The E-step takes what both networks said in the pass that trained on a row.

    ``share`` is the share of labelled rows among all rows.
    """

    width = 2

    def __init__(self, posterior: Tensor, warm_start: int, keep: float, share: Tensor) -> None:
        super().__init__(share=share)
        self._warm_start, self._keep = warm_start, keep
        self.memory = {"posterior": posterior, "next": posterior.clone(), "warm": torch.ones_like(share)}

    def begin_epoch(self, epoch: int) -> None:
        """The E-step: how likely each unlabeled row is positive."""
        if epoch > self._warm_start:
            self.memory["warm"].fill_(0.0)
            self.memory["posterior"].copy_(self.memory["next"])

    def step(self, batch: Batch) -> Step:
        out, rows = batch.logits(), batch.positions["u"]
        h, eta = ({name: z[..., i] for name, z in out.items()} for i in (0, 1))
        self.memory["next"].scatter_(1, rows, posterior_of_unlabeled(h["u"], eta["u"]).detach())
        batch.positive_share = torch.sigmoid(h["u"].detach()).mean(-1)
        # Warm start: who is labelled? For h both kinds weigh the same, so that sure positives begin above one half.
        y, share = self.memory["posterior"].gather(1, rows), self.numbers["share"]
        of_h = (logistic_loss(h["p"]).mean(-1) + logistic_loss(-h["u"]).mean(-1)) / 2
        of_eta = share * logistic_loss(eta["p"]).mean(-1) + (1 - share) * logistic_loss(-eta["u"]).mean(-1)
        classified = self._classified(h, y)
        labelled = share * logistic_loss(eta["p"]).mean(-1) + (1 - share) * (y * logistic_loss(-eta["u"])).mean(-1)
        warm = self.memory["warm"] > 0
        terms = {
            "classifier": torch.where(warm, of_h, classified),
            "labelling": torch.where(warm, of_eta, labelled),
        }
        loss = terms["classifier"] + terms["labelling"]
        return Step(loss, {"loss": loss, **terms})

    def _classified(self, h: Mapping[str, Tensor], y: Tensor) -> Tensor:
        """The M-step of the classifier: cross-entropy to the posteriors, without the rows that fit worst."""
        of_u = y * logistic_loss(h["u"]) + (1 - y) * logistic_loss(-h["u"])
        losses = torch.cat([logistic_loss(h["p"]), of_u], dim=1)
        share = self.numbers["share"][:, None]
        weights = torch.cat(
            [(share / h["p"].shape[1]).expand_as(h["p"]), ((1 - share) / h["u"].shape[1]).expand_as(h["u"])], dim=1
        )
        rank = losses.detach().argsort(dim=1, stable=True).argsort(dim=1)
        weights = weights * (rank < max(1, int(self._keep * losses.shape[1])))
        return (weights * losses).sum(-1) / weights.sum(-1)

    def validation_risk(self, g: Mapping[str, Tensor]) -> Tensor:
        p, u = g["p"], g["u"]
        return labelling_risk(p[..., 0], p[..., 1], u[..., 0], u[..., 1], self.numbers["share"])


class LBEClassifier(BasePUClassifier):
    """Labelling bias estimation (LBE): labels may depend on the row. Needs no class prior.

    A positive row x is labelled with the chance η(x), a negative one never. Two networks are learned by
    expectation-maximisation: h(x), the chance of being positive, and η(x). The E-step says how likely an unlabeled row
    is positive: h (1 − η) / (1 − h η). The M-step fits h to that, without the rows that fit worst, and η to the labels
    of the rows that are likely positive. In the warm start both learn to tell labelled from unlabeled rows: h with the
    same weight for both, η with the weights that they have.

    P and U are taken for one sample, whatever the scenario is: h is about labelled and unlabeled rows together.

    **h and η are not identified without further assumptions.** The data tell the product h · η alone: a rare kind of
    row may be negative, or positive and never labelled. The start and the networks decide between the two. A linear
    ``module`` for both is an assumption, too. Where you know the prior, compare it with the mean of ``predict_proba``.

    The authors use Adam, a warm start of 100 steps and 100 E-steps, each with ten steps on a tenth of all rows, and
    keep four fifths of the rows in the M-step. Their η also begins with the same weight for both. With few labels, the
    first E-step then puts most positives below one half, where they stay (half of MNIST, a tenth of it labelled: all
    rows were called negative). Here an E-step comes once an epoch, and the epoch is kept whose networks
    predict best which held-out rows are labelled.

    Parameters
    ----------
    warm_start_epochs : int or None
        Epochs before the first E-step. None: a twentieth of ``epochs``.
    keep : float in (0, 1]
        Share of the rows of a batch from which h learns: those that fit best.
    {shared}

    Attributes
    ----------
    labelling_module_ : nn.Module
        The network of η. ``propensity`` uses it.
    {attributes without prior}

    References
    ----------
    Gong, Wang, Liu, Han, You, Yang, Tao: Instance-Dependent Positive and Unlabeled Learning with Labeling Bias
    Estimation. IEEE Transactions on Pattern Analysis and Machine Intelligence 2021.

    Examples
    --------
    >>> from pulab import LBEClassifier
    >>> from pulab.datasets import load_digits, make_pu
    >>> digits = load_digits(positive=(0,))
    >>> pu = make_pu(digits.X_train, digits.y_train, n_labeled=50, scenario="single-sample", random_state=0)
    >>> clf = LBEClassifier(scenario="single-sample", epochs=30, random_state=0).fit(pu.X, pu.s)
    >>> clf.score(digits.X_test, digits.y_test) > 0.9
    True
    """

    _u_is_population = False  # labelled rows are the other part of the one sample

    warm_start_epochs: int | None = None
    keep: float = 0.8

    def _check_params(self) -> None:
        if self.warm_start_epochs is not None:
            check_number("warm_start_epochs", self.warm_start_epochs, low=1, whole=True)
        check_number("keep", self.keep, low=0, high=1, ends="(]")

    def _stages(self, task: Task) -> Stages:
        schedule = self._schedule(task)
        warm_start = self.warm_start_epochs or max(1, round(schedule.epochs / 20))
        if schedule.epochs <= warm_start:
            warn(f"there is no E-step: the warm start has {warm_start} of {schedule.epochs} epochs.")
        n_p, n_u = (len(task.streams[name]) for name in ("p", "u"))
        objective = LBEObjective(task.per_row(0.0), warm_start, self.keep, **task.numbers(share=n_p / (n_p + n_u)))
        job = self._job(task, objective, schedule)
        both = TwoNetworks(job.module, self._new_module(task, "labelling"))
        self._finish(task, (yield replace(job, module=both)))

    def _finish(self, task: Task, trained: Trained) -> None:
        super()._finish(task, trained)
        both = trained.module
        self.module_, self.labelling_module_ = both.get_submodule("positive"), both.get_submodule("labelled")

    def propensity(self, X: Any) -> AnyArray:
        """η(x): the chance that a row would be labelled if it is positive."""
        check_fitted(self, "labelling_module_")
        return torch.sigmoid(torch.from_numpy(self._logits(self.labelling_module_, X))).numpy()
