"""The input of the methods."""

from typing import NamedTuple

from pulab.metrics import Array


class Sample(NamedTuple):
    """Labelled and unlabeled rows as a method sees them: as scores (logits), or as the rows themselves."""

    positive: Array
    unlabeled: Array
