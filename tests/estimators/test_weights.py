"""Weights of rows: what the networks learn with them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.metrics import roc_auc_score
from torch import nn

from pulab import JointPUClassifier, NaivePUClassifier, NNPUClassifier, PUbNClassifier, UPUClassifier, fit_many
from pulab.calibration import PULogisticCalibrator
from pulab.errors import InputError
from pulab.methods import METHODS
from pulab.tables import fit_table
from pulab.training import Rows, Stream, checkpoint
from pulab.training.streams import drawn_by_weight
from tests.conftest import Blobs
from tests.estimators.test_pu_contract import labels_for, make, same_weights

NETWORKS = [key for key, method in METHODS.items() if method.is_network and method.takes_weights]


def test_a_row_comes_as_often_as_its_weight_says() -> None:
    weight = np.array([0.1, 0.5, 1.0, 2.4, 6.0, 0.3])
    expected = weight / weight.mean()
    counts = np.stack(
        [np.bincount(drawn_by_weight(weight, np.random.default_rng(seed)), minlength=6) for seed in range(4000)]
    )
    assert (counts.sum(axis=1) == 6).all()
    assert (np.abs(counts - expected) < 1).all()  # rounded up or down
    assert counts.mean(axis=0) == pytest.approx(expected, abs=0.03)
    assert drawn_by_weight(np.full(1000, 0.1), np.random.default_rng(0)).tolist() == list(range(1000))


def test_a_validation_risk_is_weighted() -> None:
    rng = np.random.default_rng(0)
    weight, logits = rng.exponential(size=500), rng.normal(size=500)
    rows = Rows(logits[:, None], torch.float64, torch.device("cpu"))
    weighed = Stream(rows, torch.arange(500)[None], weight[None]).weighed(torch.from_numpy(logits)[None])
    assert weighed.mean().item() == pytest.approx(np.average(logits, weights=weight), abs=5e-3)
    assert abs(np.average(logits, weights=weight) - logits.mean()) > 0.01


def least_upu_risk(X: NDArray[Any], s: NDArray[Any], weight: NDArray[Any], prior: float) -> NDArray[Any]:
    """The linear logits that minimise the weighted uPU risk with the logistic loss, which is convex."""
    p, u = s == 1, s == 0

    def risk(theta: NDArray[Any]) -> float:
        g = X @ theta[:-1] + theta[-1]
        of_u = np.average(np.logaddexp(0, g[u]), weights=weight[u])
        return float(of_u - prior * np.average(g[p], weights=weight[p]) + 1e-2 * (theta**2).sum())

    return minimize(risk, np.zeros(X.shape[1] + 1), tol=1e-10).x


def test_a_network_minimises_the_weighted_risk() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 2))
    s = (np.arange(240) < 80).astype(int)
    X[s == 1] += 0.7
    weight = np.where(X[:, 1] > 0, 1.9, 0.1) * rng.uniform(0.5, 1.5, 240)
    wanted, plain = (least_upu_risk(X, s, w, 0.3) for w in (weight, np.ones(240)))
    torch.manual_seed(0)
    clf = UPUClassifier(prior=0.3, loss="logistic", module=nn.Linear(2, 1), validation_fraction=0, epochs=150)
    clf.set_params(optimizer="sgd", lr=0.05, lr_schedule="cosine", weight_decay=2e-2, batch_size_u=40, random_state=0)
    clf.set_params(dtype="float64").fit(X, s, weight)
    found = np.append(clf.module_.weight.detach().numpy(), clf.module_.bias.detach().numpy())
    assert found == pytest.approx(wanted, abs=0.05)
    assert np.abs(wanted - plain).max() > 0.3


@pytest.mark.parametrize("key", NETWORKS)
def test_equal_weights_change_no_bit_and_a_weight_of_zero_is_no_row(key: str, blobs: Blobs) -> None:
    y = labels_for(key, blobs)
    module = nn.Linear(5, 1)
    without = make(key, module=module).fit(blobs.X, y)
    assert same_weights(without, make(key, module=module).fit(blobs.X, y, sample_weight=np.full(len(y), 0.1)))
    kept = np.random.default_rng(0).random(len(y)) < 0.7
    fewer = make(key, module=module).fit(blobs.X[kept], y[kept])
    weighted = make(key, module=module).fit(blobs.X, y, sample_weight=kept)
    assert same_weights(fewer, weighted)
    assert fewer.history_ == weighted.history_


@pytest.mark.parametrize("key", NETWORKS)
def test_misleading_rows_of_little_weight_teach_little(key: str) -> None:
    data = Blobs("case-control")
    y = labels_for(key, data)
    X, y = np.concatenate([data.X, -data.X]), np.concatenate([y, y])
    weight = np.repeat([1.0, 0.01], len(data.X))
    clf = make(key, epochs=12)
    scores = clf.fit(X, y, sample_weight=weight).decision_function(data.X)
    assert roc_auc_score(data.y_true, scores) > 0.95
    turned = clf.fit(X, y, sample_weight=weight[::-1]).decision_function(data.X)
    assert roc_auc_score(data.y_true, turned) < 0.2


def test_labels_of_joint_are_of_all_unlabeled_rows(blobs: Blobs) -> None:
    weight = np.random.default_rng(0).choice([0.0, 0.5, 3.0], len(blobs.s))
    clf = JointPUClassifier(prior=0.4, epochs=40, random_state=0).fit(blobs.X, blobs.s, weight)
    assert clf.pseudo_labels_.shape == ((blobs.s == 0).sum(),)
    assert np.abs(clf.pseudo_labels_ - blobs.y_true[blobs.s == 0]).max() < 0.5


def test_the_floor_counts_its_prior_by_weight(blobs: Blobs) -> None:
    weight = np.where(blobs.s == 1, 3.0, 1.0)
    clf = NaivePUClassifier(epochs=1, random_state=0).fit(blobs.X, blobs.s, weight)
    assert clf.prior_ == pytest.approx(3 * 60 / (3 * 60 + 400))


def test_many_fits_and_checkpoints_know_weights(blobs: Blobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weight = np.random.default_rng(0).exponential(size=len(blobs.s))
    clf = NNPUClassifier(prior=0.4, epochs=2, random_state=0, device="cpu")
    alone = clf.fit(blobs.X, blobs.s, sample_weight=weight)
    (many,) = fit_many([clf], [{"X": blobs.X, "y": blobs.s, "sample_weight": weight}], n_jobs=1)
    assert same_weights(alone, many)
    assert not same_weights(alone, make("nnpu", epochs=2).fit(blobs.X, blobs.s))
    val = {"X_val": blobs.X, "y_val": blobs.s, "sample_weight_val": weight}
    risk = clf.fit(blobs.X, blobs.s, weight, **val).history_[-1]["val_risk"]
    assert risk != clf.fit(blobs.X, blobs.s, weight, **val | {"sample_weight_val": None}).history_[-1]["val_risk"]
    monkeypatch.setattr(checkpoint, "SECONDS", 0)
    monkeypatch.setattr(checkpoint, "LEAST", 0)
    clf.set_params(checkpoint=tmp_path)
    for w in (weight, weight, weight[::-1], None):
        clf.fit(blobs.X, blobs.s, sample_weight=w)
    assert len(list(tmp_path.iterdir())) == 3  # a file for each kind of weights


def test_weights_are_refused_where_they_cannot_be_used(blobs: Blobs) -> None:
    ones = np.ones(len(blobs.s))
    for clf in (PUbNClassifier(prior=0.4), METHODS["joint-views"].load()(prior=0.4)):
        with pytest.raises(TypeError, match="sample_weight"):
            clf.fit(blobs.X, blobs.s, sample_weight=ones)
    with pytest.raises(InputError, match="sample_weight is zero for a whole class"):
        NNPUClassifier(prior=0.4).fit(blobs.X, blobs.s, 1 - blobs.s)
    with pytest.raises(InputError, match="sample_weight_val needs X_val"):
        NNPUClassifier(prior=0.4).fit(blobs.X, blobs.s, ones, sample_weight_val=ones)
    with pytest.raises(InputError, match=r"sample_weight_val must have one number for each of the"):
        NNPUClassifier(prior=0.4).fit(blobs.X, blobs.s, X_val=blobs.X, y_val=blobs.s, sample_weight_val=[1.0])


def test_a_table_with_weights_can_have_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = NNPUClassifier._schedule
    monkeypatch.setattr(NNPUClassifier, "_schedule", lambda self, task: replace(schedule(self, task), epochs=2))
    data = Blobs("single-sample", n=300, n_labeled=60)
    table = pl.DataFrame(data.X, schema=[f"x{i}" for i in range(5)]).with_columns(
        mark=pl.Series(data.s), w=pl.Series(np.where(data.X[:, 0] > 0, 2.0, 1.0))
    )
    model = fit_table(table, "mark", weight="w", method="nnpu", prior=0.4)
    assert isinstance(model.classifier, NNPUClassifier)
    with pytest.raises(InputError, match="method, to learn with weights, must be one of"):
        fit_table(table, "mark", weight="w", method="pubn-n", prior=0.4)


def test_calibrated_probabilities_add_up_to_the_prior_by_weight() -> None:
    """Half of the rows weigh ten times as much. There the share of positives is another one."""
    rng = np.random.default_rng(0)
    heavy = rng.random(4000) < 0.5
    y = rng.random(4000) < np.where(heavy, 0.2, 0.6)
    X = np.column_stack([rng.normal(size=(4000, 2)) + 1.5 * y[:, None], heavy])
    s, weight = (y & (rng.random(4000) < 0.3)).astype(int), np.where(heavy, 10.0, 1.0)
    prior = float(np.average(y, weights=weight))
    clf = NNPUClassifier(prior=prior, scenario="single-sample", epochs=5, random_state=0, calibration=True)
    p = clf.fit(X, s, weight).predict_proba(X)[:, 1]
    assert np.average(p, weights=weight) == pytest.approx(prior, abs=0.03)
    assert p.mean() > prior + 0.06
    plain = PULogisticCalibrator(prior, "single-sample").fit(X[:, 0], s)
    ones = PULogisticCalibrator(prior, "single-sample").fit(X[:, 0], s, np.full(4000, 3.0))
    assert ones.slope_ == pytest.approx(plain.slope_, rel=1e-6)
    three = PULogisticCalibrator(prior, "single-sample").fit(np.tile(X[:, 0], 3), np.tile(s, 3))
    tripled = PULogisticCalibrator(prior, "single-sample")
    tripled.fit(np.tile(X[:, 0], 2), np.tile(s, 2), np.repeat([1, 2], 4000))
    assert tripled.slope_ == pytest.approx(three.slope_, rel=1e-2)  # the penalty weighs as one row of two or of three
