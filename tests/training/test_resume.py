"""A training that was stopped between any two steps and begun anew ends as one that was never touched."""

from typing import Any

import pytest
import torch
from torch import nn

from pulab import JointPUClassifier
from pulab.training import Job, Training
from pulab.training.fleet import _training
from pulab.training.loop import _run_epoch
from tests.conftest import Blobs


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1))


def norm_net() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1))


def jobs(n: int, module: Any) -> list[Job]:
    made = []
    for seed in range(n):
        data = Blobs("case-control", seed=seed)
        clf = JointPUClassifier(prior=0.4, module=module, epochs=5, e_start=2, r=3, device="cpu", random_state=seed)
        made.append(next(clf._stages(clf._prepare(data.X, data.s))))
    return made


def finish(training: Training) -> None:
    while training.epoch < training.schedule.epochs:
        _run_epoch([(training, None)], lambda record, epochs: None)


@pytest.mark.parametrize(("n", "module"), [(1, net), (1, norm_net), (3, net)])
@pytest.mark.parametrize("stop", [(0, 0), (0, 3), (2, 0), (3, 5)])
def test_resume_is_exact(n: int, module: Any, stop: tuple[int, int]) -> None:
    epochs, steps = stop
    whole = _training(jobs(n, module))
    with whole.started():
        finish(whole)

    first = _training(jobs(n, module))
    with first.started():
        for _ in range(epochs):
            _run_epoch([(first, None)], lambda record, epochs: None)
        if steps:
            for positions in first.begin_epoch()[:steps]:
                first.take_step(positions)
        state = first.state_dict()
        finish_or_forget(first)

    again = _training(jobs(n, module))
    with again.started():
        again.load_state_dict(state)
        finish(again)
    for one, other in zip(whole.results(), again.results(), strict=True):
        assert one.history == other.history
        assert one.best_epoch == other.best_epoch
        for name, value in one.module.state_dict().items():
            assert torch.equal(value, other.module.state_dict()[name])
    assert torch.equal(whole.objective.labels.current, again.objective.labels.current)


def finish_or_forget(training: Training) -> None:
    """A stopped training may go on as well: keeping its state has changed nothing. It needs some best epoch to end."""
    if not training._terms:
        finish(training)
    else:
        training.end_epoch()
