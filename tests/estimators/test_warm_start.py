"""A fit that goes on from the last one."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from torch import nn

import pulab
from pulab import NNPUClassifier, PUbNClassifier
from pulab.errors import InputError
from pulab.estimators._base import BasePUClassifier
from pulab.estimators._warm import MODULES
from tests.conftest import Blobs
from tests.estimators.test_pu_contract import KEYS, labels_for, make, same_weights


def first_weights(clf: Any, X: Any, y: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    """The weights that the networks of a fit begin with, by the stage of the training."""
    begun = {}

    def new_module(self: Any, task: Any, stage: str) -> Any:
        module = made(self, task, stage)
        begun[stage] = {name: value.clone() for name, value in module.state_dict().items()}
        return module

    made = BasePUClassifier._new_module
    monkeypatch.setattr(BasePUClassifier, "_new_module", new_module)
    clf.fit(X, y)
    monkeypatch.setattr(BasePUClassifier, "_new_module", made)
    return begun


@pytest.mark.parametrize("key", KEYS)
def test_it_begins_with_the_last_weights_and_its_scaling(
    key: str, blobs: Blobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    y = labels_for(key, blobs)
    clf = make(key, warm_start=True).fit(blobs.X, y)
    assert same_weights(clf, make(key).fit(blobs.X, y))  # the first fit is an ordinary one
    last = {stage: getattr(clf, name).state_dict() for stage, name in MODULES.items() if hasattr(clf, name)}
    scaler, epochs = clf.scaler_, clf.epochs
    begun = first_weights(clf, 3 * blobs.X + 1, y, monkeypatch)
    assert begun.keys() - last.keys() <= {"trends"}  # that network of `holistic` is not kept
    for stage, expected in last.items():
        assert all((begun[stage][name] == expected[name]).all() for name in expected)
    assert clf.scaler_ is scaler
    assert len(clf.history_) == epochs
    anew = first_weights(clf.set_params(warm_start=False), blobs.X, y, monkeypatch)
    assert any((anew[""][name] != last[""][name]).any() for name in last[""])


def test_it_goes_on_learning(blobs: Blobs) -> None:
    clf = NNPUClassifier(prior=0.4, epochs=2, lr=1e-3, random_state=0, warm_start=True, device="cpu")
    losses = [clf.fit(blobs.X, blobs.s).history_[0]["loss"] for _ in range(4)]
    assert max(losses[1:]) < losses[0] - 0.05
    assert clone(clf).fit(blobs.X, blobs.s).history_[0]["loss"] == losses[0]


def test_a_loaded_model_goes_on(blobs: Blobs, tmp_path: Path) -> None:
    clf = make("pubn-n", warm_start=True).fit(blobs.X, blobs.s)
    loaded = pulab.load(pulab.save(clf, tmp_path / "model"))
    assert same_weights(clf.fit(blobs.X, blobs.s), loaded.fit(blobs.X, blobs.s))


def test_self_supervision_is_done_once(blobs: Blobs) -> None:
    clf = make("joint-views", warm_start=True, pretrain_epochs=1, augment="noise").fit(blobs.X, blobs.s)
    assert len(clf.pretrain_history_) == 1
    assert clf.fit(blobs.X, blobs.s).pretrain_history_ == []


def test_other_data_and_other_networks_are_refused(blobs: Blobs) -> None:
    def fitted(**params: Any) -> Any:
        return make("nnpu", warm_start=True, **params).fit(blobs.X, blobs.s)

    with pytest.raises(InputError, match=r"which had rows of shape \(5,\), but got \(4,\)"):
        fitted().fit(blobs.X[:, :4], blobs.s)
    with pytest.raises(InputError, match=r"which had classes \[0, 1\], but got \[-1, 1\]"):
        fitted().fit(blobs.X, np.where(blobs.s == 1, 1, -1))
    clf = fitted(module=nn.Linear(5, 1)).set_params(module=nn.Sequential(nn.Linear(5, 3), nn.Linear(3, 1)))
    with pytest.raises(InputError, match="needs the same network as in the last fit"):
        clf.fit(blobs.X, blobs.s)
    with pytest.raises(InputError, match="warm_start must be True or False"):
        PUbNClassifier(prior=0.4, warm_start="yes").fit(blobs.X, blobs.s)
