"""Dist-PU and PULDA: their two trainings equal transcriptions that share no code with `src`."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pulab import DistPUClassifier, PULDAClassifier
from pulab.errors import InputError
from pulab.training import RandomSource, train
from tests.conftest import Blobs

PI, EPOCHS, MIXUP_EPOCHS = 0.3, 5, 6
SETTINGS: dict[str, Any] = {
    "prior": PI, "epochs": EPOCHS, "mixup_epochs": MIXUP_EPOCHS, "lr": 0.05, "mixup_lr": 0.02, "weight_decay": 0.01,
    "mixup_weight_decay": 0.03, "mixup_weight": 2.0, "mixup_alpha": 3.0, "validation_fraction": 0, "batch_size_u": 20,
    "dtype": "float64", "device": "cpu", "random_state": 0,
}  # fmt: skip


class Noted(nn.Linear):
    """A linear model that keeps the rows of its passes in training."""

    def __init__(self) -> None:
        super().__init__(3, 1, dtype=torch.float64)
        self.seen: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.seen.append(x.detach().clone())
        return super().forward(x)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Tensor]]:
    """The partners and the shares that an objective drew."""
    kept: dict[str, list[Tensor]] = {"permutation": [], "beta": []}
    for name, results in kept.items():
        real = getattr(RandomSource, name)

        def note(self: Any, *args: Any, real: Any = real, results: list[Tensor] = results) -> Tensor:
            results.append(real(self, *args))
            return results[-1]

        monkeypatch.setattr(RandomSource, name, note)
    return kept


def data() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(size=(6, 3)) + 1, rng.normal(size=(20, 3))]), np.repeat([1, 0], [6, 20])


def sigmoid(g: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-g))


def entropy(p: Tensor) -> Tensor:
    return -(p * torch.log(p) + (1 - p) * torch.log(1 - p)).mean()


def follow(clf: Any, start: list[Tensor], drawn: dict[str, list[Tensor]], loss_of: Any) -> list[Tensor]:
    """Both trainings in full batches. ``loss_of(p, u, epoch, mixed)`` gets predictions and, later, mixed ones."""
    seen = iter(clf.module_.seen)
    draws = zip(drawn["permutation"], drawn["beta"], strict=True)
    w, b = (value.clone().requires_grad_() for value in start)
    labels: dict[Any, float] = {}
    for epochs, lr, decay, with_mixup in ((EPOCHS, 0.05, 0.01, False), (MIXUP_EPOCHS, 0.02, 0.03, True)):
        adam = torch.optim.Adam([w, b], lr=lr, weight_decay=decay, amsgrad=True)
        if with_mixup:
            rows = torch.from_numpy(data()[0])[6:]
            labels = dict(zip(map(tuple, rows.tolist()), sigmoid(rows @ w[0] + b).tolist(), strict=True))
        for epoch in range(epochs):
            x = next(seen)
            p = sigmoid(x @ w[0] + b)
            mixed = None
            if with_mixup:
                y = torch.tensor([1.0] * 6 + [labels[tuple(row)] for row in x[6:].tolist()], dtype=torch.float64)
                partner, share = next(draws)
                together = share[0] * x + (1 - share[0]) * x[partner[0]]
                assert torch.allclose(together, next(seen))
                q = sigmoid(together @ w[0] + b)
                ce = [-(v * torch.log(q) + (1 - v) * torch.log(1 - q)).mean() for v in (y, y[partner[0]])]
                mixed = share[0, 0] * ce[0] + (1 - share[0, 0]) * ce[1], entropy(q)
                labels |= zip(map(tuple, x[6:].tolist()), p[6:].tolist(), strict=True)
            adam.zero_grad()
            loss_of(p[:6], p[6:], epoch, mixed).backward()
            adam.step()
    return [w, b]


def fitted(cls: Any, **params: Any) -> tuple[Any, list[Tensor]]:
    module = Noted()
    start = [value.detach().clone() for value in module.parameters()]
    return cls(module=module, **SETTINGS | params).fit(*data()), start


def agree(clf: Any, expected: list[Tensor]) -> bool:
    return all((a - b).abs().max() < 1e-9 for a, b in zip(clf.module_.parameters(), expected, strict=True))


def test_dist_pu_written_out(drawn: dict[str, list[Tensor]]) -> None:
    clf, start = fitted(
        DistPUClassifier, entropy_weight=0.5, entropy_weight_final=0.7, mixed_entropy_weight=0.3, lr_schedule="constant"
    )

    def loss_of(p: Tensor, u: Tensor, epoch: int, mixed: Any) -> Tensor:
        risk = abs(1 - p.mean()) + abs(u.mean() - PI) / (2 * PI)
        if mixed is None:
            return risk + 0.5 * entropy(u)
        ramp = 0.7 * (1 - np.cos(epoch / MIXUP_EPOCHS * np.pi / 2))
        return risk + ramp * entropy(u) + 2.0 * mixed[0] + 0.3 * mixed[1]

    assert agree(clf, follow(clf, start, drawn, loss_of))
    assert len(clf.first_history_) == EPOCHS
    assert len(clf.history_) == MIXUP_EPOCHS


@pytest.mark.parametrize("margin", [0.6, None])
def test_pulda_written_out(margin: float | None, drawn: dict[str, list[Tensor]]) -> None:
    clf, start = fitted(
        PULDAClassifier, sharpness=2.5, mean_decay=0.8, margin=margin, margin_decay=0.4, lr_schedule="constant"
    )
    kept: dict[str, float] = {}

    def averaged(name: str, value: Tensor, decay: float, epoch: int) -> tuple[Tensor, float]:
        if epoch == 0:  # of either training
            mean, share = value, 1.0
        else:
            mean, share = decay * kept[name] + (1 - decay) * value, 1 - decay
        kept[name] = mean.item()
        return mean, share

    def hill(g: Tensor) -> Tensor:
        return sigmoid(g) * sigmoid(0.6 - g)

    def loss_of(p: Tensor, u: Tensor, epoch: int, mixed: Any) -> Tensor:
        mean, share = averaged("u", u.mean(), 0.8, epoch)
        d = 2.5 * (mean - PI)
        loss = 2 * PI * (1 - p.mean()) + (torch.log(1 + torch.exp(d)) + torch.log(1 + torch.exp(-d))) / 2.5 / share
        if margin is not None:
            g_p, g_u = torch.log(p / (1 - p)), torch.log(u / (1 - u))
            on_p, share = averaged("hill of p", hill(-g_p).mean(), 0.4, epoch)
            on_u, _ = averaged("hill of u", hill(-g_u).mean(), 0.4, epoch)
            d = on_u - PI * on_p
            loss = loss + PI * hill(g_p).mean() + (torch.log(1 + torch.exp(d)) + torch.log(1 + torch.exp(-d))) / share
        return loss if mixed is None else loss + 2.0 * mixed[0]

    assert agree(clf, follow(clf, start, drawn, loss_of))
    assert ("margin" in clf.history_[0]) == (margin is not None)


@pytest.mark.parametrize("cls", [DistPUClassifier, PULDAClassifier])
def test_the_second_training_goes_on_from_the_best_epoch_of_the_first(cls: Any, blobs: Blobs) -> None:
    clf = cls(**SETTINGS | {"validation_fraction": 0.3, "lr": 0.3})
    stages = clf._stages(clf._prepare(blobs.X, blobs.s))
    (first,) = train([next(stages)], batched=False)
    risks = [record["val_risk"] for record in first.history]
    assert first.best_epoch == 1 + int(np.argmin(risks)) < EPOCHS
    second = stages.send(first)
    assert second.module is first.module
    u = second.streams["u"]
    with torch.no_grad():
        expected = sigmoid(first.module(u.rows[u.index[0]])[:, 0])
    assert torch.allclose(second.objective.memory["label"][0], expected)
    assert (second.schedule.lr, second.schedule.weight_decay, second.schedule.epochs) == (0.02, 0.03, MIXUP_EPOCHS)


@pytest.mark.parametrize(("cls", "lr"), [(DistPUClassifier, 0.005), (PULDAClassifier, 0.05)])
def test_defaults_of_the_second_training_follow_from_the_first(cls: Any, lr: float, blobs: Blobs) -> None:
    clf = cls(**SETTINGS | {"mixup_epochs": None, "mixup_lr": None, "mixup_weight_decay": None})
    stages = clf._stages(clf._prepare(blobs.X, blobs.s))
    second = stages.send(train([next(stages)], batched=False)[0]).schedule
    assert (second.lr, second.weight_decay, second.epochs) == (pytest.approx(lr), 0.01, EPOCHS)


@pytest.mark.parametrize("cls", [DistPUClassifier, PULDAClassifier])
def test_settings_of_the_second_training(cls: Any, blobs: Blobs) -> None:
    one = cls(**SETTINGS | {"mixup_epochs": 0}).fit(blobs.X, blobs.s)
    assert one.history_ == one.first_history_
    for name, bad in (
        ("mixup_weight", -1), ("mixup_alpha", 0), ("mixup_epochs", 1.5), ("mixup_lr", 0), ("mixup_weight_decay", -1)
    ):  # fmt: skip
        with pytest.raises(InputError, match=f"{name} must be"):
            cls(**SETTINGS | {name: bad}).fit(blobs.X, blobs.s)


@pytest.mark.parametrize(
    ("cls", "name", "bad"),
    [
        *((DistPUClassifier, name, -1) for name in ("entropy_weight", "entropy_weight_final", "mixed_entropy_weight")),
        *((PULDAClassifier, name, 1) for name in ("mean_decay", "margin_decay")),
        (PULDAClassifier, "sharpness", 0),
        (PULDAClassifier, "margin", -1),
    ],
)
def test_settings_of_one_method(cls: Any, name: str, bad: float, blobs: Blobs) -> None:
    with pytest.raises(InputError, match=f"{name} must be"):
        cls(**SETTINGS | {name: bad}).fit(blobs.X, blobs.s)
