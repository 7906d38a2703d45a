"""The report of a model fitted to a table: the prior, the candidates, the quality of the model."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from pulab.report import _format, plots
from pulab.report._format import Range, count, decimal, finite, limits, percent, span
from pulab.report._page import render
from pulab.report.plots import Plot, Reading, Scale, Track
from pulab.summary import Column, Curve, Distributions, Feature, Metric, Prior, ReviewPoint, Summary, complete

FIRST = 100  # the headline is about the first 100 candidates
MOST_POINTS = 300  # of a training curve, because a screen shows no more
MOST_FEATURES = 15  # visible at once; the rest unfolds


def model_page(summary: Mapping[str, Any]) -> str:
    """The report as one HTML file that loads nothing.

    Parameters
    ----------
    summary : dict
        A :class:`pulab.summary.Summary` or any part of it. Numbers may be missing, NaN or out of bounds. Names and ids
        may be any text.
    """
    s = complete(summary)
    points = _points(s["review"])
    page = render(
        "model.html.j2",
        s=s,
        format=_format,
        facts=_facts(s, points),
        hundred=_hundred(s["prior"]),
        prior_chart=_prior_chart(s["prior"]),
        scores=_scores(s["distributions"]),
        figures=[_figure(metric, s["prior"]["value"]) for metric in s["metrics"]],
        review=_review(points) if points else None,
        points=points,
        curves=[_curve(curve) for curve in s["curves"]],
        features=_features(s["features"]),
        shown=list(dict.fromkeys(name for row in s["candidates"] for name in row["values"])),
        kinds=_kinds(s["table"]["columns"]),
        most=MOST_FEATURES,
        width=lambda share: Scale(0, 1).at(finite(share) or 0),
        of_models=lambda share: _of_models(share, s["folds"]),
    )
    # Text from a broken file may hold half a character, which UTF-8 cannot encode.
    return page.encode("utf-8", "replace").decode("utf-8")


def _of_models(share: Any, n_models: Any) -> str:
    """A share of the models as a number of models."""
    part, whole = finite(share), finite(n_models)
    return percent(share) if part is None or not whole else f"{round(part * whole)} of {count(whole)}"


# Sentences ------------------------------------------------------------------------------------------------------------


class Facts(NamedTuple):
    """Numbers for sentences of the page; None where the summary does not have them."""

    whole: str  # the rows that the prior is a share of
    positives: float | None  # estimated number of positives in the whole
    hidden: float | None  # those of them that are not labelled
    hidden_between: Range | None
    first: "Point | None"  # the point of the review nearest to the first hundred
    right: float | None  # its precision, cut to 0 and 1
    mostly_right: float | None  # number of candidates up to which most are positive
    half_found: float | None  # number of candidates that contain half of the hidden positives
    above: tuple[float, float] | None  # shares of labelled and unlabeled rows with a probability above one half


class Point(NamedTuple):
    """Precision and recall of the first k candidates."""

    k: float
    precision: float | None
    precision_band: Range | None
    recall: float | None
    recall_band: Range | None


def _points(review: list[ReviewPoint]) -> list[Point]:
    points = [
        Point(
            finite(point["k"]) or 0.0,
            finite(point["precision"]),
            limits(point["precision_band"]),
            finite(point["recall"]),
            limits(point["recall_band"]),
        )
        for point in review
    ]
    return sorted((point for point in points if point.k >= 1), key=lambda point: point.k)


def _facts(s: Summary, points: list[Point]) -> Facts:
    prior, between = finite(s["prior"]["value"]), limits(s["prior"]["interval"])
    in_one_sample = s["scenario"] != "case-control"
    rows = finite(s["table"]["rows"] if in_one_sample else s["table"]["unlabeled"])
    known = finite(s["table"]["labelled"]) if in_one_sample else 0.0

    def hidden(share: float) -> float | None:
        return None if rows is None or known is None else max(0.0, share * rows - known)

    rated = [point for point in points if point.precision is not None]
    first = min(rated, key=lambda point: abs(math.log(point.k / FIRST)), default=None)
    return Facts(
        whole="all rows" if in_one_sample else "the unlabeled rows",
        positives=None if prior is None or rows is None else prior * rows,
        hidden=None if prior is None else hidden(prior),
        hidden_between=None if between is None else limits([hidden(end) for end in between]),
        first=first,
        right=min(max(first.precision or 0.0, 0.0), 1.0) if first else None,
        mostly_right=max((point.k for point in rated if (point.precision or 0) >= 0.5), default=None),
        half_found=next((point.k for point in points if (point.recall or 0) >= 0.5), None),
        above=_above(s["distributions"]),
    )


def _above(distributions: Distributions) -> tuple[float, float] | None:
    edges, labelled, unlabeled = _histograms(distributions)
    middle = next((i for i, edge in enumerate(edges) if abs(edge - 0.5) < 1e-9), None)
    if middle is None or not any(labelled) or not any(unlabeled):
        return None
    return sum(labelled[middle:]) / sum(labelled), sum(unlabeled[middle:]) / sum(unlabeled)


def _kinds(columns: list[Column]) -> str:
    """The number of columns of each kind, as text."""
    many = {"number": "numbers", "category": "categories", "date": "dates", "text": "texts"}
    kinds = [str(column["kind"]) for column in columns]
    return ", ".join(f"{n} {many.get(kind, kind) if n > 1 else kind}" for kind, n in Counter(kinds).items())


def _tick(share: float) -> str:
    return f"{100 * share:g}{_format.UNIT}"


# The share of positives -----------------------------------------------------------------------------------------------


def _hundred(prior: Prior) -> list[str]:
    """A hundred rows: surely positive (lower end of the interval), likely (estimate), perhaps (upper end), or not."""
    value = finite(prior["value"])
    if value is None or not 0.01 <= value <= 1:
        return []
    low, high = (min(max(end, 0.0), 1.0) for end in limits(prior["interval"]) or (value, value))
    ends = {"surely": round(100 * low), "likely": round(100 * value), "perhaps": round(100 * high)}
    return [next((kind for kind, end in ends.items() if i < end), "not") for i in range(100)]


class PriorChart(NamedTuple):
    """The share of positives in use and the share by each estimator, on one scale."""

    tracks: list[tuple[str, float | None, Track]]
    ticks: list[plots.Tick]


def _prior_chart(prior: Prior) -> PriorChart:
    values = [prior["value"], *prior["methods"].values(), *(limits(prior["interval"]) or ())]
    highest = max((value for value in map(finite, values) if value is not None), default=0.0)
    scale = Scale(0, min(1.0, plots.round_up(1.1 * min(1.0, highest))))
    tracks = []
    if finite(prior["value"]) is not None:
        in_use = plots.track(prior["value"], scale, interval=prior["interval"])
        tracks.append(("used here", finite(prior["value"]), in_use))
    tracks += [(str(name), finite(value), plots.track(value, scale)) for name, value in prior["methods"].items()]
    return PriorChart(tracks, scale.ticks(_tick, most=4))


# Scores and figures of merit ------------------------------------------------------------------------------------------


def _histograms(distributions: Distributions) -> tuple[list[float], list[float], list[float]]:
    """Edges and shares of the bins, cut to the same number of bins."""
    edges = sorted(edge for edge in map(finite, distributions["edges"]) if edge is not None)
    labelled, unlabeled = (
        [min(max(finite(share) or 0.0, 0.0), 1.0) for share in shares]
        for shares in (distributions["labelled"], distributions["unlabeled"])
    )
    bins = max(0, min(len(edges) - 1, len(labelled), len(unlabeled)))
    return edges[: bins + 1], labelled[:bins], unlabeled[:bins]


def _scores(distributions: Distributions) -> list[Plot]:
    """Histograms of the probabilities of labelled and of unlabeled rows, for two charts of the same width."""
    edges, labelled, unlabeled = _histograms(distributions)
    if not labelled:
        return []
    heights = (0.01, 0.1, 0.3, 0.6, 1.0)
    top = next(height for height in heights if height >= max(*labelled, *unlabeled))
    x, y = Scale(edges[0], edges[-1]), Scale(0, top, root=True)
    grid = [(y.at(height), _tick(height)) for height in heights if height <= top]
    readings = [
        Reading(x.at((a + b) / 2), f"probability {span([a, b])}", [f"labelled {percent(p)}", f"unlabeled {percent(u)}"])
        for a, b, p, u in zip(edges, edges[1:], labelled, unlabeled, strict=False)
    ]
    charts = []
    for name, shares in (("labelled", labelled), ("unlabeled", unlabeled)):
        says = f"Histogram of the probabilities of {name} rows"
        shape = plots.steps(name, edges, shares, x, y)
        charts.append(Plot(says, x.ticks(_tick, most=4), grid, [shape], readings))
    return charts


# By figure: its title, its format and its meaning. The share of positives gives the value of a guess.
FIGURES = {
    "precision": ("Precision", percent, "The share of positives among the rows that the model calls positive."),
    "recall": ("Recall", percent, "The share of all positives that the model calls positive."),
    "f1": ("F1", decimal, "Precision and recall in one number. It is low if one of them is low."),
    "accuracy": (
        "Accuracy",
        percent,
        "The share of correct decisions among all rows. Calling every row negative gives {negative}.",
    ),
    "roc_auc": ("ROC AUC", decimal, "How often a positive scores above a negative. Guessing gives 0.5."),
    "average_precision": (
        "Average precision",
        decimal,
        "The mean precision on the way down the list. Guessing gives {prior}.",
    ),
    "lee_liu": (
        "Lee–Liu score",
        decimal,
        "Recall squared, divided by the share called positive. It needs no prior and has no upper limit. It only "
        "compares models of the same table.",
    ),
}


class Figure(NamedTuple):
    """A figure of merit, as text."""

    key: str
    title: str
    means: str
    value: str
    band: str
    interval: str
    between: str
    track: Track | None
    more_is_better: bool


def _figure(metric: Metric, prior: float) -> Figure:
    key = str(metric["name"])
    title, words, means = FIGURES.get(key, (key, decimal, ""))
    share = finite(prior)
    means = means.format(prior=decimal(share), negative=percent(None if share is None else 1 - share))
    value, band, interval = metric["value"], metric["band"], metric["interval"]
    return Figure(
        key=key,
        title=title,
        means=means,
        value=words(value),
        band=span(band, words),
        interval=span(interval, words),
        between=span(metric["between"], words),
        track=None if key == "lee_liu" else plots.track(value, Scale(0, 1), band, interval),
        more_is_better=metric["more_is_better"] is not False,  # None in a partial summary
    )


def _review(points: list[Point]) -> Plot:
    """Precision and recall by the number of reviewed candidates."""
    x, y = Scale(points[0].k, points[-1].k, log=points[-1].k >= 30 * points[0].k), Scale(0, 1)
    shapes = [
        plots.area("recall", [(point.k, point.recall_band) for point in points], x, y),
        plots.area("precision", [(point.k, point.precision_band) for point in points], x, y),
        plots.line("recall", [(point.k, point.recall) for point in points], x, y),
        plots.line("precision", [(point.k, point.precision) for point in points], x, y),
    ]

    def words(name: str, value: float | None, band: Range | None) -> str:
        return f"{name} {percent(value)}" + (f" ({span(band)})" if band else "")

    readings = [
        Reading(
            x.at(point.k),
            f"the first {count(point.k)}",
            [
                words("precision", point.precision, point.precision_band),
                words("recall", point.recall, point.recall_band),
            ],
        )
        for point in points
    ]
    says = "Precision and recall by the number of candidates reviewed; the numbers are in the table below"
    return Plot(says, x.ticks(count), y.ticks(_tick, most=4), shapes, readings)


# Training and features ------------------------------------------------------------------------------------------------


class CurveChart(NamedTuple):
    """A training curve."""

    title: str
    unit: str
    plot: Plot | None


def _curve(curve: Curve) -> CurveChart:
    name, unit = str(curve["name"]), str(curve["unit"] or "steps")
    values = [finite(value) for value in curve["values"]]
    best = finite(curve["best"])
    chosen = int(best) if best is not None and 1 <= best <= len(values) else None
    known = [value for value in values if value is not None]
    if not known:
        return CurveChart(name, unit, None)
    last = len(values) - 1
    kept = {round(last * i / MOST_POINTS) for i in range(MOST_POINTS + 1)} | ({chosen - 1} if chosen else set())
    x, y = Scale(1, len(values)), _around(known)
    points = [(float(i + 1), values[i]) for i in sorted(kept)]
    one = unit.removesuffix("s")
    readings = [
        Reading(x.at(at), f"{one} {count(at)}{', the best' if at == chosen else ''}", [decimal(value)])
        for at, value in points
    ]
    says = f"{name} over {count(len(values))} {unit}, from {decimal(known[0])} to {decimal(known[-1])}"
    mark = None if chosen is None else (x.at(chosen), f"best: {count(chosen)}")
    plot = Plot(
        says,
        x.ticks(lambda v: f"{v:g}", most=5),
        y.ticks(lambda v: f"{v:g}", most=4),
        [plots.line("risk", points, x, y)],
        readings,
        mark,
    )
    return CurveChart(name, unit, plot)


def _around(values: list[float]) -> Scale:
    """A scale with a margin above and below."""
    low, high = min(values), max(values)
    room = 0.03 * (high - low)
    return Scale(low - room, high + room)


class FeatureBar(NamedTuple):
    """The importance of a column."""

    name: str
    importance: float | None
    std: float | None
    track: Track


def _features(features: list[Feature]) -> list[FeatureBar]:
    """The columns, the most important first."""
    bars = [(str(f["name"]), finite(f["importance"]), finite(f["std"])) for f in features]
    bars.sort(key=lambda feature: -math.inf if feature[1] is None else feature[1], reverse=True)
    highest = max((value + (std or 0) for _, value, std in bars if value is not None), default=0.0)
    scale = Scale(0, max(highest, 1e-12))
    return [
        FeatureBar(
            name, value, std, plots.track(value, scale, interval=[(value or 0) - (std or 0), (value or 0) + (std or 0)])
        )
        for name, value, std in bars
    ]
