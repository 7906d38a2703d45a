"""The examples run, and find what they promise to find."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def output(name: str) -> str:
    return subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, text=True, check=True).stdout


@pytest.mark.realdata("20news-bydate")
def test_similar_tickets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = re.search(r"of the first 100 of the list +(\d+) are", output("similar_tickets.py"))
    assert found
    assert int(found[1]) > 75  # by chance: 5
