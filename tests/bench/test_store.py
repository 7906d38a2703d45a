"""Several processes on one store of rows, and what happens when one is killed or its disk is full."""

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from pulab import PulabWarning
from pulab.bench import RECIPES, Claims, RunSpec, append_row, read_rows, rows_of, store
from pulab.bench.runner import make_estimator, settings
from pulab.cli import app, main
from pulab.datasets import PlainSampling
from pulab.errors import InputError

SPECS = [RunSpec("digits", PlainSampling(20, 100), "elkan-noto", seed) for seed in range(8)]
# `pulab` with a recipe of 8 short runs, each by one of JOBS processes. BEFORE runs first.
PULAB = """
import os, resource, sys, time
from pathlib import Path
from pulab.bench import RECIPES, RunSpec, runner
from pulab.cli import main
from pulab.datasets import PlainSampling

RECIPES["small"] = lambda: [RunSpec("digits", PlainSampling(20, 100), "elkan-noto", seed) for seed in range(8)]
runner.cpu_count = lambda: JOBS
fit = runner._fit
def slowly(*arguments):
    time.sleep(0.3)
    return fit(*arguments)
runner._fit = slowly
if __name__ == "__main__":
    BEFORE
    main()
"""


def start(folder: Path, jobs: int = 1, before: str = "pass", *words: str) -> "subprocess.Popen[str]":
    script = folder.with_suffix(".py")
    script.write_text(PULAB.replace("JOBS", str(jobs)).replace("BEFORE", before))
    words = words or ("bench", "run", "small", "--device", "cpu", "--out", str(folder))
    words = (sys.executable, str(script), *words)
    return subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)


def result(spec: RunSpec) -> dict[str, Any]:
    fixed = {"test_error": 1.0, "recovery_error": 2.0, "history": {}, "sigma_history": {}}
    return {**spec.as_row(), **fixed, "settings": settings(make_estimator(spec, prior=0.5))}


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_two_commands_on_one_store_share_the_work(tmp_path: Path) -> None:
    """Both begin at the same moment. Every run has one row, and both wait until all rows are there."""
    meet = (
        f"Path({str(tmp_path)!r}, f'{{os.getpid()}}.here').touch()\n"
        f"    while len(list(Path({str(tmp_path)!r}).glob('*.here'))) < 2: time.sleep(0.01)"
    )
    commands = [start(tmp_path / "rows", 1, meet) for _ in range(2)]
    for process in commands:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert "holds all 8 runs" in err
    stored = Counter(row["spec"] for row in read_rows([tmp_path / "rows" / "small.jsonl"]))
    assert stored == {spec.digest: 1 for spec in SPECS}


def test_a_claim_ends_with_its_process(tmp_path: Path) -> None:
    hold = (
        "claims = runner.Claims(RECIPES['small'](), Path(sys.argv[1])); "
        "claims.claim(RECIPES['small']()[:2]); Path(sys.argv[1], 'held').touch(); time.sleep(600)"
    )
    (tmp_path / "rows").mkdir()
    holder = start(tmp_path / "rows", 1, hold, str(tmp_path / "rows"))
    try:
        wait_for((tmp_path / "rows" / "held").exists)
        with Claims(SPECS, tmp_path / "rows") as claims:
            (mine,) = claims.claim(SPECS[:3])
            assert mine == SPECS[2]
            waited: list[int] = []

            def kill(n: int) -> None:
                waited.append(n)
                append_row(tmp_path / "rows" / "a.jsonl", result(SPECS[0]))  # as the holder would, just before its end
                holder.kill()

            assert claims.claim(SPECS[3:]) == SPECS[3:]
            assert claims.take_over(kill, pause=0.01) == [SPECS[1]]
            assert waited == [2]
    finally:
        holder.kill()
        holder.communicate()


def test_a_run_that_another_process_has_done_since_is_left_out(tmp_path: Path) -> None:
    with Claims(SPECS, tmp_path) as claims:
        append_row(tmp_path / "a.jsonl", result(SPECS[0]))  # by another, after the rows were read
        assert claims.claim(SPECS) == SPECS[1:]
        assert claims.left == []


def test_where_there_are_no_locks_one_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(store, "_lock_byte", refuse)
    monkeypatch.setattr(store, "_flock", refuse)
    with Claims(SPECS, tmp_path) as claims:
        with pytest.warns(PulabWarning, match=r"has no locks \(No locks available\). Let one command") as said:
            assert claims.claim(SPECS) == SPECS
        assert len(said) == 1
        claims.add(tmp_path / "a.jsonl", result(SPECS[0]))
        with (tmp_path / "a.jsonl").open("a") as file:
            file.write("{")  # it may be the row of another process, half written: it is not removed
        claims.add(tmp_path / "a.jsonl", result(SPECS[1]))
    assert (tmp_path / "a.jsonl").read_text().splitlines()[1] == "{"
    with pytest.warns(PulabWarning, match="line 2 is no row"):
        assert len(rows_of(SPECS, tmp_path)) == 2


def test_a_writer_waits_for_another(tmp_path: Path) -> None:
    """The half row of a writer at work is not taken for a torn line."""
    path = tmp_path / "a.jsonl"
    with path.open("ab", buffering=0) as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        other.write(b'{"a":')
        thread = Thread(target=append_row, args=(path, {"b": 2}))
        thread.start()
        thread.join(0.2)
        other.write(b"1}\n")
    thread.join()
    assert read_rows([path]) == [{"a": 1}, {"b": 2}]


def test_killed_writers_lose_and_double_nothing(tmp_path: Path) -> None:
    """The long form is benchmarks/torture/rows.py with 1,000 kills."""
    script = Path(__file__).parents[2] / "benchmarks" / "torture" / "rows.py"
    subprocess.run([sys.executable, script, "20"], check=True, env={**os.environ, "TORTURE_ROWS": str(tmp_path)})
    (row,) = read_rows([tmp_path / "rows.jsonl"])
    assert (row["kills"], row["lost"], row["doubled"], row["torn_lines_left"]) == (20, 0, 0, 0)


def test_a_row_that_does_not_fit_on_the_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.jsonl"
    append_row(path, {"a": 1})
    before = path.read_bytes()
    path.write_bytes(before + b'{"torn')
    write = os.write
    room = iter([5])

    def fill(file: int, data: bytes) -> int:
        for left in room:
            return write(file, data[:left])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", fill)
    with pytest.raises(InputError, match=r"must take a further row, got: No space left on device\. All earlier"):
        append_row(path, {"a": 2})
    assert path.read_bytes() == before


def test_a_full_disk_ends_a_command_with_one_line(tmp_path: Path) -> None:
    limit = "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))"
    process = start(tmp_path / "rows", 1, limit)
    _, err = process.communicate(timeout=120)
    assert (process.returncode, err.count("\n")) == (1, 1), err
    assert "small.jsonl must take a further row, got: File too large. All earlier rows stay." in err
    content = (tmp_path / "rows" / "small.jsonl").read_text()
    assert content.endswith("}\n")
    assert 1 <= len([json.loads(line) for line in content.splitlines()]) < 8


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: path.symlink_to(path.with_name("elsewhere")), "a link"),
        (lambda path: (path.with_name("there").touch(), path.symlink_to(path.with_name("there"))), "a link"),
        (lambda path: os.mkfifo(path), "a device"),
        pytest.param(
            lambda path: (path.touch(), path.chmod(0o444)),
            "Permission denied",
            marks=pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere"),
        ),
    ],
)
@pytest.mark.parametrize("name", ["small.jsonl", ".claims"])
def test_files_that_rows_cannot_go_to_are_refused_before_any_training(
    name: str,
    make: Callable[[Path], object],
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    make(tmp_path / name)
    monkeypatch.setitem(RECIPES, "small", lambda: SPECS)
    refused_before_any_training(["bench", "run", "small", "--out", str(tmp_path)], why, monkeypatch, capsys)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("out", ["/proc/page.html", "/dev/null/page.html", "/proc/self"])
@pytest.mark.parametrize("words", [["demo"], ["bench", "run", "small"]])
def test_a_place_that_cannot_be_written_to_is_refused_before_any_training(
    words: list[str], out: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(RECIPES, "small", lambda: SPECS)
    refused_before_any_training([*words, "--out", out], "--out must be a ", monkeypatch, capsys)


def refused_before_any_training(
    words: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(app, "_run", lambda *arguments: pytest.fail("a training has begun"))
    monkeypatch.setattr(sys, "argv", ["pulab", *words])
    with pytest.raises(SystemExit) as stopped:
        main()
    err = capsys.readouterr().err
    assert (stopped.value.code, err.count("\n")) == (1, 1), err
    assert message in err


@pytest.mark.parametrize(
    ("number", "rows", "line"),
    [(signal.SIGINT, 0, "interrupted"), (signal.SIGTERM, 1, "terminated")],  # while workers start; after a row
)
def test_a_signal_ends_all_processes_and_keeps_the_rows(
    number: signal.Signals, rows: int, line: str, tmp_path: Path
) -> None:
    process = start(tmp_path / "rows", 2)
    path = tmp_path / "rows" / "small.jsonl"

    def is_time() -> bool:
        if rows:
            return path.exists() and path.read_bytes().count(b"\n") >= rows
        return len(group(process.pid)) >= 3

    wait_for(is_time)
    os.killpg(process.pid, number)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (128 + number, f"pulab: {line}\n")
    stored = path.read_text().splitlines() if path.exists() else []
    assert len([json.loads(row) for row in stored]) >= rows
    wait_for(lambda: not group(process.pid))


def group(leader: int) -> list[int]:
    """The processes that a command has started, itself included."""
    listed = subprocess.run(["ps", "-e", "-o", "pid=,pgid=,stat="], capture_output=True, text=True, check=True).stdout
    rows = (line.split() for line in listed.splitlines())
    return [int(pid) for pid, pgid, state in rows if int(pgid) == leader and not state.startswith("Z")]
