"""HolisticPU: trends from the teacher's own predictions, Jenks' cut by trying all cuts, and a second stage by hand."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pulab import HolisticPUClassifier
from pulab.augment import digits, strong
from pulab.estimators import _holistic
from pulab.estimators._holistic import PseudoLabelObjective, TrendObjective, natural_break
from pulab.training import Batch, RandomSource
from tests.conftest import Blobs


def test_natural_break_is_the_best_of_all_cuts() -> None:
    rng = np.random.default_rng(0)
    for n in (2, 3, 10, 40):
        values = rng.normal(size=n) + 3 * (rng.random(n) < 0.3)
        within = {}
        for cut in np.sort(values)[:-1]:
            low, high = values[values <= cut], values[values > cut]
            within[cut] = ((low - low.mean()) ** 2).sum() + ((high - high.mean()) ** 2).sum()
        assert natural_break(values) == min(within, key=within.__getitem__)
    assert natural_break(np.array([1.0, 1.1, 5.0, 5.2])) == 1.1
    assert natural_break(np.array([2.0])) == 2.0
    assert not (np.ones(5) > natural_break(np.ones(5))).any()  # equal trends: all rows are negative


def test_trends_are_those_of_all_predictions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole table of predictions, rows × epochs, gives the trends and so the labels."""
    seen: list[np.ndarray] = []

    class Watched(TrendObjective):
        def validation_risk(self, g: Any) -> Tensor:
            seen.append(g["u"].sigmoid()[0].numpy().copy())
            return super().validation_risk(g)

    monkeypatch.setattr(_holistic, "TrendObjective", Watched)
    data = Blobs("case-control")
    clf = HolisticPUClassifier(
        module=nn.Linear(5, 1), trend_epochs=6, epochs=3, validation_fraction=0, dtype="float64", device="cpu",
        random_state=0,
    ).fit(data.X, data.s)  # fmt: skip
    table = np.stack(seen, axis=1)
    assert table.shape == ((data.s == 0).sum(), 6)
    trends = np.array([np.mean([math.log(1 + d + d**2 / 2) for d in row]) for row in np.diff(table, axis=1)])
    assert np.array_equal(clf.pseudo_labels_, trends > natural_break(trends))
    assert (clf.pseudo_labels_ == data.y_true[data.s == 0]).mean() > 0.95
    assert 0.2 < clf.pseudo_labels_.mean() < 0.6
    assert len(clf.trend_history_) == 6
    assert len(clf.history_) == 3


def forward(x: Tensor, teacher: bool) -> Tensor:
    assert not teacher
    return x[..., 0]


def batch_of(p: list[float], u: list[float], positions: list[int]) -> Batch:
    rows = {name: torch.tensor(g, dtype=torch.float64)[None, :, None] for name, g in (("p", p), ("u", u))}
    random = RandomSource([0], torch.device("cpu"), torch.float64)
    return Batch(forward, rows, rows, {"p": torch.zeros(1, len(p)), "u": torch.tensor([positions])}, random)


def test_losses_of_both_stages() -> None:
    ln3 = math.log(3)  # σ: 3/4
    first = TrendObjective(torch.zeros(1, 4, dtype=torch.float64), 0.9, torch.tensor([0.75], dtype=torch.float64))
    loss = first.step(batch_of([ln3], [ln3, -ln3], [0, 1])).objective.item()
    assert loss == pytest.approx((math.log(4) + math.log(4 / 3)) / 2)  # P is where its smoothed label is
    labels = torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64)
    sure = torch.tensor([0.7], dtype=torch.float64)
    batch = batch_of([0.0], [ln3, -ln3], [0, 2])
    plain = PseudoLabelObjective(None, labels, sure=sure).step(batch)
    assert plain.objective.item() == pytest.approx(math.log(2) + math.log(4 / 3))
    mirrored = PseudoLabelObjective(lambda x, random: -x, labels, sure=sure).step(batch)
    assert mirrored.objective.item() == pytest.approx(plain.objective.item() + math.log(4))


def test_batches_of_the_first_training_are_even(blobs: Blobs) -> None:
    clf = HolisticPUClassifier(random_state=0)
    job = next(clf._stages(clf._prepare(blobs.X, blobs.s)))
    assert job.schedule.batch_size_p == job.schedule.batch_size_u
    assert job.schedule.lr * 15 * job.schedule.steps(320) == pytest.approx(30 * clf.lr)


def test_views_follow_the_kind_of_rows() -> None:
    for channels, view in ((1, digits), (3, strong), (2, None)):
        clf = HolisticPUClassifier()
        clf.row_shape_ = (channels, 8, 8)
        assert clf._strong is view
    clf.row_shape_ = (5,)
    assert clf._strong is None
    rng = np.random.default_rng(0)
    y = np.repeat([1, 0], [20, 60])
    fitted = HolisticPUClassifier(epochs=2, trend_epochs=2, random_state=0, device="cpu")
    fitted.fit(rng.normal(size=(80, 1, 8, 8)), y)
    assert "views" in fitted.history_[0]
    with pytest.raises(ValueError, match="'strong' is a view of images"):
        HolisticPUClassifier(strong_augment="strong").fit(rng.normal(size=(80, 3)), y)
