"""PUbN: its two stages, and known negatives."""

import numpy as np
import pytest
import torch

from pulab import PUbNClassifier
from pulab.errors import PulabWarning
from tests.conftest import Blobs


def make(**params: object) -> PUbNClassifier:
    return PUbNClassifier(**{"prior": 0.4, "device": "cpu", "random_state": 0, "epochs": 30, **params})


def test_eta_is_the_percentile_of_sigma_over_the_training_rows(blobs: Blobs) -> None:
    clf = make(tau=0.7, validation_fraction=0).fit(blobs.X, blobs.s)
    scaled = torch.from_numpy(clf.scaler_(blobs.X[blobs.s == 0], "float32"))
    with torch.no_grad():
        sigma = torch.sigmoid(clf.sigma_module_(scaled)).numpy()
    assert clf.eta_ == pytest.approx(np.percentile(sigma, int((1 - 0.4) * 0.7 * 100)), rel=1e-5)
    assert len(clf.sigma_history_) == len(clf.history_) == 30


def test_the_two_stages_have_their_own_learning_rates(blobs: Blobs) -> None:
    clf = make(lr=1e-3, lr_sigma=5e-3, epochs=2).fit(blobs.X, blobs.s)
    assert (clf.sigma_history_[0]["lr"], clf.history_[0]["lr"]) == (5e-3, 1e-3)


def test_a_labelled_row_that_would_rule_the_training_is_told_of() -> None:
    """The first network hardly learns here: σ = sigmoid(20 x). One labelled row gets a small σ, so a large weight."""

    def steep() -> torch.nn.Module:
        line = torch.nn.Linear(1, 1)
        torch.nn.init.constant_(line.weight, 20.0)
        torch.nn.init.zeros_(line.bias)
        return line

    def fit(labelled: float) -> None:
        X = np.array([labelled] + [1.0] * 9 + [-1.0] * 12 + [1.0] * 8, dtype="float32")[:, None]
        make(module=steep, lr_sigma=1e-12, epochs=1, validation_fraction=0).fit(X, [1] * 10 + [0] * 20)

    with pytest.warns(PulabWarning, match="labelled rows weigh 881 times the population.* A single row weighs 881"):
        fit(-0.5)  # 0.4 exp(10) of ten rows
    fit(0.5)  # warnings are errors here


def test_known_negatives_help_where_they_are_told_apart_badly() -> None:
    """Some negatives lie right beside the positives. Known negatives from there improve the classifier."""
    rng = np.random.default_rng(0)

    def points(centre: float, n: int) -> np.ndarray:
        return rng.normal(size=(n, 2)) * 0.5 + [centre, 0.0]

    X = np.concatenate([points(0, 60), points(0, 200), points(-6, 100), points(1.6, 200)])
    s = np.array([1] * 60 + [0] * 500)
    X_test, y_test = np.concatenate([points(0, 500), points(1.6, 500)]), np.array([1] * 500 + [0] * 500)
    without = make(epochs=60, tau=0.5).fit(X, s)
    with_negatives = make(epochs=60, tau=0.5, rho=0.4).fit(X, s, X_negative=points(1.6, 60))
    assert with_negatives.score(X_test, y_test) > 0.9
    assert with_negatives.score(X_test, y_test) > without.score(X_test, y_test)


def test_bad_negatives_are_refused(blobs: Blobs) -> None:
    with pytest.raises(ValueError, match="2 features"):
        make(epochs=1, rho=0.1).fit(blobs.X, blobs.s, X_negative=blobs.X[:, :2])
    with pytest.raises(ValueError, match="rho must be a number below 1 - prior"):
        make(rho=0.7).fit(blobs.X, blobs.s, X_negative=blobs.X[:9])
    with pytest.raises(ValueError, match="got None"):
        make().fit(blobs.X, blobs.s, X_negative=blobs.X[:9])
    held_out = {"X_val": blobs.X, "y_val": blobs.s, "X_negative": blobs.X[:9]}
    with pytest.raises(ValueError, match="validation_fraction must be above 0"):
        make(rho=0.1, validation_fraction=0.0).fit(blobs.X, blobs.s, **held_out)
    for bad in ({"tau": 0}, {"rho": 1}, {"lr_sigma": -1}):
        with pytest.raises(ValueError, match=f"{next(iter(bad))} must be"):
            make(**bad).fit(blobs.X, blobs.s)
