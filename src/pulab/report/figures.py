"""Figures as SVG text, drawn by matplotlib on a transparent ground so that they suit light and dark pages."""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

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


def loss_curves(rows: Rows) -> str:
    """Training loss and validation risk over epochs: mean and standard deviation over trials, a line per method."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for method in dict.fromkeys(row["method"] for row in rows):
        histories = [row["history"] for row in rows if row["method"] == method]
        for axes, term in ((left, "loss"), (right, "val_risk")):
            curves = np.array([[record[term] for record in history] for history in histories], dtype=float)
            mean, std, epochs = curves.mean(axis=0), curves.std(axis=0), np.arange(1, curves.shape[1] + 1)
            axes.plot(epochs, mean, color=COLOURS.get(method, INK), label=method, linewidth=1.6)
            axes.fill_between(epochs, mean - std, mean + std, color=COLOURS.get(method, INK), alpha=0.18, linewidth=0)
    left.set(title="training loss, each method's own", xlabel="epoch")
    right.set(title="validation risk, by which the epoch is chosen", xlabel="epoch")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False, labelcolor=INK)
    return _svg(figure)


def label_heatmap(history: Sequence[dict[str, Any]]) -> str:
    """How the pseudo-labels move apart: a column per epoch, the share of rows with that label as its shade."""
    shares = np.array([record["label_histogram"] for record in history], dtype=float).T
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


def label_histograms(history: Sequence[dict[str, Any]], epochs: Sequence[int]) -> str:
    """The pseudo-labels at some epochs, side by side."""
    figure = Figure(figsize=(9, 2.2), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(epochs), sharey=True))
    for axes, epoch in zip(panels, epochs, strict=True):
        counts = np.array(history[epoch - 1]["label_histogram"], dtype=float)
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
