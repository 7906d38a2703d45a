"""Pseudo-labels and the predictions they are averaged from."""

import torch
from torch import Tensor


class LabelRing:
    """Soft labels of the unlabeled rows, and their predictions in the last r epochs.

    The paper keeps an n_u × epochs matrix Z; the labels only ever need its last r columns, so a ring of r holds them.
    """

    def __init__(self, initial: Tensor, r: int) -> None:
        self.current = initial.clone()
        self._columns = initial.new_zeros((r, len(initial)))
        self._epochs = 0

    def begin_epoch(self) -> None:
        """Turn to the next column, which holds the oldest predictions or none."""
        self._epochs += 1

    def remember(self, positions: Tensor, predictions: Tensor) -> None:
        """Store this epoch's predictions of these rows."""
        self._columns[(self._epochs - 1) % len(self._columns)].index_copy_(0, positions, predictions)

    def update(self) -> None:
        """Each label becomes the mean of the stored predictions; of those there are, while the ring is not yet full."""
        filled = min(self._epochs, len(self._columns))
        torch.mean(self._columns[:filled], dim=0, out=self.current)
