"""Figures as files, drawn by matplotlib. Pages draw their charts themselves (``plots.py``)."""

import io
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from pulab.bench.league import DEFAULTS
from pulab.report.frontier import Result
from pulab.report.league import CHOSEN, critical_difference, standings
from pulab.report.league import Result as Placed
from pulab.report.paper import COLOURS, INK, Curve


def figure_2(curves: Sequence[Curve], form: str = "svg") -> str | bytes:
    """Figure 2 as a file."""
    return _as_file(partial(draw_figure_2, curves), form)


def frontier(found: Sequence[Result], form: str = "svg") -> str | bytes:
    """Error against seconds as a file."""
    return _as_file(partial(draw_frontier, found), form)


def league(found: Sequence[Placed], form: str = "svg") -> str | bytes:
    """The mean ranks as a file."""
    return _as_file(partial(draw_league, found), form)


def _as_file(draw: Callable[[str], Figure], form: str) -> str | bytes:
    """SVG, on a transparent ground that suits light and dark pages, or PNG."""
    if form == "svg":
        text = io.StringIO()
        draw(INK).savefig(text, format="svg", transparent=True, metadata={"Date": None})
        return text.getvalue()[text.getvalue().index("<svg") :]
    image = io.BytesIO()
    draw("black").savefig(image, format=form, dpi=160, facecolor="white")
    return image.getvalue()


def draw_frontier(found: Sequence[Result], ink: str = "black") -> Figure:
    """A panel per data set, a point per setting; a line is one standard deviation, a dotted one the paper's number."""
    panels = list(dict.fromkeys(r.dataset for r in found))
    columns = min(2, len(panels))
    figure = Figure(figsize=(5.4 * columns, 3.6 * -(-len(panels) // columns)), layout="constrained")
    places = figure.subplots(-(-len(panels) // columns), columns, squeeze=False).flatten()
    for axes, panel in zip(places, panels, strict=False):
        for r in (r for r in found if r.dataset == panel):
            colour = COLOURS.get(r.method, INK)
            if r.seconds is None:
                axes.axhline(r.mean, color=colour, linestyle=":", linewidth=1)
                continue
            axes.errorbar(r.seconds, r.mean, r.std or 0.0, fmt="o", color=colour, markersize=4, linewidth=1)
            label = r.setting if r.method == "joint-views" else f"{r.method}, {r.setting}"
            axes.annotate(label, (r.seconds, r.mean), (5, 3), textcoords="offset points", fontsize=7, color=ink)
        axes.set(title=panel, xlabel="seconds a trial", ylabel="test error, %")
        axes.set_xscale("log")
        axes.margins(x=0.25)
        _inked(axes, ink)
    for axes in places[len(panels) :]:
        axes.set_axis_off()
    return figure


def draw_league(found: Sequence[Placed], ink: str = "black") -> Figure:
    """A point per method at its mean rank. The bar is the critical difference, counted from the best."""
    setting = CHOSEN if any(r.setting == CHOSEN for r in found) else DEFAULTS
    table = [s for s in standings(found, setting) if s.rank is not None]
    figure = Figure(figsize=(6.4, 0.8 + 0.24 * max(1, len(table))), layout="constrained")
    axes = figure.subplots()
    for place, s in enumerate(table):
        axes.plot([s.rank or 0.0], [place], "o", color=COLOURS.get(s.method, INK), markersize=5)
    axes.set_yticks(range(len(table)), [s.method for s in table])
    axes.invert_yaxis()
    if len(table) > 1 and table[0].rank is not None:
        end = table[0].rank + critical_difference(len(table), table[0].datasets)
        axes.axvspan(table[0].rank, end, color=INK, alpha=0.12, linewidth=0)
    axes.set(xlabel=f"mean rank of {setting} methods; the band does not differ from the best at 5 %")
    _inked(axes, ink)
    return figure


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
        _inked(axes, ink)
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


def _inked(axes: Any, ink: str) -> None:
    """Two spines, and everything that is text in one colour."""
    axes.tick_params(which="both", colors=ink)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["bottom", "left"]].set_color(ink)
    for text in (axes.title, axes.xaxis.label, axes.yaxis.label):
        text.set_color(ink)
