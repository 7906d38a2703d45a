"""The tables of docs/frontier.md, from the committed rows."""

from collections.abc import Iterable
from itertools import combinations
from typing import Any

import numpy as np

from pulab.bench import committed_rows, read_rows, rows_of
from pulab.bench.frontier import Line, lines, search_lines, small_lines
from pulab.report.frontier import HEADER, as_lines, results
from pulab.report.tables import markdown, mean_std

Row = dict[str, Any]
LAST, LATE = "the last epoch", "sigmoid risk, second half"


def table(of: Iterable[Line]) -> str:
    of = list(of)
    found = results(of, rows_of([spec for line in of for spec in line.runs], committed_rows()))
    return markdown(HEADER, as_lines(found)) if found else "Not run yet."


def small() -> str:
    """Data sets across, settings down: mean ± std of the test error."""
    of = small_lines()
    found = results(of, rows_of([spec for line in of for spec in line.runs], committed_rows()))
    if not found:
        return "Not run yet."
    datasets = list(dict.fromkeys(r.dataset for r in found))
    cells = {(r.setting, r.dataset): r for r in found}
    shown = []
    for setting in dict.fromkeys(r.setting for r in found):
        own = [cells.get((setting, dataset)) for dataset in datasets]
        means = [r.mean for r in own if r is not None]
        errors = ["–" if r is None else f"{r.mean:.2f} ± {r.std or 0.0:.2f}" for r in own]
        shown.append([setting, *errors, f"{np.mean(means):.2f}" if len(means) == len(datasets) else "–"])
    return markdown(["test error, %", *datasets, "mean"], shown)


# Criteria -------------------------------------------------------------------------------------------------------------


def watched() -> list[Row]:
    place = committed_rows() / "frontier" / "criteria.jsonl"
    return read_rows([place]) if place.exists() else []


def names(rows: list[Row]) -> list[str]:
    return [name for name in rows[0]["curves"] if name != "error"]


def error_at(row: Row, criterion: str) -> float:
    """The test error of the epoch that a criterion keeps."""
    error = np.array(row["curves"]["error"])
    if criterion == LAST:
        return float(error[-1])
    if criterion == LATE:
        half = len(error) // 2
        return float(error[half + np.argmin(row["curves"]["sigmoid risk"][half:])])
    return float(error[np.argmin(row["curves"][criterion])])


def epochs() -> str:
    """What each criterion costs against the best epoch of a training, which only the test labels know."""
    rows = watched()
    shown = []
    for criterion in (LAST, LATE, *names(rows)):
        costs = np.array([error_at(row, criterion) - min(row["curves"]["error"]) for row in rows])
        others = costs[[row["setting"] != "no entropy" for row in rows]]
        numbers = [f"{cost:.2f}" for cost in (costs.mean(), costs.max(), others.mean(), others.max())]
        shown.append((costs.mean(), [criterion, *numbers, len(rows)]))
    head = ["the epoch is chosen by", "cost, mean", "largest", "without “no entropy”, mean", "largest", "trainings"]
    return markdown(head, [line for _, line in sorted(shown)])


def settings() -> str:
    """Of two settings, how often a criterion at the last epoch has the better one lower, and what its choice costs."""
    rows = watched()
    by_place: dict[tuple[str, str], dict[int, Row]] = {}
    for row in rows:
        by_place.setdefault((row["dataset"], row["setting"]), {})[row["seed"]] = row
    datasets = list(dict.fromkeys(dataset for dataset, _ in by_place))
    shown = []
    for criterion in names(rows):
        single, means, costs = [], [], []
        for dataset in datasets:
            own = {setting: trials for (d, setting), trials in by_place.items() if d == dataset}
            mean = {s: (_mean_at(t, "error"), _mean_at(t, criterion)) for s, t in own.items()}
            for one, other in combinations(own, 2):
                for seed in own[one].keys() & own[other].keys():
                    a, b = own[one][seed]["curves"], own[other][seed]["curves"]
                    if a["error"][-1] != b["error"][-1]:
                        single.append((a["error"][-1] < b["error"][-1]) == (a[criterion][-1] < b[criterion][-1]))
                means.append((mean[one][0] < mean[other][0]) == (mean[one][1] < mean[other][1]))
            chosen = min(mean.values(), key=lambda pair: pair[1])[0]
            costs.append(chosen - min(error for error, _ in mean.values()))
        share = (f"{100 * np.mean(single):.0f} %", f"{100 * np.mean(means):.0f} %")
        shown.append((-np.mean(means), [criterion, *share, f"{np.mean(costs):.2f}", f"{max(costs):.2f}"]))
    n = len({row["seed"] for row in rows})
    head = [
        "settings are compared by",
        "right, one trial",
        f"right, mean of {n}",
        "cost of its choice, mean",
        "largest",
    ]
    return markdown(head, [line for _, line in sorted(shown, key=lambda pair: pair[0])])


def _mean_at(trials: dict[int, Row], name: str) -> float:
    return mean_std([row["curves"][name][-1] for row in trials.values()])[0]


TABLES = {
    "frontier": lambda: table(lines()),
    "search": lambda: table(search_lines()),
    "small": small,
    "epochs": epochs,
    "settings": settings,
}
