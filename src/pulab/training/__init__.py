"""How networks are trained: streams of rows, the objective of a method, the loop, many models at once."""

from pulab.training.checkpoint import Checkpoint, Identity, checksum
from pulab.training.fleet import train
from pulab.training.loop import (
    Augment,
    Job,
    OnEpoch,
    Record,
    Trained,
    Training,
    ignore,
    run_in_step,
)
from pulab.training.memory import LabelRing
from pulab.training.model import has_gradient_hooks, use_channels_last
from pulab.training.objective import Batch, Objective, Step, mix, pick
from pulab.training.optimizers import OPTIMIZERS
from pulab.training.predict import predict_logits
from pulab.training.random_source import RandomSource
from pulab.training.ranks import Ranks, Share
from pulab.training.schedule import LR_SCHEDULES, Schedule
from pulab.training.stacking import can_stack
from pulab.training.streams import Rows, Stream, union

__all__ = [
    "LR_SCHEDULES",
    "OPTIMIZERS",
    "Augment",
    "Batch",
    "Checkpoint",
    "Identity",
    "Job",
    "LabelRing",
    "Objective",
    "OnEpoch",
    "RandomSource",
    "Ranks",
    "Record",
    "Rows",
    "Schedule",
    "Share",
    "Step",
    "Stream",
    "Trained",
    "Training",
    "can_stack",
    "checksum",
    "has_gradient_hooks",
    "ignore",
    "mix",
    "pick",
    "predict_logits",
    "run_in_step",
    "train",
    "union",
    "use_channels_last",
]
