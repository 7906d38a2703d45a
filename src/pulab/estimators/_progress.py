"""A progress bar."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def epoch_progress(name: str) -> Iterator[Callable[[dict[str, Any], int], None]]:
    """A progress bar on stderr. Call the function that it gives after every epoch."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]
    with Progress(*columns, TextColumn("{task.fields[shown]}"), console=Console(stderr=True)) as progress:
        bar = progress.add_task(name, total=None, shown="")

        def advance(record: dict[str, Any], epochs: int) -> None:
            risk = record["val_risk"]
            shown = f"loss {record['loss']:.4f}" + ("" if risk is None else f"  validation {risk:.4f}")
            progress.update(bar, completed=record["epoch"], total=epochs, shown=shown)

        yield advance
