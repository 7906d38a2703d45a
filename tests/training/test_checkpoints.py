"""Checkpoints: killed trainings end as untouched ones, and files of other trainings and forged ones are refused."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load, save
from sklearn.model_selection import GridSearchCV
from torch import Tensor, nn

from pulab import JointPUClassifier, NaivePUClassifier, PUbNClassifier, fit_many
from pulab._torch import be_deterministic
from pulab.bench import read_rows
from pulab.errors import CheckpointError, InputError, PulabWarning, TrainingError
from pulab.methods import METHODS
from pulab.persistence import load_model, save_model
from pulab.training import checkpoint as module
from pulab.training.checkpoint import Checkpoint
from tests.conftest import Blobs

ROOT = Path(__file__).parents[2]


class Stopped(Exception):
    """As if the process were killed: nothing is saved on the way out."""


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save after every step."""
    monkeypatch.setattr(module, "SECONDS", 0.0)
    monkeypatch.setattr(module, "SHARE", 1e9)
    monkeypatch.setattr(module, "LEAST", 0.0)


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C interrupts, also where a shell has started the tests in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def stop_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[int | None], None]:
    """Stop a training after this many saves."""
    save_one = Checkpoint.save

    def stop(n: int | None) -> None:
        left = iter(range(10**9 if n is None else n))

        def save_and_stop(self: Checkpoint, *content: Any) -> None:
            if next(left, None) is None:
                raise Stopped
            save_one(self, *content)

        monkeypatch.setattr(Checkpoint, "save", save_and_stop)

    return stop


def joint(**more: Any) -> JointPUClassifier:
    return JointPUClassifier(**{"prior": 0.4, "epochs": 4, "e_start": 2, "r": 2, "random_state": 0, **more})


def stopped(clf: Any, data: Any, stop_after: Any, saves: int) -> None:
    stop_after(saves)
    with pytest.raises(Stopped):
        clf.fit(data.X, data.s)
    stop_after(None)


def same(one: Any, other: Any, X: Any) -> bool:
    weights = zip(one.module_.state_dict().values(), other.module_.state_dict().values(), strict=True)
    return (
        one.history_ == other.history_
        and one.best_epoch_ == other.best_epoch_
        and all(torch.equal(a, b) for a, b in weights)
        and np.array_equal(one.predict_proba(X), other.predict_proba(X))
    )


# Killed and begun again -----------------------------------------------------------------------------------------------


def test_killed_trainings_end_as_untouched_ones(tmp_path: Path) -> None:
    """Every network method and more. The long form is benchmarks/torture/checkpoints.py with more kills.

    The other methods are in tests/estimators/test_pieces.py.
    """
    script = ROOT / "benchmarks" / "torture" / "checkpoints.py"
    subprocess.run(
        [sys.executable, script, "13", "networks"], check=True, env={**os.environ, "TORTURE_ROWS": str(tmp_path)}
    )
    (row,) = read_rows([tmp_path / "checkpoints.jsonl"])
    assert row["kills"] >= 13
    assert row["kinds"] >= sum(method.is_network for method in METHODS.values())
    assert (row["different"], row["leftovers"]) == (0, 0)


class MixesTeacher(nn.Module):
    """Convolutions in channels-last order, whose strides must survive."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.last = nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.relu(self.norm(self.first(x))).mean((2, 3)))


def test_memory_order_is_kept(tmp_path: Path, stop_after: Any) -> None:
    """torch's fused optimisers take the numbers in the order of the memory, whatever the shape says."""
    rng = np.random.default_rng(0)
    s = (np.arange(90) < 20).astype(int)
    data = Blobs("case-control")
    data.X, data.s = rng.normal(size=(90, 3, 8, 8)) + s[:, None, None, None], s
    whole = joint(module=MixesTeacher).fit(data.X, data.s)
    clf = joint(module=MixesTeacher, checkpoint=tmp_path / "a")
    stopped(clf, data, stop_after, 5)
    kept = Checkpoint(tmp_path / "a", [])
    _, tensors = module._from_bytes(kept.path.read_bytes())
    assert tensors
    assert same(clf.fit(data.X, data.s), whole, data.X)


@pytest.mark.parametrize("saves", [1, 25, 41, 60])
def test_both_networks_of_pubn_go_on(saves: int, tmp_path: Path, blobs: Blobs, stop_after: Any) -> None:
    """Stopped in the first network, at its end and in the second one."""
    params = {"prior": 0.4, "epochs": 4, "random_state": 0}
    whole = PUbNClassifier(**params).fit(blobs.X, blobs.s)
    clf = PUbNClassifier(**params, checkpoint=tmp_path / "a")
    stopped(clf, blobs, stop_after, saves)
    assert (tmp_path / "a.2").exists() == (saves > 41)
    assert same(clf.fit(blobs.X, blobs.s), whole, blobs.X)
    assert clf.sigma_history_ == whole.sigma_history_
    assert not any(tmp_path.iterdir())


@pytest.mark.gpu
@pytest.mark.parametrize("saves", [5, 30])
def test_a_training_on_a_gpu_goes_on(saves: int, tmp_path: Path, blobs: Blobs, stop_after: Any) -> None:
    be_deterministic()
    try:
        whole = joint(device="cuda").fit(blobs.X, blobs.s)
        clf = joint(device="cuda", checkpoint=tmp_path / "a")
        stopped(clf, blobs, stop_after, saves)
        assert same(clf.fit(blobs.X, blobs.s), whole, blobs.X)
    finally:
        torch.use_deterministic_algorithms(False)


def test_finished_epochs_are_not_trained_again(tmp_path: Path, blobs: Blobs, stop_after: Any) -> None:
    steps = []

    def count(rows: Tensor, random: Any) -> Tensor:
        steps.append(1)
        return rows

    clf = joint(augment=count, checkpoint=str(tmp_path / "a"))
    stopped(clf, blobs, stop_after, 30)
    before = len(steps)
    clf.fit(blobs.X, blobs.s)
    assert len(steps) == 2 * 4 * 10 + 2  # P and U, and the one step that was not saved
    assert before == 62


# Many fits, and one file ----------------------------------------------------------------------------------------------


def test_a_folder_serves_a_search(tmp_path: Path, blobs: Blobs) -> None:
    """Every fit has its own file. A second search trains nothing, and finds the same."""
    grid = {"lr": [1e-3, 1e-2]}
    first = GridSearchCV(joint(checkpoint=tmp_path), grid, cv=2).fit(blobs.X, blobs.s)
    names = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert len(names) == 2 * 2 + 1
    second = GridSearchCV(joint(checkpoint=tmp_path), grid, cv=2).fit(blobs.X, blobs.s)
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == names
    assert same(first.best_estimator_, second.best_estimator_, blobs.X)


def test_fit_many_uses_a_folder(tmp_path: Path, blobs: Blobs) -> None:
    data = {"X": blobs.X, "y": blobs.s}
    fitted = fit_many([joint(checkpoint=tmp_path, lr=lr) for lr in (1e-3, 1e-2)], [data, data], n_jobs=1)
    assert len(list(tmp_path.iterdir())) == 2
    assert same(fitted[0], joint(lr=1e-3).fit(blobs.X, blobs.s), blobs.X)
    with pytest.raises(InputError, match="needs random_state"):
        fit_many([joint(checkpoint=tmp_path, random_state=None)], [data])


def test_short_trainings_write_nothing(tmp_path: Path, blobs: Blobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS", 1e9)
    monkeypatch.setattr(module, "LEAST", 1e9)
    joint(checkpoint=tmp_path).fit(blobs.X, blobs.s)
    assert not any(tmp_path.iterdir())


def test_slow_saves_are_rare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(module, "SECONDS", 30.0)
    monkeypatch.setattr(module, "SHARE", 0.02)
    monkeypatch.setattr(module, "_to_bytes", lambda *content: now.__setitem__(0, now[0] + 6.0) or b"")
    kept = Checkpoint(tmp_path / "a", [])
    now[0] = 29.0
    assert not kept.is_due
    now[0] = 30.0
    assert kept.is_due
    kept.save({}, "epoch 1")
    now[0] = 36 + 299.0  # a save of 6 s may come every 300 s
    assert not kept.is_due
    now[0] = 36 + 300.0
    assert kept.is_due


# Refused --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"lr": 0.5}, r"another training: lr was 0\.002 and is 0\.5\. Name another one, or delete it"),
        ({"epochs": 5, "beta": 0.3}, r"epochs was 4 and is 5"),
        ({"random_state": 1}, r"the seed by random_state was \d+ and is \d+"),
        ({"module": nn.Linear(5, 1)}, r"the module is not the same"),
        ({"X": 1.5}, r": X is not the same\."),
        ({"y": 7}, r"y is not the same"),
        ({"pulab": "9.9"}, r"the version of pulab was .* and is 9\.9"),
    ],
)
def test_another_training_is_refused(
    other: dict[str, Any], named: str, tmp_path: Path, blobs: Blobs, stop_after: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "a"
    stopped(joint(checkpoint=place, prior=0.4), blobs, stop_after, 3)
    before = place.read_bytes()
    X, s = blobs.X.copy(), blobs.s.copy()
    X[3, 2] += other.pop("X", 0)
    s[: other.pop("y", 0)] = 1
    if "pulab" in other:
        monkeypatch.setattr("pulab.estimators._identity.__version__", other.pop("pulab"))
    with pytest.raises(CheckpointError, match=named):
        joint(checkpoint=place, **other).fit(X, s)
    assert place.read_bytes() == before


def test_what_does_not_change_the_result_is_not_compared(tmp_path: Path, blobs: Blobs, stop_after: Any) -> None:
    stopped(joint(checkpoint=tmp_path / "a"), blobs, stop_after, 3)
    (tmp_path / "a").rename(tmp_path / "b")
    whole = joint().fit(blobs.X, blobs.s)
    assert same(joint(checkpoint=tmp_path / "b", verbose=1).fit(blobs.X, blobs.s), whole, blobs.X)


def forge(raw: bytes, change: Callable[[dict[str, Any], dict[str, Tensor]], None]) -> bytes:
    """Change the content, with a checksum that is right again."""
    document, tensors = module._from_bytes(raw)
    change(document, tensors)
    return module._to_bytes(document, tensors)


def _first(document: dict[str, Any], name: str, value: Any) -> None:
    for item in document["state"]["items"]:
        item[1] = value if item[0] == name else item[1]


FORGED: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda raw: b"",
    "cut": lambda raw: raw[: len(raw) // 2],
    "longer": lambda raw: raw + b"x",
    "a flipped bit": lambda raw: raw[:-5] + bytes([raw[-5] ^ 1]) + raw[-4:],
    "a huge header": lambda raw: (2**62).to_bytes(8, "little") + raw[8:],
    "no notes": lambda raw: save(load(raw)),
    "a pickle": lambda raw: b"\x80\x04}q\x00.",
    "another format": lambda raw: forge(raw, lambda d, t: d.update(format=99)),
    "no state": lambda raw: forge(raw, lambda d, t: d.pop("state")),
    "no identity": lambda raw: forge(raw, lambda d, t: d.update(identity=[{}])),
    "a negative epoch": lambda raw: forge(raw, lambda d, t: _first(d, "epoch", -3)),
    "an epoch as text": lambda raw: forge(raw, lambda d, t: _first(d, "epoch", "1")),
    "no history": lambda raw: forge(raw, lambda d, t: _first(d, "histories", [])),
    "other shapes": lambda raw: forge(raw, lambda d, t: t.update({n: torch.zeros(2, 2) for n in t})),
    "no tensors": lambda raw: forge(raw, lambda d, t: t.clear()),
    "no optimiser": lambda raw: forge(raw, lambda d, t: _first(d, "optimizer", {"items": []})),
}


@pytest.mark.parametrize("kind", FORGED)
def test_a_forged_file_gives_one_clear_error(kind: str, tmp_path: Path, blobs: Blobs, stop_after: Any) -> None:
    place = tmp_path / "a"
    stopped(joint(checkpoint=place), blobs, stop_after, 25)
    place.write_bytes(FORGED[kind](place.read_bytes()))
    with pytest.raises(CheckpointError, match=r"(?s)the checkpoint .*[^\n] to begin anew\.$") as caught:
        joint(checkpoint=place).fit(blobs.X, blobs.s)
    assert "\n" not in str(caught.value)


def test_strides_cannot_reach_beyond_the_numbers() -> None:
    tensors = {"0": torch.zeros(3, 2)}
    for strides in ([10**15, 1], [-1, 3], [5, 0]):
        with pytest.raises((CheckpointError, RuntimeError)):
            module._unpack({"tensor": "0", "stride": strides}, tensors)


@pytest.mark.parametrize("place", ["", 3, "no such folder/a"])
def test_a_place_that_cannot_be_is_refused_at_once(place: Any, blobs: Blobs) -> None:
    with pytest.raises(InputError, match="checkpoint must"):
        joint(checkpoint=place).fit(blobs.X, blobs.s)


def test_a_checkpoint_needs_a_seed(tmp_path: Path, blobs: Blobs) -> None:
    with pytest.raises(InputError, match="needs random_state"):
        joint(checkpoint=tmp_path / "a", random_state=None).fit(blobs.X, blobs.s)


def test_a_full_disk_stops_no_training(tmp_path: Path, blobs: Blobs, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.warns(PulabWarning, match="cannot be written: No space left on device. The training goes on"):
        clf = joint(checkpoint=tmp_path / "a").fit(blobs.X, blobs.s)
    assert same(clf, joint().fit(blobs.X, blobs.s), blobs.X)


# Numbers that are not finite, signals, saved models -------------------------------------------------------------------


def test_a_loss_that_is_not_finite_names_the_batch_and_the_last_good_checkpoint(tmp_path: Path, blobs: Blobs) -> None:
    calls = []

    def breaks(rows: Tensor, random: Any) -> Tensor:
        calls.append(1)
        return rows * float("nan") if len(calls) == 51 else rows  # in epoch 3, step 6

    clf = NaivePUClassifier(epochs=4, random_state=0, augment=breaks, checkpoint=tmp_path / "a")
    message = (
        r"no longer finite at epoch 3, step 6 of 10, whose batch has the rows \d+(, \d+){7}, … of X\. .* "
        r"The last good checkpoint, of epoch 3, step 5, stays: .*a\."
    )
    with pytest.raises(TrainingError, match=message):
        clf.fit(blobs.X, blobs.s)
    document, tensors = module._from_bytes((tmp_path / "a").read_bytes())
    assert document["position"] == "epoch 3, step 5"
    assert all(torch.isfinite(tensor).all() for tensor in tensors.values())


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_saves_and_then_interrupts(tmp_path: Path, blobs: Blobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes inside a step; what is saved is the state at the step's end."""
    monkeypatch.setattr(module, "SECONDS", 1e9)
    handler, calls = signal.getsignal(signal.SIGINT), []

    def press(rows: Tensor, random: Any) -> Tensor:
        calls.append(1)
        if len(calls) == 33:
            os.kill(os.getpid(), signal.SIGINT)
        return rows

    clf = joint(augment=press, checkpoint=tmp_path / "a")
    with pytest.raises(KeyboardInterrupt):
        clf.fit(blobs.X, blobs.s)
    assert signal.getsignal(signal.SIGINT) is handler
    document, _ = module._from_bytes((tmp_path / "a").read_bytes())
    assert document["position"] == "epoch 2, step 7"
    assert same(clf.fit(blobs.X, blobs.s), joint().fit(blobs.X, blobs.s), blobs.X)
    assert len(calls) == 2 * 4 * 10


def _press_twice() -> None:
    os.kill(os.getpid(), signal.SIGINT)  # waits
    os.kill(os.getpid(), signal.SIGINT)
    raise AssertionError


@pytest.mark.usefixtures("ctrl_c")
def test_a_second_ctrl_c_does_not_wait() -> None:
    with pytest.raises(KeyboardInterrupt), module.Interrupts():
        _press_twice()
    with pytest.raises(KeyboardInterrupt), module.Interrupts():  # nobody has answered it
        os.kill(os.getpid(), signal.SIGINT)


def test_sigterm_saves_and_then_ends_the_process(tmp_path: Path) -> None:
    """A plain program, without a handler. Exit codes: 128 + 15 for a shell, -15 for Python."""
    program = f"""
import os, signal, numpy as np
from pulab._torch import be_deterministic
from pulab import JointPUClassifier
calls = []
def augment(rows, random):
    calls.append(1)
    if len(calls) == 1:  # a second one would not wait
        os.kill(os.getpid(), signal.SIGTERM)
    return rows
X = np.random.default_rng(0).normal(size=(60, 2))
clf = JointPUClassifier(prior=0.5, augment=augment, checkpoint={str(tmp_path / "a")!r}, random_state=0)
clf.fit(X, np.arange(60) < 20)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=100).returncode == -signal.SIGTERM
    document, _ = module._from_bytes((tmp_path / "a").read_bytes())
    assert document["position"] == "epoch 1, step 1"


def test_a_saved_model_does_not_name_the_checkpoint(tmp_path: Path, blobs: Blobs) -> None:
    clf = joint(checkpoint=tmp_path / "a").fit(blobs.X, blobs.s)
    assert load_model(save_model(clf, tmp_path / "model")).checkpoint is None
    assert "tmp" not in json.dumps(json.loads((tmp_path / "model" / "model.json").read_text())["model"])
