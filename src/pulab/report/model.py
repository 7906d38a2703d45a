"""The report of a model fitted to a table: the prior, the candidates, the quality of the model."""

import math
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from pulab.report import _format, _words, plots
from pulab.report._format import count, decimal, percent, span
from pulab.report._page import render
from pulab.report.plots import Plot, Reading, Scale, Tick, Track
from pulab.summary import Column, Curve, Distributions, Feature, Interval, Metric, Prior, ReviewPoint, Summary

FIRST = 100  # the headline is about the first 100 candidates
MOST_POINTS = 300  # of a training curve, because a screen shows no more
MOST_FEATURES = 15  # visible at once; the rest unfolds
MOST_COLUMNS = 200  # of the table; model.json has all of a wider one


def model_page(summary: Summary) -> str:
    """The report as one HTML file that loads nothing. Names and ids may be any text."""
    tracks, ticks = _prior_chart(summary["prior"])
    page = render(
        "model.html.j2",
        s=summary,
        format=_format,
        facts=_facts(summary),
        hundred=_hundred(summary["prior"]),
        prior_tracks=tracks,
        prior_ticks=ticks,
        scores=_scores(summary["distributions"]),
        words=_words,
        figures=[_figure(metric, summary["prior"]) for metric in summary["metrics"] if metric["low"] is not None],
        review=_review(summary["review"]),
        curves=[(curve, _curve(curve)) for curve in summary["curves"]],
        features=_features(summary["features"]),
        shown=list(dict.fromkeys(name for row in summary["candidates"] for name in row["values"])),
        kinds=_kinds(summary["table"]["columns"]),
        columns=_columns(summary),
        most=MOST_FEATURES,
    )
    # A file name or a column of pandas may hold half a character, which UTF-8 cannot encode.
    return page.encode("utf-8", "replace").decode("utf-8")


# Sentences ------------------------------------------------------------------------------------------------------------


class Facts(NamedTuple):
    """Numbers for sentences of the page."""

    whole: str  # the rows that the prior is a share of
    hidden: Interval  # range of the number of positives that are not labelled
    first: ReviewPoint  # the point of the review nearest to the first hundred
    half: ReviewPoint  # the shortest round list with about half of the hidden positives


def _facts(s: Summary) -> Facts:
    prior, review = s["prior"], s["review"]
    in_one_sample = s["scenario"] == "single-sample"
    n, labelled, found = s["table"]["rows"], s["table"]["labelled"], s["reviewed"]["positive"] if s["reviewed"] else 0
    rows, known = (n, labelled + found) if in_one_sample else (n - labelled, found)
    return Facts(
        whole="all rows" if in_one_sample else "the unlabeled rows",
        hidden=[max(0.0, share * rows - known) for share in (prior["low"], prior["high"])],
        first=min(review, key=lambda point: abs(math.log(point["k"] / FIRST))),
        half=_words.headline_point(s["review"]),
    )


def _kinds(columns: list[Column]) -> str:
    """The number of columns of each kind, as text."""
    many = {"number": "numbers", "category": "categories", "date": "dates", "text": "texts"}
    kinds = Counter(column["kind"] for column in columns)
    return ", ".join(f"{n} {many.get(kind, kind) if n > 1 else kind}" for kind, n in kinds.items())


def _columns(s: Summary) -> list[Column]:
    """The table's columns in their order; of a wide table those that matter most, and then the first others."""
    columns = s["table"]["columns"]
    if len(columns) <= MOST_COLUMNS:
        return columns
    rank = {feature["name"]: at for at, feature in enumerate(s["features"])}
    return sorted(columns, key=lambda column: rank.get(column["name"], len(rank)))[:MOST_COLUMNS]


def _tick(share: float) -> str:
    return f"{100 * share:g}{_format.UNIT}"


# The share of positives -----------------------------------------------------------------------------------------------


def _hundred(prior: Prior) -> list[str]:
    """A hundred rows: surely positive (lower end of the range), likely (the value), perhaps (upper end), or not."""
    low, value, high = prior["low"], prior["value"], prior["high"]
    if high < 0.01:
        return []
    ends = {"surely": round(100 * low), "likely": round(100 * (value or low)), "perhaps": round(100 * high)}
    return [next((kind for kind, end in ends.items() if i < end), "not") for i in range(100)]


def _prior_chart(prior: Prior) -> tuple[list[tuple[str, str, Track]], list[Tick]]:
    """The range of the share of positives on a scale; with the estimators where their number is an estimate."""
    estimators = prior["methods"] if prior["evident"] else {}
    interval = [prior["low"], prior["high"]]
    scale = Scale(0, min(1.0, plots.round_up(1.1 * max(prior["high"], *estimators.values(), 1e-6))))
    known = span(interval) if prior["value"] is None else percent(prior["value"])
    tracks = [("known", known, plots.track(prior["value"], scale, interval))]
    tracks += [(name, percent(value), plots.track(value, scale)) for name, value in estimators.items()]
    return tracks, scale.ticks(_tick, most=4)


# Scores and figures of merit ------------------------------------------------------------------------------------------


def _scores(distributions: Distributions) -> list[Plot]:
    """Histograms of the scores of labelled and of unlabeled rows, for two charts of the same width."""
    edges, labelled, unlabeled = distributions["edges"], distributions["labelled"], distributions["unlabeled"]
    heights = (0.01, 0.1, 0.3, 0.6, 1.0)
    top = next((height for height in heights if height >= max(*labelled, *unlabeled)), 1.0)
    x, y = Scale(edges[0], edges[-1]), Scale(0, top, root=True)
    grid = [(y.at(height), _tick(height)) for height in heights if height <= top]
    readings = [
        Reading(
            x.at((a + b) / 2), f"score {span([a, b], decimal)}", [f"labelled {percent(p)}", f"unlabeled {percent(u)}"]
        )
        for a, b, p, u in zip(edges, edges[1:], labelled, unlabeled, strict=False)
    ]
    charts = []
    for name, shares in (("labelled", labelled), ("unlabeled", unlabeled)):
        says = f"Histogram of the scores of {name} rows"
        shape = plots.steps(name, edges, shares, x, y)
        charts.append(Plot(says, x.ticks("{:g}".format, most=4), grid, [shape], readings))
    return charts


# By figure: its title, its format and its meaning. The share of positives gives the value of a guess.
FIGURES: dict[str, tuple[str, Callable[[float | None], str], str]] = {
    "precision": (
        "Precision",
        percent,
        "The share of positives among all rows that the model calls positive, known ones included.",
    ),
    "recall": ("Recall", percent, "The share of all positives that the model calls positive."),
    "f1": ("F1", decimal, "Precision and recall in one number. It is low if one of them is low."),
    "accuracy": (
        "Accuracy",
        percent,
        "The share of correct decisions among all rows. Calling every row negative gives {negative}.",
    ),
    "separation": (
        "AUC against all rows",
        decimal,
        "How often a known positive scores above another row. It needs no prior. Guessing gives 0.5.",
    ),
    "roc_auc": ("ROC AUC", decimal, "How often a positive scores above a negative. Guessing gives 0.5."),
    "average_precision": (
        "Average precision",
        decimal,
        "The mean precision on the way down the list. Guessing gives the share of positives, {prior}.",
    ),
}


class Figure(NamedTuple):
    """A figure of merit: its numbers, how they are written, and what they mean."""

    metric: Metric
    title: str
    words: Callable[[float | None], str]
    means: str
    track: Track | None


def _figure(metric: Metric, prior: Prior) -> Figure:
    title, words, means = FIGURES.get(metric["name"], (metric["name"], decimal, ""))
    ends = [prior["low"], prior["high"]]
    means = means.format(prior=span(ends), negative=span([1 - end for end in reversed(ends)]))
    track = plots.track(metric["value"], Scale(0, 1), _ends(metric))
    return Figure(metric, title, words, means, track)


def _ends(metric: Metric) -> Interval:
    return [metric["low"] or 0.0, metric["high"] or 0.0]


def _review(points: list[ReviewPoint]) -> Plot:
    """Precision and recall by the number of reviewed candidates."""
    first, last = points[0]["k"], points[-1]["k"]
    x, y = Scale(first, last, log=last >= 30 * first), Scale(0, 1)
    bands = {
        "recall": [(point["k"], [point["recall_low"], point["recall_high"]]) for point in points],
        "precision": [(point["k"], [point["precision_low"], point["precision_high"]]) for point in points],
    }
    known = points[0]["precision"] is not None
    shapes = [plots.area(series, ends, x, y) for series, ends in bands.items() if known or series == "recall"]
    shapes.append(plots.line("recall", [(point["k"], point["recall"]) for point in points], x, y))
    most = [(point["k"], point["precision"] if known else point["precision_high"]) for point in points]
    shapes.append(plots.line("precision", most, x, y))
    readings = [
        Reading(
            x.at(point["k"]),
            f"the first {count(point['k'])}",
            [
                f"recall {percent(point['recall'])} ({span(recall)})",
                f"precision {_known(point['precision'])}{span(precision)}",
                f"{_words.times(point['lift'])} chance",
            ],
        )
        for point, (_, recall), (_, precision) in zip(points, bands["recall"], bands["precision"], strict=True)
    ]
    says = "Precision and recall by the number of candidates reviewed; the numbers are in the table below"
    return Plot(says, x.ticks(count), y.ticks(_tick, most=4), shapes, readings)


def _known(value: float | None) -> str:
    return "" if value is None else f"{percent(value)}, "


# Training and features ------------------------------------------------------------------------------------------------


def _curve(curve: Curve) -> Plot:
    values, best, unit = curve["values"], curve["best"], curve["unit"]
    known = [value for value in values if value is not None] or [0.0]
    last = len(values) - 1
    kept = {round(last * i / MOST_POINTS) for i in range(MOST_POINTS + 1)} | ({best - 1} if best else set())
    margin = 0.03 * (max(known) - min(known))
    x, y = Scale(1, len(values)), Scale(min(known) - margin, max(known) + margin)
    points = [(i + 1, values[i]) for i in sorted(kept)]
    one = unit.removesuffix("s")
    readings = [
        Reading(x.at(at), f"{one} {count(at)}{', the best' if at == best else ''}", [decimal(value)])
        for at, value in points
    ]
    says = f"{curve['name']} over {count(len(values))} {unit}, from {decimal(known[0])} to {decimal(known[-1])}"
    mark = None if best is None else (x.at(best), f"best: {count(best)}")
    line = plots.line("risk", points, x, y)
    ticks = x.ticks("{:g}".format, most=5), y.ticks("{:g}".format, most=4)
    return Plot(says, *ticks, [line], readings, mark)


def _features(features: list[Feature]) -> list[tuple[Feature, Track]]:
    """The columns, each with its importance and one standard deviation to either side on a common scale."""
    scale = Scale(0, max([1e-12, *(feature["importance"] + feature["std"] for feature in features)]))
    bars = []
    for feature in features:
        value, std = feature["importance"], feature["std"]
        bars.append((feature, plots.track(value, scale, interval=[value - std, value + std])))
    return bars
