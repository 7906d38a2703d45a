"""The calibration of networks: from logits to log-odds by two numbers, from the validation rows and the prior."""

from typing import TYPE_CHECKING

import numpy as np

from pulab.calibration import PULogisticCalibrator
from pulab.errors import InputError, short, warn
from pulab.training import predict_logits

if TYPE_CHECKING:
    from pulab.estimators._base import BasePUClassifier, Task

# Of labelled validation rows. With fewer, calibrated decisions were worse on average (docs/log.md).
FEWEST = 5


def check_calibration(estimator: "BasePUClassifier", held_out: bool) -> None:
    """Refuse a wish that cannot be met, before the training. ``held_out``: there will be validation rows."""
    if not isinstance(estimator.calibration, bool) and estimator.calibration != "auto":
        raise InputError(f'calibration must be "auto", True or False, got {short(estimator.calibration)}.')
    if estimator.calibration is True and not estimator._can_be_calibrated():
        raise InputError(
            f"calibration=True needs a method that is told the prior and has no cut of its own, got "
            f"{type(estimator).__name__}. Leave it out."
        )
    if estimator.calibration is True and not held_out:
        raise InputError(
            "calibration=True needs validation rows, got validation_fraction=0. Raise it, or pass X_val and y_val."
        )


def line_of(estimator: "BasePUClassifier", task: "Task") -> tuple[float, float] | None:
    """Slope and offset for asinh of a network's logits. None where they are unwanted or cannot be told."""
    streams = task.validation
    if not estimator.calibration or not estimator._can_be_calibrated() or streams is None:
        return None
    if estimator.calibration == "auto" and streams["p"].total < FEWEST:
        return None
    # The stream of U is the population in both scenarios, as U is in case-control data.
    both = [streams["p"], streams["u"]]
    logits = [
        part.whole(predict_logits(estimator.module_, part.rows, part.index[0])[None])[0].double().cpu().numpy()
        for part in both
    ]
    weights = [np.ones(len(g)) if part.weight is None else part.weight[0] for part, g in zip(both, logits, strict=True)]
    labels = np.repeat([1, 0], [len(g) for g in logits])
    fitted = PULogisticCalibrator(task.prior).fit(np.concatenate(logits), labels, np.concatenate(weights))
    if fitted.slope_ > 0:
        return fitted.slope_, fitted.offset_
    if estimator.calibration is True:
        warn(
            "the network is not calibrated: it ranks the labelled validation rows no higher than the others. "
            "Train it longer, or label more rows."
        )
    return None
