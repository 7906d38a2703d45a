"""Many trainings at once on one device: alike ones as one batched network, others side by side."""

from collections.abc import Iterable, Sequence
from typing import Any

from pulab.training.loop import Job, OnEpoch, Trained, Training, ignore, run_in_step
from pulab.training.models import can_stack


def train(
    jobs: Sequence[Job],
    *,
    batched: bool,
    side_by_side: int = 4,
    on_epoch: OnEpoch = ignore,
) -> list[Trained]:
    """Train all jobs, each to the result it has alone; returns what came of them, in their order.

    Small networks that differ in their numbers only are trained as one (``batched``); the rest in groups of
    ``side_by_side``.
    """
    results: dict[int, Trained] = {}
    groups = list(_alike(jobs)) if batched else [[i] for i in range(len(jobs))]
    for start in range(0, len(groups), side_by_side):
        together = [(group, _training([jobs[i] for i in group])) for group in groups[start : start + side_by_side]]
        run_in_step([training for _, training in together], on_epoch)
        for group, training in together:
            results |= dict(zip(group, training.results(), strict=True))
    return [results[i] for i in range(len(jobs))]


def _alike(jobs: Sequence[Job]) -> Iterable[list[int]]:
    """Groups of jobs that one batched network can stand for."""
    groups: dict[Any, list[int]] = {}
    for i, job in enumerate(jobs):
        groups.setdefault(_kind(job), []).append(i)
    for group in groups.values():
        members = [jobs[i] for i in group]
        dense = all(stream.rows.sparse is None for job in members for stream in job.streams.values())
        if dense and can_stack([job.module for job in members]):
            yield group
        else:
            yield from ([i] for i in group)


def _kind(job: Job) -> Any:
    sizes = tuple((name, len(stream)) for name, stream in job.streams.items())
    held_out = job.validation and tuple((name, len(stream)) for name, stream in job.validation.items())
    shape = next(iter(job.streams.values())).rows.shape[1:]
    return type(job.module), type(job.objective), job.objective.kind, job.schedule, sizes, held_out, shape, job.name


def _training(jobs: Sequence[Job]) -> Training:
    first = jobs[0].objective
    return Training(jobs, first if len(jobs) == 1 else first.stack([job.objective for job in jobs[1:]]))
