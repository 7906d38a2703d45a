"""The examples run, and find what they promise to find."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def output(name: str) -> str:
    return subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, text=True, check=True).stdout


def number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    assert found, text
    return float(found[1])


@pytest.mark.realdata("20news-bydate")
def test_similar_tickets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert number(r"of the first 100 of the list +(\d+) are", output("similar_tickets.py")) > 75  # by chance: 5


@pytest.mark.realdata("uci")
def test_churn() -> None:
    said = output("churn.py")
    assert number(r"of the first +100 candidates (\d+)% are right", said) > 90  # by chance: 20
    assert number(r"called positive (\d+)% are right", said) > 60  # by chance: 24


@pytest.mark.realdata("uci")
def test_mushrooms() -> None:
    said = output("mushrooms.py")
    low, high = (number(pattern, said) for pattern in (r"ones between ([\d.]+) and", r" and ([\d.]+), true"))
    assert 0.3 < low < 0.482 < high < 0.6
    assert number(r"had marked, ([\d.]+)% are found", said) > 90
    assert number(r"harmless ones, ([\d.]+)% are", said) < 5


def test_twenty_lines() -> None:
    said = output("twenty_lines.py")
    assert abs(number(r"estimated ([\d.]+), true", said) - 0.5) < 0.1
    assert number(r"new digits: +([\d.]+)", said) > 0.9


def test_grid_search() -> None:
    said = output("grid_search.py")
    estimates = [float(value) for value in re.findall(r"AUC ([\d.]+) ", said)]
    assert len(estimates) == 6
    assert estimates == sorted(estimates, reverse=True)
    assert number(r"seen: ([\d.]+) with the best", said) > max(0.85, number(r"best settings, ([\d.]+)", said) + 0.1)


def test_optuna_search() -> None:
    pytest.importorskip("optuna", reason="optuna is not installed: pip install 'pulab[tune]'")
    said = output("optuna_search.py")
    assert number(r"AUC ([\d.]+),", said) > 0.8
    assert number(r"12 trials, (\d+) of them", said) >= 1
    assert number(r"has seen: ([\d.]+)", said) > 0.8


NOTEBOOKS = sorted((EXAMPLES / "notebooks").glob("*.ipynb"))


def shown(notebook: Path) -> list[tuple[str, list[str]]]:
    """What the cells of a notebook show: the kinds of their outputs, and the words that they print without numbers."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    texts = [re.sub(r"\(.*?\)", "", "".join(output.get("text", []))) for output in outputs]  # intervals, verdicts
    words = [re.findall("[A-Za-z]{3,}", text) for text in texts]
    return [(output["output_type"], part) for output, part in zip(outputs, words, strict=True)]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run_and_show_what_is_kept_in_them(notebook: Path, tmp_path: Path) -> None:
    """The numbers may differ a little on other machines, the words may not."""
    copy = Path(shutil.copy(notebook, tmp_path))
    subprocess.run([sys.executable, EXAMPLES / "notebooks" / "run.py", copy], check=True, capture_output=True)
    assert shown(copy) == shown(notebook)
    said = "".join(
        line
        for cell in json.loads(copy.read_text("utf-8"))["cells"]
        for output in cell.get("outputs", [])
        for line in output.get("text", [])
    )
    if notebook.stem == "table":
        assert number(r"tumours: (\d+)%", said) > 85
    elif notebook.stem == "pictures":
        assert number(r"joint: calls \d+ pictures 3s, (\d+)", said) > 20


def test_notebooks_are_small() -> None:
    assert {path.stem for path in NOTEBOOKS} == {"table", "pictures", "benchmark"}
    assert sum(path.stat().st_size for path in NOTEBOOKS) < 300_000


def test_curves(tmp_path: Path) -> None:
    said = subprocess.run(
        [sys.executable, EXAMPLES / "curves.py", tmp_path / "a.png"], capture_output=True, text=True, check=True
    ).stdout
    corrected, true, wrong = (number(rf"{word} ([\d.]+)", said) for word in ("corrected", "true", "as negatives"))
    assert abs(corrected - true) < 0.05 < true - wrong
    assert (tmp_path / "a.png").stat().st_size > 10_000
