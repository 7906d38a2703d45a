"""Reasons: their effects add up to the score where they should, and name the column that matters."""

import datetime
from typing import Any

import numpy as np
import polars as pl
import pytest

from pulab import BaggingPUClassifier, ElkanNotoClassifier, NNPUBoostingClassifier, NNPUClassifier
from pulab.tables._columns import column_of, conform
from pulab.tables._features import Features, Single
from pulab.tables._reasons import (
    contributions,
    held_out_contributions,
    in_words,
    reason_columns,
    strongest,
)

from .conftest import Customers

USED = ("age", "spent", "plan", "joined", "member")


@pytest.fixture(scope="module")
def table(customers: Customers) -> tuple[pl.DataFrame, Features, Single]:
    columns = [column_of(customers.frame[name]) for name in USED]
    frame = conform(customers.frame, columns, "customers")
    return frame, *Features.learn(frame, columns, 0)


def fitted(classifier: Any, features: Features, numbers: Single, customers: Customers) -> Any:
    X = numbers if classifier.__sklearn_tags__().input_tags.allow_nan else features.filled(numbers)
    return classifier.set_params(prior=0.3, scenario="single-sample", random_state=0).fit(X, customers.s.astype(int))


def boosting(backend: str) -> Any:
    pytest.importorskip(backend)
    return NNPUBoostingClassifier(backend=backend, n_estimators=20)


def lightgbm_on_labels() -> Any:
    return ElkanNotoClassifier(pytest.importorskip("lightgbm").LGBMClassifier(n_estimators=10, n_jobs=1, verbose=-1))


@pytest.mark.parametrize(
    "make",
    [lambda: boosting("lightgbm"), lambda: boosting("xgboost"), lightgbm_on_labels, ElkanNotoClassifier],
    ids=["lightgbm", "xgboost", "lightgbm on labels", "linear"],
)
def test_effects_and_a_constant_add_up_to_the_score(customers: Customers, table: Any, make: Any) -> None:
    _, features, numbers = table
    classifier = fitted(make(), features, numbers, customers)
    X = numbers if classifier.__sklearn_tags__().input_tags.allow_nan else features.filled(numbers)
    effects = contributions(classifier, features, numbers[:300], numbers)
    constant = classifier._score(X[:300]) - effects.sum(axis=1)
    assert effects.shape == (300, len(USED))
    assert effects.std() > 0.1
    np.testing.assert_allclose(constant, constant[0], atol=1e-4)


def test_linear_effects_are_coefficient_times_difference_to_the_mean(customers: Customers, table: Any) -> None:
    """By hand, for a column that is a number and a mark of its gaps."""
    frame, features, numbers = table
    classifier = fitted(ElkanNotoClassifier(), features, numbers, customers)
    effects = contributions(classifier, features, numbers, numbers)
    age, gap = frame["age"].fill_null(frame["age"].median()).to_numpy(), frame["age"].is_null().to_numpy().astype(float)
    scaler, linear = classifier.model_
    at = [features.groups()["age"][0], numbers.shape[1]]  # marks come after all numbers
    slopes = linear.coef_[0][at] / (scaler.unit_ * scaler.scale_)[at]
    column = list(features.groups()).index("age")
    by_hand = slopes[0] * (age - age.mean()) + slopes[1] * (gap - gap.mean())
    np.testing.assert_allclose(effects[:, column], by_hand, atol=1e-4)
    np.testing.assert_allclose(effects.mean(axis=0), 0, atol=1e-4)  # compared with the mean row


@pytest.mark.parametrize("make", [BaggingPUClassifier, lambda: NNPUClassifier(epochs=10)], ids=["bagging", "nnpu"])
def test_occlusion_finds_the_planted_column(make: Any) -> None:
    """Only one of six columns says anything. Gaps are filled in within the classifier's view."""
    rng = np.random.default_rng(0)
    y = rng.random(600) < 0.5
    frame = pl.DataFrame({f"x{i}": rng.normal(size=600) + 3 * y * (i == 2) for i in range(6)})
    frame = frame.with_columns(x4=pl.Series(np.where(rng.random(600) < 0.2, np.nan, frame["x4"])).fill_nan(None))
    columns = [column_of(frame[name]) for name in frame.columns]
    features, numbers = Features.learn(frame, columns, 0)
    marks = y & (rng.random(600) < 0.5)
    classifier = make().set_params(prior=0.5, scenario="single-sample", random_state=0)
    X = numbers if classifier.__sklearn_tags__().input_tags.allow_nan else features.filled(numbers)
    classifier.fit(X, marks.astype(int))
    effects = contributions(classifier, features, numbers, numbers[~marks])
    first = [own[0] for own in strongest(effects, list(features.groups()), frame, 1)]
    assert np.mean([reason["column"] == "x2" for reason in first]) > 0.9
    agree = [(reason["effect"] > 0) == positive for reason, positive in zip(first, y, strict=True)]
    assert np.mean(agree) > 0.7


def test_held_out_effects_come_from_the_model_that_has_not_seen_the_row(customers: Customers, table: Any) -> None:
    _, features, numbers = table
    folds = [np.arange(0, 2400, 2), np.arange(1, 2400, 2)]
    models = []
    for held in folds:
        seen = np.setdiff1d(np.arange(2400), held)
        model = ElkanNotoClassifier(prior=0.3, scenario="single-sample", random_state=0)
        models.append(model.fit(features.filled(numbers)[seen], customers.s[seen].astype(int)))
    rows = np.array([7, 4, 11])
    effects = held_out_contributions(models, folds, features, numbers, rows, np.arange(2400))
    for row, model, own in zip(rows, (models[1], models[0], models[1]), effects, strict=True):
        np.testing.assert_allclose(own, contributions(model, features, numbers[[row]], numbers)[0])


def test_strongest_reasons_are_for_and_against_and_read_as_text() -> None:
    frame = pl.DataFrame(
        {
            "tenure": [2.0, None],
            "plan": ["gold", "a plan with a name that is longer than any page has room for"],
            "since": [datetime.datetime(2024, 5, 1), datetime.datetime(2024, 5, 1, 12)],
            "member": [True, False],
        }
    )
    effects = np.array([[1.5, -0.5, 0.001, 0.2], [-0.3, 0.4, 0.35, 0.32]])
    reasons = strongest(effects, frame.columns, frame)
    assert reason_columns(reasons).rows() == [
        ("tenure = 2: strongly for", "plan = gold: against", "member = true: for"),
        (
            "plan = a plan with a name that is longer than …: strongly for",
            "since = 2024-05-01 12:00:00: strongly for",
            "member = false: for",
        ),
    ]
    assert reasons[0][0]["share"] == pytest.approx(1.5 / 2.201)
    nothing = strongest(np.array([[0.0, 1.0, 0.0, 0.0]]), frame.columns, frame.head(1))
    assert reason_columns(nothing).row(0) == ("plan = gold: strongly for", None, None)
    (gap,) = strongest(effects[1:, :1], ["tenure"], frame[1:])[0]
    assert in_words(gap) == "tenure = missing: strongly against"
