"""CVIR and TEDⁿ against a transcription that shares no code with `src`: loops, sorted lists, torch's Adam."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pulab import CVIRClassifier, PulabWarning
from tests.conftest import Blobs
from tests.estimators.test_algorithm_1 import Notebook, noted_batches

EPOCHS, WARM_START, PRIOR, LR, WEIGHT_DECAY = 8, 3, 0.3, 0.02, 0.01


def bins(p: list[float], u: list[float]) -> float:
    """Best bin estimation by its definition: of all thresholds the one with the lowest upper bound."""
    slack = 1.01 * (math.sqrt(math.log(40) / (2 * len(p))) + math.sqrt(math.log(40) / (2 * len(u))))
    best = (math.inf, 0.0)
    for threshold in sorted(u, reverse=True):
        q_p, q_u = (sum(g >= threshold for g in part) / len(part) for part in (p, u))
        if q_p > 0 and (q_u + slack) / q_p < best[0]:
            best = (q_u + slack) / q_p, q_u / q_p
    return min(1.0, best[1])


def logits(weights: list[Tensor], x: Tensor) -> Tensor:
    W1, b1, W2, b2 = weights
    return (torch.tanh(x @ W1.T + b1) @ W2.T + b2)[:, 0]


def cvir(
    start: list[Tensor], p: Tensor, u: Tensor, held_out: tuple[Tensor, Tensor], batches: Any, in_turns: bool
) -> Any:
    """The weights after each epoch, the losses and the dropped shares."""
    weights = [w.clone().requires_grad_() for w in start]
    adam = torch.optim.Adam(weights, lr=LR, weight_decay=WEIGHT_DECAY, amsgrad=True)
    score, kept, share = [0.0] * len(u), set(range(len(u))), PRIOR
    history, dropped, losses = [], [], []
    for epoch, steps in enumerate(batches, 1):
        if epoch > WARM_START:
            order = sorted(range(len(u)), key=lambda i: -score[i])
            kept = set(order[round(share * len(u)) :])
        dropped.append(1 - len(kept) / len(u))
        total = 0.0
        for rows_p, rows_u in steps:
            g_p, g_u = logits(weights, p[rows_p]), logits(weights, u[rows_u])
            for i, g in zip(rows_u, g_u.tolist(), strict=True):
                score[i] = g
            rest = [torch.log(1 + torch.exp(g)) for i, g in zip(rows_u, g_u, strict=True) if i in kept]
            loss = 0 * g_p.sum()
            if rest:
                loss = torch.log(1 + torch.exp(-g_p)).mean() / 2 + sum(rest) / len(rest) / 2
            adam.zero_grad()
            loss.backward()
            adam.step()
            total += len(rows_u) * loss.item()
        losses.append(total / len(u))
        history.append([w.detach().clone() for w in weights])
        if in_turns:
            share = bins(*(logits(history[-1], part).tolist() for part in held_out))
    return history, losses, dropped


@pytest.mark.parametrize("prior", [PRIOR, "ted-n"])
def test_cvir_written_out(prior: Any) -> None:
    rng = np.random.default_rng(3)
    X_p = rng.normal(size=(9, 3)) + 1.5
    X_u = rng.normal(size=(23, 3)) + 1.5 * (np.arange(23) < 9)[:, None]
    held_out = rng.normal(size=(14, 3)) + 1.5, rng.normal(size=(30, 3)) + 1.5 * (np.arange(30) < 18)[:, None]
    X, s = np.concatenate([X_u, X_p]), np.repeat([0, 1], [23, 9])
    module = Notebook(3).double()
    start = [w.detach().clone() for w in module.parameters()]
    clf = CVIRClassifier(
        prior=prior, module=module, epochs=EPOCHS, warm_start_epochs=WARM_START, lr=LR, weight_decay=WEIGHT_DECAY,
        batch_size_u=5, dtype="float64", device="cpu", random_state=11,
    ).fit(X, s, X_val=np.concatenate(held_out), y_val=np.repeat([1, 0], [14, 30]))  # fmt: skip
    # The epoch that is kept has noted no later batches: fit once more, and keep the last one.
    notes = CVIRClassifier(
        prior=PRIOR, module=module, epochs=EPOCHS, warm_start_epochs=WARM_START, batch_size_u=5, validation_fraction=0,
        dtype="float64", device="cpu", random_state=11,
    ).fit(X, s).module_  # fmt: skip
    batches = noted_batches(notes, X_p, X_u, EPOCHS)
    tensors = [torch.from_numpy(rows) for rows in (X_p, X_u)]
    p_val, u_val = (torch.from_numpy(rows) for rows in held_out)
    history, losses, dropped = cvir(start, *tensors, (p_val, u_val), batches, prior == "ted-n")
    assert [record["loss"] for record in clf.history_] == pytest.approx(losses, abs=1e-9)
    assert [record["dropped"] for record in clf.history_] == pytest.approx(dropped, abs=1e-9)
    risks = []
    for weights in history:
        on_p, on_u = (torch.sigmoid(logits(weights, rows)).numpy() for rows in (p_val, u_val))
        told = PRIOR * (1 - on_p).mean() + max(0.0, on_u.mean() - PRIOR * on_p.mean())
        risks.append(told if prior == PRIOR else math.log(on_u.mean()) - 2 * math.log(on_p.mean()))
    assert [record["val_risk"] for record in clf.history_] == pytest.approx(risks, abs=1e-9)
    kept = history[clf.best_epoch_ - 1]
    assert clf.best_epoch_ == 1 + int(np.argmin(risks))
    for expected, got in zip(kept, clf.module_.parameters(), strict=True):
        assert (expected - got).abs().max() < 1e-9
    if prior == "ted-n":
        assert clf.prior_ == pytest.approx(bins(logits(kept, p_val).tolist(), logits(kept, u_val).tolist()))
        assert clf.prior_interval_[0] <= clf.prior_ <= clf.prior_interval_[1]
        assert dropped[-1] > 0.4  # not the share that is told in the other test
    else:
        assert set(np.round(dropped, 9)) == {0.0, round(7 / 23, 9)}
        assert clf.prior_ == PRIOR


@pytest.mark.parametrize("scenario", ["case-control", "single-sample"])
def test_ted_n_finds_the_share_of_the_population(scenario: str) -> None:
    data = Blobs(scenario, n=2000, n_labeled=300)
    clf = CVIRClassifier(scenario=scenario, epochs=20, random_state=0, device="cpu").fit(data.X, data.s)
    assert clf.prior_ == pytest.approx(data.prior, abs=0.05)
    assert clf.history_[-1]["dropped"] == pytest.approx(data.prior, abs=0.05)
    assert clf.score(data.X, data.y_true) > 0.95


def test_what_cannot_be_done_is_said(blobs: Blobs) -> None:
    with pytest.raises(ValueError, match="'ted-n' estimates the prior on held-out rows, but there are none"):
        CVIRClassifier(validation_fraction=0).fit(blobs.X, blobs.s)
    with pytest.warns(PulabWarning, match="no row is ever dropped"):
        CVIRClassifier(prior=0.4, epochs=2, warm_start_epochs=2, device="cpu").fit(blobs.X, blobs.s)
    with pytest.raises(ValueError, match="warm_start_epochs must be a whole number"):
        CVIRClassifier(prior=0.4, warm_start_epochs=0).fit(blobs.X, blobs.s)


def test_a_share_of_one_leaves_a_row(blobs: Blobs) -> None:
    """Nothing can be learned without a negative."""
    clf = CVIRClassifier(prior=0.999, epochs=3, warm_start_epochs=1, random_state=0, device="cpu")
    clf.fit(blobs.X, blobs.s)
    assert clf.history_[-1]["dropped"] == pytest.approx(1 - 1 / 320)
    assert np.isfinite(clf.decision_function(blobs.X)).all()
