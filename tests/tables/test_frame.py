"""Reading tables, and what their label column says."""

import csv
import datetime
import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

from pulab.errors import DataFormatError, DataNotFoundError, InputError
from pulab.tables._columns import Column, column_of, conform, misfit
from pulab.tables._frame import batches, read_table
from pulab.tables._labels import read_labels

from .conftest import Customers


@pytest.mark.parametrize(
    "values",
    [
        [1, 0, 1, 0, 0],
        [1, -1, 1, -1, -1],
        [1.0, 0.0, 1.0, 0.0, 0.0],
        [1.0, None, 1.0, None, None],
        [1.0, float("nan"), 1.0, float("nan"), None],
        [True, False, True, False, False],
        [True, None, True, None, None],
        ["yes", "", "yes", "", " "],
        ["yes", None, "yes", None, None],
        ["yes", "no", "yes", "no", "no"],
        ["churned", None, "churned", "", None],
        ["1", "0", "1", "0", "0"],
        ["TRUE", "FALSE", "TRUE", "FALSE", "FALSE"],
        [7, None, 7, None, None],
        ["positive", "unlabeled", "positive", "unlabeled", "unlabeled"],
        ["churned", "none", "churned", "None", None],
    ],
)
def test_label_columns_that_need_no_explanation(values: list[Any]) -> None:
    column, labelled = read_labels(pl.Series("label", values, strict=False))
    np.testing.assert_array_equal(labelled, [True, False, True, False, False])
    np.testing.assert_array_equal(column.of(pl.Series(values, strict=False)), labelled)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["a", "b", "a"], "which value marks the known positives.*--positive"),
        ([1, 0, None], "which value marks"),
        ([1, 2, 3], "which value marks"),
        ([2, 5, 2], "which value marks"),
        (["yes", "true", "no"], "which value marks"),
        ([0, 0, 0], "no row of column 'label' is a known positive"),
        ([-1, None, -1], "no row of column 'label' is a known positive"),
        ([None, None, None], "empty"),
        (["", " ", "NA"], "empty"),
        ([1, 1, 1], "Add unlabeled rows"),
        (["x", "x", "x"], "which value marks"),
    ],
)
def test_label_columns_that_do(values: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        read_labels(pl.Series("label", values))
    assert "\n" not in str(error.value)


def test_a_value_that_is_named_marks_the_positives() -> None:
    for values, positive in (
        (["a", "b", "c"], "a"),
        ([1, 0, None], 1),
        ([3, 2, 1], "3.0"),
        (["Gold", "x", "x"], "gold"),
    ):
        labelled = read_labels(pl.Series("label", values, strict=False), positive)[1]
        np.testing.assert_array_equal(labelled, [True, False, False])
    with pytest.raises(InputError, match="no row of column 'label' is 'z'; it holds 'a'"):
        read_labels(pl.Series("label", ["a", "b"]), "z")
    with pytest.raises(InputError, match="Add unlabeled rows"):
        read_labels(pl.Series("label", ["a", "a"]), "a")


def test_csv_and_parquet_and_frames_are_the_same_table(customers: Customers, tmp_path: Path) -> None:
    frame = customers.frame.drop("nothing")
    frame.write_csv(tmp_path / "t.csv")
    frame.write_csv(tmp_path / "t.tsv", separator="\t", include_bom=True)
    frame.write_csv(tmp_path / "t.txt", separator=";")
    frame.write_parquet(tmp_path / "t.parquet")
    for source in ("t.csv", "t.tsv", "t.txt", "t.parquet"):
        read = read_table(tmp_path / source)
        assert read.columns == frame.columns
        columns = [column_of(read[name]) for name in read.columns]
        assert [c.kind for c in columns] == [column_of(frame[name]).kind for name in frame.columns]
        assert read["notes"].to_list() == frame["notes"].to_list()
        pieces = pl.concat(list(batches(tmp_path / source)))
        columns = [column for column in columns if column.kind != "left out"]
        assert conform(pieces, columns, "it").equals(conform(frame, columns, "it"))
    assert read_table(frame.to_pandas()).columns == frame.columns
    assert read_table(frame.lazy()).equals(frame)
    assert read_table(frame.to_arrow()).equals(frame)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b\n1,2\n3,4,5\n6,7\n", "line 3 of .* has 3 fields, but its first line names 2"),
        (b"a,b\n1,2\n3\n6,7\n", "line 3 of .* has 1 fields"),
        (b'a,b\n1,"oops\n2,x\n', "a quote that is not closed"),
        (b'a,b,c\n1,"x",2\n2,"y,5\n3,w,6\n4,w,8\n9,w",3\n', "column 'b' of .* holds 2 whole lines of the table"),
        (b"a,b\n1," + 200_000 * b"x" + b"\n2\n", "line 3 of .* has 1 fields"),
        (b'a,b\n1,"' + 200_000 * b"x" + b"\n", "a quote that is not closed.*unexpected end"),
        (b"", "empty line"),
        (b"\x1f\x8b\x08 and so on", "cut off or damaged"),
        (b"PK\x03\x04 and so on", "archive"),
        (b"BZh91AY&SY", "compressed, and not by gzip"),
        (b"a,b\n", "no rows"),
        (b"\xff\xfea,b\n1,2\n", "UTF-8"),
        (b"a,b\n1,caf\xe9\n", "UTF-8"),
        (b"a,a\n1,2\n", "two columns are called 'a'"),
        (b"PAR1 and then nothing of the kind", "cannot be read as a Parquet file"),
    ],
)
def test_broken_files_get_one_line(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    limit = csv.field_size_limit()
    with pytest.raises((DataFormatError, InputError), match=message) as error:
        read_table(path)
    assert "\n" not in str(error.value)
    assert csv.field_size_limit() == limit


def test_quoted_fields_may_hold_anything(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('a,b\n"x, y",1\n"two\nlines",2\n"say ""hi""",3\n"a\nb, c\nd",4\n')
    wanted = ["x, y", "two\nlines", 'say "hi"', "a\nb, c\nd"]
    assert read_table(path)["a"].to_list() == wanted
    assert pl.concat(list(batches(path)))["a"].to_list() == wanted
    path.write_text('a,b\n1,"x\n2,y\n3,z\n4,"\n')
    with pytest.raises(DataFormatError, match="holds 2 whole lines"):
        list(batches(path, ["a"]))  # rows are lost, although column a looks well


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "customers.csv").write_text("a\n1\n")
    with pytest.raises(DataNotFoundError, match=r"Did you mean 'customers.csv'"):
        read_table(tmp_path / "costumers.csv")
    for address in ("https://example.org/t.csv", Path("s3://bucket/t.parquet")):
        with pytest.raises(InputError, match=r"is an address, not a file. Download it first"):
            read_table(address)
    with pytest.raises(InputError, match="folder"):
        read_table(tmp_path)
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(InputError, match="Save it to a file first"):
        read_table(tmp_path / "pipe.csv")
    with pytest.raises(InputError, match="must be the path of a file"):
        read_table([[1, 2]])


def test_columns_that_only_pandas_or_pyarrow_write(tmp_path: Path) -> None:
    wide = pa.array([Decimal("0.5"), None], pa.decimal256(60, 2))
    table = pa.table({"x": [1, 2], "wide": wide, "__index_level_0__": [7, 9]})
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    for source in (table, tmp_path / "t.parquet"):
        assert read_table(source).to_dict(as_series=False) == {"x": [1, 2], "wide": [0.5, None]}


def test_a_lazy_frame_that_cannot_be_collected(tmp_path: Path) -> None:
    for frame in (pl.LazyFrame({"x": ["a"]}).select(pl.col("y")), pl.scan_csv(tmp_path / "none.csv")):
        with pytest.raises(InputError, match="the lazy frame cannot be collected") as error:
            read_table(frame)
        assert "\n" not in str(error.value)


def test_files_of_odd_shapes(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    for content, wanted in (
        ("x\n1\n\n2\n", {"x": ["1", None, "2"]}),
        (
            "x,y,,\n1,2,,\n\n3,4,5,\n",
            {"x": ["1", "3"], "y": ["2", "4"], "column 3": [None, "5"], "column 4": [None, None]},
        ),
        ('"net, in\nEUR";y\n1,5;2\n', {"net, in\nEUR": ["1,5"], "y": ["2"]}),
        ("x,y\r1,2\r3,4\r", {"x": ["1", "3"], "y": ["2", "4"]}),
        ('x,y\n5" pipe,1\n', {"x": ['5" pipe'], "y": ["1"]}),
    ):
        path.write_text(content)
        for frame in (read_table(path), pl.concat(list(batches(path)))):
            assert frame.to_dict(as_series=False) == wanted


@pytest.mark.parametrize(
    ("texts", "kind", "form", "values"),
    [
        (["1,5", "12", "-0,25"], "number", ",", [1.5, 12, -0.25]),
        (["1.234,5", "2.000", "7"], "number", ",", [1234.5, 2000, 7]),
        (["1,234,567", "12", "1,000.5"], "number", "1,000", [1234567, 12, 1000.5]),
        (["1'234,5", "2 000", "1\u00a0234\u202f567", "7"], "number", ",", [1234.5, 2000, 1234567, 7]),
        (["1 234,567", "12"], "number", ",", [1234.567, 12]),
        (["1'234.567", "2\u2019000", "7"], "number", "1,000", [1234.567, 2000, 7]),
        (["\u22121.5", "2", "-3"], "number", "", [-1.5, 2, -3]),
        (["\u22121.234,5", "2"], "number", ",", [-1234.5, 2]),
        (["1,234", "5,678", "9"], "text", "", None),  # either
        (["01/02/24", "03/04/24"], "text", "", None),  # of which century?
        (["2024-01-01 25:70", "2024-01-01"], "text", "", None),
        (["1.5", "n", "2"], "text", "", None),
        (["31.12.2020", "1.2.2021", None], "date", "%d.%m.%Y", ["2020-12-31", "2021-02-01", None]),
        (["12/31/2020", "01/02/2021"], "date", "%m/%d/%Y", ["2020-12-31", "2021-01-02"]),
        (["31/12/2020", "01/02/2021"], "date", "%d/%m/%Y", ["2020-12-31", "2021-02-01"]),
        (["12-31-2020", "01-02-2021"], "date", "%m-%d-%Y", ["2020-12-31", "2021-01-02"]),
        (["31-12-2020", "01-02-2021"], "date", "%d-%m-%Y", ["2020-12-31", "2021-02-01"]),
        (
            ["2020-12-31T10:30:00Z", "2020-12-31 10:30+02:00", "2020-12-31T10:30:15.5-0530"],
            "date",
            "%Y-%m-%d",
            ["2020-12-31 10:30", "2020-12-31 08:30", "2020-12-31 16:00"],
        ),
        (["12:30:01", "13:45", "0:00:00.500"], "time", "", [45001, 49500, 0.5]),
        (["TRUE", "false", "True"], "boolean", "", [True, False, True]),
    ],
)
def test_texts_are_what_they_look_like(texts: list[Any], kind: str, form: str, values: list[Any] | None) -> None:
    text = pl.Series("x", texts)
    assert column_of(text) == Column("x", kind, form)
    if values is None:
        return
    read = conform(text.to_frame(), [Column("x", kind, form)], "it")["x"]
    if kind == "date":
        wanted = pl.Series(values, dtype=pl.String)
        for piece in text.to_frame().iter_slices(1):  # what a value is does not depend on the others
            assert conform(piece, [Column("x", kind, form)], "it")["x"][0] in read.to_list()
        assert read.dt.to_string("%Y-%m-%d %H:%M").str.strip_suffix(" 00:00").to_list() == wanted.to_list()
    else:
        assert read.to_list() == values


@pytest.mark.parametrize(
    ("write", "bad"),
    [
        (lambda i: f"01.01.{2000 + i}", "unknown"),
        (lambda i: f"{i},5", "unknown"),
        (lambda i: f"1.{100 + i},5", "5 €"),
        (lambda i: f"\u2212{i}", "unknown"),
        (lambda i: f"{100 + i} %", None),
        (lambda i: f"1'{100 + i}", None),
        (lambda i: f"1 {100 + i}", None),
        (lambda i: f"1\u202f{100 + i}", None),
        (lambda i: f"\u2212{i} €", None),
    ],
)
def test_the_value_that_keeps_a_column_from_being_read_is_named(write: Callable[[int], str], bad: str | None) -> None:
    texts = [write(i) for i in range(1, 61)]
    values = pl.Series("x", texts + ([bad] if bad else []))
    assert column_of(values) == Column("x", "text")  # not left out as identifiers
    assert misfit(values) == (bad or texts[0])


def test_gaps_are_gaps_in_whatever_holds_them() -> None:
    texts = ["a", " ?", "  ", "none", " NA ", "None"]
    for values in (pl.Series("x", texts), pl.Series("x", texts, dtype=pl.Categorical)):
        (frame,) = batches(values.to_frame())
        assert frame["x"].to_list() == ["a", None, None, "none", None, "None"]
    assert column_of(pl.Series("x", ["none", "some", "many"])).kind == "text"
    for texts, kind, value in (
        (["2.5", "7", "None", " none", None], "number", 2.5),
        (["2024-01-02", "2024-01-03", "None", " none", None], "date", datetime.datetime(2024, 1, 2)),
        (["true", "false", "None", " none", None], "boolean", True),
    ):
        written = pl.Series("x", texts)
        assert column_of(written).kind == kind
        read = conform(written.to_frame(), [column_of(written)], "it")["x"]
        assert (read[0], read.null_count()) == (value, 3)
    decimals = pl.Series("x", [Decimal(i) / 4 for i in range(60)], dtype=pl.Decimal(10, 2))
    assert column_of(decimals).kind == "number"
    floats = pl.Series("x", [1.0, 2.5, float("nan"), None])
    assert conform(floats.to_frame(), [Column("x", "text")], "it")["x"].to_list() == ["1", "2.5", None, None]
    late = pl.Series("x", [str(i) for i in range(6000)] + ["oops"])
    with pytest.raises(InputError, match="got 'oops'"):
        conform(late.to_frame(), [Column("x", "number")], "it")


def test_columns_that_carry_nothing_are_left_out() -> None:
    n = 100
    table = pl.DataFrame(
        {
            "counter": range(1000, 1000 + n),
            "code": [f"id-{i}" for i in range(n)],
            "salary": [i * i * 1000 for i in range(n)],
            "text": [f"note number {i}" for i in range(n)],
            "list": [[i] for i in range(n)],
        }
    )
    kinds = {name: column_of(table[name]).kind for name in table.columns}
    assert kinds == {
        "counter": "left out",
        "code": "left out",
        "salary": "number",
        "text": "text",
        "list": "left out",
    }


def test_other_types_of_the_same_values_conform() -> None:
    columns = [Column("n", "number"), Column("b", "boolean"), Column("d", "date"), Column("t", "text")]
    wanted = conform(
        pl.DataFrame(
            {"n": [1.5, None], "b": [True, False], "d": ["2024-01-02", "2024-03-04"], "t": ["1", "x"]}
        ).with_columns(pl.col("d").str.to_date()),
        columns,
        "it",
    )
    texts = pl.DataFrame({"n": [" 1.5", None], "b": ["TRUE", "no"], "d": ["2024-01-02", "2024-03-04"], "t": ["1", "x"]})
    assert conform(texts, columns, "it").equals(wanted)
    infinite = texts.with_columns(n=pl.Series([1.5, float("inf")]))
    assert conform(infinite, columns, "it").equals(wanted)
    for name, bad in (("n", "abc"), ("n", "1,234"), ("b", "perhaps"), ("d", "yesterday")):
        wrong = texts.with_columns(pl.lit(bad).alias(name))
        with pytest.raises(InputError, match=f"column '{name}' of it must hold .* got '{bad}'"):
            conform(wrong, columns, "it")
    for name, other in (("n", datetime.date(2024, 1, 2)), ("d", 5)):  # polars would make one of the other
        with pytest.raises(InputError, match=f"column '{name}' of it must hold"):
            conform(texts.with_columns(pl.lit(other).alias(name)), columns, "it")
