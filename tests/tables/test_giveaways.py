"""Columns that give the label away are named, and strong predictors are not."""

import datetime
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from pulab.tables import fit_table
from pulab.tables._columns import LEFT_OUT, Column, column_of, conform
from pulab.tables._drift import learn_profile
from pulab.tables._giveaways import Evidence, giveaways, warnings_of
from pulab.tables._labels import read_labels

from .conftest import Customers

Marks = NDArray[np.bool_]


def found(frame: pl.DataFrame, labelled: Marks) -> list[Evidence]:
    columns = [column for column in map(column_of, frame.get_columns()) if column.kind != LEFT_OUT]
    return giveaways(conform(frame, columns, "a table"), columns, labelled)


def late(s: Marks, rng: np.random.Generator) -> list[Any]:
    """Rows change over two years; those that are labelled were touched after that."""
    days = np.where(s, 700 + 20 * rng.random(len(s)), 700 * rng.random(len(s)))
    return [datetime.datetime(2024, 1, 1) + datetime.timedelta(days=float(day)) for day in days]


PLANTED: dict[str, tuple[Callable[[Marks, np.random.Generator], Any], str]] = {
    "late": (late, "after 2025-11-30"),
    "filled for some": (lambda s, rng: np.where(s & (rng.random(len(s)) < 0.3), "done", None), "a value"),
    "emptied": (lambda s, rng: np.where(s, None, rng.choice(["a", "b"], len(s))), "none there"),
    "a code": (lambda s, rng: np.where(s & (rng.random(len(s)) < 0.3), 4.0, rng.integers(0, 9, len(s)) // 4 * 3), "4"),
    "a campaign": (lambda s, rng: np.where(s, 500 + rng.random(len(s)), 1000 * rng.random(len(s))), "from 500"),
    "a word in a text": (
        lambda s, rng: [f"{'closed' if mark else 'open'} case {i % 500}" for i, mark in enumerate(s)],
        "word 'closed'",
    ),
}


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_column_is_named_and_no_other(customers: Customers, kind: str) -> None:
    make, what = PLANTED[kind]
    planted = pl.Series(list(make(customers.s, np.random.default_rng(0))), strict=False)
    frame = customers.frame.drop("churned").with_columns(planted.alias("late column"))
    (item,) = found(frame, customers.s)
    assert (item.column, what in item.what) == ("late column", True)
    (text,) = warnings_of([item], customers.s)
    assert '--drop "late column"' in text
    assert "294 labelled rows" in text


@pytest.mark.parametrize("frequency", [0.1, 0.4, 0.65])
def test_perfect_predictors_are_not_named_as_long_as_positives_are_hidden(frequency: float) -> None:
    """Every column is pure: no negative has the values of positives. Labels are random, in forty tables."""
    fired = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        y = rng.random(2000) < 0.1
        frame = pl.DataFrame(
            {
                "number": rng.normal(size=2000) + 20 * y,
                "code": np.where(y, 7.0, rng.integers(0, 5, 2000)),
                "word": np.where(y, "yes", rng.choice(["no", "never"], 2000)),
                "filled": np.where(y, "x", None),
                "text": [f"{'ill' if mark else 'fit'} today, visit {i % 700}" for i, mark in enumerate(y)],
            }
        )
        fired += bool(found(frame, y & (rng.random(2000) < frequency)))
    assert fired == 0


def test_the_fit_warns(customers: Customers) -> None:
    frame = customers.frame.with_columns(updated_at=pl.Series(late(customers.s, np.random.default_rng(0))))
    model = fit_table(frame, "churned", id="customer", method="elkan-noto", prior=0.3)
    named = [text for text in model.summary["warnings"] if "probably gives the label away" in text]
    assert len(named) == 1
    assert "--drop updated_at" in named[0]


def test_columns_may_have_any_name() -> None:
    """Counts of values have columns of their own, which must not meet those of the table."""
    labelled = np.arange(400) % 2 == 0
    for name in ("n", "others", "value", "word", "more"):
        for kind, values in (("number", [float(i % 3) for i in range(400)]), ("text", ["a b", "c d"] * 200)):
            frame = pl.DataFrame({name: values})
            found = giveaways(frame, [Column(name, kind)], labelled)
            assert [item.column for item in found] == [name] * (kind == "text")
            profile = learn_profile(frame, [Column(name, kind)], np.full(400, 0.5))
            assert profile["columns"][0]["words"] == (["a b", "c d"] if kind == "text" else [])
    for words in (["yes", "no"], ["churned", None]):
        _, marks = read_labels(pl.Series("count", words * 10))
        assert marks.tolist() == [True, False] * 10
