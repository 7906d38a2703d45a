"""Tables of docs/defaults.md: the defaults beside other libraries and plain classifiers, from the committed rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pulab.bench import committed_rows, read_rows
from pulab.report.tables import markdown

Row = dict[str, Any]
Place = tuple[str, float, str, int]
BEFORE = " (before)"
NOT_RUN = "Not run yet."
METHODS = ("joint", "nnpu", "bagging", "boosting", "nnpu-boosting", "elkan-noto")
OTHERS = ("lightgbm-cut", "logistic-cut", "pulearn-elkan-noto", "pulearn-bagging", "pulearn-nnpu")
CHANGED = ("joint", "nnpu", "bagging", "nnpu-boosting")
SETTINGS = {
    "bagging (before)": ("bagging, leaf of n_p/20", "bagging, leaf of n_p/10", "bagging, leaf of n_p/5"),
    "nnpu-boosting (before)": (
        "nnpu-boosting", "nnpu-boosting, 4 leaves", "nnpu-boosting, 8 leaves", "nnpu-boosting, 31 leaves",
    ),
    "boosting": ("boosting, 31 leaves of 40, rate .03",),
    "joint (before)": ("joint", "joint, line", "joint, densities", "joint, cut"),
    "nnpu (before)": ("nnpu", "nnpu, line", "nnpu, densities", "nnpu, cut"),
}  # fmt: skip


def by_method(name: str) -> dict[str, dict[Place, Row]]:
    """The rows of a file by method and sample."""
    found: dict[str, dict[Place, Row]] = {}
    file = committed_rows() / "defaults" / f"{name}.jsonl"
    for row in read_rows([file] if file.is_file() else []):
        place = (row["dataset"], row["prior"], row["scenario"], row["seed"])
        found.setdefault(row["method"], {})[place] = row
    return found


def whole(found: dict[str, dict[Place, Row]]) -> list[Place]:
    """The samples that all methods have rows of."""
    if not set(METHODS + OTHERS) <= found.keys():
        return []
    shared = set.intersection(*(set(found[method]) for method in (*METHODS, *OTHERS)))
    return [place for place in found[METHODS[0]] if place in shared]


def errors(at: int | slice) -> str:
    """Mean test errors, a line per data set or per kind of sample, and one for all."""
    found = by_method("head-to-head")
    places = whole(found)
    if not places:
        return NOT_RUN
    shown = [method for method in ("bayes", *METHODS, *OTHERS) if method in found]
    keys = list(dict.fromkeys(place[at] for place in places))
    if isinstance(at, slice):
        keys.sort(key=lambda key: (key[1], key[0]))
    groups = [(_named(key), [place for place in places if place[at] == key]) for key in keys]
    lines = []
    for name, group in [*groups, ("**mean**", places)]:
        cells = [_mean(found[method], group) for method in shown]
        known = [cell for cell, method in zip(cells, shown, strict=True) if method != "bayes" and cell is not None]
        texts = ["–" if cell is None else _bold(cell, min(known)) for cell in cells]
        lines.append([name, *texts, len(group)])
    return markdown(["test error, %", *(f"`{method}`" for method in shown), "n"], lines)


def _named(key: Any) -> str:
    return key if isinstance(key, str) else f"{key[0]:g}, {key[1]}"


def _mean(rows: dict[Place, Row], group: Sequence[Place]) -> float | None:
    """The mean error, where every sample of the group has one."""
    values = [rows[place]["error"] for place in group if place in rows]
    return float(np.mean(values)) if len(values) == len(group) else None


def _bold(value: float, best: float) -> str:
    return f"**{value:.1f}**" if f"{value:.1f}" == f"{best:.1f}" else f"{value:.1f}"


def changes() -> str:
    """Each changed default against what it was, on the same held-out samples."""
    found = by_method("head-to-head")
    if not {method + BEFORE for method in CHANGED} <= found.keys():
        return NOT_RUN
    lines = [_compared(f"`{method}`", found[method], found[method + BEFORE]) for method in CHANGED]
    return markdown([*HEAD, "probabilities above .999, %", "positive among them, %"], lines)


HEAD = ["", "error, %", "difference", "AUC, difference", "log loss", "difference", "n"]


def _compared(name: str, new: dict[Place, Row], old: dict[Place, Row], sure: bool = True) -> list[str]:
    places = [place for place in new if place in old]
    cells = [
        name,
        f"{np.mean([old[p]['error'] for p in places]):.2f} → {np.mean([new[p]['error'] for p in places]):.2f}",
    ]
    cells += [_difference(new, old, places, "error", 2), _difference(new, old, places, "auc", 2)]
    with_loss = [place for place in places if "log_loss" in new[place]]
    if with_loss:
        means = [np.mean([rows[place]["log_loss"] for place in with_loss]) for rows in (old, new)]
        cells += [f"{means[0]:.3f} → {means[1]:.3f}", _difference(new, old, with_loss, "log_loss", 3)]
    else:
        cells += ["–", "–"]
    cells.append(str(len(places)))
    return [*cells, *_sure(new, old, places)] if sure else cells


def _difference(new: dict[Place, Row], old: dict[Place, Row], places: Sequence[Place], name: str, digits: int) -> str:
    values = np.array([new[place][name] - old[place][name] for place in places])
    return f"{values.mean():+.{digits}f} ± {values.std(ddof=1) / np.sqrt(len(values)):.{digits}f}"


def _sure(new: dict[Place, Row], old: dict[Place, Row], places: Sequence[Place]) -> list[str]:
    """The share of rows that are called sure, and how many of them are positive."""
    shares = [np.mean([rows[place]["sure"] for place in places]) for rows in (old, new)]
    right = [np.mean([rows[place]["sure_and_positive"] for place in places]) for rows in (old, new)]
    purity = [f"{100 * r / share:.0f}" if share else "–" for r, share in zip(right, shares, strict=True)]
    return [" → ".join(f"{100 * share:.1f}" for share in shares), " → ".join(purity)]


def development() -> str:
    """What was compared on the development sets, each setting against the old default."""
    found = by_method("development")
    lines = [_compared(name, found[name], found[old], sure=False) for old, names in SETTINGS.items() for name in names]
    return markdown(HEAD, lines)


TABLES = {
    "by-set": lambda: errors(0),
    "by-sample": lambda: errors(slice(1, 3)),
    "changes": changes,
    "development": development,
}
