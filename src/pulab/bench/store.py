"""Result rows: one JSON object per line, written as soon as its run is done."""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pulab.bench.spec import RunSpec
from pulab.errors import warn
from pulab.methods import METHODS

Row = dict[str, Any]
# What reports read of every row.
RESULT = {
    "test_error": float | int,
    "recovery_error": float | int,
    "settings": dict,
    "history": dict,
    "sigma_history": dict,
}
# Parameters of networks that are younger than some rows, and the values that those rows were made with.
ADDED = {"augment": None, "lr_schedule": "constant", "lr_warmup": 0.0, "optimizer": "amsgrad"}


def append_row(path: Path, row: Row) -> None:
    """Add a row and flush it to the disk. A line torn by a crash is ended first, so that no row is joined to it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    stored = {name: value for name, value in row.items() if name != "label_histogram"}  # large, and for pages only
    line = json.dumps(rounded(stored), separators=(",", ":"), allow_nan=False) + "\n"
    with path.open("a+b") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            line = line if file.read(1) == b"\n" else "\n" + line
        file.write(line.encode())  # append mode: written at the end, wherever the file was read
        file.flush()
        os.fsync(file.fileno())


def shortened(row: Row, drawn: bool) -> Row:
    """A row with as much of its histories as is read, which is a tenth of them.

    A run that a figure draws keeps the loss of every epoch. Others keep all terms of every 20th epoch and of the last.
    """
    return row | {name: _short_history(row[name], drawn) for name in ("history", "sigma_history")}


def _short_history(history: dict[str, list[Any]], drawn: bool) -> dict[str, list[Any]]:
    if drawn or not history:
        return {"loss": history["loss"]} if history else {}
    last = len(history["loss"])
    kept = [epoch for epoch in range(1, last + 1) if epoch % 20 == 0 or epoch == last]
    terms = {name: values for name, values in history.items() if name not in ("lr", "lambda")}  # the settings say them
    return {"epoch": kept, **{name: [values[epoch - 1] for epoch in kept] for name, values in terms.items()}}


def read_rows(paths: Iterable[Path]) -> list[Row]:
    """All rows of these files. A line torn by a crash is skipped with a warning: its run counts as not done."""
    return [row for path in paths for _, row in _numbered(path)]


def _numbered(path: Path) -> Iterator[tuple[int, Row]]:
    torn = []
    for number, line in enumerate(path.read_text(encoding="utf-8-sig", errors="replace").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict):
            yield number, row
        else:
            torn.append(number)
    _warn_of(path, torn, "is no row")


def _warn_of(path: Path, numbers: list[int], why: str) -> None:
    if numbers:
        more = f" (and {len(numbers) - 1} more)" if len(numbers) > 1 else ""
        warn(f"{path}, line {numbers[0]}{more} {why} and is skipped.")


def committed_rows() -> Path:
    """The folder of the rows behind the documentation's numbers: in the installed package, or in its checkout."""
    shipped = Path(__file__).parents[1] / "_results"
    return shipped if shipped.is_dir() else Path(__file__).parents[3] / "results"


def rows_of(specs: Iterable[RunSpec], folder: Path) -> list[Row]:
    """The rows of these runs in a folder, in the order of the runs. Of several rows of a run the youngest counts.

    A row that lacks a result counts as not done. The digest covers explicit parameters only, so rows made with
    different defaults are not averaged: only those with the defaults of the experiment's youngest row are returned.
    """
    wanted = {spec.digest: spec for spec in specs}
    rows = []
    for path in sorted(path for path in folder.rglob("*.jsonl") if path.is_file()):
        damaged = []
        for number, row in _numbered(path):
            if str(row.get("spec")) not in wanted:
                continue
            if _is_result(row, wanted[row["spec"]]):
                added = ADDED if METHODS[row["method"]].is_network else {}
                rows.append(row | {"settings": added | row["settings"]})
            else:
                damaged.append(number)
        _warn_of(path, damaged, "holds no result")
    by_digest: dict[str, Row] = {}
    latest: dict[str, Row] = {}  # the youngest settings of each experiment
    for row in sorted(rows, key=lambda row: str(row.get("time", ""))):  # stable: rows of one time stay in their order
        spec = wanted[row["spec"]]
        by_digest[spec.digest] = row | spec.as_row()
        latest[_experiment(spec)] = row["settings"]
    stale = {digest for digest, row in by_digest.items() if row["settings"] != latest[_experiment(wanted[digest])]}
    if stale:
        warn(f"{len(stale)} rows in {folder} were made with other defaults than younger rows. They are skipped.")
    return [by_digest[digest] for digest in wanted if digest in by_digest and digest not in stale]


def _is_result(row: Row, spec: RunSpec) -> bool:
    """Whether a row has what reports read, and is of the run that its digest names."""
    complete = all(isinstance(row.get(name), kind) for name, kind in RESULT.items())
    of_this_run = all(row.get(name) == getattr(spec, name) for name in ("dataset", "method", "seed"))
    return complete and of_this_run and all(0 <= row[name] <= 100 for name in ("test_error", "recovery_error"))


def _experiment(spec: RunSpec) -> str:
    return replace(spec, seed=0).digest


def rounded(value: Any) -> Any:
    """A value as it is stored. Five significant digits are enough for every table, and keep the files small."""
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value]
