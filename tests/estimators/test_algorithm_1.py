"""Proof that `joint` is the paper's Algorithm 1: a second, literal and slow transcription gives the same numbers.

The transcription shares no code with `src`: plain loops over samples, gradients written out by hand, the whole
n_u × e_end matrix Z, AMSGrad from its definition. It is given the initial weights and the batches, which a module that
notes down its inputs gets out of the real run.
"""

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pulab import JointPUClassifier

Array = NDArray[np.float64]
N_HIDDEN = 4


class Notebook(nn.Module):
    """A net with one hidden layer that notes down what it is shown, and answers, in training."""

    def __init__(self, n_features: int, norm: bool = False) -> None:
        super().__init__()
        self.hidden = nn.Linear(n_features, N_HIDDEN)
        self.norm = nn.BatchNorm1d(N_HIDDEN) if norm else nn.Identity()
        self.out = nn.Linear(N_HIDDEN, 1)
        self.notes: list[tuple[Tensor, Tensor]] = []

    def forward(self, x: Tensor) -> Tensor:
        g: Tensor = self.out(torch.tanh(self.norm(self.hidden(x))))
        if self.training:
            self.notes.append((x.detach().clone(), g.detach().clone()))
        return g


def noted_batches(module: Notebook, X_p: Array, X_u: Array, epochs: int) -> list[list[tuple[list[int], list[int]]]]:
    """Per epoch and step: which rows of P and of U were in the batch, found by their values."""
    place = {tuple(row): ("p", i) for i, row in enumerate(X_p)} | {tuple(row): ("u", i) for i, row in enumerate(X_u)}
    steps = []
    for x, _ in module.notes:
        found = [place[tuple(row)] for row in x.numpy()]
        steps.append(([i for kind, i in found if kind == "p"], [i for kind, i in found if kind == "u"]))
    per_epoch = len(steps) // epochs
    return [steps[i * per_epoch : (i + 1) * per_epoch] for i in range(epochs)]


def algorithm_1(
    weights: list[Array],
    X_p: Array,
    X_u: Array,
    batches: list[list[tuple[list[int], list[int]]]],
    y_init: Array,
    *,
    pi: float,
    lambda_init: float,
    alpha: float,
    beta: float,
    r: int,
    e_start: int,
    lr: float,
    weight_decay: float,
    positive_loss: str,
) -> tuple[list[Array], Array]:
    """Algorithm 1 of the paper, read as the notes on it say; returns the weights and the labels."""
    W1, b1, W2, b2 = (w.copy() for w in weights)
    n_p, n_u, e_end = len(X_p), len(X_u), len(batches)
    Z = np.zeros((n_u, e_end))
    y = y_init.copy()
    m = [np.zeros_like(w) for w in (W1, b1, W2, b2)]
    v = [np.zeros_like(w) for w in (W1, b1, W2, b2)]
    v_max = [np.zeros_like(w) for w in (W1, b1, W2, b2)]
    t = 0
    for i in range(1, e_end + 1):
        lam = (e_end - i) / (e_end - 1) * (lambda_init - n_p / n_u) + n_p / n_u
        for rows_p, rows_u in batches[i - 1]:
            grads = [np.zeros_like(w) for w in (W1, b1, W2, b2)]
            sigma_u = [1 / (1 + math.exp(-(W2[0] @ np.tanh(W1 @ X_u[k] + b1) + b2[0]))) for k in rows_u]
            share = sum(sigma_u) / len(rows_u)
            for kind, rows in (("p", rows_p), ("u", rows_u)):
                for k in rows:
                    x = X_p[k] if kind == "p" else X_u[k]
                    h = np.tanh(W1 @ x + b1)
                    g = float(W2[0] @ h + b2[0])
                    s = 1 / (1 + math.exp(-g))
                    slope = s * (1 - s)
                    if kind == "p":
                        d = -slope if positive_loss == "sigmoid" else -(1 - s)
                        d *= lam / len(rows_p)
                    else:
                        d = s - y[k]  # of the KL to the label
                        d += alpha * (-pi / share + (1 - pi) / (1 - share)) * slope  # of the KL of the share to π
                        d += beta * -g * slope  # of the entropy
                        d /= len(rows_u)
                    grads[3] += d
                    grads[2][0] += d * h
                    back = d * W2[0] * (1 - h**2)
                    grads[1] += back
                    grads[0] += np.outer(back, x)
            for j, k in enumerate(rows_u):
                Z[k, i - 1] = sigma_u[j]
                if i >= e_start:
                    stored = Z[k, max(0, i - r) : i]
                    y[k] = sum(stored) / len(stored)
            t += 1
            for w, grad, m_w, v_w, top in zip((W1, b1, W2, b2), grads, m, v, v_max, strict=True):
                grad = grad + weight_decay * w
                m_w += 0.1 * (grad - m_w)
                v_w += 0.001 * (grad**2 - v_w)
                np.maximum(top, v_w, out=top)
                w -= lr / (1 - 0.9**t) * m_w / (np.sqrt(top) / math.sqrt(1 - 0.999**t) + 1e-8)
    return [W1, b1, W2, b2], y


@pytest.mark.parametrize("init", ["prior", "negative", "random"])
@pytest.mark.parametrize(
    ("positive_loss", "r", "e_start", "n_p"), [("sigmoid", 3, 4, 9), ("logistic", 10, 2, 9), ("sigmoid", 2, 5, 3)]
)
def test_joint_equals_algorithm_1_written_out(init: str, positive_loss: str, r: int, e_start: int, n_p: int) -> None:
    """Weights and labels after seven epochs agree to 1e-9; also where U does not divide, P repeats, r is not full."""
    rng = np.random.default_rng(3)
    X_p, X_u = rng.normal(size=(n_p, 3)) + 0.5, rng.normal(size=(23, 3))
    X, s = np.concatenate([X_u, X_p]), np.array([0] * len(X_u) + [1] * len(X_p))
    module = Notebook(3).double()
    start = [w.detach().numpy().copy() for w in module.parameters()]
    hyper = {"lambda_init": 3.0, "alpha": 2.0, "beta": 0.7, "r": r, "e_start": e_start, "weight_decay": 0.01}
    clf = JointPUClassifier(
        prior=0.35,
        init=init,
        positive_loss=positive_loss,
        module=module,
        epochs=7,
        lr=0.02,
        batch_size_u=5,
        validation_fraction=0,
        dtype="float64",
        device="cpu",
        random_state=11,
        **hyper,
    ).fit(X, s)
    batches = noted_batches(clf.module_, X_p, X_u, epochs=7)
    for epoch in batches:
        assert sorted(k for _, rows_u in epoch for k in rows_u) == list(range(23))  # U is passed over exactly once
        seen_p = [k for rows_p, _ in epoch for k in rows_p]
        assert set(seen_p) == set(range(n_p))
        assert len(seen_p) == max(n_p, len(epoch))  # P once, or repeated until every step has one

    if init == "random":  # labels that nobody moves show how they began; the draw does not depend on e_start
        with pytest.warns(UserWarning, match="labels are never updated"):
            y_init = clf.set_params(epochs=1, e_start=99).fit(X, s).pseudo_labels_
        assert sorted(set(y_init)) == [0, 1]
        assert y_init.sum() == round(0.35 * 23)
        clf.set_params(epochs=7, e_start=e_start).fit(X, s)
    else:
        y_init = np.full(23, {"prior": 0.35, "negative": 0.0}[init])
    weights, labels = algorithm_1(
        start, X_p, X_u, batches, y_init, pi=0.35, lr=0.02, positive_loss=positive_loss, **hyper
    )
    assert np.abs(labels - clf.pseudo_labels_).max() < 1e-9
    for expected, got in zip(weights, clf.module_.parameters(), strict=True):
        assert np.abs(expected - got.detach().numpy()).max() < 1e-9
    assert np.abs(labels - y_init).max() > 0.01  # and it was not all standing still


def test_labels_average_the_very_predictions_of_the_training_pass() -> None:
    """With BatchNorm, a label is the mean of the training-mode predictions, P and U normalised together."""
    rng = np.random.default_rng(0)
    X_p, X_u = rng.normal(size=(6, 3)) + 1, rng.normal(size=(20, 3))
    X, s = np.concatenate([X_p, X_u]), np.array([1] * 6 + [0] * 20)
    clf = JointPUClassifier(
        prior=0.4, module=Notebook(3, norm=True), epochs=6, r=4, batch_size_u=7, validation_fraction=0,
        dtype="float64", device="cpu", random_state=0,
    ).fit(X, s)  # fmt: skip
    seen: dict[tuple[float, ...], list[float]] = {tuple(row): [] for row in X_u}
    for x, g in clf.module_.notes:
        assert len(x) == 7 + 2 or len(x) == 6 + 2
        for row, logit in zip(x.numpy(), g.numpy()[:, 0], strict=True):
            if tuple(row) in seen:
                seen[tuple(row)].append(1 / (1 + math.exp(-logit)))
    expected = [np.mean(seen[tuple(row)][-4:]) for row in X_u]
    assert np.abs(clf.pseudo_labels_ - expected).max() < 1e-12
