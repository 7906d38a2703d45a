"""The methods without a network, beyond scikit-learn's checks."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from pulab import (
    BaggingPUClassifier,
    BoostingPUClassifier,
    ElkanNotoClassifier,
    NNPUBoostingClassifier,
    PulabWarning,
    TwoStepPUClassifier,
)
from pulab.errors import InputError
from pulab.estimators._boosting import NNPUGradients
from pulab.methods import METHODS
from pulab.metrics import nnpu_risk
from tests.conftest import Blobs

SCENARIOS = ("case-control", "single-sample")
KEYS = [key for key, method in METHODS.items() if not method.is_network]
MADE: dict[str, Any] = {key: METHODS[key].load()(prior=0.4, random_state=0) for key in KEYS}
MADE["pu-forest"].set_params(n_estimators=40)  # each of its trees takes a tenth of a second
for backend in ("scikit-learn", "xgboost"):
    MADE[f"boosting, {backend}"] = BoostingPUClassifier(backend=backend, prior=0.4, random_state=0)
MADE["nnpu-boosting, xgboost"] = NNPUBoostingClassifier(backend="xgboost", prior=0.4, random_state=0)
WEIGHTED = [key for key in MADE if METHODS[key.partition(",")[0]].takes_weights] + ["elkan-noto, weights"]
MADE["elkan-noto, weights"] = ElkanNotoClassifier(form="weights", prior=0.4, random_state=0)


def made(key: str, **params: Any) -> Any:
    if "xgboost" in key:
        pytest.importorskip("xgboost")
    return clone(MADE[key]).set_params(**params)


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("key", MADE)
def test_learns_separable_pu_data(key: str, scenario: str) -> None:
    data, unseen = Blobs(scenario), Blobs(scenario, seed=1)
    clf = made(key, scenario=scenario).fit(data.X, data.s)
    assert clf.score(unseen.X, unseen.y_true) > 0.95


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("key", MADE)
def test_same_seed_same_result_however_the_rows_are_interleaved(key: str, scenario: str) -> None:
    data = Blobs(scenario)
    order = np.argsort(-data.s, kind="stable")
    mixed = made(key, scenario=scenario).fit(data.X, data.s)
    sorted_ = made(key, scenario=scenario).fit(data.X[order], data.s[order])
    # Not to the bit: the alignment of an array in memory changes the last digit of scikit-learn's sums.
    assert np.allclose(mixed.predict_proba(data.X), sorted_.predict_proba(data.X), rtol=0, atol=1e-8)
    assert np.allclose(mixed.scores_[order], sorted_.scores_, rtol=0, atol=1e-8, equal_nan=True)


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("key", MADE)
def test_probabilities_add_up_to_the_prior_and_decisions_follow_it(key: str, scenario: str) -> None:
    data, unseen = Blobs(scenario, n=2000, n_labeled=300), Blobs(scenario, seed=1, n=2000)
    rng = np.random.default_rng(0)
    for part in (data, unseen):  # separate clouds would get the same decisions at any prior
        part.X = part.X + 4 * rng.normal(size=part.X.shape)
    shares = []
    for prior in (0.25, 0.4, 0.6):
        clf = made(key, scenario=scenario, prior=prior).fit(data.X, data.s)
        rows = clf.scores_ if scenario == "single-sample" else clf.scores_[data.s == 0]
        assert clf.calibrator_(rows[np.isfinite(rows)]).mean() == pytest.approx(prior, abs=0.01)
        probability = clf.predict_proba(unseen.X)[:, 1]
        assert 0 <= probability.min() <= probability.max() <= 1
        shares.append(clf.predict(unseen.X).mean())
    assert shares[0] + 0.03 < shares[1]
    assert shares[1] + 0.03 < shares[2]


@pytest.mark.filterwarnings("ignore:class prior")  # 60 labelled rows may raise it
@pytest.mark.parametrize("key", MADE)
def test_labels_and_rows_of_other_kinds(key: str) -> None:
    data = Blobs("case-control")
    plain = made(key).fit(data.X, data.s)
    words = made(key).fit(data.X, np.where(data.s == 1, "yes", None))
    assert np.array_equal(words.predict(data.X) == "yes", plain.predict(data.X) == 1)
    dense = np.round(data.X).clip(0)
    on_sparse = made(key).fit(sparse.csr_matrix(dense), data.s)
    if "xgboost" not in key:  # it takes zeros that are not stored for missing values
        on_dense = made(key).fit(dense, data.s)
        # Sparse rows are not centred, so the solver stops elsewhere: a difference of .013 on one row of 460.
        assert np.allclose(on_sparse.predict_proba(dense), on_dense.predict_proba(dense), atol=2e-2)
        assert (on_sparse.predict(dense) == on_dense.predict(dense)).all()
    estimated = made(key, prior="estimate").fit(data.X, data.s)
    assert estimated.prior_interval_[0] <= estimated.prior_ <= estimated.prior_interval_[1]
    with pytest.warns(PulabWarning, match="taking 0.5"):
        made(key, prior=None).fit(data.X, data.s)


BASES = [GaussianNB(), make_pipeline(StandardScaler(), LogisticRegression()), LinearSVC(random_state=0)]


@pytest.mark.parametrize("base", BASES, ids=lambda base: type(base).__name__)
@pytest.mark.parametrize("key", [key for key in MADE if "estimator" in MADE[key].get_params()])
def test_any_classifier_underneath(key: str, base: Any) -> None:
    data, unseen = Blobs("case-control"), Blobs("case-control", seed=1)
    clf = made(key, estimator=base).fit(data.X, data.s)
    assert clf.score(unseen.X, unseen.y_true) > 0.9
    assert not hasattr(base, "classes_")  # a copy was fitted


def test_lightgbm_underneath() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    data, unseen = Blobs("case-control", n=1000), Blobs("case-control", seed=1)
    base = lightgbm.LGBMClassifier(n_estimators=20, min_child_samples=5, verbose=-1, n_jobs=1)
    clf = BaggingPUClassifier(base, n_estimators=10, prior=0.4, random_state=0).fit(data.X, data.s)
    assert clf.score(unseen.X, unseen.y_true) > 0.9


def test_elkan_notos_formula() -> None:
    """The classifier knows P(labelled | x) exactly. The probability must be P(labelled | x) / c."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 4, 40_000)
    share = np.array([0.02, 0.2, 0.6, 0.95])  # P(y = 1 | x)
    y = rng.random(len(x)) < share[x]
    s = (y & (rng.random(len(x)) < 0.3)).astype(int)  # c = 0.3
    X = np.eye(4)[x]
    for form in ("scale", "weights"):
        base = LogisticRegression(C=1e6, max_iter=1000)
        clf = ElkanNotoClassifier(base, form=form, prior=float(y.mean()), scenario="single-sample", random_state=0)
        probability = clf.fit(X, s).predict_proba(np.eye(4))[:, 1]
        assert np.abs(probability - share).max() < 0.08


class Weighed(LogisticRegression):  # type: ignore[misc]
    """Keeps the rows, marks and weights that it is fitted to."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        self.fitted_to_ = X, y, sample_weight
        return super().fit(X, y, sample_weight)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_elkan_notos_weights_are_the_shares_of_positives_among_unlabeled_rows(scenario: str) -> None:
    """Simulated: the weights of the unlabeled rows with the same x add up to the number of positives among them."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 4, 40_000)
    y = rng.random(len(x)) < np.array([0.02, 0.2, 0.5, 0.8])[x]
    prior = float(y.mean())
    if scenario == "single-sample":
        s = y & (rng.random(len(x)) < 0.4)
    else:  # a second, independent sample of positives
        x = np.concatenate([x, x[y]])
        s = np.arange(len(x)) >= len(y)
        y = np.concatenate([y, np.ones(s.sum(), dtype=bool)])
    base = Weighed(C=1e6, max_iter=1000)
    clf = ElkanNotoClassifier(base, form="weights", prior=prior, scenario=scenario, random_state=0)
    X, marks, weights = clf.fit(np.eye(4)[x], s.astype(int)).model_.fitted_to_
    for kind in range(4):
        rows = X.argmax(axis=1) == kind
        n_u, n_p = ((x == kind) & ~s).sum(), ((x == kind) & s).sum()
        as_positives = weights[rows & (marks == 1)].sum() - n_p
        as_negatives = weights[rows & (marks == 0)].sum()
        assert as_positives / n_u == pytest.approx(y[(x == kind) & ~s].mean(), abs=0.02)
        assert as_positives + as_negatives == pytest.approx(n_u)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_reliable_negatives_are_no_more_than_the_prior_leaves_room_for(scenario: str) -> None:
    """Nearly all unlabeled rows score below the best spy, so the prior limits the number of negatives."""
    data = Blobs(scenario)
    n_p, n_u = 60, int((data.s == 0).sum())
    for prior in (0.3, 0.6, 0.8):
        clf = TwoStepPUClassifier(prior=prior, tolerance=0.99, scenario=scenario, random_state=0).fit(data.X, data.s)
        positives = prior * n_u if scenario == "case-control" else prior * (n_p + n_u) - n_p
        assert clf.n_reliable_negatives_ == pytest.approx(n_u - positives, abs=1)
    # Fewer rows score below the worst spy. Then the spies limit the number, and the prior does not matter.
    strict = TwoStepPUClassifier(tolerance=0.0, scenario=scenario, random_state=0)
    counts = {clone(strict).set_params(prior=prior).fit(data.X, data.s).n_reliable_negatives_ for prior in (0.2, 0.22)}
    assert len(counts) == 1
    assert max(counts) < 0.75 * n_u


def test_bags_hold_what_they_should_and_scores_are_held_out() -> None:
    """The model gives 1 to the rows that it was fitted to, 0 to others. So held-out scores must be 0."""

    class Remembers(GaussianNB):  # type: ignore[misc]
        def fit(self, X: Any, y: Any) -> Any:
            self.seen_ = {tuple(row) for row in X}
            self.sizes_ = (int((y == 1).sum()), int((y == 0).sum()))
            return super().fit(X, y)

        def predict_proba(self, X: Any) -> Any:
            known = np.array([float(tuple(row) in self.seen_) for row in X])
            return np.stack([1 - known, known], axis=1)

    data = Blobs("case-control")
    clf = BaggingPUClassifier(Remembers(), n_estimators=30, max_samples=50, prior=0.4, random_state=0)
    clf.fit(data.X, data.s)
    assert {model.sizes_ for model in clf.estimators_} == {(int(data.s.sum()), 50)}
    assert (clf.scores_ == 0).all()


@pytest.mark.parametrize("key", MADE)
def test_bad_input(key: str) -> None:
    data = Blobs("case-control")
    for params, message in (
        ({"prior": 1.2}, "prior must be"),
        ({"scenario": "one"}, "scenario must be"),
        ({"scenario": "single-sample", "prior": 0.01}, "labelled already"),
    ):
        with pytest.raises(ValueError, match=message):
            made(key, **params).fit(data.X, data.s)
    with pytest.raises(ValueError, match="one class"):
        made(key).fit(data.X, np.zeros(len(data.X)))
    with pytest.raises(ValueError, match="form must be"):
        ElkanNotoClassifier(form="other", prior=0.4).fit(data.X, data.s)
    with pytest.raises(ValueError, match="n_estimators must be"):
        BaggingPUClassifier(n_estimators=0, prior=0.4).fit(data.X, data.s)
    with pytest.raises(ValueError, match="max_samples must be"):
        BaggingPUClassifier(max_samples=0, prior=0.4).fit(data.X, data.s)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_boostings_gradient_is_that_of_the_risk(scenario: str) -> None:
    """It equals finite differences of the risk, with and without the correction. Its curvature is an upper bound."""
    rng = np.random.default_rng(0)
    positive = np.arange(60) < 15
    prior, n = 0.4, 60
    everyone = np.ones(n, dtype=bool) if scenario == "single-sample" else ~positive

    def parts(g: Any) -> tuple[float, float]:
        price = np.logaddexp(0, g)
        negative = price[everyone].mean() - prior * price[positive].mean()
        return prior * np.logaddexp(0, -g[positive]).mean(), negative

    for shift in (0.0, 6.0):  # with the shift, the labelled rows are overfitted
        g = rng.normal(size=n) + np.where(positive, shift, -shift)
        overfitted = parts(g)[1] < 0
        assert overfitted == (shift > 0)

        def followed(g: Any, overfitted: bool = overfitted) -> float:
            on_p, negative = parts(g)
            return -2 * negative if overfitted else on_p + negative

        gradient, curvature = NNPUGradients(positive, prior, scenario, beta=0, gamma=2)(g)
        step = 1e-4 * np.eye(n)
        slopes = [(followed(g + h) - followed(g - h)) / 2e-4 for h in step]
        bends = [(followed(g + h) - 2 * followed(g) + followed(g - h)) / 1e-8 for h in step]
        assert np.allclose(gradient / n, slopes, atol=1e-6)
        assert (2 * curvature / n >= np.array(bends) - 1e-6).all()
        assert (curvature > 0).all()


def test_bagging_calibrates_on_the_population_where_only_a_part_is_scored() -> None:
    rng = np.random.default_rng(0)
    y = rng.random(6000) < 0.3
    X = rng.normal(size=(6000, 3)) + 2.0 * y[:, None]
    s = (y & (rng.random(6000) < 0.5)).astype(int)
    shared = {"n_estimators": 10, "prior": 0.3, "scenario": "single-sample", "random_state": 0}
    means = [
        BaggingPUClassifier(oob_rows=rows, **shared).fit(X, s).predict_proba(X)[:, 1].mean() for rows in (None, 1500)
    ]
    assert abs(means[0] - means[1]) < 0.02


@pytest.mark.parametrize("key", [key for key in MADE if "boosting" in key])
def test_boosting_takes_gaps(key: str) -> None:
    data, unseen = Blobs("case-control"), Blobs("case-control", seed=1)
    gaps = np.where(np.random.default_rng(0).random(data.X.shape) < 0.1, np.nan, data.X)
    clf = made(key).fit(gaps, data.s)
    assert clf.score(unseen.X, unseen.y_true) > 0.9


def test_elkan_noto_takes_no_gaps() -> None:
    data = Blobs("case-control")
    gaps = np.where(np.random.default_rng(0).random(data.X.shape) < 0.1, np.nan, data.X)
    with pytest.raises(InputError, match="contains NaN"):
        ElkanNotoClassifier(prior=0.4).fit(gaps, data.s)


@pytest.mark.parametrize("key", MADE)
def test_a_ranking_alone_is_calibrated_by_scores_from_elsewhere(key: str) -> None:
    """It costs no folds, ranks like the whole fit, and has probabilities once it is given held-out scores."""
    data = Blobs("single-sample")
    whole = made(key, scenario="single-sample").fit(data.X, data.s)
    clf = made(key, scenario="single-sample").fit_ranking(data.X, data.s)
    if "nnpu" not in key:  # which needs held-out rows to choose the number of its trees
        assert np.allclose(clf.raw_scores(data.X), whole.raw_scores(data.X))
    with pytest.raises(NotFittedError):
        clf.predict_proba(data.X)
    scores = whole.raw_scores(data.X) if "bagging" in key else whole.scores_
    probability = clf.calibrate(scores, data.s).predict_proba(data.X)[:, 1]
    assert probability.mean() == pytest.approx(0.4, abs=0.05)
    order = np.argsort(clf.raw_scores(data.X), kind="stable")
    assert (np.diff(probability[order]) >= -1e-12).all()


@pytest.mark.parametrize("method", [BoostingPUClassifier, NNPUBoostingClassifier])
def test_a_backend_that_is_missing_is_said(method: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    data = Blobs("case-control")
    monkeypatch.setattr("pulab.estimators._boosting.backends", lambda: [])
    with pytest.raises(InputError, match=r"needs xgboost. Run: pip install 'pulab\[boost\]'"):
        method(backend="xgboost", prior=0.4).fit(data.X, data.s)
    assert BoostingPUClassifier(prior=0.4).fit(data.X, data.s).backend_ == "scikit-learn"


def test_a_weight_of_two_is_a_row_twice_for_the_ranking() -> None:
    data = Blobs("case-control")
    weight = np.empty(len(data.s), dtype=int)  # with a mean of 1: only ratios count
    for marks in (data.s == 1, data.s == 0):
        weight[marks] = np.arange(marks.sum()) % 3
    weight[np.flatnonzero(data.s == 0)[-1]] += len(weight) - weight.sum()
    twice = np.repeat(np.arange(len(data.s)), weight)
    clf = ElkanNotoClassifier(LogisticRegression(tol=1e-8), prior=0.4)
    weighted = clf.fit_ranking(data.X, data.s, weight).raw_scores(data.X)
    assert weighted == pytest.approx(clf.fit_ranking(data.X[twice], data.s[twice]).raw_scores(data.X), abs=1e-4)
    for factor in (1e-300, 1e300):
        assert clf.fit_ranking(data.X, data.s, factor * weight).raw_scores(data.X) == pytest.approx(weighted, abs=1e-4)
    for estimator in (KNeighborsClassifier(), make_pipeline(StandardScaler(), KNeighborsClassifier())):
        with pytest.raises(InputError, match="got KNeighborsClassifier"):
            ElkanNotoClassifier(estimator, prior=0.4).fit(data.X, data.s, weight)


@pytest.mark.parametrize("key", WEIGHTED)
def test_rows_without_weight_teach_nothing(key: str) -> None:
    """Half of the rows are misleading. Their weights are 0, for the model and for the held-out scores."""
    data = Blobs("case-control")
    n = len(data.s)
    X, s = np.concatenate([data.X, -data.X]), np.concatenate([data.s, data.s])
    weight = np.repeat([1.0, 0.0], n)
    clf = made(key).fit(X, s, sample_weight=weight)
    for scores in (clf.raw_scores(data.X), clf.scores_[:n]):
        assert roc_auc_score(data.s, scores) > roc_auc_score(data.s, made(key).fit(X, s).scores_[:n]) + 0.1
    assert clf.predict_proba(X[s == 0])[:, 1].mean() == pytest.approx(0.4, abs=0.05)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1, 1, 1], "one number for each of the"),
        ("2020-01-01", "got an array of"),
        (-1, "at least 0"),
        (np.nan, "at least 0"),
        (0, "zero for a whole class"),
    ],
)
def test_weights_that_cannot_be_meant(weight: Any, message: str) -> None:
    data = Blobs("case-control")
    weights = weight if isinstance(weight, list) else [weight] * len(data.s)
    with pytest.raises(InputError, match=message):
        ElkanNotoClassifier(prior=0.4).fit(data.X, data.s, weights)


@pytest.mark.parametrize("far", [1e3, 1e9, 1e200])
@pytest.mark.parametrize("key", ["elkan-noto", "two-step", "boosting"])
def test_one_far_value_changes_little(key: str, far: float) -> None:
    data = Blobs("case-control")
    X = data.X.copy()
    X[-1, 1] = far
    plain, odd = (made(key).fit(rows, data.s).predict_proba(data.X)[:, 1] for rows in (data.X, X))
    assert np.abs(plain - odd).mean() < 0.05


@pytest.mark.parametrize("key", KEYS)
def test_an_interrupted_second_fit_leaves_no_fit(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = Blobs("case-control")
    clf = made(key).fit(data.X, data.s)

    def interrupted(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pulab.estimators._table._of_the_population", interrupted)  # after the last fit
    with pytest.raises(KeyboardInterrupt):
        clf.fit(data.X, np.where(data.s == 1, 1, -1))
    assert not [name for name in vars(clf) if name.endswith("_")]


@pytest.mark.parametrize("parity", [False, True])
def test_nnpu_boosting_chooses_leaves_by_the_held_out_risk(parity: bool) -> None:
    """Small trees for a threshold; large ones where only three columns together tell the classes apart.

    The large ones must be better by a standard error. For the parity they are, by ten.
    """
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(3000, 3))
    y = np.prod(X, axis=1) > 0 if parity else X[:, 0] + rng.normal(size=len(X)) > 0
    s = np.zeros(len(X), int)
    s[np.flatnonzero(y)[:300]] = 1
    shared = {"prior": 0.5, "scenario": "single-sample", "n_estimators": 40, "learning_rate": 0.3, "random_state": 0}
    clf = NNPUBoostingClassifier(**shared).fit(X, s)
    risks = {}
    for leaves in (4, 31):
        one = NNPUBoostingClassifier(num_leaves=leaves, **shared).fit(X, s)
        assert one.num_leaves_ == leaves
        risks[leaves] = nnpu_risk(s, one.scores_, prior=0.5, scenario="single-sample")
    assert clf.num_leaves_ == (31 if parity else 4)
    assert (risks[31] < risks[4] - 0.05) == parity


def test_leaves_are_as_the_user_and_the_labelled_rows_say() -> None:
    """Five labelled rows forbid no leaf that the user asks for. A default tree of bagging has a floor."""
    rng = np.random.default_rng(0)
    X, s = rng.normal(size=(400, 4)), np.arange(400) < 5
    grown = NNPUBoostingClassifier(prior=0.3, num_leaves=20, min_child_samples=1, early_stopping=None, random_state=0)
    if (booster := grown.fit(X, s)).backend_ == "lightgbm":
        assert max(tree["num_leaves"] for tree in booster.model_.dump_model()["tree_info"]) == 20
    for n_p, floor in ((100, 5), (19, 1)):
        trees = BaggingPUClassifier(prior=0.3, n_estimators=5, random_state=0).fit(X, np.arange(400) < n_p).estimators_
        sizes = [tree.tree_.n_node_samples[tree.tree_.children_left == -1].min() for tree in trees]
        assert floor <= min(sizes) < floor + 3
