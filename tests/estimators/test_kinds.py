"""Several kinds of positives: the arithmetic, the truth where it is known, and what scikit-learn asks for."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy import sparse
from scipy.stats import multivariate_normal
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import pulab
from pulab import ElkanNotoClassifier, NNPUClassifier, PositiveKindsClassifier, PulabWarning, VPUClassifier
from pulab.errors import InputError, PriorError

CENTRES = np.array([[2.0, 0.0], [0.0, 2.5], [-1.0, -1.0]])  # kinds 1 and 2, and none of these
PRIORS = {1: 0.3, 2: 0.1}


class Kinds:
    """Three normal classes, of which two are kinds of positives that are labelled unequally often."""

    def __init__(self, scenario: str, n: int = 3000, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        shares = np.array([0.3, 0.1, 0.6])
        of = rng.choice(3, n, p=shares)
        self.truth = np.array([1, 2, 0])[of]
        self.X = CENTRES[of] + rng.normal(size=(n, 2))
        self.y = np.zeros(n, dtype=int)
        for kind, share in ((1, 0.2), (2, 0.6)):
            if scenario == "single-sample":
                self.y[(self.truth == kind) & (rng.random(n) < share)] = kind
            else:
                more = CENTRES[kind - 1] + rng.normal(size=(300, 2))
                self.X, self.y = np.concatenate([self.X, more]), np.concatenate([self.y, np.full(300, kind)])
                self.truth = np.concatenate([self.truth, np.full(300, kind)])
        density = np.stack([multivariate_normal(centre).pdf(self.X) for centre in CENTRES], axis=1) * shares
        self.posterior = (density / density.sum(axis=1, keepdims=True))[:, [2, 0, 1]]  # of the classes 0, 1, 2


def quadratic(scenario: str) -> Any:
    """A base that can express the logits of labelled against unlabeled rows nearly."""
    return make_pipeline(PolynomialFeatures(3), StandardScaler(), ElkanNotoClassifier(scenario=scenario))


@pytest.mark.parametrize("scenario", ["case-control", "single-sample"])
def test_probabilities_are_near_the_truth(scenario: str) -> None:
    data, new = Kinds(scenario), Kinds(scenario, seed=1)
    clf = PositiveKindsClassifier(quadratic(scenario), priors=PRIORS, random_state=0).fit(data.X, data.y)
    found = clf.predict_proba(new.X)
    assert clf.classes_.tolist() == [0, 1, 2]
    assert np.abs(found - new.posterior).mean() < 0.05
    assert clf.priors_.tolist() == [0.3, 0.1]
    assert clf.none_share_ == pytest.approx(0.6)
    best = (new.posterior.argmax(axis=1) == new.truth).mean()
    assert clf.score(new.X, new.truth) > best - 0.02
    wrong = PositiveKindsClassifier(quadratic(scenario), priors={1: 0.1, 2: 0.3}).fit(data.X, data.y)
    assert np.abs(wrong.predict_proba(new.X) - new.posterior).mean() > 0.08  # the test can fail


class Fixed(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A PU classifier that takes the probability from the first column, and remembers what it was fitted to."""

    def __init__(self, prior: Any = None, scenario: str = "case-control") -> None:
        self.prior, self.scenario = prior, scenario

    def fit(self, X: NDArray[Any], s: NDArray[Any]) -> Any:
        self.classes_, self.prior_, self.fitted_to_ = np.array([0, 1]), self.prior, (X[:, 0].tolist(), s.tolist())
        return self

    def predict_proba(self, X: NDArray[Any]) -> NDArray[Any]:
        p = X[:, 0] * (1 if self.prior > 0.2 else 0.5)  # the second kind gets half of it
        return np.stack([1 - p, p], axis=1)


def test_which_rows_a_kind_learns_from_and_how_probabilities_are_put_together() -> None:
    X = np.array([[0.2], [0.4], [0.6], [0.8]])
    y = ["b", None, "a", None]
    clf = PositiveKindsClassifier(Fixed(), priors={"a": 0.5, "b": 0.1}).fit(X, y)
    assert [model.fitted_to_ for model in clf.estimators_] == [
        ([0.4, 0.6, 0.8], [0, 1, 0]),
        ([0.2, 0.4, 0.8], [1, 0, 0]),
    ]
    single = PositiveKindsClassifier(Fixed(scenario="single-sample"), priors={"a": 0.5, "b": 0.1}).fit(X, y)
    assert [model.fitted_to_[1] for model in single.estimators_] == [[0, 0, 1, 0], [1, 0, 0, 0]]
    assert clf.classes_.tolist() == ["a", "b", "none"]
    expected = [[0.2, 0.1, 0.7], [0.8 / 1.2, 0.4 / 1.2, 0]]
    assert clf.predict_proba(X[[0, 3]]) == pytest.approx(np.array(expected))
    assert clf.kind_scores(X[[3]]) == pytest.approx(np.array([[0.8, 0.4]]))
    assert clf.predict(X[[0, 3]]).tolist() == ["none", "a"]


@pytest.mark.parametrize(
    ("y", "kinds"),
    [
        ([0, 0, 3, 7], [3, 7]),
        ([np.nan, np.nan, 3, 7], [3, 7]),
        ([0, None, "x", "y"], ["x", "y"]),
        (pd.Series([None, pd.NA, "x", "y"], dtype="string"), ["x", "y"]),
        ([False, False, True, True], [True]),
    ],
)
def test_labels_of_other_kinds(y: Any, kinds: list[Any]) -> None:
    X = np.array([[0.1], [0.1], [0.1], [0.1]])
    clf = PositiveKindsClassifier(Fixed(), priors=dict.fromkeys(kinds, 0.3)).fit(X, y)
    assert clf.kinds_.tolist() == kinds
    assert clf.predict(X)[0] == clf.none_ == ("none" if isinstance(kinds[0], str) else 0)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"y": [1, 1, 2, 2]}, InputError, "every row of y is of a kind"),
        ({"y": [0, 0, 0, 0]}, InputError, "every row of y is unlabeled"),
        ({"y": [0, -1, 1, 2]}, InputError, "Pass unlabeled=-1"),
        ({"y": [0, 0, 1, "x"]}, InputError, "mixes words and numbers"),
        ({"y": [0, 0, 1]}, InputError, "inconsistent numbers of samples"),
        ({"priors": {1: 0.6, 2: 0.4}}, PriorError, "add up to less than 1"),
        ({"priors": {1: 0.6}}, PriorError, "share of each kind"),
        ({"priors": {1: 0.6, 2: 2}}, PriorError, "strictly between 0 and 1"),
        ({"none": 2}, InputError, "is a kind in y"),
        ({"estimator": Fixed}, InputError, "estimator must be a PU classifier"),
        ({"estimator": VPUClassifier()}, InputError, "VPUClassifier takes no prior"),
        ({"estimator": NNPUClassifier(epochs=0)}, InputError, "the kind 1: epochs must be"),
    ],
)
def test_what_cannot_be_meant_is_refused(change: dict[str, Any], error: Any, message: str) -> None:
    given = {"y": [0, 0, 1, 2], "estimator": Fixed(), "priors": {1: 0.3, 2: 0.3}, "none": None} | change
    y = given.pop("y")
    with pytest.raises(error, match=message):
        PositiveKindsClassifier(**given).fit(np.zeros((4, 1)), y)


def test_priors_that_are_estimated_or_not_given() -> None:
    data = Kinds("case-control", n=200)
    with pytest.warns(PulabWarning, match="^the kind [12]: class prior"):
        clf = PositiveKindsClassifier(priors="estimate", random_state=0).fit(data.X, data.y)
    assert clf.priors_[0] > clf.priors_[1]
    with pytest.warns(PulabWarning, match="taking equal shares"):
        clf = PositiveKindsClassifier(Fixed()).fit(data.X, data.y)
    assert clf.priors_ == pytest.approx([1 / 3, 1 / 3])
    two_of_one = np.where(data.y == 2, 1, data.y) + (np.arange(len(data.y)) % 2 * (data.y > 0))
    noise = np.random.default_rng(0).normal(size=(len(two_of_one), 1))  # so each share may be as large as 1
    with pytest.warns(PulabWarning), pytest.raises(PriorError, match=r"add up to 1\.\d+, but"):
        PositiveKindsClassifier(priors="estimate", random_state=0).fit(noise, two_of_one)


def test_it_is_saved_pickled_cloned_and_searched(tmp_path: Path) -> None:
    data = Kinds("single-sample", n=300)
    base = NNPUClassifier(scenario="single-sample", epochs=2, device="cpu")
    clf = PositiveKindsClassifier(base, priors=PRIORS, random_state=0).fit(data.X, data.y)
    expected = clf.predict_proba(data.X)
    loaded = pulab.load(pulab.save(clf, tmp_path / "model"))
    for copy in (loaded, pickle.loads(pickle.dumps(clf))):
        assert np.array_equal(copy.predict_proba(data.X), expected)
        assert np.array_equal(copy.predict(data.X), clf.predict(data.X))
    assert loaded.get_params(deep=False)["priors"] == PRIORS
    assert np.array_equal(clone(clf).fit(data.X, data.y).predict_proba(data.X), expected)
    assert clf.fit(sparse.coo_matrix(data.X), data.y).predict_proba(sparse.csr_array(data.X)).shape == (300, 3)
    search = GridSearchCV(clf, {"estimator__lr": [1e-3, 1e-2]}, cv=StratifiedKFold(2)).fit(data.X, data.y)
    assert search.predict_proba(data.X).shape == (300, 3)


def no_unlabeled_rows(estimator: Any) -> dict[str, str]:
    """The checks whose labels leave no row unlabeled: every one of them is of a kind, which is refused."""
    names = ("estimators_dtypes", "classifier_data_not_an_array", "classifiers_classes", "fit2d_1feature")
    return {f"check_{name}": "none of its rows is unlabeled" for name in names}


@parametrize_with_checks([PositiveKindsClassifier()], expected_failed_checks=no_unlabeled_rows)
@pytest.mark.filterwarnings("ignore::pulab.PulabWarning", "ignore::sklearn.exceptions.DataConversionWarning")
def test_scikit_learn_check(estimator: Any, check: Any) -> None:
    check(estimator)
