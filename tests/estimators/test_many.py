"""Alone or together: a fit gives the same result."""

import numpy as np
import pytest
import torch
from torch import nn

from pulab import JointPUClassifier, NNPUClassifier, PUbNClassifier, fit_many
from pulab.estimators._base import BasePUClassifier, fit_tasks
from pulab.training import Training
from pulab.training import fleet as fleet_module
from tests.conftest import Blobs


def dropping_net() -> nn.Module:
    return nn.Sequential(
        nn.Linear(5, 16), nn.ReLU(), nn.Dropout(0.4), nn.Linear(16, 8), nn.Dropout(0.2), nn.Linear(8, 1)
    )


def fleet(dtype: str, device: str = "cpu") -> list[BasePUClassifier]:
    """Estimators that differ in hyper-parameters, seeds and methods: some can be batched, some cannot."""
    shared = {"prior": 0.4, "module": dropping_net, "epochs": 6, "lr": 0.01, "dtype": dtype, "device": device}
    return [
        JointPUClassifier(**shared, random_state=0),
        JointPUClassifier(**shared, random_state=1, alpha=3.0, beta=0.5, init="random"),
        JointPUClassifier(**(shared | {"prior": 0.3}), random_state=2, lambda_init=1.0),
        JointPUClassifier(**shared, random_state=3, positive_loss="logistic"),
        NNPUClassifier(**shared, random_state=4),
        NNPUClassifier(**shared, random_state=5),
        PUbNClassifier(**shared, random_state=6),
        PUbNClassifier(**shared, random_state=7, tau=0.5),
    ]


def together(estimators: list[BasePUClassifier], **how: object) -> list[BasePUClassifier]:
    data = [Blobs("case-control", seed=i % 3) for i in range(len(estimators))]
    tasks = [estimator._prepare(d.X, d.s) for estimator, d in zip(estimators, data, strict=True)]
    fit_tasks(estimators, tasks, **how)
    return estimators


def alone(estimators: list[BasePUClassifier]) -> list[BasePUClassifier]:
    data = [Blobs("case-control", seed=i % 3) for i in range(len(estimators))]
    return [estimator.fit(d.X, d.s) for estimator, d in zip(estimators, data, strict=True)]


def largest_difference(a: BasePUClassifier, b: BasePUClassifier) -> float:
    weights = zip(a.module_.parameters(), b.module_.parameters(), strict=True)
    return max((x - y).detach().abs().max().item() for x, y in weights)


def test_batched_equals_alone_in_float64() -> None:
    for one, other in zip(
        alone(fleet("float64")), together(fleet("float64"), batched=True, side_by_side=3), strict=True
    ):
        assert one.best_epoch_ == other.best_epoch_
        assert largest_difference(one, other) < 1e-9
        assert [r["loss"] for r in one.history_] == pytest.approx([r["loss"] for r in other.history_], abs=1e-9)
        if isinstance(one, JointPUClassifier):
            assert np.abs(one.pseudo_labels_ - other.pseudo_labels_).max() < 1e-9
            assert one.history_[-1]["label_histogram"] == other.history_[-1]["label_histogram"]


def test_side_by_side_equals_alone_to_the_bit() -> None:
    for one, other in zip(alone(fleet("float32")), together(fleet("float32"), side_by_side=5), strict=True):
        assert largest_difference(one, other) == 0
        assert one.history_ == other.history_


def test_all_that_are_alike_are_trained_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """An odd one out (another loss on the positives, another method) must not send the others off alone."""
    sizes: list[int] = []
    training = fleet_module._training
    monkeypatch.setattr(fleet_module, "_training", lambda jobs: (sizes.append(len(jobs)), training(jobs))[1])
    together(fleet("float32"), batched=True)
    assert sorted(sizes) == [1, 2, 2, 2, 3]  # joint with the logistic loss, nnpu, PUbN's two stages, the other joint


def test_the_modules_come_back_as_they_were_made() -> None:
    (clf,) = together(fleet("float32")[:1])
    assert [type(layer) for layer in clf.module_] == [type(layer) for layer in dropping_net()]


def test_dropout_drops_its_share_and_never_the_same_twice() -> None:
    from pulab.training.dropout import CountedDropout

    layer = CountedDropout(0.3, seed=1, like=torch.zeros(1))
    x = torch.ones(400, 50)
    masks = []
    for _ in range(3):
        masks.append(layer(x) == 0)
        layer.passes += 1
    assert all(abs(mask.float().mean() - 0.3) < 0.02 for mask in masks)
    assert ((masks[0] & masks[1]).float().mean() - 0.09).abs() < 0.01  # independent from pass to pass
    assert ((masks[0][:, 0] & masks[0][:, 1]).float().mean() - 0.09).abs() < 0.05  # and from unit to unit
    again = CountedDropout(0.3, seed=2, like=torch.zeros(1))
    assert ((masks[0] & (again(x) == 0)).float().mean() - 0.09).abs() < 0.01  # and from seed to seed
    out = layer(x)
    assert torch.allclose(out[out != 0], torch.tensor(1 / 0.7))
    assert torch.equal(layer.eval()(x), x)


def test_fit_many_on_a_cpu() -> None:
    data = [Blobs("case-control", seed=seed) for seed in range(3)]
    estimators = [NNPUClassifier(prior=0.4, epochs=2, device="cpu", random_state=seed) for seed in range(3)]
    fitted = fit_many(estimators, [{"X": d.X, "y": d.s} for d in data], n_jobs=2)
    for estimator, clf, d in zip(estimators, fitted, data, strict=True):
        assert not hasattr(estimator, "module_")
        assert largest_difference(clf, estimator.fit(d.X, d.s)) == 0
    with pytest.raises(ValueError, match="a data set per estimator"):
        fit_many(estimators, [])
    with pytest.raises(ValueError, match="a dict with X and y"):
        fit_many(estimators[:1], [(data[0].X, data[0].s)])


@pytest.mark.gpu
def test_fleets_on_a_gpu() -> None:
    torch.use_deterministic_algorithms(True)
    try:
        data = [Blobs("case-control", seed=i % 3) for i in range(8)]
        many = fit_many(fleet("float64", "cuda"), [{"X": d.X, "y": d.s} for d in data])
        for one, other in zip(alone(fleet("float64", "cuda")), many, strict=True):
            assert largest_difference(one, other) < 1e-9
        streams = together(fleet("float32", "cuda"), side_by_side=4)
        for one, other in zip(alone(fleet("float32", "cuda")), streams, strict=True):
            assert largest_difference(one, other) == 0
    finally:
        torch.use_deterministic_algorithms(False)


def test_a_module_that_cannot_be_compiled_is_trained_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise RuntimeError("no compiler here\nand a long story")

    plain = together(fleet("float32")[:1])[0]
    monkeypatch.setattr(Training, "_worth_compiling", True)
    monkeypatch.setattr(torch, "compile", lambda module, **options: Broken())
    with pytest.warns(UserWarning, match="as it is, not compiled: no compiler here$") as warned:
        (clf,) = together(fleet("float32")[:1])
    assert len(warned) == 1
    assert largest_difference(clf, plain) == 0


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, while it compiles
def test_a_compiled_network_learns_what_it_learns_uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def net() -> nn.Module:
        return nn.Sequential(nn.Linear(5, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 1))

    data = Blobs("case-control")
    shared = {"prior": 0.4, "module": net, "epochs": 8, "dtype": "bfloat16", "device": "cuda", "random_state": 0}
    plain = JointPUClassifier(**shared).fit(data.X, data.s)
    monkeypatch.setattr(Training, "_worth_compiling", True)
    compiled = JointPUClassifier(**shared).fit(data.X, data.s)
    losses = [[record["loss"] for record in clf.history_] for clf in (plain, compiled)]
    assert np.allclose(*losses, rtol=0.05)
    assert [type(layer) for layer in compiled.module_] == [type(layer) for layer in net()]


@pytest.mark.gpu
def test_a_step_that_cannot_be_recorded_is_taken_all_the_same() -> None:
    class Reads(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * (1.0 if x.sum().item() < 1e9 else 2.0)

    data = Blobs("case-control")
    shared = {"prior": 0.4, "epochs": 3, "device": "cuda", "random_state": 0}
    reads, plain = Reads(5, 1), nn.Linear(5, 1)
    plain.load_state_dict(reads.state_dict())
    with pytest.warns(UserWarning, match="not as a CUDA graph"):
        one_by_one = NNPUClassifier(module=reads, **shared).fit(data.X, data.s)
    recorded = NNPUClassifier(module=plain, **shared).fit(data.X, data.s)
    losses = [[record["loss"] for record in clf.history_] for clf in (one_by_one, recorded)]
    assert np.allclose(*losses, rtol=1e-4)
