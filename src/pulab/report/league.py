"""The tables of `bench show league`: which methods are best on eight data sets, and what they cost."""

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from scipy.stats import friedmanchisquare, rankdata, studentized_range

from pulab.bench.league import DEFAULTS, Line
from pulab.methods import METHODS
from pulab.report.tables import mean_std

Row = Mapping[str, Any]
CHOSEN = "tuned"
LEGEND = """\
tuned: each trial takes the one of four settings that has the lowest zero-one risk on its own held-out labelled and
unlabeled rows. No true label takes part. rank: the mean of a method's ranks over the data sets, by mean error; 1 is
the best. Two methods differ (Nemenyi's test, 5 %) if their ranks are further apart than the critical difference. AUC,
seconds and memory are means of the data sets' means. `pn` learns from the true labels of all rows: it is the ceiling
and has no rank.""".replace("\n", " ")


class Result(NamedTuple):
    """One method on one data set, at its defaults or tuned."""

    dataset: str
    method: str
    setting: str
    mean: float
    std: float | None
    n: int
    auc: float
    seconds: float
    memory_mib: float | None


class Standing(NamedTuple):
    """One method over all data sets that have rows of it."""

    method: str
    setting: str
    rank: float | None
    mean: float
    auc: float
    seconds: float
    memory_mib: float | None
    datasets: int


def results(lines: Iterable[Line], rows: Iterable[Row]) -> list[Result]:
    """Means over the trials, of the defaults and, where all settings were run, of those that the trials chose."""
    by_digest = {row["spec"]: row for row in rows}
    found = []
    for line in lines:
        of_setting = {name: [by_digest.get(spec.digest) for spec in runs] for name, runs in line.runs.items()}
        trials = list(zip(*of_setting.values(), strict=True))
        defaults = [row for row in of_setting[DEFAULTS] if row is not None]
        whole = [[row for row in trial if row is not None] for trial in trials if None not in trial]
        tuned = [min(trial, key=lambda row: row["zero_one_risk"]) for trial in whole]  # the first of equals
        for setting, chosen in ((DEFAULTS, defaults), (CHOSEN, tuned)):
            if chosen and (setting == DEFAULTS or len(line.runs) > 1):
                found.append(_result(line, setting, chosen))
    return found


def _result(line: Line, setting: str, rows: Sequence[Row]) -> Result:
    mean, std = mean_std([row["test_error"] for row in rows])
    memory = [row["memory_mib"] for row in rows if row.get("memory_mib") is not None]
    auc, seconds = (fmean(row[name] for row in rows) for name in ("test_auc", "seconds"))
    return Result(line.dataset, line.method, setting, mean, std, len(rows), auc, seconds, _mean(memory))


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def standings(found: Sequence[Result], setting: str) -> list[Standing]:
    """The methods, the best first. Those with rows of all data sets have a rank."""
    of_setting = [r for r in found if r.setting == setting]
    datasets = list(dict.fromkeys(r.dataset for r in of_setting))
    by_method: dict[str, dict[str, Result]] = {}
    for r in of_setting:
        by_method.setdefault(r.method, {})[r.dataset] = r
    errors = {m: [of[d].mean for d in datasets] for m, of in _ranked(by_method, datasets).items()}
    ranks: dict[str, float] = {}
    if errors:
        table = [rankdata(column) for column in zip(*errors.values(), strict=True)]
        ranks = {m: fmean(column) for m, column in zip(errors, zip(*table, strict=True), strict=True)}
    made = []
    for method, of in by_method.items():
        memory = [r.memory_mib for r in of.values() if r.memory_mib is not None]
        mean, auc, seconds = (fmean(getattr(r, name) for r in of.values()) for name in ("mean", "auc", "seconds"))
        made.append(Standing(method, setting, ranks.get(method), mean, auc, seconds, _mean(memory), len(of)))
    return sorted(made, key=lambda s: (s.rank is None, s.rank or s.mean))


def _ranked(by_method: Mapping[str, Mapping[str, Result]], datasets: Sequence[str]) -> dict[str, Mapping[str, Result]]:
    return {
        method: of
        for method, of in by_method.items()
        if not METHODS[method].learns_from_truth and len(of) == len(datasets)
    }


def critical_difference(methods: int, datasets: int) -> float:
    """Mean ranks that are further apart differ at 5 % (Nemenyi; Demšar 2006)."""
    q = float(studentized_range.ppf(0.95, methods, math.inf)) / math.sqrt(2)
    return q * math.sqrt(methods * (methods + 1) / (6 * datasets))


def difference(found: Sequence[Result], setting: str) -> str:
    """Whether the methods differ at all, and how far apart ranks must be, in a sentence."""
    table = standings(found, setting)
    ranked = [s.method for s in table if s.rank is not None]
    datasets = list(dict.fromkeys(r.dataset for r in found if r.setting == setting))
    if len(ranked) < 3 or len(datasets) < 2:
        return ""
    errors = {(r.method, r.dataset): r.mean for r in found if r.setting == setting}
    p = float(friedmanchisquare(*([errors[m, d] for d in datasets] for m in ranked)).pvalue)
    return (
        f"{len(ranked)} methods on {len(datasets)} data sets. Friedman's test that all are equal: p = {p:.2g}. "
        f"Critical difference of the ranks: {critical_difference(len(ranked), len(datasets)):.1f}."
    )


STANDING_HEADER = ["method", "rank", "mean error, %", "AUC", "seconds", "MiB", "data sets"]


def standing_lines(table: Iterable[Standing]) -> list[list[str]]:
    """A line per method, with the columns of STANDING_HEADER."""
    return [
        [
            f"`{s.method}`",
            "" if s.rank is None else f"{s.rank:.1f}",
            f"{s.mean:.1f}",
            f"{s.auc:.3f}",
            f"{s.seconds:.1f}",
            "" if s.memory_mib is None else f"{s.memory_mib:.0f}",
            str(s.datasets),
        ]
        for s in table
    ]


def error_lines(found: Sequence[Result], setting: str) -> tuple[list[str], list[list[str]]]:
    """Errors: methods down, data sets across, in the order of the ranks. The number of trials is the last column."""
    of_setting = [r for r in found if r.setting == setting]
    datasets = list(dict.fromkeys(r.dataset for r in of_setting))
    cells = {(r.method, r.dataset): r for r in of_setting}
    lines = []
    for s in standings(found, setting):
        own = [cells.get((s.method, d)) for d in datasets]
        shown = ["" if r is None else f"{r.mean:.1f}" + ("" if r.std is None else f" ± {r.std:.1f}") for r in own]
        trials = {r.n for r in own if r is not None}
        lines.append([f"`{s.method}`", *shown, "–".join(map(str, sorted({min(trials), max(trials)})))])
    return ["test error, %", *datasets, "n"], lines
