"""Networks decide by calibrated logits: two numbers, which the validation rows and the prior give."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from pulab import JointPUClassifier, NNPUClassifier, PulabWarning, fit_many
from pulab.bench import RunSpec
from pulab.bench.paper import runs
from pulab.bench.runner import make_estimator
from pulab.calibration import PULogisticCalibrator
from pulab.datasets import PlainSampling
from pulab.errors import InputError
from pulab.methods import METHODS
from pulab.persistence import load_model, save_model

from ..conftest import Blobs
from .test_pu_contract import make, same_weights

TOLD = [
    key
    for key, method in METHODS.items()
    if method.is_network and method.learns_from_pu_alone and method.needs_prior and make(key)._can_be_calibrated()
]


@pytest.mark.parametrize("scenario", ["case-control", "single-sample"])
@pytest.mark.parametrize("key", TOLD)
def test_the_two_numbers_come_from_the_validation_rows(key: str, scenario: str) -> None:
    """The training is the same. Probabilities add up to the prior, and agree with scores and decisions."""
    data, other = Blobs(scenario), Blobs(scenario, seed=7)
    given = {"X_val": other.X, "y_val": other.s}
    plain, clf = (
        make(key, scenario=scenario, calibration=wish).fit(data.X, data.s, **given) for wish in (False, "auto")
    )
    assert plain.calibration_ is None
    assert same_weights(plain, clf)
    g = plain.decision_function(other.X)
    expected = PULogisticCalibrator(0.4, scenario).fit(g, other.s)
    assert clf.calibration_ == pytest.approx((expected.slope_, expected.offset_), rel=1e-3)
    score, p = clf.decision_function(other.X), clf.predict_proba(other.X)[:, 1]
    np.testing.assert_allclose(score, clf.calibration_[0] * np.arcsinh(g) + clf.calibration_[1], rtol=1e-6)
    np.testing.assert_allclose(p, expit(score), rtol=1e-6)
    np.testing.assert_array_equal(clf.predict(other.X), clf.classes_[(p > 0.5).astype(int)])
    population = other.s == 0 if scenario == "case-control" else slice(None)
    assert p[population].mean() == pytest.approx(0.4, abs=1e-3)


def overlapping(seed: int, prior: float, n_p: int = 200, n_u: int = 1000) -> tuple[Any, Any, Any, Any]:
    """Two clouds 1.2 deviations apart in one of four columns; P and U, and test rows with the truth."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.ones(n_p, bool), rng.random(n_u + 4000) < prior])
    X = rng.normal(size=(len(y), 4)) + 1.2 * np.outer(y, [1, 0, 0, 0])
    return X[: n_p + n_u], np.arange(n_p + n_u) < n_p, X[n_p + n_u :], y[n_p + n_u :]


def test_decisions_where_classes_overlap() -> None:
    """`joint` calls the prior's share of the rows positive, though the best rule calls 18 % and errs in 24 %."""
    X, s, X_test, y_test = overlapping(0, prior=0.3)
    plain, clf = (
        JointPUClassifier(prior=0.3, calibration=wish, epochs=20, random_state=0).fit(X, s) for wish in (False, "auto")
    )
    assert abs(plain.predict(X_test).mean() - 0.3) < 0.06
    assert clf.predict(X_test).mean() < plain.predict(X_test).mean() - 0.02
    assert clf.score(X_test, y_test) > plain.score(X_test, y_test)
    losses = []
    for model in (plain, clf):
        p = np.clip(model.predict_proba(X_test)[:, 1], 1e-6, 1 - 1e-6)
        losses.append(-np.log(np.where(y_test, p, 1 - p)).mean())
    assert losses[1] < 0.58 < 0.9 < losses[0]


def test_what_is_kept(tmp_path: Path) -> None:
    data = Blobs("case-control")
    clf = NNPUClassifier(prior=0.4, epochs=2, random_state=0).fit(data.X, data.s)
    (again,) = fit_many([NNPUClassifier(prior=0.4, epochs=2, random_state=0)], [{"X": data.X, "y": data.s}], n_jobs=1)
    for other in (pickle.loads(pickle.dumps(clf)), load_model(save_model(clf, tmp_path / "model")), again):
        assert other.calibration_ == clf.calibration_ is not None
        np.testing.assert_array_equal(other.predict_proba(data.X), clf.predict_proba(data.X))


def test_when_there_is_too_little_to_calibrate_by() -> None:
    data = Blobs("case-control")
    few = np.concatenate([np.flatnonzero(data.s == 1)[:20], np.flatnonzero(data.s == 0)])  # four for validation
    for params in ({"validation_fraction": 0}, {"calibration": False}):
        assert make("nnpu", **params).fit(data.X, data.s).calibration_ is None
    assert make("nnpu").fit(data.X[few], data.s[few]).calibration_ is None
    assert make("nnpu", calibration=True).fit(data.X[few], data.s[few]).calibration_ is not None
    with pytest.warns(PulabWarning, match="ranks the labelled validation rows no higher"):
        worse = make("nnpu", calibration=True).fit(data.X, data.s, X_val=data.X[few], y_val=1 - data.s[few])
    assert worse.calibration_ is None


@pytest.mark.parametrize(
    ("key", "params", "message"),
    [
        ("vpu", {"calibration": True}, "no cut of its own, got VPUClassifier"),
        ("pn", {"calibration": True}, "no cut of its own, got PNClassifier"),
        ("nnpu", {"calibration": True, "validation_fraction": 0}, "needs validation rows, got validation_fraction=0"),
        ("joint", {"calibration": "yes"}, 'must be "auto", True or False, got'),
    ],
)
def test_wishes_that_cannot_be_met(key: str, params: dict[str, Any], message: str, blobs: Blobs) -> None:
    with pytest.raises(InputError, match=message):
        make(key, **params).fit(blobs.X, blobs.s)


def test_the_papers_protocol_decides_by_the_logit() -> None:
    """Its runs keep their names, and are not calibrated. A run may ask for it."""
    (spec,) = runs("mnist", "nnpu", [0])
    assert "calibration" not in spec.params
    assert spec.digest == "4d8f79f9ba143399"
    assert make_estimator(spec, prior=0.49).calibration is False
    asked = RunSpec("digits", PlainSampling(50, 1000), "nnpu", 0, params={"calibration": "auto"})
    assert make_estimator(asked, prior=0.5).calibration == "auto"
