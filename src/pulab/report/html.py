"""Pages that stand alone: no script, no font and no picture from anywhere else."""

from collections.abc import Sequence
from typing import Any

from pulab.report import figures
from pulab.report._page import render
from pulab.report.paper import Curve
from pulab.report.tables import cells


def demo_page(rows: Sequence[dict[str, Any]]) -> str:
    """The demo's page: the table, how training went, how the pseudo-labels moved."""
    joint = next((row for row in rows if row["method"] == "joint"), None)
    histograms = joint["label_histogram"] if joint else []
    last = len(histograms)
    shown = sorted({max(1, round(last * share)) for share in (0, 0.2, 0.4, 0.6, 0.8, 1)})
    return render(
        "demo.html.j2",
        table=cells(rows),
        methods=list(dict.fromkeys(row["method"] for row in rows)),
        sampling=rows[0]["sampling"],
        losses=figures.loss_curves(rows, "loss", "training loss, each method's own"),
        risks=figures.loss_curves(rows, "val_risk", "validation risk, by which the epoch is chosen"),
        heatmap=figures.label_heatmap(histograms) if histograms else "",
        histograms=figures.label_histograms(histograms, shown) if histograms else "",
        best_epoch=joint["best_epoch"] if joint else None,
    )


def results_page(recipe: str, sections: Sequence[Any], curves: Sequence[Curve], legend: str) -> str:
    """A recipe's tables and, where it has one, its figure to move about in."""
    panels = [
        {"title": panel, "curves": [_curve(curve) for curve in curves if curve.panel == panel]}
        for panel in dict.fromkeys(curve.panel for curve in curves)
    ]
    still = figures.figure_2(curves) if curves else ""
    return render("results.html.j2", recipe=recipe, sections=sections, panels=panels, still=still, legend=legend)


def _curve(curve: Curve) -> dict[str, Any]:
    return {
        "name": curve.name,
        "colour": figures.COLOURS.get(curve.method, figures.INK),
        "dashed": curve.dashed,
        "eStart": curve.e_start,
        "mean": [float(f"{value:.4g}") for value in curve.mean],
        "std": [float(f"{value:.4g}") for value in curve.std],
    }
