"""Pages of results. Each is one file: script, style and pictures are inside it."""

import math
from collections.abc import Sequence
from typing import Any

from pulab.report import paper
from pulab.report._page import render
from pulab.report.paper import Curve
from pulab.report.plots import Plot, Reading, Scale, Shape, area, line
from pulab.report.tables import by_method

FLOOR = 1e-3  # smaller losses are drawn on the lower edge of a logarithmic chart
SHADES = 10  # of the heat map


def demo_page(rows: Sequence[dict[str, Any]]) -> str:
    """The demo's page: the table of errors, the course of training, the course of the pseudo-labels."""
    joint = next((row for row in rows if row["method"] == "joint"), None)
    histograms = joint["label_histogram"] if joint else []
    losses = paper.curves(rows)
    risks = [curve for curve in paper.curves(rows, "val_risk") if not curve.dashed]
    return render(
        "demo.html.j2",
        table=by_method(rows),
        sampling=rows[0]["sampling"],
        names=losses,
        panels={
            "Training loss, each method's own": _over_epochs(losses, "training loss"),
            "Validation risk, by which the epoch is chosen": _over_epochs(risks, "validation risk", log=False),
        },
        labels=_labels_over_epochs(histograms) if histograms else None,
        shades=SHADES,
        colours=paper.COLOURS,
        best_epoch=joint["best_epoch"] if joint else None,
    )


def results_page(recipe: str, sections: Sequence[Any], curves: Sequence[Curve], legend: str, has_errors: bool) -> str:
    """A recipe's tables, and its figure if it has one."""
    panels = {
        panel: _over_epochs([curve for curve in curves if curve.panel == panel], f"training loss on {panel}")
        for panel in dict.fromkeys(curve.panel for curve in curves)
    }
    return render(
        "results.html.j2",
        recipe=recipe,
        sections=sections,
        has_errors=has_errors,
        legend=legend,
        names=list({curve.name: curve for curve in curves}.values()),
        panels=panels,
        colours=paper.COLOURS,
    )


def _over_epochs(curves: Sequence[Curve], title: str, log: bool = True) -> Plot:
    """Means with bands of one standard deviation."""
    bands = [[(m - s, m + s) for m, s in zip(curve.mean, curve.std, strict=True)] for curve in curves]
    lowest = min(min(curve.mean) for curve in curves)
    high = max(top for band in bands for _, top in band)
    y = Scale(max(FLOOR, lowest / 1.5), max(2 * FLOOR, high), log=True) if log else Scale(min(0.0, lowest), high)
    x = Scale(1, max(len(curve.mean) for curve in curves))
    shapes = []
    for curve, band in zip(curves, bands, strict=True):
        series = f"{curve.method} dashed" if curve.dashed else curve.method
        shapes += [area(series, enumerate(band, start=1), x, y), line(series, enumerate(curve.mean, start=1), x, y)]
    readings = [
        Reading(
            x.at(epoch),
            f"epoch {epoch}",
            [
                f"{curve.name} {curve.mean[epoch - 1]:.3g} ± {curve.std[epoch - 1]:.2g}"
                for curve in curves
                if epoch <= len(curve.mean)
            ],
        )
        for epoch in range(1, int(x.high) + 1)
    ]
    start = next((curve.e_start for curve in curves if curve.e_start is not None), None)
    mark = None if start is None else (x.at(start), "labels begin to move")
    return Plot(f"{title} over epochs", x.ticks("{:g}".format), y.ticks("{:g}".format), shapes, readings, mark)


def _labels_over_epochs(histograms: Sequence[Sequence[int]]) -> Plot:
    """A heat map of the pseudo-labels: a column per epoch, the darker the more rows have that label."""
    x, y = Scale(0.5, len(histograms) + 0.5), Scale(0, 1)
    paths = [""] * (SHADES + 1)
    readings = []
    for epoch, counts in enumerate(histograms, start=1):
        shares = [count / sum(counts) for count in counts]
        left, right, height = x.at(epoch - 0.5), x.at(epoch + 0.5), 100 / len(shares)
        for i, share in enumerate(shares):
            shade = math.ceil(SHADES * math.sqrt(share))  # square roots: small shares can be seen beside large ones
            paths[shade] += f"M{left},{100 - height * i}v-{height}H{right}v{height}Z"
        tenth = max(1, len(shares) // 10)
        words = [f"label above 0.9: {sum(shares[-tenth:]):.0%}", f"label below 0.1: {sum(shares[:tenth]):.0%}"]
        readings.append(Reading(x.at(epoch), f"epoch {epoch}", words))
    shapes = [Shape("area", f"joint shade-{shade}", paths[shade]) for shade in range(1, SHADES + 1)]
    title = "Heat map of the pseudo-labels of the unlabeled rows over epochs"
    return Plot(title, x.ticks("{:g}".format), y.ticks("{:g}".format), shapes, readings)
