"""The paper's tables, ours beside the paper's."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

from pulab.bench.paper import Cell
from pulab.report.tables import markdown, mean_std

Row = Mapping[str, Any]
Key = tuple[int, str, float, str, str | None, str]


class Result(NamedTuple):
    """A cell of the paper's tables with our mean over n trials, and the paper's."""

    table: int
    dataset: str
    features: str | None
    prior: float
    method: str
    setting: str
    init: str | None
    metric: str
    mean: float | None
    std: float | None
    n: int
    paper_mean: float
    paper_std: float


def results(cells: Iterable[Cell], rows: Iterable[Row]) -> list[Result]:
    """What the rows say about each cell. A cell without rows has no mean; a grid counts once all of it has been run."""
    by_digest = {row["spec"]: row for row in rows}
    papers = targets()
    found = []
    for cell in cells:
        values = _values(cell, by_digest)
        mean, std = mean_std(values) if values else (None, None)
        paper = papers[cell.table, cell.dataset, cell.prior, cell.method, cell.init, cell.metric]
        place = (cell.table, cell.dataset, None, cell.prior, cell.method, cell.setting, cell.init, cell.metric)
        found.append(Result(*place, mean, std, len(values), *paper))
    return found


def _values(cell: Cell, by_digest: Mapping[str, Row]) -> list[float]:
    candidates = [[by_digest[s.digest] for s in specs if s.digest in by_digest] for specs in cell.candidates]
    if len(candidates) > 1 and any(len(c) < len(specs) for c, specs in zip(candidates, cell.candidates, strict=True)):
        return []
    # By validation risk alone; the test error of a candidate is not looked at until it is chosen.
    chosen = (
        min(candidates, key=lambda rows: sum(row["val_risk"] for row in rows)) if len(candidates) > 1 else candidates[0]
    )
    return [row[cell.metric] for row in chosen]


def targets() -> dict[Key, tuple[float, float]]:
    """The paper's numbers: mean and standard deviation of every cell of its four tables."""
    text = files("pulab.bench").joinpath("targets.csv").read_text(encoding="utf-8")
    return {
        (int(t["table"]), t["dataset"], float(t["prior"]), t["method"], t["init"] or None, t["metric"]): (
            float(t["mean"]),
            float(t["std"]),
        )
        for t in csv.DictReader(io.StringIO(text))
    }


def as_markdown(found: Sequence[Result]) -> str:
    """A table with ours, the paper's, the difference, and whether ours lies within the paper's standard deviation."""
    header = [
        "data",
        "prior",
        "method",
        "initial labels",
        "setting",
        "ours, %",
        "n",
        "paper, %",
        "difference",
        "within",
    ]
    return markdown(header, [_line(result) for result in found])


def _line(r: Result) -> list[object]:
    place = [r.dataset, r.prior, f"`{r.method}`", r.init or "", r.setting]
    paper = f"{r.paper_mean:.2f} ± {r.paper_std:.2f}"
    if r.mean is None:
        return [*place, "not run", 0, paper, "", ""]
    spread = "" if r.std is None else f" ± {r.std:.2f}"
    difference = r.mean - r.paper_mean
    within = "yes" if abs(difference) <= r.paper_std else ("better" if difference < 0 else "no")
    return [*place, f"{r.mean:.2f}{spread}", r.n, paper, f"{difference:+.2f}", within]
