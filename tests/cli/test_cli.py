"""The command, as a user or a script runs it."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

import pulab
from pulab.bench import RECIPES, RunSpec, rows_of
from pulab.cli import _console, main
from pulab.cli.app import _specs, app
from pulab.datasets import DATASETS, PlainSampling
from pulab.errors import PulabError
from pulab.methods import METHODS


def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["pulab", *words])
    with pytest.raises(SystemExit) as stopped:
        main()
    captured = capsys.readouterr()
    return stopped.value.code, captured.out, captured.err


def test_version_and_help(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(monkeypatch, capsys, "--version") == (0, f"pulab {pulab.__version__}\n", "")
    for words in ((), ("--help",), ("demo", "--help")):
        code, out, err = command(monkeypatch, capsys, *words)
        assert (code, err) == (0, "")
        assert "Usage" in out


def test_methods(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = command(monkeypatch, capsys, "methods", "--json")
    listed = json.loads(out)
    assert (code, err) == (0, "")
    assert [method["key"] for method in listed] == list(METHODS)
    assert {"key", "class", "needs_prior", "reference"} <= set(listed[0])
    assert "joint" in command(monkeypatch, capsys, "methods")[1]


def test_datasets(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    listed = json.loads(command(monkeypatch, capsys, "datasets", "--json")[1])
    assert [dataset["key"] for dataset in listed] == list(DATASETS)
    assert "digits" in command(monkeypatch, capsys, "datasets")[1]


@pytest.mark.parametrize(
    "words", [("nonsense",), ("demo", "--trials", "0"), ("demo", "--nonsense"), ("demo", "--trials", "x")]
)
def test_a_wrong_call_is_one_line(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = command(monkeypatch, capsys, *words)
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert err.startswith("pulab: ")


def test_an_error_is_one_line_and_a_traceback_only_if_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    nowhere = str(tmp_path / "no" / "such" / "folder.html")
    monkeypatch.delenv("PULAB_DEBUG", raising=False)
    code, _, err = command(monkeypatch, capsys, "demo", "--trials", "1", "--out", nowhere)
    assert code == 1
    assert err.count("\n") == 1
    assert "folder" in err
    monkeypatch.setenv("PULAB_DEBUG", "1")
    monkeypatch.setattr(sys, "argv", ["pulab", "demo", "--trials", "1", "--out", nowhere])
    with pytest.raises(PulabError, match="folder"):
        main()


def test_an_error_that_was_not_expected_says_its_type(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PULAB_DEBUG", raising=False)
    for error, line in (
        (KeyError("loss"), "KeyError: 'loss'. This is a bug in pulab. PULAB_DEBUG=1 shows where."),
        (PulabError("no such file."), "no such file."),
        (MemoryError("Unable to allocate 3 GiB"), "Unable to allocate 3 GiB"),
    ):
        assert _console.fail(error) == 1
        assert capsys.readouterr().err == f"pulab: {line}\n"


def test_demo(tmp_path: Path) -> None:
    page = tmp_path / "demo.html"
    words = [sys.executable, "-m", "pulab", "demo", "--trials", "1", "--json", "--out", str(page)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    cells = json.loads(done.stdout)
    assert {cell["method"] for cell in cells} == {"joint", "nnpu", "pubn-n", "naive", "pn"}
    assert {cell["metric"] for cell in cells} == {"test_error", "recovery_error"}
    error = {cell["method"]: cell["mean"] for cell in cells if cell["metric"] == "test_error"}
    assert error["pn"] < error["joint"] < error["naive"]
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("bench", "run", "smoke", "--datasets", "mnist"),
            "for smoke, --datasets must be one of 'digits-images', got",
        ),
        (("bench", "run", "smoke", "--methods", "nnpu,vpu"), "must be one of 'nnpu', 'pubn-n', 'joint', got 'vpu'."),
        (
            ("bench", "run", "demo", "--methods", "pubn"),
            "for demo, --methods must be one of 'joint', 'joint-views', 'cvir'",
        ),
        (("bench", "run", "smoke", "--datasets", ""), "--datasets must be one of"),
        (("bench", "run", "smoke", "--device", "tpu"), "device must be 'auto', 'cpu' or 'cuda'"),
        (("bench", "show", "smoke", "--rows", __file__), "--rows must be a folder"),
        (("bench", "run", "smoke", "--out", "/dev/null/x"), "--out must be a folder that can be written to"),
        (
            ("bench", "show", "paper", "--format", "svg", "--rows", "nowhere"),
            "nowhere holds no such rows. Run `pulab bench run paper --out nowhere`.",
        ),
        (
            ("bench", "show", "paper", "--datasets", "20news", "--features", "elmo", "--methods", "joint,nnpu"),
            "Run `pulab bench run paper --datasets 20news --methods joint,nnpu --features elmo`, then pass --rows",
        ),
        (("bench", "show", "smoke", "--features", "elmo"), "is for the paper's recipes"),
        (("bench", "show", "paper-figure-2", "--format", "png"), "needs a file"),
        (("bench", "show", "paper-table-1", "--format", "svg"), "--format must be one of"),
        (("bench", "show", "paper", "--json", "--format", "html"), "--json is short for --format json"),
        (("bench", "show", "demo", "--format", "csv", "--out", "a.json"), "contradict each other"),
        (("bench", "show", "demo", "--out", "a.txt"), "--format, or the ending of --out, must be one of"),
        (("bench", "show", "nosuch", "--format", "svg"), "recipe must be one of"),
    ],
)
def test_a_wrong_bench_call_is_one_line(
    words: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = command(monkeypatch, capsys, *words)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert message in err


def test_a_page_goes_where_a_link_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "link.html").symlink_to(tmp_path / "page.html")
    assert command(monkeypatch, capsys, "bench", "show", "demo", "--out", str(tmp_path / "link.html"))[0] == 0
    assert (tmp_path / "link.html").is_symlink()
    assert "digits" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".part"] == []


def test_where_a_bar_cannot_be_a_line_comes_every_minute(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([0.0, *(50.0 * i for i in range(1, 2000))])
    monkeypatch.setattr(_console.time, "perf_counter", lambda: next(clock))
    with _console.progress("training", 1000) as advance:
        for _ in range(6):
            advance(1)
    assert capsys.readouterr().err.splitlines() == [
        f"training: {n} of 1000, {50 * n} s, about {50 * (1000 - n)} s left" for n in (2, 4, 6)
    ]


def test_a_page_on_stdout_is_what_it_says() -> None:
    words = [
        sys.executable,
        "-m",
        "pulab",
        "bench",
        "show",
        "paper-table-2",
        "--datasets",
        "20news",
        "--format",
        "html",
    ]
    latin = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    assert "±" in subprocess.run(words, capture_output=True, check=True, env=latin).stdout.decode()
    assert "±" in subprocess.run([*words, "--out", "/dev/stdout"], capture_output=True, check=True).stdout.decode()


def test_flags_are_as_they_were() -> None:
    """Scripts depend on them: a change here is a change for users, and belongs into the changelog."""

    def flags(command: Any) -> dict[str, Any]:
        if hasattr(command, "commands"):
            return {name: flags(sub) for name, sub in command.commands.items()}
        return sorted(option for parameter in command.params for option in parameter.opts)

    assert flags(typer.main.get_command(app)) == {
        "methods": ["--json"],
        "datasets": ["--json"],
        "demo": ["--json", "--out", "--trials"],
        "fit": [
            "--budget",
            "--checkpoint",
            "--costs",
            "--drop",
            "--id",
            "--json",
            "--label",
            "--labelled-by",
            "--method",
            "--negative",
            "--out",
            "--positive",
            "--prior",
            "--reviewed",
            "--scenario",
            "--seed",
            "--top",
            "--weight",
            "table",
        ],
        "score": ["--out", "--ray", "--ray-cpus", "model", "table"],
        "prior": ["--drop", "--json", "--label", "--method", "--positive", "--scenario", "--seed", "table"],
        "rank": ["--json", "--out", "--top", "model", "table"],
        "report": ["--json", "--out", "model"],
        "review": ["--answers", "--export", "--import", "--json", "--n", "--no-open", "--port", "--show", "model"],
        "bench": {
            "list": ["--json"],
            "run": [
                "--datasets",
                "--deterministic",
                "--device",
                "--features",
                "--methods",
                "--out",
                "--ray",
                "--ray-cpus",
                "--ray-gpus",
                "--trials",
                "recipe",
            ],
            "show": [
                "--datasets",
                "--features",
                "--format",
                "--json",
                "--methods",
                "--out",
                "--rows",
                "--trials",
                "recipe",
            ],
        },
    }


def test_showing_works_without_torch(tmp_path: Path) -> None:
    page = tmp_path / "paper.html"
    (tmp_path / "torch.py").write_text("raise ImportError('there is no torch here')")
    words = [sys.executable, "-m", "pulab", "bench", "show", "paper", "--out", str(page)]
    subprocess.run(words, check=True, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert "Table 4" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "modules", ["pulab.cli.app, pulab.methods, pulab.datasets", "pulab.tables, pulab.estimators._boosting"]
)
def test_what_needs_no_network_loads_no_torch(modules: str) -> None:
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_recipes_take_any_named_method_that_learns_from_pu_data() -> None:
    specs = _specs("demo", None, "nnpu, elkan-noto", 1, None)
    assert [(spec.method, spec.seed) for spec in specs] == [("nnpu", 0), ("elkan-noto", 0)]
    assert specs[0] == RECIPES["demo"]()[1]  # the rows of the default list are found again
    assert {spec.method for spec in _specs("defaults", "digits,moons", "pn,vpu", 1, None)} == {"pn", "vpu"}


def test_a_run_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is done is skipped; what is torn, or was made with other defaults, is run again."""
    specs = [RunSpec("digits", PlainSampling(20, 100), "nnpu", seed, params={"epochs": 1}) for seed in range(3)]
    monkeypatch.setitem(RECIPES, "smoke", lambda: specs)
    monkeypatch.setattr("pulab.bench.runner.cpu_count", lambda: 1)
    words = ("bench", "run", "smoke", "--device", "cpu", "--out", str(tmp_path))
    rows = tmp_path / "smoke.jsonl"

    code, _, err = command(monkeypatch, capsys, *words, "--methods", "nnpu")
    assert code == 0
    assert f"pulab bench show smoke --methods nnpu --rows {shlex.quote(str(tmp_path))}" in err
    whole = [json.loads(line) for line in rows.read_text().splitlines()]
    assert [row["seed"] for row in whole] == [0, 1, 2]
    assert all(row["history"]["epoch"] == [1] for row in whole)  # the stored form, which is shorter
    code, _, err = command(monkeypatch, capsys, *words)
    assert (code, len(rows.read_text().splitlines())) == (0, 3)
    assert "3 of 3 runs are already done" in err
    show = ("bench", "show", "smoke", "--rows", str(tmp_path))
    assert command(monkeypatch, capsys, *show)[2] == ""
    rows.write_text("".join(json.dumps(row | {"versions": {"pulab": "0.0.1"}}) + "\n" for row in whole))
    assert "3 of 3 rows were made by another version" in command(monkeypatch, capsys, *show)[2]
    rows.write_text(json.dumps(whole[0]) + "\n")
    assert "2 of 3 runs have no row yet" in command(monkeypatch, capsys, *show)[2]

    old = whole[1] | {"settings": whole[1]["settings"] | {"lr": 0.5}}
    rows.write_text(json.dumps(old) + "\n" + json.dumps(whole[2]) + "\n" + json.dumps(whole[0])[:100])
    with pytest.warns(UserWarning, match="is no row"), pytest.warns(UserWarning, match="1 rows .* other defaults"):
        code, _, err = command(monkeypatch, capsys, *words)
    assert code == 0
    assert "1 of 3 runs are already done" in err
    found = rows_of(specs, tmp_path)
    for row, before in zip(found, whole, strict=True):
        assert {name: row[name] for name in ("seed", "settings", "test_error", "history")} == {
            name: before[name] for name in ("seed", "settings", "test_error", "history")
        }
