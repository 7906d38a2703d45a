"""Labelling that depends on a named column."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from pulab.cli.app import app
from pulab.errors import InputError
from pulab.report._words import assumption
from pulab.review import Answers, measured
from pulab.tables import TableModel, fit_table
from pulab.tables._prepare import prepare
from pulab.tables._review import with_answers
from pulab.tables._strata import Box, Counted, check_strata, learn_strata, stratum_of, without_labels

PLACES = ["north", "south"]


class Biased:
    """Positives in the north are labelled with a chance of .6, those in the south with .1, where the model is worse."""

    def __init__(self, n: int = 3000, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        north = rng.random(n) < 0.5
        self.y = rng.random(n) < 0.3
        self.labelled = self.y & (rng.random(n) < np.where(north, 0.6, 0.1))
        x = rng.normal(size=n) + np.where(north, 2.5, 0.8) * self.y
        z = rng.normal(size=n) + 0.5 * self.y
        place = np.where(north, *PLACES)
        self.frame = pl.DataFrame({"id": np.arange(n) + 7, "x": x, "z": z, "place": place, "known": self.labelled})

    def recall(self, model: TableModel, k: int) -> float:
        rows = model.candidates["id"].to_numpy()[:k] - 7
        return float(self.y[rows].sum() / (self.y & ~self.labelled).sum())


@pytest.fixture(scope="module")
def biased() -> Biased:
    return Biased()


@pytest.fixture(scope="module")
def model(biased: Biased) -> TableModel:
    return fit_table(biased.frame, "known", id="id", method="elkan-noto", labelled_by=["place"])


def point(model: TableModel, k: int) -> Any:
    return next(item for item in model.summary["review"] if item["k"] == k)


def test_the_recall_of_a_biased_table_is_covered_only_if_the_column_is_named(biased: Biased, model: TableModel) -> None:
    plain = fit_table(biased.frame, "known", id="id", method="elkan-noto")
    missed = [k for k in (300, 500) if not _covers(point(plain, k), biased.recall(plain, k))]
    assert missed == [300, 500]
    assert all(_covers(point(model, k), biased.recall(model, k)) for k in (100, 300, 500))
    prior = model.summary["prior"]
    assert prior["value"] is None
    assert prior["low"] < biased.y.mean() < prior["high"]


def _covers(found: Any, truth: float) -> bool:
    return bool(found["recall_low"] <= truth <= found["recall_high"])


def test_rows_that_are_rarely_labelled_rank_higher_if_the_column_is_named(biased: Biased, model: TableModel) -> None:
    plain = fit_table(biased.frame, "known", id="id", method="elkan-noto")
    south = [(part.candidates["place"].head(400) == "south").sum() for part in (plain, model)]
    assert south[1] > south[0] + 20
    assert biased.recall(model, 400) > biased.recall(plain, 400)


def test_a_known_prior_narrows_the_range(biased: Biased, model: TableModel) -> None:
    share = float(biased.y.mean())
    told = fit_table(biased.frame, "known", id="id", method="elkan-noto", labelled_by=["place"], prior=share)
    found, free = point(told, 500), point(model, 500)
    assert found["recall_high"] - found["recall_low"] < 0.8 * (free["recall_high"] - free["recall_low"])
    assert _covers(found, biased.recall(told, 500))
    n_hits = biased.y[told.candidates["id"].to_numpy()[:500] - 7].sum()
    assert 0.1 < found["precision_low"] <= n_hits / 500 <= found["precision_high"]


def test_a_known_prior_of_the_table_is_not_known_of_its_strata(biased: Biased) -> None:
    told = fit_table(biased.frame, "known", id="id", method="elkan-noto", labelled_by=["place"], prior=0.3)
    assert point(told, 500)["precision"] is None
    assert all(
        item["value"] is None for item in told.summary["metrics"] if item["name"] not in ("separation", "recall")
    )
    scores = told.score(biased.frame)
    assert scores["probability"].null_count() == scores["decision"].null_count() == scores.height
    assert (scores["probability_low"].mean() or 1) < 0.3 < (scores["probability_high"].mean() or 0)
    assert "not known for each group: say how many rows" in told.summary["decision"]["why"]
    with pytest.raises(InputError, match="for each group of rows"):
        told.predict_proba(biased.frame)


def test_the_range_of_a_mean_is_that_of_all_numbers_in_the_box() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        low = rng.integers(0, 5, 3).astype(float)
        high = low + rng.integers(1, 8, 3)
        total = (low.sum() + 2.0, high.sum() - 1.0)
        shares = rng.random(3)
        parts = [(share, share, share) for share in shares]
        grid = np.stack(np.meshgrid(*(np.arange(a, b + 1) for a, b in zip(low, high, strict=True))), -1).reshape(-1, 3)
        grid = grid[(grid.sum(axis=1) >= total[0]) & (grid.sum(axis=1) <= total[1])]
        box = Box(low, high, grid[0], total)
        # The ends are at whole numbers, because all limits are.
        means = grid @ shares / grid.sum(axis=1)
        assert box.mean(parts)[1:] == pytest.approx((means.min(), means.max()))
        assert box.sums(parts) == pytest.approx(((grid @ shares).min(), (grid @ shares).max()))


def test_odds_of_being_labelled_limit_how_unequal_strata_are() -> None:
    labelled, zero = np.array([10.0, 10.0]), np.zeros(2)
    parts = [(0.0, 0.0, 0.0), (1.0, 1.0, 1.0)]
    free = Box(zero, np.array([1e4, 1e4]), labelled, (0.0, 2e4))
    assert free.mean(parts) == pytest.approx((0.5, 0.0, 1.0))
    assert free._replace(labelled=labelled).mean(parts) == pytest.approx((0.5, 1 / 21, 20 / 21))


def test_numbers_of_positives_are_covered_in_each_stratum(biased: Biased) -> None:
    data = prepare(biased.frame, "known", id="id", labelled_by=["place"])
    assert data.strata is not None
    of_row = stratum_of(data.strata, data.conformed)
    counted = Counted.of(biased.frame["x"].to_numpy(), biased.labelled, of_row)
    truth = np.bincount(of_row[biased.y])
    assert (counted.low <= truth).all()
    assert (truth <= counted.high).all()
    assert [item["name"] for item in counted.summary(data.strata)] == ["place = north", "place = south"]
    assert counted.offset[0] < 0 < counted.offset[1]


def test_a_saved_model_corrects_the_scores_of_a_new_file(biased: Biased, model: TableModel, tmp_path: Path) -> None:
    loaded = TableModel.load(model.save(tmp_path / "model"))
    new = pl.DataFrame({"x": [1.0] * 3, "z": [1.0] * 3, "place": ["north", "south", "abroad"]})
    new.write_csv(tmp_path / "new.csv")
    scores = loaded.score(tmp_path / "new.csv")
    assert scores.equals(model.score(new))
    assert ((scores["probability_low"] <= scores["probability_high"]) & (scores["probability_high"] <= 1)).all()
    offset = (loaded.probabilities.strata or {"offset": []})["offset"]
    assert offset[2] == 0  # a place that the fit has not seen
    raw = model.classifier.raw_scores(_numbers(model, new))
    assert scores["score"].to_numpy() == pytest.approx(raw + np.array(offset))
    with pytest.raises(InputError, match="'place'"):
        loaded.score(new.drop("place"))


def _numbers(model: TableModel, frame: pl.DataFrame) -> Any:
    from pulab.tables._columns import conform

    return model.features.filled(model.features(conform(frame, model.features.columns, "a frame")))


@pytest.mark.parametrize(
    "change", [{"offset": [0.0]}, {"low": [-1.0, 1.0, 1.0]}, {"stratum_of": [0, 9, 0]}, {"strata": 3}]
)
def test_damaged_strata_are_refused(model: TableModel, change: dict[str, Any]) -> None:
    strata = json.loads(json.dumps(model.probabilities.strata))
    assert check_strata(strata) == strata
    with pytest.raises(ValueError, match="strata"):
        check_strata(strata | change)


def test_numbers_gaps_and_rare_words_have_strata(biased: Biased) -> None:
    rng = np.random.default_rng(3)
    age = pl.Series("age", rng.integers(18, 90, 3000).astype(float)).set(pl.Series(rng.random(3000) < 0.2), None)
    plan = pl.Series("plan", rng.choice(["a", "b", "c", "d"], 3000, p=[0.6, 0.39, 0.005, 0.005]))
    data = prepare(biased.frame.with_columns(age, plan), "known", id="id", labelled_by=["age"])
    assert data.strata is not None
    of_row = stratum_of(data.strata, data.conformed)
    assert np.bincount(of_row).tolist()[-1] == age.null_count()
    assert max(np.bincount(of_row)) < 1.2 * min(np.bincount(of_row))
    days = pl.Series("age", np.datetime64("2024-01-01") + np.arange(3000) % 400)
    by_day = prepare(biased.frame.with_columns(days), "known", id="id", labelled_by=["age"])
    assert by_day.strata is not None
    counted = Counted.of(rng.random(3000), by_day.labelled, stratum_of(by_day.strata, by_day.conformed))
    assert counted.summary(by_day.strata)[0]["name"] == "age up to 2024-04-03"
    of_plan = learn_strata(["plan"], data.conformed, data.columns, data.labelled)
    assert of_plan["strata"] == 2  # c and d have too few labelled rows, and join the smallest
    silent = data.labelled & (plan != "b").to_numpy()
    assert (
        "38% of the rows have values with which no row is labelled, such as plan = b"
        in (without_labels(of_plan, data.conformed, silent)[0])
    )
    assert not data.warnings


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labelled_by": ["plase"]}, "no column 'plase' for labelled_by. Did you mean 'place'"),
        ({"labelled_by": "place"}, r"Pass \['place'\]"),
        ({"labelled_by": ["known"]}, "the label or the id"),
        ({"labelled_by": ["id"]}, "the label or the id"),
        ({"labelled_by": ["name"]}, "3,000 different values|another word in every row"),
        ({"labelled_by": ["street"]}, "100 different values"),
        ({"labelled_by": ["place"], "drop": ["place"]}, "it was to be dropped"),
        ({"labelled_by": ["place"], "scenario": "case-control"}, "single-sample"),
        ({"labelled_by": ["rare"]}, "10 labelled rows in each of two groups"),
    ],
)
def test_columns_that_labelling_cannot_depend_on(biased: Biased, options: dict[str, Any], message: str) -> None:
    n = biased.frame.height
    words = {"name": [f"n{i}" for i in range(n)], "street": [f"s{i % 100}" for i in range(n)]}
    rare = pl.Series("rare", np.where(np.arange(n) == 5, "yes", "no"))
    frame = biased.frame.with_columns(rare, **{name: pl.Series(values) for name, values in words.items()})
    with pytest.raises(InputError, match=message):
        fit_table(frame, "known", id="id", method="elkan-noto", **options)


def test_the_assumption_is_said(biased: Biased, model: TableModel, tmp_path: Path) -> None:
    assert "with similar values of 'place'" in assumption(model.summary)
    assert "with similar values of place" in model.report()
    biased.frame.write_csv(tmp_path / "t.csv")
    arguments = ["fit", str(tmp_path / "t.csv"), "--label", "known", "--id", "id", "--method", "elkan-noto"]
    result = CliRunner().invoke(app, [*arguments, "--labelled-by", "place", "--out", str(tmp_path / "model")])
    assert result.exit_code == 0, result.output
    assert "with similar values of 'place'" in " ".join(result.stdout.split())
    plain = fit_table(biased.frame, "known", id="id", method="elkan-noto")
    what_if = (plain.summary["labelling"] or {"what_if": None})["what_if"]
    assert what_if is not None
    assert "--labelled-by" in assumption(plain.summary)
    assert what_if["low"] < point(plain, what_if["k"])["recall"] < what_if["high"]


def test_answers_of_a_review_limit_the_numbers_of_all_strata(biased: Biased, model: TableModel) -> None:
    assert model.draw is not None
    rows = model.draw.frame["id"].to_numpy()[:100] - 7
    answers = Answers(model.draw, [(i, "yes" if biased.y[row] else "no") for i, row in enumerate(rows)])
    found = measured(answers, model.summary)
    assert found is not None
    reviewed = with_answers(model, found, ())
    before, after = (part.score(biased.frame)["probability_low"].to_numpy().mean() for part in (model, reviewed))
    assert before < after  # more positives are certain
    assert point(reviewed, 150)["precision"] is None
    assert reviewed.candidates.columns == model.candidates.columns
    assert "does not rest on that" in assumption(reviewed.summary)
    assert "None" not in reviewed.report()
