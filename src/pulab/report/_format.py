"""Numbers as a page prints them. A missing or infinite number is a dash."""

import math
from collections.abc import Callable
from typing import Any

Range = tuple[float, float]
UNIT = "\N{NO-BREAK SPACE}%"


def finite(value: Any) -> float | None:
    """The value as a finite number, or None."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    # A larger number is a mistake, and its products could overflow.
    return number if math.isfinite(number) and abs(number) < 1e100 else None


def limits(value: Any) -> Range | None:
    """The two ends of an interval in order; None if one is missing."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        return None
    low, high = finite(value[0]), finite(value[1])
    return None if low is None or high is None else (min(low, high), max(low, high))


def percent(value: Any) -> str:
    """A share in percent, with more digits near 0 and 1. It is never rounded to 0 or 100.

    >>> [percent(share).removesuffix(UNIT) for share in (0.213, 0.043, 0.004, 0.9987, 0.99999, 1, 1.3, None)]
    ['21', '4.3', '0.4', '99.9', '>99.9', '100', '130', '–']
    """
    share = finite(value)
    return "–" if share is None else _hundredths(share) + UNIT


def _hundredths(share: float) -> str:
    hundredths = 100 * share
    size = abs(hundredths)
    if 99.95 <= hundredths < 100:
        return ">99.9"
    if 0 < hundredths < 0.005:
        return "<0.01"
    if size >= 1e6:
        return f"{hundredths:.0e}"
    digits = 2 if size < 0.95 else 1 if size < 9.5 or 99 < size < 100 else 0
    text = f"{hundredths:,.{digits}f}".replace("-", "−")
    return text.rstrip("0").rstrip(".") if digits else text


def count(value: Any) -> str:
    """A count.

    >>> count(48210)
    '48,210'
    """
    number = finite(value)
    if number is None:
        return "–"
    return f"{round(number):,}".replace("-", "−") if abs(number) < 1e12 else f"{number:.1e}"


def about(value: Any) -> str:
    """A count with two digits, for estimates.

    >>> about(9878), about(41.7)
    ('9,900', '42')
    """
    number = finite(value)
    return count(None if number is None else float(f"{number:.2g}"))


def decimal(value: Any, digits: int = 3) -> str:
    """A number with this many digits.

    >>> [decimal(number) for number in (0.9312, 3.4, 57.31, 1234.5, -0.25, 0.0004, 0.00001, 0)]
    ['0.931', '3.40', '57.3', '1,234', '−0.250', '0.0004', '1.0e−05', '0']
    """
    number = finite(value)
    if number is None:
        return "–"
    size = abs(number)
    if 0 < size < 5e-5 or size >= 1e6:
        return f"{number:.1e}".replace("-", "−")
    whole_digits = len(str(int(size))) if size >= 1 else 0
    places = 0 if size == 0 else digits + (size < 1e-3) if size < 1 else max(0, digits - whole_digits)
    return f"{number:,.{places}f}".replace("-", "−")


def span(value: Any, words: Callable[[Any], str] = percent) -> str:
    """An interval; empty if there is none.

    >>> span([0.17, 0.26]).removesuffix(UNIT), span([0.5, 1.25], decimal), span(None)
    ('17 to 26', '0.500 to 1.25', '')
    """
    ends = limits(value)
    if ends is None:
        return ""
    low, high = words(ends[0]), words(ends[1])
    return high if low == high else f"{low.removesuffix(UNIT)} to {high}"
