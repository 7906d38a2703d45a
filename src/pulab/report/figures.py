"""The paper's Figure 2 as a file, drawn by matplotlib. Pages draw their charts themselves (``plots.py``)."""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from pulab.report.paper import COLOURS, INK, Curve


def figure_2(curves: Sequence[Curve], form: str = "svg") -> str | bytes:
    """Figure 2 as SVG, on a transparent ground that suits light and dark pages, or as PNG."""
    if form == "svg":
        text = io.StringIO()
        draw_figure_2(curves, INK).savefig(text, format="svg", transparent=True, metadata={"Date": None})
        return text.getvalue()[text.getvalue().index("<svg") :]
    image = io.BytesIO()
    draw_figure_2(curves).savefig(image, format=form, dpi=160, facecolor="white")
    return image.getvalue()


def draw_figure_2(curves: Sequence[Curve], ink: str = "black") -> Figure:
    """A panel per data set, a line per training, a dotted line where labels begin to move."""
    panels = list(dict.fromkeys(curve.panel for curve in curves))
    columns = min(2, len(panels))
    lines = -(-len(panels) // columns)
    figure = Figure(figsize=(4.8 * columns, 3.2 * lines + 0.6), layout="constrained")
    places = figure.subplots(lines, columns, squeeze=False).flatten()
    names: dict[str, Any] = {}
    for axes, panel in zip(places, panels, strict=False):
        for curve in (curve for curve in curves if curve.panel == panel):
            colour, epochs = COLOURS.get(curve.method, INK), np.arange(1, len(curve.mean) + 1)
            mean, std = np.array(curve.mean), np.array(curve.std)
            style = "--" if curve.dashed else "-"
            (names[curve.name],) = axes.plot(epochs, mean, style, color=colour, linewidth=1.6)
            axes.fill_between(epochs, mean - std, mean + std, color=colour, alpha=0.18, linewidth=0)
            if curve.e_start is not None:
                names["labels begin to move"] = axes.axvline(curve.e_start, color=INK, linestyle=":", linewidth=1)
        axes.set(title=panel, xlabel="epoch", ylabel="training loss")
        axes.set_yscale("log", nonpositive="clip")  # methods differ by orders of magnitude
        axes.set_ylim(bottom=max(1e-3, axes.get_ylim()[0]))
        axes.tick_params(which="both", colors=ink)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["bottom", "left"]].set_color(ink)
        for text in (axes.title, axes.xaxis.label, axes.yaxis.label):
            text.set_color(ink)
    for axes in places[len(panels) :]:
        axes.set_axis_off()
    figure.legend(
        names.values(),
        names.keys(),
        loc="outside lower center",
        ncols=1 + columns,  # more do not fit beside each other
        frameon=False,
        labelcolor=ink,
    )
    return figure
