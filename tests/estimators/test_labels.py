"""Methods that give labels to rows of U: the same result in a fleet, and after a resume, as alone."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pulab.estimators._base import fit_tasks
from pulab.methods import METHODS
from pulab.training.fleet import _training
from pulab.training.loop import _run_epoch
from tests.conftest import Blobs

KEYS = ["cvir", "ted-n", "p3mix", "holistic", "lbe"]


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1))


def made(key: str, seed: int) -> Any:
    told = {"prior": 0.3 + 0.1 * seed} if METHODS[key].needs_prior else {}
    shared = {"module": net, "epochs": 6, "lr": 5e-3 * (1 + seed), "dtype": "float64", "device": "cpu"}
    return METHODS[key].load()(**told, **shared, random_state=seed)


@pytest.mark.parametrize("key", KEYS)
def test_alone_equals_in_a_fleet(key: str) -> None:
    data = [Blobs("case-control", seed=seed) for seed in range(3)]
    many = [made(key, seed) for seed in range(3)]
    tasks = [clf._prepare(d.X, d.s) for clf, d in zip(many, data, strict=True)]
    assert fit_tasks(many, tasks, batched=True, side_by_side=2) == [None] * 3
    for seed, (other, d) in enumerate(zip(many, data, strict=True)):
        one = made(key, seed).fit(d.X, d.s)
        assert np.abs(one.decision_function(d.X) - other.decision_function(d.X)).max() < 1e-9
        for record, same in zip(one.history_, other.history_, strict=True):
            assert record == pytest.approx(same, abs=1e-9)


@pytest.mark.parametrize("stop", [(1, 3), (3, 0), (4, 5)])
@pytest.mark.parametrize("key", KEYS)
def test_a_resumed_training_ends_as_one_that_was_not_stopped(key: str, stop: tuple[int, int]) -> None:
    """The last training of each method."""
    data = Blobs("case-control")

    def begun() -> Any:
        clf = made(key, 0)
        stages = clf._stages(clf._prepare(data.X, data.s))
        job = next(stages)
        for _ in range(clf._n_trainings - 1):
            first = _training([job])
            with first.started():
                finish(first)
            job = stages.send(first.results()[0])
        return _training([job])

    def finish(training: Any) -> None:
        while not training.is_over:
            _run_epoch([(training, None)], lambda record, epochs: None)

    whole, first, again = begun(), begun(), begun()
    with whole.started():
        finish(whole)
    with first.started():
        for _ in range(stop[0]):
            _run_epoch([(first, None)], lambda record, epochs: None)
        for positions in first.begin_epoch()[: stop[1]]:
            first.take_step(positions)
        state = first.state_dict()
    with again.started():
        again.load_state_dict(state)
        finish(again)
    (one,), (other,) = whole.results(), again.results()
    assert one.history == other.history
    assert one.best_epoch == other.best_epoch
    assert all(torch.equal(a, b) for a, b in zip(one.module.parameters(), other.module.parameters(), strict=True))
