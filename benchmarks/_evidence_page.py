"""The tables of docs/evidence.md, from the rows in results/evidence/. docs/render.py writes them into the page."""

import runpy
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

from pulab.bench import Row, committed_rows, read_rows
from pulab.report.tables import markdown

Claim = dict[str, Any]
BEFORE, NOW = "before", "now"
NOT_RUN = "not run yet"
NAMES = {
    "roc_auc": "ROC AUC",
    "average_precision": "average precision",
    "lee_liu": "Lee and Liu's score",
    "f1": "F1",
}
MEASURED = "share, measured"


def rows_of(file: str, labelling: str = "random") -> list[Row]:
    """The rows of a run, one per table and draw; none if it was not run. A later row of a draw replaces an earlier."""
    path = committed_rows() / "evidence" / f"{file}.jsonl"
    rows = read_rows([path]) if path.exists() else []
    return list({(row["table"], row["seed"]): row for row in rows if row["labelling"] == labelling}.values())


def bounded(item: Claim) -> bool:
    """Whether an interval is stated."""
    return item["low"] is not None and item["high"] is not None


def covered(item: Claim) -> bool:
    """Whether the stated interval has the truth, give or take chance where the claim allows for it."""
    slack = item.get("chance", 0) + 1e-9
    return bounded(item) and bool(item["low"] - slack <= item["truth"] <= item["high"] + slack)


def claims(rows: Iterable[Row], what: str | None = None) -> list[Claim]:
    """The intervals that rows state: all of them, or those of one figure."""
    stated = [item for row in rows for item in row["claims"] if bounded(item)]
    return [item for item in stated if what in (None, item["what"])]


def held(items: list[Claim]) -> str:
    """How many intervals have the truth."""
    if not items:
        return "–"
    n = sum(map(covered, items))
    return f"{n} of {len(items)} ({n / len(items):.0%})"


def wide(items: list[Claim]) -> str:
    """The median width of intervals."""
    return f"{median(item['high'] - item['low'] for item in items):.2f}" if items else "–"


def coverage(*runs: tuple[str, str]) -> str:
    """A line per figure: how many of its intervals have the truth, and their median width; columns by run."""
    of_runs = [rows_of(*run) for run in runs]
    whats = list(dict.fromkeys(item["what"] for rows in of_runs for item in claims(rows)))
    if not whats:
        return NOT_RUN
    lines = []
    for what in [*whats, None]:
        cells = [text for rows in of_runs for text in (held(claims(rows, what)), wide(claims(rows, what)))]
        if what is None:
            cells[1::2] = [""] * len(of_runs)  # a width over different figures means nothing
        lines.append(["**all**" if what is None else NAMES.get(what, what), *cells])
    names = [run[0] if len({run[0] for run in runs}) > 1 else run[1] for run in runs]
    return markdown(["figure", *(text for name in names for text in (f"{name}: has the truth", "width"))], lines)


def sources() -> str:
    """The tables: where they come from, and what their positives are."""
    sizes = {row["table"]: row for file in (BEFORE, NOW) for row in rows_of(file)}
    lines = []
    for table in runpy.run_path(str(Path(__file__).with_name("_real_tables.py")))["TABLES"]:
        row = sizes.get(table.name)
        numbers = [f"{row['rows']:,}", f"{row['labelled']:,}", f"{row['share']:.3f}"] if row else [NOT_RUN, "", ""]
        lines.append([table.name, f"`{table.source}`", table.positives, *numbers])
    return markdown(["table", "source", "a positive", "rows", "labelled", "true share"], lines)


def by_name(rows: list[Row]) -> dict[str, list[Row]]:
    """The rows of each table."""
    return {name: [row for row in rows if row["table"] == name] for name in dict.fromkeys(row["table"] for row in rows)}


def by_table(file: str) -> str:
    """A line per table: what was stated, as the median over draws, and what is true."""
    rows = rows_of(file)
    if not rows:
        return NOT_RUN
    lines = []
    for name, own in by_name(rows).items():
        first = "precision of the first 100"
        lines.append(
            [
                name,
                f"{own[0]['share']:.3f}",
                stated(own, "share of positives"),
                "–" if own[0]["evident"] is None else f"{sum(row['evident'] for row in own)} of {len(own)}",
                stated(own, first),
                f"{fmean(row['hits'] for row in own) / 100:.2f}",
                f"{fmean(row['plain_hits'] for row in own) / 100:.2f}",
                f"{fmean(row['auc'] for row in own):.3f}",
                ", ".join(f"`{key}`" for key in sorted({row["chosen"] for row in own})),
                held(claims(own)),
                f"{fmean(row['cpu_seconds'] for row in own):.0f}",
            ]
        )
    head = ["table", "true share", "stated", "evident", "first 100, stated", "true", "plain", "ROC AUC", "chosen"]
    return markdown([*head, "intervals that hold", "CPU s"], lines)


def stated(rows: list[Row], what: str) -> str:
    """The median ends of a figure's intervals over draws."""
    items = claims(rows, what)
    return f"{median(i['low'] for i in items):.3f} to {median(i['high'] for i in items):.3f}" if items else "–"


def misses(file: str) -> str:
    """A line per table and figure whose interval lacks the truth in some draw, with the worst of them."""
    rows = rows_of(file)
    if not rows:
        return NOT_RUN
    lines = []
    for name, own in by_name(rows).items():
        for what in dict.fromkeys(item["what"] for item in claims(own)):
            items = claims(own, what)
            missed = [item for item in items if not covered(item)]
            if missed:
                worst = max(missed, key=lambda item: max(item["low"] - item["truth"], item["truth"] - item["high"]))
                interval = f"{worst['low']:.3f} to {worst['high']:.3f}"
                times = f"{len(missed)} of {len(items)}"
                lines.append([name, NAMES.get(what, what), times, interval, f"{worst['truth']:.3f}"])
    return markdown(["table", "figure", "misses", "the worst: stated", "true"], lines) if lines else "None."


def points(what: str = "precision of the first 100") -> str:
    """How often a figure is stated as one number, and how wrong it is then."""
    lines = []
    for file in (BEFORE, NOW):
        rows = rows_of(file)
        if not rows:
            continue
        items = [item for row in rows for item in row["claims"] if item["what"] == what and item["value"] is not None]
        errors = [item["value"] - item["truth"] for item in items]
        error = [f"{fmean(map(abs, errors)):.2f}", f"{max(errors):.2f}"] if items else ["–", "–"]
        lines.append([file, f"{len(items)} of {len(rows)}", *error])
    if not lines:
        return NOT_RUN
    return markdown(["", f"fits that state the {what} as one number", "mean error", "most above the truth"], lines)


def against_plain() -> str:
    """The ranking against a plain boosted classifier."""
    rows = rows_of(NOW) or rows_of(BEFORE)
    if not rows:
        return NOT_RUN
    names = list(dict.fromkeys(row["table"] for row in rows))
    gains = {name: [row["hits"] - row["plain_hits"] for row in rows if row["table"] == name] for name in names}
    means = {name: fmean(values) for name, values in gains.items()}
    worst = sorted(means, key=lambda name: means[name])[:3]
    shown = ", ".join(f"{name} ({means[name]:+.1f})" for name in worst)
    return (
        f"The first 100 candidates hold {fmean(row['hits'] for row in rows):.1f} positives in the mean, those of plain "
        f"LightGBM {fmean(row['plain_hits'] for row in rows):.1f} (n = {len(rows)} fits of {len(names)} tables). Over "
        f"the draws of a table pulab finds more on {sum(mean > 0 for mean in means.values())} tables, fewer on "
        f"{sum(mean < 0 for mean in means.values())}. Its lowest differences: {shown}."
    )


def after_answers() -> str:
    """The share of positives before and after answers: coverage, and how much narrower its interval is."""
    pairs = []
    for row in rows_of(NOW):
        by_name = {item["what"]: item for item in claims([row])}
        if MEASURED in by_name:
            pairs.append((by_name["share of positives"], by_name[MEASURED]))
    if not pairs:
        return NOT_RUN
    ratios = [(after["high"] - after["low"]) / max(start["high"] - start["low"], 1e-9) for start, after in pairs]
    return (
        f"After 100 answers the interval of the share has the truth in {held([after for _, after in pairs])} fits. Its "
        f"width is {median(ratios):.2f} of the width before in the median, and at most half of it in "
        f"{sum(ratio <= 0.5 for ratio in ratios)} of {len(ratios)}."
    )


def seconds() -> str:
    """CPU seconds before and now, on the tables that both runs have."""
    means: list[dict[str, float]] = []
    for file in (BEFORE, NOW):
        by_name: dict[str, list[float]] = {}
        for row in rows_of(file):
            by_name.setdefault(row["table"], []).append(row["cpu_seconds"])
        means.append({name: fmean(values) for name, values in by_name.items()})
    both = [name for name in means[0] if name in means[1]]
    if not both:
        return NOT_RUN
    before, now = (sum(mean[name] for name in both) for mean in means)
    return (
        f"On the {len(both)} tables of both runs a fit takes {now / len(both):.0f} CPU seconds in the mean; before, it "
        f"took {before / len(both):.0f} ({now / before:.2f} of that)."
    )


TABLES: dict[str, Callable[[], str]] = {
    "coverage": partial(coverage, (BEFORE, "random"), (NOW, "random")),
    "points": points,
    "by-table": partial(by_table, NOW),
    "by-table-before": partial(by_table, BEFORE),
    "misses": partial(misses, NOW),
    "plain": against_plain,
    "answers": after_answers,
    "biased": partial(coverage, (NOW, "biased"), (NOW, "told")),
    "seconds": seconds,
    "sources": sources,
}
