"""LBE: a step and an E-step in plain Python, and what it finds where labels depend on the row."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pulab
from pulab import LBEClassifier, PulabWarning
from pulab.estimators._lbe import LBEObjective
from pulab.training import Batch, RandomSource
from tests.conftest import Blobs


def sigmoid(g: float) -> float:
    return 1 / (1 + math.exp(-g))


def forward(x: Tensor, teacher: bool) -> Tensor:
    """The two features of a row are its two logits."""
    assert not teacher
    return x


def test_steps_written_out() -> None:
    rng = np.random.default_rng(0)
    p, u, share, keep = rng.normal(size=(3, 2)) + 1, rng.normal(size=(7, 2)), 0.3, 0.8
    rows = {name: torch.from_numpy(z)[None] for name, z in (("p", p), ("u", u))}
    positions = {"p": torch.arange(3)[None], "u": torch.tensor([[6, 0, 1, 2, 3, 4, 5]])}
    batch = Batch(forward, rows, rows, positions, RandomSource([0], torch.device("cpu"), torch.float64))
    numbers = {"share": torch.tensor([share], dtype=torch.float64)}
    objective = LBEObjective(torch.zeros(1, 7, dtype=torch.float64), 1, keep, **numbers)

    objective.begin_epoch(1)
    warm = objective.step(batch).terms
    for i, (name, weight) in enumerate((("classifier", 0.5), ("labelling", share))):
        of_p, of_u = (-math.log(sigmoid(z)) for z in p[:, i]), (-math.log(sigmoid(-z)) for z in u[:, i])
        assert warm[name].item() == pytest.approx(weight * sum(of_p) / 3 + (1 - weight) * sum(of_u) / 7)
    assert batch.positive_share is not None
    assert batch.positive_share.item() == pytest.approx(np.mean([sigmoid(z) for z in u[:, 0]]))

    objective.begin_epoch(2)
    terms = objective.step(batch).terms
    y = [sigmoid(h) * (1 - sigmoid(e)) / (1 - sigmoid(h) * sigmoid(e)) for h, e in u]
    assert objective.memory["posterior"][0].tolist() == pytest.approx([*y[1:], y[0]])  # in the order of the stream
    priced = [(-math.log(sigmoid(h)), share / 3) for h, _ in p]
    priced += [
        (-yi * math.log(sigmoid(h)) - (1 - yi) * math.log(sigmoid(-h)), (1 - share) / 7)
        for yi, (h, _) in zip(y, u, strict=True)
    ]
    best = sorted(priced)[:8]
    assert terms["classifier"].item() == pytest.approx(sum(loss * w for loss, w in best) / sum(w for _, w in best))
    labelled = share * sum(-math.log(sigmoid(e)) for _, e in p) / 3
    labelled += (1 - share) * sum(-yi * math.log(1 - sigmoid(e)) for yi, (_, e) in zip(y, u, strict=True)) / 7
    assert terms["labelling"].item() == pytest.approx(labelled)


def test_the_chance_of_a_label_is_found_where_it_depends_on_the_row(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """Classes far apart along one feature; labels are rare on one side of another feature."""
    rng = np.random.default_rng(0)
    n = 3000
    y = rng.random(n) < 0.5
    side = rng.normal(size=n)
    X = np.stack([np.where(y, 2.5, -2.5) + rng.normal(size=n), side], axis=1)
    chance = np.where(side > 0, 0.7, 0.15)
    s = (y & (rng.random(n) < chance)).astype(int)
    net = nn.Linear(2, 1)  # the assumption that tells h from η
    clf = LBEClassifier(scenario="single-sample", module=net, lr=0.02, epochs=30, random_state=0, device="cpu").fit(
        X, s
    )
    assert clf.score(X, y) > 0.93
    found = [clf.propensity(X[y & part]).mean() for part in (side > 0.5, side < -0.5)]
    assert found[0] - found[1] > 0.3
    assert clf.predict_proba(X)[:, 1].mean() == pytest.approx(0.5, abs=0.1)
    again = pulab.load(pulab.save(clf, tmp_path / "model"), module=net)
    assert np.array_equal(again.predict_proba(X), clf.predict_proba(X))
    assert np.array_equal(again.propensity(X), clf.propensity(X))


def test_few_labels_do_not_make_everything_negative() -> None:
    data, unseen = Blobs("case-control", n=1500, n_labeled=40), Blobs("case-control", seed=1)
    clf = LBEClassifier(random_state=0, epochs=20, device="cpu").fit(data.X, data.s)
    assert clf.score(unseen.X, unseen.y_true) > 0.95


def test_the_kept_epoch_predicts_best_who_is_labelled(blobs: Blobs) -> None:
    other = Blobs("case-control", seed=3)
    clf = LBEClassifier(epochs=8, random_state=0, dtype="float64", device="cpu")
    clf.fit(blobs.X, blobs.s, X_val=other.X, y_val=other.s)
    risks = [record["val_risk"] for record in clf.history_]
    assert clf.best_epoch_ == 1 + int(np.argmin(risks))
    h, eta = clf.predict_proba(other.X)[:, 1], clf.propensity(other.X)
    of_p, of_u = np.log(h * eta)[other.s == 1], np.log(1 - h * eta)[other.s == 0]
    share = (blobs.s == 1).mean()
    assert min(risks) == pytest.approx(-share * of_p.mean() - (1 - share) * of_u.mean())


def test_without_an_e_step_there_is_a_warning(blobs: Blobs) -> None:
    with pytest.warns(PulabWarning, match="there is no E-step"):
        LBEClassifier(epochs=2, warm_start_epochs=2, device="cpu").fit(blobs.X, blobs.s)
