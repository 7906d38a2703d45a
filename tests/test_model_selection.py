"""Folds and scorers."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pulab import NNPUClassifier
from pulab.errors import InputError
from pulab.metrics import METRICS
from pulab.model_selection import PUScorer, PUStratifiedKFold
from tests.conftest import Blobs


@pytest.mark.parametrize("labels", [[1, 0], [1, -1], [True, False], ["yes", None], [1.0, np.nan]])
def test_every_fold_has_its_share_of_labelled_rows(labels: list[object]) -> None:
    positive = np.arange(100) % 10 == 0
    y = np.array([labels[0] if p else labels[1] for p in positive], dtype=object if None in labels else None)
    seen = []
    for train, test in PUStratifiedKFold(5, random_state=0).split(y, y):
        assert positive[test].sum() == 2
        assert set(train) | set(test) == set(range(100))
        seen += test.tolist()
    assert sorted(seen) == list(range(100))


def test_too_few_labelled_rows() -> None:
    with pytest.raises(InputError, match="n_splits=5 needs as many labelled"):
        next(PUStratifiedKFold(5).split(None, [1, 1, 0, 0, 0, 0, 0]))


@pytest.mark.parametrize("name", METRICS)
def test_scorers_prefer_the_better_model(name: str) -> None:
    """In a search, by every metric: a model that learns against one that cannot."""
    data = Blobs("case-control")
    X = data.X
    if name == "centred_risk":  # a random network ranks these rows well, too, and lacks but confidence
        X = np.column_stack([X[:, 0], np.random.default_rng(0).normal(size=(len(X), 20))])
    clf = NNPUClassifier(prior=data.prior, epochs=15, random_state=0, device="cpu")
    search = GridSearchCV(clf, {"lr": [1e-12, 1e-2]}, scoring=PUScorer(name), cv=PUStratifiedKFold(3, random_state=0))
    search.fit(X, data.s)
    assert search.best_params_ == {"lr": 1e-2}


def test_any_classifier_can_be_scored() -> None:
    data = Blobs("case-control")
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    folds = PUStratifiedKFold(3, random_state=0)
    with pytest.raises(InputError, match="needs the prior"):
        PUScorer("precision")(pipeline.fit(data.X, data.s), data.X, data.s)
    scores = cross_val_score(pipeline, data.X, data.s, scoring=PUScorer("roc_auc", prior=data.prior), cv=folds)
    assert scores.mean() > 0.9
    ours = make_pipeline(StandardScaler(), NNPUClassifier(prior=data.prior, epochs=10, random_state=0, device="cpu"))
    assert PUScorer("accuracy")(ours.fit(data.X, data.s), data.X, data.s) > 0.9
    with pytest.raises(InputError, match="metric must be"):
        PUScorer("auc")


def test_a_scorer_takes_the_estimators_scenario() -> None:
    data = Blobs("single-sample", n=1500, n_labeled=300)
    clf = NNPUClassifier(prior=data.prior, scenario="single-sample", epochs=15, random_state=0, device="cpu")
    clf.fit(data.X, data.s)
    assert PUScorer("accuracy")(clf, data.X, data.s) == pytest.approx(clf.score(data.X, data.y_true), abs=0.05)
    case_control = PUScorer("accuracy", scenario="case-control")(clf, data.X, data.s)
    assert case_control != pytest.approx(clf.score(data.X, data.y_true), abs=0.05)
    search = GridSearchCV(clf, {"lr": [1e-2]}, scoring=PUScorer("f1"), cv=PUStratifiedKFold(2, random_state=0))
    assert PUScorer("f1")(search.fit(data.X, data.s), data.X, data.s) > 0.8
