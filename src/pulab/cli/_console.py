"""Output: results go to stdout, everything else to stderr. An error is one line."""

import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from pulab._files import whole_file
from pulab.errors import InputError, PulabError, PulabWarning

out = Console()
err = Console(stderr=True)


def say(line: str) -> None:
    """Print a line of the result, without wrapping it."""
    out.print(line, markup=False, highlight=False, soft_wrap=True)


def note(line: str) -> None:
    """Print a line that is not part of the result."""
    err.print(line, markup=False, highlight=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """Print JSON on stdout."""
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")  # str: dates


def print_table(title: str, header: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    """Print a table on stdout."""
    table = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    for name in header:
        whole = name in ("key", "class", "method", "recipe")
        table.add_column(Text(name), no_wrap=whole, overflow="fold", min_width=_width([*name.split(), ""]))
    for line in lines:
        table.add_row(*map(Text, line))
    out.print(table)


def columns_that_fit(header: Sequence[str], lines: Sequence[Sequence[str]]) -> int:
    """How many columns of a table fit on the terminal without being cut."""
    columns = zip(header, *lines, strict=True)
    ends = accumulate(_width([*name.split(), *cells]) + 2 for name, *cells in columns)
    return sum(end - 2 <= out.width for end in ends)


def _width(words: Sequence[str]) -> int:
    """The width that words need. Those of more than 20 letters may be broken."""
    return min(20, max(map(cell_len, words)))


def print_records(records: Sequence[dict[str, Any]], titles: dict[str, str], as_json: bool) -> None:
    """Print records as JSON, or as a table of the fields that have a title."""
    if as_json:
        print_json(records)
        return
    words = {True: "yes", False: "no"}
    lines = [[words[r[name]] if isinstance(r[name], bool) else str(r[name]) for name in titles] for r in records]
    print_table("", list(titles.values()), lines)


@contextmanager
def progress(description: str, total: int) -> Iterator[Any]:
    """A progress bar on stderr, or a line now and then if stderr is a file. Yields a function to advance it."""
    if not err.is_terminal or err.is_dumb_terminal:
        yield _lines_of_progress(description, total)
        return
    columns = [
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    ]
    with Progress(*columns, console=err) as bars:
        bar = bars.add_task(description, total=total)
        yield lambda done: bars.advance(bar, done)


def _lines_of_progress(description: str, total: int) -> Callable[[float], None]:
    """A line a minute, and one at the end."""
    start = printed = time.perf_counter()
    done = 0.0

    def advance(more: float) -> None:
        nonlocal done, printed
        done += more
        now = time.perf_counter()
        if done > 0 and (now - printed > 60 or done > total - 1e-6):
            printed, took = now, now - start
            left = max(0.0, took * (total - done) / done)
            note(f"{description}: {int(done + 1e-6)} of {total}, {took:.0f} s, about {left:.0f} s left")

    return advance


@contextmanager
def steps() -> Iterator[Any]:
    """The current step and its progress, on one line of stderr."""
    columns = [TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()]
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bars:
        bar = bars.add_task("", total=None)
        yield lambda text, done, total: bars.update(bar, description=text, completed=done, total=total or None)


def check_file(path: Path) -> None:
    """Refuse a path that no file can be written to, before any work is done."""
    if not path.parent.is_dir() or path.is_dir():
        raise InputError(f"--out must be a file in a folder that exists, got {path}.")
    if path.exists() and not path.is_file():  # a pipe or a device
        return
    target = path.resolve()
    try:
        with NamedTemporaryFile(dir=target.parent, prefix=f"{target.name}."):  # about as long as the name while writing
            pass
    except OSError as error:
        raise InputError(f"--out must be a file that can be written, got {path} ({error.strerror}).") from error


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file, all or nothing, and print its name."""
    raw = content.encode() if isinstance(content, str) else content
    if path.exists() and not path.is_file():  # a pipe or a device
        path.write_bytes(raw)
    else:
        with whole_file(path) as file:
            file.write(raw)
    note(f"wrote {path}")


def format_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Our own warnings as one line, without the line of code."""
    if issubclass(category, PulabWarning):
        return f"pulab: warning: {message}\n"
    return _format_warning(message, category, filename, lineno, line)


_format_warning = warnings.formatwarning


def fail(error: BaseException) -> int:
    """Print the error as one line. With PULAB_DEBUG=1, raise it.

    We did not expect an error that is neither ours nor the system's. Its text alone may be as short as ``'loss'``, so
    the line has its type, too.
    """
    if os.environ.get("PULAB_DEBUG") == "1":
        raise error
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    line = " ".join(message.split()) or type(error).__name__
    if not (isinstance(error, PulabError | OSError | MemoryError) or hasattr(error, "format_message")):
        line = f"{type(error).__name__}: {line}. This is a bug in pulab. PULAB_DEBUG=1 shows where."
    sys.stderr.write(f"pulab: {line}\n")
    return 1
