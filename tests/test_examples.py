"""The examples run, and find what they promise to find."""

import re
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
