"""Proof that `PUbNClassifier` is the method of Hsieh et al. (2019): a second, literal transcription agrees to 1e-9.

The transcription shares no code with `src`. It writes out the network and the losses, and steps with torch's Adam. It
is given the initial weights and the batches; a module that notes down its inputs gets the batches out of the real run.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from pulab import PUbNClassifier
from tests.estimators.test_algorithm_1 import Notebook

Array = NDArray[np.float64]
Batch = dict[str, list[int]]  # by stream, the numbers of its rows
PI, RHO, TAU, EPOCHS, HELD_OUT = 0.55, 0.15, 0.77, 9, 0.25
LR_SIGMA, LR, MILESTONES, WEIGHT_DECAY = 0.08, 0.05, (4, 7), 0.01


def noted_batches(module: Notebook, samples: dict[str, Array]) -> list[list[Batch]]:
    """Per epoch and step: which rows of each stream were in the batch. Rows are known by their values."""
    place = {tuple(row): (name, i) for name, rows in samples.items() for i, row in enumerate(rows)}
    steps: list[Batch] = []
    for x, _ in module.notes:
        step: Batch = {name: [] for name in samples}
        for row in x.numpy():
            name, i = place[tuple(row)]
            step[name].append(i)
        steps.append(step)
    per_epoch = len(steps) // EPOCHS
    return [steps[i * per_epoch : (i + 1) * per_epoch] for i in range(EPOCHS)]


def logits(weights: list[Tensor], x: Tensor) -> Tensor:
    W1, b1, W2, b2 = weights
    return (torch.tanh(x @ W1.T + b1) @ W2.T + b2)[:, 0]


def sigmoid(g: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-g))


def ell(g: Tensor) -> Tensor:
    """The logistic loss of a positive with logit g. The loss of a negative is ell(-g)."""
    return torch.log(1 + torch.exp(-g))


class Stage(NamedTuple):
    """The weights of the epoch with the lowest validation risk; loss and validation risk of every epoch."""

    weights: list[Tensor]
    losses: list[float]
    risks: list[float]


def train(
    start: list[Tensor],
    samples: dict[str, Tensor],
    batches: list[list[Batch]],
    lr: float,
    price: Callable[[dict[str, Tensor], Batch], tuple[Tensor, Tensor]],
    risk: Callable[[list[Tensor]], float],
) -> Stage:
    """`price` gives the reported loss of a batch and the function whose gradient is followed."""
    weights = [w.clone().requires_grad_() for w in start]
    adam = torch.optim.Adam(weights, lr=lr, weight_decay=WEIGHT_DECAY, amsgrad=True)
    losses, risks, kept = [], [], []
    for epoch, steps in enumerate(batches, 1):
        for group in adam.param_groups:
            group["lr"] = lr / 10 ** sum(epoch > milestone for milestone in MILESTONES)
        total = 0.0
        for batch in steps:
            g = {name: logits(weights, samples[name][rows]) for name, rows in batch.items()}
            value, followed = price(g, batch)
            adam.zero_grad()
            followed.backward()
            adam.step()
            total += len(batch["u"]) * value.item()
        losses.append(total / sum(len(batch["u"]) for batch in steps))
        with torch.no_grad():
            risks.append(risk(weights))
        kept.append([w.detach().clone() for w in weights])
    return Stage(kept[int(np.argmin(risks))], losses, risks)


def percentile(values: Tensor, percent: int) -> float:
    """With linear interpolation between the two nearest values."""
    ordered = sorted(values.tolist())
    place = percent / 100 * (len(ordered) - 1)
    below = int(place)
    return float(ordered[below] + (place - below) * (ordered[below + 1] - ordered[below]))


class WrittenOut(NamedTuple):
    first: Stage
    sigma: dict[str, Tensor]
    eta: float
    second: Stage
    clamped_risks: list[float]  # the epoch is not chosen by these
    climbed: list[bool]  # for every step of the first stage: whether the clamp acted


def pubn(
    start: list[Tensor],
    samples: dict[str, Tensor],
    validation: dict[str, Tensor],
    seen: list[int],
    batches: tuple[list[list[Batch]], list[list[Batch]]],
    rho: float,
) -> WrittenOut:
    """The two trainings. Without negatives rho is 0 and there is no stream "n". `seen`: the rows of U trained on."""
    with_n = "n" in samples
    climbed = []

    def first_price(g: dict[str, Tensor], batch: Batch) -> tuple[Tensor, Tensor]:
        labelled = PI * ell(g["p"]).mean()
        rest = ell(-g["u"]).mean() - PI * ell(-g["p"]).mean()
        if with_n:
            labelled = labelled + rho * ell(g["n"]).mean()
            rest = rest - rho * ell(-g["n"]).mean()
        climbed.append(bool(rest < 0))
        return (labelled, -rest) if rest < 0 else (labelled + rest, labelled + rest)

    def first_risk(weights: list[Tensor]) -> float:
        s = {name: sigmoid(logits(weights, x)) for name, x in validation.items()}
        risk = (s["u"] ** 2).mean() - 2 * PI * s["p"].mean()
        return float(risk - 2 * rho * s["n"].mean()) if with_n else float(risk)

    first = train(start, samples, batches[0], LR_SIGMA, first_price, first_risk)
    sigma = {name: sigmoid(logits(first.weights, x)) for name, x in samples.items()}
    eta = percentile(sigma["u"][seen], int((1 - PI - rho) * TAU * 100))

    def second_price(g: dict[str, Tensor], batch: Batch) -> tuple[Tensor, Tensor]:
        total = torch.zeros((), dtype=torch.float64)
        for k, row in enumerate(batch["p"]):
            s, z = sigma["p"][row], g["p"][k]
            given_up = (1 - s) / s * ell(-z) if s > eta else 0.0
            total = total + PI * (ell(z) + given_up) / len(batch["p"])
        for k, row in enumerate(batch["u"]):
            s, z = sigma["u"][row], g["u"][k]
            if s <= eta:
                total = total + (1 - s) * ell(-z) / len(batch["u"])
        for k, row in enumerate(batch.get("n", [])):
            s, z = sigma["n"][row], g["n"][k]
            total = total + rho * (ell(-z) / s if s > eta else ell(-z)) / len(batch["n"])
        return total, total

    clamped = []

    def second_risk(weights: list[Tensor]) -> float:
        on_p, on_u = (sigmoid(logits(weights, validation[name])).mean() for name in ("p", "u"))
        positive, negative = PI * (1 - on_p), on_u - PI * on_p
        clamped.append(float(positive + max(negative, torch.zeros(()))))
        return float(positive + negative)

    second = train(start, samples, batches[1], LR, second_price, second_risk)
    return WrittenOut(first, sigma, eta, second, clamped, climbed)


def same_weights(module: Notebook, weights: list[Tensor]) -> bool:
    pairs = zip(module.parameters(), weights, strict=True)
    return all((trained - expected).abs().max() < 1e-9 for trained, expected in pairs)


@pytest.mark.parametrize("with_n", [False, True], ids=["pubn-n", "pubn"])
def test_pubn_equals_the_two_stages_written_out(with_n: bool) -> None:
    """Weights, histories, σ, η and probabilities agree to 1e-9. The last lines check that the example is a hard one."""
    rng = np.random.default_rng(0)
    samples = {"p": rng.normal(size=(16, 3)) + 0.8, "u": rng.normal(size=(53, 3)) - 0.8}
    samples["u"][:12] += 1.2
    samples["p"][:3] -= 2  # labelled rows among the unlabeled ones
    given: dict[str, Any] = {}
    if with_n:
        samples["n"] = given["X_negative"] = rng.normal(size=(13, 3)) * 1.5 + [0.4, -1.0, 0.0]
    module = Notebook(3).double()
    start = [w.detach().clone() for w in module.parameters()]
    X, s = np.concatenate([samples["u"], samples["p"]]), np.repeat([0, 1], [53, 16])
    clf = PUbNClassifier(
        prior=PI, rho=RHO if with_n else None, tau=TAU, lr=LR, lr_sigma=LR_SIGMA, lr_milestones=MILESTONES,
        weight_decay=WEIGHT_DECAY, module=module, epochs=EPOCHS, batch_size_u=7, validation_fraction=HELD_OUT,
        dtype="float64", device="cpu", random_state=5,
    ).fit(X, s, **given)  # fmt: skip

    batches = noted_batches(clf.sigma_module_, samples), noted_batches(clf.module_, samples)
    seen = {name: sorted({i for batch in batches[0][0] for i in batch[name]}) for name in samples}
    for epoch in batches[0] + batches[1]:
        for name in samples:
            assert sorted(i for batch in epoch for i in batch[name]) == seen[name]  # every row once an epoch
    tensors = {name: torch.from_numpy(rows) for name, rows in samples.items()}
    held_out = {name: np.setdiff1d(np.arange(len(rows)), seen[name]) for name, rows in samples.items()}
    assert {name: len(rows) for name, rows in held_out.items()} == {
        name: round(HELD_OUT * len(rows)) for name, rows in samples.items()
    }
    validation = {name: tensors[name][rows] for name, rows in held_out.items()}
    expected = pubn(start, tensors, validation, seen["u"], batches, RHO if with_n else 0.0)

    for stage, history, kept in (
        (expected.first, clf.sigma_history_, clf.sigma_module_),
        (expected.second, clf.history_, clf.module_),
    ):
        assert [record["val_risk"] for record in history] == pytest.approx(stage.risks, abs=1e-9)
        assert [record["loss"] for record in history] == pytest.approx(stage.losses, abs=1e-9)
        assert same_weights(kept, stage.weights)
    assert clf.best_epoch_ == 1 + int(np.argmin(expected.second.risks))
    with torch.no_grad():
        for name, rows in tensors.items():
            assert (torch.sigmoid(clf.sigma_module_(rows)[:, 0]) - expected.sigma[name]).abs().max() < 1e-9
    assert clf.eta_ == pytest.approx(expected.eta, abs=1e-9)
    unseen = rng.normal(size=(20, 3))
    p = sigmoid(logits(expected.second.weights, torch.from_numpy(unseen))).numpy()
    assert np.abs(clf.predict_proba(unseen)[:, 1] - p).max() < 1e-9

    assert {True, False} == set(expected.climbed)  # nnPU's clamp acts, and rests
    for name in samples:
        assert 0 < (expected.sigma[name][seen[name]] > expected.eta).sum() < len(seen[name])  # both sides of η
    assert np.argmin(expected.first.risks) < EPOCHS - 1
    assert np.argmin(expected.clamped_risks) != np.argmin(expected.second.risks)
    assert not same_weights(clf.sigma_module_, start)
