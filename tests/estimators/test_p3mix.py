"""P3Mix against its formulas, row by row in plain Python."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from pulab import P3MixClassifier, PulabWarning
from pulab.estimators._p3mix import P3MixObjective
from pulab.training import Batch, RandomSource, Rows, Stream
from tests.conftest import Blobs

W = np.array([1.0, -0.5, 0.3])


def forward(x: Tensor, teacher: bool) -> Tensor:
    assert not teacher
    return x @ torch.from_numpy(W)


def sigmoid(g: float) -> float:
    return 1 / (1 + math.exp(-g))


def entropy(p: float) -> float:
    return -p * math.log(p) - (1 - p) * math.log(1 - p)


def cross_entropy(y: float, p: float) -> float:
    return -y * math.log(p) - (1 - y) * math.log(1 - p)


@pytest.mark.parametrize("started", [False, True])
def test_a_step_written_out(started: bool) -> None:
    rng = np.random.default_rng(0)
    X_p, X_u = rng.normal(size=(7, 3)) + np.array([1.0, 0, 0]), 2 * rng.normal(size=(12, 3))
    rows = Rows(np.concatenate([X_p, X_u]), torch.float64, torch.device("cpu"))
    numbers = {"high": 0.85, "low": 0.15, "mixup_alpha": 0.5, "unlabeled_weight": 0.6, "entropy_weight": 0.05}
    given = {name: torch.tensor([value], dtype=torch.float64) for name, value in numbers.items()}
    objective = P3MixObjective(Stream(rows, torch.arange(7)[None]), 4, 2, 0.9, **given)
    objective.begin_epoch(1)
    unsure_before = rng.random(7)
    if started:
        objective.memory["unsure"].copy_(torch.from_numpy(unsure_before))
        objective.begin_epoch(2)
        assert objective.memory["partners"][0].tolist() == sorted(range(7), key=lambda i: -unsure_before[i])[:4]
    positions = {"p": torch.tensor([[4, 0, 6]]), "u": torch.arange(12)[None]}
    inputs = {"p": torch.from_numpy(X_p[[4, 0, 6]])[None], "u": torch.from_numpy(X_u)[None]}
    step = objective.step(Batch(forward, inputs, inputs, positions, RandomSource([7], rows.device, rows.dtype)))

    draws = RandomSource([7], rows.device, rows.dtype)  # the same numbers, in the order of the paper's choices
    any_row, near = draws.integers(15, 15)[0].tolist(), draws.integers(4, 12)[0].tolist()
    share = draws.beta(0.5, 0.5, 1).item()
    share = max(share, 1 - share)
    batch = [*X_p[[4, 0, 6]], *X_u]
    p = [sigmoid(float(x @ W)) for x in batch]
    y = [1.0] * 3 + [float(started and value >= 0.85) for value in p[3:]]
    losses, entropies, n_unsure = [], [], 0
    for i, x in enumerate(batch):
        other, other_y = batch[any_row[i]], y[any_row[i]]
        if started and i >= 3 and 0.15 < p[i] < 0.85:
            n_unsure += 1
            other, other_y = X_p[int(objective.memory["partners"][0][near[i - 3]])], 1.0
        label, prediction = share * y[i] + (1 - share) * other_y, sigmoid(float((share * x + (1 - share) * other) @ W))
        own = entropy(label) if 0 < label < 1 else 0.0  # the KL is the cross-entropy without it: the same gradient
        losses.append(cross_entropy(label, prediction) - own)
        entropies.append(entropy(prediction))
    expected = np.mean(losses[:3]), np.mean(losses[3:]), np.mean(entropies)
    got = [step.terms[name].item() for name in ("positive", "kl", "entropy")]
    assert got == pytest.approx(expected)
    assert step.objective.item() == pytest.approx(expected[0] + 0.6 * expected[1] + 0.05 * expected[2])
    assert step.terms["unsure"].item() * 12 == pytest.approx(n_unsure)
    assert step.terms["sure"].item() * 12 == pytest.approx(sum(y[3:]))
    assert (n_unsure > 2 and sum(y[3:]) > 2) == started  # all kinds of rows are there
    seen = [entropy(value) for value in p[:3]]
    assert objective.memory["unsure"][0, [4, 0, 6]].tolist() == pytest.approx(seen)
    assert objective.memory["unsure"][0, 1] == (unsure_before[1] if started else 0)


def test_labelled_rows_are_not_among_the_negatives() -> None:
    """In a single sample the labelled rows belong to the population, but nobody doubts their labels."""
    data = Blobs("single-sample")
    clf = P3MixClassifier(scenario="single-sample", random_state=0)
    assert len(clf._prepare(data.X, data.s).streams["u"]) == round(0.8 * (data.s == 0).sum())


def test_what_cannot_be_done_is_said(blobs: Blobs) -> None:
    with pytest.raises(ValueError, match="low must not be above high"):
        P3MixClassifier(low=0.9).fit(blobs.X, blobs.s)
    with pytest.warns(PulabWarning, match="labels are never corrected"):
        P3MixClassifier(epochs=2, e_start=3, device="cpu").fit(blobs.X, blobs.s)
