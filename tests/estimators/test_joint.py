"""The joint method: its history, its labels, its schedule, its choice of the epoch."""

import numpy as np
import pytest
from scipy import sparse
from torch import nn

from pulab import JointPUClassifier, PulabWarning
from tests.conftest import Blobs


def make(**params: object) -> JointPUClassifier:
    return JointPUClassifier(**{"prior": 0.4, "device": "cpu", "random_state": 0, "epochs": 30, **params})


def test_history_holds_every_term_and_adds_up(blobs: Blobs) -> None:
    clf = make(lambda_init=3.0, alpha=2.0, beta=0.5).fit(blobs.X, blobs.s)
    assert [record["epoch"] for record in clf.history_] == list(range(1, 31))
    for record in clf.history_:
        regularised = 2 * record["prior_kl"] + 0.5 * record["entropy"]
        weighted = record["lambda"] * record["positive"] + record["kl"] + regularised
        assert record["loss"] == pytest.approx(weighted, rel=1e-3)
        assert sum(record["label_histogram"]) == 320  # the rows of U that are trained on
    # Before e_start every label is the prior π. KL(π ‖ σ) is convex in σ: its mean is at least its value at the mean σ.
    assert clf.history_[-1]["positive_share"] == pytest.approx(0.4, abs=0.05)
    assert all(record["kl"] >= record["prior_kl"] for record in clf.history_[:6])
    assert clf.best_epoch_ == 1 + int(np.argmin([record["val_risk"] for record in clf.history_]))


def test_lambda_falls_linearly_to_n_p_over_n_u(blobs: Blobs) -> None:
    clf = make(lambda_init=5.0, validation_fraction=0).fit(blobs.X, blobs.s)
    falling = [record["lambda"] for record in clf.history_]
    assert falling == pytest.approx(np.linspace(5.0, 60 / 400, 30))
    with pytest.warns(PulabWarning, match="labels are never updated"):
        once = make(lambda_init=5.0, epochs=1, validation_fraction=0).fit(blobs.X, blobs.s)
    assert once.history_[0]["lambda"] == pytest.approx(60 / 400)


def test_entropy_falls_and_labels_move(blobs: Blobs) -> None:
    clf = make(e_start=5).fit(blobs.X, blobs.s)
    at_start, at_end = clf.history_[4], clf.history_[-1]
    assert at_end["entropy"] < 0.3 * at_start["entropy"]
    assert clf.history_[3]["label_histogram"][8] == 320  # all at the prior, 0.4, before e_start
    assert at_end["label_histogram"][8] == 0
    truth = blobs.y_true[blobs.s == 0]
    assert ((clf.pseudo_labels_ > 0.5) == truth).mean() > 0.95


def test_held_out_rows_carry_the_kept_modules_probability(blobs: Blobs) -> None:
    clf = make(epochs=10, e_start=3, calibration=False).fit(blobs.X, blobs.s)
    p = clf.predict_proba(blobs.X[blobs.s == 0])[:, 1]
    same = np.isclose(clf.pseudo_labels_, p, atol=1e-6)
    assert len(p) == 400
    assert 80 <= same.sum() < 100  # a fifth is held out; other labels may be equal by chance


def test_the_epoch_is_chosen_by_the_clamped_sigmoid_risk_in_evaluation_mode(blobs: Blobs) -> None:
    """Eq. (3), computed from the probabilities of the validation rows. Its negative part is below zero here."""
    other = Blobs("case-control", seed=7)
    net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 1))
    shared = {"epochs": 5, "lr": 0.01, "dtype": "float64", "calibration": False}
    clf = make(prior=0.65, alpha=1.0, module=net, positive_loss="logistic", **shared)
    clf.fit(blobs.X, blobs.s, X_val=other.X, y_val=other.s)
    p = clf.predict_proba(other.X)[:, 1]
    positive, negative = p[other.s == 1].mean(), p[other.s == 0].mean() - 0.65 * p[other.s == 1].mean()
    assert negative < -0.01
    risks = [record["val_risk"] for record in clf.history_]
    assert min(risks) == risks[clf.best_epoch_ - 1] == pytest.approx(0.65 * (1 - positive), abs=1e-9)


def test_initial_labels() -> None:
    data = Blobs("case-control")
    for init, expected in (("prior", {0.4}), ("negative", {0.0}), ("random", {0.0, 1.0})):
        with pytest.warns(PulabWarning, match="e_start is 99, but there are only 2 epochs"):
            clf = make(init=init, e_start=99, epochs=2, validation_fraction=0, dtype="float64").fit(data.X, data.s)
        assert set(clf.pseudo_labels_) == expected
        assert clf.pseudo_labels_.mean() == pytest.approx(0.0 if init == "negative" else 0.4)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"init": "zero"}, "init must be one of"),
        ({"positive_loss": "hinge"}, "positive_loss must be one of"),
        ({"alpha": -1}, "alpha must be"),
        ({"beta": float("nan")}, "beta must be"),
        ({"r": 0}, "r must be a whole number"),
        ({"e_start": 0}, "e_start must be a whole number"),
    ],
)
def test_bad_hyper_parameters(bad: dict[str, object], message: str, blobs: Blobs) -> None:
    with pytest.raises(ValueError, match=message):
        make(**bad).fit(blobs.X, blobs.s)


def test_features_stop_at_twenty_deviations(blobs: Blobs) -> None:
    """Features are clipped at 20 standard deviations of the training rows."""
    for X, centre in ((blobs.X, blobs.X[blobs.s == 0].mean(axis=0)), (sparse.csr_array(blobs.X), np.zeros(5))):
        clf = make(epochs=2, e_start=1, validation_fraction=0).fit(X, blobs.s)
        deviation = np.sqrt(((blobs.X[blobs.s == 0] - centre) ** 2).mean(axis=0))
        for sign in (-1, 1):
            rows = centre + sign * np.outer([19, 20, 21, 1e3, 1e9], deviation)
            g = clf.decision_function(type(X)(rows) if sparse.issparse(X) else rows)
            assert g[2:] == pytest.approx(np.full(3, g[1]), rel=1e-9)
            assert abs(g[1] - g[0]) > 1e-3
