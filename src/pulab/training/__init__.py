"""How networks are trained: streams of rows, the objective of a method, the loop, many models at once."""

from pulab.training.fleet import train
from pulab.training.loop import (
    Augment,
    Job,
    OnEpoch,
    Record,
    Trained,
    Training,
    ignore,
    predict_logits,
    run_in_step,
)
from pulab.training.memory import LabelRing
from pulab.training.model import has_gradient_hooks, use_channels_last
from pulab.training.objective import Batch, Objective, Step, mix, pick
from pulab.training.optimizers import OPTIMIZERS
from pulab.training.random_source import RandomSource
from pulab.training.schedule import LR_SCHEDULES, Schedule
from pulab.training.stacking import can_stack
from pulab.training.streams import Rows, Stream

__all__ = [
    "LR_SCHEDULES",
    "OPTIMIZERS",
    "Augment",
    "Batch",
    "Job",
    "LabelRing",
    "Objective",
    "OnEpoch",
    "RandomSource",
    "Record",
    "Rows",
    "Schedule",
    "Step",
    "Stream",
    "Trained",
    "Training",
    "can_stack",
    "has_gradient_hooks",
    "ignore",
    "mix",
    "pick",
    "predict_logits",
    "run_in_step",
    "train",
    "use_channels_last",
]
