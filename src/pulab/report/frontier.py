"""The table of `bench show frontier`: errors past the paper, and what they cost."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from pulab.bench.frontier import FRONTIER, WHOLE, Line
from pulab.report.paper import PAPER_TRIALS, targets
from pulab.report.tables import mean_std

Row = Mapping[str, Any]
HEADER = ["data", "method", "setting", "test error, %", "n", "centred risk", "seconds a trial"]
LEGEND = """\
the paper's number: over 10 trials. joint: with the paper's network, as printed and tuned. joint-views, whole: with all
its parts; each line below it leaves one part out or changes it. supervised: `pn`, which learns from the true labels of
the same rows and sees the same views. centred risk: what settings of joint-views are compared by, from validation rows
without negatives; lower is better. Seconds: of one trial, where trials run side by side. Where a self-supervised
network was taken from another run of the same seed, its training is added: the whole method less the one without
self-supervision.""".replace("\n", " ")


class Result(NamedTuple):
    """A line of the table."""

    dataset: str
    features: str | None
    method: str
    setting: str
    mean: float
    std: float | None
    n: int
    seconds: float | None
    centred_risk: float | None = None


def results(lines: Iterable[Line], rows: Iterable[Row]) -> list[Result]:
    """The lines that have rows, and the paper's numbers before them."""
    by_digest = {row["spec"]: row for row in rows}
    found = []
    for line in lines:
        own = [by_digest[spec.digest] for spec in line.runs if spec.digest in by_digest]
        if own:
            found.append((line, own))
    named = {(line.dataset, line.method, line.setting): own for line, own in found}
    papers, filled = targets(), []
    for dataset in dict.fromkeys(line.dataset for line, _ in found):
        e = FRONTIER.get(dataset)
        if e is not None and dataset == e.of_paper and not dataset.startswith("20news"):
            mean, std = papers[2, dataset, e.sampling.prior, "joint", "prior", "test_error"]
            filled.append(Result(dataset, None, "joint", "the paper's number", mean, std, PAPER_TRIALS, None))
        body = _body_seconds(dataset, named)
        for line, own in (pair for pair in found if pair[0].dataset == dataset):
            errors = [row["test_error"] for row in own]
            risks = [row["centred_risk"] for row in own if "centred_risk" in row]
            seconds = [row["seconds"] + (body if "body" in row else 0.0) for row in own]
            place = (dataset, line.features, line.method, line.setting)
            filled.append(Result(*place, *mean_std(errors), len(own), fmean(seconds), fmean(risks) if risks else None))
    return filled


def _body_seconds(dataset: str, named: Mapping[tuple[str, str, str], Sequence[Row]]) -> float:
    """What self-supervision takes, from the runs that had it themselves."""
    whole = [row["seconds"] for row in named.get((dataset, "joint-views", WHOLE), ()) if "body" not in row]
    without = [row["seconds"] for row in named.get((dataset, "joint-views", "no self-supervision"), ())]
    return max(0.0, fmean(whole) - fmean(without)) if whole and without else 0.0


def as_lines(found: Iterable[Result]) -> list[list[str]]:
    """A line per result, with the columns of HEADER."""
    return [
        [
            f"{r.dataset}, {r.features}" if r.features else r.dataset,
            f"`{r.method}`",
            r.setting,
            f"{r.mean:.2f}" + ("" if r.std is None else f" ± {r.std:.2f}"),
            str(r.n),
            "" if r.centred_risk is None else f"{r.centred_risk:.4f}",
            "" if r.seconds is None else f"{r.seconds:.1f}" if r.seconds < 10 else f"{r.seconds:.0f}",
        ]
        for r in found
    ]
