"""Alone or together: a fit gives the same result."""

import gc
import threading
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from joblib import Parallel, delayed, parallel_config
from scipy.sparse import csr_array
from sklearn.base import clone
from torch import nn
from torch.nn import functional

from pulab import JointPUClassifier, NNPUClassifier, PUbNClassifier, fit_many
from pulab._torch import Settings, be_deterministic, fast_convolutions
from pulab.errors import TrainingError
from pulab.estimators import fit_in_step
from pulab.estimators._base import BasePUClassifier, fit_tasks
from pulab.nets import PreActBlock
from pulab.training import Job, Training, capture
from pulab.training import fleet as fleet_module
from pulab.training.dropout import counted_dropout
from pulab.training.model import Model
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
        NNPUClassifier(**(shared | {"prior": 0.3, "lr": 3e-3}), random_state=5, beta=0.1, gamma=0.5),
        PUbNClassifier(**shared, random_state=6),
        PUbNClassifier(**(shared | {"prior": 0.5}), random_state=7, tau=0.5, weight_decay=0.1, lr_milestones=[2, 4]),
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


def test_batched_in_float32_differs_by_rounding_alone() -> None:
    for one, other in zip(alone(fleet("float32")), together(fleet("float32"), batched=True), strict=True):
        losses = [[record["loss"] for record in clf.history_] for clf in (one, other)]
        assert np.allclose(*losses, rtol=1e-3)


def test_side_by_side_equals_alone_to_the_bit() -> None:
    def made() -> list[BasePUClassifier]:
        shared = {"prior": 0.4, "module": lambda: Draws(5, 1), "epochs": 3, "random_state": 0}
        return [NNPUClassifier(**shared), PUbNClassifier(**shared), *fleet("float32")]

    for one, other in zip(alone(made()), together(made(), side_by_side=5), strict=True):
        assert one is not other
        assert largest_difference(one, other) == 0
        assert one.history_ == other.history_


class Scales(nn.Linear):
    """Differs in a plain attribute."""

    def __init__(self, scale: float) -> None:
        super().__init__(5, 1)
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scale * super().forward(x)


class Draws(nn.Linear):
    """Draws random numbers by itself, in evaluation, too."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(functional.dropout(x, 0.3))


class Reads(nn.Linear):
    """Reads a value back."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * (1.0 if x.sum().item() < 1e9 else 2.0)


class Averages(nn.Linear):
    """Puts a new tensor in the place of a buffer."""

    def __init__(self) -> None:
        super().__init__(5, 1)
        self.register_buffer("mean", torch.zeros(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        return super().forward(x - self.mean)


class Branches(nn.Linear):
    """Looks at values, in evaluation only."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = super().forward(x)
        return out if self.training or out.sum() < 1e9 else -out


class Masks(nn.Linear):
    """Has a buffer, or none."""

    def __init__(self, mask: torch.Tensor | None) -> None:
        super().__init__(5, 1)
        self.register_buffer("mask", mask)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x if self.mask is None else x * self.mask)


def hooked() -> nn.Module:
    module = two_layers(nn.ReLU())
    module.register_forward_hook(lambda module, args, out: 2 * out)
    return module


class Collects(nn.Linear):
    """Puts something into a container of its own in every pass, and goes by what is in it."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__(n_in, n_out)
        self.seen: list[int] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.seen.append(len(x))
        return super().forward(x) / (1 + len(self.seen)) ** 0.5


class Counts(nn.Linear):
    """Counts its passes."""

    passes = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.passes += self.training
        return super().forward(x) / (1 + self.passes % 3)


class Squares(nn.Module):
    """Overflows early."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x


class Remembers(nn.Linear):
    """Holds on to what it saw in the last pass of training."""

    last: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = self.last
        if self.training:
            self.last = x.detach().mean(0)
        return super().forward(x if before is None else x - before)


class Tied(nn.Module):
    """Two layers, one weight."""

    def __init__(self, tied: bool = True) -> None:
        super().__init__()
        self.a, self.b, self.out = nn.Linear(5, 5), nn.Linear(5, 5), nn.Linear(5, 1)
        if tied:
            self.b.weight = self.a.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(torch.relu(self.b(torch.tanh(self.a(x)))))


class Pads(nn.Module):
    """Counts negative values, none of which is padding."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.out = nn.Embedding(6, 4, padding_idx=0), nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.table((x < 0).sum(1)))


def uses_twice(twice: bool) -> nn.Module:
    act = nn.Tanh()
    layers = {"a": nn.Linear(5, 6), "act": act, "b": nn.Linear(6, 6), **({"again": act} if twice else {})}
    return nn.Sequential(OrderedDict(**layers, out=nn.Linear(6, 1)))


def two_layers(between: nn.Module, frozen: bool = False) -> nn.Module:
    module = nn.Sequential(nn.Linear(5, 6), between, nn.Linear(6, 1))
    module[0].requires_grad_(not frozen)
    return module


@pytest.mark.parametrize(
    "makers",
    [
        (lambda: two_layers(nn.ReLU()), lambda: two_layers(nn.Tanh())),
        (lambda: two_layers(nn.Dropout(0.1)), lambda: two_layers(nn.Dropout(0.7))),
        (lambda: two_layers(nn.LeakyReLU(0.1)), lambda: two_layers(nn.LeakyReLU(0.5))),
        (lambda: two_layers(nn.ReLU()), lambda: two_layers(nn.ReLU(), frozen=True)),
        (lambda: Scales(1.0), lambda: Scales(3.0)),
        (lambda: two_layers(nn.ReLU()), hooked),
        (lambda: Masks(None), lambda: Masks(torch.tensor([1.0, 0, 1, 0, 1]))),
        (lambda: Tied(False), Tied),
        (lambda: uses_twice(True), lambda: uses_twice(False)),
        (Pads, Pads),
        *[
            (make, make)
            for make in (lambda: two_layers(nn.AlphaDropout(0.3)), lambda: Draws(5, 1), lambda: Reads(5, 1))
        ],
        *[(make, make) for make in (Averages, lambda: Remembers(5, 1), lambda: Branches(5, 1), Tied)],
    ],
)
def test_what_cannot_be_one_network_is_trained_apart(makers: Sequence[Callable[[], nn.Module]]) -> None:
    """A batched network runs the code of its first module for all: a difference overlooked is the wrong model."""

    def estimators() -> list[BasePUClassifier]:
        shared = {"prior": 0.4, "epochs": 3, "dtype": "float64", "device": "cpu"}
        return [NNPUClassifier(module=make, random_state=i, **shared) for i, make in enumerate([*makers, makers[1]])]

    X = Blobs("case-control").X
    for one, other in zip(alone(estimators()), together(estimators(), batched=True), strict=True):
        if not isinstance(one.module_, Draws):  # it draws in prediction, too
            assert np.abs(one.decision_function(X) - other.decision_function(X)).max() < 1e-9
        assert largest_difference(one, other) < 1e-9
        assert [r["loss"] for r in one.history_] == pytest.approx([r["loss"] for r in other.history_], abs=1e-9)


def test_sparse_validation_rows_are_not_batched(monkeypatch: pytest.MonkeyPatch) -> None:
    data = Blobs("case-control")
    sizes: list[int] = []
    training = fleet_module._training
    monkeypatch.setattr(fleet_module, "_training", lambda jobs: (sizes.append(len(jobs)), training(jobs))[1])
    clfs = [NNPUClassifier(prior=0.4, epochs=2, module=lambda: nn.Linear(5, 1), random_state=i) for i in range(2)]
    for X_val in (data.X, csr_array(data.X)):
        given = {"X": data.X, "y": data.s, "X_val": X_val, "y_val": data.s}
        fit_tasks(clfs, [clf._prepare(**given) for clf in clfs], batched=True)
    assert sizes == [2, 1, 1]


@pytest.mark.parametrize("batched", [True, False])
def test_a_training_that_fails_leaves_the_others_alone(batched: bool) -> None:
    shared = {"prior": 0.4, "epochs": 3, "module": lambda: two_layers(Squares())}
    clfs = [NNPUClassifier(random_state=i, **shared) for i in range(3)]
    data = [Blobs("case-control", seed=i) for i in range(3)]
    given = [{"X": d.X * (5e37 if i == 1 else 1), "y": d.s} for i, d in enumerate(data)]
    tasks = [clf._prepare(**g) for clf, g in zip(clfs, given, strict=True)]
    failures = fit_tasks(clfs, tasks, batched=batched, side_by_side=3)
    assert [failure is None for failure in failures] == [True, False, True]
    assert not hasattr(clfs[1], "module_")
    seen: list[int] = []
    fit_tasks([clfs[1]], [clfs[1]._prepare(**given[1])], on_epoch=lambda record, epochs: seen.append(record["epoch"]))
    assert seen == [1]  # nothing is left to train
    for i in (0, 2):
        assert largest_difference(clfs[i], clone(clfs[i]).fit(data[i].X, data[i].s)) < 1e-5
    with pytest.raises(TrainingError, match=r"estimators\[1\]: the loss is no longer finite at epoch 1, step 1 of"):
        fit_many(clfs, given, n_jobs=1)
    assert isinstance(fit_many(clfs, given, n_jobs=1, on_error="return")[1], TrainingError)


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
    def dropped(p: float, seed: int, passes: int, x: torch.Tensor) -> torch.Tensor:
        net = nn.Sequential(nn.Linear(1, 1), nn.Dropout(p))
        with counted_dropout(net, seed) as (layer,):
            layer.passes += passes
            return layer(x)

    x = torch.ones(400, 50)
    masks = [dropped(0.3, 1, passes, x) == 0 for passes in range(3)]
    assert all(abs(mask.float().mean() - 0.3) < 0.02 for mask in masks)
    assert ((masks[0] & masks[1]).float().mean() - 0.09).abs() < 0.01  # independent from pass to pass
    assert ((masks[0][:, 0] & masks[0][:, 1]).float().mean() - 0.09).abs() < 0.05  # and from unit to unit
    assert ((masks[0] & (dropped(0.3, 2, 0, x) == 0)).float().mean() - 0.09).abs() < 0.01  # and from seed to seed
    two = nn.Sequential(nn.Linear(1, 1), nn.Dropout(0.3), nn.Dropout(0.3))
    with counted_dropout(two, seed=1):
        _, first, second = two
        first(x)
        assert ((first(x) == 0) != (second(x) == 0)).any()  # and from one layer's second call to another's first
        assert torch.equal(first.eval()(x), x)
    out = dropped(0.3, 1, 0, x)
    assert torch.allclose(out[out != 0], torch.tensor(1 / 0.7))
    assert (dropped(1.0, 1, 0, x) == 0).all()
    assert abs((dropped(0.5, 1, 0, x.bfloat16().repeat(50, 1)) == 0).double().mean() - 0.5) < 1e-3


def test_fit_many_on_a_cpu() -> None:
    data = [Blobs("case-control", seed=seed) for seed in range(3)]
    estimators = [NNPUClassifier(prior=0.4, epochs=2, device="cpu", random_state=seed) for seed in range(3)]
    fitted = fit_many(estimators, [{"X": d.X, "y": d.s} for d in data], n_jobs=2)
    for estimator, clf, d in zip(estimators, fitted, data, strict=True):
        assert not hasattr(estimator, "module_")
        assert largest_difference(clf, estimator.fit(d.X, d.s)) == 0
    shared = NNPUClassifier(prior=0.4, epochs=2, device="cpu", random_state=np.random.RandomState(0))
    twins = fit_many([shared, shared], [{"X": data[0].X, "y": data[0].s}] * 2, n_jobs=1)
    assert largest_difference(*twins) > 0  # one after the other, they would draw on, too
    shared.random_state = np.random.RandomState(0)
    assert largest_difference(twins[0], shared.fit(data[0].X, data[0].s)) == 0
    assert largest_difference(twins[1], shared.fit(data[0].X, data[0].s)) == 0
    with pytest.raises(ValueError, match=r"fit does not take \['x_val'\]"):
        fit_many(estimators[:1], [{"X": data[0].X, "y": data[0].s, "x_val": data[0].X}])
    with pytest.raises(ValueError, match=r"^estimators\[1\]: lr must be"):
        fit_many(
            [estimators[0], clone(estimators[1]).set_params(lr=-1)], [{"X": data[0].X, "y": data[0].s}] * 2, n_jobs=1
        )
    unset = clone(estimators[0]).set_params(random_state=None)
    results = []
    for n_jobs in (1, 2):
        np.random.seed(0)  # noqa: NPY002
        results.append(fit_many([unset, unset], [{"X": data[0].X, "y": data[0].s}] * 2, n_jobs=n_jobs))
    np.random.seed(0)  # noqa: NPY002
    results.append([clone(unset).fit(data[0].X, data[0].s) for _ in range(2)])
    assert [max(largest_difference(a, b) for a, b in zip(results[2], r, strict=True)) for r in results[:2]] == [0, 0]
    assert results[1][0].random_state is None
    with pytest.raises(ValueError, match=r"^estimators\[1\]: .*inconsistent"):
        fit_many(estimators[:2], [{"X": d.X, "y": d.s[i:]} for i, d in enumerate(data[:2])], n_jobs=1)
    with pytest.raises(ValueError, match="call its fit"):
        fit_many(estimators[0], {"X": data[0].X, "y": data[0].s})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="n_jobs must be"):
        fit_many(estimators, [{"X": d.X, "y": d.s} for d in data], n_jobs=0)
    with pytest.raises(ValueError, match="a data set per estimator"):
        fit_many(estimators, [])
    with pytest.raises(ValueError, match="a dict with X and y"):
        fit_many(estimators[:1], [(data[0].X, data[0].s)])


class Fails(nn.Linear):
    def __init__(self, training: bool) -> None:
        super().__init__(5, 1)
        self.when = training

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training == self.when:
            raise RuntimeError("boom")
        return super().forward(x)


@pytest.mark.parametrize("training", [True, False])
def test_an_error_in_a_fleet_says_whose_it_is(training: bool) -> None:
    data = Blobs("case-control")
    modules = [nn.Linear(5, 1), Fails(training)]
    estimators = [NNPUClassifier(prior=0.4, epochs=1, module=module, device="cpu") for module in modules]
    with pytest.raises(ValueError, match=r"^estimators\[1\]: the module fails .*boom"):
        fit_in_step(estimators, [{"X": data.X, "y": data.s}] * 2)


def test_workers_have_the_callers_settings_and_only_while_they_fit() -> None:
    def there() -> Settings:
        return Parallel(2)(delayed(Settings.here)() for _ in range(2))[0]

    data = Blobs("case-control")
    estimators = [NNPUClassifier(prior=0.4, epochs=1, device="cpu", module=Tells) for _ in range(2)]
    before = there()
    settings = Settings(deterministic=True, warn_only=True, dtype=torch.float64)
    settings.use()
    try:
        fitted = fit_many(estimators, [{"X": data.X, "y": data.s}] * 2, n_jobs=2)
    finally:
        before.use()
    assert [clf.module_.told for clf in fitted] == [settings] * 2
    assert there() == before == Settings(deterministic=False, warn_only=False, dtype=torch.float32)


def test_the_caller_hears_the_warnings_of_workers() -> None:
    data = Blobs("case-control")
    estimators = [NNPUClassifier(epochs=1, device="cpu") for _ in range(2)]
    with pytest.warns(UserWarning, match="no prior was given") as caught:
        fit_many(estimators, [{"X": data.X, "y": data.s}] * 2, n_jobs=2)
    assert [warning.filename for warning in caught] == [__file__] * 2  # at the caller's line
    estimators = [NNPUClassifier(prior=0.4, epochs=1, module=Grumbles(5, 1), device="cpu") for _ in range(2)]
    with pytest.warns(UserWarning, match="rows: 100"):
        fit_many(estimators, [{"X": data.X, "y": data.s}] * 2, n_jobs=2)


class OddWarning(UserWarning):
    """Cannot be unpickled."""

    def __init__(self, what: str, n: int) -> None:
        super().__init__(f"{what}: {n}")


class Grumbles(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        warnings.warn(OddWarning("rows", 100), stacklevel=1)
        return super().forward(x)


def hooked_net() -> nn.Module:
    net = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 1))
    net[0].weight.register_hook(torch.zeros_like)
    return net


def locked_net() -> nn.Module:
    net = nn.Linear(5, 1)
    net.lock = threading.Lock()
    return net


def test_hooks_on_gradients_are_kept() -> None:
    data, net = Blobs("case-control"), hooked_net()
    estimators = [NNPUClassifier(prior=0.4, epochs=2, module=net, weight_decay=0.0, device="cpu") for _ in range(2)]
    given = [{"X": data.X, "y": data.s}] * 2
    with parallel_config("threading"):
        in_threads = fit_many(estimators, given, n_jobs=2)
    for fitted in (fit_many(estimators, given, n_jobs=1), in_threads, together(estimators, batched=True)):
        for clf in fitted:
            assert torch.equal(clf.module_[0].weight, net[0].weight)
            assert not torch.equal(clf.module_[2].weight, net[2].weight)


@pytest.mark.parametrize(
    ("module", "why"), [(hooked_net(), "hooks on gradients"), (locked_net(), "lock"), (locked_net, "lock")]
)
def test_what_cannot_go_to_another_process_is_refused(module: Any, why: str) -> None:
    data = Blobs("case-control")
    estimators = [NNPUClassifier(prior=0.4, epochs=1, module=module, device="cpu") for _ in range(2)]
    with pytest.raises(ValueError, match=rf"estimators\[[01]\]: .*{why}.* Pass n_jobs=1"):
        fit_many(estimators, [{"X": data.X, "y": data.s}] * 2, n_jobs=2)


class Tells(nn.Linear):
    def __init__(self) -> None:
        super().__init__(5, 1)
        self.told = Settings.here()


def test_nothing_is_left_of_a_training() -> None:
    """At any time there are no more of them than are trained at once."""
    made: list[weakref.ref[Training]] = []
    alive = []
    training = fleet_module._training

    def watched(jobs: Sequence[Job]) -> Training:
        one = training(jobs)
        alive.append(sum(ref() is not None for ref in made))
        made.append(weakref.ref(one))
        return one

    together(fleet("float32")[:1])  # torch holds on to the first there ever is
    gc.disable()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fleet_module, "_training", watched)
            together(fleet("float32")[:4])
    finally:
        gc.enable()
    assert alive == [0, 0, 0, 0]


def test_trainings_on_two_devices_are_not_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    data = Blobs("case-control")
    estimators = [NNPUClassifier(prior=0.4, epochs=1, device="cpu", random_state=i) for i in range(4)]
    jobs = [next(clf._stages(clf._prepare(data.X, data.s))) for clf in estimators]
    jobs = [replace(job, device=torch.device(f"cuda:{i % 2}")) for i, job in enumerate(jobs)]
    seen = []
    monkeypatch.setattr(fleet_module, "run_in_step", lambda ts, on_epoch: seen.append([t.device.index for t in ts]))
    fleet_module.train(jobs, batched=False)
    assert seen == [[0, 0], [1, 1]]


@pytest.mark.gpu
def test_fleets_on_a_gpu() -> None:
    data = [Blobs("case-control", seed=i % 3) for i in range(8)]
    many = fit_many(fleet("float64", "cuda"), [{"X": d.X, "y": d.s} for d in data])
    for one, other in zip(alone(fleet("float64", "cuda")), many, strict=True):
        assert largest_difference(one, other) < 1e-9


def test_the_precision_that_a_user_sets_for_convolutions_is_left_alone() -> None:
    cudnn = torch.backends.cudnn
    before, cudnn.conv.fp32_precision = cudnn.conv.fp32_precision, "ieee"
    try:
        with fast_convolutions(torch.device("cuda")):
            assert (cudnn.benchmark, cudnn.conv.fp32_precision) == (True, "ieee")
        assert not cudnn.benchmark
    finally:
        cudnn.conv.fp32_precision = before


@pytest.mark.gpu
def test_streams_on_a_gpu_equal_alone_to_the_bit() -> None:
    def residual() -> nn.Module:
        return nn.Sequential(nn.Unflatten(1, (5, 1, 1)), PreActBlock(5, 8, 1), nn.Flatten(), nn.Linear(8, 1))

    def made() -> list[BasePUClassifier]:
        shared = {"prior": 0.4, "epochs": 4, "device": "cuda"}
        nets = [residual, residual, lambda: Draws(5, 1), lambda: Draws(5, 1)]
        large = [
            JointPUClassifier(module=net, random_state=i, dtype="bfloat16", **shared) for i, net in enumerate(nets)
        ]
        return fleet("float32", "cuda") + large

    be_deterministic()
    try:
        for one, other in zip(alone(made()), together(made(), side_by_side=4), strict=True):
            assert largest_difference(one, other) == 0
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_a_recorded_epoch_never_waits_for_the_device() -> None:
    clf = JointPUClassifier(prior=0.4, module=dropping_net, epochs=2, device="cuda", random_state=0)
    data = Blobs("case-control")
    training = fleet_module._training([next(clf._stages(clf._prepare(data.X, data.s)))])
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()), training.started():
        for positions in training.begin_epoch():
            training.take_step(positions)
        training.end_epoch()
        plan = training.begin_epoch()
        assert training._take_step._recordings  # the step is one piece
        try:
            torch.cuda.set_sync_debug_mode("error")
            for positions in plan:
                training.take_step(positions)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        training.end_epoch()


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
    data = Blobs("case-control")
    shared = {"prior": 0.4, "epochs": 3, "device": "cuda", "random_state": 0}
    reads, plain = Reads(5, 1), nn.Linear(5, 1)
    plain.load_state_dict(reads.state_dict())
    capture._warned.clear()
    with pytest.warns(UserWarning, match="not as a CUDA graph"):
        one_by_one = NNPUClassifier(module=reads, **shared).fit(data.X, data.s)
    recorded = NNPUClassifier(module=plain, **shared).fit(data.X, data.s)
    losses = [[record["loss"] for record in clf.history_] for clf in (one_by_one, recorded)]
    assert np.allclose(*losses, rtol=1e-4)


@pytest.mark.gpu
def test_a_failed_recording_leaves_the_random_numbers_usable() -> None:
    class DrawsAndReads(Draws):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * (1.0 if x.sum().item() < 1e9 else 2.0)

    data = Blobs("case-control")
    clf = NNPUClassifier(prior=0.4, epochs=3, module=DrawsAndReads(5, 1), device="cuda", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it may have been said before
        clf.fit(data.X, data.s)
    assert torch.rand(3, device="cuda").isfinite().all()


@pytest.mark.gpu
@pytest.mark.parametrize("module", [Averages(), Counts(5, 1), Collects(5, 1)])
def test_a_module_that_keeps_something_from_pass_to_pass_is_not_recorded(module: nn.Module) -> None:
    data = Blobs("case-control")
    clfs = []
    for device in ("cpu", "cuda"):
        clf = NNPUClassifier(prior=0.4, epochs=3, module=module, device=device, dtype="float64", random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clfs.append(clf.fit(data.X, data.s))
    losses = [[record["loss"] for record in clf.history_] for clf in clfs]
    assert np.allclose(*losses, atol=1e-6)


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, 1)), None),
        (Averages(), "replaces its attribute mean"),
        (Counts(5, 1), "replaces its attribute passes"),
        (Collects(5, 1), "replaces its attribute seen"),
        (Draws(5, 1), "draws random numbers on the CPU"),
    ],
)
def test_what_may_be_recorded(module: nn.Module, reason: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recording is tried the fourth time that batches of a size come, unless a step has shown that it must not be."""
    tried: list[tuple[int, ...]] = []
    monkeypatch.setattr(capture, "_warned", set())
    monkeypatch.setattr(capture, "cuda_generator", lambda device: SimpleNamespace(get_offset=lambda: 0))
    monkeypatch.setattr(capture.CapturedStep, "_record", lambda self, key, positions: bool(tried.append(key)))
    model = Model([module.train()])
    step = capture.CapturedStep(lambda positions: model.forward(torch.zeros(1, 4, 5)), model)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for size in (3, 3, 2, 3, 2, 3, 2, 2):
            assert step({"u": torch.zeros(1, size)}).shape == (1, 4)
    assert tried == ([] if reason else [(3,), (2,)])
    assert [reason in str(warning.message) for warning in caught] == ([True] if reason else [])


def test_what_a_pass_leaves_behind_is_seen() -> None:
    def changed(module: nn.Module) -> list[str]:
        model = Model([module.train()])
        model.forward(torch.zeros(1, 4, 5))
        before = model.held()
        model.forward(torch.zeros(1, 4, 5))
        return model.changed_since(before)

    assert changed(Averages()) == ["mean"]
    assert changed(nn.Sequential(nn.ReLU(), Counts(5, 1))) == ["1.passes"]
    assert changed(nn.Sequential(nn.ReLU(), Collects(5, 1))) == ["1.seen"]
    assert changed(nn.Sequential(nn.BatchNorm1d(5), nn.Dropout(0.5), nn.Linear(5, 1))) == []
    holds = nn.Linear(5, 1)
    holds.steady = {"tensors": [torch.zeros(2)], "array": np.zeros(2)}  # type: ignore[assignment]
    assert changed(holds) == []
