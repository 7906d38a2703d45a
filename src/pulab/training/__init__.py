"""How networks are trained: rows and streams, the loop, the label memory, many models at once."""

from pulab.training.fleet import train
from pulab.training.loop import (
    Job,
    MemorylessObjective,
    Objective,
    OnEpoch,
    Record,
    Schedule,
    Step,
    Trained,
    Training,
    ignore,
    predict_logits,
    run_in_step,
)
from pulab.training.memory import LabelRing
from pulab.training.models import can_stack, has_gradient_hooks, use_channels_last
from pulab.training.rows import Rows, Stream

__all__ = [
    "Job",
    "LabelRing",
    "MemorylessObjective",
    "Objective",
    "OnEpoch",
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
    "predict_logits",
    "run_in_step",
    "train",
    "use_channels_last",
]
