"""From a table to candidates: held to the truth, which the model never saw."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import precision_score, recall_score, roc_auc_score

from pulab.errors import InputError, ModelFileError, PriorError
from pulab.methods import METHODS, Method
from pulab.metrics import average_precision
from pulab.persistence import load_model
from pulab.priors import PriorEstimate
from pulab.review import FILE, open_log
from pulab.summary import check_summary
from pulab.tables import TableModel, estimate_table_prior, fit_table
from pulab.tables import _frame as frames
from pulab.tables._crossfit import best_of, log_depths
from pulab.tables._evaluate import _share_found, figures, stability
from pulab.tables._model import REASONS, RESULTS

from .conftest import Customers


@pytest.fixture(scope="module")
def model(customers: Customers) -> TableModel:
    return fit_table(customers.frame, "churned", id="customer", method="nnpu-boosting", prior=customers.prior)


def test_held_out_figures_are_close_to_the_truth(customers: Customers, model: TableModel) -> None:
    """Of new rows from the same place, by true labels, against what the summary says without any."""
    new = Customers(4000, seed=1)
    scored = model.score(new.frame.drop("churned"))
    metrics = {item["name"]: item for item in model.summary["metrics"]}
    truth = {
        "precision": precision_score(new.y, scored["decision"]),
        "recall": recall_score(new.y, scored["decision"]),
        "roc_auc": roc_auc_score(new.y, scored["score"]),
    }
    assert truth["roc_auc"] > 0.93
    for name, value in truth.items():
        assert abs(metrics[name]["value"] - value) < 0.06
    assert abs(scored["probability"].mean() - customers.prior) < 0.03
    assert 0 <= scored["probability"].min() <= scored["probability"].max() <= 1
    certain = scored["probability"].to_numpy() > 0.8
    assert new.y[certain].mean() > 0.8  # a probability means what it says


def test_candidates_are_unlabeled_and_mostly_right(customers: Customers, model: TableModel) -> None:
    candidates = model.candidates
    rows = np.array([int(name.removeprefix("c-")) for name in candidates["customer"]])
    assert not customers.s[rows].any()
    assert candidates["rank"].to_list() == list(range(1, candidates.height + 1))
    assert candidates["probability"].is_sorted(descending=True)
    assert customers.y[rows[:50]].mean() > 0.9
    point = next(item for item in model.summary["review"] if item["k"] >= 100)
    assert abs(point["precision"] - customers.y[rows[: point["k"]]].mean()) < 0.15
    assert candidates.columns[2:11] == [*RESULTS, "stability", *REASONS]
    assert candidates["reason_1"].head(50).str.contains(r"^(age|spent|plan|notes) = .+: (strongly )?for$").mean() > 0.9


def test_summary_says_what_was_learned(model: TableModel) -> None:
    about = model.summary["table"]
    assert (about["labelled"] + about["unlabeled"], about["positive"]) == (2400, "1")
    kinds = {column["name"]: column["kind"] for column in about["columns"]}
    assert kinds == {
        "age": "number",
        "spent": "number",
        "plan": "category",
        "notes": "text",
        "joined": "date",
        "member": "number",
        "nothing": "left out",
    }
    notes = {column["name"]: column["note"] for column in about["columns"]}
    assert notes["nothing"] == "every value is missing"
    assert {item["name"] for item in model.summary["features"][:4]} >= {"age", "spent"}
    assert model.summary["method"]["settings"]["backend"] in ("lightgbm", "xgboost")
    assert "<html" in model.report()


def test_a_summary_has_the_keys_of_its_definition(model: TableModel, tmp_path: Path) -> None:
    """No more and no fewer, when it is written and when it is read back."""
    assert check_summary(model.summary) == model.summary
    assert TableModel.load(model.save(tmp_path / "model")).summary == model.summary


@pytest.mark.parametrize("method", ["nnpu-boosting", "joint", "bagging"])
def test_a_saved_model_scores_files_and_frames_alike(
    method: str, customers: Customers, model: TableModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = Customers(200, seed=2).frame
    if method != "nnpu-boosting":
        model = fit_table(small, "churned", id="customer", method=method, prior=0.3)
    folder = model.save(tmp_path / "model")
    again = TableModel.load(folder)
    assert {"report.html", "candidates.csv"} <= {path.name for path in folder.iterdir()}
    table = Customers(300, seed=3).frame
    whole = model.score(table)
    assert whole.columns == ["customer", *RESULTS]
    assert whole["customer"].to_list() == table["customer"].to_list()
    table.write_csv(tmp_path / "t.csv")
    table.write_parquet(tmp_path / "t.parquet", row_group_size=100)
    monkeypatch.setattr(frames, "BATCH", 37)  # pieces that fit nothing evenly
    for source in (table, table.to_pandas(), tmp_path / "t.csv", tmp_path / "t.parquet"):
        scored = again.score(source)
        assert scored["customer"].to_list() == table["customer"].to_list()
        np.testing.assert_allclose(scored["score"], whole["score"], atol=1e-6)
    for name in ("out.csv", "out.parquet"):
        assert again.score_file(tmp_path / "t.parquet", tmp_path / name) == 300
        read = pl.read_csv(tmp_path / name) if name == "out.csv" else pl.read_parquet(tmp_path / name)
        np.testing.assert_allclose(read["probability"], whole["probability"], atol=1e-6)
        assert read["decision"].to_list() == whole["decision"].to_list()


def test_ranking_streams_and_passes_over_what_is_known(
    customers: Customers, model: TableModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "BATCH", 101)
    ranked = model.rank(customers.frame, top=20)
    scored = model.score(customers.frame).filter(~pl.Series(customers.s))
    assert (
        ranked["customer"].to_list()
        == scored.sort("score", descending=True, maintain_order=True)["customer"][:20].to_list()
    )
    assert "plan" in ranked.columns
    assert model.rank(customers.frame.drop("churned"), top=5).height == 5
    anonymous = model.rank(customers.frame.drop("customer"), top=3)
    assert customers.frame["customer"][anonymous["row"] - 1].to_list() == ranked["customer"][:3].to_list()


def test_odd_rows_are_scored(customers: Customers, model: TableModel) -> None:
    odd = customers.frame.head(3).with_columns(
        plan=pl.Series(["platinum", None, "gold"]),
        age=pl.Series([None, float("inf"), 1e30]),
        notes=pl.Series(["", None, "🎉" * 1000]),
        joined=pl.Series([None, None, None], dtype=pl.Date),
        extra=pl.Series([1, 2, 3]),
    )
    scored = model.score(odd)
    assert scored["probability"].is_finite().all()


def test_another_schema_is_one_line(customers: Customers, model: TableModel, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no column 'age' .*Did you mean 'aged'"):
        model.score(customers.frame.rename({"age": "aged"}))
    with pytest.raises(InputError, match="column 'spent' of the table must hold numbers, as in training, got 'lots'"):
        model.score(customers.frame.with_columns(spent=pl.lit("lots")))
    with pytest.raises(InputError, match="no rows"):
        model.score(customers.frame.clear())
    customers.frame.with_columns(spent=pl.lit("lots")).write_csv(tmp_path / "t.csv")
    with pytest.raises(InputError, match="got 'lots'"):
        model.score_file(tmp_path / "t.csv", tmp_path / "out.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]
    with pytest.raises(InputError, match=r"ends in .csv or .parquet"):
        model.score_file(customers.frame, tmp_path / "out.xlsx")
    pl.DataFrame({"other": [1, 2]}).write_parquet(tmp_path / "other.parquet")
    with pytest.raises(InputError, match=r"other.parquet has no column 'age'"):
        model.score(tmp_path / "other.parquet")


def test_auto_chooses_by_the_ranking_of_held_out_rows_and_says_why() -> None:
    customers = Customers(400)
    steps: list[str] = []
    model = fit_table(customers.frame, "churned", prior=0.3, on_step=lambda text, done, total: steps.append(text))
    assert check_summary(model.summary) == model.summary
    chosen = model.summary["method"]
    compared = {item["method"]: item for item in chosen["compared"]}
    assert list(compared) == ["boosting", "plain-boosting", "elkan-noto", "nnpu-boosting"]
    assert compared[chosen["key"]]["ratio"] == 1
    assert f"{chosen['key']} was chosen" in chosen["why"]
    assert any("nnpu-boosting: fit 5 of 5" in text for text in steps)
    truth = (model.score(customers.frame)["decision"].to_numpy() != customers.y).mean()
    assert truth < 0.2


def test_depth_is_the_share_of_unlabeled_rows_that_rank_as_high() -> None:
    scores = np.array([9.0, 5.0, 1.0, 8.0, 5.0, 4.0, 3.0, 2.0, 2.0])
    labelled = np.array([True, True, True, False, False, False, False, False, False])
    above = np.array([0, 2, 6])  # a tie counts as higher; the row itself is counted, so that the logarithm exists
    assert np.allclose(np.exp(log_depths(scores, labelled)), (above + 1) / 7)


def test_the_first_method_stays_unless_another_is_better_by_a_standard_error() -> None:
    rng = np.random.default_rng(0)
    first = -rng.exponential(size=100)
    noise = rng.normal(size=100)
    noise = (noise - noise.mean()) / noise.std(ddof=1)  # the standard error of its mean is a tenth
    for lead, best in ((-0.2, "first"), (0.0, "first"), (0.09, "first"), (0.11, "other")):
        assert best_of({"first": first, "other": first - lead + noise, "last": first + 1}) == best
    assert best_of({"first": first}) == "first"


def test_the_prior_does_not_decide_the_method() -> None:
    """Nor does it change the ranking of a method that learns labelled against unlabeled rows."""
    frame = Customers(400).frame
    shared: dict[str, Any] = {"id": "customer", "method": ["elkan-noto", "boosting"]}
    models = [fit_table(frame, "churned", prior=prior, **shared) for prior in (0.2, 0.6)]
    depths = [[item["depth"] for item in model.summary["method"]["compared"]] for model in models]
    assert depths[0] == depths[1]
    assert models[0].summary["method"]["asked"] == "elkan-noto, boosting"
    assert models[0].candidates["customer"].to_list() == models[1].candidates["customer"].to_list()
    with pytest.raises(InputError, match="at least one method"):
        fit_table(frame, "churned", method=[])
    with pytest.raises(InputError, match="method must be one of"):
        fit_table(frame, "churned", method=["auto", "boosting"])


@pytest.mark.parametrize("method", ["auto", "elkan-noto"])
def test_weights_say_what_is_learned_from(method: str) -> None:
    """Half of the rows are misleading. With weights of 0 they teach nothing, and all figures still count them."""
    rng = np.random.default_rng(0)
    n = 1000
    y, misleads = rng.random(2 * n) < 0.3, np.arange(2 * n) >= n
    x = np.where(misleads, -1, 1) * (rng.normal(size=2 * n) + 2 * y)
    frame = pl.DataFrame({"x": x, "w": np.where(misleads, 0.0, 2.5), "known": y & (rng.random(2 * n) < 0.4)})
    model = fit_table(frame, "known", method=method, prior=0.3, weight="w")
    plain = fit_table(frame.drop("w"), "known", method=method, prior=0.3)

    def found(fitted: TableModel) -> int:
        rows = fitted.candidates.filter(pl.col("row") <= n)["row"].to_numpy()[:100] - 1
        return int(y[rows].sum())

    assert found(model) > found(plain) + 5
    assert model.summary["table"]["weight"] == "w"
    assert [column["name"] for column in model.summary["table"]["columns"]] == ["x"]
    assert model.summary["table"]["unlabeled"] == (~frame["known"]).sum()
    assert "how much was learned from each row" in model.report()
    assert model.score(frame.drop("w")).height == 2 * n


class NeedsNoPrior(ClassifierMixin, BaseEstimator):
    """A method without a parameter `prior`."""

    def __init__(self, scenario: str = "case-control", random_state: Any = None) -> None:
        self.scenario, self.random_state = scenario, random_state

    def fit(self, X: Any, y: Any) -> "NeedsNoPrior":
        self.model_ = LogisticRegression(max_iter=2000).fit(X, y)
        return self

    def decision_function(self, X: Any) -> Any:
        return self.model_.decision_function(X)


def test_a_method_that_needs_no_prior_is_never_given_one(monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"{__name__}.NeedsNoPrior"
    monkeypatch.setitem(METHODS, "free", Method(path, "", "", "risk", needs_prior=False, is_network=False))
    monkeypatch.setattr("pulab.tables._fit.USABLE", ("elkan-noto", "free"))
    frame = Customers(200).frame.select("age", "spent", "churned")
    summary = fit_table(frame, "churned", method=["elkan-noto", "free"], prior=0.3).summary
    assert [item["method"] for item in summary["method"]["compared"]] == ["elkan-noto", "free"]
    assert not any("prior" in text for text in summary["warnings"])


def test_the_same_seed_gives_the_same_model(tmp_path: Path) -> None:
    frame = Customers(200).frame
    first, second = (fit_table(frame, "churned", method="elkan-noto", prior=0.3, random_state=3) for _ in range(2))
    assert first.candidates.equals(second.candidates)
    for name in ("arrays.safetensors", "candidates.csv"):  # skops files carry addresses, the others seconds
        saved = [model.save(tmp_path / str(i)) / name for i, model in enumerate((first, second))]
        assert saved[0].read_bytes() == saved[1].read_bytes()
    assert first.score(frame).equals(second.score(frame))


def test_prior_is_estimated() -> None:
    customers = Customers(1500)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whether it doubts itself is tested with the priors
        estimate = estimate_table_prior(customers.frame, "churned")
    assert (
        estimate.details["rows"] == f"{customers.s.sum():,} labelled (churned = 1), {(~customers.s).sum():,} unlabeled"
    )
    assert abs(estimate.prior - 0.3) < 0.08
    assert set(estimate.details["methods"]) >= {"dedpul", "bbe"}


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, {"label": "chruned"}, "has no column 'chruned' for the label. Did you mean 'churned'"),
        ({}, {"label": "zzz"}, "It has: 'customer', 'age'"),
        ({}, {"id": "custmer"}, "for the id. Did you mean 'customer'"),
        ({}, {"id": "age"}, "rows have no id"),
        ({}, {"id": "churned"}, "both the label and the id"),
        ({"score": 1}, {"id": "score"}, "cannot be called 'score'"),
        ({"churned": 0}, {}, "no row of column 'churned' is a known positive"),
        ({"churned": 1}, {}, "Add unlabeled rows"),
        ({}, {"method": "magic"}, "method must be one of 'auto'"),
        ({}, {"method": "pn"}, "method must be one of"),
        ({}, {"prior": 1.2}, "strictly between 0 and 1"),
        ({}, {"prior": 0.01}, "labelled already"),
        ({}, {"prior": (0.4, 0.3)}, "must rise, got 0.4 to 0.3"),
        ({}, {"prior": (0.4, "x")}, "strictly between 0 and 1"),
        ({}, {"top": 0}, "top must be a whole number"),
        ({}, {"budget": 20}, "budget, a share of the rows, must be a number in"),
        ({}, {"costs": (1, -1)}, "a cost must be a number"),
        ({}, {"costs": 3}, "costs are two numbers"),
        ({}, {"top": 10, "budget": 0.1}, "exclude each other"),
        ({}, {"scenario": "both"}, "scenario must be one of"),
        ({}, {"random_state": -1}, "random_state"),
        ({}, {"weight": "agee"}, "for the weight. Did you mean 'age'"),
        ({}, {"weight": "age"}, "row [0-9]+ of column 'age' is empty"),
        ({"w": -1}, {"weight": "w"}, "row 1 of column 'w' is '-1'. 200 of 200 rows"),
        ({"w": "much"}, {"weight": "w"}, "row 1 of column 'w' is 'much'"),
        ({"w": 0}, {"weight": "w"}, "at least 8 labelled rows need a weight above 0 in column 'w', got 0"),
        ({"w": 1}, {"weight": "w", "labelled_by": ["w"]}, "it is the weight"),
        ({"w": 1}, {"weight": "churned"}, "both the weight and the label"),
        ({"w": 1}, {"weight": "w", "drop": ["w"]}, "the id or the weight"),
        ({"w": 1}, {"weight": "w", "method": "pu-forest"}, "with weights, must be one of"),
    ],
)
def test_bad_input_gets_one_line(change: dict[str, Any], options: dict[str, Any], message: str) -> None:
    frame = Customers(200).frame.with_columns(**{name: pl.lit(value) for name, value in change.items()})
    with pytest.raises((InputError, PriorError), match=message) as error:
        fit_table(frame, **{"label": "churned", "method": "elkan-noto", "prior": 0.3, **options})
    assert "\n" not in str(error.value)


def test_a_table_with_nothing_to_learn_from() -> None:
    frame = Customers(100).frame
    with pytest.raises(InputError, match="no column to learn from"):
        fit_table(frame.select("churned"), "churned")
    with pytest.raises(InputError, match=r"no column to learn from.*'nothing': every value is missing"):
        fit_table(frame.select("churned", "nothing"), "churned")
    lone = pl.DataFrame({"x": [1.0, 2.0, 3.0], "churned": [1, 0, 0]})
    with pytest.raises(InputError, match="four labelled and four unlabeled"):
        fit_table(lone, "churned", prior=0.5)


def test_a_column_that_gives_the_label_away_is_called_out() -> None:
    frame = Customers(400).frame.with_columns(cancelled_on=pl.col("churned") * 1.5)
    model = fit_table(frame, "churned", method="elkan-noto", prior=0.3)
    assert any("'cancelled_on'" in text and "--drop" in text for text in model.summary["warnings"])
    without = fit_table(frame, "churned", method="elkan-noto", prior=0.3, drop=["cancelled_on"])
    assert "cancelled_on" not in [column.name for column in without.features.columns]
    assert not any("gives the label away" in text for text in without.summary["warnings"])
    with pytest.raises(InputError, match="Did you mean 'cancelled_on'"):
        fit_table(frame, "churned", drop=["canceled_on"])


def test_stability_is_the_share_of_models_that_put_a_row_among_the_first() -> None:
    scores = [np.array([4.0, 3.0, 2.0, 1.0]), np.array([1.0, 4.0, 3.0, 2.0]), np.array([4.0, 2.0, 1.0, 3.0])]
    np.testing.assert_allclose(stability(scores, np.array([1, 0, 2]), k=2), [2 / 3, 2 / 3, 1 / 3])


@pytest.mark.parametrize("digits", [0, 9])  # with ties, and without
@pytest.mark.parametrize("scenario", ["single-sample", "case-control"])
def test_average_precision_is_that_of_the_metrics(scenario: str, digits: int) -> None:
    rng = np.random.default_rng(0)
    y = rng.random(2000) < 0.3
    labelled, score = y & (rng.random(2000) < 0.1), np.round(rng.normal(size=2000) + 1.5 * y, digits)
    given = PriorEstimate(0.3, (0.3, 0.3), "given", source="given")
    (found,) = (item for item in figures(labelled, score, None, given, scenario) if item["name"] == "average_precision")
    expected = average_precision(labelled, score, prior=0.3, scenario=scenario)
    assert found["value"] == pytest.approx(expected)
    assert found["low"] < expected < found["high"]


def test_of_a_tie_only_a_part_is_found() -> None:
    positive, ranked = np.array([1.0, 1.0, 1.0, 0.0]), np.array([2.0, 1.0, 1.0, 1.0, 0.0])
    shares = [_share_found(positive, ranked, k) for k in (1, 2, 4, 5)]
    np.testing.assert_allclose(shares, [0, 0.25, 0.75, 1])


def test_figures_stay_within_their_bounds() -> None:
    """The estimates may leave 0 and 1; what they stand for cannot."""
    model = fit_table(Customers(400).frame, "churned", method="elkan-noto", prior=0.4)  # too high, but not impossible
    assert model.summary["prior"]["source"] == "given"
    metrics = {item["name"]: item for item in model.summary["metrics"]}
    for name in ("precision", "recall", "f1", "accuracy", "roc_auc", "average_precision"):
        assert 0 <= metrics[name]["low"] <= metrics[name]["value"] <= metrics[name]["high"] <= 1
    assert len(repr(model)) < 200


@pytest.mark.parametrize("method", ["elkan-noto", "two-step"])
def test_an_impossible_prior_is_not_used(method: str) -> None:
    frame = Customers(400).frame
    model = fit_table(frame, "churned", method=method, prior=0.75)
    assert model.summary["warnings"][0].startswith("You gave a prior of 0.75, but the rows allow 0.")
    estimated = fit_table(frame, "churned", method=method).summary["prior"]
    assert model.summary["prior"] == estimated
    model = fit_table(frame, "churned", method=method, prior=(0.2, 0.75))
    assert "the range was cut there" in model.summary["warnings"][0]
    assert (model.summary["prior"]["low"], model.summary["prior"]["source"]) == (0.2, "given")
    assert model.summary["prior"]["high"] < 0.6


def test_an_impossible_prior_does_not_weigh_answers_either() -> None:
    customers = Customers(600)
    answered = np.flatnonzero(~customers.s)[:40]
    answers = pl.DataFrame({"row": answered + 1, "answer": np.where(customers.y[answered], "yes", "no")})
    shared: dict[str, Any] = {"method": "elkan-noto", "reviewed": answers}
    told = fit_table(customers.frame, "churned", prior=0.95, **shared)
    untold = fit_table(customers.frame, "churned", **shared)
    assert "was not used" in told.summary["warnings"][0]
    assert told.summary["prior"] == untold.summary["prior"]
    assert told.candidates.equals(untold.candidates)


@pytest.fixture(scope="module")
def hard() -> tuple[TableModel, Customers]:
    """A table whose classes overlap, so that the share of positives is not known."""
    customers = Customers(1500)
    frame = customers.frame.select("customer", "age", "plan", "churned")
    return fit_table(frame, "churned", id="customer", method="elkan-noto"), customers


def test_no_figure_rests_on_a_share_that_is_not_known(hard: tuple[TableModel, Customers], tmp_path: Path) -> None:
    model, customers = hard
    prior = model.summary["prior"]
    assert (prior["value"], prior["evident"]) == (None, False)
    assert prior["low"] == pytest.approx(customers.s.mean(), rel=1e-5)
    assert prior["low"] < customers.y.mean() < prior["high"] < 0.6
    points = {point["k"]: point for point in model.summary["review"]}
    assert {100, 500} <= set(points)
    assert all(point["precision"] is None and point["precision_low"] == 0 for point in points.values())
    values = {item["name"]: item["value"] for item in model.summary["metrics"]}
    assert [name for name, value in values.items() if value is not None] == ["separation"]
    again = TableModel.load(model.save(tmp_path / "model"))
    for result in (model.candidates, again.score(customers.frame)):
        assert result["probability"].null_count() == result["decision"].null_count() == result.height
        assert (result["probability_low"] <= result["probability_high"]).all()
    with pytest.raises(InputError, match="probabilities are not known"):
        model.predict_proba(customers.frame)
    with pytest.raises(InputError, match="No row is called positive"):
        model.predict(customers.frame)


def test_ranges_hold_the_truth_of_the_held_out_ranking(hard: tuple[TableModel, Customers]) -> None:
    model, customers = hard
    score = model.held_out["score"].to_numpy()
    hidden = np.flatnonzero(~customers.s)
    best = hidden[np.argsort(-score[hidden], kind="stable")]
    for point in model.summary["review"]:
        found = customers.y[best[: point["k"]]].sum()
        assert point["precision_low"] <= found / point["k"] <= point["precision_high"]
        if point["k"] in (100, 500):
            assert point["recall_low"] <= found / customers.y[hidden].sum() <= point["recall_high"]
            assert point["lift"] == pytest.approx(point["recall"] * len(hidden) / point["k"], rel=1e-5)
    auc = next(item for item in model.summary["metrics"] if item["name"] == "roc_auc")
    assert auc["low"] <= roc_auc_score(customers.y, score) <= auc["high"]
    share = customers.y[best[:200]].mean()
    assert model.candidates["probability_high"][:200].mean() >= share


def test_answers_in_the_folder_settle_the_share(hard: tuple[TableModel, Customers], tmp_path: Path) -> None:
    model, customers = hard
    folder = model.save(tmp_path / "model")
    assert model.draw is not None

    def answer(places: range) -> TableModel:
        rows = model.draw.frame["row"].to_numpy() - 1
        with open_log(folder / FILE, model.draw) as log:
            log.add([(place, "yes" if customers.y[rows[place]] else "no") for place in places])
        return TableModel.load(folder)

    few = answer(range(20))
    assert few.summary["measured"] is not None
    assert few.summary["prior"] == model.summary["prior"]
    after = answer(range(20, 120))
    before, prior = model.summary["prior"], after.summary["prior"]
    assert prior["source"] == "measured"
    assert prior["low"] <= customers.y.mean() <= prior["high"]
    assert prior["low"] < prior["value"] < prior["high"]
    assert prior["high"] - prior["low"] < (before["high"] - before["low"]) / 2
    scored = after.score(customers.frame)
    assert scored["decision"].to_list() == (scored["probability"] > 0.5).to_list()
    assert customers.y[scored["decision"].to_numpy()].mean() > customers.y.mean()
    assert after.candidates["probability"].null_count() == 0
    points = {point["k"]: point for point in after.summary["review"]}
    assert points[100]["precision_low"] <= points[100]["precision"] <= points[100]["precision_high"]
    answered = set(model.draw.frame["customer"][:120])
    assert not answered & set(after.candidates["customer"])
    assert not answered & {row["id"] for row in after.summary["candidates"]}
    assert all(item["value"] is not None for item in after.summary["metrics"])
    assert "The review measured it." in after.report()
    again = TableModel.load(after.save(tmp_path / "again"))
    assert again.summary["prior"] == prior


def test_decisions_by_a_budget_by_costs_and_by_a_range() -> None:
    frame = Customers(600).frame
    fitted = {"label": "churned", "id": "customer", "method": "elkan-noto"}
    by_top = fit_table(frame, **fitted, top=40)
    assert by_top.candidates["decision"].sum() == 40
    many = fit_table(Customers(1600).frame, **fitted, top=1100).candidates  # reasons are for the first 1,000
    assert many["reason_1"].null_count() == many.height - 1000 == 100
    by_budget = fit_table(frame, **fitted, budget=0.1)
    assert by_budget.candidates["decision"].sum() == round(0.1 * by_budget.summary["table"]["unlabeled"])
    figures = {item["name"]: item for item in by_top.summary["metrics"]}
    assert figures["precision"]["value"] is None
    assert figures["recall"]["value"] is not None
    told = fit_table(frame, **fitted, prior=(0.25, 0.36), costs=(1, 3))
    assert (told.summary["prior"]["low"], told.summary["prior"]["high"]) == (0.25, 0.36)
    assert told.summary["prior"]["value"] == pytest.approx(0.3)
    scored = told.score(frame)
    assert scored["decision"].to_list() == (scored["probability"] > 0.25).to_list()
    np.testing.assert_allclose(told.predict_proba(frame)[:, 1], scored["probability"])
    assert told.predict(frame).tolist() == scored["decision"].to_list()
    half = fit_table(frame, **fitted, prior=0.3).score(frame)
    assert half["decision"].sum() < scored["decision"].sum()
    assert (half["probability_low"] == half["probability_high"]).all()


def test_biased_labelling_is_called_out_if_it_contradicts_a_known_prior(model: TableModel) -> None:
    customers = Customers(1500)
    north = np.random.default_rng(5).random(1500) < 0.5
    labelled = customers.y & north & (np.random.default_rng(6).random(1500) < 0.8)
    frame = customers.frame.with_columns(churned=pl.Series(labelled.astype(int)), north=pl.Series(north))
    assert not any("not like the other positives" in text for text in model.summary["warnings"])
    biased = fit_table(frame, "churned", method="nnpu-boosting", prior=0.3)
    assert any("not like the other positives" in text for text in biased.summary["warnings"])


def test_few_rows_and_few_labels_work() -> None:
    frame = Customers(60).frame
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fit_table(frame, "churned", method="elkan-noto", prior=0.3)
    assert any("rows are labelled: every figure here is rough" in text for text in model.summary["warnings"])
    assert model.score(frame)["probability"].is_finite().all()


def test_what_is_not_a_csv_value_does_not_stop_a_fit(tmp_path: Path) -> None:
    frame = Customers(200).frame.with_columns(tags=pl.Series([["a"]] * 200), raw=pl.Series([b"x"] * 200))
    folder = fit_table(frame, "churned", method="elkan-noto", prior=0.3).save(tmp_path / "model")
    (folder / "candidates.csv").write_bytes(b"a,b\n1,2,3,4\n\xe9\n")  # spoilt by somebody
    assert TableModel.load(folder).candidates.is_empty()


def test_ids_of_a_file_stay_as_they_are_written(tmp_path: Path) -> None:
    ids = [f"{i:05d}" for i in range(199)] + ["NA"]  # Namibia, not a gap
    codes = pl.Series("zip", [f"{i % 9:05d}" for i in range(200)])
    frame = Customers(200).frame.with_columns(codes, pl.Series("customer", ids), agent=pl.int_range(200) % 7)
    frame.write_csv(tmp_path / "t.csv")
    model = fit_table(tmp_path / "t.csv", "churned", id="customer", method="elkan-noto", prior=0.3)
    assert set(model.candidates["customer"]) <= set(ids)
    assert model.candidates["agent"].dtype == pl.Int64
    assert model.candidates["zip"].str.len_chars().unique().to_list() == [5]
    assert model.score(tmp_path / "t.csv")["customer"].to_list() == ids
    again = TableModel.load(model.save(tmp_path / "model"))
    assert again.candidates.select("customer", "zip").equals(model.candidates.select("customer", "zip"))
    other = frames.read_table(tmp_path / "t.csv", "customer").with_columns(
        churned=pl.col("churned").replace_strict({"1": "yes", "0": None})
    )
    assert again.rank(other, 200)["customer"].to_list() == again.rank(tmp_path / "t.csv", 200)["customer"].to_list()


def test_numbers_written_with_a_decimal_comma_are_numbers_and_odd_ones_are_called_out(tmp_path: Path) -> None:
    frame = Customers(300).frame
    thousands = (1000 * pl.col("spent")).cast(pl.Int64).cast(pl.String).str.replace(r"(\d{3})$", ",$1")
    comma = pl.col("spent").round(2).cast(pl.String).str.replace(".", ",", literal=True)
    for name, spent in (("point", pl.col("spent").round(2)), ("comma", comma), ("thousands", thousands)):
        frame.with_columns(spent=spent).write_csv(tmp_path / f"{name}.csv", separator=";")
    point, comma, odd = (
        fit_table(tmp_path / f"{name}.csv", "churned", method="elkan-noto", prior=0.3)
        for name in ("point", "comma", "thousands")
    )
    scores = point.score(tmp_path / "point.csv")
    assert comma.score(tmp_path / "comma.csv").equals(scores)
    with pytest.raises(InputError, match=r"column 'spent' of point.csv must hold numbers written as 1234,5"):
        comma.score(tmp_path / "point.csv")  # in which 1.234 would be a thousand times as much
    assert comma.score(frames.read_table(tmp_path / "point.csv").cast({"spent": pl.Float64})).equals(scores)
    assert comma.candidates["spent"].dtype == pl.Float64
    assert not any("looks like numbers" in text for text in comma.summary["warnings"])
    assert any("'spent' looks like numbers or dates, but was read as words" in text for text in odd.summary["warnings"])


def test_how_rows_are_interleaved_does_not_matter() -> None:
    frame = Customers(300).frame
    ordered = frame.sort("churned", descending=True, maintain_order=True)
    first, second = (fit_table(f, "churned", id="customer", method="elkan-noto", prior=0.3) for f in (frame, ordered))
    assert first.candidates["customer"].to_list() == second.candidates["customer"].to_list()


def test_files_that_lie_are_refused(model: TableModel, tmp_path: Path) -> None:
    folder = model.save(tmp_path / "model")
    (folder / "candidates.csv").unlink()  # not part of the model: its checksum is nobody's business
    assert TableModel.load(folder).candidates.is_empty()
    with pytest.raises(ModelFileError, match="it holds a table model, not a classifier"):
        load_model(folder)
    raw = (folder / "arrays.safetensors").read_bytes()
    (folder / "arrays.safetensors").write_bytes(raw[:-8] + b"\xff" * 8)
    with pytest.raises(ModelFileError, match=r"arrays.safetensors is cut off or has been changed"):
        TableModel.load(folder)
    with pytest.raises(ModelFileError, match="holds no model"):
        TableModel.load(tmp_path)


def test_columns_of_every_kind_can_be_fitted_scored_and_ranked_as_text(tmp_path: Path) -> None:
    """A CSV file is typed when it is fitted and text when it is streamed: the two must read the same."""
    customers = Customers(300)
    table = customers.frame.with_columns(
        at=pl.Series([f"{i % 24:02d}:30:00" for i in range(300)]),
        seen=pl.Series([f"2024-05-{i % 28 + 1:02d} 10:{i % 60:02d}:00" for i in range(300)]),
        code=pl.Series([f"{i % 7:03d}" for i in range(300)]),
        flag=pl.Series(["True" if i % 2 else "False" for i in range(300)]),
        constant=pl.lit(1),
    )
    for i, marks in enumerate((["True", "False"], ["1.0", ""], ["Yes", "NO"])):
        path = tmp_path / f"t{i}.csv"
        table.with_columns(churned=pl.Series([marks[0] if k else marks[1] for k in customers.s])).write_csv(path)
        model = fit_table(path, "churned", id="customer", method="elkan-noto", prior=0.3)
        typed = pl.read_csv(path, try_parse_dates=True).cast({"code": pl.String}, strict=False)
        assert model.score(path)["score"].to_list() == model.score(typed)["score"].to_list()
        ranked = {int(name.removeprefix("c-")) for name in model.rank(path, top=100)["customer"]}
        assert not customers.s[list(ranked)].any()
    kinds = {column["name"]: column["kind"] for column in model.summary["table"]["columns"]}
    assert (kinds["at"], kinds["seen"], kinds["constant"]) == ("number", "date", "left out")


def test_columns_named_as_the_results_are() -> None:
    customers = Customers(200)
    names = {"age": "score", "spent": "rank", "plan": "row", "notes": "probability", "joined": "stability"}
    model = fit_table(customers.frame.rename(names), "churned", method="elkan-noto", prior=0.3)
    assert "score (in the table)" in model.candidates.columns
    ranked = model.rank(customers.frame.rename(names), top=3)
    assert ranked.columns[:3] == ["rank", "row", "score"]
    assert "rank (in the table)" in ranked.columns
    with pytest.raises(InputError, match="cannot be called 'score'"):
        fit_table(customers.frame.rename({"customer": "score"}), "churned", id="score")


def test_dates_do_not_upset_a_plane() -> None:
    """A year is thousands of deviations from zero: a solver that sees it so stops at once."""
    customers = Customers(2000, seed=2)
    model = fit_table(customers.frame, "churned", method="elkan-noto", prior=0.3)
    assert roc_auc_score(customers.y, model.score(customers.frame)["score"]) > 0.93
    assert model.summary["stability"]["mean"] > 0.8


def test_a_prior_near_the_labelled_share_works() -> None:
    customers = Customers(300)
    share = customers.s.mean()
    for method in ("elkan-noto", "nnpu-boosting", "two-step"):
        model = fit_table(customers.frame, "churned", method=method, prior=share + 1e-4)
        assert model.score(customers.frame)["probability"].is_finite().all()


def test_a_gap_that_gives_the_label_away_is_called_out() -> None:
    frame = Customers(600).frame
    leak = pl.Series([1.0 if known else None for known in frame["churned"]])
    model = fit_table(frame.with_columns(cancelled_on=leak), "churned", method="elkan-noto", prior=0.3)
    assert any("'cancelled_on'" in text and "--drop" in text for text in model.summary["warnings"])


@pytest.mark.parametrize("columns", [["age", "spent"], ["plan", "notes"], ["joined"], ["member", "plan"]])
def test_tables_of_one_kind_of_column(columns: list[str]) -> None:
    frame = Customers(200).frame.select(*columns, "churned")
    model = fit_table(frame, "churned", method="elkan-noto", prior=0.3)
    assert model.score(frame)["probability"].is_finite().all()
    assert {item["name"] for item in model.summary["features"]} == set(columns)


def test_huge_numbers_stay_finite() -> None:
    frame = Customers(300).frame
    spent = frame["spent"].to_list()
    spent[0], spent[1] = 1e300, -1e9
    for method in ("elkan-noto", "nnpu-boosting"):
        model = fit_table(frame.with_columns(spent=pl.Series(spent)), "churned", method=method, prior=0.3)
        scored = model.score(frame.with_columns(spent=pl.lit(1e30)))
        assert scored.select(pl.col("score", "probability").is_finite().all()).row(0) == (True, True)
