"""Batches, the choice of the epoch, the history, the label ring, the schedule."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from pulab import NNPUClassifier, PUbNClassifier
from pulab.training import LabelRing, Rows, Schedule, Training
from pulab.training.capture import CapturedStep
from pulab.training.streams import epoch_order
from tests.conftest import Blobs
from tests.estimators.test_algorithm_1 import Notebook


@given(n=st.integers(1, 300), steps=st.integers(1, 60), seed=st.integers(0, 999))
@settings(max_examples=80, deadline=None)
def test_an_epoch_deals_out_every_row_once_and_evenly(n: int, steps: int, seed: int) -> None:
    parts = epoch_order(n, steps, None, torch.Generator().manual_seed(seed)).tensor_split(steps)
    sizes = [len(part) for part in parts]
    assert len(parts) == steps
    assert max(sizes) - min(sizes) <= 1
    counts = np.bincount(torch.cat(parts).numpy(), minlength=n)
    assert counts.sum() == max(n, steps)
    assert counts.max() - counts.min() <= 1  # once each, or repeated evenly
    if n >= steps:
        assert (counts == 1).all()


def test_a_batch_size_is_kept_to() -> None:
    parts = epoch_order(7, 5, 3, torch.Generator().manual_seed(0)).tensor_split(5)
    assert [len(part) for part in parts] == [3] * 5
    assert set(torch.cat(parts[:2]).tolist()) | set(parts[2].tolist()) == set(range(7))


def test_every_epoch_has_an_order_of_its_own(blobs: Blobs) -> None:
    """The labelled, the unlabeled and the negative rows are shuffled again before every epoch."""
    module = Notebook(5)
    clf = PUbNClassifier(
        prior=0.4, rho=0.2, module=module, epochs=4, validation_fraction=0, random_state=0, device="cpu"
    )
    X_negative = np.random.default_rng(1).normal(size=(20, 5)) - 2
    clf.fit(blobs.X, blobs.s, X_negative=X_negative)
    samples = {"p": blobs.X[blobs.s == 1], "u": blobs.X[blobs.s == 0], "n": X_negative}
    place = {row.astype(np.float32).tobytes(): name for name, rows in samples.items() for row in rows}
    for trained in (clf.sigma_module_, clf.module_):
        shown = [row.numpy().tobytes() for x, _ in trained.notes for row in x]
        for name, rows in samples.items():
            orders = np.array_split([row for row in shown if place[row] == name], 4)
            assert [len(set(order)) for order in orders] == [len(rows)] * 4
            assert len({tuple(order) for order in orders}) == 4


def test_the_weights_of_the_epoch_with_the_lowest_risk_are_kept() -> None:
    """They equal the weights of a training that stops at this epoch. The risk has its minimum in the middle."""
    rng = np.random.default_rng(0)
    X, X_val = rng.normal(size=(2, 130, 3))
    s = np.repeat([1, 0], [30, 100])
    X[:60, 0] += 1.5
    X_val[:60, 0] += 1.5
    module = Notebook(3)

    def fitted(epochs: int) -> NNPUClassifier:
        clf = NNPUClassifier(prior=0.3, module=module, epochs=epochs, lr=0.2, random_state=0, device="cpu")
        return clf.fit(X, s, X_val=X_val, y_val=s)

    clf = fitted(12)
    risks = [record["val_risk"] for record in clf.history_]
    assert 1 < clf.best_epoch_ < 12
    assert risks[clf.best_epoch_ - 1] == min(risks)
    stopped = fitted(clf.best_epoch_)
    assert stopped.history_ == clf.history_[: clf.best_epoch_]
    for kept, last in zip(clf.module_.parameters(), stopped.module_.parameters(), strict=True):
        assert torch.equal(kept, last)
    assert not np.array_equal(clf.predict_proba(X_val), fitted(clf.best_epoch_ - 1).predict_proba(X_val))


def test_the_history_holds_means_over_rows() -> None:
    """Three unlabeled rows come in batches of two and one. Each row has the weight 1/3."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5, 2))
    clf = NNPUClassifier(
        prior=0.4, module=Notebook(2), epochs=3, lr=0.5, batch_size_u=2, validation_fraction=0, dtype="float64",
        random_state=0, device="cpu",
    ).fit(X, [1, 1, 0, 0, 0])  # fmt: skip
    unlabeled = {tuple(row) for row in X[2:]}
    steps = [
        [float(logit) for row, logit in zip(x.numpy(), g, strict=True) if tuple(row) in unlabeled]
        for x, g in clf.module_.notes
    ]
    assert [len(step) for step in steps] == [2, 1] * 3
    for i, record in enumerate(clf.history_):
        shares = [1 / (1 + np.exp(-g)) for g in steps[2 * i] + steps[2 * i + 1]]
        assert record["positive_share"] == pytest.approx(np.mean(shares), abs=1e-12)


@pytest.mark.parametrize("r", [1, 3, 10])
def test_the_ring_gives_what_the_whole_matrix_gives(r: int) -> None:
    rng = np.random.default_rng(0)
    Z = rng.random((2, 6, 8))  # two models, six rows, eight epochs
    ring = LabelRing(torch.full((2, 6), 0.4, dtype=torch.float64), r)
    for epoch in range(1, 9):
        for rows in np.array_split(rng.permutation(6), 2):
            positions = torch.from_numpy(np.stack([rows, rows]))
            ring.remember(positions, torch.from_numpy(Z[:, rows, epoch - 1]))
        ring.end_epoch(epoch, update=epoch >= 3)
        expected = Z[:, :, max(0, epoch - r) : epoch].mean(axis=2) if epoch >= 3 else 0.4
        assert np.allclose(ring.current.numpy(), expected)


def test_the_ring_is_all_the_memory_there_is() -> None:
    ring = LabelRing(torch.zeros(1, 1000), r=10)
    tensors = [value for value in vars(ring).values() if isinstance(value, torch.Tensor)]
    assert sum(value.numel() for value in tensors) == 1000 * (10 + 2)


def test_schedule() -> None:
    schedule = Schedule(200, 1e-3, (80, 120), 0.0, batch_size_u=100, batch_size_p=None)
    assert schedule.steps(10_000) == 100
    assert schedule.steps(10_001) == 101
    rates = [schedule.lr_at(step, 100) for step in (0, 7999, 8000, 11_999, 12_000)]
    assert rates == pytest.approx([1e-3, 1e-3, 1e-4, 1e-4, 1e-5])
    cosine = replace(schedule, epochs=10, lr_milestones=(), lr_schedule="cosine", lr_warmup=0.5)
    rates = [cosine.lr_at(step, 100) for step in (0, 24, 49, 50, 525, 999)]
    assert rates == pytest.approx([1e-3 / 51, 25e-3 / 51, 50e-3 / 51, 1e-3, 0.5e-3, 0], abs=1e-8)


def test_only_steps_that_gather_their_rows_on_the_device_are_recorded(
    blobs: Blobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of a file wait on the host, as sparse rows do: there a recording would fail, with a warning."""
    monkeypatch.setattr(Training, "_on_gpu", True)
    file = np.memmap(tmp_path / "X", "float32", mode="w+", shape=blobs.X.shape)
    clf = NNPUClassifier(prior=0.4, module=torch.nn.Linear(5, 1), device="cpu", random_state=0)
    job = next(clf._stages(clf._prepare(blobs.X, blobs.s)))
    recorded = []
    for X, device in ((blobs.X, "cpu"), (sparse.csr_array(blobs.X), "cpu"), (file, "cpu"), (file, "cuda")):
        rows = Rows(X, torch.float32, torch.device(device))
        training = Training(
            [replace(job, streams={name: replace(stream, rows=rows) for name, stream in job.streams.items()})],
            job.objective,
        )
        with training.started():
            recorded.append(isinstance(training._take_step, CapturedStep))
    assert recorded == [True, False, True, False]
