"""A run, fully described before it starts."""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any

from pulab.datasets import Sampling


@dataclass(frozen=True)
class RunSpec:
    """One training of one method on one sampling of one data set. The seed draws the samples and the weights."""

    dataset: str
    sampling: Sampling
    method: str
    seed: int
    net: str | None = None  # a key of pulab.nets.NETS; None: the default net
    params: dict[str, Any] = field(default_factory=dict)
    features: str | None = None  # a key of pulab.bench.features.FEATURES, for texts

    def as_row(self) -> dict[str, Any]:
        """The spec as the first columns of its result row."""
        kind = type(self.sampling).__name__
        return {**asdict(self), "sampling": {"kind": kind, **asdict(self.sampling)}, "spec": self.digest}

    @property
    def digest(self) -> str:
        """The name under which the run's row is stored.

        It does not cover the defaults of parameters that are not set. Those are in the row; a test compares them with
        today's.
        """
        content = {**asdict(self), "sampling": [type(self.sampling).__name__, asdict(self.sampling)]}
        if self.features is None:
            del content["features"]  # some rows are older than this field
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
