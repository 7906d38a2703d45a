"""Many trainings at once on one device: alike ones as one batched network, others side by side."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pulab.training.loop import Job, OnEpoch, Trained, Training, ignore, run_in_step
from pulab.training.stacking import anatomy, can_stack
from pulab.training.streams import Stream


def train(
    jobs: Sequence[Job],
    *,
    batched: bool,
    side_by_side: int = 4,
    on_epoch: OnEpoch = ignore,
) -> list[Trained]:
    """Train all jobs, each to the result it has alone. The results are in the order of the jobs.

    With ``batched``, small networks that differ in their numbers only are trained as one. The others are trained in
    groups of ``side_by_side``.
    """
    results: dict[int, Trained] = {}
    groups = list(_alike(jobs)) if batched else [[i] for i in range(len(jobs))]
    for device in dict.fromkeys(job.device for job in jobs):
        on_device = [group for group in groups if jobs[group[0]].device == device]
        for start in range(0, len(on_device), side_by_side):
            results |= _train_together(jobs, on_device[start : start + side_by_side], on_epoch)
    return [results[i] for i in range(len(jobs))]


def _train_together(jobs: Sequence[Job], groups: Sequence[list[int]], on_epoch: OnEpoch) -> dict[int, Trained]:
    """A function of its own, so that nothing is left of these trainings when the next ones begin."""
    trainings = [_training([jobs[i] for i in group]) for group in groups]
    run_in_step(trainings, on_epoch)
    pairs = [zip(group, training.results(), strict=True) for group, training in zip(groups, trainings, strict=True)]
    return {i: trained for pair in pairs for i, trained in pair}


def _alike(jobs: Sequence[Job]) -> Iterator[list[int]]:
    """Groups of jobs that one batched network can stand for."""
    groups: dict[Any, list[int]] = {}
    for i, job in enumerate(jobs):
        groups.setdefault(_kind(job) if _can_batch(job) else i, []).append(i)
    yield from groups.values()


def _can_batch(job: Job) -> bool:
    streams = [*job.streams.values(), *(job.validation or {}).values()]
    return can_stack(job.module) and all(stream.rows.sparse is None for stream in streams)


def _kind(job: Job) -> Any:
    def of(streams: Mapping[str, Stream]) -> Any:
        return tuple((name, len(s), s.rows.shape[1:], s.rows.dtype) for name, s in streams.items())

    schedule = replace(job.schedule, lr=0.0, lr_milestones=(), weight_decay=0.0)
    objective = type(job.objective), job.objective.kind
    kind = *objective, anatomy(job.module), schedule, id(job.augment), job.device, job.name
    return *kind, of(job.streams), job.validation and of(job.validation)


def _training(jobs: Sequence[Job]) -> Training:
    first = jobs[0].objective
    return Training(jobs, first if len(jobs) == 1 else first.stack([job.objective for job in jobs[1:]]))
