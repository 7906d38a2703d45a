"""The input of the methods."""

from typing import NamedTuple

import numpy as np

from pulab.metrics import Array


class Sample(NamedTuple):
    """Labelled and unlabeled rows as a method sees them: as scores (logits), or as the rows themselves."""

    positive: Array
    unlabeled: Array

    def drawn_again(self, rng: np.random.Generator) -> "Sample":
        """A bootstrap sample: as many of each, with replacement."""
        return Sample(*(part[rng.integers(len(part), size=len(part))] for part in self))

    def thinned(self, n: int) -> "Sample":
        """Evenly spaced entries of the sorted scores, at most n of each part."""
        return Sample(*(np.sort(part)[:: -(-len(part) // n)] for part in self))
