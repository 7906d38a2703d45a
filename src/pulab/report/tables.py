"""Means over trials."""

import statistics
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

METRICS = ("test_error", "recovery_error")


class Cell(NamedTuple):
    """One number of a table: the mean of a metric over the trials of a method on a data set."""

    dataset: str
    method: str
    metric: str
    mean: float
    std: float | None
    n: int

    def __str__(self) -> str:
        spread = "" if self.std is None else f" ± {self.std:.2f}"
        return f"{self.mean:.2f}{spread}"


def cells(rows: Iterable[dict[str, Any]], metrics: Sequence[str] = METRICS) -> list[Cell]:
    """One cell per data set, method and metric, in the order in which they come first in the rows."""
    groups: dict[tuple[str, str, str], list[float]] = {}
    for row in rows:
        for metric in metrics:
            groups.setdefault((row["dataset"], row["method"], metric), []).append(row[metric])
    return [Cell(*key, *mean_std(values), len(values)) for key, values in groups.items()]


def mean_std(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and sample standard deviation (n − 1); of one value there is no deviation."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def markdown(header: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """A table as Markdown has it."""
    body = [header, ["---"] * len(header), *lines]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in body)


def by_dataset(rows: Iterable[dict[str, Any]], metric: str = "test_error") -> str:
    """Markdown: data sets down, methods across, mean ± std of one metric."""
    chosen = cells(rows, [metric])
    methods = list(dict.fromkeys(cell.method for cell in chosen))
    datasets = list(dict.fromkeys(cell.dataset for cell in chosen))
    found = {(cell.dataset, cell.method): cell for cell in chosen}
    lines = []
    for dataset in datasets:
        trials = {cell.n for cell in chosen if cell.dataset == dataset}
        lines.append(
            [dataset, *(found.get((dataset, method), "–") for method in methods), "/".join(map(str, sorted(trials)))]
        )
    return markdown(["", *(f"`{method}`" for method in methods), "n"], lines)
