"""Result rows: one JSON object a line, written the moment its run is done."""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pulab.bench.spec import RunSpec
from pulab.errors import warn

Row = dict[str, Any]


def append_row(path: Path, row: Row) -> None:
    """Add a row and see it onto the disk. A line torn by a crash is closed first, so that it stays alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = {name: value for name, value in row.items() if name != "label_histogram"}  # large, and for pages only
    line = json.dumps(rounded(kept), separators=(",", ":"), allow_nan=False) + "\n"
    with path.open("a+b") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            line = line if file.read(1) == b"\n" else "\n" + line
        file.write(line.encode())  # at the end, wherever it was read: the file was opened to append
        file.flush()
        os.fsync(file.fileno())


def read_rows(paths: Iterable[Path]) -> list[Row]:
    """All rows of these files. A line torn by a crash is passed over, with a warning: its run counts as not done."""
    return [row for path in paths for _, row in _numbered(path)]


def _numbered(path: Path) -> Iterator[tuple[int, Row]]:
    torn = []
    for number, line in enumerate(path.read_text(encoding="utf-8-sig", errors="replace").split("\n"), start=1):
        try:
            row = json.loads(line) if line.strip() else None
        except (ValueError, RecursionError):
            row = line
        if isinstance(row, dict):
            yield number, row
        elif row is not None:
            torn.append(number)
    _pass_over(path, torn, "is no row")


def _pass_over(path: Path, numbers: list[int], why: str) -> None:
    if numbers:
        more = f" (and {len(numbers) - 1} more)" if len(numbers) > 1 else ""
        warn(f"{path}, line {numbers[0]}{more} {why} and passed over.")


def committed_rows() -> Path:
    """The folder of the rows behind every number in the documentation: in the package, or in its checkout."""
    shipped = Path(__file__).parents[1] / "_results"
    return shipped if shipped.is_dir() else Path(__file__).parents[3] / "results"


def rows_of(specs: Iterable[RunSpec], folder: Path) -> list[Row]:
    """The rows of just these runs among all that a folder holds, in the order of the runs; the youngest of each.

    A row that does not hold what a run leaves behind counts as not done. So does one with other defaults than the
    youngest row of the same experiment: the digest knows of what was set alone, and the two must not be in one mean.
    """
    wanted = {spec.digest: spec for spec in specs}
    rows = []
    for path in sorted(path for path in folder.rglob("*.jsonl") if path.is_file()):
        damaged = []
        for number, row in _numbered(path):
            spec = wanted.get(str(row.get("spec")))
            if spec is not None:
                if _is_result(row, spec):
                    rows.append(row)
                else:
                    damaged.append(number)
        _pass_over(path, damaged, "is not what its run leaves behind")
    found: dict[str, Row] = {}
    latest: dict[str, Row] = {}  # of each experiment: its settings
    for row in sorted(rows, key=lambda row: str(row.get("time", ""))):  # the sort is stable: else in their order
        spec = wanted[str(row["spec"])]
        found[spec.digest] = row | spec.as_row()
        latest[_experiment(spec)] = row["settings"]
    stale = [digest for digest in found if found[digest]["settings"] != latest[_experiment(wanted[digest])]]
    if stale:
        warn(
            f"{len(stale)} rows in {folder} were made with other defaults than younger ones of the same experiment, "
            "and are passed over."
        )
    return [found[digest] for digest in wanted if digest in found and digest not in stale]


def _experiment(spec: RunSpec) -> str:
    return replace(spec, seed=0).digest


def _is_result(row: Row, spec: RunSpec) -> bool:
    errors: list[Any] = [row.get(name) for name in ("test_error", "recovery_error")]
    risk = [row["val_risk"]] if row.get("val_risk") is not None else []
    return (
        all(row.get(name) == getattr(spec, name) for name in ("dataset", "method", "seed"))
        and all(_is_number(error) and 0 <= error <= 100 for error in errors)
        and all(map(_is_number, risk))
        and isinstance(row.get("settings"), dict)
        and isinstance(row.get("versions", {}), dict)
        and all(row["settings"].get(name, value) == value for name, value in rounded(spec.params).items())
        and all(_is_history(row.get(name), row["settings"].get("epochs")) for name in ("history", "sigma_history"))
    )


def _is_history(columns: Any, epochs: int | None) -> bool:
    """Whether this is a record of lists of one length, the loss among them; empty for what is not trained by epochs."""
    if columns == {}:
        return True
    if not isinstance(columns, dict) or not all(isinstance(column, list) for column in columns.values()):
        return False
    lengths = {len(column) for column in columns.values()}
    alike = len(lengths) == 1 and epochs in (None, *lengths)
    return alike and bool(columns.get("loss")) and all(map(_is_number, columns["loss"]))


def _is_number(value: Any) -> bool:
    # Not by math.isfinite, which fails on 10**400.
    return isinstance(value, float | int) and not isinstance(value, bool) and -1e300 < value < 1e300


def rounded(value: Any) -> Any:
    """A value as a row holds it. Five significant digits: enough for every table, and small enough to commit."""
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value]
