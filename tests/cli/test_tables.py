"""The commands for tables, as a user or a script runs them."""

import json
import os
import signal
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console

from ..tables.conftest import Customers
from .test_cli import command

Run = tuple[pytest.MonkeyPatch, pytest.CaptureFixture[str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("COLUMNS", "200")
    return monkeypatch, capsys


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    Customers(400).frame.write_csv(folder / "customers.csv")
    Customers(300, seed=1).frame.drop("churned").write_parquet(folder / "new.parquet")
    return folder


def test_from_a_table_to_candidates(folder: Path, run: Run) -> None:
    table, model = str(folder / "customers.csv"), folder / "model"
    words = ("fit", table, "--label", "churned", "--id", "customer", "--method", "elkan-noto", "--prior", "0.3")
    code, out, err = command(*run, *words, "--out", str(model))
    assert code == 0, err
    assert "labelled (churned = 1)" in out
    assert "unlabeled rows hold about" in out
    assert "30 % of all rows are positive, as you said." in out.replace("\N{NO-BREAK SPACE}", " ")
    assert {"model.json", "report.html", "candidates.csv"} <= {path.name for path in model.iterdir()}
    assert pl.read_csv(model / "candidates.csv").columns[:3] == ["rank", "customer", "score"]

    scores = folder / "scores.csv"
    code, out, err = command(*run, "score", str(model), str(folder / "new.parquet"), "--out", str(scores))
    assert (code, out) == (0, "")
    scored = pl.read_csv(scores)
    assert scored.columns == ["customer", "score", "probability", "probability_low", "probability_high", "decision"]
    assert scored["customer"].to_list() == pl.read_parquet(folder / "new.parquet")["customer"].to_list()
    assert scored["decision"].dtype == pl.Boolean

    code, out, _ = command(*run, "rank", str(model), str(folder / "new.parquet"), "--top", "7", "--json")
    best = json.loads(out)
    assert (code, len(best), best[0]["rank"]) == (0, 7, 1)
    top = scored.sort("score", descending=True, maintain_order=True)["customer"][:7].to_list()
    assert [row["customer"] for row in best] == top
    assert "c-" in command(*run, "rank", str(model), str(folder / "new.parquet"), "--top", "3")[1]

    code, out, _ = command(*run, "report", str(model), "--json")
    assert (code, json.loads(out)["table"]["label"]) == (0, "churned")
    page = folder / "page.html"
    assert command(*run, "report", str(model), "--out", str(page))[0] == 0
    assert page.read_text(encoding="utf-8") == (model / "report.html").read_text(encoding="utf-8")


def test_tables_that_are_not_one_file(folder: Path, run: Run, tmp_path: Path) -> None:
    frame, data, model = pl.read_csv(folder / "customers.csv"), tmp_path / "data", tmp_path / "model"
    data.mkdir()
    for i, part in enumerate(frame.select("customer", "age", "spent", "plan", "churned").iter_slices(150)):
        part.write_parquet(data / f"p{i}.parquet")
    words = ("--label", "churned", "--id", "customer", "--method", "elkan-noto", "--prior", "0.3")
    assert command(*run, "fit", str(data), *words, "--out", str(model))[0] == 0
    pattern, scores = f"{data}/*.parquet", tmp_path / "scores.csv"
    assert command(*run, "score", str(model), pattern, "--out", str(scores))[0] == 0
    assert pl.read_csv(scores)["customer"].to_list() == frame["customer"].to_list()
    for source in (str(data), pattern):
        code, _, err = command(*run, "score", str(model), source, "--out", str(data / "scores.parquet"))
        assert code == 1
        assert "would overwrite the input" in err
    for source in (f"{model}/*.csv", str(model / "candidates.csv")):
        code, _, err = command(*run, "fit", source, *words, "--out", str(model))
        assert code == 1
        assert "would replace the folder" in err
    assert "candidates.csv" in command(*run, "rank", str(model), str(data), "--top", "1")[2]  # the same name


def test_rank_shows_whole_words_in_a_narrow_terminal(
    folder: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = {"plan": "current plan of the contract", "age": "age_in_years", "spent": "spent_in_the_last_twelve_months"}
    table = tmp_path / "t.parquet"
    frame = pl.read_csv(folder / "customers.csv").select("customer", "notes", "churned", *long).rename(long)
    frame.write_parquet(table)
    words = ("--label", "churned", "--id", "customer", "--method", "elkan-noto", "--prior", "0.3")
    assert command(*run, "fit", str(table), *words, "--out", str(tmp_path / "model"))[0] == 0
    for width in (80, 120):
        monkeypatch.setattr("pulab.cli._console.out", Console(width=width))
        out, err = command(*run, "rank", str(tmp_path / "model"), str(table), "--top", "2")[1:]
        assert "…" not in out
        assert max(map(len, out.splitlines())) <= width
        for name in ("rank", "customer", "score", "probability", "probability_low"):
            assert name in out.split()
        assert "more columns" in err


def test_prior(folder: Path, run: Run) -> None:
    asked = (*run, "prior", str(folder / "customers.csv"), "--label", "churned")
    code, out, _ = command(*asked, "--json")
    estimate = json.loads(out)
    assert code == 0
    assert 0 < estimate["prior"]["low"] < 0.3 < estimate["prior"]["high"] <= 1
    assert (estimate["prior"]["evident"], estimate["prior"]["value"]) == (False, None)
    assert {"dedpul", "bbe"} <= set(estimate["methods"])
    assert "only 38 rows are labelled" in estimate["warnings"][0]
    code, out, err = command(*asked)
    assert code == 0
    assert out.startswith("At most ")
    assert (err.count("only 38 rows"), (out + err).lower().count("at most")) == (1, 1)


def test_errors_are_one_line_and_leave_nothing_behind(folder: Path, run: Run, tmp_path: Path) -> None:
    table, out = str(folder / "customers.csv"), str(tmp_path / "model")
    broken = tmp_path / "broken.csv"
    broken.write_text("a,label\n1,1\n2\n3,0\n")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    os.mkfifo(tmp_path / "pipe.csv")
    before = sorted(path.name for path in tmp_path.rglob("*"))
    calls = [
        (("fit", table, "--label", "chruned", "--out", out), "Did you mean 'churned'"),
        (("fit", table, "--label", "plan", "--out", out), "--positive"),
        (("fit", table, "--label", "churned", "--prior", "many", "--out", out), "--prior must be a share"),
        (("fit", table, "--label", "churned", "--prior", "1.5", "--out", out), "strictly between 0 and 1"),
        (("fit", table, "--label", "churned", "--method", "magic", "--out", out), "method must be one of"),
        (("fit", table, "--label", "churned", "--out", str(tmp_path / "mine")), "not a pulab model"),
        (("fit", str(broken), "--label", "label", "--out", out), "line 3"),
        (("fit", str(tmp_path / "no.csv"), "--label", "label", "--out", out), "there is no file"),
        (("fit", table, "--out", out), "--label"),
        (("score", str(tmp_path / "mine"), table, "--out", str(tmp_path / "s.csv")), "holds no model"),
        (("score", str(tmp_path / "mine"), table, "--out", str(tmp_path / "s.xls")), ".csv or .parquet"),
        (("rank", str(tmp_path / "mine"), table), "holds no model"),
        (("report", str(tmp_path / "mine")), "holds no model"),
        (("prior", table, "--label", "plan"), "--positive"),
        (("score", str(tmp_path / "mine"), table, "--out", table), "would overwrite the input"),
        (("score", str(tmp_path / "mine"), table, "--out", str(tmp_path / "pipe.csv")), "must be a file"),
        (("fit", table, "--label", "churned", "--out", str(tmp_path / ("x" * 250))), "cannot be created"),
        (("fit", table, "--label", "churned", "--out", str(tmp_path / "model.json" / "in")), "in an existing one"),
    ]
    for words, message in calls:
        code, out_text, err = command(*run, *words)
        assert (code, out_text, err.count("\n")) == (1, "", 1), (words, err)
        assert message in err
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_ctrl_c_leaves_nothing_behind(folder: Path, tmp_path: Path, run: Run) -> None:
    """Pressed while the model is being written."""
    pressed = []

    def press(descriptor: int) -> None:
        pressed.append(descriptor)
        raise KeyboardInterrupt

    run[0].setattr("os.fsync", press)
    words = ("fit", str(folder / "customers.csv"), "--label", "churned", "--method", "elkan-noto", "--prior", "0.3")
    code, _, err = command(*run, *words, "--out", str(tmp_path / "model"))
    assert pressed
    assert (code, err) == (130, "pulab: interrupted\n")
    assert not any(tmp_path.iterdir())


def test_being_ended_leaves_nothing_behind(folder: Path, tmp_path: Path, run: Run) -> None:
    """SIGTERM, while the model is being written."""
    run[0].setattr("os.fsync", lambda descriptor: os.kill(os.getpid(), signal.SIGTERM))
    words = ("fit", str(folder / "customers.csv"), "--label", "churned", "--method", "elkan-noto", "--prior", "0.3")
    code, _, err = command(*run, *words, "--out", str(tmp_path / "model"))
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    assert (code, err) == (143, "pulab: terminated\n")
    assert not any(tmp_path.iterdir())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_is_one_line(tmp_path: Path, run: Run) -> None:
    (tmp_path / "page.html").symlink_to("/dev/full")
    code, _, err = command(*run, "bench", "show", "demo", "--out", str(tmp_path / "page.html"))
    assert (code, err.count("\n")) == (1, 1)
    assert "No space left" in err
