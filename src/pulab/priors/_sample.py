"""What the methods see."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Sample(NamedTuple):
    """What a method sees of labelled and of unlabeled rows: their scores (logits), or the rows themselves."""

    positive: Array
    unlabeled: Array

    def drawn_again(self, rng: np.random.Generator) -> "Sample":
        """As many of each, with replacement."""
        return Sample(*(part[rng.integers(len(part), size=len(part))] for part in self))

    def thinned(self, n: int) -> "Sample":
        """Every so many of the sorted scores, so that no part holds more than n."""
        return Sample(*(np.sort(part)[:: -(-len(part) // n)] for part in self))
