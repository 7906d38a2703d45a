"""Runs on a Ray cluster. The driver claims them and stores their rows, so a cluster adds no second store."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pulab.bench.spec import RunSpec
from pulab.bench.store import Row
from pulab.cluster import AUTO, connected, slots, spread
from pulab.errors import ClusterError, TrainingError

if TYPE_CHECKING:
    from pulab.bench.runner import Claim, OnProgress


@dataclass(frozen=True)
class OnRay:
    """Where runs are sent, and what a task gets there.

    Attributes
    ----------
    address : str
        ``host:port`` of the cluster, ``"auto"`` or ``"local"``: see :func:`pulab.cluster.connected`.
    cpus, gpus : float
        Of a task. 0.25 GPUs: four tasks share one. None: a GPU if the cluster has any, unless ``device`` is the CPU.
        A task on a CPU is one run. A task on a GPU trains a fleet of runs at once.
    """

    address: str = AUTO
    cpus: float = 1.0
    gpus: float | None = None


def outcomes_on_ray(
    specs: Sequence[RunSpec],
    device: str,
    on_progress: "OnProgress",
    claim: "Claim",
    checkpoints: Path | None,
    where: OnRay,
) -> Iterator[Row | TrainingError]:
    """The rows of these runs, each as soon as its task is done."""
    with connected(where.address) as ray:
        has_gpus = ray.cluster_resources().get("GPU", 0) > 0
        gpus = where.gpus if where.gpus is not None else float(device != "cpu" and has_gpus)
        if gpus and device == "cpu":
            raise ClusterError("device='cpu' was asked for together with GPUs for each task. Leave one of them out.")
        if device != "cpu" and where.gpus is None and not has_gpus and device != "auto":
            raise ClusterError(f"device {device!r} was asked for, but no machine of the cluster has a GPU.")
        device = device if gpus else "cpu"
        options = {"num_cpus": where.cpus, "num_gpus": gpus}
        here = None if checkpoints is None else checkpoints.absolute()
        groups = _fleets(specs, device, slots(ray, options)) if gpus else [[spec] for spec in specs]

        def calls() -> Iterator[tuple[tuple[RunSpec, ...], tuple[Any, ...]]]:
            for group in groups:
                claimed = claim(group)
                on_progress(len(group) - len(claimed))
                if claimed:
                    yield tuple(claimed), (claimed, device, here)

        for group, outcomes in spread(ray, _run, calls(), options=options):
            on_progress(len(group))
            if isinstance(outcomes, ClusterError):
                names = ", ".join(f"{spec.method} on {spec.dataset}, seed {spec.seed}" for spec in group[:3])
                outcomes = [TrainingError(f"{names}: {outcomes}") for _ in group]
            yield from outcomes


def _fleets(specs: Sequence[RunSpec], device: str, places: int) -> Iterator[list[RunSpec]]:
    """Fleets that a GPU can hold, and enough of them to use every place."""
    from pulab.bench.runner import fleets

    at_most = max(1, math.ceil(len(specs) / max(1, places)))
    for fleet in fleets(specs, device):
        yield from (fleet[start : start + at_most] for start in range(0, len(fleet), at_most))


def _run(specs: list[RunSpec], device: str, checkpoints: Path | None) -> list[Row | TrainingError]:
    """On the worker. Networks are kept while they train only where the machine sees the folder of the rows."""
    from pulab.bench.runner import run_fleet

    seen = checkpoints is not None and checkpoints.parent.is_dir()
    return run_fleet(specs, device, checkpoints=checkpoints if seen else None)
