"""Imbalanced nnPU: what its cut is, against the best cut of a population whose densities are known."""

from typing import Any

import numpy as np
import pytest
from torch import nn

from pulab import ImbalancedNNPUClassifier, NNPUClassifier
from pulab.errors import InputError
from tests.conftest import Blobs

SHARED: dict[str, Any] = {"device": "cpu", "random_state": 0, "dtype": "float64", "weight_decay": 0.0}


def overlapping(prior: float) -> tuple[Any, Any]:
    """P is N(1, 1) and the negatives are N(−1, 1): the log odds are 2x and those of the prior."""
    rng = np.random.default_rng(0)
    n = 20_000
    y = np.arange(n) < prior * n
    X = rng.normal(size=(n, 1)) + 2.0 * y[:, None] - 1
    return np.concatenate([rng.normal(size=(n // 4, 1)) + 1, X]), np.repeat([1, 0], [n // 4, n])


def cut(clf: Any) -> float:
    """Where a linear model begins to say positive."""
    zero, one = clf.decision_function(np.array([[0.0], [1.0]]))
    return float(zero / (zero - one))


def test_its_cut_is_that_of_the_population_it_is_asked_for() -> None:
    """Equal classes: at 0. The true prior .1: at log(9) / 2 = 1.1, from the same network. π' = .2: at log(4) / 2."""
    X, s = overlapping(0.1)

    def fit(**params: Any) -> Any:
        module = nn.Linear(1, 1).double()
        settings = SHARED | {"prior": 0.1, "module": module, "loss": "logistic", "epochs": 15, "lr": 0.02} | params
        return ImbalancedNNPUClassifier(**settings).fit(X, s)

    balanced, at_prior = fit(), fit(decide="prior")
    assert cut(balanced) == pytest.approx(0.0, abs=0.1)
    assert cut(at_prior) == pytest.approx(np.log(9) / 2, abs=0.1)
    assert at_prior.threshold_ == pytest.approx(np.log(9))
    p = at_prior.predict_proba(X[s == 0])[:, 1]
    assert p.mean() == pytest.approx(0.1, abs=0.01)
    assert balanced.predict_proba(X[s == 0])[:, 1].mean() > 0.2
    assert cut(fit(balanced_prior=0.2)) == pytest.approx(np.log(4) / 2, abs=0.1)


def test_balanced_at_the_true_prior_it_is_nnpu(blobs: Blobs) -> None:
    shared = SHARED | {"prior": 0.4, "epochs": 4}
    ours = ImbalancedNNPUClassifier(balanced_prior=0.4, **shared).fit(blobs.X, blobs.s)
    nnpu = NNPUClassifier(**shared, calibration=False).fit(blobs.X, blobs.s)
    assert np.abs(ours.decision_function(blobs.X) - nnpu.decision_function(blobs.X)).max() < 1e-9


def test_the_epoch_is_chosen_by_the_balanced_risk(blobs: Blobs) -> None:
    """The recorded risk, worked out from the kept network's probabilities of the validation rows."""
    other = Blobs("case-control", seed=7)
    clf = ImbalancedNNPUClassifier(prior=0.4, balanced_prior=0.9, epochs=5, **SHARED)
    clf.fit(blobs.X, blobs.s, X_val=other.X, y_val=other.s)
    p = clf.predict_proba(other.X)[:, 1]
    on_p, on_u = p[other.s == 1], p[other.s == 0]
    risk = 0.9 * (1 - on_p).mean() + 0.1 / 0.6 * max(0.0, on_u.mean() - 0.4 * on_p.mean())
    assert risk == pytest.approx(min(record["val_risk"] for record in clf.history_), abs=1e-9)


def test_what_cannot_be_is_refused(blobs: Blobs) -> None:
    for bad, message in (
        ({"balanced_prior": 1.0}, "balanced_prior must be"),
        ({"decide": "both"}, "decide must be one of"),
        ({"decide": "prior"}, "decide='prior' needs loss='logistic'"),
    ):
        with pytest.raises(InputError, match=message):
            ImbalancedNNPUClassifier(prior=0.4, **bad).fit(blobs.X, blobs.s)
