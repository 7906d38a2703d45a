"""Scores of a cluster: row for row those of one machine, whatever dies, and again from where it stopped."""

import sys
from pathlib import Path
from threading import Thread

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from pulab.cli import main
from pulab.errors import DataFormatError, DataNotFoundError, InputError
from pulab.tables import TableModel, batches, fit_table, score_on_ray
from pulab.tables._arrow import BATCH
from pulab.tables._parts import TablePart, parts_of
from pulab.tables._places import Place, files_of
from tests.cluster.conftest import TwoMachines

N = 2 * BATCH + 20_000


def rows(n: int, seed: int, shift: float = 0.0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3)) + shift
    plan = rng.choice(["gold", "basic", "?"], n)
    return pl.DataFrame(
        {"name": [f"{seed}-{i}" for i in range(n)], **{f"x{i}": x[:, i] for i in range(3)}, "plan": plan}
    )


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network: unlike trees, it would show pieces of another size in the last bits."""
    frame = rows(600, 1)
    s = (frame["x0"].to_numpy() > 0.5) & (np.arange(600) % 3 > 0)
    given = frame.with_columns(churned=pl.Series(s.astype(int)))
    fitted = fit_table(given, "churned", id="name", method="nnpu", prior=0.3)
    return fitted.save(tmp_path_factory.mktemp("models") / "model")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files in folders that are a column, in row groups that fit no piece; and one without rows."""
    place = tmp_path_factory.mktemp("table")
    for seed, n in ((2, N), (10, 5000), (11, 0)):
        (place / f"day={seed}").mkdir()
        pq.write_table(rows(n, seed).to_arrow(), place / f"day={seed}" / "a.parquet", row_group_size=37_000)
    return place


def read(folder: Path) -> pl.DataFrame:
    return pl.concat([pl.read_parquet(path) for path in sorted(folder.glob("part-*.parquet"))])


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulab.tables._parts.PART", BATCH)


def test_a_part_has_the_pieces_of_one_machine(table: Path, small_parts: None) -> None:
    for source in (
        str(table),
        str(table / "day=*" / "*.parquet"),
        f"file://{table}",
        f"file://{table}/day=*/*.parquet",
    ):
        files, root = files_of(source)
        parts = parts_of("t", files, root, ["x1", "plan"])
        assert [part.rows for part in parts] == [BATCH, BATCH, N - 2 * BATCH, 5000]
        pieces = [piece for part in parts for piece in batches(part, ["x1", "plan"])]
        whole = list(batches(table, ["x1", "plan"]))
        assert len(pieces) == len(whole) == 4
        for piece, other in zip(pieces, whole, strict=True):
            assert piece.equals(other)
    files, root = files_of(f"file://{table}/day=10/a.parquet")
    assert root == ""
    assert [part.rows for part in parts_of("t", files, root, ["x1"])] == [5000]


def test_a_worker_and_a_machine_die_and_the_scores_are_those_of_one_machine(
    machines: TwoMachines, model: Path, table: Path, tmp_path: Path, small_parts: None
) -> None:
    fitted = TableModel.load(model)
    watch = fitted.watch()
    fitted.score_file(table, tmp_path / "alone.parquet", watch=watch)
    alone = pl.read_parquet(tmp_path / "alone.parquet")
    killer = Thread(target=lambda: (machines.kill_worker(), machines.kill_machine()))
    killer.start()
    out, seen = tmp_path / "out", list[tuple[int, int]]()
    try:
        done = score_on_ray(model, f"file://{table}", str(out), on_rows=lambda n, total: seen.append((n, total)))
    finally:
        killer.join()
        machines.repair()
    assert (done.rows, done.parts, done.found) == (N + 5000, 4, 0)
    assert read(out).equals(alone)
    assert (out / "_SUCCESS").exists()
    assert seen[0] == (0, N + 5000)
    assert seen[-1] == (N + 5000, N + 5000)
    assert done.watch.lines() == watch.lines() == []
    # A second run writes what is missing, and nothing else.
    (out / "_SUCCESS").unlink()
    (out / "part-00003.parquet").unlink()
    before = {path.name: path.stat().st_mtime_ns for path in out.iterdir()}
    assert score_on_ray(model, f"file://{table}", str(out)).found == 3
    assert {path.name: path.stat().st_mtime_ns for path in out.iterdir() if path.name in before} == before
    assert read(out).equals(alone)
    with pytest.raises(InputError, match="has scores of another model or table"):
        score_on_ray(model, str(table / "day=10" / "a.parquet"), str(out))


def test_the_command_says_how_far_it_is_and_what_looks_different(
    machines: TwoMachines,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows(3000, 5, shift=2.0).write_parquet(tmp_path / "new.parquet")
    words = ["pulab", "score", str(model), str(tmp_path / "new.parquet"), "--out", str(tmp_path / "out"), "--ray"]
    monkeypatch.setattr(sys, "argv", words)
    monkeypatch.setattr("signal.signal", lambda number, handler: None)
    with pytest.raises(SystemExit, match="0"):
        main()
    said = capsys.readouterr().err
    assert "3,000 of 3,000 rows scored" in said
    assert f"wrote {tmp_path / 'out'}: 3,000 rows in 1 files" in said
    assert "'x0' looks different: median" in said


def test_what_cannot_be_scored_on_a_cluster_is_told_before_it_starts(model: Path, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x0\n1\n")
    pl.DataFrame({"x0": [1.0]}).clear().write_parquet(tmp_path / "empty.parquet")
    rows(5, 1).write_parquet(tmp_path / "five.parquet")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").touch()
    out = str(tmp_path / "out")
    for table, place, error, message in (
        (tmp_path / "t.csv", out, DataFormatError, "on a cluster a table is one of Parquet files"),
        (tmp_path / "empty.parquet", out, InputError, "has no rows"),
        (f"file://{tmp_path}/nowhere", out, DataNotFoundError, "nowhere"),
        ("nosuch://bucket/table", out, InputError, "cannot be used"),
        (
            tmp_path / "five.parquet",
            str(tmp_path / "full"),
            InputError,
            "must be an empty folder, but holds 'mine.txt'",
        ),
        (tmp_path / "five.parquet", str(model / "out"), InputError, "lies within the input"),
        (tmp_path / "five.parquet", str(tmp_path / "t.csv"), InputError, "go to a folder, got the file"),
    ):
        with pytest.raises(error, match=message):
            score_on_ray(model, str(table), place)


def test_a_part_of_a_file_that_is_gone_says_so(tmp_path: Path) -> None:
    part = TablePart("t", str(tmp_path / "gone.parquet"), "", 0, 10)
    with pytest.raises(DataNotFoundError, match="All machines of a cluster must see"):
        list(part.pieces(None))


def test_a_place_at_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through pyarrow's file systems, as on S3: here the one of this machine."""
    place = Place(f"file://{tmp_path}")
    assert place.names() == set()
    assert place.read("_job.json") is None
    place.write("_job.json", b"1")
    assert place.names() == {"_job.json"}
    assert place.read("_job.json") == b"1"
    assert Place(f"file://{tmp_path}/nowhere").names() == set()
