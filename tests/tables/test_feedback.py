"""Answers of a person in the next fit: what is learned from them, and what they must not change."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from pulab.errors import InputError
from pulab.priors import PriorEstimate
from pulab.review import Answers, measured, open_log
from pulab.review.design import Drawn
from pulab.summary import Summary
from pulab.tables import TableModel, fit_table
from pulab.tables import _evaluate as evaluate
from pulab.tables._crossfit import CrossFit, Views
from pulab.tables._prepare import prepare
from pulab.tables._review import like_the_open
from pulab.tables._reviewed import with_reviewed

from ..cli.test_cli import command


class Lookalikes:
    """Positives have a high x. So have the rows of kind "toy", and these are all negative."""

    def __init__(self, n: int = 3000) -> None:
        rng = np.random.default_rng(0)
        self.toy = rng.random(n) < 0.1
        self.y: NDArray[np.bool_] = ~self.toy & (rng.random(n) < 0.15)
        self.s = self.y & (rng.random(n) < 0.2)
        self.frame = pl.DataFrame(
            {
                "name": [f"r-{i}" for i in range(n)],
                "x": rng.normal(0, 1, n) + 2.5 * (self.y | self.toy),
                "toy": self.toy.astype(float) + rng.normal(0, 0.4, n),
                "known": self.s.astype(int),
            }
        )

    def answers(self, rows: NDArray[np.intp]) -> pl.DataFrame:
        return pl.DataFrame({"row": rows + 1, "answer": np.where(self.y[rows], "yes", "no")})


@pytest.fixture(scope="module")
def table() -> Lookalikes:
    return Lookalikes()


@pytest.fixture(scope="module")
def before(table: Lookalikes) -> TableModel:
    return fit_table(table.frame, "known", method="boosting", drop=["name"])


@pytest.fixture(scope="module")
def asked(table: Lookalikes, before: TableModel) -> NDArray[np.intp]:
    """The first 150 candidates."""
    return before.candidates["row"].to_numpy()[:150].astype(np.intp) - 1


@pytest.fixture(scope="module")
def after(table: Lookalikes, asked: NDArray[np.intp]) -> TableModel:
    return fit_table(table.frame, "known", method="boosting", drop=["name"], reviewed=table.answers(asked))


def test_confirmed_rows_teach_and_are_no_candidates(
    table: Lookalikes, before: TableModel, after: TableModel, asked: NDArray[np.intp]
) -> None:
    def mean_place(model: TableModel, rows: NDArray[np.bool_]) -> float:
        score = model.held_out["score"].to_numpy()
        return float((score[rows][:, None] < score[None, :]).mean())

    unasked = ~np.isin(np.arange(len(table.y)), asked)
    assert mean_place(after, table.toy & unasked) > mean_place(before, table.toy & unasked) + 0.01
    assert mean_place(after, table.y & unasked & ~table.s) < mean_place(before, table.toy & unasked)
    for rows in (after.candidates["row"], after.draw.frame["row"] if after.draw else None):
        assert rows is not None
        assert not np.isin(rows.to_numpy() - 1, asked).any()
    confirmed = {"positive": int(table.y[asked].sum()), "negative": int((~table.y[asked]).sum())}
    assert after.summary["reviewed"] == confirmed
    about = after.summary["table"]
    assert about["labelled"] == table.s.sum()
    assert about["labelled"] + about["unlabeled"] + len(asked) == about["rows"] == len(table.y)
    assert "confirmed as positives" in after.report()
    assert "confirmed as positives" not in before.report()


def test_only_rows_that_were_labelled_before_count_in_figures(table: Lookalikes, after: TableModel) -> None:
    held_out = after.held_out
    assert np.array_equal(held_out["labelled"].to_numpy(), table.s)
    score = held_out["score"].to_numpy()
    separation = next(item for item in after.summary["metrics"] if item["name"] == "separation")
    above = (score[table.s][:, None] > score[None, :]).mean() + (score[table.s][:, None] == score[None, :]).mean() / 2
    assert separation["value"] == pytest.approx(above, abs=1e-4)
    # A confirmed positive whose label was written into the table by now was still not labelled at random.
    answers = held_out["answer"].to_numpy()
    marked = table.frame.with_columns(known=pl.Series((table.s | (answers > 0)).astype(int)))
    data, _ = with_reviewed(prepare(marked, "known"), table.answers(np.flatnonzero(answers)))
    assert np.array_equal(data.labelled, table.s)


def test_figures_hold_for_the_positives_that_are_left(table: Lookalikes, after: TableModel) -> None:
    score, answers = after.held_out["score"].to_numpy(), after.held_out["answer"].to_numpy()
    rows = np.flatnonzero(~table.s & (answers == 0))
    found = np.cumsum(table.y[rows[np.argsort(-score[rows], kind="stable")]])
    prior = after.summary["prior"]
    assert prior["low"] <= table.y.mean() <= prior["high"]
    for k in (100, 500):
        point = next(item for item in after.summary["review"] if item["k"] == k)
        assert point["recall_low"] <= found[k - 1] / found[-1] <= point["recall_high"]
        assert point["precision_low"] <= found[k - 1] / k <= point["precision_high"]


def test_recall_takes_the_confirmed_positives_off() -> None:
    """1,000 hidden positives score like the labelled ones. If 300 of the first 400 are confirmed, 700 are left."""
    rng = np.random.default_rng(0)
    hidden, others = np.sort(rng.normal(2, 1, 1000))[::-1], rng.normal(0, 1, 8000)
    labelled = hidden + 1e-6
    score = np.concatenate([labelled, hidden, others])
    marks = np.arange(10_000) < 1000
    answers = np.zeros(10_000, dtype=np.int8)
    answers[1000:1400:4] = answers[1001:1400:4] = answers[1002:1400:4] = 1
    prior = PriorEstimate(0.2, (0.19, 0.21), "given", source="given")
    (point,) = (p for p in evaluate.review(marks, score, prior, "single-sample", [], answers) if p["k"] == 500)
    ranked = np.sort(score[~marks & (answers == 0)])[::-1]
    left = float((hidden[answers[1000:2000] == 0] >= ranked[499]).sum())
    assert point["recall"] == pytest.approx(left / 700, abs=0.01)
    assert point["recall_low"] < left / 700 < point["recall_high"]
    assert point["precision_low"] < left / 500 < point["precision_high"]
    assert (labelled >= ranked[499]).mean() > point["recall_high"]  # what the labelled rows alone would say


def test_confirmed_positives_raise_the_lower_end_of_the_share() -> None:
    """A tenth of the labelled rows score above 1, and so do 50 confirmed positives: there are about 500 or more."""
    score = np.concatenate([np.linspace(-9, 1, 90), np.linspace(1.1, 2, 10), np.linspace(1.1, 2, 99), np.zeros(9801)])
    labelled = np.arange(10_000) < 100
    answers = np.zeros(10_000, dtype=np.int8)
    answers[100:199] = 1
    known = PriorEstimate(0.3, (0.01, 0.5), "auto")
    low, high = evaluate.with_found(known, labelled, score, answers, "single-sample").interval
    assert 0.03 < low < 0.11
    assert high == 0.5
    assert evaluate.with_found(known, labelled, score, np.zeros_like(answers), "single-sample") is known


def test_negatives_weigh_as_much_as_positives_without_a_label(table: Lookalikes, asked: NDArray[np.intp]) -> None:
    answers = np.zeros(len(table.y), dtype=np.int8)
    answers[asked] = np.where(table.y[asked], 1, -1)
    given = PriorEstimate(0.2, (0.2, 0.2), "given", source="given")

    class NoViews(Views):
        def __init__(self) -> None:
            pass

    def weights(given_weights: NDArray[np.float64] | None) -> NDArray[np.float64]:
        told = (NoViews(), table.s, given, "single-sample", 0, lambda text, done, total: None)
        return CrossFit(*told, answers=answers, weights=given_weights).weights  # type: ignore[return-value]

    assert set(weights(None)[answers >= 0]) == {1.0}
    assert weights(None)[answers < 0] == pytest.approx(0.2 * len(table.y) / table.s.sum())
    given_weights = np.linspace(0, 3, len(table.y))
    assert weights(given_weights) == pytest.approx(weights(None) * given_weights)


# Files ----------------------------------------------------------------------------------------------------------------


def taken(table: Lookalikes, reviewed: Any, id: str | None = None) -> dict[int, int]:
    data, _ = with_reviewed(prepare(table.frame, "known", id=id), reviewed)
    return {int(row): int(data.answers[row]) for row in np.flatnonzero(data.answers)}


def test_answers_in_any_table(table: Lookalikes, tmp_path: Path) -> None:
    a, b, c, d = np.flatnonzero(~table.s)[:4].tolist()
    sheet = tmp_path / "sheet.csv"
    sheet.write_text(f"row,answer\n{a + 1},Yes\n{b + 1},0\n{c + 1},skip\n{d + 1},\n")
    assert taken(table, sheet) == {a: 1, b: -1}
    by_id = pl.DataFrame({"name": [f"r-{c}", f"r-{a}"], "row": [1, 1], "answer": ["no", "yes"]})
    assert taken(table, by_id, id="name") == {c: -1, a: 1}
    assert taken(table, [sheet, by_id.to_pandas()], id="name") == {a: 1, b: -1, c: -1}


def test_a_log_of_answers_and_a_reviewed_model(table: Lookalikes, before: TableModel, tmp_path: Path) -> None:
    folder = before.save(tmp_path / "model")
    assert before.draw is not None
    rows = (before.draw.frame["row"].to_numpy() - 1).astype(int)
    with open_log(folder / "answers.csv", before.draw) as log:
        log.add([(0, "yes"), (1, "no"), (2, "yes")])
        log.undo()
        log.add([(1, "yes"), (3, "skip")])
    expected = {int(rows[0]): 1, int(rows[1]): 1}
    copy = tmp_path / "copy.csv"
    copy.write_bytes((folder / "answers.csv").read_bytes() + b"5,17,")  # the last line is cut off
    for source in (folder, str(folder / "answers.csv"), copy):
        assert taken(table, source) == expected
    with pytest.raises(InputError, match=r"row \d+ of the table is not the one that was answered .*'x' is"):
        with_reviewed(prepare(table.frame.reverse(), "known"), folder)
    with pytest.raises(InputError, match="Pass the table that was reviewed"):
        with_reviewed(prepare(table.frame.head(rows[:2].max()), "known"), copy)


def test_a_measured_share_is_the_prior_of_the_next_fit(table: Lookalikes, before: TableModel, tmp_path: Path) -> None:
    folder = before.save(tmp_path / "model")
    assert before.draw is not None
    rows = before.draw.frame["row"].to_numpy()[:100] - 1
    with open_log(folder / "answers.csv", before.draw) as log:
        log.add([(i, "yes" if table.y[row] else "no") for i, row in enumerate(rows)])
    share = TableModel.load(folder).summary["prior"]
    again = fit_table(table.frame, "known", method="boosting", drop=["name"], reviewed=folder)
    assert again.summary["prior"]["source"] == share["source"] == "measured"
    assert again.summary["prior"]["high"] == pytest.approx(share["high"], abs=1e-4)
    assert again.summary["prior"]["low"] <= table.y.mean() <= again.summary["prior"]["high"]
    told = fit_table(table.frame, "known", method="boosting", drop=["name"], reviewed=folder, prior=0.3)
    assert (told.summary["prior"]["source"], told.summary["prior"]["value"]) == ("given", 0.3)


def test_mistakes_in_answers_are_one_line(table: Lookalikes) -> None:
    labelled, other = int(np.flatnonzero(table.s)[0]), int(np.flatnonzero(~table.s)[0])

    def frame(**columns: Any) -> pl.DataFrame:
        return pl.DataFrame(columns)

    mistakes: list[tuple[Any, str]] = [
        (frame(row=[labelled + 1], answer=["no"]), f"row {labelled + 1} is labelled positive .* answered no"),
        (frame(row=[other + 1, other + 1], answer=["no", "yes"]), f"row {other + 1} was answered yes .* other way"),
        (frame(row=[3001], answer=["no"]), "about row 3001, but the table has 3,000 rows"),
        (frame(row=[0], answer=["no"]), "about row 0"),
        (frame(row=["x"], answer=["no"]), "no number of a row"),
        (frame(row=[1], answer=["perhaps"]), "row 1 of the table answers 'perhaps'"),
        (frame(row=[1]), "no column 'answer'"),
        (frame(name=["r-1"], answer=["no"]), "no column 'row'"),
    ]
    for wrong, message in mistakes:
        with pytest.raises(InputError, match=message):
            taken(table, wrong)
    with pytest.raises(InputError, match="about name 'r-x', which no row"):
        taken(table, frame(name=["r-x"], answer=["no"]), id="name")
    with pytest.raises(InputError, match="to learn from answers"):
        fit_table(table.frame, "known", method="bagging", reviewed=frame(row=[other + 1], answer=["no"]))
    with pytest.raises(InputError, match="the share of known positives"):
        fit_table(table.frame, "known", prior=0.03, reviewed=table.answers(np.flatnonzero(table.y & ~table.s)))


def test_a_third_value_of_the_label(table: Lookalikes, asked: NDArray[np.intp], after: TableModel) -> None:
    no = asked[~table.y[asked]]
    words = np.where(table.s, "1", "0").astype(object)
    words[no] = "-1"
    frame = table.frame.with_columns(known=pl.Series([str(word) for word in words]))
    data = prepare(frame, "known", negative=-1)
    assert np.array_equal(np.flatnonzero(data.answers), np.sort(no))
    assert set(data.answers[no]) == {-1}
    assert np.array_equal(data.labelled, table.s)
    model = fit_table(frame, "known", negative="-1", method="boosting", drop=["name"])
    assert model.summary["reviewed"] == {"positive": 0, "negative": len(no)}
    assert not np.isin(model.candidates["row"].to_numpy() - 1, no).any()
    assert not np.isin(model.rank(frame, 3000)["row"].to_numpy() - 1, no).any()
    with pytest.raises(InputError, match="no row of column 'known' is 'never'"):
        prepare(frame, "known", negative="never")


def test_the_command_learns_from_answers(
    table: Lookalikes,
    asked: NDArray[np.intp],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    table.frame.write_csv(tmp_path / "t.csv")
    table.answers(asked).write_csv(tmp_path / "a.csv")
    words = ["fit", str(tmp_path / "t.csv"), "--label", "known", "--id", "name", "--method", "boosting"]
    words += ["--reviewed", str(tmp_path / "a.csv"), "--out", str(tmp_path / "m")]
    monkeypatch.setenv("COLUMNS", "200")
    code, out, _ = command(monkeypatch, capsys, *words)
    assert code == 0
    assert f"{table.y[asked].sum()} confirmed positive, {(~table.y[asked]).sum()} confirmed negative" in out
    assert TableModel.load(tmp_path / "m").held_out["answer"].to_numpy().astype(bool).sum() == len(asked)


def test_a_draw_expects_fewer_positives_where_many_were_asked() -> None:
    """Half of the first band is answered. The labelled rows that stand for it are halved, too."""
    drawn = Drawn(np.array([0]), np.array([0]), np.array([10, 100]), np.array([40, 20]))
    open_rows, answered = np.arange(100, 0, -1.0), np.full(10, 95.5)
    assert like_the_open(drawn, open_rows, answered).tolist() == [20, 20]
    assert like_the_open(drawn, open_rows, np.array([])).tolist() == [40, 20]


def test_a_review_counts_positives_that_were_confirmed_before(before: TableModel) -> None:
    assert before.draw is not None
    answers = Answers(before.draw, [(0, "yes"), (1, "no")])
    first, later = (
        measured(answers, cast(Summary, {**before.summary, "reviewed": reviewed}))
        for reviewed in (None, {"positive": 30, "negative": 9})
    )
    assert first is not None
    assert later is not None
    assert later["prior"]["low"] == pytest.approx(first["prior"]["low"] + 30 / 3000)
