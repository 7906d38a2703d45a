"""The results of a fit: the summary for the report, and the candidates."""

import datetime
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import polars as pl

from pulab import __version__
from pulab.errors import InputError
from pulab.metrics import Array
from pulab.priors import PriorEstimate
from pulab.report._words import headline_point
from pulab.summary import Candidate, Column, Curve, Decision, Labelling, Reviewed, ReviewPoint, Summary, Table, WhatIf
from pulab.tables import _evaluate as evaluate
from pulab.tables._columns import misfit
from pulab.tables._crossfit import Choice, HeldOut, Views
from pulab.tables._decide import Probabilities
from pulab.tables._features import Features
from pulab.tables._giveaways import SHOWN, giveaways, warnings_of
from pulab.tables._importances import importances, parts_of
from pulab.tables._model import REASONS, beside
from pulab.tables._prepare import Request, TableData
from pulab.tables._reasons import held_out_contributions, needs_occlusion, reason_columns, strongest
from pulab.tables._strata import Counted, learn_strata, stratum_of

# All rows that are called positive are candidates, even if they are more than this.
TOP = 100  # stability is about being among the first so many
KEPT = 1000  # candidates in the file; so many have reasons
TRIED = 5  # important columns along which the labelling may be biased


class Knowledge(NamedTuple):
    """What is known about the share of positives, and what follows from it."""

    prior: PriorEstimate
    used: float  # the prior that the methods were trained with
    probabilities: Probabilities
    decision: Decision


def summarise(
    request: Request,
    data: TableData,
    X: Views,
    knowledge: Knowledge,
    choice: Choice,
    held_out: HeldOut,
    classifier: Any,
    leading: Sequence[str],
) -> tuple[Summary, pl.DataFrame]:
    """The summary, from held-out scores, and the unlabeled rows with the highest of them.

    ``leading`` are the columns that are looked at one by one.
    """
    labelled, scenario, scores, strata = data.labelled, request.scenario, held_out.scores, held_out.strata
    prior, used, probabilities, decision = knowledge
    rng = np.random.default_rng(request.random_state)
    is_called = probabilities.called(scores, decision, None if strata is None else strata.of_row)
    n_called = 0 if is_called is None else int(is_called[data.open].sum())
    k = min(max(TOP, n_called), int(data.open.sum()))
    candidates = _candidates(data, X, held_out, knowledge, scenario, k, leading)
    groups = X.features.groups(X.of(choice.method).shape[1])
    parts = parts_of(X, choice.method, held_out, labelled)
    important = importances(parts, {name: groups[name] for name in leading}, rng)
    review = evaluate.review(labelled, scores, prior, scenario, [n_called] if n_called else [], data.answers, strata)
    warnings = list(data.warnings)
    warnings += [f"Share of positives: {text}." for text in prior.details.get("warnings", []) if prior.evident]
    warnings += _misread(data, X.features)
    found = giveaways(data.conformed, data.columns, labelled)
    warnings += warnings_of(found, labelled)
    warnings += evaluate.oddities(labelled, scores, is_called, prior, scenario, [] if found else important)
    summary: Summary = {
        "pulab": __version__,
        "created": datetime.date.today().isoformat(),
        "table": _about(data, X.features),
        "scenario": scenario,
        "labelling": _labelling(data, scores, strata, review, [item["name"] for item in important]),
        "prior": {
            "low": prior.interval[0],
            "high": prior.interval[1],
            "evident": prior.evident,
            "value": prior.value,
            "used": used,
            "source": prior.source,
            "methods": prior.details.get("methods", {}),
            "warnings": prior.details.get("warnings", []),
            "agree": prior.agree,
        },
        "method": {
            "key": choice.method,
            "class": type(classifier).__name__,
            "asked": request.method,
            "why": choice.why,
            "compared": choice.compared,
            "settings": _settings(classifier),
        },
        "decision": decision,
        "folds": len(held_out.models),
        "metrics": evaluate.figures(labelled, scores, is_called, prior, scenario, strata),
        "distributions": evaluate.distributions(labelled, scores),
        "review": review,
        "curves": _curves(classifier),
        "features": important,
        "wide": _wide(len(groups), len(leading), classifier),
        "stability": {"k": k, "mean": float(candidates["stability"].head(k).to_numpy().mean())},
        "candidates": _shown_candidates(candidates, data, [item["name"] for item in important[:5]]),
        "warnings": warnings,
        "seconds": time.perf_counter() - request.started,
        "random_state": request.random_state,
        "measured": None,
        "reviewed": _reviewed(data),
    }
    return cast(Summary, _plain(summary)), candidates


def _labelling(
    data: TableData, scores: Array, strata: Counted | None, review: list[ReviewPoint], important: Sequence[str]
) -> Labelling:
    """What is assumed about the labelled rows, and how much hangs on it if no column was named."""
    if data.strata is not None and strata is not None:
        by = [cells["name"] for cells in data.strata["columns"]]
        return {"by": by, "strata": strata.summary(data.strata), "what_if": None}
    k = headline_point(review)["k"]
    answers: list[WhatIf] = []
    for name in important[:TRIED]:
        try:
            of_row = stratum_of(learn_strata([name], data.conformed, data.columns, data.labelled), data.conformed)
        except InputError:  # too few labelled rows, or too many words
            continue
        answers.append(evaluate.what_if(data.labelled, scores, of_row, name, k))
    return {"by": [], "strata": [], "what_if": max(answers, key=lambda a: a["high"] - a["low"], default=None)}


def _candidates(
    data: TableData, X: Views, held_out: HeldOut, knowledge: Knowledge, scenario: str, k: int, leading: Sequence[str]
) -> pl.DataFrame:
    """The rows with neither a label nor an answer that have the highest held-out scores, with all their columns."""
    scores = held_out.scores[data.open]
    order = np.argsort(-scores, kind="stable")[: max(KEPT, k)]
    rows = np.flatnonzero(data.open)[order]
    counts = (data.n_labelled, data.n_unlabeled)
    of_row = None if held_out.strata is None else held_out.strata.of_row[rows]
    head = pl.DataFrame(
        {
            "rank": np.arange(1, len(rows) + 1),
            **({"row": rows + 1} if data.id is None else {data.id: data.frame[data.id][rows]}),
            "score": scores[order],
            **knowledge.probabilities.of_candidates(scores[order], knowledge.decision, *counts, scenario, of_row),
            "stability": evaluate.stability(held_out.of_open, order, k),
        }
    )
    best = rows[:KEPT]
    others = np.flatnonzero(~data.labelled)
    effects = held_out_contributions(held_out.models, held_out.rows, X.features, X.numbers, best, others, leading)
    reasons = reason_columns(strongest(effects, list(X.features.groups()), data.frame[best]))
    reasons = pl.concat([reasons, reasons.clear(len(rows) - len(best))])  # the others have none
    head = pl.concat([head, reasons], how="horizontal")
    return beside(head, data.frame[rows].drop(data.label.name))


def _wide(n_columns: int, n_leading: int, classifier: Any) -> str | None:
    """What was done for some columns alone; None if it was done for all."""
    if n_leading == n_columns:
        return None
    text = (
        f"The model learned from {n_columns:,} columns. Only {n_leading:,} of them were shuffled one by one: those "
        "that a search with few rows found to move the scores most. It may have missed some. The importance of the "
        f"other {n_columns - n_leading:,} columns is not known."
    )
    return f"{text} No reason names them." if needs_occlusion(classifier) else text


def _shown_candidates(ranked: pl.DataFrame, data: TableData, important: Sequence[str]) -> list[Candidate]:
    name = data.id or "row"
    return [
        {
            "rank": row["rank"],
            "id": str(row[name]),
            "probability": row["probability"],
            "probability_low": row["probability_low"],
            "probability_high": row["probability_high"],
            "score": row["score"],
            "decision": row["decision"],
            "stability": row["stability"],
            "reasons": [row[name] for name in REASONS if row[name] is not None],
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
    columns: list[Column] = []
    for name in data.frame.columns:
        if name in (data.label.name, data.id, data.weight):
            continue
        note = data.notes.get(name) or ("" if name in used else "it has nothing to learn from")
        kind = "left out" if note else kinds.get(name, "")
        values = data.frame[name]
        n_missing = values.null_count() + (int(values.is_nan().sum()) if values.dtype.is_float() else 0)
        columns.append({"name": name, "kind": kind, "missing": n_missing / data.frame.height, "note": note})
    return {
        "name": data.name,
        "rows": data.frame.height,
        "labelled": data.n_labelled,
        "unlabeled": int(data.open.sum()),
        "label": data.label.name,
        "positive": data.label.positive,
        "id": data.id,
        "weight": data.weight,
        "columns": columns,
    }


def _reviewed(data: TableData) -> Reviewed | None:
    if not data.answers.any():
        return None
    return {"positive": int((data.answers > 0).sum()), "negative": int((data.answers < 0).sum())}


def _misread(data: TableData, features: Features) -> list[str]:
    """A warning for each column of words that was probably meant as numbers or dates."""
    words = [name for name, kind in features.kinds().items() if kind in ("category", "text")]
    misfits = {name: misfit(data.frame[name]) for name in words}
    found = [(name, value) for name, value in misfits.items() if value is not None]
    warnings = [
        f"Column {name!r} looks like numbers or dates, but was read as words because of values such as {value!r}. "
        "Write 1234.5 and 2024-12-31, leave missing values empty, and fit again."
        for name, value in found[:SHOWN]
    ]
    if more := len(found) - len(warnings):
        warnings.append(f"{more:,} more columns look like numbers or dates, but were read as words.")
    return warnings


def _settings(classifier: Any) -> dict[str, Any]:
    """The parameters, set or default, except for those that the summary has elsewhere; and the backend."""
    elsewhere = (
        "prior",
        "scenario",
        "random_state",
        "verbose",
        "n_jobs",
        "module",
        "estimator",
        "device",
        "checkpoint",
    )
    settings = {name: value for name, value in classifier.get_params(deep=False).items() if name not in elsewhere}
    if hasattr(classifier, "backend_"):
        settings["backend"] = classifier.backend_
        settings["trees"] = classifier.best_iteration_
    if hasattr(classifier, "best_epoch_"):
        settings["best_epoch"] = classifier.best_epoch_
    return settings


def _curves(model: Any) -> list[Curve]:
    """Training curves, if the method has a history."""
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
    """Values that JSON can hold: no numpy, no NaN."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return float(f"{value:.6g}") if np.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
