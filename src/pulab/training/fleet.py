"""Many trainings at once on one device: alike ones as one batched network, others side by side."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pulab._torch import seeded
from pulab.training.capture import warn_of_fallback
from pulab.training.loop import Job, OnEpoch, Trained, Training, ignore, run_in_step
from pulab.training.models import are_alike, can_batch, can_stack
from pulab.training.rows import Stream


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
    for device in dict.fromkeys(job.device for job in jobs):
        mine = [group for group in groups if jobs[group[0]].device == device]
        for start in range(0, len(mine), side_by_side):
            results |= _train_together(jobs, mine[start : start + side_by_side], on_epoch)
    return [results[i] for i in range(len(jobs))]


def _train_together(jobs: Sequence[Job], groups: Sequence[list[int]], on_epoch: OnEpoch) -> dict[int, Trained]:
    """A function of its own, so that nothing is left of these trainings when the next ones begin."""
    trainings = [_training([jobs[i] for i in group]) for group in groups]
    run_in_step(trainings, on_epoch)
    pairs = [zip(group, training.results(), strict=True) for group, training in zip(groups, trainings, strict=True)]
    return {i: trained for pair in pairs for i, trained in pair}


def _alike(jobs: Sequence[Job]) -> Iterator[list[int]]:
    """Groups of jobs that one batched network can stand for."""
    groups: dict[Any, list[list[int]]] = {}
    for i, job in enumerate(jobs):
        of_a_kind = groups.setdefault((_kind(job), can_stack(job.module)), [])
        mine = next((group for group in of_a_kind if are_alike(jobs[group[0]].module, job.module)), None)
        if mine is None:
            of_a_kind.append([i])
        else:
            mine.append(i)
    for group in (group for of_a_kind in groups.values() for group in of_a_kind):
        if len(group) > 1 and _can_batch(jobs[group[0]]):
            yield group
        else:
            yield from ([i] for i in group)


def _can_batch(job: Job) -> bool:
    streams = [*job.streams.values(), *(job.validation or {}).values()]
    dense = all(stream.rows.sparse is None for stream in streams)
    if not dense or not can_stack(job.module):
        return False
    u = job.streams["u"]
    with seeded(0, job.device):
        batches = can_batch(job.module, u.rows[u.index[0, :32]])
    if not batches:
        what = "small networks are trained side by side, not as one"
        warn_of_fallback(what, f"what {type(job.module).__name__} does cannot be batched")
    return batches


def _kind(job: Job) -> Any:
    def of(streams: Mapping[str, Stream]) -> Any:
        return tuple(
            (name, len(s), s.rows.shape[1:], s.rows.dtype, s.rows.sparse is None) for name, s in streams.items()
        )

    schedule = replace(job.schedule, lr=0.0, lr_milestones=(), weight_decay=0.0)
    kind = type(job.objective), job.objective.kind, schedule, job.device, job.name
    return *kind, of(job.streams), job.validation and of(job.validation)


def _training(jobs: Sequence[Job]) -> Training:
    first = jobs[0].objective
    return Training(jobs, first if len(jobs) == 1 else first.stack([job.objective for job in jobs[1:]]))
