"""Numbers as a page prints them. A missing number is a dash."""

from collections.abc import Callable, Sequence

UNIT = "\N{NO-BREAK SPACE}%"


def percent(share: float | None) -> str:
    """A share in percent, with more digits near 0 and 1. It is never rounded to 0 or 100.

    >>> [percent(share).removesuffix(UNIT) for share in (0.213, 0.043, 0.004, 0.9987, 0.99999, 1, None)]
    ['21', '4.3', '0.4', '99.9', '>99.9', '100', '–']
    """
    if share is None:
        return "–"
    hundredths = 100 * share
    if 99.95 <= hundredths < 100:
        return f">99.9{UNIT}"
    if 0 < hundredths < 0.005:
        return f"<0.01{UNIT}"
    digits = 2 if hundredths < 0.95 else 1 if hundredths < 9.5 or 99 < hundredths < 100 else 0
    text = f"{hundredths:.{digits}f}"
    return (text.rstrip("0").rstrip(".") if digits else text) + UNIT


def count(number: float) -> str:
    """A count.

    >>> count(48210)
    '48,210'
    """
    return f"{round(number):,}"


def about(number: float) -> str:
    """A count with two digits, for estimates.

    >>> about(9878), about(41.7)
    ('9,900', '42')
    """
    return count(float(f"{number:.2g}"))


def decimal(number: float | None, digits: int = 3) -> str:
    """A number with this many digits.

    >>> [decimal(number) for number in (0.9312, 3.4, 57.31, 1234.5, -0.25, 0.0004, 0.00001, 0)]
    ['0.931', '3.40', '57.3', '1,234', '−0.250', '0.0004', '1.0e−05', '0']
    """
    if number is None:
        return "–"
    size = abs(number)
    if 0 < size < 5e-5 or size >= 1e6:
        return f"{number:.1e}".replace("-", "−")
    whole_digits = len(str(int(size))) if size >= 1 else 0
    places = 0 if size == 0 else digits + (size < 1e-3) if size < 1 else max(0, digits - whole_digits)
    return f"{number:,.{places}f}".replace("-", "−")


def short(number: float | None) -> str:
    """A number with two digits.

    >>> short(0.9312), short(3.44)
    ('0.93', '3.4')
    """
    return decimal(number, 2)


def span(interval: Sequence[float] | None, words: Callable[[float], str] = percent) -> str:
    """An interval; empty if there is none.

    >>> span([0.17, 0.26]).removesuffix(UNIT), span([0.5, 1.25], decimal), span(None)
    ('17 to 26', '0.500 to 1.25', '')
    """
    if interval is None:
        return ""
    low, high = map(words, interval)
    return high if low == high else f"{low.removesuffix(UNIT)} to {high}"
