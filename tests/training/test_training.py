"""Batches, the label ring, the schedule."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pulab.training import LabelRing, Schedule
from pulab.training.streams import epoch_order


@given(n=st.integers(1, 300), steps=st.integers(1, 60), seed=st.integers(0, 999))
@settings(max_examples=80, deadline=None)
def test_an_epoch_deals_out_every_row_once_and_evenly(n: int, steps: int, seed: int) -> None:
    parts = epoch_order(n, steps, None, torch.Generator().manual_seed(seed)).tensor_split(steps)
    sizes = [len(part) for part in parts]
    assert len(parts) == steps
    assert max(sizes) - min(sizes) <= 1
    counts = np.bincount(torch.cat(parts).numpy(), minlength=n)
    assert counts.sum() == max(n, steps)
    assert counts.max() - counts.min() <= 1  # once each, or repeated as evenly as can be
    if n >= steps:
        assert (counts == 1).all()


def test_a_batch_size_is_kept_to() -> None:
    parts = epoch_order(7, 5, 3, torch.Generator().manual_seed(0)).tensor_split(5)
    assert [len(part) for part in parts] == [3] * 5
    assert set(torch.cat(parts[:2]).tolist()) | set(parts[2].tolist()) == set(range(7))


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
    held = [value for value in vars(ring).values() if isinstance(value, torch.Tensor)]
    assert sum(value.numel() for value in held) == 1000 * (10 + 2)


def test_schedule() -> None:
    schedule = Schedule(200, 1e-3, (80, 120), 0.0, batch_size_u=100, batch_size_p=None)
    assert schedule.steps(10_000) == 100
    assert schedule.steps(10_001) == 101
    rates = [schedule.lr_at(step, 100) for step in (0, 7999, 8000, 11_999, 12_000)]
    assert rates == pytest.approx([1e-3, 1e-3, 1e-4, 1e-4, 1e-5])
    cosine = replace(schedule, epochs=10, lr_milestones=(), lr_schedule="cosine", lr_warmup=0.5)
    rates = [cosine.lr_at(step, 100) for step in (0, 24, 49, 50, 525, 999)]
    assert rates == pytest.approx([1e-3 / 51, 25e-3 / 51, 50e-3 / 51, 1e-3, 0.5e-3, 0], abs=1e-8)
