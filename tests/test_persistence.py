"""Models on disk: a loaded model equals the saved one, every damage is an error of one line, and no code is run."""

import json
import pickle
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from torch import nn

from pulab import (
    BaggingPUClassifier,
    BoostingPUClassifier,
    ElkanNotoClassifier,
    NNPUClassifier,
    PlainBoostingPUClassifier,
)
from pulab._packing._lightgbm import check_lightgbm
from pulab.errors import InputError, ModelFileError, PulabWarning
from pulab.methods import METHODS, Method
from pulab.persistence import load_model, save_model
from pulab.persistence._folder import _canonical, _checksum

from .conftest import Blobs

SAVED = [key for key, method in METHODS.items() if not method.needs_negatives]
BLOBS = Blobs("single-sample")


def fitted(key: str) -> Any:
    method = METHODS[key]
    params: dict[str, Any] = {"random_state": 0, "scenario": "single-sample"}
    params |= {"epochs": 2} if method.is_network else {}
    params |= {"prior": BLOBS.prior} if method.needs_prior else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return method.load()(**params).fit(BLOBS.X, BLOBS.s)


@pytest.mark.parametrize("key", SAVED)
def test_every_method_comes_back_as_it_was(key: str, tmp_path: Path) -> None:
    model = fitted(key)
    loaded = load_model(save_model(model, tmp_path / "model"))
    assert type(loaded) is type(model)
    np.testing.assert_array_equal(loaded.predict_proba(BLOBS.X), model.predict_proba(BLOBS.X))
    np.testing.assert_array_equal(loaded.predict(BLOBS.X), model.predict(BLOBS.X))
    assert {n for n in vars(model) if n.endswith("_")} == {n for n in vars(loaded) if n.endswith("_")}
    assert save_model(loaded, tmp_path / "again")  # a loaded model can be saved


def test_boosting_without_its_extra_comes_back(tmp_path: Path) -> None:
    model = BoostingPUClassifier(backend="scikit-learn", prior=0.4, n_estimators=10, random_state=0).fit(
        BLOBS.X, BLOBS.s
    )
    loaded = load_model(save_model(model, tmp_path / "model"))
    np.testing.assert_array_equal(loaded.predict_proba(BLOBS.X), model.predict_proba(BLOBS.X))


def test_labels_that_are_words_and_other_learners(tmp_path: Path) -> None:
    words = np.where(BLOBS.s == 1, "yes", "no").astype(object)
    base = HistGradientBoostingClassifier(max_iter=5)
    with pytest.warns(UserWarning, match="'yes' is taken as the label"):
        model = BaggingPUClassifier(base, n_estimators=2, prior=0.4, random_state=0).fit(BLOBS.X, words)
    loaded = load_model(save_model(model, tmp_path / "model"))
    assert set(loaded.predict(BLOBS.X)) == {"yes", "no"}
    np.testing.assert_array_equal(loaded.predict(BLOBS.X), model.predict(BLOBS.X))


def test_a_callers_module_needs_its_code(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 1))
    model = NNPUClassifier(prior=0.4, module=net, epochs=2, random_state=0).fit(BLOBS.X.astype(np.float32), BLOBS.s)
    save_model(model, tmp_path / "model")
    with pytest.raises(InputError, match="Pass module="):
        load_model(tmp_path / "model")
    loaded = load_model(tmp_path / "model", module=net)
    X = BLOBS.X.astype(np.float32)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    with pytest.raises(ModelFileError, match="cannot be read"):
        load_model(tmp_path / "model", module=nn.Linear(5, 1))


def test_a_function_as_augment_is_not_saved(tmp_path: Path) -> None:
    model = NNPUClassifier(prior=0.4, epochs=2, augment=lambda rows, random: rows * 2, random_state=0)
    model.fit(BLOBS.X, BLOBS.s)
    with pytest.warns(PulabWarning, match="Set augment again"):
        loaded = load_model(save_model(model, tmp_path / "model"))
    assert loaded.augment is None
    assert callable(model.augment)
    np.testing.assert_array_equal(loaded.predict_proba(BLOBS.X), model.predict_proba(BLOBS.X))


def test_the_name_of_an_augment_and_a_dtype_of_torch_are_saved(tmp_path: Path) -> None:
    images = BLOBS.X[:, None, None].repeat(5, axis=2)
    model = NNPUClassifier(prior=0.4, epochs=1, augment="weak", dtype=torch.float64, random_state=0)
    loaded = load_model(save_model(model.fit(images, BLOBS.s), tmp_path / "model"))
    assert (loaded.augment, loaded.dtype) == ("weak", "float64")
    np.testing.assert_array_equal(loaded.predict_proba(images), model.predict_proba(images))


@pytest.fixture(scope="module", params=["nnpu", "bagging", "nnpu-boosting"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(fitted(request.param), tmp_path_factory.mktemp("saved") / "model")


def copied(folder: Path, to: Path) -> Path:
    to.mkdir()
    for path in folder.iterdir():
        (to / path.name).write_bytes(path.read_bytes())
    return to


def test_a_flipped_bit_or_a_missing_end_is_an_error(folder: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for path in sorted(folder.iterdir()):
        raw = path.read_bytes()
        places = [0, len(raw) // 2, len(raw) - 1, *rng.integers(len(raw), size=5)]
        for i, place in enumerate(places):
            broken = copied(folder, tmp_path / f"{path.name}-{i}")
            changed = raw[: int(place)] if i == 2 else raw[:place] + bytes([raw[place] ^ 4]) + raw[place + 1 :]
            (broken / path.name).write_bytes(changed)
            with pytest.raises(ModelFileError) as caught:
                load_model(broken)
            assert "\n" not in str(caught.value)
        broken = copied(folder, tmp_path / f"{path.name}-gone")
        (broken / path.name).unlink()
        with pytest.raises(ModelFileError):
            load_model(broken)


def signed(folder: Path, document: dict[str, Any]) -> None:
    """Put a changed document in place as an attacker would, checksums and all."""
    document.pop("checksum", None)
    document["files"] = {name: _checksum((folder / name).read_bytes()) for name in document["files"]}
    document["checksum"] = _checksum(_canonical(document))
    (folder / "model.json").write_text(json.dumps(document))


class Bomb:
    def __reduce__(self) -> Any:
        return (Path("exploded").write_text, ("x",))


def test_a_liar_with_right_checksums_gets_one_line_and_runs_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    document = json.loads((folder / "model.json").read_text())
    state = document["model"]["object"]["state"]
    lies: list[Any] = [
        {"model": {"object": {"class": "Popen", "state": {}}}},
        {"model": {"object": {"class": "Scaler", "state": {}}}},
        {"model": {"object": {"class": "NNPUClassifier", "state": {}}}},
        {"model": {"evil": "os.system"}},
        {"model": {"object": {**document["model"]["object"], "state": {**state, "row_shape_": {"tuple": [10**12]}}}}},
        {"model": {"object": {**document["model"]["object"], "state": {**state, "prior_": "a", "classes_": 3}}}},
        {"model": {"object": {**document["model"]["object"], "state": {**state, "module": 10**12}}}},
        {"files": {"../../etc/passwd": "0"}},
        {"format": 99},
        {"kind": "table model"},
    ]
    for i, lie in enumerate(lies):
        broken = copied(folder, tmp_path / f"lie-{i}")
        if "files" in lie:
            changed = {**document, **lie}
            changed.pop("checksum")
            changed["checksum"] = _checksum(_canonical(changed))
            (broken / "model.json").write_text(json.dumps(changed))
        else:
            signed(broken, {**document, **lie})
        with pytest.raises((ModelFileError, InputError)) as caught:
            load_model(broken)
        assert "\n" not in str(caught.value)
    for name in document["files"]:
        broken = copied(folder, tmp_path / f"bomb-{name}")
        (broken / name).write_bytes(pickle.dumps(Bomb()))
        signed(broken, dict(document))
        with pytest.raises(ModelFileError):
            load_model(broken)
    assert not (tmp_path / "exploded").exists()


def test_a_tree_that_points_back_is_refused(tmp_path: Path) -> None:
    """skops checks types, not contents. scikit-learn would walk such a tree forever."""
    model = fitted("bagging")
    left = model.estimators_[0].tree_.__getstate__()["nodes"]
    left["left_child"][0] = 0
    state = model.estimators_[0].tree_.__getstate__() | {"nodes": left}
    model.estimators_[0].tree_.__setstate__(state)
    save_model(model, tmp_path / "model")
    with pytest.raises(ModelFileError, match="a tree in it is invalid"):
        load_model(tmp_path / "model")


@pytest.mark.parametrize(
    ("backend", "library"), [("lightgbm", "lightgbm"), ("xgboost", "xgboost"), ("scikit-learn", "sklearn")]
)
def test_splits_between_gaps_and_numbers_can_be_saved(backend: str, library: str, tmp_path: Path) -> None:
    """Where a gap tells the class, LightGBM writes infinite thresholds."""
    if backend != "scikit-learn":
        pytest.importorskip(backend)
    rng = np.random.default_rng(0)
    X = np.where(rng.random((600, 2)) < 0.3, np.nan, rng.normal(size=(600, 2)))
    s = np.isnan(X[:, 0]) != np.isnan(X[:, 1])
    clf = PlainBoostingPUClassifier(prior=0.7, scenario="single-sample", backend=backend, random_state=0).fit(X, s)
    if backend == "lightgbm":
        assert re.search(r"threshold=.*\binf\b", clf.model_.model_to_string())
    save_model(clf, tmp_path / "model")
    assert np.array_equal(load_model(tmp_path / "model").predict_proba(X), clf.predict_proba(X))


def test_trees_of_lightgbm_that_would_crash_it_are_refused() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    del lightgbm
    text = fitted("nnpu-boosting").model_.model_to_string()
    check_lightgbm(text.encode())
    for pattern, lie in (
        (r"tree_sizes=.*", "tree_sizes="),
        (r"left_child=\S+", "left_child=0"),
        (r"right_child=\S+", "right_child=9999999"),
        (r"split_feature=\S+", "split_feature=9999"),
        (r"leaf_value=\S+", "leaf_value=nan"),
    ):
        lying = re.sub(pattern, lie, text, count=1)
        sizes = [len("Tree=" + tree) for tree in re.split(r"(?m)^Tree=", lying.split("end of trees")[0])[1:]]
        if "tree_sizes" not in pattern:  # a liar who counts
            lying = re.sub(r"tree_sizes=.*", f"tree_sizes={' '.join(map(str, sizes))}", lying)
        with pytest.raises((ModelFileError, ValueError)):
            check_lightgbm(lying.encode())
    with pytest.raises((ModelFileError, ValueError)):
        check_lightgbm(text[: len(text) // 2].encode())


def test_a_calibrator_that_lies_is_refused(tmp_path: Path) -> None:
    model = fitted("elkan-noto")
    model.calibrator_.probabilities_ = model.calibrator_.probabilities_ * 7
    save_model(model, tmp_path / "model")
    with pytest.raises(ModelFileError, match="does not hold probabilities"):
        load_model(tmp_path / "model")


class PlainNetwork(NNPUClassifier):
    epochs: int = 2


class PlainTrees(ElkanNotoClassifier):
    pass


def test_a_model_that_cannot_be_loaded_is_not_saved(tmp_path: Path) -> None:
    for cls in (PlainNetwork, PlainTrees):
        with pytest.raises(InputError, match=rf"{cls.__name__} cannot be saved: .* not in pulab\.methods"):
            save_model(cls(prior=0.4).fit(BLOBS.X, BLOBS.s), tmp_path / "model")
    assert not any(tmp_path.iterdir())


def test_a_registered_class_of_the_users_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "plain", Method(f"{__name__}.PlainNetwork", "", "", "risk"))
    model = PlainNetwork(prior=0.4, random_state=0).fit(BLOBS.X, BLOBS.s)
    loaded = load_model(save_model(model, tmp_path / "model"))
    assert type(loaded) is PlainNetwork
    np.testing.assert_array_equal(loaded.predict_proba(BLOBS.X), model.predict_proba(BLOBS.X))


def test_only_models_are_replaced(tmp_path: Path) -> None:
    model = fitted("elkan-noto")
    foreign = tmp_path / "mine"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="not a pulab model"):
        save_model(model, foreign)
    assert (foreign / "thesis.txt").read_text() == "years of work"
    with pytest.raises(InputError, match="folder must be in an existing one"):
        save_model(model, tmp_path / "no" / "such")
    save_model(model, tmp_path / "model")
    assert load_model(save_model(model, tmp_path / "model"))
    (tmp_path / "model" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"holds 'notes.txt' beside a model"):
        save_model(model, tmp_path / "model")
    (tmp_path / "model" / "notes.txt").unlink()
    for name in ("model.old", "model.part"):  # folders beside the model belong to the user
        (tmp_path / name).mkdir()
        (tmp_path / name / "backup").write_text("mine")
    save_model(model, tmp_path / "model")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "model", "model.old", "model.part"]
    assert (tmp_path / "model.old" / "backup").read_text() == "mine"


def test_a_full_disk_leaves_the_old_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitted("elkan-noto")
    save_model(model, tmp_path / "model")
    before = {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()}

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        save_model(model, tmp_path / "model")
    assert {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.gpu
@pytest.mark.parametrize(("there", "here"), [("cuda", "cpu"), ("cpu", "cuda")])
def test_a_model_of_one_device_is_used_on_the_other(there: str, here: str, tmp_path: Path) -> None:
    model = NNPUClassifier(prior=0.4, epochs=2, device=there, random_state=0).fit(BLOBS.X, BLOBS.s)
    loaded = load_model(save_model(model, tmp_path / "model"))
    assert loaded.device_.type == next(loaded.module_.parameters()).device.type == "cpu"  # wherever it was fitted
    np.testing.assert_allclose(loaded.predict_proba(BLOBS.X), model.predict_proba(BLOBS.X), rtol=0, atol=1e-9)
    loaded.module_.to(here)
    np.testing.assert_allclose(loaded.predict_proba(BLOBS.X), model.predict_proba(BLOBS.X), rtol=0, atol=1e-9)


def test_a_model_of_a_frame_is_loaded_without_a_warning(tmp_path: Path) -> None:
    """Warnings are errors in tests. The check of a loaded model scores rows that have no names of columns."""
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=["a", "b"])
    clf = ElkanNotoClassifier(prior=0.5, random_state=0).fit(X, [1] * 20 + [0] * 40)
    loaded = load_model(save_model(clf, tmp_path / "model"))
    assert np.array_equal(loaded.predict_proba(X), clf.predict_proba(X))
