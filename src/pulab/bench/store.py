"""Result rows: one JSON object per line, written as soon as its run is done."""

import errno
import json
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pulab._files import sync_folder
from pulab.bench.spec import RunSpec
from pulab.errors import InputError, warn
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
ADDED = {"augment": None, "calibration": False, "lr_schedule": "constant", "lr_warmup": 0.0, "optimizer": "amsgrad"}


def append_row(path: Path, row: Row) -> None:
    """Add a row, and return when the disk has it. Any number of processes may add rows to one file.

    A line torn by a crash is removed first, or ended if it is a whole row. A row that cannot be written leaves nothing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    stored = {name: value for name, value in row.items() if name != "label_histogram"}  # large, and for pages only
    line = (json.dumps(rounded(stored), separators=(",", ":"), allow_nan=False) + "\n").encode()
    file = open_own(path)
    try:
        locked = _lock_file(file)
        end = _mend(file, may_cut=locked)
        size = os.fstat(file).st_size
        try:
            _write(file, end + line)
            os.fsync(file)
        except OSError as error:
            if locked:  # else it may be the row of another process that is cut off
                os.ftruncate(file, size)
            raise InputError(
                f"{path} must take a further row, got: {error.strerror}. All earlier rows stay. "
                "Make room or pass another folder, and run again."
            ) from error
        if size == 0:
            with suppress(OSError):  # some file systems cannot
                sync_folder(path.parent)
    finally:
        os.close(file)  # which ends the lock


def open_own(path: Path) -> int:
    """Open a file of the store, made if need be. A link, a folder or a device is refused: the rows must lie here."""
    some_systems = ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY")  # not all of them exist everywhere
    flags = sum(getattr(os, name, 0) for name in some_systems)
    try:
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | flags, 0o666)
    except OSError as error:
        why = "a link" if path.is_symlink() else error.strerror
        raise InputError(f"{path} must be a file that can be written to, got: {why}. Pass another folder.") from error
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise InputError(f"{path} must be a file that can be written to, got: a device. Pass another folder.")
    return file


def _lock_file(file: int) -> bool:
    """Wait until no other process writes. False where the folder has no locks: a row is still one write."""
    try:
        _flock(file)
    except OSError:
        return False
    return True


def _mend(file: int, may_cut: bool) -> bytes:
    """Remove what follows the last end of a line. If that is a whole row, return the end that it lacks."""
    size = place = os.fstat(file).st_size
    tail = b""
    while place and b"\n" not in tail:
        place = os.lseek(file, max(0, place - 2**16), os.SEEK_SET)
        tail = os.read(file, min(size - place - len(tail), 2**16)) + tail
    tail = tail.rpartition(b"\n")[2]
    if not tail:
        return b""
    if _row_of(tail) is not None or not may_cut:
        return b"\n"
    os.ftruncate(file, size - len(tail))
    return b""


def _write(file: int, data: bytes) -> None:
    """Write all of it: in one call, except where the disk takes less at a time."""
    while data:
        data = data[os.write(file, data) :]


if sys.platform == "win32":

    def _flock(file: int) -> None:
        raise OSError(errno.ENOTSUP, "Windows")

    def _lock_byte(file: int, place: int, free: bool = False) -> None:
        raise OSError(errno.ENOTSUP, "Windows")

else:
    import fcntl

    def _flock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX)  # excludes threads of this process, too

    def _lock_byte(file: int, place: int, free: bool = False) -> None:
        fcntl.lockf(file, fcntl.LOCK_UN if free else fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)


class RunLocks:
    """The runs that this process works on. No other process can lock them, on any machine that shares the folder.

    A lock lies on one byte of the empty file ``.claims``, at the place that the run's digest names. The system ends it
    with the process, however that ends, so a killed process leaves no lock. The locks of one process do not exclude
    each other: it opens a folder once at a time.
    """

    def __init__(self, folder: Path) -> None:
        self._file = open_own(folder / ".claims")
        self.available = True

    def take(self, digest: str) -> bool:
        """Lock a run. False if another process has it."""
        try:
            _lock_byte(self._file, _place(digest))
        except (BlockingIOError, PermissionError):  # POSIX allows both
            return False
        except OSError as error:
            if self.available:
                warn(f"the folder of the rows has no locks ({error.strerror}). Let one command at a time work on it.")
            self.available = False
        return True

    def release(self, digest: str) -> None:
        """Give a run back."""
        if self.available:
            _lock_byte(self._file, _place(digest), free=True)

    def close(self) -> None:
        """Give all runs back."""
        os.close(self._file)


def _place(digest: str) -> int:
    return int(digest[:15], 16)  # below 2**60: places of files are signed 64-bit numbers


def shortened(row: Row, drawn: bool) -> Row:
    """A row with as much of its histories as is read, which is a tenth of them.

    A run that a figure draws keeps the loss of every epoch. Others keep all terms of every 20th epoch and of the last.
    Methods have terms of different names.
    """
    return row | {name: _short_history(row[name], drawn) for name in ("history", "sigma_history")}


def _short_history(history: dict[str, list[Any]], drawn: bool) -> dict[str, list[Any]]:
    if not history:
        return {}
    if drawn:
        return {"loss": history["loss"]}
    last = len(next(iter(history.values())))
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
        row = _row_of(line)
        if row is None:
            torn.append(number)
        else:
            yield number, row
    _warn_of(path, torn, "is no row")


def _row_of(line: str | bytes) -> Row | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


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
