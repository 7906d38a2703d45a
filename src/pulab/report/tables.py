"""Tables of means over trials."""

import csv
import io
import statistics
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

METRICS = ("test_error", "recovery_error")


class Cell(NamedTuple):
    """One number of a table: the mean of a metric over a method's trials on a data set."""

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
    """One cell per data set, method and metric, in the order of their first rows."""
    groups: dict[tuple[str, str, str], list[float]] = {}
    for row in rows:
        for metric in metrics:
            groups.setdefault((_dataset(row), _method(row), metric), []).append(row[metric])
    return [Cell(*key, *mean_std(values), len(values)) for key, values in groups.items()]


def _dataset(row: dict[str, Any]) -> str:
    sampling = row["sampling"]
    return f"{row['dataset']}, prior {sampling['prior']}" if sampling.get("exact") else str(row["dataset"])


def _method(row: dict[str, Any]) -> str:
    init = row.get("params", {}).get("init", "prior")
    return row["method"] if init == "prior" else f"{row['method']}, {init}"


def mean_std(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and sample standard deviation (n − 1). One value has no deviation."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def markdown(header: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    body = [header, ["---"] * len(header), *lines]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in body)


def by_dataset(rows: Iterable[dict[str, Any]], metric: str = "test_error") -> tuple[list[str], list[list[str]]]:
    """Header and lines: data sets down, methods across, mean ± std of one metric."""
    chosen = cells(rows, [metric])
    methods = list(dict.fromkeys(cell.method for cell in chosen))
    datasets = list(dict.fromkeys(cell.dataset for cell in chosen))
    by_place = {(cell.dataset, cell.method): cell for cell in chosen}
    lines = []
    for dataset in datasets:
        trials = [cell.n for cell in chosen if cell.dataset == dataset]
        least, most = min(trials), max(trials)
        errors = [str(by_place.get((dataset, method), "–")) for method in methods]
        lines.append([dataset, *errors, str(most) if least == most else f"{least} to {most}"])
    name = f"{metric.replace('_', ' ')}, %" if metric in METRICS else metric
    return [name, *methods, "n"], lines


def by_method(rows: Iterable[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Header and lines: methods down, both errors across, for rows of one data set."""
    by_name: dict[str, list[Cell]] = {}
    for cell in cells(rows):
        by_name.setdefault(cell.method, []).append(cell)
    lines = [[method, *map(str, errors), str(errors[0].n)] for method, errors in by_name.items()]
    return ["method", "test error, %", "recovery error, %", "n"], lines


def as_csv(records: Sequence[Any]) -> str:
    """Named tuples as comma-separated values, one per line."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(records[0]._fields)
    writer.writerows(records)
    return out.getvalue()
