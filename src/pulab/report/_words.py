"""Sentences about a fitted table, for the page and for the terminal."""

from pulab.report._format import count, percent, span
from pulab.summary import ODDS, ReviewPoint, Summary

HALF = 0.45  # the headline's list holds at least this share of the hidden positives
CHECK = "Nobody has checked that. A review does (pulab review)."
UNCHECKED = f"All figures assume that the known positives are like the other positives. {CHECK}"


def headline_point(review: list[ReviewPoint]) -> ReviewPoint:
    """The shortest round list that holds about half of the hidden positives."""
    points = [point for point in review if len(str(point["k"]).rstrip("0")) <= 2]
    return next((point for point in points if point["recall"] >= HALF), review[-1])


def headline(summary: Summary) -> str:
    """What can be said without a prior: how much the first candidates hold."""
    point = headline_point(summary["review"])
    share = share_words(point["recall"])
    return (
        f"The first {count(point['k'])} of {count(summary['table']['unlabeled'])} unlabeled rows hold {share} of the "
        f"hidden positives ({span([point['recall_low'], point['recall_high']])}), {times(point['lift'])} as many as "
        f"{count(point['k'])} random rows."
    )


def assumption(summary: Summary) -> str:
    """What the figures rest on, whether a review has checked it, and what hangs on it."""
    found, labelling = summary["measured"], summary["labelling"]
    settled = found is not None and found["settled"]
    if labelling is not None and labelling["by"]:
        names = " and ".join(repr(name) for name in labelling["by"])
        checked = "What a review measured does not rest on that." if settled else CHECK
        return (
            f"All figures assume that the known positives are like the other positives with similar values of {names}, "
            f"and that the odds of being labelled differ {ODDS:g} to 1 at most between such groups. {checked}"
        )
    if found is not None and settled:
        return found["random_labelling"]["text"]
    if summary["prior"]["source"] == "measured":
        return (
            "A review measured the share of positives. Other figures assume that known positives are like the others."
        )
    what_if = None if labelling is None else labelling["what_if"]
    if what_if is None:
        return UNCHECKED
    point = headline_point(summary["review"])
    stated = [point["recall_low"], point["recall_high"]]
    wider = [min(stated[0], what_if["low"]), max(stated[1], what_if["high"])]
    return (
        f"{UNCHECKED} An example: suppose that positives with some values of {what_if['column']!r} are labelled "
        f"{what_if['times']:g} times as often as others. The data cannot show this. Then the first "
        f"{count(what_if['k'])} rows hold {span(wider)} of the hidden positives. If you know what the labelling "
        "depends on, name it (--labelled-by)."
    )


def share_words(share: float) -> str:
    """A share in words where a word is close enough."""
    if abs(share - 0.5) <= 0.05:
        return "about half"
    return f"about {percent(share)}"


def times(lift: float) -> str:
    """How many times, with as many digits as help."""
    return f"{lift:.1f} times" if lift < 10 else f"{count(lift)} times"


def share_of_positives(low: float, high: float, value: float | None, scenario: str, source: str = "estimated") -> str:
    """What is known about the share of positives."""
    of = "all rows" if scenario == "single-sample" else "the unlabeled rows"
    if source == "given":
        return f"{span([low, high])} of {of} are positive, as you said."
    if value is None:
        return (
            f"At most {percent(high)} of {of} are positive, and at least {percent(low)}. The data cannot narrow "
            "this range. That would need a group of rows that are clearly all positive."
        )
    how = "The review measured it" if source == "measured" else "A region of pure positives shows it"
    return f"About {percent(value)} of {of} are positive ({span([low, high])}). {how}."


def about(summary: Summary) -> list[str]:
    """The three sentences that matter most."""
    prior = summary["prior"]
    known = share_of_positives(prior["low"], prior["high"], prior["value"], summary["scenario"], prior["source"])
    return [headline(summary), known, assumption(summary)]
