"""Figures, drawn by matplotlib on a transparent ground so that they suit light and dark pages."""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from pulab.report.paper import Curve

Rows = Sequence[dict[str, Any]]

# Okabe and Ito's colours, told apart by colour-blind readers; the same one for a method everywhere.
COLOURS = {
    "joint": "#D55E00",
    "nnpu": "#0072B2",
    "pubn-n": "#009E73",
    "upu": "#56B4E9",
    "naive": "#888888",
    "pn": "#CC79A7",
}
INK = "#808080"


def loss_curves(rows: Rows, term: str, title: str) -> str:
    """A term of the history over epochs: mean and standard deviation over trials, a line per method."""
    figure = Figure(figsize=(5.4, 3.6), layout="constrained")
    axes = figure.subplots()
    for method in dict.fromkeys(row["method"] for row in rows):
        curves = np.array([row["history"][term] for row in rows if row["method"] == method], dtype=float)
        _band(axes, curves.mean(axis=0), curves.std(axis=0), method, method)
    axes.set(title=title, xlabel="epoch")
    if term == "loss":
        _log_scale(axes)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False, labelcolor=INK)
    return _svg(figure)


def figure_2(curves: Sequence[Curve], form: str = "svg") -> str | bytes:
    """The paper's Figure 2: a panel per data set, a line per training; a dotted line where labels begin to move."""
    figure = draw_figure_2(curves)
    if form == "svg":
        return _svg(figure)
    out = io.BytesIO()
    figure.savefig(out, format=form, dpi=160, facecolor="white")
    return out.getvalue()


def draw_figure_2(curves: Sequence[Curve]) -> Figure:
    """Figure 2, not yet written."""
    panels = list(dict.fromkeys(curve.panel for curve in curves))
    columns = min(2, len(panels))
    lines = -(-len(panels) // columns)
    figure = Figure(figsize=(4.8 * columns, 3.2 * lines + 0.6), layout="constrained")
    places = figure.subplots(lines, columns, squeeze=False).flatten()
    names: dict[str, Any] = {}
    for axes, panel in zip(places, panels, strict=False):
        for curve in (curve for curve in curves if curve.panel == panel):
            style = "--" if curve.dashed else "-"
            names[curve.name] = _band(axes, np.array(curve.mean), np.array(curve.std), curve.method, curve.name, style)
            if curve.e_start is not None:
                names["labels begin to move"] = axes.axvline(curve.e_start, color=INK, linestyle=":", linewidth=1)
        axes.set(title=panel, xlabel="epoch", ylabel="training loss")
        _log_scale(axes)
    for axes in places[len(panels) :]:
        axes.set_axis_off()
    figure.legend(
        names.values(),
        names.keys(),
        loc="outside lower center",
        ncols=1 + columns,  # as many as there is room for
        frameon=False,
        labelcolor=INK,
    )
    return figure


def _band(axes: Any, mean: Any, std: Any, method: str, label: str, style: str = "-") -> Any:
    colour, epochs = COLOURS.get(method, INK), np.arange(1, len(mean) + 1)
    (line,) = axes.plot(epochs, mean, style, color=colour, label=label, linewidth=1.6)
    axes.fill_between(epochs, mean - std, mean + std, color=colour, alpha=0.18, linewidth=0)
    return line


def _log_scale(axes: Any) -> None:
    """Methods differ by orders of magnitude; what is below a thousandth lies on the floor."""
    axes.set_yscale("log", nonpositive="clip")
    axes.set_ylim(bottom=max(1e-3, axes.get_ylim()[0]))


def label_heatmap(histograms: Sequence[Sequence[int]]) -> str:
    """How the pseudo-labels move apart: a column per epoch, the share of rows with that label as its shade."""
    shares = np.array(histograms, dtype=float).T
    shares /= shares.sum(axis=0, keepdims=True)
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(
        np.sqrt(shares),
        origin="lower",
        aspect="auto",
        cmap="viridis",
        extent=(0.5, shares.shape[1] + 0.5, 0, 1),
        vmin=0,
        vmax=1,
    )
    axes.set(title="pseudo-labels of the unlabeled rows over time", xlabel="epoch", ylabel="label")
    bar = figure.colorbar(image, ax=axes, ticks=np.sqrt([0, 0.05, 0.25, 0.5, 1]))
    bar.ax.set_yticklabels(["0", "5 %", "25 %", "50 %", "100 %"])
    bar.ax.tick_params(colors=INK)
    return _svg(figure)


def label_histograms(histograms: Sequence[Sequence[int]], epochs: Sequence[int]) -> str:
    """The pseudo-labels at some epochs, side by side."""
    figure = Figure(figsize=(9, 2.2), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(epochs), sharey=True))
    for axes, epoch in zip(panels, epochs, strict=True):
        counts = np.array(histograms[epoch - 1], dtype=float)
        width = 1 / len(counts)
        axes.bar(np.arange(len(counts)) * width, counts / counts.sum(), width, align="edge", color=COLOURS["joint"])
        axes.set(title=f"epoch {epoch}", xlim=(0, 1), xticks=(0, 0.5, 1))
    panels[0].set_ylabel("share of rows")
    return _svg(figure)


def _svg(figure: Figure) -> str:
    """The figure as SVG to put into a page, with lines and words in a grey that reads on light and on dark."""
    for axes in figure.axes:
        axes.tick_params(colors=INK)
        for text in (axes.title, axes.xaxis.label, axes.yaxis.label):
            text.set_color(INK)
        for spine in axes.spines.values():
            spine.set_color(INK)
        axes.patch.set_alpha(0)
        if axes.get_title():
            axes.spines[["top", "right"]].set_visible(False)
    out = io.StringIO()
    figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    svg = out.getvalue()
    return svg[svg.index("<svg") :]
