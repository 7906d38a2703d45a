"""`joint` with views: each part against a source of its own, and with every part off the method is `joint`."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq
from torch import Tensor, nn

from pulab import JointPUClassifier, JointViewsPUClassifier
from pulab.augment import POLICIES
from pulab.datasets import load_digits, make_pu
from pulab.errors import CheckpointError, InputError, TrainingError
from pulab.estimators._base import fit_tasks
from pulab.estimators._joint_views import ContrastObjective
from pulab.losses import contrastive_risk
from pulab.training import RandomSource, train
from pulab.training.memory import aligned
from tests.conftest import Blobs

Array = NDArray[np.float64]
OFF = {"augment": None, "label_augment": None, "teacher_decay": None, "align": False, "pretrain_epochs": 0}
PU = make_pu(*load_digits(positive=(0,), images=True)[:2], n_labeled=40, n_unlabeled=200, random_state=0)


def make(**params: Any) -> JointViewsPUClassifier:
    shared = {"prior": 0.4, "device": "cpu", "random_state": 0, "epochs": 8, "dtype": "float64"}
    return JointViewsPUClassifier(**shared | params)


def small_net() -> nn.Module:
    """Of layers that a fleet can batch."""
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(108, 8), nn.ReLU(), nn.Linear(8, 1))


def test_with_every_part_off_it_is_joint(blobs: Blobs) -> None:
    clf = make(**OFF, validation_fraction=0).fit(blobs.X, blobs.s)
    same = {name: value for name, value in clf.get_params().items() if name in JointPUClassifier().get_params()}
    joint = JointPUClassifier(**same | {"augment": None}).fit(blobs.X, blobs.s)
    assert np.array_equal(clf.decision_function(blobs.X), joint.decision_function(blobs.X))
    assert np.array_equal(clf.pseudo_labels_, joint.pseudo_labels_)


# The second training --------------------------------------------------------------------------------------------------


def written_out(
    w: Array, b: float, X_p: Array, X_u: Array, epochs: int, *, pi: float, lr: float, decay: float, r: int, start: int
) -> tuple[Array, float, Array]:
    """A linear model in full batches, with a teacher, two views and aligned labels; gradients by hand.

    The student sees 2·x, the labels x + 1. Returns the teacher, who is kept, and the labels.
    """
    lambda_init, alpha, beta = 0.5, 2.0, 0.5
    seen_p, seen_u = np.c_[2 * X_p, np.ones(len(X_p))], np.c_[2 * X_u, np.ones(len(X_u))]
    shown = np.c_[X_u + 1, np.ones(len(X_u))]
    theta = np.append(w, b)
    teacher = theta.copy()
    labels = np.full(len(X_u), pi)
    columns: list[Array] = []
    m, v, top = np.zeros_like(theta), np.zeros_like(theta), np.zeros_like(theta)
    for t in range(1, epochs + 1):
        last = len(X_p) / len(X_u)
        lam = (epochs - t) / (epochs - 1) * (lambda_init - last) + last
        s_p, g_u = 1 / (1 + np.exp(-seen_p @ theta)), seen_u @ theta
        s_u = 1 / (1 + np.exp(-g_u))
        share = s_u.mean()
        d_p = -lam * (1 - s_p) / len(X_p)
        d_u = s_u - labels - beta * g_u * s_u * (1 - s_u)
        d_u += alpha * (-pi / share + (1 - pi) / (1 - share)) * s_u * (1 - s_u)
        grad = d_p @ seen_p + d_u @ seen_u / len(X_u)
        columns.append(1 / (1 + np.exp(-shown @ teacher)))
        m += 0.1 * (grad - m)
        v += 0.001 * (grad**2 - v)
        top = np.maximum(top, v)
        rate = lr * 0.5 * (1 + math.cos(math.pi * (t - 1) / epochs))
        theta = theta - rate / (1 - 0.9**t) * m / (np.sqrt(top) / math.sqrt(1 - 0.999**t) + 1e-8)
        teacher = teacher + max(1 / t, 1 - decay) * (theta - teacher)
        if t >= start:
            mean = np.mean(columns[-r:], axis=0)
            logit = np.log(mean / (1 - mean))
            shift = brentq(lambda by, logit=logit: (1 / (1 + np.exp(-logit - by))).mean() - pi, -50, 50, xtol=1e-13)
            labels = 1 / (1 + np.exp(-logit - shift))
    return teacher[:-1], teacher[-1], labels


def twice(x: Tensor, random: RandomSource) -> Tensor:
    return 2 * x


def plus_one(x: Tensor, random: RandomSource) -> Tensor:
    return x + 1


def test_teacher_views_and_alignment_written_out() -> None:
    rng = np.random.default_rng(0)
    X_p, X_u = rng.normal(size=(6, 3)) + 1, rng.normal(size=(20, 3))
    module = nn.Linear(3, 1).double()
    w, b = module.weight[0].detach().numpy().copy(), float(module.bias.detach())
    clf = make(
        module=module, augment=twice, label_augment=plus_one, teacher_decay=0.8, lr=0.05, weight_decay=0.0,
        epochs=9, r=3, e_start=4, batch_size_u=20, validation_fraction=0, prior=0.3,
    ).fit(np.r_[X_p, X_u], np.repeat([1, 0], [6, 20]))  # fmt: skip
    w, b, labels = written_out(w, b, X_p, X_u, 9, pi=0.3, lr=0.05, decay=0.8, r=3, start=4)
    assert np.abs(clf.pseudo_labels_ - labels).max() < 1e-9
    assert np.abs(clf.module_.weight[0].detach().numpy() - w).max() < 1e-9
    assert float(clf.module_.bias.detach()) == pytest.approx(b, abs=1e-9)
    assert np.ptp(labels) > 0.1


@pytest.mark.parametrize("prior", [0.02, 0.3, 0.97])
def test_aligned_labels_have_the_prior_as_their_mean_and_keep_their_order(prior: float) -> None:
    labels = torch.rand(3, 500, dtype=torch.float64).clamp(0.01, 0.99)
    labels[0, :100], labels[1, :300] = 0.0, 1.0
    shifted = aligned(labels, torch.full((3,), prior, dtype=torch.float64))
    assert shifted.mean(1).numpy() == pytest.approx(np.full(3, prior), abs=1e-9)
    assert (shifted.gather(1, labels.argsort(1)).diff(dim=1) >= 0).all()
    odds = torch.logit(shifted[2]) - torch.logit(labels[2])
    assert odds.numpy() == pytest.approx(np.full(500, float(odds[0])), abs=1e-4)


def test_mixing_with_shares_of_one_changes_nothing(blobs: Blobs) -> None:
    plain = make(**OFF).fit(blobs.X, blobs.s).decision_function(blobs.X)
    nearly = make(**OFF, mixup_alpha=1e-6).fit(blobs.X, blobs.s).decision_function(blobs.X)
    mixed = make(**OFF, mixup_alpha=1.0).fit(blobs.X, blobs.s).decision_function(blobs.X)
    assert np.abs(plain - nearly).max() < 1e-3
    assert np.abs(plain - mixed).max() > 0.1


def test_mixed_rows_have_mixed_labels_and_both_are_in_the_loss() -> None:
    """P is at 1 and U at 0, and labels begin so: a mixed row shows its own mixed label."""
    rows = np.repeat([1.0, 0.0], 30)[:, None]
    module = nn.Linear(1, 1).double()
    w, b = float(module.weight.detach()), float(module.bias.detach())
    seen: dict[str, Any] = {}
    clf = make(
        **OFF, module=module, mixup_alpha=1.0, init="negative", e_start=1, epochs=1, validation_fraction=0,
        batch_size_u=30, batch_size_p=30,
    )  # fmt: skip
    job = next(clf._stages(clf._prepare(rows, rows[:, 0] == 1)))
    mixed = job.objective._mixed

    def note(batch: Any, y: Any) -> Any:
        seen["x"], seen["y"] = mixed(batch, y)
        return seen["x"], seen["y"]

    job.objective._mixed = note
    (record,) = train([job], batched=False)[0].history
    for name, own in (("p", 1.0), ("u", 0.0)):
        x, y = seen["x"][name][0, :, 0], seen["y"][name][0]
        assert torch.allclose(x, y)
        assert 0.2 < (y - own).abs().max() <= 0.5  # a row keeps the larger share
    y_p, y_u = (seen["y"][name][0].numpy() for name in ("p", "u"))
    g_p = w * y_p + b
    on_p = y_p * np.log1p(np.exp(-g_p)) + (1 - y_p) * np.log1p(np.exp(g_p))
    assert record["positive"] == pytest.approx(on_p.mean(), abs=1e-9)
    wanted, share = 0.4 + y_u.mean(), (1 / (1 + np.exp(-w * y_u - b))).mean()
    kl = wanted * math.log(wanted / share) + (1 - wanted) * math.log((1 - wanted) / (1 - share))
    assert record["prior_kl"] == pytest.approx(kl, abs=1e-9)


# Self-supervision -----------------------------------------------------------------------------------------------------


def test_contrastive_risk_written_out() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 5, 4))
    z = [row / np.linalg.norm(row) for row in (*a, *b)]
    total = 0.0
    for i in range(10):
        other = (i + 5) % 10
        alike = [math.exp(z[i] @ z[k] / 0.3) for k in range(10) if k != i]
        total -= math.log(math.exp(z[i] @ z[other] / 0.3) / sum(alike))
    risk = contrastive_risk(torch.from_numpy(a), torch.from_numpy(b), 0.3)
    assert float(risk) == pytest.approx(total / 10, abs=1e-12)
    both = contrastive_risk(torch.from_numpy(np.stack([a, b])), torch.from_numpy(np.stack([b, a])), 0.3)
    assert both.numpy() == pytest.approx(np.full(2, total / 10), abs=1e-12)


def test_two_views_are_compared() -> None:
    seen: dict[str, Tensor] = {}
    x = torch.rand(1, 6, 4)

    class Batch:
        originals = {"u": x}  # noqa: RUF012
        random = RandomSource([0], torch.device("cpu"), torch.float32)

        def logits(self, views: dict[str, Tensor]) -> dict[str, Tensor]:
            seen.update(views)
            return views

    ContrastObjective(POLICIES["noise"], 0.5).step(Batch())  # type: ignore[arg-type]
    one, other = seen.values()
    assert 0.2 < (one - x).std() < 0.4
    assert 0.3 < (one - other).std() < 0.6


def test_self_supervision_learns_and_its_network_goes_on() -> None:
    """With a rate of nearly zero the second training leaves the network as the first one made it."""
    still = {"lr": 1e-12, "epochs": 1, "e_start": 1, "teacher_decay": None, "module": small_net, "augment": None}
    shared = still | {"pretrain_augment": "digits", "pretrain_batch_size": 64, "validation_fraction": 0.1}
    clf = make(**shared, pretrain_epochs=30, pretrain_lr=1e-2).fit(PU.X, PU.s)
    losses = [record["loss"] for record in clf.pretrain_history_]
    assert len(losses) == 30
    assert losses[-1] < losses[0] - 0.5
    fresh = make(**shared, pretrain_epochs=0).fit(PU.X, PU.s)
    assert fresh.pretrain_history_ == []
    again = make(**shared, pretrain_epochs=30, pretrain_lr=1e-2).fit(PU.X, 1 - (1 - PU.s))
    for name, weights in clf.module_.state_dict().items():
        assert torch.equal(weights, again.module_.state_dict()[name])
        moved = (weights - fresh.module_.state_dict()[name]).abs().max()
        assert moved > 0.01 if name.startswith("0.") else True
    assert clf.module_[-1].out_features == 1


def test_all_rows_are_learned_from_once_an_epoch() -> None:
    """P, U and the rows of validation, each once: also where P is a part of U, and validation another array."""
    for scenario, n in (("case-control", 240), ("single-sample", 240)):
        clf = make(scenario=scenario, validation_fraction=0.2, module=small_net, pretrain_epochs=1)
        job = next(clf._stages(clf._prepare(PU.X, PU.s)))
        assert job.streams["u"].index.flatten().sort().values.tolist() == list(range(n))
        given = clf._prepare(PU.X, PU.s, PU.X[:50], PU.s[:50])
        assert len(next(clf._stages(given)).streams["u"]) == n + 50


def test_a_body_is_kept_and_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pulab.training import checkpoint

    monkeypatch.setattr(checkpoint, "LEAST", 0.0)
    shared = {"module": small_net, "pretrain_epochs": 3, "pretrain_cache": tmp_path, "epochs": 3, "e_start": 1}
    first = make(**shared).fit(PU.X, PU.s)
    assert len([*tmp_path.iterdir()]) == 1
    other = make(**shared, align=False).fit(PU.X, PU.s)
    assert len([*tmp_path.iterdir()]) == 1
    alone = make(**shared | {"pretrain_cache": None}, align=False).fit(PU.X, PU.s)
    assert np.array_equal(other.decision_function(PU.X), alone.decision_function(PU.X))
    assert other.pretrain_history_ == first.pretrain_history_ == alone.pretrain_history_
    make(**shared, pretrain_temperature=0.1).fit(PU.X, PU.s)
    assert len([*tmp_path.iterdir()]) == 2
    (file, *_) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(CheckpointError, match=r"cannot be (read|used)"):
        [make(**shared, pretrain_temperature=t).fit(PU.X, PU.s) for t in (0.5, 0.1)]


def test_alone_equals_in_a_fleet_and_on_other_networks() -> None:
    """Batched networks too: a vector per row in the first training, a logit in the second one."""
    settings = [{"random_state": i, "lr": 1e-3 * (i + 1)} for i in range(2)]
    shared = {"pretrain_epochs": 2, "epochs": 3, "e_start": 1, "pretrain_batch_size": 100}
    for module, tolerance in ((small_net, 1e-9), (None, 0.0)):  # the default has BatchNorm, which is not batched
        many = [make(module=module, **shared, **s) for s in settings]
        assert fit_tasks(many, [clf._prepare(PU.X, PU.s) for clf in many], batched=True) == [None, None]
        for clf, s in zip(many, settings, strict=True):
            alone = make(module=module, **shared, **s).fit(PU.X, PU.s)
            assert np.abs(alone.decision_function(PU.X) - clf.decision_function(PU.X)).max() <= tolerance


@pytest.mark.gpu
def test_a_gpu_learns_what_the_cpu_learns() -> None:
    shared = {"module": small_net, "pretrain_epochs": 3, "epochs": 4, "e_start": 2, "mixup_alpha": 0.5}
    on_cpu = make(**shared).fit(PU.X, PU.s)
    on_gpu = make(**shared, device="cuda").fit(PU.X, PU.s)
    assert np.abs(on_cpu.decision_function(PU.X) - on_gpu.decision_function(PU.X)).max() < 1e-6
    for record, same in zip(on_cpu.pretrain_history_, on_gpu.pretrain_history_, strict=True):
        assert record == pytest.approx(same, abs=1e-6)


# What is refused -----------------------------------------------------------------------------------------------------


def test_self_supervision_with_a_loss_that_is_no_number_says_where(blobs: Blobs) -> None:
    class Breaks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.last = nn.Linear(5, 4), nn.Linear(4, 1)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.last(self.body(x) * (torch.nan if self.training else 1.0))
            return out

    with pytest.raises(
        TrainingError, match=r"at epoch 1, step 1 of \d+, whose batch has the rows \d+(, \d+){3}, … of X"
    ):
        make(module=Breaks(), pretrain_epochs=2).fit(blobs.X, blobs.s)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"label_augment": "blur"}, "label_augment must be one of"),
        ({"pretrain_augment": 3}, "pretrain_augment must be one of"),
        ({"teacher_decay": 1.0}, "teacher_decay must be"),
        ({"align": "yes"}, "align must be True or False"),
        ({"mixup_alpha": -1}, "mixup_alpha must be"),
        ({"pretrain_epochs": 1.5}, "pretrain_epochs must be a whole number"),
        ({"pretrain_batch_size": 1}, "pretrain_batch_size must be"),
        ({"pretrain_temperature": 0}, "pretrain_temperature must be"),
        ({"pretrain_cache": "/no/such/folder"}, "pretrain_cache must"),
        ({"pretrain_epochs": 1, "module": nn.Sequential(nn.Linear(5, 1), nn.Flatten(0))}, None),
        ({"pretrain_epochs": 1, "module": nn.Linear(5, 1)}, r"ends in nn.Linear\(…, 1\)"),
        ({"augment": "strong"}, "'strong' is a view of images"),
    ],
)
def test_what_cannot_be_is_refused(bad: dict[str, Any], message: str | None, blobs: Blobs) -> None:
    with pytest.raises(InputError, match=message or "self-supervision needs a module that ends in"):
        make(**bad).fit(blobs.X, blobs.s)
