"""What a sceptic compares with."""

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import IsolationForest
from sklearn.linear_model import LogisticRegression
from sklearn.svm import OneClassSVM

from pulab import IsolationForestPUClassifier, LogisticPUClassifier, OneClassSVMPUClassifier
from tests.conftest import Blobs

SHARED: dict[str, Any] = {"prior": 0.4, "scenario": "single-sample", "random_state": 0}
DATA = Blobs("single-sample")


def test_they_are_what_scikit_learn_gives_on_standardised_rows() -> None:
    X, s = DATA.X, DATA.s
    standard = (X - X.mean(axis=0)) / X.std(axis=0)
    plain = LogisticRegression(C=0.1).fit(standard, s).decision_function(standard)
    assert LogisticPUClassifier(C=0.1, **SHARED).fit(X, s).raw_scores(X) == pytest.approx(plain, abs=1e-3)
    near = OneClassSVM(nu=0.2).fit(standard[s == 1]).score_samples(standard)
    assert OneClassSVMPUClassifier(nu=0.2, **SHARED).fit(X, s).raw_scores(X) == pytest.approx(near / 60, rel=1e-6)
    clf = IsolationForestPUClassifier(n_estimators=20, **SHARED).fit(X, s)
    seed = clf.model_.random_state
    hard = IsolationForest(n_estimators=20, max_samples=60, random_state=seed)
    assert clf.raw_scores(X) == pytest.approx(hard.fit(standard[np.flatnonzero(s)]).score_samples(standard))


@pytest.mark.parametrize("cls", [LogisticPUClassifier, OneClassSVMPUClassifier, IsolationForestPUClassifier])
def test_units_of_the_columns_do_not_matter(cls: Any) -> None:
    X, s = DATA.X, DATA.s
    plain = cls(**SHARED).fit(X, s)
    scale = np.array([1e-9, 1, 1e3, 1e12, 5])
    other = cls(**SHARED).fit(X * scale, s)
    assert other.predict_proba(X * scale) == pytest.approx(plain.predict_proba(X), abs=0.03)


@pytest.mark.parametrize(
    ("clf", "message"),
    [
        (LogisticPUClassifier(C=0.0, **SHARED), "C must be"),
        (OneClassSVMPUClassifier(nu=1.5, **SHARED), "nu must be"),
        (OneClassSVMPUClassifier(max_rows=0, **SHARED), "max_rows must be"),
        (IsolationForestPUClassifier(n_estimators=0, **SHARED), "n_estimators must be"),
    ],
)
def test_bad_parameters(clf: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        clf.fit(DATA.X, DATA.s)


def test_many_labelled_rows_are_cut_to_a_random_part() -> None:
    clf = OneClassSVMPUClassifier(max_rows=20, **SHARED).fit(DATA.X, DATA.s)
    assert clf.model_.shape_fit_ == (20, 5)
    assert clf.score(DATA.X, DATA.y_true) > 0.9


def test_held_out_scores_have_the_scale_of_the_whole_model() -> None:
    """Otherwise the probabilities of new rows, which the whole model scores, do not add up to the prior."""
    unseen = Blobs("single-sample", seed=1)
    for cls in (OneClassSVMPUClassifier, IsolationForestPUClassifier):
        clf = cls(**SHARED).fit(DATA.X, DATA.s)
        assert clf.predict_proba(unseen.X)[:, 1].mean() == pytest.approx(0.4, abs=0.03)
