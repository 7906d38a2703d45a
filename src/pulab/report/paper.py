"""The paper's tables and its Figure 2, with our results beside the paper's."""

import csv
import io
import math
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any, NamedTuple

from scipy.stats import ttest_ind_from_stats

from pulab.bench import RunSpec
from pulab.bench.features import FEATURES
from pulab.bench.paper import PAPER, Cell
from pulab.report.tables import mean_std

Row = Mapping[str, Any]
Key = tuple[int, str, float, str, str | None, str]
PAPER_TRIALS = 10  # behind each of the paper's means
LEVEL = 0.05  # below this p a cell counts as worse or better than the paper's


class Result(NamedTuple):
    """A cell of the paper's tables with our mean over n trials of one set of seeds, and the paper's."""

    table: int
    dataset: str
    features: str | None
    prior: float
    method: str
    setting: str
    init: str | None
    metric: str
    seeds: str  # "first" or "fresh"
    mean: float | None
    std: float | None
    n: int
    paper_mean: float | None  # the paper has no supervised ceiling
    paper_std: float | None
    p: float | None = None  # Welch's, of our mean against the paper's; None where they cannot be compared

    @property
    def verdict(self) -> str:
        """Worse or better than the paper at 5 %, or an empty text."""
        if self.p is None or self.p >= LEVEL or self.mean is None or self.paper_mean is None:
            return ""
        return "worse" if self.mean > self.paper_mean else "better"


def results(cells: Iterable[Cell], rows: Iterable[Row]) -> list[Result]:
    """The mean over the rows of each cell, first and fresh seeds one after the other. Without rows there is no mean."""
    by_digest = {row["spec"]: row for row in rows}
    papers = targets()
    filled = []
    for cell in cells:
        paper = papers.get((cell.table, cell.dataset, cell.prior, cell.method, cell.init, cell.metric), (None, None))
        place = (cell.table, cell.dataset, cell.features, cell.prior, cell.method, cell.setting, cell.init, cell.metric)
        fresh = [spec for spec in cell.fresh if spec.digest in by_digest]
        first = {"first": _chosen(cell, by_digest)} if cell.candidates else {}
        for seeds, specs in (first | {"fresh": fresh}).items():
            values = [by_digest[spec.digest][cell.metric] for spec in specs]
            mean, std = mean_std(values) if values else (None, None)
            result = Result(*place, seeds, mean, std, len(values), *paper)
            filled.append(result._replace(p=_welch(result)))
    return filled


def _welch(r: Result) -> float | None:
    ours, paper = (r.mean, r.std, r.n), (r.paper_mean, r.paper_std, PAPER_TRIALS)
    if None in (*ours, *paper) or _is_foreign(r.features):
        return None
    return float(ttest_ind_from_stats(*ours, *paper, equal_var=False).pvalue)


def choices(cells: Iterable[Cell], rows: Iterable[Row]) -> list[str]:
    """The point of the grid that was chosen for each tuned setting, in words."""
    by_digest = {row["spec"]: row for row in rows}
    points = []
    for cell in (cell for cell in cells if cell.setting == "tuned"):
        varied = dict.fromkeys(name for point in PAPER[cell.dataset].grid for name in point)
        for spec in _chosen(cell, by_digest)[:1]:
            settings = by_digest[spec.digest]["settings"]
            point = ", ".join(f"{name} {settings.get(name)}" for name in varied)
            points.append(f"{cell.dataset}, prior {cell.prior}: {point}")
    return list(dict.fromkeys(points))


def _chosen(cell: Cell, by_digest: Mapping[str, Row]) -> list[RunSpec]:
    """The runs behind a cell. From a grid, the best point is taken, over the trials that all points have."""
    trials = [specs for specs in zip(*cell.candidates, strict=True) if all(spec.digest in by_digest for spec in specs)]

    # The choice uses validation risk alone, never the test error.
    def risk(specs: Iterable[RunSpec]) -> float:
        values = [by_digest[spec.digest]["val_risk"] for spec in specs]
        return math.inf if None in values else sum(values)

    return list(min(zip(*trials, strict=True), key=risk, default=()))


def targets() -> dict[Key, tuple[float, float]]:
    """The paper's mean and standard deviation of every cell of its four tables."""
    text = files("pulab.bench").joinpath("targets.csv").read_text(encoding="utf-8")
    return {
        (int(t["table"]), t["dataset"], float(t["prior"]), t["method"], t["init"] or None, t["metric"]): (
            float(t["mean"]),
            float(t["std"]),
        )
        for t in csv.DictReader(io.StringIO(text))
    }


TITLES = {
    1: "Table 1: test error by initial labels",
    2: "Table 2: test error",
    3: "Table 3: recovery error (on the unlabeled training rows) of the runs of Table 2",
    4: "Table 4: test error on MNIST with other shares of positives",
}
LEGEND = (
    "First seeds: 0 to 9. Fresh seeds: from 10 on, run once, with every setting frozen. p: Welch's test of our mean "
    "against the paper's, which is over 10 trials; below 0.05 the cell is called worse or better. Aim: ours is at most "
    "the paper's standard deviation above the paper's mean. Tuned joint in Table 2 has a stricter aim: at most our own "
    "standard error above, and below both other methods (left open where these are not shown). pn: the supervised "
    "ceiling, which learns from the true labels of the same rows."
)
OURS = ["n", "aim", "p"]
HEADER = [
    "data",
    "prior",
    "method",
    "initial labels",
    "setting",
    "paper, %",
    "first seeds, %",
    *OURS,
    "fresh seeds, %",
    *OURS,
]


def as_lines(cells: Iterable[Result]) -> list[list[str]]:
    """A line per cell, with the columns of HEADER.

    "aim" and "p" stay empty where our features are not the paper's: the numbers cannot be compared.
    """
    cells = list(cells)
    by_place: dict[tuple[object, ...], dict[str, Result]] = {}
    for r in cells:
        name = f"{r.dataset}, {r.features}" if r.features else r.dataset
        paper = "" if r.paper_mean is None else f"{r.paper_mean:.2f} ± {r.paper_std:.2f}"
        place = (r.table, r.metric, name, r.prior, r.method, r.init or "", r.setting, paper)
        by_place.setdefault(place, {})[r.seeds] = r
    return [
        [*map(str, place[2:]), *_outcome(sets.get("first"), cells), *_outcome(sets.get("fresh"), cells)]
        for place, sets in by_place.items()
    ]


def _outcome(r: Result | None, others: Iterable[Result]) -> list[str]:
    """Ours, n, aim and p of one set of seeds."""
    if r is None:
        return ["", "", "", ""]
    if r.mean is None:
        return ["not run", "0", "", ""]
    spread = "" if r.std is None else f" ± {r.std:.2f}"
    met = _meets_aim(r, others)
    aim = "" if met is None else "met" if met else "missed"
    size = "" if r.p is None else "< 0.001" if r.p < 0.001 else f"{r.p:.3f}"
    return [f"{r.mean:.2f}{spread}", str(r.n), aim, f"{size}, {r.verdict}" if r.verdict else size]


TALLY_TITLE = "Cells that differ from the paper at 5 %"
TALLY_HEADER = ["seeds", "runs", "cells", "worse", "better", "worse by chance", "better by chance"]


def tally(cells: Iterable[Result]) -> list[list[str]]:
    """How many cells are worse or better than the paper at 5 %, and how many would be by chance.

    Table 1 repeats runs of Table 2. They count once.
    """
    groups: dict[tuple[str, str], dict[tuple[object, ...], Result]] = {}
    for r in cells:
        if r.p is not None:
            runs = f"joint, {r.setting}" if r.method == "joint" else "nnpu and pubn-n"
            groups.setdefault((r.seeds, runs), {})[r.dataset, r.prior, r.method, r.init, r.metric] = r
    lines = []
    for (seeds, runs), by_place in sorted(groups.items()):
        verdicts = [r.verdict for r in by_place.values()]
        chance = f"{len(verdicts) * LEVEL / 2:.1f}"
        counts = [len(verdicts), verdicts.count("worse"), verdicts.count("better")]
        lines.append([seeds, runs, *map(str, counts), chance, chance])
    return lines


def _meets_aim(r: Result, others: Iterable[Result]) -> bool | None:
    """Whether our mean is at most one standard deviation of the paper's above the paper's mean.

    Tuned `joint` in Table 2 has a stricter aim: at most our own standard error above the paper's mean, and below every
    other method on the same samplings. None where these methods have no rows or are not shown, or where our numbers
    cannot be compared with the paper's.
    """
    if r.mean is None or r.paper_mean is None or r.paper_std is None or _is_foreign(r.features):
        return None
    if (r.table, r.setting) != (2, "tuned"):
        return r.mean <= r.paper_mean + r.paper_std
    rivals = {method for table, dataset, _, method, *_ in targets() if (table, dataset) == (2, r.dataset)} - {r.method}
    known = {
        o.method: o.mean
        for o in others
        if (o.table, o.dataset, o.seeds) == (2, r.dataset, r.seeds) and o.method in rivals
    }
    means = [mean for mean in known.values() if mean is not None]
    if r.mean > min([r.paper_mean + (r.std or 0.0) / r.n**0.5, *means]):
        return False
    return True if len(means) == len(rivals) else None


def features_note(cells: Iterable[Cell | Result]) -> str:
    """A note on the features that are not the paper's, or an empty text."""
    foreign = dict.fromkeys(cell.features for cell in cells if cell.features and _is_foreign(cell.features))
    names = "; ".join(f"{name}: {FEATURES[name].summary}" for name in foreign)
    return f"{names}; the paper's numbers are with ELMo, so that ours cannot be compared with them." if names else ""


def _is_foreign(features: str | None) -> bool:
    return features not in (None, "elmo")


# Okabe and Ito's colours, which colour-blind readers can tell apart. A method has the same colour everywhere.
COLOURS = {
    "joint": "#D55E00",
    "joint-views": "#E69F00",
    "nnpu": "#0072B2",
    "pubn-n": "#009E73",
    "upu": "#56B4E9",
    "naive": "#888888",
    "pn": "#CC79A7",
}
INK = "#808080"  # readable on light and on dark pages


class Curve(NamedTuple):
    """The loss (or risk) of one training of a method by epoch: mean and standard deviation over n trials."""

    dataset: str
    features: str | None
    method: str
    training: int  # 1, or 2 for the second training of a method that trains two networks
    trainings: int  # how many networks the method trains, one after the other
    n: int
    mean: list[float]
    std: list[float]
    e_start: int | None  # the epoch after which labels begin to move

    @property
    def panel(self) -> str:
        """The title of its panel."""
        return f"{self.dataset}, {self.features}" if self.features else self.dataset

    @property
    def name(self) -> str:
        """Its name in a legend."""
        ordinal = ("first", "second")[self.training - 1]
        return f"{self.method}, {ordinal} training" if self.trainings > 1 else self.method

    @property
    def dashed(self) -> bool:
        """Whether a further training follows this one: its line is drawn dashed."""
        return self.training < self.trainings


def curves(rows: Iterable[Row], term: str = "loss") -> list[Curve]:
    """The course of a term of the history, a curve for each training of each method on each data set."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["dataset"], row["method"]), []).append(row)
    lines = []
    for (dataset, method), group in groups.items():
        e_start, features = group[0]["settings"].get("e_start"), group[0].get("features")
        histories = [name for name in ("sigma_history", "history") if any(row[name] for row in group)]
        for training, name in enumerate(histories, start=1):
            losses = [row[name][term] for row in group if row[name]]
            by_epoch = list(zip(*losses, strict=False))
            spread = [mean_std(values) for values in by_epoch]
            means, stds = [m for m, _ in spread], [s or 0.0 for _, s in spread]
            lines.append(Curve(dataset, features, method, training, len(histories), len(losses), means, stds, e_start))
    return lines


class Point(NamedTuple):
    """One epoch of a curve, for programs."""

    dataset: str
    features: str | None
    method: str
    training: int
    epoch: int
    mean: float
    std: float | None
    n: int


def points(lines: Iterable[Curve]) -> list[Point]:
    """The points of the curves, epoch by epoch."""
    return [
        Point(c.dataset, c.features, c.method, c.training, epoch, mean, std if c.n > 1 else None, c.n)
        for c in lines
        for epoch, (mean, std) in enumerate(zip(c.mean, c.std, strict=True), start=1)
    ]


CURVE_HEADER = ["data", "method", "first epoch", "at e_start", "last epoch", "n"]


def curve_lines(lines: Iterable[Curve]) -> list[list[str]]:
    """Figure 2 in numbers: the loss in the first epoch, when labels begin to move, and in the last epoch."""

    def at(curve: Curve, epoch: int | None) -> str:
        if epoch is None:
            return ""
        spread = f" ± {curve.std[epoch - 1]:.3f}" if curve.n > 1 else ""
        return f"{curve.mean[epoch - 1]:.3f}{spread}"

    return [[c.panel, c.name, at(c, 1), at(c, c.e_start), at(c, len(c.mean)), str(c.n)] for c in lines]
