"""Pseudo-labels and the predictions they are averaged from."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


class LabelRing:
    """Soft labels of the unlabeled rows and their predictions in the last r epochs, with a line per model.

    The paper keeps an n_u × epochs matrix Z. Labels need its last r columns only, so a ring of r columns is enough.
    """

    def __init__(self, initial: Tensor, r: int) -> None:
        self.current = initial.clone()
        self.r = r
        # Of this epoch, or of the last one that a row came in. A recorded step must not depend on the column's number.
        self._latest = initial.clone()
        self._columns = initial.new_zeros((r, *initial.shape))

    def remember(self, positions: Tensor, predictions: Tensor) -> None:
        """Store this epoch's predictions of these rows."""
        self._latest.scatter_(1, positions, predictions)

    def end_epoch(self, epoch: int, update: bool) -> None:
        """Replace the oldest column by this epoch's predictions. With ``update``, average all into labels."""
        self._columns[(epoch - 1) % self.r].copy_(self._latest)
        if update:
            torch.mean(self._columns[: min(epoch, self.r)], dim=0, out=self.current)

    def align(self, prior: Tensor) -> None:
        """Shift all labels of a model on the logit scale by one number, so that their mean is its prior."""
        self.current.copy_(aligned(self.current, prior))

    @classmethod
    def stack(cls, rings: Sequence["LabelRing"]) -> "LabelRing":
        """The labels of several models as one. None of them has begun to train."""
        return cls(torch.cat([ring.current for ring in rings]), rings[0].r)

    def state_dict(self) -> dict[str, Any]:
        """Everything that must be kept to resume exactly."""
        return {"current": self.current, "latest": self._latest, "columns": self._columns}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a kept state."""
        self.current.copy_(state["current"])
        self._latest.copy_(state["latest"])
        self._columns.copy_(state["columns"])


def aligned(labels: Tensor, prior: Tensor) -> Tensor:
    """Labels (models, n), shifted on the logit scale so that each line has its prior as the mean. The order stays."""
    logit = torch.logit(labels.double(), eps=1e-6)
    wanted = prior.double()[:, None]
    low, high = torch.full_like(wanted, -30.0), torch.full_like(wanted, 30.0)
    for _ in range(50):  # halves an interval of 60 to 1e-13
        middle = (low + high) / 2
        above = torch.sigmoid(logit + middle).mean(1, keepdim=True) > wanted
        low, high = torch.where(above, low, middle), torch.where(above, middle, high)
    return torch.sigmoid(logit + low).to(labels.dtype)
