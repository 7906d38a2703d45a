"""What is written down of a fit: the data of the report, and the candidates."""

import datetime
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pulab import __version__
from pulab.calibration import PUCalibrator, among_unlabeled
from pulab.model_selection import logits_of
from pulab.priors import PriorEstimate
from pulab.summary import Candidate, Curve, Summary, Table
from pulab.summary import Column as ColumnSummary
from pulab.tables import _evaluate as evaluate
from pulab.tables._features import Features
from pulab.tables._kinds import Column, in_the_way
from pulab.tables._labels import LabelColumn
from pulab.tables._model import beside
from pulab.tables._work import Choice, CrossFit, Views

Array = NDArray[np.float64]
Marks = NDArray[np.bool_]
TOP = 100  # candidates that stability is about, or all that are called positive where they are more
KEPT = 1000  # candidates that are written down, or all that are called positive where they are more


class TableData(NamedTuple):
    """A table behind the door: columns of known kinds, which rows are labelled, and what was left out."""

    name: str
    frame: pl.DataFrame
    columns: list[Column]
    notes: dict[str, str]  # why a column was left out
    label: LabelColumn
    labelled: Marks
    id: str | None
    dots: dict[str, str]  # columns of numbers whose dots may mark thousands, with such a number

    @property
    def n_labelled(self) -> int:
        """How many rows are labelled."""
        return int(self.labelled.sum())

    @property
    def n_unlabeled(self) -> int:
        """How many are not."""
        return len(self.labelled) - self.n_labelled

    @property
    def mark(self) -> str:
        """What marks a known positive."""
        return f"{self.label.name} = {self.label.positive}"

    @property
    def counts(self) -> str:
        """Both, in words."""
        return f"{self.n_labelled:,} labelled, {self.n_unlabeled:,} unlabeled"


class Asked(NamedTuple):
    """What the caller asked for, and when."""

    method: str
    prior: float | str
    scenario: str
    random_state: int
    started: float


def summarise(
    asked: Asked,
    data: TableData,
    X: Views,
    prior: PriorEstimate,
    choice: Choice,
    found: CrossFit,
    classifier: Any,
    calibrator: PUCalibrator,
) -> tuple[Summary, pl.DataFrame]:
    """All that held-out scores tell, and the unlabeled rows with the highest of them."""
    labelled, scenario = data.labelled, asked.scenario
    rng = np.random.default_rng(asked.random_state)
    probability = calibrator(found.scores)
    of_unlabeled = among_unlabeled(
        probability[~labelled],
        prior=prior.prior,
        n_labeled=data.n_labelled,
        n_unlabeled=data.n_unlabeled,
        scenario=scenario,
    )
    k = min(max(TOP, int((probability[~labelled] > 0.5).sum())), data.n_unlabeled)
    candidates = _candidates(data, found, probability[~labelled], of_unlabeled, k)
    parts = [
        evaluate.Part(X.numbers[held], labelled[held], partial(_scores, model, X, choice.method))
        for model, held in zip(found.models, found.held_out, strict=True)
    ]
    important = evaluate.importances(parts, X.features.groups(), rng)
    bias = evaluate.labelling_bias(X.filled(), labelled, of_unlabeled, rng)
    doubts = [f"Class prior: {text}." for text in prior.details.get("warnings", [])]
    doubts += _misread(data, X.features)
    doubts += evaluate.oddities(labelled, found.scores, probability, prior, scenario, important)
    summary: Summary = {
        "pulab": __version__,
        "created": datetime.date.today().isoformat(),
        "table": _about(data, X.features),
        "scenario": scenario,
        "prior": {
            "value": prior.prior,
            "interval": list(prior.interval),
            "source": "estimated" if asked.prior == "estimate" else "given",
            "methods": prior.details.get("methods", {}),
            "warnings": prior.details.get("warnings", []),
            "agree": prior.agree,
        },
        "method": {
            "key": choice.method,
            "class": type(classifier).__name__,
            "asked": asked.method,
            "why": choice.why,
            "compared": choice.compared,
            "settings": _settings(classifier),
        },
        "folds": len(found.models),
        "metrics": evaluate.figures(labelled, probability, prior, scenario),
        "distributions": evaluate.distributions(labelled, probability),
        "review": evaluate.review(labelled, found.scores, prior, scenario, rng),
        "curves": _curves(classifier),
        "features": important,
        "stability": {"k": k, "mean": float(candidates["stability"].head(k).to_numpy().mean())},
        "candidates": _shown_candidates(candidates, data, [item["name"] for item in important[:5]]),
        "warnings": [*doubts, *([bias] if bias else [])],
        "seconds": time.perf_counter() - asked.started,
        "random_state": asked.random_state,
    }
    return cast(Summary, _plain(summary)), candidates


def _scores(model: Any, X: Views, method: str, rows: Any) -> Array:
    return logits_of(model, rows if X.takes_gaps(method) else X.features.filled(rows))


def _candidates(data: TableData, found: CrossFit, probability: Array, of_unlabeled: Array, k: int) -> pl.DataFrame:
    """The unlabeled rows with the highest held-out scores, with all their columns."""
    scores = found.scores[~data.labelled]
    order = np.lexsort((-scores, -probability))[: max(KEPT, k)]
    rows = np.flatnonzero(~data.labelled)[order]
    head = pl.DataFrame(
        {
            "rank": np.arange(1, len(rows) + 1),
            **({"row": rows + 1} if data.id is None else {data.id: data.frame[data.id][rows]}),
            "score": scores[order],
            "probability": probability[order],
            "probability_unlabeled": of_unlabeled[order],
            "decision": probability[order] > 0.5,
            "stability": evaluate.stability(found.refits, order, k),
        }
    )
    return beside(head, data.frame[rows].drop(data.label.name))


def _shown_candidates(ranked: pl.DataFrame, data: TableData, important: Sequence[str]) -> list[Candidate]:
    name = data.id or "row"
    return [
        {
            "rank": row["rank"],
            "id": str(row[name]),
            "probability": row["probability_unlabeled"],
            "score": row["score"],
            "decision": row["decision"],
            "stability": row["stability"],
            "values": {column: _short(row.get(f"{column} (in the table)", row.get(column))) for column in important},
        }
        for row in ranked.head(50).with_columns(pl.selectors.temporal().cast(pl.String)).iter_rows(named=True)
    ]


def _short(value: Any) -> str:
    text = "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 200 else text[:199] + "…"


def _about(data: TableData, features: Features) -> Table:
    kinds = features.kinds()
    used = set(features.groups())
    n_p = int(data.labelled.sum())
    columns: list[ColumnSummary] = []
    for name in data.frame.columns:
        if name in (data.label.name, data.id):
            continue
        note = data.notes.get(name) or ("" if name in used else "nothing to learn from was found in it")
        kind = "left out" if note else kinds.get(name, "")
        values = data.frame[name]
        gaps = values.null_count() + (int(values.is_nan().sum()) if values.dtype.is_float() else 0)
        columns.append({"name": name, "kind": kind, "missing": gaps / data.frame.height, "note": note})
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


def _misread(data: TableData, features: Features) -> list[str]:
    """Columns that were taken for words, but were meant for numbers."""
    words = [name for name, kind in features.kinds().items() if kind in ("category", "text")]
    odd = {name: in_the_way(data.frame[name]) for name in words}
    return [
        f"Column {name!r} looks like numbers or dates, but was read as words because of values such as {value!r}. "
        "Write 1234.5 and 2024-12-31, leave gaps empty, and fit again."
        for name, value in odd.items()
        if value is not None
    ] + [
        f"Column {name!r} holds numbers such as {value}: they were read with a decimal point. If dots mark thousands, "
        "write them without."
        for name, value in data.dots.items()
    ]


def _settings(classifier: Any) -> dict[str, Any]:
    """What was set or left at its default, but for what is said elsewhere; and which backend was used."""
    elsewhere = ("prior", "scenario", "random_state", "verbose", "n_jobs", "module", "estimator", "device")
    found = {name: value for name, value in classifier.get_params(deep=False).items() if name not in elsewhere}
    if hasattr(classifier, "backend_"):
        found["backend"] = classifier.backend_
        found["trees"] = classifier.best_iteration_
    if hasattr(classifier, "best_epoch_"):
        found["best_epoch"] = classifier.best_epoch_
    return found


def _curves(model: Any) -> list[Curve]:
    """How training went, where a method has anything to show of it."""
    history = getattr(model, "history_", [])
    unit = "trees" if hasattr(model, "best_iteration_") else "epochs"
    best = getattr(model, "best_epoch_", None)
    names = {
        "loss": "training loss",
        "val_risk": "held-out PU risk" + (", in the last fold" if unit == "trees" else ""),
    }
    return [
        {"name": text, "unit": unit, "values": [record[name] for record in history], "best": best}
        for name, text in names.items()
        if history and history[0].get(name) is not None
    ]


def _plain(value: Any) -> Any:
    """Values as JSON has them: no numpy, no NaN."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return float(f"{value:.6g}") if np.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
