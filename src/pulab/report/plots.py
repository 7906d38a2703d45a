"""The geometry of charts, in percent of their width and height. The page's style gives them size and colour.

Such a chart fits a phone and a wide screen: lines stretch, words do not.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

Tick = tuple[float, str]
Range = Sequence[float]  # its two ends


class Scale(NamedTuple):
    """Maps values to percent of the way from the lowest to the highest."""

    low: float
    high: float
    log: bool = False
    root: bool = False  # square roots, so that small shares are visible beside large ones

    def at(self, value: float) -> float:
        """The place of a value. Values beyond an end are on it. If the ends are equal, all values are in the middle."""
        low, high, here = (self._bent(v) for v in (self.low, self.high, min(max(value, self.low), self.high)))
        return round(100 * (here - low) / (high - low), 2) if high > low else 50.0

    def _bent(self, value: float) -> float:
        if self.log:
            return math.log10(value)
        return math.sqrt(value) if self.root else value

    def ticks(self, words: Callable[[float], str], most: int = 6) -> list[Tick]:
        """Round values between the ends and their places."""
        values = _round_logs(self.low, self.high, most) if self.log else _round_steps(self.low, self.high, most)
        return [(self.at(value), words(value)) for value in values]


def _round_steps(low: float, high: float, most: int) -> list[float]:
    width = (high - low) / most
    if width <= 1e-12 * max(abs(low), abs(high)):
        return [low]
    power = 10.0 ** math.floor(math.log10(width))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= width or m == 10)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


def _round_logs(low: float, high: float, most: int) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for leading in ((1, 2, 5), (1, 3), (1,)):
        values = [float(f"{digit}e{power}") for power in powers for digit in leading]
        inside = [value for value in values if low <= value <= high]
        if len(inside) <= most:
            break
    return inside[:: -(-len(inside) // most) or 1]


def round_up(value: float) -> float:
    """A round number a little above, to end a scale at."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(m * power for m in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if m * power >= value or m == 10)


class Track(NamedTuple):
    """A value with its range on a line: the place of the value, and the start and width of the range."""

    dot: float | None
    interval: Range | None


def track(value: float | None, scale: Scale, interval: Range | None = None) -> Track:
    """A value and its range, on a scale."""
    ends = None if interval is None else [scale.at(end) for end in interval]
    stretch = None if ends is None else (ends[0], round(ends[1] - ends[0], 2))
    return Track(None if value is None else scale.at(value), stretch)


class Shape(NamedTuple):
    """A line, a dot or an area. The style colours it by the name of its series."""

    kind: str
    series: str
    path: str


class Reading(NamedTuple):
    """The text for the place nearest to the pointer: a title and lines below it."""

    at: float
    title: str
    lines: list[str]


class Plot(NamedTuple):
    """Everything that a template needs to draw a chart."""

    says: str  # in words, for screen readers
    x: list[Tick]
    y: list[Tick]
    shapes: list[Shape]
    readings: list[Reading]
    mark: Tick | None = None  # a marked place on the x axis


def line(series: str, points: Iterable[tuple[float, float | None]], x: Scale, y: Scale) -> Shape:
    """A line through the points, with gaps where a value is missing. A single value is a dot."""
    parts, pen_down = [], False
    for at, value in points:
        if value is not None:
            # A line of no length has round ends, so a point without neighbours is visible.
            parts.append(f"{'L' if pen_down else 'M'}{x.at(at)},{_down(y, value)}{'' if pen_down else 'h0'}")
        pen_down = value is not None
    return Shape("dot" if len(parts) == 1 else "line", series, "".join(parts))


def area(series: str, bands: Iterable[tuple[float, Range]], x: Scale, y: Scale) -> Shape:
    """The area between the lower and upper ends of the bands."""
    bands = list(bands)
    there = [f"{x.at(at)},{_down(y, band[1])}" for at, band in bands]
    back = [f"{x.at(at)},{_down(y, band[0])}" for at, band in reversed(bands)]
    return Shape("area", series, f"M{'L'.join(there + back)}Z")


def steps(series: str, edges: Sequence[float], heights: Sequence[float], x: Scale, y: Scale) -> Shape:
    """A filled histogram."""
    bins = zip(edges, edges[1:], heights, strict=False)
    tops = [f"L{x.at(left)},{_down(y, height)}H{x.at(right)}" for left, right, height in bins]
    return Shape("area", series, f"M{x.at(edges[0])},100{''.join(tops)}V100Z")


def _down(y: Scale, value: float) -> float:
    """SVG counts from the top."""
    return round(100 - y.at(value), 2)
