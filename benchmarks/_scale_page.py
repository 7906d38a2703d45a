"""The tables of docs/scale.md, from the rows of benchmarks/scaling.py."""

from collections.abc import Callable
from statistics import median
from typing import Any

from pulab.bench import committed_rows, read_rows
from pulab.nets import default_net
from pulab.report.tables import markdown

FEATURES, RANKS, CORES, ROWS, EPOCHS, BATCH, RING, HELD_OUT = 28, 64, 64, 10**9, 20, 65_536, 10, 0.2


def _latest() -> dict[tuple[str, int], dict[str, Any]]:
    rows = read_rows([committed_rows() / "performance" / "scaling.jsonl"])
    return {(row["what"], row["size"]): row for row in rows}


def workers() -> str:
    """Medians of the rounds of the latest commit that has one and two workers."""
    rows = [row for row in read_rows([committed_rows() / "performance" / "scaling.jsonl"]) if "workers" in row]
    if not rows:
        return "Not measured yet: the goal is 80 %."
    commits = [(row["commit"] or "").removesuffix("-dirty") for row in rows]
    found: dict[tuple[str, int], dict[int, list[dict[str, Any]]]] = {}
    for row in (row for row, at in zip(rows, commits, strict=True) if at == commits[-1]):
        found.setdefault((row["what"], row["size"]), {1: [], 2: []})[row["workers"]].append(row)
    lines = []
    for (what, size), turns in found.items():
        if not (turns[1] and turns[2]):
            continue
        one, two = (median(row["seconds"] for row in turns[n]) for n in (1, 2))
        plain = what == "plain"  # each process makes all trials, so two make twice the work
        efficiency = one / two if plain else one / two / 2
        goal = "" if plain else "met" if efficiency >= 0.8 else "**missed**"
        name = "trials without Ray, in each process" if plain else what
        load = max(row["load"] for row in turns[1] + turns[2])
        rounds = min(len(turns[1]), len(turns[2]))
        lines.append(
            [name, f"{size:,}", f"{one:.3g}", f"{two:.3g}", f"{efficiency:.0%}", goal, str(rounds), f"{load:.3g}"]
        )
    header = ["what", "runs or rows", "1 worker, s", "2 workers, s", "efficiency", "goal of 80 %", "rounds", "load"]
    return markdown(header, lines)


def rows() -> str:
    found = _latest()
    lines = []
    for (what, size), row in found.items():
        if what not in ("score rows", "train rows"):
            continue
        took = row["cpu_seconds"] if what == "score rows" else row["epoch_cpu_seconds"]
        name = "score" if what == "score rows" else "`joint`, an epoch"
        lines.append([name, f"{size:,}", f"{took:.3g}", f"{1e6 * took / size:.3g}", f"{row['peak_gib']:.3g}"])
    return markdown(["what", "rows", "CPU seconds", "s a million rows", "GiB at the peak"], lines)


def plan() -> str:
    """10⁹ rows, from the seconds per row of the largest measurement of each kind."""
    found = _latest()

    def per_row(what: str, column: str) -> float:
        size = max(n for name, n in found if name == what)
        return float(found[what, size][column]) / size

    weights = sum(p.numel() for p in default_net((FEATURES,)).parameters())
    scoring = per_row("score rows", "cpu_seconds") * ROWS
    epoch = per_row("train rows", "epoch_cpu_seconds") * ROWS
    n_u, gib = ROWS * (1 - HELD_OUT), 2**30
    steps = n_u / BATCH
    lines = [
        ["scoring, one core", f"{scoring / 3600:.3g} h"],
        [f"scoring, {CORES} cores at 80 %", f"{scoring / CORES / 0.8 / 60:.3g} min"],
        ["an epoch of `joint`, one core", f"{epoch / 3600:.3g} h"],
        [f"{EPOCHS} epochs, {RANKS} processes of one core at 80 %", f"{EPOCHS * epoch / RANKS / 0.8 / 3600:.3g} h"],
        [
            "a process: numbers of all rows, and their order in an epoch",
            f"{(1 * ROWS + 8 * ROWS + 16 * n_u) / gib:.3g} GiB",
        ],
        ["a process: labels and r = 10 predictions of its rows", f"{4 * (RING + 2) * n_u / RANKS / gib:.3g} GiB"],
        [
            "a process: a batch, its logits and the weights",
            f"{4 * (BATCH / RANKS * FEATURES + 2 * BATCH + 5 * weights) / 2**20:.3g} MiB",
        ],
        [f"disk of a process, {FEATURES} features", f"{12 * FEATURES * ROWS / RANKS / gib:.3g} GiB"],
        [f"steps of an epoch, batches of {BATCH:,}", f"{steps:,.0f}"],
        ["network of a process and a step: gradients of the default network", f"{2 * 4 * weights / 1024:.3g} KiB"],
        ["network of a process and a step: logits and labels of U", f"{2 * 4 * BATCH / 1024:.3g} KiB"],
    ]
    return markdown(["what", "how much"], lines)


TABLES: dict[str, Callable[[], str]] = {"workers": workers, "rows": rows, "plan": plan}
