"""A training that was stopped between any two steps and begun anew ends as one that was never touched."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pulab import JointPUClassifier
from pulab._torch import be_deterministic
from pulab.training import Job, Training
from pulab.training.fleet import _training
from pulab.training.loop import _run_epoch
from tests.conftest import Blobs


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1))


def norm_net() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1))


class Draws(nn.Linear):
    """A module that draws random numbers by itself, in evaluation, too."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(F.dropout(x, 0.3))


def drawing_net() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 8), Draws(8, 1))


class Hidden(nn.Linear):
    """A module with a buffer that its state_dict leaves out."""

    def __init__(self) -> None:
        super().__init__(5, 1)
        self.register_buffer("mean", torch.zeros(5), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.mean.mul_(0.9).add_(0.1 * x.detach().mean(0))
        return super().forward(x - self.mean)


def jobs(n: int, module: Any, device: str) -> list[Job]:
    made = []
    for seed in range(n):
        data = Blobs("case-control", seed=seed)
        lr = 1e-3 * (1 + seed)
        shared = {"prior": 0.4, "epochs": 5, "e_start": 2, "r": 3, "device": device, "random_state": seed}
        clf = JointPUClassifier(module=module, lr=lr, **shared)
        made.append(next(clf._stages(clf._prepare(data.X, data.s))))
    return made


def finish(training: Training) -> None:
    while not training.is_over:
        _run_epoch([(training, None)], lambda record, epochs: None)


def check_resuming(n: int, module: Any, stop: tuple[int, int], device: str = "cpu") -> None:
    """In the current stream; what others draw meanwhile must not matter."""
    epochs, steps = stop
    torch.manual_seed(0)
    whole = _training(jobs(n, module, device))
    with whole.started():
        finish(whole)

    first = _training(jobs(n, module, device))
    with first.started():
        torch.manual_seed(1)
        for _ in range(epochs):
            _run_epoch([(first, None)], lambda record, epochs: None)
        for positions in first.begin_epoch()[:steps] if steps >= 0 else []:
            first.take_step(positions)
        state = first.state_dict()

    again = _training(jobs(n, module, device))
    with again.started():
        again.load_state_dict(state)
        again.load_state_dict(again.state_dict())  # kept and loaded where it stands
        torch.manual_seed(2)
        finish(again)
    for one, other in zip(whole.results(), again.results(), strict=True):
        assert one.history == other.history
        assert one.best_epoch == other.best_epoch
        tensors = [[*trained.module.parameters(), *trained.module.buffers()] for trained in (one, other)]
        assert all(torch.equal(a, b) for a, b in zip(*tensors, strict=True))
    assert torch.equal(whole.objective.labels.current, again.objective.labels.current)


@pytest.mark.parametrize(("n", "module"), [(1, net), (1, norm_net), (1, drawing_net), (1, Hidden), (3, net)])
@pytest.mark.parametrize("stop", [(0, -1), (0, 3), (2, -1), (2, 0), (3, 5), (4, 1000)])
def test_resume_is_exact(n: int, module: Any, stop: tuple[int, int]) -> None:
    """Stopped between epochs (-1), when one has just begun (0), after some of its steps, and after all of them."""
    check_resuming(n, module, stop)


@pytest.mark.gpu
@pytest.mark.parametrize("module", [net, norm_net, drawing_net])
@pytest.mark.parametrize("stop", [(2, 0), (3, 5)])
def test_resume_is_exact_on_a_gpu(module: Any, stop: tuple[int, int]) -> None:
    be_deterministic()
    try:
        with torch.cuda.stream(torch.cuda.Stream()):  # nothing can be recorded in the default one
            check_resuming(1, module, stop, "cuda")
    finally:
        torch.use_deterministic_algorithms(False)
