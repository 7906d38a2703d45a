"""How a network is trained: rows and streams, the loop, the label memory."""

from pulab.training.loop import Objective, Record, Schedule, Step, Training, predict_logits
from pulab.training.memory import LabelRing
from pulab.training.rows import Rows, Stream

__all__ = ["LabelRing", "Objective", "Record", "Rows", "Schedule", "Step", "Stream", "Training", "predict_logits"]
