"""Tables in files of many formats, folders and databases."""

import datetime
import gzip
import json
import sqlite3
import sys
import zipfile
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from pulab.errors import DataFormatError, DataNotFoundError, InputError
from pulab.tables import TableModel, fit_table
from pulab.tables._frame import batches, like, name_of, read_table
from pulab.tables._sources import is_changed_by, is_inside

from .conftest import Customers

FRAME = pl.DataFrame(
    {
        "id": ["007", "NA", "a,b"],
        "n": [1, None, 3],
        "x": [0.5, 2.0, None],
        "yes": [True, False, None],
        "day": [datetime.date(2024, 1, 2), None, datetime.date(2024, 12, 31)],
    }
)
TEXT = FRAME.with_columns(pl.col("day").cast(pl.String))  # JSON and SQLite have no dates


def write_stream(path: Path) -> None:
    table = FRAME.to_arrow(compat_level=pl.CompatLevel.oldest())
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


def write_json(path: Path) -> None:
    lines = [json.dumps({k: v for k, v in row.items() if v is not None}) for row in TEXT.iter_rows(named=True)]
    raw = "\n\n".join(lines).encode()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)


def write_sqlite(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE t (id TEXT, n INTEGER, x REAL, yes INTEGER, day TEXT)")
        database.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", TEXT.rows())


def write_excel(path: Path, sheets: dict[str, Sequence[Sequence[Any]]]) -> None:
    """The least that is an Excel file. Dates have style 1, times 2."""

    def cell(value: Any) -> str:
        if isinstance(value, datetime.date):
            return f'<c s="1"><v>{(value - datetime.date(1899, 12, 30)).days}</v></c>'
        if isinstance(value, datetime.time):
            return f'<c s="2"><v>{(value.hour + value.minute / 60) / 24}</v></c>'
        if isinstance(value, bool):
            return f'<c t="b"><v>{int(value)}</v></c>'
        if isinstance(value, str):
            return f'<c t="inlineStr"><is><t>{value}</t></is></c>'
        return "<c/>" if value is None else f"<c><v>{value}</v></c>"

    main = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    numbered = list(enumerate(sheets.items(), 1))
    relations = 'xmlns="http://schemas.openxmlformats.org/package/2006/relationships"'
    with zipfile.ZipFile(path, "w") as archive:
        start = f'<Relationship Id="r" Type="{office}/officeDocument" Target="xl/workbook.xml"/>'
        archive.writestr("_rels/.rels", f"<Relationships {relations}>{start}</Relationships>")
        listed = "".join(f'<sheet name="{name}" sheetId="{i}" r:id="r{i}"/>' for i, (name, _) in numbered)
        archive.writestr("xl/workbook.xml", f'<workbook {main} xmlns:r="{office}"><sheets>{listed}</sheets></workbook>')
        links = "".join(
            f'<Relationship Id="r{i}" Type="{office}/worksheet" Target="worksheets/s{i}.xml"/>' for i, _ in numbered
        )
        archive.writestr("xl/_rels/workbook.xml.rels", f"<Relationships {relations}>{links}</Relationships>")
        styles = '<xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="20"/>'
        archive.writestr("xl/styles.xml", f"<styleSheet {main}><cellXfs>{styles}</cellXfs></styleSheet>")
        for i, (_, rows) in numbered:
            body = "".join(f"<row>{''.join(map(cell, row))}</row>" for row in rows)
            archive.writestr(f"xl/worksheets/s{i}.xml", f"<worksheet {main}><sheetData>{body}</sheetData></worksheet>")


@pytest.mark.parametrize(
    ("name", "write", "wanted"),
    [
        ("t.parquet", FRAME.write_parquet, FRAME),
        ("t.feather", FRAME.write_ipc, FRAME),
        ("t.arrow", write_stream, FRAME),
        ("t.jsonl", write_json, TEXT),
        ("t.ndjson.gz", write_json, TEXT),
        ("t.db", write_sqlite, TEXT.cast({"yes": pl.Int64})),
        ("t.xlsx", lambda path: write_excel(path, {"first": [FRAME.columns, *FRAME.rows()], "other": []}), FRAME),
    ],
)
def test_typed_files_keep_their_types(
    name: str, write: Callable[[Path], None], wanted: pl.DataFrame, tmp_path: Path
) -> None:
    for path in (tmp_path / name, tmp_path / "renamed.csv"):  # the content decides, not the ending
        write(tmp_path / name)
        (tmp_path / name).rename(path)
        read = read_table(path, id="id")
        assert read.schema == wanted.schema
        assert read.equals(wanted)
        (some,) = [pl.concat(list(batches(path, ["x", "n"], "id")))]
        assert some.select("n", "x").equals(wanted.select("n", "x"))
        path.unlink()


def test_text_files_may_be_compressed(tmp_path: Path) -> None:
    for name, separator in (("t.csv", ","), ("t.tsv", "\t")):
        FRAME.write_csv(tmp_path / name, separator=separator)
        raw = gzip.compress((tmp_path / name).read_bytes())
        (tmp_path / f"{name}.gz").write_bytes(raw)
        (tmp_path / "packed.csv").write_bytes(raw)
        plain = read_table(tmp_path / name, "id")
        assert plain["id"].to_list() == FRAME["id"].to_list()
        for other in (f"{name}.gz", "packed.csv"):
            assert read_table(tmp_path / other, "id").equals(plain)


def test_cells_of_excel(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    rows = [["code", "", "at", "mixed"], ["01", None, datetime.time(6, 30), 5], [None] * 4, ["02", 7, None, "x"]]
    write_excel(path, {"A#1": rows, "two": [["z"], [2.5]]})
    wanted = {"code": ["01", "02"], "column 2": [None, 7], "at": [datetime.time(6, 30), None], "mixed": ["5", "x"]}
    for source in (path, f"{path}#A#1"):
        assert read_table(source).to_dict(as_series=False) == wanted
    assert read_table(f"{path}#two").to_dict(as_series=False) == {"z": [2.5]}
    assert name_of(f"{path}#two") == "t.xlsx#two"
    (tmp_path / "t.csv#two").write_text("a\n1\n")
    assert read_table(tmp_path / "t.csv#two").columns == ["a"]  # a file of this name goes first


def test_values_of_json(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(
        '\ufeff{"a": 1, "b": [1], "c": 1, "d": 12345678901234567890}\n{"a": "x", "b": {"k": 2}, "c": 2.5}\n'
    )
    frame = read_table(path)
    assert frame.select("a", "c", "d").rows() == [("1", 1.0, "12345678901234567890"), ("x", 2.5, None)]
    assert frame["b"].dtype.is_nested()  # left out


def test_queries(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute('CREATE TABLE "the orders" (n, mixed, raw)')
        database.executemany(
            'INSERT INTO "the orders" VALUES (?, ?, ?)', [(i, i if i % 2 else "x", b"r") for i in range(5)]
        )
        database.execute("CREATE TABLE empty (a)")
    frame = read_table(f"{path}::SELECT n / 2.0 AS half, mixed FROM 'the orders' ORDER BY n DESC -- a//comment")
    assert frame.to_dict(as_series=False) == {"half": [2, 1.5, 1, 0.5, 0], "mixed": ["x", "3", "x", "1", "x"]}
    assert read_table(f"{path}::the orders")["n"].to_list() == [0, 1, 2, 3, 4]
    assert read_table(f"{path}::WITH w AS (SELECT 1 AS a) SELECT * FROM w;")["a"].to_list() == [1]
    assert name_of(f"{path}::SELECT a / b FROM t") == "shop.db"
    long = f"{path}::SELECT n, {' + '.join(['n'] * 200)} AS m FROM 'the orders'"  # too long for a file name
    assert read_table(long)["m"].to_list() == [0, 200, 400, 600, 800]
    for query, message in (
        ("", r"is a database. Name a table or a query.*'the orders', 'empty'"),
        ("::SELECT * FROM orders", "no such table: orders"),
        ("::DELETE FROM empty", "cannot be read as asked"),
        ("::SELECT 1; SELECT 2", "cannot be read as asked"),
        ("::SELECT n, n FROM 'the orders'", "two columns are called 'n'"),
        ("::empty", "shop.db has no rows"),
    ):
        with pytest.raises((InputError, DataFormatError), match=message) as error:
            read_table(f"{path}{query}")
        assert "\n" not in str(error.value)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("pulab.tables._databases.PATIENCE", 0.01)
            with pytest.raises(DataFormatError, match=r"is locked. Another program uses it"):
                read_table(f"{path}::empty")
    with pytest.raises(DataNotFoundError, match=r"Did you mean 'shop.db'"):
        read_table(f"{tmp_path / 'shp.db'}::SELECT 1")
    (tmp_path / "t.csv").write_text("a\n1\n")
    for part in ("::SELECT 1", "#Sheet"):
        with pytest.raises(InputError, match=r"is a CSV file. Only"):
            read_table(f"{tmp_path / 't.csv'}{part}")


def test_duckdb(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as database:
        database.execute("CREATE TABLE t AS SELECT range AS n, DATE '2024-01-02' AS day FROM range(100000)")
        database.execute("CREATE SEQUENCE numbers")
    pieces = list(batches(f"{path}::SELECT n, day, n / 2 AS half FROM t ORDER BY n DESC", ["half", "day"]))
    assert len(pieces) > 1
    frame = pl.concat(pieces)
    assert frame.schema == {"day": pl.Date, "half": pl.Float64}
    assert frame["half"].to_list() == [n / 2 for n in reversed(range(100_000))]
    assert read_table(path)["n"].to_list() == list(range(100_000))  # its only table
    for query, message in (
        ("SELECT * FROM orders", "Table with name orders does not exist"),
        (f"COPY t TO '{tmp_path}/t.csv'", "must be one SELECT"),
        ("SELECT nextval('numbers') AS changed", "read-only"),
    ):
        with pytest.raises((InputError, DataFormatError), match=message) as error:
            read_table(f"{path}::{query}")
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(("package", "extra"), [("fastexcel", "excel"), ("duckdb", "duckdb")])
def test_a_missing_package_is_named(package: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_excel(tmp_path / "fastexcel", {"a": [["x"], [1]]})
    (tmp_path / "duckdb").write_bytes(bytes(8) + b"DUCK" + bytes(100))
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"needs the package {package}. Run: pip install 'pulab\[{extra}\]'"):
        read_table(tmp_path / package)


def test_folders_and_patterns(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    for i in (10, 9, 1):
        part = folder / f"year={2020 + i}" / "place=a%2Fb"
        part.mkdir(parents=True)
        pl.DataFrame({"x": [9.0, 9.5]} if i == 9 else {"x": [i, i]}).write_parquet(part / "p.parquet")
        (folder / f"p{i}.csv").write_text(f"x,y\n{i},a\n{i},b\n" if i < 10 else f"y,x\na,{i}\n")
    (folder / "_temporary").mkdir()
    (folder / "_temporary" / "p.parquet").write_text("not data")
    frame = read_table(folder)
    assert frame["x"].to_list() == [1, 1, 9, 9.5, 10, 10]
    assert frame["year"].unique(maintain_order=True).to_list() == ["2021", "2029", "2030"]
    assert frame["place"].unique().to_list() == ["a/b"]
    assert read_table(f"{folder}/year=*/*/*.parquet").equals(frame)
    assert read_table(f"{folder}/p*.csv").rows() == [("1", "a"), ("1", "b"), ("9", "a"), ("9", "b"), ("10", "a")]
    assert name_of(folder) == "data"
    assert name_of(f"{folder}/p*.csv") == "p*.csv"

    assert is_inside(folder, tmp_path)
    assert not is_inside(folder, folder / "model")
    for source, target, changes in (
        (folder, folder / "scores.parquet", True),
        (folder, folder / "scores.csv", False),
        (f"{folder}/p*.csv", folder / "p1.csv", True),
        (f"{folder}/p*.csv", folder / "predicted.csv", True),
        (f"{folder}/p*.csv", folder / "scores.csv", False),
        (f"{folder}/p1.csv", folder / "p1.csv", True),
    ):
        assert is_changed_by(source, target) is changes

    (folder / "p11.csv").write_text("x,z\n1,2\n")
    with pytest.raises(DataFormatError, match=r"must have the same columns, but .*p11.csv has no 'y', 'z' more"):
        read_table(f"{folder}/p*.csv")
    pl.DataFrame({"x": ["a"], "year": ["b"], "place": ["c"]}).write_parquet(folder / "z.parquet")
    with pytest.raises(DataFormatError, match=r"z.parquet has String in 'x', not Int64, unlike"):
        read_table(folder)
    with pytest.raises(DataNotFoundError, match="no file matches"):
        read_table(f"{folder}/*.arrow")
    (folder / "_delta_log").mkdir()
    with pytest.raises(InputError, match="Delta table"):
        read_table(folder)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 9000, mtime=0)[:50], "cut off or damaged"),
        ("t.csv.gz", gzip.compress(b"a,b\n1,2\n3\n", mtime=0), "line 3 of .* has 1 fields"),
        ("t.csv.gz", gzip.compress(b"a\ncaf\xe9\n", mtime=0), "not UTF-8"),
        ("t.parquet.gz", gzip.compress(b"PAR1", mtime=0), "Unpack it first"),
        ("t.jsonl", b'{"a": 1}\n{"a": 2\n', "line 2 of .* is not a JSON object"),
        ("t.jsonl", b'{"a": 1}\n[1]\n', "line 2 of .* is not a JSON object"),
        ("t.jsonl", b'{"a": "caf\xe9"}\n', "not UTF-8"),
        ("t.json", b'[\n{"a": 1}]\n', "one JSON list"),
        ("t.feather", b"ARROW1\0\0 and then nothing", "cannot be read as an Arrow file"),
        ("t.arrow", b"\xff\xff\xff\xff\x10\0\0\0 and then", "cannot be read as an Arrow stream file"),
        ("t.feather", b"FEA1 and so on", "version 1"),
        ("t.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 and so on", "cannot be read as an Excel file"),
        ("t.db", b"SQLite format 3\0 and then nothing", "cannot be read as asked"),
    ],
)
def test_broken_files_of_other_formats_get_one_line(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises((DataFormatError, InputError), match=message) as error:
        read_table(tmp_path / name)
    assert "\n" not in str(error.value)


def test_sheets_that_are_not_there(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    for sheets, part, message in (
        ({"one": [["a"], [1]]}, "#two", "has no sheet 'two'. Its sheets: 'one'"),
        ({"empty": [], "one": [["a"], [1]]}, "", r"sheet 'empty' of .* is empty. Name another.*'one'"),
        ({}, "", "has no sheets"),
        ({"one": [["a", "a"], [1, 2]]}, "", "two columns are called 'a'"),
        ({"one": [["a"]]}, "", "has no rows"),
    ):
        write_excel(path, sheets)
        with pytest.raises((DataFormatError, InputError), match=message):
            read_table(f"{path}{part}")


@pytest.mark.parametrize("name", ["t.jsonl.gz", "t.csv.gz", "t.db"])
def test_large_files_are_read_in_pieces(name: str, tmp_path: Path) -> None:
    n, path = 150_000, tmp_path / name
    if name == "t.db":
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("CREATE TABLE t (n, word)")
            database.executemany("INSERT INTO t VALUES (?, ?)", ((i, f"word {i}") for i in range(n)))
    elif name == "t.csv.gz":
        path.write_bytes(gzip.compress(b"n,word\n" + b"".join(b"%d,word %d\n" % (i, i) for i in range(n)), 1))
    else:
        path.write_bytes(gzip.compress(b"".join(b'{"n": %d, "word": "word %d"}\n' % (i, i) for i in range(n)), 1))
    heights = [frame.height for frame in batches(path)]
    assert sum(heights) == n
    assert max(heights) <= 65_536


def test_durations_are_seconds_in_every_step(tmp_path: Path) -> None:
    span = pl.Series("took", [datetime.timedelta(minutes=i % 50, milliseconds=500) for i in range(300)])
    frame = Customers(300).frame.select("customer", "age", "plan", "churned", span)
    model = fit_table(frame.to_pandas(), "churned", id="customer", method="elkan-noto", prior=0.3)
    assert "took" in model.features.groups()
    assert model.candidates["took"].max() == 49 * 60 + 0.5
    again = TableModel.load(model.save(tmp_path / "model"))
    assert again.candidates["took"].to_list() == model.candidates["took"].to_list()
    for table in (frame, frame.to_pandas(), frame.to_arrow()):
        assert pl.DataFrame(again.score(table)).equals(model.score(frame))
        assert pl.DataFrame(again.rank(table, 5))["took"].dtype == pl.Float64
    assert again.score_file(frame, tmp_path / "s.csv") == 300
    words = fit_table(frame.with_columns(took=pl.col("plan")), "churned", method="elkan-noto", prior=0.3)
    assert words.score(frame)["score"].is_finite().all()


def test_frames_of_the_callers_kind() -> None:
    frame = Customers(200).frame.select("customer", "age", "plan", "churned")
    model = fit_table(frame, "churned", id="customer", method="elkan-noto", prior=0.3)
    scored, ranked = model.score(frame), model.rank(frame, 7)
    assert isinstance(scored, pl.DataFrame)
    assert isinstance(model.score(frame.to_arrow()), pa.Table)
    assert model.rank(frame.to_arrow(), 7).column_names == ranked.columns
    pandas = frame.to_pandas().set_index(frame.to_pandas().index[::-1] * 3)
    pandas["p"] = model.score(pandas)["probability"]  # pandas joins by the index
    assert pandas["p"].to_list() == scored["probability"].to_list()
    assert model.rank(pandas, 7)["customer"].to_list() == ranked["customer"].to_list()
    assert like("t.csv", ranked) is ranked


def test_equal_ids_are_a_warning() -> None:
    frame = Customers(200).frame.select("age", "churned", customer=pl.col("customer").replace("c-0", "c-1"))
    model = fit_table(frame, "churned", id="customer", method="elkan-noto", prior=0.3)
    told = "2 rows share their id in column 'customer' with others, such as 'c-1'"
    assert any(told in text for text in model.summary["warnings"])
    assert model.score(frame)["customer"].to_list() == frame["customer"].to_list()


def test_none_is_a_word_among_words() -> None:
    frame = Customers(200).frame.select(
        "age",
        "churned",
        debts=pl.Series(["none", "some", "many", None] * 50),
        paid=pl.Series(["2024-01-02", "none", "2024-05-06", "2023-01-02"] * 50),
    )
    model = fit_table(frame, "churned", method="elkan-noto", prior=0.3)
    missing = {column["name"]: column["missing"] for column in model.summary["table"]["columns"]}
    kinds = {column["name"]: column["kind"] for column in model.summary["table"]["columns"]}
    assert (missing["debts"], missing["paid"]) == (0.25, 0.25)
    assert (kinds["debts"], kinds["paid"]) == ("category", "date")
    scored = [model.score(frame.with_columns(debts=pl.lit(word)))["score"].to_list() for word in ("none", None)]
    assert scored[0] != scored[1]


def test_a_damaged_parquet_file_is_one_line_and_no_panic(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """polars would panic at text that is not UTF-8 and at damaged metadata, and print hundreds of lines."""
    bad = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")])
    pa.parquet.write_table(pa.table({"word": bad}), tmp_path / "words.parquet")
    with pytest.raises(DataFormatError, match=r"^the table is damaged: .*Copy or write it again\.$"):
        read_table(tmp_path / "words.parquet")
    field = pa.field("x", pa.int64(), metadata={b"_PL\xdf": b"0"})
    pa.parquet.write_table(pa.table([[1, 2]], pa.schema([field])), tmp_path / "odd.parquet")
    assert read_table(tmp_path / "odd.parquet")["x"].to_list() == [1, 2]
    assert capfd.readouterr().err == ""


def test_a_column_without_a_name_is_read_the_same_way_everywhere(tmp_path: Path) -> None:
    """polars changes the name "" in some places only, so that a model would not find its column again."""
    frame = pl.DataFrame({"": [1, 2], "a": [3, 4]})
    frame.write_parquet(tmp_path / "t.parquet")
    frame.write_ndjson(tmp_path / "t.jsonl")
    for source in (frame, frame.to_pandas(), frame.to_arrow(), tmp_path / "t.parquet", tmp_path / "t.jsonl"):
        assert read_table(source).columns == ["no name", "a"]
        (piece,) = batches(source, ["no name"])
        assert piece["no name"].to_list() == [1, 2]
    with pytest.raises(DataFormatError, match="two columns are called 'no name'"):
        read_table(frame.rename({"a": "no name"}))
