"""Result rows: one JSON object a line, written the moment its run is done."""

import json
import math
import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pulab.bench.spec import RunSpec
from pulab.errors import PulabWarning

Row = dict[str, Any]


def append_row(path: Path, row: Row) -> None:
    """Add a row and see it onto the disk. A line torn by a crash is closed first, so that it stays alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = {name: value for name, value in row.items() if name != "label_histogram"}  # large, and for pages only
    line = json.dumps(_rounded(kept), separators=(",", ":"), allow_nan=False) + "\n"
    with path.open("a+b") as file:
        if file.tell() and _last_byte(path) != b"\n":
            line = "\n" + line
        file.write(line.encode())
        file.flush()
        os.fsync(file.fileno())


def read_rows(paths: Iterable[Path]) -> list[Row]:
    """All rows of these files. A line torn by a crash is passed over, with a warning: its run counts as not done."""
    rows: list[Row] = []
    for path in paths:
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
            try:
                row = json.loads(line) if line.strip() else None
            except (json.JSONDecodeError, RecursionError):
                row = line
            if isinstance(row, dict):
                rows.append(row)
            elif row is not None:
                warnings.warn(f"{path}, line {number} is no row and passed over.", PulabWarning, stacklevel=2)
    return rows


def committed_rows() -> Path:
    """The folder of the rows behind every number in the documentation: in the package, or in its checkout."""
    shipped = Path(__file__).parents[1] / "_results"
    return shipped if shipped.is_dir() else Path(__file__).parents[3] / "results"


def rows_of(specs: Iterable[RunSpec], folder: Path) -> list[Row]:
    """The rows of just these runs among all that a folder holds, in the order of the runs."""
    files = sorted(path for path in folder.rglob("*.jsonl") if path.is_file())
    found = {str(row["spec"]): row for row in read_rows(files) if _is_result(row)}
    return [found[spec.digest] for spec in specs if spec.digest in found]


def _is_result(row: Row) -> bool:
    """Whether a row holds what a run leaves behind; one that does not counts as not done."""
    errors = [row.get(name) for name in ("test_error", "recovery_error")]
    whole = all(isinstance(error, float | int) and math.isfinite(error) for error in errors)
    return whole and all(name in row for name in ("spec", "dataset", "method", "sampling", "settings", "history"))


def _last_byte(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1)


def _rounded(value: Any) -> Any:
    """Five significant digits: enough for every table, and small enough to commit."""
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value]
