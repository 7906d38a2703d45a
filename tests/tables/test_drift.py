"""A file that looks unlike the training table is told apart, and a fresh sample of the same population is not."""

import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from pulab.persistence import write_folder
from pulab.tables import TableModel, _model, fit_table
from pulab.tables._columns import LEFT_OUT, column_of, conform
from pulab.tables._drift import SAMPLE, Profile, Watch, check_profile, learn_profile

from .conftest import Customers


def rows_of(n: int, seed: int, **changes: pl.Expr) -> tuple[pl.DataFrame, Any]:
    frame = Customers(n, seed).frame.with_columns(**changes)
    return frame, np.random.default_rng(seed).random(n)


def learned(frame: pl.DataFrame, probability: Any) -> tuple[Profile, list[Any]]:
    columns = [c for c in map(column_of, frame.drop("customer", "churned").get_columns()) if c.kind != LEFT_OUT]
    profile = learn_profile(conform(frame, columns, "a table"), columns, probability)
    return json.loads(json.dumps(profile)), columns  # as it comes from a file


def lines(profile: Profile, columns: list[Any], frame: pl.DataFrame, probability: Any, pieces: int = 3) -> list[str]:
    watch = Watch(profile)
    for part in np.array_split(np.arange(frame.height), pieces):
        watch.add(conform(frame[part], columns, "a table"), probability[part])
    return watch.lines()


CHANGED: dict[str, tuple[pl.Expr, str]] = {
    "age": (pl.col("age") + 12, r"'age' looks different: median 5\d(\.\d+)?, was 4\d"),
    "spent": (
        pl.when(pl.int_range(pl.len()) % 3 == 0).then(None).otherwise(pl.col("spent")),
        "'spent' looks different: 33% missing, was 0%",
    ),
    "plan": (pl.col("plan").replace("silver", "platinum"), "has never seen, such as 'platinum'"),
    "joined": (
        pl.col("joined") + datetime.timedelta(days=365),
        r"'joined' looks different: median 2025-\d+-\d+, was 2024-",
    ),
    "member": (pl.lit(True), "'true' in 100% of the rows, was 5"),
    "notes": (pl.col("notes") + " and called again after that", "'notes' looks different: median length"),
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_changed_column_is_named_with_what_changed(name: str) -> None:
    profile, columns = learned(*rows_of(3000, 0))
    change, pattern = CHANGED[name]
    first, *rest = lines(profile, columns, *rows_of(1000, 1, **{name: change}))
    assert pl.Series([first]).str.contains(pattern).all(), first
    assert len(rest) == 1
    assert "another mixture" in rest[0]


@pytest.mark.parametrize("n", [30, 300, 3000])
def test_a_fresh_sample_of_the_same_population_is_not_named(n: int) -> None:
    """A hundred files for each of three sizes. Less than one in a hundred may be named by chance."""
    profile, columns = learned(*rows_of(500, 0))
    named = [told for seed in range(1, 101) if (told := lines(profile, columns, *rows_of(n, seed)))]
    assert len(named) <= 2, named


def test_the_sample_is_random_and_its_size_does_not_grow() -> None:
    """The end of a sorted file must count as much as its beginning."""
    frame, probability = rows_of(4 * SAMPLE, 1)
    profile, columns = learned(frame, probability)
    watch = Watch(profile)
    order = np.argsort(frame["spent"].to_numpy())
    for part in np.array_split(order, 7):
        watch.add(conform(frame[part], columns, "a table"), probability[part])
    assert watch._sample is not None
    assert watch._sample.height == SAMPLE
    assert watch.lines() == []


def test_a_shift_of_the_scores_is_told() -> None:
    profile, columns = learned(*rows_of(3000, 0))
    frame, probability = rows_of(1000, 1)
    assert lines(profile, columns, frame, probability**3)[0] == "The mean probability is 0.25, was 0.5."


def test_a_model_keeps_its_profile_and_old_folders_load_without(
    customers: Customers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = fit_table(customers.frame, "churned", id="customer", method="elkan-noto", prior=0.3)
    again = TableModel.load(model.save(tmp_path / "model"))
    assert again.profile == model.profile
    other = Customers(1000, seed=1).frame.with_columns(pl.col("age") + 12)
    for table, told in ((Customers(1000, seed=1).frame, False), (other, True)):
        for use in (
            lambda w, t=table: again.score_file(t, tmp_path / "out.csv", watch=w),
            lambda w, t=table: again.rank(t, watch=w),
        ):
            watch = again.watch()
            use(watch)
            assert any("'age'" in line for line in watch.lines()) == told

    def write_old(folder: Path, document: dict[str, Any], *rest: Any) -> Path:
        return write_folder(folder, {key: value for key, value in document.items() if key != "profile"}, *rest)

    monkeypatch.setattr(_model, "write_folder", write_old)
    old = TableModel.load(model.save(tmp_path / "old"))
    watch = old.watch()
    old.rank(other, watch=watch)
    assert watch.lines() == []


def test_a_damaged_profile_is_refused() -> None:
    profile, _ = learned(*rows_of(300, 0))
    assert check_profile(profile) == profile
    profile["columns"][0]["shares"].pop()
    with pytest.raises(ValueError, match="shares"):
        check_profile(profile)
