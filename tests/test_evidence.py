"""The comparison of stated figures with the truth: draws of labels, true figures, coverage."""

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import polars as pl
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
N = 4000


@pytest.fixture
def evidence(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """benchmarks/evidence.py, with one table made here in place of the real ones."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import evidence

    rng = np.random.default_rng(0)
    rows = pl.DataFrame({"x": rng.random(N), "y": rng.random(N) < 0.2, "number": np.arange(N)})
    table = evidence.tables.RealTable(
        "made", "here", "y", pl.col("y"), 200, "x", drop=("number",), load=lambda source: rows
    )
    monkeypatch.setattr(evidence.tables, "TABLES", (table,))
    evidence.tables.read.cache_clear()
    yield evidence
    evidence.tables.read.cache_clear()
    for name in ("evidence", "_real_tables", "_evidence_page"):
        sys.modules.pop(name, None)


def test_a_draw_marks_random_positives_and_hides_the_label(evidence: ModuleType) -> None:
    draw = evidence.tables.draw("made", 0)
    assert draw.frame.columns == ["x", "known"]
    assert draw.frame["known"].null_count() == N - 200
    assert (draw.frame["known"].is_not_null().to_numpy() == draw.labelled).all()
    assert draw.truth[draw.labelled].all()
    assert not (draw.labelled == evidence.tables.draw("made", 1).labelled).all()
    x = draw.frame["x"].to_numpy()
    assert abs(x[draw.labelled].mean() - x[draw.truth].mean()) < 0.05


def test_biased_labels_follow_the_named_column(evidence: ModuleType) -> None:
    draw = evidence.tables.draw("made", 0, biased=True)
    x = draw.frame["x"].to_numpy()
    assert draw.truth[draw.labelled].all()
    assert x[draw.labelled].mean() > x[draw.truth].mean() + 0.05


def test_case_control_leaves_a_population_without_marks(evidence: ModuleType) -> None:
    draw = evidence.tables.draw("made", 0, "case-control")
    assert (~draw.labelled).sum() == N // 2
    assert abs(draw.truth[~draw.labelled].mean() - 0.2) < 0.03


def test_claims_are_compared_with_the_truth_of_the_ranking(evidence: ModuleType) -> None:
    """600 rows, scores fall with the row number; truth and labels are such that every figure is known by hand."""
    score = -np.arange(600.0)
    truth = np.arange(600) < 160  # the first 160 rows
    labelled = np.arange(600) < 40
    draw = evidence.tables.Draw(pl.DataFrame(), truth, labelled)
    # Rows 40 to 239 are called positive, so the labelled rows above them are as well.
    candidates = pl.DataFrame({"score": score[40:], "decision": np.arange(560) < 200, "row": np.arange(41, 601)})
    old = {
        "prior": {"value": 0.3, "interval": [0.2, 0.25]},
        "metrics": [{"name": "precision", "value": 0.5, "between": [0.4, 0.7]}, {"name": "recall", "value": 0.9}],
        "review": [
            {"k": 100, "precision": 0.9, "precision_band": [0.8, 1.0], "recall": 0.8, "recall_band": [0.7, 0.9]}
        ],
    }
    claims = {item["what"]: item for item in evidence.claims_of(old, candidates, score, draw)}
    assert claims["share of positives"]["truth"] == pytest.approx(160 / 600)
    assert not evidence.covered(claims["share of positives"])
    assert claims["precision"]["truth"] == pytest.approx(160 / 240)
    assert evidence.covered(claims["precision"])
    assert claims["recall"]["truth"] == 1
    assert not evidence.bounded(claims["recall"])
    assert claims["precision of the first 100"]["truth"] == 1
    assert claims["recall of the first 100"]["truth"] == pytest.approx(100 / 120)

    new = {
        "prior": {"value": None, "low": 0.07, "high": 0.3, "evident": False},
        "metrics": [{"name": "roc_auc", "low": 0.9, "high": 0.99, "value": None}],
        "review": [
            {
                "k": 500,
                "precision_low": 0.1,
                "precision_high": 0.3,
                "recall": 1.0,
                "recall_low": 0.9,
                "recall_high": 1.0,
            }
            | {"lift": 1.1}
        ],
    }
    claims = {item["what"]: item for item in evidence.claims_of(new, candidates, score, draw)}
    assert evidence.covered(claims["share of positives"])
    assert claims["roc_auc"]["truth"] == 1
    assert not evidence.covered(claims["roc_auc"])
    assert claims["precision of the first 500"]["truth"] == pytest.approx(120 / 500)
    assert claims["lift of the first 500"]["truth"] == pytest.approx(560 / 500)


def test_measured_figures_are_compared_with_the_truth_of_their_band(evidence: ModuleType) -> None:
    """150 rows, of them 10 labelled and 60 hidden positives: rows 10 to 49 and 130 to 149 of the falling scores."""
    number = np.arange(150)
    draw = evidence.tables.Draw(pl.DataFrame(), (number < 50) | (number >= 130), number < 10)
    share = {"value": 0.5, "low": 0.4, "high": 0.6}
    depth = {"k": 100, "precision": 0.4, "recall": 0.6}
    measured = {
        "prior": share,
        "prior_if_random": None,
        "prior_by_design": share,
        "review": [depth | {f"{name}_{end}": 0.5 for name in ("precision", "recall") for end in ("low", "high")}],
        "calibration": [{"first": 101, "last": 140, "low": 0.4, "high": 0.6}],
    }
    claims = {item["what"]: item["truth"] for item in evidence.measured_claims(measured, -number.astype(float), draw)}
    assert claims == {
        "share, measured": pytest.approx(70 / 150),
        "share, measured, nothing assumed": pytest.approx(70 / 150),
        "precision of the first 100, measured": pytest.approx(0.4),
        "recall of the first 100, measured": pytest.approx(40 / 60),
        "bands of the ranking, measured": pytest.approx(20 / 40),
    }


def test_coverage_counts_what_holds(evidence: ModuleType) -> None:
    page = sys.modules["_evidence_page"]
    items = [evidence.claim("share", 0.5, low, 0.6) for low in (0.4, 0.5, 0.55)] + [
        evidence.claim("share", 0.5, None, None)
    ]
    assert page.held(page.claims([{"claims": items}])) == "2 of 3 (67%)"
    assert evidence.covered({**items[2], "chance": 0.06})
