"""Methods that the loop must be able to hold: mixup, two views, a mean teacher, memory, a hook after the step."""

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from pulab import NNPUClassifier
from pulab.augment import strong, weak
from pulab.errors import InputError
from pulab.estimators._base import BasePUClassifier, Task, fit_tasks
from pulab.estimators._vpu import VPUClassifier
from pulab.losses import nnpu_risk
from pulab.methods import METHODS
from pulab.training import Batch, Objective, Schedule, Step
from pulab.training.fleet import _training
from pulab.training.loop import _run_epoch
from tests.conftest import Blobs


class TwoViews(Objective):
    """A noisy view for the student, another for its mean teacher, and a mean of the teacher's predictions kept."""

    teacher_decay = 0.9

    def __init__(self, n_u: int, **numbers: Tensor) -> None:
        super().__init__(**numbers)
        self.memory = {"seen": torch.zeros(1, n_u, dtype=torch.float64), "steps": torch.zeros(1, 1)}

    def step(self, batch: Batch) -> Step:
        noisy = {name: x + 0.3 * batch.random.normal(*x.shape[1:]).to(x.dtype) for name, x in batch.originals.items()}
        label = torch.sigmoid(batch.logits({"u": batch.inputs["u"]}, teacher=True)["u"])
        g = batch.logits(noisy)
        again = batch.logits({"u": batch.inputs["u"]}, grad=False)["u"]
        self.memory["seen"].scatter_(1, batch.positions["u"], label.double())
        loss = nnpu_risk(g["p"], g["u"], self.numbers["prior"]).objective + (
            (torch.sigmoid(g["u"]) - 0.5 * label - 0.5 * torch.sigmoid(again)).square().mean(-1)
        )
        return Step(loss, {"loss": loss})

    def end_step(self, batch: Batch) -> None:
        self.memory["steps"] += 1

    def end_epoch(self, epoch: int) -> Mapping[str, Tensor]:
        return {"seen": self.memory["seen"].mean(-1), "steps": self.memory["steps"][:, 0]}

    def validation_risk(self, g: Mapping[str, Tensor]) -> Tensor:
        return nnpu_risk(g["p"], g["u"], self.numbers["prior"]).value


class TwoViewsClassifier(NNPUClassifier):
    def _objective(self, task: Task, schedule: Schedule) -> Any:
        return TwoViews(len(task.streams["u"]), **task.numbers(prior=task.prior))


def dropping_net() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1))


def norm_net() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1))


def noise(x: Tensor, random: Any) -> Tensor:
    return x + 0.1 * random.normal(*x.shape[1:])


def fleet(**changes: Any) -> list[BasePUClassifier]:
    """Each of them uses much of what a batch offers; they differ in rates, decay and seeds."""
    shared = {
        "module": dropping_net,
        "epochs": 4,
        "dtype": "float64",
        "augment": noise,
        "lr_warmup": 1.5,
        "calibration": False,
    } | changes
    settings = [{"lr": 3e-3 * (1 + i), "weight_decay": 1e-3 * i, "random_state": i} for i in range(3)]
    return [
        *(TwoViewsClassifier(prior=0.3 + 0.1 * i, **shared, **s) for i, s in enumerate(settings)),
        *(VPUClassifier(mixup_alpha=0.3 + i, **shared, **s) for i, s in enumerate(settings)),
    ]


def fit_together(estimators: list[BasePUClassifier]) -> list[BasePUClassifier]:
    data = [Blobs("case-control", seed=i % 3) for i in range(len(estimators))]
    tasks = [clf._prepare(d.X, d.s) for clf, d in zip(estimators, data, strict=True)]
    assert fit_tasks(estimators, tasks, batched=True) == [None] * len(estimators)
    return estimators


def check_fleet(changes: dict[str, Any], tolerance: float) -> None:
    many = fit_together(fleet(**changes))
    for i, (one, other) in enumerate(zip(fleet(**changes), many, strict=True)):
        data = Blobs("case-control", seed=i % 3)
        one.fit(data.X, data.s)
        assert np.abs(one.decision_function(data.X) - other.decision_function(data.X)).max() < tolerance
        for record, same in zip(one.history_, other.history_, strict=True):
            assert record == pytest.approx(same, abs=tolerance)


@pytest.mark.parametrize("optimizer", ["amsgrad", "adamw", "sgd"])
@pytest.mark.parametrize("lr_schedule", ["constant", "cosine"])
def test_alone_equals_in_a_fleet(optimizer: str, lr_schedule: str) -> None:
    check_fleet({"optimizer": optimizer, "lr_schedule": lr_schedule}, 1e-9)


@pytest.mark.gpu
@pytest.mark.parametrize("optimizer", ["amsgrad", "adamw", "sgd"])
def test_alone_equals_in_a_fleet_on_a_gpu(optimizer: str) -> None:
    check_fleet({"optimizer": optimizer, "lr_schedule": "cosine", "device": "cuda"}, 1e-9)


@pytest.mark.gpu
@pytest.mark.parametrize("optimizer", ["amsgrad", "adamw", "sgd"])
def test_a_recorded_step_learns_what_the_cpu_learns(optimizer: str) -> None:
    data = Blobs("case-control")
    for module in (dropping_net, norm_net):
        changes = {"module": module, "optimizer": optimizer, "lr_schedule": "cosine"}
        pairs = zip(fleet(device="cpu", **changes), fleet(device="cuda", **changes), strict=True)
        for on_cpu, on_gpu in pairs:
            scores = [clf.fit(data.X, data.s).decision_function(data.X) for clf in (on_cpu, on_gpu)]
            assert np.abs(scores[0] - scores[1]).max() < 1e-6


def check_resuming(clf: BasePUClassifier, others: list[BasePUClassifier]) -> None:
    """Stopped in the middle of an epoch and begun anew, a training ends as one that was never touched."""
    data = Blobs("case-control")

    def training() -> Any:
        return _training([next(c._stages(c._prepare(data.X, data.s))) for c in (clf, *others)])

    whole, first, again = training(), training(), training()
    with whole.started():
        while not whole.is_over:
            _run_epoch([(whole, None)], lambda record, epochs: None)
    with first.started():
        _run_epoch([(first, None)], lambda record, epochs: None)
        for positions in first.begin_epoch()[:5]:
            first.take_step(positions)
        state = first.state_dict()
    with again.started():
        again.load_state_dict(state)
        while not again.is_over:
            _run_epoch([(again, None)], lambda record, epochs: None)
    for one, other in zip(whole.results(), again.results(), strict=True):
        assert one.history == other.history
        tensors = [[*t.module.parameters(), *t.module.buffers()] for t in (one, other)]
        assert all(torch.equal(a, b) for a, b in zip(*tensors, strict=True))


@pytest.mark.parametrize("i", [0, 3])
@pytest.mark.parametrize("optimizer", ["amsgrad", "adamw", "sgd"])
def test_resume_is_exact(i: int, optimizer: str) -> None:
    check_resuming(fleet(module=norm_net, optimizer=optimizer, lr_schedule="cosine")[i], [])
    clfs = fleet(optimizer=optimizer)
    check_resuming(clfs[i], clfs[i + 1 : i + 3])


@pytest.mark.parametrize(
    "key", [key for key, method in METHODS.items() if method.is_network and not method.needs_negatives]
)
def test_every_method_is_the_same_alone_in_a_fleet_and_resumed(key: str) -> None:
    data, method = Blobs("case-control"), METHODS[key]
    y = data.y_true if method.learns_from_truth else data.s
    shared = {"module": dropping_net, "epochs": 3, "dtype": "float64", "device": "cpu", "lr_schedule": "cosine"}

    def made() -> list[Any]:
        prior = {"prior": 0.4} if method.needs_prior else {}
        return [method.load()(**shared, **prior, lr=1e-3 * (1 + i), random_state=i) for i in range(2)]

    many = made()
    fit_tasks(many, [clf._prepare(data.X, y) for clf in many], batched=True)
    for alone, together in zip(made(), many, strict=True):
        alone.fit(data.X, y)
        assert np.abs(alone.decision_function(data.X) - together.decision_function(data.X)).max() < 1e-9
    check_resuming(*made()[:1], [])


class Odd(nn.Linear):
    """With a buffer that grows and an infinite one, which a mean must survive."""

    def __init__(self) -> None:
        super().__init__(5, 1)
        self.register_buffer("seen", torch.zeros(1))
        self.register_buffer("mask", torch.tensor([0.0, 0, 0, 0, -torch.inf]))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.seen = torch.cat([self.seen, x.detach().mean()[None]])[-5:]
        return super().forward(x * self.mask.exp())


def test_a_teacher_takes_odd_buffers() -> None:
    data = Blobs("case-control")
    clf = fleet(module=Odd)[0].fit(data.X, data.s)
    assert clf.score(data.X, data.y_true) > 0.8
    assert clf.module_.mask[-1] == -torch.inf


def test_the_teacher_is_the_mean_of_the_model_and_the_one_that_is_kept() -> None:
    """By hand, from the weights after every step."""
    data = Blobs("case-control")
    clf = fleet(module=norm_net, validation_fraction=0.0, epochs=2)[0]
    job = next(clf._stages(clf._prepare(data.X, data.s)))
    training = _training([job])
    with training.started():
        expected = {name: value.clone() for name, value in job.module.state_dict().items()}
        steps = 0
        while not training.is_over:
            for positions in training.begin_epoch():
                training.take_step(positions)
                steps += 1
                share = max(1 / steps, 0.1)  # the plain mean at first
                for name, value in job.module.state_dict().items():
                    mean = (1 - share) * expected[name] + share * value
                    expected[name] = mean if value.is_floating_point() else value
            training.end_epoch()
        model = {name: value.clone() for name, value in job.module.state_dict().items()}
        x = torch.from_numpy(data.X)[None]
        training.model.train(True)
        training.model.begin_step()
        before = {name: value.clone() for name, value in training.model.state_dict()["teacher"].items()}
        training.model.forward(x, teacher=True)  # changes nobody's buffers
        assert all(torch.equal(before[name], value) for name, value in training.model.teacher.items())
        assert all(torch.equal(model[name], value) for name, value in job.module.state_dict().items())
    for name, value in training.results()[0].module.state_dict().items():
        assert torch.allclose(value, expected[name], atol=1e-12)
    assert not torch.allclose(model["0.weight"], expected["0.weight"], atol=1e-3)


def test_the_teacher_is_the_one_that_is_validated() -> None:
    data = Blobs("case-control")
    clf = fleet()[0].fit(data.X, data.s, X_val=data.X, y_val=data.s)
    assert [record["steps"] for record in clf.history_] == [13, 26, 39, 52]  # the hook after every step
    g = torch.from_numpy(clf.decision_function(data.X))
    p = torch.from_numpy(data.s == 1)
    risk = nnpu_risk(g[p], g[~p], 0.3).value.item()
    assert min(record["val_risk"] for record in clf.history_) == pytest.approx(risk, abs=1e-12)


def test_a_teacher_must_be_asked_for() -> None:
    class Careless(TwoViews):
        teacher_decay = None

    class CarelessClassifier(NNPUClassifier):
        def _objective(self, task: Task, schedule: Schedule) -> Any:
            return Careless(len(task.streams["u"]), **task.numbers(prior=task.prior))

    data = Blobs("case-control")
    with pytest.raises(InputError, match="asks for a mean teacher, but has none"):
        CarelessClassifier(prior=0.4, epochs=1).fit(data.X, data.s)


def test_vpu_written_out() -> None:
    """One epoch of one step without dropout: the loss by the paper's formulas in numpy."""
    data = Blobs("case-control")
    draws: dict[str, np.ndarray] = {}

    class Watched(VPUClassifier):
        def _objective(self, task: Task, schedule: Schedule) -> Any:
            objective = super()._objective(task, schedule)
            step = objective.step

            def watched(batch: Batch) -> Step:
                class Tape:
                    def __getattr__(self, name: str) -> Any:
                        def draw(*args: Any) -> Tensor:
                            draws[name] = (value := getattr(batch.random, name)(*args)).numpy()[0]
                            return value

                        return draw

                taped = Batch(batch._forward, batch.originals, batch.inputs, batch.positions, Tape())  # type: ignore[arg-type]
                result = step(taped)
                draws["p"], draws["u"] = (batch.inputs[name][0].numpy() for name in ("p", "u"))
                batch.positive_share = taped.positive_share
                return result

            objective.step = watched
            return objective

    net = nn.Linear(5, 1, dtype=torch.float64)
    w, b = net.weight.detach().numpy()[0].copy(), net.bias.item()
    clf = Watched(module=net, epochs=1, batch_size_u=1000, validation_fraction=0, dtype="float64", random_state=0)
    clf.set_params(mixup_weight=0.7, mixup_alpha=0.5, device="cpu").fit(data.X, data.s)

    def phi(x: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-(x @ w + b)))

    share, p, u = draws["beta"], draws["p"], draws["u"]
    risk = np.log(phi(u).mean()) - np.log(phi(p)).mean()
    partners = p[draws["integers"]]
    label = share * phi(u) + (1 - share)
    mixup = ((np.log(label) - np.log(phi(share * u + (1 - share) * partners))) ** 2).mean()
    (record,) = clf.history_
    assert [record["risk"], record["mixup"], record["loss"]] == pytest.approx([risk, mixup, risk + 0.7 * mixup])
    assert len(set(draws["integers"].tolist())) > 30  # partners are drawn anew for every row
    largest = clf.module_(torch.from_numpy(u)).sigmoid().max().item()
    assert clf.threshold_ == pytest.approx(np.log(largest / 2) - np.log(1 - largest / 2))
    at_half = logsigmoid(torch.tensor(clf.threshold_)).exp().item()
    assert at_half == pytest.approx(largest / 2)


class Plain(Objective):
    """Keeps a plain attribute, and changes its rows in place through ``augment``."""

    def __init__(self, power: float, **numbers: Tensor) -> None:
        super().__init__(**numbers)
        self.power = power

    def step(self, batch: Batch) -> Step:
        g = batch.logits(batch.originals)
        loss = nnpu_risk(g["p"], g["u"], self.numbers["prior"]).objective * self.power
        return Step(loss, {"loss": loss})

    def validation_risk(self, g: Mapping[str, Tensor]) -> Tensor:
        return nnpu_risk(g["p"], g["u"], self.numbers["prior"]).value


class PlainClassifier(NNPUClassifier):
    power: float = 1.0
    make: Any = Plain

    def _objective(self, task: Task, schedule: Schedule) -> Any:
        return self.make(self.power, **task.numbers(prior=task.prior))


def test_models_with_other_plain_attributes_are_trained_apart() -> None:
    data = Blobs("case-control")
    shared = {"prior": 0.4, "module": dropping_net, "epochs": 2, "optimizer": "sgd", "device": "cpu", "random_state": 0}
    clfs = [PlainClassifier(power=power, **shared) for power in (1.0, 5.0)]
    fit_tasks(clfs, [clf._prepare(data.X, data.s) for clf in clfs], batched=True)
    alone = [clone(clf).fit(data.X, data.s).decision_function(data.X) for clf in clfs]
    assert all(np.allclose(clf.decision_function(data.X), scores) for clf, scores in zip(clfs, alone, strict=True))
    kinds = [Plain(power, prior=torch.ones(1)).kind for power in (1.0, 1.0, torch.sigmoid, torch.tanh, [1.0])]  # type: ignore[arg-type]
    assert kinds[0] == kinds[1]
    assert len(set(kinds)) == 4
    in_place = PlainClassifier(power=1.0, augment=lambda x, random: x.add_(100), **shared).fit(data.X, data.s)
    assert np.array_equal(in_place.decision_function(data.X), alone[0])  # it passes the originals


def changed(**functions: Any) -> Any:
    return type("Changed", (Plain,), functions)


def scalar(self: Plain, batch: Batch) -> Step:
    loss = batch.logits()["u"].mean()
    return Step(loss, {"loss": loss})


def rowwise(self: Plain, batch: Batch) -> Step:
    loss = batch.logits()["u"]
    return Step(loss, {"loss": loss})


def switching(self: Plain, epoch: int) -> None:
    self.power = 2.0 * epoch


def named(self: Plain, batch: Batch) -> Step:
    loss = batch.logits()["u"].mean(-1)
    return Step(loss, {"loss": loss, "lr": loss})


def keeping(self: Plain, batch: Batch) -> Step:
    loss = batch.logits()["u"].mean(-1)
    self.memory["mean"] = loss[:, None]
    return Step(loss, {"loss": loss})


def with_memory(self: Plain, power: float, **numbers: Tensor) -> None:
    Objective.__init__(self, **numbers)
    self.memory["mean"] = torch.zeros(1, 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (changed(step=lambda self, batch: batch.logits()["u"]), "Changed.step must return a Step"),
        (
            changed(step=scalar),
            r"Changed.step must return a value per model, shape \(1,\), but objective of Step is \(\)",
        ),
        (changed(step=rowwise), r"Changed.step must return a value per model, .* is \(1, \d+\)"),
        (changed(begin_epoch=switching), "Changed changes an attribute in training"),
        (changed(step=named), "Changed.step: the name 'lr' is reserved"),
        (changed(step=lambda self, batch: batch["u"]), "Changed.step fails in training: TypeError: 'Batch' object"),
        (changed(validation_risk=lambda self, g: 3.0), "Changed.validation_risk must return a value per model.*float"),
        (changed(end_epoch=lambda self, epoch: {"a": 1.0}), "Changed.end_epoch must return .*but a is float"),
        (changed(__init__=with_memory, step=keeping), r"must change memory\['mean'\] in place"),
        (changed(teacher_decay=1.5), "teacher_decay must be a number in"),
        (lambda power, **numbers: Plain(power, prior=0.4), "the number 'prior' must be a tensor"),
    ],
)
def test_an_objective_that_does_not_keep_to_the_rules_is_told(make: Any, message: str) -> None:
    data = Blobs("case-control")
    with pytest.raises(InputError, match=message):
        PlainClassifier(prior=0.4, epochs=1, make=make, device="cpu").fit(data.X, data.s)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"optimizer": "adam"}, "optimizer must be one of 'amsgrad'"),
        ({"lr_schedule": "linear"}, "lr_schedule must be one of"),
        ({"lr_schedule": "cosine", "lr_milestones": [2]}, "lr_milestones need lr_schedule='constant'"),
        ({"lr_warmup": -1}, "lr_warmup must be"),
        ({"augment": "flip"}, "augment must be one of 'weak'"),
        ({"augment": "weak"}, "is a view of images"),
        ({"augment": lambda x, random: x[:, :1]}, r"same shape, \(1, \d+, 5\), got \(1, 1, 5\)"),
        ({"augment": lambda x, random: None}, "got NoneType"),
        ({"augment": partial(lambda x, random: 1 / 0)}, "augment fails in training: ZeroDivisionError"),
    ],
)
def test_bad_settings_get_one_clear_error(params: dict[str, Any], message: str) -> None:
    data = Blobs("case-control")
    with pytest.raises(InputError, match=message):
        NNPUClassifier(prior=0.4, epochs=1, device="cpu", **params).fit(data.X, data.s)


@pytest.mark.gpu
@pytest.mark.parametrize("augment", ["weak", "strong", "digits"])
def test_views_are_recorded_on_a_gpu(augment: str) -> None:
    rng = np.random.default_rng(0)
    s = (np.arange(60) < 20).astype(int)
    X = rng.normal(size=(60, 3, 8, 8)) + s[:, None, None, None]
    net = lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 1))  # noqa: E731
    scores = []
    for device in ("cpu", "cuda"):
        clf = NNPUClassifier(prior=0.3, epochs=6, module=net, augment=augment, dtype="float64", random_state=0)
        scores.append(clf.set_params(device=device).fit(X, s).decision_function(X))  # warnings are errors here
    assert np.abs(scores[0] - scores[1]).max() < 1e-6


@pytest.mark.parametrize("augment", ["weak", "strong", "digits", weak, strong])
def test_augmented_fits_repeat_and_validate_on_plain_rows(augment: Any) -> None:
    rng = np.random.default_rng(0)
    s = (np.arange(60) < 20).astype(int)
    X = rng.normal(size=(60, 3, 8, 8)) + s[:, None, None, None]
    net = lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 1))  # noqa: E731
    shared = {"prior": 0.3, "epochs": 2, "module": net, "calibration": False}
    clfs = [
        NNPUClassifier(**shared, augment=a, device="cpu", random_state=0, dtype="float64").fit(X, s, X_val=X, y_val=s)
        for a in (augment, augment, None)
    ]
    scores = [clf.decision_function(X) for clf in clfs]
    assert np.array_equal(scores[0], scores[1])
    assert not np.array_equal(scores[0], scores[2])
    g = torch.from_numpy(scores[0])
    risk = nnpu_risk(g[s == 1], g[s == 0], 0.3).value.item()
    assert min(record["val_risk"] for record in clfs[0].history_) == pytest.approx(risk)


def test_the_methods_of_the_guide_learn_alone_and_in_a_fleet() -> None:
    page = (Path(__file__).parents[2] / "docs" / "extending.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        exec(block, names)
    data = Blobs("case-control")
    shared = {"prior": 0.4, "epochs": 10, "device": "cpu", "dtype": "float64", "module": dropping_net}
    clfs = [names["MixupPUClassifier"](mixup_weight=i, random_state=i, **shared) for i in range(2)]
    fit_tasks(clfs, [clf._prepare(data.X, data.s) for clf in clfs], batched=True)
    for clf in clfs:
        assert clf.score(data.X, data.y_true) > 0.9
        alone = clone(clf).fit(data.X, data.s)
        assert np.abs(alone.decision_function(data.X) - clf.decision_function(data.X)).max() < 1e-9
    images = np.repeat(data.X.mean(axis=1), 64).reshape(-1, 1, 8, 8) + 0.1 * data.X[:, :1, None, None]
    net = lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 1))  # noqa: E731
    clf = names["TeacherPUClassifier"](**(shared | {"module": net}), lr=0.01, random_state=0).fit(images, data.s)
    assert clf.score(images, data.y_true) > 0.9
