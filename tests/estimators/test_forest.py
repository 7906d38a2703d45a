"""PU extra trees: the risk of a split, gaps, fidelity to a tree that is grown node by node, and sound files."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pulab import PUForestClassifier
from pulab.errors import InputError, ModelFileError
from pulab.estimators._pu_trees import LEAF, Grower, PUTrees, risk
from pulab.persistence import load_model, save_model
from tests.conftest import Blobs
from tests.test_persistence import copied


def grower(X: Any, positive: Any, scenario: str = "case-control", prior: float = 0.4, **change: Any) -> Grower:
    settings = {"n_tried": X.shape[1], "min_leaf": 1, "max_depth": None}
    return Grower(X, positive, prior, scenario, **settings | change)


def test_the_risk_of_a_node_is_the_least_pu_risk_of_any_constant() -> None:
    """The paper: loss (1 − v·y)², R(c) = w_P·ℓ(c, 1) + max(w_U·ℓ(c, −1) − w_P·ℓ(c, −1), 0), over a fine grid of c."""
    for w_p, w_u in ((0.1, 0.5), (0.2, 0.3), (0.3, 0.3), (0.4, 0.1), (0.0, 0.2), (0.1, 0.0)):
        c = np.linspace(-1, 1, 20_001)
        least = (w_p * (1 - c) ** 2 + max(w_u - w_p, 0) * (1 + c) ** 2).min()
        assert risk(np.array(w_p), np.array(w_u)) == pytest.approx(least, abs=1e-8)
    assert risk(np.array(0.1), np.array(0.5)) == pytest.approx(4 * 0.5 * 0.2 * 0.8)  # by hand


@pytest.mark.parametrize("scenario", ["case-control", "single-sample"])
@pytest.mark.parametrize("gaps", [False, True])
def test_every_split_is_the_best_of_those_that_were_tried(scenario: str, gaps: bool) -> None:
    """Binary features leave one threshold for each, and all are tried. So a tree follows node by node from the risk."""
    rng = np.random.default_rng(0)
    y = rng.random(300) < 0.4
    X = (rng.random((300, 6)) < np.where(y[:, None], np.linspace(0.5, 0.9, 6), 0.4)).astype(float)
    positive = y & (rng.random(300) < 0.5)
    if gaps:
        X[rng.random(X.shape) < 0.2] = np.nan
    trees = grower(X, positive, scenario).forest(1, rng)
    trees.check()
    n_p, n_population = positive.sum(), 300 if scenario == "single-sample" else 300 - positive.sum()

    def weights(rows: Any) -> tuple[float, float]:
        in_population = len(rows) if scenario == "single-sample" else (~positive[rows]).sum()
        return 0.4 * positive[rows].sum() / n_p, in_population / n_population

    def node_risk(rows: Any) -> float:
        w_p, w_u = weights(rows)
        return 0.0 if w_p >= w_u else 4 * w_p * (w_u - w_p) / w_u

    left_of = [(np.array([0]), np.arange(300))]
    visited = 0
    while left_of:
        (node,), rows = left_of.pop()
        visited += 1
        w_p, w_u = weights(rows)
        assert trees.share[node] == pytest.approx(1.0 if w_p >= w_u else w_p / w_u)
        splits = {}
        for j in range(6):
            value = X[rows, j]
            for to_left in (False, True):
                goes = (value == 0) | (np.isnan(value) & to_left)
                if 0 < goes.sum() < len(rows):
                    splits[j, to_left] = node_risk(rows[goes]) + node_risk(rows[~goes])
        if trees.left[node] == LEAF:
            assert node_risk(rows) == 0 or not splits
            continue
        j = trees.feature[node]
        goes = (X[rows, j] <= trees.threshold[node]) | (np.isnan(X[rows, j]) & trees.gaps_left[node])
        assert node_risk(rows[goes]) + node_risk(rows[~goes]) == pytest.approx(min(splits.values()))
        left_of += [
            (np.array([trees.left[node]]), rows[goes]),
            (np.array([trees.right[node]]), rows[~goes]),
        ]
    assert visited == len(trees.share)


def test_thresholds_lie_between_the_values_and_features_are_drawn() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=500), np.full(500, 3.0), rng.normal(size=500) * 1e300])
    positive = (X[:, 0] > 1) & (rng.random(500) < 0.5)
    trees = grower(X, positive, n_tried=1).forest(30, rng)
    used = trees.feature[trees.left != LEAF]
    assert set(used) == {0, 2}  # never the constant one, though it is drawn
    at_root = trees.roots[trees.feature[trees.roots] == 0]
    assert len(np.unique(trees.threshold[at_root])) == len(at_root) > 5
    assert X[:, 0].min() <= trees.threshold[at_root].min() <= trees.threshold[at_root].max() < X[:, 0].max()


def test_depth_and_leaves_are_limited() -> None:
    data = Blobs("single-sample")
    X = data.X + 4 * np.random.default_rng(0).normal(size=data.X.shape)
    stump = grower(X, data.s == 1, max_depth=1).forest(1, np.random.default_rng(0))
    assert len(stump.share) == 3
    trees = grower(X, data.s == 1, min_leaf=30).forest(3, np.random.default_rng(0))
    for root in trees.roots:
        assert min(np.bincount(trees._leaves(X, root))[np.unique(trees._leaves(X, root))]) >= 30
    wide = np.random.default_rng(0).normal(size=(len(X), 100))  # more columns than a permutation is drawn for
    wide[:, 7] = X[:, 0]
    assert len(grower(wide, data.s == 1, n_tried=10).forest(1, np.random.default_rng(0)).share) > 3


def test_gaps_that_tell_are_used() -> None:
    rng = np.random.default_rng(0)
    y = rng.random(1000) < 0.4
    X = np.where(y & (rng.random(1000) < 0.9), np.nan, rng.normal(size=1000))[:, None]
    s = (y & (rng.random(1000) < 0.4)).astype(int)
    clf = PUForestClassifier(n_estimators=20, prior=0.4, scenario="single-sample", random_state=0).fit(X, s)
    assert clf.score(X, y.astype(int)) > 0.9


def test_bad_parameters_and_columns() -> None:
    data = Blobs("single-sample")
    for name in ("n_estimators", "max_features", "min_samples_leaf", "max_depth"):
        with pytest.raises(InputError, match=f"{name} must be a whole number"):
            PUForestClassifier(prior=0.4, **{name: 0}).fit(data.X, data.s)
    trees = grower(data.X, data.s == 1).forest(1, np.random.default_rng(0))
    with pytest.raises(InputError, match="these trees know 5 features, got 4"):
        trees(data.X[:, :4])


LIES: dict[str, Any] = {
    "a child that points back": lambda t: t.left.__setitem__(0, 0),
    "a child outside": lambda t: t.right.__setitem__(0, 10**6),
    "an unknown feature": lambda t: t.feature.__setitem__(0, 99),
    "more features than the table has": lambda t: setattr(t, "n_features", 99),
    "a share of 7": lambda t: t.share.__setitem__(-1, 7.0),
    "a share that is no number": lambda t: t.share.__setitem__(-1, np.nan),
    "a root outside": lambda t: t.roots.__setitem__(0, 10**6),
    "no roots": lambda t: setattr(t, "roots", t.roots[:0]),
    "shorter arrays": lambda t: setattr(t, "threshold", t.threshold[:-1]),
    "words": lambda t: setattr(t, "feature", t.feature.astype(str)),
}


@pytest.mark.parametrize("lie", LIES)
def test_forged_trees_are_refused(lie: str, tmp_path: Path) -> None:
    data = Blobs("single-sample")
    clf = PUForestClassifier(n_estimators=2, prior=0.4, scenario="single-sample", random_state=0).fit(data.X, data.s)
    assert isinstance(clf.trees_, PUTrees)
    LIES[lie](clf.trees_)
    save_model(clf, tmp_path / "model")
    with pytest.raises(ModelFileError):
        load_model(tmp_path / "model")


def test_trees_without_an_array_are_refused(tmp_path: Path) -> None:
    data = Blobs("single-sample")
    clf = PUForestClassifier(n_estimators=2, prior=0.4, scenario="single-sample", random_state=0).fit(data.X, data.s)
    folder = copied(save_model(clf, tmp_path / "model"), tmp_path / "forged")
    from tests.test_persistence import signed

    document = json.loads((folder / "model.json").read_text())
    del document["model"]["object"]["state"]["trees_"]["object"]["state"]["share"]
    signed(folder, document)
    with pytest.raises(ModelFileError):
        load_model(folder)
