"""HolisticPU: positives among U are told by the trend of their predictions; then a second network learns from that."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pulab._validation import check_number
from pulab.augment import POLICIES, policy
from pulab.estimators._base import BasePUClassifier, Stages, Task, check_augment
from pulab.estimators._joint import labels_by_row
from pulab.estimators._joint_views import AUTO_VIEWS
from pulab.losses import bernoulli_kl, fixmatch_risk, lee_liu_risk, trend_term
from pulab.training import Augment, Batch, Objective, Record, Step, Trained

STEPS = 30  # of the first training at the full rate. Digits (n_u 1,000): labels 89 % right with 18 to 30, 75 % with 60.


class TrendObjective(Objective):
    """First stage: P against U, and how the prediction of each row of U moves.

    Its "validation set" is U itself: so the loop passes all of U through the teacher after each epoch.
    """

    def __init__(self, before: Tensor, teacher_decay: float, target: Tensor) -> None:
        super().__init__(target=target)
        self.teacher_decay = teacher_decay
        self.memory = {"before": before, "trend": torch.zeros_like(before), "epochs": torch.zeros_like(target)}

    def step(self, batch: Batch) -> Step:
        g, target = batch.logits(), self.numbers["target"][:, None]
        loss = bernoulli_kl(target.expand_as(g["p"]), g["p"]).mean(-1)
        loss = loss + bernoulli_kl(torch.zeros_like(g["u"]), g["u"]).mean(-1)
        return Step(loss, {"loss": loss})

    def validation_risk(self, g: Mapping[str, Tensor]) -> Tensor:
        """The predicted share of positives. No epoch is chosen by it: only the trends go on."""
        p, memory = g["u"].sigmoid(), self.memory
        # Before the first epoch there are no predictions to differ from.
        memory["trend"] += trend_term(p - memory["before"]) * (memory["epochs"][:, None] > 0)
        memory["before"].copy_(p)
        memory["epochs"] += 1
        return p.mean(-1)


class PseudoLabelObjective(Objective):
    """Second stage: cross-entropy of P and of the labelled rows of U; sure predictions also label a strong view."""

    def __init__(self, view: Augment | None, label: Tensor, **numbers: Tensor) -> None:
        super().__init__(label=label, **numbers)
        self._view = view

    def step(self, batch: Batch) -> Step:
        inputs, n = dict(batch.inputs), self.numbers
        if self._view is not None:
            inputs["strong"] = self._view(batch.originals["u"], batch.random)
        g = batch.logits(inputs)
        label = n["label"].gather(1, batch.positions["u"])
        terms = {
            "positive": bernoulli_kl(torch.ones_like(g["p"]), g["p"]).mean(-1),
            "kl": bernoulli_kl(label, g["u"]).mean(-1),
        }
        if self._view is not None:
            terms["views"] = fixmatch_risk(g["u"], g["strong"], n["sure"])
        loss = torch.stack(list(terms.values())).sum(0)
        return Step(loss, {"loss": loss, **terms})

    def validation_risk(self, g: Mapping[str, Tensor]) -> Tensor:
        return lee_liu_risk(g["p"], g["u"])


class HolisticPUClassifier(BasePUClassifier):
    """Learning from predictive trends (HolisticPU): needs no class prior.

    There are two trainings. In the first one rows of U count as negatives, and each batch has as many rows of P as of
    U. A mean teacher predicts all of U after each epoch. Positives among U are pulled up by P again and again, so their
    predictions tend to rise or fall slowly. The trend of a row is the mean of log(1 + d + d²/2), where d is the
    difference of two successive predictions. Jenks' natural break cuts the trends in two. Rows above it are labelled
    positive, the others negative, and a second network learns from these labels. Where rows have strong views, its sure
    predictions of U also label the strong views (FixMatch).

    The authors use SGD with a learning rate of 0.001 to 0.002, a cosine, batches of 64 + 64 rows, 15 epochs of 512
    steps, then 25. There rows of U count as negatives at first, and their new labels are blended in. They also leave
    out some extreme trends before the cut. Here labels are taken at once, and no trend is left out.

    Parameters
    ----------
    trend_epochs : int
        Epochs of the first training, at least 2. Longer is not better: a network that learns the labels of U by heart
        pulls the positives down last, and trends then point the wrong way.
    trend_lr : float or None
        Learning rate of the first training, slow for the same reason. None: so low that all of its steps together go
        as far as 30 steps at ``lr``.
    smoothing : float in [0, 1)
        In the first training, labels of P are 1 − smoothing / 2.
    teacher_decay : float
        The teacher of the first training keeps this share of its weights in every step.
    strong_augment : "auto", None, policy or function
        The strong views of the second training, as for ``augment``, which gives the weak ones. "auto": "strong" for
        colour images, "digits" for grey ones, none for other rows. None: plain supervised learning.
    sure : float in [0.5, 1]
        Predictions that label a strong view are at least so sure.
    {shared}

    Attributes
    ----------
    pseudo_labels_ : array of shape (number of unlabeled rows,)
        The labels of the cut, in the order of the rows. For rows that were held out for validation: the probability
        given by ``module_``.
    trend_history_ : list of dict
        One record per epoch of the first training.
    {attributes without prior}

    References
    ----------
    Wang, Wan, Geng, Li, Chen: Beyond Myopia: Learning from Positive and Unlabeled Data through Holistic Predictive
    Trends. NeurIPS 2023.

    Examples
    --------
    >>> from pulab import HolisticPUClassifier
    >>> from pulab.datasets import load_digits, make_pu
    >>> digits = load_digits(positive=(0,))
    >>> pu = make_pu(digits.X_train, digits.y_train, n_labeled=50, random_state=0)
    >>> clf = HolisticPUClassifier(random_state=0).fit(pu.X, pu.s)
    >>> clf.score(digits.X_test, digits.y_test) > 0.9
    True
    """

    _n_trainings = 2
    _u_is_population = False  # the labels of the labelled rows are known

    trend_epochs: int = 15
    trend_lr: float | None = None
    smoothing: float = 0.1
    teacher_decay: float = 0.99
    strong_augment: str | Augment | None = "auto"
    sure: float = 0.9

    def _check_params(self) -> None:
        check_number("trend_epochs", self.trend_epochs, low=2, whole=True)
        if self.trend_lr is not None:
            check_number("trend_lr", self.trend_lr, low=0, ends="(]")
        check_number("smoothing", self.smoothing, low=0, high=1, ends="[)")
        check_number("teacher_decay", self.teacher_decay, low=0, high=1, ends="[)")
        check_augment("strong_augment", self.strong_augment, ("auto", *POLICIES))
        check_number("sure", self.sure, low=0.5, high=1)

    @property
    def _strong(self) -> Augment | None:
        view = self.strong_augment
        if isinstance(view, str) and view == "auto":
            view = AUTO_VIEWS.get(self.row_shape_[0]) if len(self.row_shape_) == 3 else None
        return policy(view, self.row_shape_) if isinstance(view, str) else view

    def _stages(self, task: Task) -> Stages:
        view, schedule = self._strong, self._schedule(task)
        trends = TrendObjective(task.per_row(0.0), self.teacher_decay, **task.numbers(target=1 - self.smoothing / 2))
        batch_size_p = schedule.batch_size_p or schedule.batch_size_u
        n_steps = self.trend_epochs * schedule.steps(len(task.streams["u"]))
        lr = self.trend_lr or self.lr * min(1.0, STEPS / n_steps)
        slow = replace(schedule, lr=lr, lr_milestones=(), epochs=self.trend_epochs, batch_size_p=batch_size_p)
        watched = {"u": task.streams["u"]}
        first = yield replace(self._job(task, trends, slow, stage="trends"), validation=watched)
        trend = first.objective.memory["trend"][first.line].double().cpu().numpy() / (self.trend_epochs - 1)
        labels = torch.from_numpy(trend > natural_break(trend))
        self.trend_history_: list[Record] = first.history
        label = labels.to(task.device, task.dtype)[None]
        objective = PseudoLabelObjective(view, label, **task.numbers(sure=self.sure))
        self._finish(task, (yield self._job(task, objective, schedule)))

    def _finish(self, task: Task, trained: Trained) -> None:
        super()._finish(task, trained)
        labels = trained.objective.numbers["label"][trained.line]
        self.pseudo_labels_ = labels_by_row(task, self.module_, labels)


def natural_break(values: NDArray[np.float64]) -> float:
    """The highest value of the lower class when values are cut in two with the least variance within (Jenks)."""
    ordered = np.sort(values)
    n_low = np.arange(1, len(ordered))
    if not len(n_low):
        return float(ordered[0])
    low = np.cumsum(ordered)[:-1]
    high = ordered.sum() - low
    between = low**2 / n_low + high**2 / (len(ordered) - n_low)  # the variance between the classes, up to constants
    return float(ordered[int(np.argmax(between))])
