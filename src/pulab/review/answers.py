"""A person's answers on disk: a log to which lines are only added. Also as a spreadsheet."""

import csv
import datetime
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import StringIO
from pathlib import Path
from typing import BinaryIO

import polars as pl

from pulab.errors import InputError
from pulab.review.design import Draw

FILE = "answers.csv"
HEADER = ("number", "row", "stratum", "answer", "when")
ANSWERS = ("yes", "no", "skip")
UNDO = "undo"
WORDS = {"yes": "yes", "y": "yes", "1": "yes", "true": "yes", "no": "no", "n": "no", "0": "no", "false": "no"}
WORDS |= {"1.0": "yes", "0.0": "no", "skip": "skip", "s": "skip"}  # a spreadsheet may write 1 as 1.0


class Answers:
    """The answers to a draw: ``given`` has (place in the draw from 0, answer) in the order in which they came."""

    def __init__(self, draw: Draw, given: Sequence[tuple[int, str]] = ()) -> None:
        self.draw = draw
        self.given = list(given)

    @property
    def latest(self) -> dict[int, str]:
        """The answer to each row that has one."""
        return dict(self.given)

    @property
    def next(self) -> int | None:
        """The first place without an answer, or None."""
        latest = self.latest
        return next((place for place in range(len(self.draw.stratum)) if place not in latest), None)


class Log(Answers):
    """Answers that are on disk as soon as they are given. Use :func:`open_log`."""

    def __init__(self, draw: Draw, given: Sequence[tuple[int, str]], file: BinaryIO) -> None:
        super().__init__(draw, given)
        self._file = file

    def add(self, answers: Sequence[tuple[int, str]]) -> None:
        """Write answers, and return when the disk has them."""
        self._write(answers)
        self.given += answers

    def undo(self) -> None:
        """Take the last answer back, if there is one."""
        if self.given:
            self._write([(self.given[-1][0], UNDO)])
            self.given.pop()

    def _write(self, answers: Sequence[tuple[int, str]]) -> None:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        rows = self.draw.frame["row"]
        lines = [(place + 1, rows[place], self.draw.stratum[place] + 1, answer, now) for place, answer in answers]
        self._file.write(_csv(lines))
        self._file.flush()
        os.fsync(self._file.fileno())


def is_log(path: Path) -> bool:
    """Whether a file starts as a log of answers does."""
    with path.open("rb") as file:
        return file.readline().rstrip(b"\r\n") == ",".join(HEADER).encode()


def rows_in_log(path: Path) -> dict[int, str]:
    """The answers in a log whose draw is not at hand, by the number of the row."""
    return {row: answer for _, row, answer in _standing(path.read_bytes(), path)}


def read_answers(path: Path, draw: Draw) -> Answers:
    """The answers in a file; none if there is no file."""
    return Answers(draw, _parsed(path.read_bytes(), draw, path) if path.exists() else ())


@contextmanager
def open_log(path: Path, draw: Draw) -> Iterator[Log]:
    """The answers in a file, to be added to. A second process is refused."""
    try:
        file = path.open("a+b")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}. Pass --answers with another file.") from None
    with file:
        if not _lock(file):
            raise InputError(f"{path} is in use by another `pulab review`. End that one first, or go on there.")
        file.seek(0)
        raw = file.read()
        given = _parsed(raw, draw, path)
        file.truncate(raw.rfind(b"\n") + 1)  # a line that was cut off by a crash
        if b"\n" not in raw:
            file.write(_csv([HEADER]))
        yield Log(draw, given, file)


def _parsed(raw: bytes, draw: Draw, path: Path) -> list[tuple[int, str]]:
    """The answers to a draw that stand after every undo."""
    return [(place, answer) for place, _, answer in _standing(raw, path, draw.frame["row"].to_list())]


def _standing(raw: bytes, path: Path, rows: Sequence[int] | None = None) -> list[tuple[int, int, str]]:
    """Places, rows and answers that stand after every undo. The last line does not count if it is cut off."""
    whole = raw[: raw.rfind(b"\n") + 1]
    given: list[tuple[int, int, str]] = []
    for at, line in enumerate(csv.reader(StringIO(whole.decode("utf-8", errors="replace"))), start=1):
        if at == 1 and tuple(line) == HEADER:
            continue
        with suppress(ValueError, IndexError):
            place, row, answer = int(line[0]) - 1, int(line[1]), line[3]
            if place >= 0 and (rows is None or rows[place] == row) and answer in (*ANSWERS, UNDO):
                if answer != UNDO:
                    given.append((place, row, answer))
                    continue
                if given and given[-1][0] == place:
                    given.pop()
                    continue
        raise InputError(
            f"line {at} of {path} is no answer to this model's rows: {','.join(line)!r}. "
            "Restore the file, or pass --answers with another one."
        )
    return given


def _csv(lines: Sequence[Sequence[object]]) -> bytes:
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue().encode()


if sys.platform == "win32":
    import msvcrt

    def _lock(file: BinaryIO) -> bool:
        file.seek(2**30)  # beyond the text, which others may read
        with suppress(OSError):
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            return True
        return False

else:
    import fcntl

    def _lock(file: BinaryIO) -> bool:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False


# As a spreadsheet -----------------------------------------------------------------------------------------------------


def sheet(answers: Answers, n: int) -> pl.DataFrame:
    """The first n rows of the draw, with a column for answers."""
    latest = answers.latest
    frame = answers.draw.frame.head(n)
    name = answer_column(frame)
    return frame.with_columns(pl.Series(name, [latest.get(place) for place in range(frame.height)], dtype=pl.String))


def answer_column(frame: pl.DataFrame) -> str:
    """The name of the column for answers, which no column of the table has."""
    name = "answer"
    while name in frame.columns:
        name += "_"
    return name


def from_sheet(path: Path, draw: Draw) -> list[tuple[int, str]]:
    """The answers in a spreadsheet, in the order of the draw. One wrong word or row, and none is taken."""
    column = answer_column(draw.frame)
    try:
        table = pl.read_csv(path, infer_schema=False, encoding="utf8-lossy", separator=_separator(path))
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{path} cannot be read as CSV: {str(error).splitlines()[0]}.") from None
    for name in ("row", column):
        if name not in table.columns:
            raise InputError(f"{path} has no column {name!r}. Fill in the file that --export wrote.")
    places = {str(row): place for place, row in enumerate(draw.frame["row"])}
    found: dict[int, str] = {}
    for line, (row, word) in enumerate(table.select("row", column).iter_rows(), start=2):
        answer = WORDS.get((word or "").strip().lower())
        if not (word or "").strip():
            continue
        place = places.get((row or "").strip().removesuffix(".0"))
        if place is None:
            raise InputError(f"line {line} of {path} is about row {row}, which is not in the draw. Nothing was taken.")
        if answer is None:
            raise InputError(f"line {line} of {path} answers {word!r}. Write yes, no or skip. Nothing was taken.")
        if found.setdefault(place, answer) != answer:
            raise InputError(f"line {line} of {path} answers row {row} again, and not alike. Nothing was taken.")
    return sorted(found.items())


def _separator(path: Path) -> str:
    """A semicolon if the first line has more of them than commas, as in files of many spreadsheets."""
    with path.open(encoding="utf-8", errors="replace") as file:
        first = file.readline()
    return ";" if first.count(";") > first.count(",") else ","
