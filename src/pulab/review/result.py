"""From answers to measured figures, as plain data and as lines of text."""

from collections.abc import Iterator

import numpy as np

from pulab.metrics import Array
from pulab.review.answers import Answers
from pulab.review.measure import TAIL, Counts, Posterior, band_by_design, by_design, posterior
from pulab.summary import Measured, MeasuredBand, MeasuredDepth, RandomLabelling, Share, Summary

PLANNED = 100  # answers
NARROW = 0.25  # half an interval, as a part of its value
REJECTED = 0.01


def measured(answers: Answers, summary: Summary) -> Measured | None:
    """What the answers say, or None if there is neither a yes nor a no."""
    counts, skipped = count(answers)
    n_answers = int((counts.yes + counts.no).sum())
    if not n_answers:
        return None
    found = posterior(counts, np.random.default_rng(0))
    random = posterior(counts, np.random.default_rng(0), slope=1.0)
    labelling = _random_labelling(found)
    prior = _share(found.positives.sum(axis=1), summary)
    return {
        "answers": n_answers,
        "yes": int(counts.yes.sum()),
        "no": int(counts.no.sum()),
        "skipped": skipped,
        "prior": prior,
        "prior_if_random": None if labelling["rejected"] else _share(random.positives.sum(axis=1), summary),
        "prior_by_design": _by_design(counts, summary),
        "review": _depths(answers.draw.ends, found),
        "calibration": _bands(answers.draw.ends, counts, random),
        "random_labelling": labelling,
        "before": [summary["prior"]["low"], summary["prior"]["high"]],
        "settled": n_answers >= PLANNED / 2,
        "enough": n_answers >= PLANNED or (n_answers >= PLANNED / 2 and _is_narrow(prior)),
        "warnings": _warnings(n_answers, skipped),
    }


def count(answers: Answers) -> tuple[Counts, int]:
    """The answers by band; and how many rows were skipped, or left out before the last one that was answered."""
    draw, latest = answers.draw, answers.latest
    bands = len(draw.ends)
    totals = {"yes": np.zeros(bands), "no": np.zeros(bands)}
    for place, answer in latest.items():
        if answer in totals:
            totals[answer][draw.stratum[place]] += 1
    sizes = np.diff(np.array(draw.ends, dtype=np.float64), prepend=0)
    counts = Counts(sizes, np.array(draw.labelled, dtype=np.float64), totals["yes"], totals["no"])
    seen = max(latest, default=-1) + 1
    return counts, seen - int((counts.yes + counts.no).sum())


def _share(positives: Array, summary: Summary) -> Share:
    """The share of positives in the population, from draws of their number among unlabeled rows."""
    low, value, high = np.quantile(_of_population(positives, summary), [TAIL, 0.5, 1 - TAIL])
    return {"value": float(value), "low": float(low), "high": float(high)}


def _of_population(positives: Array, summary: Summary) -> Array:
    """Confirmed positives of earlier reviews are positives, too."""
    table = summary["table"]
    found = positives + (summary["reviewed"]["positive"] if summary["reviewed"] else 0)
    if summary["scenario"] == "single-sample":
        return np.asarray((table["labelled"] + found) / table["rows"])
    return np.asarray(found / (table["rows"] - table["labelled"]))


def _by_design(counts: Counts, summary: Summary) -> Share | None:
    answered = counts.yes + counts.no
    if not answered.all():
        return None
    ends = by_design(counts)
    estimate = (counts.size * counts.yes / answered).sum()
    low, value, high = _of_population(np.array([ends[0], np.clip(estimate, *ends), ends[1]]), summary)
    return {"value": float(value), "low": float(low), "high": float(high)}


def _depths(ends: list[int], found: Posterior) -> list[MeasuredDepth]:
    so_far = np.cumsum(found.positives, axis=1)
    points = [TAIL, 0.5, 1 - TAIL]
    precision = np.quantile(so_far / ends, points, axis=0)
    recall = np.quantile(so_far / np.maximum(so_far[:, -1:], 1), points, axis=0)
    return [
        {
            "k": k,
            "precision": float(precision[1, i]),
            "precision_low": float(precision[0, i]),
            "precision_high": float(precision[2, i]),
            "recall": float(recall[1, i]),
            "recall_low": float(recall[0, i]),
            "recall_high": float(recall[2, i]),
        }
        for i, k in enumerate(ends)
    ]


def _bands(ends: list[int], counts: Counts, random: Posterior) -> list[MeasuredBand]:
    expected = np.median(random.positives, axis=0) / counts.size
    bands: list[MeasuredBand] = []
    for i, (size, _, yes, no) in enumerate(zip(*counts, strict=True)):
        low, high = band_by_design(size, yes, no)
        bands.append(
            {
                "first": ends[i] - int(size) + 1,
                "last": ends[i],
                "answered": int(yes + no),
                "yes": int(yes),
                "low": float(low / size),
                "high": float(high / size),
                "expected": float(expected[i]),
            }
        )
    return bands


def _random_labelling(found: Posterior) -> RandomLabelling:
    """With random labelling, the slope is 1."""
    flat, steep = float((found.slope < 1).mean()), float((found.slope > 1).mean())
    p_value = min(1.0, 2 * min(flat, steep))
    if p_value > REJECTED:
        text = "The answers fit random labelling. They cannot rule out a small bias."
    elif flat > steep:
        text = (
            "Labelling looks biased: deep in the ranking there are more positives than the labelled rows suggest. The "
            "true recall is below the estimated one."
        )
    else:
        text = (
            "Labelling looks biased: positives crowd at the top of the ranking more than the labelled rows suggest. "
            "The true recall is above the estimated one."
        )
    return {"p_value": p_value, "rejected": p_value <= REJECTED, "text": text}


def _is_narrow(share: Share) -> bool:
    return (share["high"] - share["low"]) / 2 <= NARROW * share["value"]


def _warnings(n_answers: int, skipped: int) -> list[str]:
    if skipped <= 0.1 * (n_answers + skipped):
        return []
    return [
        f"{skipped} of {n_answers + skipped} rows were skipped. If these are more often or less often positive than "
        "the others, all measured figures are wrong by that."
    ]


def population(summary: Summary) -> str:
    """What the share of positives is a share of."""
    return "all rows" if summary["scenario"] == "single-sample" else "the unlabeled rows"


def lines(result: Measured, summary: Summary) -> Iterator[str]:
    """The result as text."""
    skipped = f", {result['skipped']} skipped" if result["skipped"] else ""
    yield f"{result['answers']} answers: {result['yes']} yes, {result['no']} no{skipped}"
    yield f"{_words(result['prior'])} of {population(summary)} are positive"
    if result["prior_by_design"]:
        yield f"{_words(result['prior_by_design'])} with no assumption at all"
    for depth in result["review"]:
        precision = _words({name: depth[f"precision{end}"] for name, end in _ENDS.items()})  # type: ignore[literal-required,arg-type]
        yield f"first {depth['k']:,}: {precision} are positive"
    yield result["random_labelling"]["text"]
    for text in result["warnings"]:
        yield f"! {text}"


_ENDS = {"value": "", "low": "_low", "high": "_high"}


def _words(share: Share) -> str:
    return f"{share['value']:.3f}, between {share['low']:.3f} and {share['high']:.3f},"
