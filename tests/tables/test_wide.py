"""Tables with many columns: no work grows with the square of their number, and the summary says what was done."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from pulab.errors import InputError
from pulab.tables import TableModel, _importances, fit_table
from pulab.tables._giveaways import SHOWN, Evidence, warnings_of
from pulab.tables._importances import MOST, Part, importances, leading

PLANTED = (3, 150, 390)


def wide(columns: int, rows: int = 300) -> pl.DataFrame:
    """Numbers, of which three tell positives; half of these are labelled."""
    rng = np.random.default_rng(0)
    y = rng.random(rows) < 0.4
    X = rng.normal(size=(rows, columns))
    X[:, PLANTED] += 2.5 * y[:, None]
    known = (y & (rng.random(rows) < 0.5)).astype(int)
    return pl.DataFrame(X, schema=[f"x{i}" for i in range(columns)]).with_columns(known=known)


class Counting:
    """A linear score that counts the rows that it is asked about."""

    def __init__(self, weights: Any) -> None:
        self.weights, self.calls, self.rows = weights, 0, 0

    def __call__(self, X: Any) -> Any:
        self.calls, self.rows = self.calls + 1, self.rows + len(X)
        return X @ self.weights


def planted(width: int, at: Any, rows: int = 400) -> tuple[list[Part], list[Counting]]:
    """Two folds of normal numbers, with models that use some columns more than others."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, width))
    weights = np.full(width, 1e-4)
    weights[at] = 1.0
    labelled = X @ weights > 1
    models = [Counting(weights), Counting(weights)]
    folds = np.arange(0, rows, 2), np.arange(1, rows, 2)
    return [Part(X, labelled, own, model) for own, model in zip(folds, models, strict=True)], models


def test_the_work_grows_with_the_logarithm_of_the_number_of_columns() -> None:
    """Sixteen times as many columns take four more rounds of at most 2 · MOST groups, not 16 times as many passes."""
    passes = []
    for width in (400, 6400):
        parts, models = planted(width, [7, 90, 399])
        groups = {f"x{i}": [i] for i in range(width)}
        names = leading(parts, groups, 0)
        importances(parts, {name: groups[name] for name in names}, np.random.default_rng(0))
        assert len(names) == MOST
        assert sum(model.calls for model in models) <= 2 * (MOST + 2 + (1 + width // 400) * 6)
        passes.append(sum(model.rows for model in models))
    rounds = 2 * 2 * MOST * 2 * _importances.SEARCHED  # rows of a round in both folds
    assert passes[1] - passes[0] <= 4 * rounds


@pytest.mark.parametrize("width", [101, 150, 201, 1000])
def test_the_search_finds_the_columns_that_move_the_scores(width: int) -> None:
    at = [0, 1, 57, 99, width - 1]
    parts, _ = planted(width, at)
    names = leading(parts, {f"x{i}": [i] for i in range(width)}, 0)
    assert {f"x{i}" for i in at} <= set(names)
    assert len(names) == len(set(names)) == MOST
    assert names == sorted(names, key=lambda name: int(name[1:]))  # the order of the table


def test_the_search_and_the_shuffling_leave_the_rows_as_they_were() -> None:
    parts, _ = planted(300, [5])
    before = parts[0].X.copy()
    groups = {f"x{i}": [i] for i in range(300)}
    importances(parts, {name: groups[name] for name in leading(parts, groups, 0)}, np.random.default_rng(0))
    np.testing.assert_array_equal(parts[0].X, before)


def test_importance_is_the_fall_of_the_auc_when_a_column_is_shuffled() -> None:
    """Written out with copies, for columns of one number and of two; a column that no model uses has none."""
    rng = np.random.default_rng(1)
    X, weights = rng.normal(size=(60, 4)), np.array([1.0, 0.5, -0.8, 0.0])
    labelled = X @ weights + rng.normal(size=60) > 0.5
    groups = {"one": [0], "two": [1, 2], "unused": [3]}
    found = importances([Part(X, labelled, np.arange(60), Counting(weights))], groups, np.random.default_rng(5))
    order = np.concatenate([np.flatnonzero(labelled), np.flatnonzero(~labelled)])
    again, rows, marks = np.random.default_rng(5), X[order], labelled[order]

    def auc(scores: Any) -> float:
        return float((scores[marks][:, None] > scores[~marks]).mean())

    falls = {}
    for name, own in groups.items():
        shuffled = rows.copy()
        shuffled[:, own] = shuffled[again.permutation(60)][:, own]
        falls[name] = auc(rows @ weights) - auc(shuffled @ weights)
    assert {item["name"]: item["importance"] for item in found} == pytest.approx(falls)
    assert falls["unused"] == 0 < falls["two"]


def rows_of(page: str, section: str) -> list[str]:
    """The columns that a section of the page lists."""
    (text,) = re.findall(rf'<section id="{section}">(.*?)</section>', page, re.DOTALL)
    return re.findall(r'<th scope="row">(?:<[^>]*>)*([xc]\d+)<', text)


@pytest.fixture
def scored(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of rows that models of folds are asked about, one by one, for importances and reasons."""
    asked: list[int] = []
    original = _importances.replaced

    def counting(score: Any, X: Any, own: Any, values: Any) -> Any:
        asked.append(len(X))
        return original(score, X, own, values)

    monkeypatch.setattr("pulab.tables._importances.replaced", counting)
    monkeypatch.setattr("pulab.tables._reasons.replaced", counting)
    return asked


def test_a_fit_to_a_wide_table_says_what_it_did(tmp_path: Path, scored: list[int]) -> None:
    """This method has reasons by occlusion: they come from the columns that were searched out, too."""
    frame = wide(400)
    model = fit_table(frame, "known", method="one-class-svm")
    assert (
        len(scored) == 5 * 3 * MOST
    )  # importances, and reasons of candidates and of rows to review: no call for others
    features = [item["name"] for item in model.summary["features"]]
    assert len(features) == MOST
    assert {f"x{i}" for i in PLANTED} <= set(features)
    text = model.summary["wide"]
    assert text is not None
    assert "learned from 400 columns. Only 100 of them" in text
    assert "other 300 columns is not known" in text
    assert text.endswith("No reason names them.")
    reasons = model.candidates["reason_1"].drop_nulls().str.extract(r"^(x\d+) = ").to_list()
    assert set(reasons) <= set(features)
    loaded = TableModel.load(model.save(tmp_path / "model"))
    assert loaded.summary == model.summary
    page = loaded.report()
    assert text in page
    assert len(set(rows_of(page, "features"))) == MOST
    assert len(set(rows_of(page, "columns"))) == 200
    assert rows_of(page, "columns")[:MOST] == rows_of(page, "features")  # the columns that matter come first
    assert "400 in all" in page.replace("\n", " ")
    assert "Here are 200:" in page


def test_reasons_that_need_no_predictions_come_from_all_columns() -> None:
    text = fit_table(wide(400), "known", method="elkan-noto").summary["wide"]
    assert text is not None
    assert "No reason names them" not in text


def test_a_narrow_table_has_all_columns_and_no_such_sentence() -> None:
    model = fit_table(wide(400).select(*(f"x{i}" for i in range(MOST)), "known"), "known", method="elkan-noto")
    assert model.summary["wide"] is None
    assert len(model.summary["features"]) == MOST
    assert "shuffled one by one" not in model.report()


def test_a_thousand_constant_columns_are_one_error_or_left_out() -> None:
    known = wide(400).get_column("known")
    constant = pl.DataFrame({f"c{i}": [1.0] * len(known) for i in range(1000)}).with_columns(known)
    with pytest.raises(InputError, match="no column to learn from"):
        fit_table(constant, "known")
    model = fit_table(constant.with_columns(wide(400)["x3"]), "known", method="elkan-noto")
    assert [item["name"] for item in model.summary["features"]] == ["x3"]
    assert rows_of(model.report(), "columns") == ["x3", *(f"c{i}" for i in range(199))]


def test_a_table_that_cannot_fit_into_the_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 rows of 2 columns of words (30 numbers each) and one number: 61 numbers, three times, and two encoders."""
    words = [f"word {i % 50} here" for i in range(1000)]
    frame = pl.DataFrame({"a": words, "b": words[::-1], "n": np.arange(1000) ** 0.5, "known": np.arange(1000) % 3 == 0})
    needed = 3 * 4 * 1000 * 61 + 2 * 0.7e6
    monkeypatch.setattr("pulab.tables._features._memory", lambda: needed - 1)
    with pytest.raises(InputError, match=r"3 columns, 2 of them with many different words, become 61 numbers in each"):
        fit_table(frame, "known", method="elkan-noto")
    monkeypatch.setattr("pulab.tables._features._memory", lambda: needed)
    assert fit_table(frame, "known", method="elkan-noto").summary["wide"] is None


def test_many_columns_that_give_the_label_away_are_told_once() -> None:
    found = [Evidence(f"c{i}", "have 1", 50, 0) for i in range(3 * SHOWN)]
    warnings = warnings_of(found, np.arange(200) < 50)
    assert len(warnings) == SHOWN + 1
    assert warnings[-1].startswith(f"{2 * SHOWN} more columns probably give the label away")
    assert warnings[-1].endswith(", ….")  # not all of them are named
