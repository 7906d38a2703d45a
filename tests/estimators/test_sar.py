"""SAR-EM: its rounds written out with scikit-learn, weights that make the risk unbiased, and calibration with them."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from pulab import LogisticPUClassifier, SAREMPUClassifier
from pulab.calibration import PUCalibrator
from pulab.datasets import make_pu
from pulab.errors import InputError
from pulab.estimators._sar import _logistic, _weighted_quantiles


def rows(n: int, seed: int) -> tuple[Any, Any]:
    """Three features of the class, and one that decides who is labelled."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, (rng.random(n) < expit(1.5 * X[:, 0] - 1.5 * X[:, 1] + X[:, 2] + X[:, 3] - 1)).astype(int)


def chance(X: Any) -> Any:
    return 0.05 + 0.85 * expit(2 * np.asarray(X)[:, 3] - 0.5)


X, Y = rows(4000, 0)
UNSEEN, TRUTH = rows(4000, 1)
ONE: dict[str, Any] = {"scenario": "single-sample", "random_state": 0}
PU = make_pu(X, Y, propensity=chance, **ONE)
SHARED = {"prior": PU.prior, **ONE}


def test_the_logistic_model_is_that_of_weighted_rows() -> None:
    rng = np.random.default_rng(0)
    total, share = rng.random(4000) + 0.5, rng.random(4000)
    twice = LogisticRegression(C=0.5, tol=1e-10, max_iter=5000).fit(
        np.concatenate([X, X]), np.repeat([1, 0], 4000), np.concatenate([total * share, total * (1 - share)])
    )
    assert _logistic(X, total, total * share, 0.5) == pytest.approx([*twice.coef_[0], *twice.intercept_], abs=1e-4)


@pytest.mark.parametrize("separate", [False, True])
def test_the_rounds_are_those_of_the_paper(separate: bool) -> None:
    """Each round with scikit-learn: w = f(1 − e)/(1 − f·e); e from s weighted by w; f from rows with w and 1 − w."""
    Z = (PU.X - PU.X.mean(axis=0)) / PU.X.std(axis=0)
    s, n = PU.s, len(PU.s)
    F, E = Z[:, :3] if separate else Z, Z[:, 3:]

    def model() -> Any:
        return LogisticRegression(C=1.0, tol=1e-10, max_iter=5000)

    c = s.mean()
    f = model().fit(F, s, np.where(s, 1 - c, c)).predict_proba(F)[:, 1]
    e = model().fit(E, s, np.where(s, 1, f)).predict_proba(E)[:, 1]
    for _ in range(3):
        w = np.where(s, 1, f * (1 - e) / (1 - f * e))
        e = model().fit(E, s, w).predict_proba(E)[:, 1]
        both = model().fit(np.concatenate([F, F]), np.repeat([1, 0], n), np.concatenate([w, 1 - w]))
        f = both.predict_proba(F)[:, 1]
    clf = SAREMPUClassifier(propensity_features=[3], separate=separate, C=1.0, max_rounds=3, **SHARED).fit(PU.X, s)
    assert clf.n_rounds_ == 3
    assert clf.propensity_ == pytest.approx(e, abs=1e-3)
    # The last model: labelled rows count 1/e as positives and 1 − 1/e as negatives, unlabeled rows as negatives.
    inverse = np.where(s, 1 / np.maximum(e / e.max(), 0.01), 0)
    inverse *= PU.prior * n / inverse.sum()
    last = model().fit(np.concatenate([Z, Z]), np.repeat([1, 0], n), np.concatenate([inverse, 1 - inverse]))
    assert clf.raw_scores(PU.X) == pytest.approx(last.decision_function(Z), abs=0.01)


@pytest.mark.parametrize("scenario", ["single-sample", "case-control"])
def test_known_propensities_give_the_classifier_of_all_labels(scenario: str) -> None:
    """In both scenarios the weighted risk is unbiased: its model comes close to logistic regression of the truth."""
    pu = make_pu(X, Y, propensity=chance, scenario=scenario, random_state=0)
    clf = SAREMPUClassifier(prior=pu.prior, scenario=scenario, random_state=0)
    oracle = LogisticRegression().fit(X, Y)
    scores = clf.fit(pu.X, pu.s, propensity=pu.propensity).raw_scores(UNSEEN)
    assert np.corrcoef(scores, oracle.decision_function(UNSEEN))[0, 1] > 0.985
    assert np.polyfit(oracle.decision_function(UNSEEN), scores, 1)[0] == pytest.approx(1, abs=0.1)
    naive = clf.fit(pu.X, pu.s)  # no names: labels at random
    assert np.corrcoef(naive.raw_scores(UNSEEN), oracle.decision_function(UNSEEN))[0, 1] < 0.95
    halved = SAREMPUClassifier(prior=pu.prior, scenario=scenario, random_state=0)
    assert pu.propensity is not None
    halved.fit(pu.X, pu.s, propensity=pu.propensity / 2)  # only ratios count
    assert halved.predict_proba(UNSEEN) == pytest.approx(clf.fit(pu.X, pu.s, pu.propensity).predict_proba(UNSEEN))


@pytest.mark.parametrize("scenario", ["single-sample", "case-control"])
def test_named_features_remove_the_bias_and_probabilities_hold(scenario: str) -> None:
    pu = make_pu(X, Y, propensity=chance, scenario=scenario, random_state=0)
    shared = {"prior": pu.prior, "scenario": scenario, "random_state": 0}
    clf = SAREMPUClassifier(propensity_features=[3], **shared).fit(pu.X, pu.s)
    plain = LogisticPUClassifier(**shared).fit(pu.X, pu.s)
    assert clf.score(UNSEEN, TRUTH) > plain.score(UNSEEN, TRUTH) + 0.02
    p = clf.predict_proba(UNSEEN)[:, 1]
    for low, high in ((0, 0.2), (0.2, 0.5), (0.5, 0.8), (0.8, 1)):
        part = (p >= low) & (p <= high)
        assert TRUTH[part].mean() == pytest.approx(p[part].mean(), abs=0.08)
    if scenario == "single-sample":
        assert np.abs(clf.propensity_ - chance(pu.X)).mean() < 0.06
        assert clf.propensity(UNSEEN) == pytest.approx(chance(UNSEEN), abs=0.25)


def test_the_ranking_form_is_weighted_logistic_regression_of_the_labels() -> None:
    clf = SAREMPUClassifier(form="ranking", C=0.5, **SHARED).fit(PU.X, PU.s, propensity=PU.propensity)
    Z, labelled = (PU.X - PU.X.mean(axis=0)) / PU.X.std(axis=0), PU.s == 1
    assert PU.propensity is not None
    weight = np.where(labelled, 1 / np.where(labelled, PU.propensity, 1), 0)
    weight = np.where(labelled, weight * labelled.sum() / weight.sum(), 1)
    model = LogisticRegression(C=0.5, tol=1e-10, max_iter=5000).fit(Z, PU.s, weight)
    assert clf.raw_scores(PU.X) == pytest.approx(model.decision_function(Z), abs=1e-3)


def test_quantiles_of_weighted_values() -> None:
    """By hand: of the values 1, 2, 3 the last one holds half of the weight, so the upper half of four values is 3."""
    assert _weighted_quantiles(np.array([3.0, 1.0, 2.0, 3.0]), np.array([1.0, 1.0, 1.0, 1.0])).tolist() == [1, 2, 3, 3]
    assert _weighted_quantiles(np.array([3.0, 1.0, 2.0]), np.array([4.0, 1.0, 1.0])).tolist() == [1, 3, 3]


def test_names_of_a_frame() -> None:
    frame = pd.DataFrame(PU.X, columns=list("abcd"))
    named = SAREMPUClassifier(propensity_features=["d"], **SHARED).fit(frame, PU.s)
    placed = SAREMPUClassifier(propensity_features=np.array([-1]), **SHARED).fit(PU.X, PU.s)
    assert np.array_equal(named.propensity_, placed.propensity_)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"propensity_features": "d"}, "must be a list of columns, got 'd'"),
        ({"propensity_features": 3}, "must be a list of columns, got 3"),
        ({"propensity_features": ["d"]}, "names or positions of the 4 columns, got 'd'. Names need a data frame"),
        ({"propensity_features": [4]}, "names or positions of the 4 columns, got 4"),
        ({"propensity_features": [True]}, "names or positions"),
        ({"propensity_features": range(4), "separate": True}, "none is left for the class"),
        ({"form": "other"}, "form must be"),
        ({"max_rounds": 0}, "max_rounds must be"),
        ({"C": -1.0}, "C must be"),
    ],
)
def test_bad_parameters(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SAREMPUClassifier(**SHARED, **change).fit(PU.X, PU.s)


@pytest.mark.parametrize(
    ("propensity", "message"),
    [
        (np.zeros(4000), "above 0 and at most 1 for every labelled row, got 0"),
        (np.full(4000, 1.2), "got 1.2"),
        (np.full(4000, np.nan), "got nan"),
        (["a"] * 4000, "one number for each row"),
        (np.ones((4000, 1)), r"shape \(4000, 1\)"),
        (np.ones(7), "inconsistent numbers of samples"),
    ],
)
def test_propensities_that_cannot_be_meant(propensity: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        SAREMPUClassifier(**SHARED).fit(PU.X, PU.s, propensity=propensity)
    clf = SAREMPUClassifier(**SHARED).fit(PU.X, PU.s, propensity=PU.propensity)
    with pytest.raises(InputError, match="no model of them"):
        clf.propensity(PU.X)


def test_probabilities_are_those_of_all_positives_not_of_the_labelled_kind() -> None:
    """The calibrator is close to one that sees the scores of all true positives. Without weights it is not."""
    clf = SAREMPUClassifier(propensity_features=[3], **SHARED).fit(PU.X, PU.s)
    every = np.concatenate([clf.scores_[PU.y_true == 1], clf.scores_])
    marks = np.repeat([1, 0], [PU.y_true.sum(), len(PU.s)])
    best = PUCalibrator(PU.prior).fit(every, marks)(clf.scores_)
    plain = PUCalibrator(PU.prior, "single-sample").fit(clf.scores_, PU.s)(clf.scores_)
    off, off_plain = (np.abs(p - best).mean() for p in (clf.calibrator_(clf.scores_), plain))
    assert off < 0.6 * off_plain
