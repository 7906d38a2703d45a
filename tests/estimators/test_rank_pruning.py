"""Rank pruning: which rows are left out, what the others weigh, and that it undoes the noise."""

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from pulab import LogisticPUClassifier, RankPruningPUClassifier
from pulab.datasets import make_pu
from pulab.errors import InputError
from tests.conftest import Blobs


class Weighed(LogisticRegression):  # type: ignore[misc]
    """Keeps the rows, marks and weights that it is fitted to."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        self.fitted_to_ = X, y, sample_weight
        return super().fit(X, y, sample_weight)


@pytest.mark.parametrize(("scenario", "pruned"), [("case-control", 160), ("single-sample", 100)])
def test_as_many_rows_are_left_out_as_there_are_positives_in_u(scenario: str, pruned: int) -> None:
    """By hand: of 400 rows, .4 are positive, so 160. In a single sample 60 of them are labelled and not in U."""
    data = Blobs(scenario)
    clf = RankPruningPUClassifier(Weighed(), prior=0.4, scenario=scenario, random_state=0).fit(data.X, data.s)
    X, marks, weights = clf.model_.fitted_to_
    assert clf.n_pruned_ == pruned
    assert len(X) == len(data.X) - pruned
    assert marks.sum() == 60
    assert weights[marks == 1] == pytest.approx(160 / 60)
    assert (weights[marks == 0] == 1).all()
    seen = {row.tobytes() for row in X}
    left_out = np.array([row.tobytes() not in seen for row in data.X])
    assert not (left_out & (data.s == 1)).any()
    assert data.y_true[left_out].mean() > 0.97  # the classes lie far apart


def test_the_noise_is_undone() -> None:
    """The two Gaussians of the authors' example, four fifths of the positives unlabeled and no false positives."""
    errors: dict[str, list[float]] = {"rank-pruning": [], "logistic": [], "truth": []}
    for seed in range(3):
        rng = np.random.default_rng(seed)

        def rows(n: int, rng: Any = rng) -> tuple[Any, Any]:
            negative = rng.multivariate_normal([2, 2], [[10, -1.5], [-1.5, 5]], 2 * n)
            positive = rng.multivariate_normal([5, 5], [[1.5, 1.3], [1.3, 4]], n)
            return np.concatenate([negative, positive]), np.repeat([0, 1], [2 * n, n])

        (X, y), (unseen, truth) = rows(500), rows(1000)
        pu = make_pu(X, y, n_labeled=100, scenario="single-sample", random_state=seed)
        shared = {"prior": pu.prior, "scenario": "single-sample", "random_state": 0}
        for name, cls in (("rank-pruning", RankPruningPUClassifier), ("logistic", LogisticPUClassifier)):
            errors[name].append(1 - cls(**shared).fit(pu.X, pu.s).score(unseen, truth))
        errors["truth"].append(1 - LogisticRegression().fit(X, y).score(unseen, truth))
    mean = {name: float(np.mean(values)) for name, values in errors.items()}
    assert mean["rank-pruning"] < mean["truth"] + 0.03


def test_a_classifier_without_weights_is_refused() -> None:
    data = Blobs("case-control")
    with pytest.raises(InputError, match=r"weights need an estimator .* got KNeighborsClassifier"):
        RankPruningPUClassifier(KNeighborsClassifier(), prior=0.4).fit(data.X, data.s)
