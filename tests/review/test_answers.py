"""Answers on disk: nothing is lost, nothing is taken from a file with a mistake."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.request import Request, urlopen

import polars as pl
import pytest

from pulab.errors import InputError
from pulab.persistence import check_folder
from pulab.review import Draw, from_sheet, open_log, read_answers
from pulab.tables import TableModel

from ..cli.test_cli import command

Run = tuple[pytest.MonkeyPatch, pytest.CaptureFixture[str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("COLUMNS", "200")
    return monkeypatch, capsys


def test_answers_are_kept_in_order_and_taken_back(tmp_path: Path, draw: Draw) -> None:
    path = tmp_path / "answers.csv"
    with open_log(path, draw) as log:
        log.undo()  # there is nothing to take back
        log.add([(0, "yes"), (1, "skip")])
        log.add([(2, "no")])
        log.undo()
        log.undo()
        log.add([(1, "no")])
    again = read_answers(path, draw)
    assert (again.latest, again.next) == ({0: "yes", 1: "no"}, 2)
    assert len(path.read_text().splitlines()) == 7  # a header, and every step


def test_a_line_that_was_cut_off_does_not_count(tmp_path: Path, draw: Draw) -> None:
    path = tmp_path / "answers.csv"
    with open_log(path, draw) as log:
        log.add([(0, "yes"), (1, "no")])
    whole = path.read_bytes()
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        lines = whole[:cut].count(b"\n")
        with open_log(path, draw) as log:
            assert len(log.given) == max(lines - 1, 0)
            log.add([(5, "no")])
        assert read_answers(path, draw).latest[5] == "no"


def test_a_file_of_another_model_is_refused(tmp_path: Path, draw: Draw) -> None:
    path = tmp_path / "answers.csv"
    with open_log(path, draw) as log:
        log.add([(0, "yes")])
    other = draw._replace(frame=draw.frame.with_columns(row=pl.col("row") + 1))
    with pytest.raises(InputError, match=r"line 2 of .* is no answer to this model's rows"):
        read_answers(path, other)


def test_a_second_review_of_the_same_file_is_refused(tmp_path: Path, draw: Draw) -> None:
    path = tmp_path / "answers.csv"
    with open_log(path, draw), pytest.raises(InputError, match="in use by another"), open_log(path, draw):
        pass
    with open_log(path, draw):
        pass


def test_a_model_with_answers_is_not_replaced(tmp_path: Path, model: TableModel, draw: Draw) -> None:
    place = model.save(tmp_path / "model")
    check_folder(place)
    with open_log(place / "answers.csv", draw) as log:
        log.add([(0, "yes")])
    with pytest.raises(InputError, match=r"holds 'answers.csv'"):
        check_folder(place)


def test_a_killed_review_loses_nothing(tmp_path: Path, folder: Path, draw: Draw) -> None:
    """Killed right after each reply: every answer that was replied to is there."""
    path = tmp_path / "answers.csv"
    words = [sys.executable, "-m", "pulab", "review", str(folder), "--answers", str(path), "--no-open"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        found = re.search(r"http://\S+", process.stderr.readline())
        assert found is not None
        for number in range(1, 8):
            body = json.dumps({"number": number, "answer": "yes" if number % 2 else "no"}).encode()
            with urlopen(Request(found[0] + "answer", data=body), timeout=30) as reply:
                assert json.load(reply)["row"]["number"] == number + 1
        process.send_signal(signal.SIGKILL)
    assert read_answers(path, draw).latest == {place: "no" if place % 2 else "yes" for place in range(7)}


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_ends_with_what_was_measured(tmp_path: Path, folder: Path, draw: Draw) -> None:
    path = tmp_path / "answers.csv"
    with open_log(path, draw) as log:
        log.add([(place, "yes" if place % 4 == 0 else "no") for place in range(40)])
    words = [sys.executable, "-m", "pulab", "review", str(folder), "--answers", str(path), "--no-open"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        process.stderr.readline()
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out.startswith("40 answers: 10 yes, 30 no\n")
    assert "Traceback" not in err


def test_a_spreadsheet_there_and_back(
    tmp_path: Path, folder: Path, draw: Draw, truth: Callable[[int], str], run: Run
) -> None:
    rows, answers = tmp_path / "rows.csv", tmp_path / "answers.csv"
    base = ("review", str(folder), "--answers", str(answers))
    assert command(*run, *base, "--export", str(rows), "--n", "30")[0] == 0
    sheet = pl.read_csv(rows)
    assert sheet.columns[:2] == ["row", "customer"]
    assert sheet.columns[-1] == "answer"
    assert sheet["row"].to_list() == draw.frame["row"][:30].to_list()
    words = {"yes": ["yes", "Y", " 1 ", "TRUE"], "no": ["no", "n", "0", "false"]}
    filled = [words[truth(place)][place % 4] if place < 20 else "" for place in range(30)]
    filled[7] = "skip"
    text = sheet.with_columns(answer=pl.Series(filled)).write_csv(separator=";")
    rows.write_text("\ufeff" + text, encoding="utf-8")  # as a spreadsheet may save it
    code, out, err = command(*run, *base, "--import", str(rows))
    assert (code, "20 new answers" in err) == (0, True), err
    assert out.startswith("19 answers: ")
    expected = {place: truth(place) for place in range(20)} | {7: "skip"}
    assert read_answers(answers, draw).latest == expected
    assert "0 new answers" in command(*run, *base, "--import", str(rows))[2]
    code, out, _ = command(*run, *base, "--json")
    assert (code, json.loads(out)["skipped"]) == (0, 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("row,answer\n{first},maybe\n", "answers 'maybe'"),
        ("row,answer\n{first},yes\n{labelled},yes\n", "not in the draw"),
        ("row,answer\n{first},yes\n{first},no\n", "again, and not alike"),
        ("row,reply\n{first},yes\n", "no column 'answer'"),
        ("", "cannot be read as CSV"),
    ],
)
def test_one_mistake_in_a_spreadsheet_and_nothing_is_taken(
    content: str, message: str, tmp_path: Path, draw: Draw
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(content.format(first=draw.frame["row"][0], labelled=10**6))
    with pytest.raises(InputError, match=message):
        from_sheet(path, draw)


def test_wrong_calls_and_older_models_are_one_line(tmp_path: Path, folder: Path, model: TableModel, run: Run) -> None:
    code, _, err = command(*run, "review", str(folder), "--show", "--export", str(tmp_path / "rows.csv"))
    assert (code, err.count("\n")) == (1, 1)
    older = TableModel(*(getattr(model, name) for name in model.__dataclass_fields__ if name != "draw"))
    older.save(tmp_path / "older")
    code, _, err = command(*run, "review", str(tmp_path / "older"))
    assert code == 1
    assert "has no rows to review. Fit it again." in err
    assert "no answers yet" in command(*run, "review", str(folder), "--show")[1]


def test_the_report_has_what_was_measured(
    tmp_path: Path, model: TableModel, draw: Draw, truth: Callable[[int], str], run: Run
) -> None:
    place = model.save(tmp_path / "model")
    with open_log(place / "answers.csv", draw) as log:
        log.add([(i, truth(i)) for i in range(120)])
    code, out, _ = command(*run, "report", str(place), "--json")
    found = json.loads(out)["measured"]
    assert (code, found["answers"], found["enough"]) == (0, 120, True)
    assert found["prior"]["low"] < 0.3 < found["prior"]["high"]
