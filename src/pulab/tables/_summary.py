"""What is written down of a fit: the data of the report, and the candidates."""

import datetime
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pulab import __version__
from pulab.calibration import PUCalibrator, among_unlabeled
from pulab.priors import PriorEstimate
from pulab.tables import _evaluate as evaluate
from pulab.tables._features import Features
from pulab.tables._frame import Column
from pulab.tables._labels import LabelColumn
from pulab.tables._model import raw_scores
from pulab.tables._work import Choice, CrossFit, Views

Array = NDArray[np.float64]
Marks = NDArray[np.bool_]
TOP = 100  # candidates that stability is about, or all that are called positive where they are more
KEPT = 1000  # candidates that are written down


class TableData(NamedTuple):
    """A table behind the door: columns of known kinds, which rows are labelled, and what was left out."""

    name: str
    frame: pl.DataFrame
    columns: list[Column]
    notes: dict[str, str]  # why a column was left out
    label: LabelColumn
    labelled: Marks
    id: str | None

    @property
    def n_labelled(self) -> int:
        """How many rows are labelled."""
        return int(self.labelled.sum())

    @property
    def n_unlabeled(self) -> int:
        """How many are not."""
        return len(self.labelled) - self.n_labelled

    @property
    def counts(self) -> str:
        """Both, in words."""
        return f"{self.n_labelled:,} labelled, {self.n_unlabeled:,} unlabeled"


def summarise(
    data: TableData,
    X: Views,
    prior: PriorEstimate,
    scenario: str,
    choice: Choice,
    found: CrossFit,
    calibrator: PUCalibrator,
    rng: np.random.Generator,
) -> tuple[dict[str, Any], pl.DataFrame]:
    """All that held-out scores tell, and the unlabeled rows with the highest of them."""
    labelled = data.labelled
    probability = calibrator(found.scores)
    ranked = _ranked(data, found, probability, prior.prior, scenario)
    model, held = found.models[0], found.held_out[0]
    important = evaluate.importances(
        lambda rows: raw_scores(model, rows), X.of(choice.method)[held], labelled[held], X.features.groups(), rng
    )
    doubts = evaluate.oddities(labelled, found.scores, probability, prior, scenario, important)
    bias = evaluate.labelling_bias(X.filled(), labelled, probability, rng)
    summary = {
        "pulab": __version__,
        "created": datetime.date.today().isoformat(),
        "table": _about(data, X.features),
        "scenario": scenario,
        "prior": {
            "value": prior.prior,
            "interval": list(prior.interval),
            "methods": prior.details.get("methods", {}),
            "warnings": prior.details.get("warnings", []),
        },
        "method": {"key": choice.method, "why": choice.why, "compared": choice.compared},
        "folds": len(found.models),
        "metrics": evaluate.figures(labelled, probability, prior, scenario),
        "distributions": evaluate.distributions(labelled, probability),
        "review": evaluate.review(labelled, found.scores, prior, scenario, rng),
        "curves": _curves(model),
        "features": important,
        "stability": {"k": ranked.k, "mean": float(ranked.frame["stability"].head(ranked.k).to_numpy().mean())},
        "candidates": _shown_candidates(ranked.frame, data, [item["name"] for item in important[:5]]),
        "warnings": [*doubts, *([bias] if bias else []), *_left_out(data)],
    }
    return summary, ranked.frame


class Ranked(NamedTuple):
    """The unlabeled rows with the highest held-out scores, and how many of them stability is about."""

    frame: pl.DataFrame
    k: int


def _ranked(data: TableData, result: CrossFit, probability: Array, prior: float, scenario: str) -> Ranked:
    unlabeled = np.flatnonzero(~data.labelled)
    scores = result.scores[unlabeled]
    n_u = len(unlabeled)
    probability = among_unlabeled(
        probability[unlabeled], prior=prior, n_labeled=len(data.labelled) - n_u, n_unlabeled=n_u, scenario=scenario
    )
    order = np.lexsort((-scores, -probability))[:KEPT]
    k = min(max(TOP, int((probability > 0.5).sum())), n_u)
    rows = unlabeled[order]
    stable = evaluate.stability(result.refits, order, k)
    name = {"row": rows + 1} if data.id is None else {data.id: data.frame[data.id][rows]}
    head = pl.DataFrame(
        {
            "rank": np.arange(1, len(rows) + 1),
            **name,
            "score": scores[order],
            "probability": probability[order],
            "decision": probability[order] > 0.5,
            "stability": stable,
        }
    )
    rest = data.frame[rows].select(c for c in data.frame.columns if c not in (*head.columns, data.label.name))
    return Ranked(pl.concat([head, rest], how="horizontal"), k)


def _shown_candidates(ranked: pl.DataFrame, data: TableData, important: Sequence[str]) -> list[dict[str, Any]]:
    name = data.id or "row"
    return [
        {
            "rank": row["rank"],
            "id": str(row[name]),
            "probability": row["probability"],
            "score": row["score"],
            "decision": row["decision"],
            "stability": row["stability"],
            "values": {column: _short(row.get(column)) for column in important if column in row},
        }
        for row in ranked.head(50).iter_rows(named=True)
    ]


def _short(value: Any) -> str:
    text = "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 200 else text[:199] + "…"


def _about(data: TableData, features: Features) -> dict[str, Any]:
    kinds = features.kinds()
    used = set(features.groups())
    n_p = int(data.labelled.sum())
    columns = []
    for name in data.frame.columns:
        if name in (data.label.name, data.id):
            continue
        note = data.notes.get(name) or ("" if name in used else "it carries one value")
        kind = "left out" if note else kinds.get(name, "")
        missing = float(data.frame[name].null_count()) / data.frame.height
        columns.append({"name": name, "kind": kind, "missing": missing, "note": note})
    return {
        "name": data.name,
        "rows": data.frame.height,
        "labelled": n_p,
        "unlabeled": data.frame.height - n_p,
        "label": data.label.name,
        "positive": data.label.positive,
        "id": data.id,
        "columns": columns,
    }


def settings(classifier: Any) -> dict[str, Any]:
    """What was set or left at its default, but for what is said elsewhere; and which backend was used."""
    elsewhere = ("prior", "scenario", "random_state", "verbose", "n_jobs", "module", "estimator", "device")
    found = {name: value for name, value in classifier.get_params(deep=False).items() if name not in elsewhere}
    if hasattr(classifier, "backend_"):
        found["backend"] = classifier.backend_
        found["trees"] = classifier.best_iteration_
    if hasattr(classifier, "best_epoch_"):
        found["best_epoch"] = classifier.best_epoch_
    return found


def _curves(model: Any) -> list[dict[str, Any]]:
    """How training went, where a method has anything to show of it."""
    history = getattr(model, "history_", [])
    unit = "trees" if hasattr(model, "best_iteration_") else "epochs"
    risks = [record.get("val_risk") for record in history]
    best = 1 + int(np.argmin(risks)) if risks and None not in risks else None
    names = {"loss": "training loss", "val_risk": "held-out PU risk"}
    return [
        {"name": text, "unit": unit, "values": [record[name] for record in history], "best": best}
        for name, text in names.items()
        if history and history[0].get(name) is not None
    ]


def _left_out(data: TableData) -> list[str]:
    return [f"Column {name!r} was left out: {note}." for name, note in data.notes.items()]


def sentences(messages: Sequence[str]) -> list[str]:
    """Warnings once each, as sentences."""
    return [text[:1].upper() + text[1:] for text in dict.fromkeys(messages)]


def plain(value: Any) -> Any:
    """Values as JSON has them: no numpy, no NaN."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return float(f"{value:.6g}") if np.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
