"""PU AUC and PUSB: rankings, and where the cut lies."""

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from pulab import NNPUClassifier, PUAUCClassifier, PUSBClassifier
from pulab.errors import InputError
from tests.conftest import Blobs

SHARED: dict[str, Any] = {"device": "cpu", "random_state": 0, "dtype": "float64"}


@pytest.mark.parametrize("scenario", ["case-control", "single-sample"])
@pytest.mark.parametrize("cls", [PUAUCClassifier, PUSBClassifier])
def test_the_prior_s_share_of_the_population_is_called_positive(cls: Any, scenario: str) -> None:
    """Of all rows of the population, those of the validation set too. In a single sample P belongs to it."""
    data, other = Blobs(scenario), Blobs(scenario, seed=1)
    for prior in (0.2, 0.35):
        held_out = cls(prior=prior, epochs=3, scenario=scenario, **SHARED).fit(data.X, data.s)
        everyone = data.X if scenario == "single-sample" else data.X[data.s == 0]
        assert held_out.predict(everyone).mean() == prior
        given = cls(prior=prior, epochs=3, scenario=scenario, **SHARED)
        given.fit(data.X, data.s, X_val=other.X, y_val=other.s)
        more = other.X if scenario == "single-sample" else other.X[other.s == 0]
        assert given.predict(np.concatenate([everyone, more])).mean() == prior


def test_the_ranking_of_pu_auc_needs_no_prior(blobs: Blobs) -> None:
    a, b = (PUAUCClassifier(prior=prior, epochs=3, **SHARED).fit(blobs.X, blobs.s) for prior in (0.1, 0.6))
    moved = a.decision_function(blobs.X) - b.decision_function(blobs.X)
    assert moved == pytest.approx(np.full(len(moved), b.threshold_ - a.threshold_))
    assert a.history_ == b.history_
    assert b.predict(blobs.X).mean() > a.predict(blobs.X).mean()


@pytest.mark.parametrize("loss", ["sigmoid", "logistic"])
def test_the_epoch_of_pu_auc_is_chosen_by_the_auc_of_p_against_u(loss: str, blobs: Blobs) -> None:
    other = Blobs("case-control", seed=7)
    clf = PUAUCClassifier(prior=0.4, loss=loss, epochs=6, **SHARED)
    clf.fit(blobs.X, blobs.s, X_val=other.X, y_val=other.s)
    risks = [record["val_risk"] for record in clf.history_]
    assert clf.best_epoch_ == 1 + int(np.argmin(risks))
    assert min(risks) == pytest.approx(1 - roc_auc_score(other.s, clf.decision_function(other.X)), abs=1e-9)


def test_pusb_decides_as_the_best_rule_where_the_clear_cases_are_labelled() -> None:
    """Positives are N(1, 1), negatives N(−1, 1), prior .5: the best cut is at 0. The labelled ones lie at 2 and above.

    The cut at logit 0 of the same network, which takes them for a random sample, is elsewhere.
    """
    rng = np.random.default_rng(0)
    y = np.arange(3000) < 1500
    x = rng.normal(size=len(y)) + 2.0 * y - 1
    s = (y & (rng.random(len(y)) < 0.4 / (1 + np.exp(-3 * (x - 1.5))))).astype(int)
    clf = PUSBClassifier(prior=0.5, scenario="single-sample", epochs=5, **SHARED).fit(x[:, None], s)
    grid = np.linspace(-4, 4, 801)
    score = clf.decision_function(grid[:, None])
    assert grid[score > 0].min() == pytest.approx(0.0, abs=0.1)
    assert grid[score + clf.threshold_ > 0].min() < -0.2
    assert 1 - clf.score(x[:, None], y) < ((x > 0) != y).mean() + 0.01


def test_pusb_learns_as_nnpu_with_the_logistic_loss_does(blobs: Blobs) -> None:
    shared = SHARED | {"prior": 0.4, "epochs": 3, "beta": 0.01, "gamma": 0.5}
    pusb = PUSBClassifier(**shared).fit(blobs.X, blobs.s)
    nnpu = NNPUClassifier(**shared, loss="logistic", calibration=False).fit(blobs.X, blobs.s)
    assert pusb.decision_function(blobs.X) + pusb.threshold_ == pytest.approx(nnpu.decision_function(blobs.X))
    for bad in ({"beta": -1}, {"gamma": 2}):
        with pytest.raises(InputError, match="must be"):
            PUSBClassifier(prior=0.4, **bad).fit(blobs.X, blobs.s)
    with pytest.raises(InputError, match="loss must be one of"):
        PUAUCClassifier(prior=0.4, loss="hinge").fit(blobs.X, blobs.s)
