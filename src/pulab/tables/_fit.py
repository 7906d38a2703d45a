"""From a table with some known positives to a model of it."""

import datetime
import time
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pulab import __version__
from pulab._validation import SCENARIOS, check_choice, check_number, check_prior
from pulab.bench.methods import METHODS
from pulab.calibration import PUCalibrator, among_unlabeled
from pulab.errors import InputError, PriorError, PulabWarning
from pulab.priors import PriorEstimate, estimate_prior
from pulab.tables import _evaluate as evaluate
from pulab.tables._features import Features
from pulab.tables._frame import Column, check_column, conform, kind_of, name_of, read_table
from pulab.tables._labels import LabelColumn, read_labels
from pulab.tables._model import TableModel, raw_scores
from pulab.tables._work import CrossFit, OnStep, Views, Work

Array = NDArray[np.float64]
Marks = NDArray[np.bool_]
USABLE = tuple(key for key, m in METHODS.items() if not m.learns_from_truth and not m.needs_negatives)
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
    def counts(self) -> str:
        """How many rows there are of each kind."""
        n_p = int(self.labelled.sum())
        return f"{n_p:,} labelled, {len(self.labelled) - n_p:,} unlabeled"


def ignore(text: str, done: int, total: int) -> None:
    """Nobody waits."""


def prepare(source: Any, label: str, *, id: str | None = None, positive: Any = None) -> TableData:
    """Read a table and understand its columns."""
    frame = read_table(source)
    name = name_of(source)
    check_column(label, frame.columns, name, "the label")
    column, labelled = read_labels(frame[label], positive)
    if id is not None:
        check_column(id, frame.columns, name, "the id")
        _check_ids(frame[id], id)
        if id == label:
            raise InputError(f"{id!r} cannot be both the label and the id. Name two columns.")
    rest = [other for other in frame.columns if other not in (label, id)]
    kinds = {other: kind_of(frame[other]) for other in rest}
    columns = [Column(other, kind) for other, (kind, _) in kinds.items() if kind != "left out"]
    notes = {other: note for other, (kind, note) in kinds.items() if kind == "left out"}
    if not columns:
        left = "; ".join(f"{other!r}: {note}" for other, note in list(notes.items())[:5])
        raise InputError(f"{name} has no column to learn from beside the label. {left}".rstrip(". ") + ".")
    return TableData(name, frame, columns, notes, column, labelled, id)


def _check_ids(values: pl.Series, name: str) -> None:
    if values.null_count():
        gaps = values.null_count()
        raise InputError(f"{gaps:,} rows have no id in column {name!r}. Fill them in, or leave --id out.")
    if values.n_unique() < len(values):
        twice = values.filter(values.is_duplicated())[0]
        n_rows = int(values.is_duplicated().sum())
        raise InputError(
            f"ids must be different, but {n_rows:,} rows of column {name!r} share theirs, such as {twice!r}. Remove "
            "the copies, or leave --id out."
        )


def estimate_table_prior(
    source: Any,
    label: str,
    *,
    positive: Any = None,
    scenario: str = "single-sample",
    method: str = "auto",
    random_state: int = 0,
) -> tuple[TableData, PriorEstimate]:
    """The share of positives in a table, and the table as it was understood."""
    data = prepare(source, label, positive=positive)
    features, numbers = Features.learn(conform(data.frame, data.columns, data.name), data.columns, random_state)
    X = features.filled(numbers)
    s = data.labelled.astype(int)
    return data, estimate_prior(X, s, method=method, scenario=scenario, random_state=random_state)


def fit_table(
    table: Any,
    label: str,
    *,
    id: str | None = None,
    positive: Any = None,
    method: str = "auto",
    prior: float | str = "estimate",
    scenario: str = "single-sample",
    random_state: int = 0,
    on_step: OnStep = ignore,
) -> TableModel:
    """Learn from a table in which some positives are marked, and find the others.

    Parameters
    ----------
    table : path of a CSV or Parquet file, or a frame of polars, pandas or pyarrow
    label : str
        The column that marks the known positives: {1, 0}, {1, −1}, true/false, yes/blank or a value and nothing.
    id : str, optional
        A column that names the rows; not learned from, and kept with every score.
    positive : str or number, optional
        The value that marks a known positive, where that is not plain to see. All other rows are unlabeled.
    method : str
        A key of ``pulab methods``, or "auto": of boosted trees, logistic regression and the joint network the one with
        the lowest PU 0-1 risk on held-out rows.
    prior : float or "estimate"
        The share of positives in the population.
    scenario : {"single-sample", "case-control"}
        Single-sample: the table is the population, some of whose positives are marked. Case-control: the known
        positives come from elsewhere, and the unlabeled rows alone are the population.
    random_state : int
    on_step : function, optional
        Told what is being done.

    Returns
    -------
    TableModel
        Fitted to all rows. Its figures, and the scores of its candidates, come from five models, each of which has
        not seen the fifth of P and U that it scores.

    Examples
    --------
    >>> import polars as pl
    >>> from pulab.datasets import load_breast_cancer
    >>> from pulab.tables import fit_table
    >>> rows = load_breast_cancer()
    >>> table = pl.DataFrame(rows.X_train).with_columns(known=[y if i % 2 else 0 for i, y in enumerate(rows.y_train)])
    >>> model = fit_table(table, "known", method="elkan-noto", prior=0.37)
    >>> model.candidates.columns[:4]
    ['rank', 'row', 'score', 'probability']
    """
    start = time.perf_counter()
    check_choice("scenario", scenario, SCENARIOS)
    check_choice("method", method, ("auto", *USABLE))
    check_number("random_state", random_state, low=0, whole=True)
    if prior != "estimate":
        check_prior(prior)
    rng = np.random.default_rng(random_state)
    on_step("reading the table", 0, 0)
    data = prepare(table, label, id=id, positive=positive)
    labelled = data.labelled
    if labelled.sum() < 2 or (~labelled).sum() < 2:
        raise InputError(f"learning needs two labelled and two unlabeled rows at least, got {data.counts}.")
    on_step(f"{data.counts}; turning columns into numbers", 0, 0)
    features, numbers = Features.learn(conform(data.frame, data.columns, data.name), data.columns, random_state)
    X = Views(features, numbers)
    said: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PulabWarning)
        known = _prior(prior, X, labelled, scenario, random_state, on_step)
        work = Work(X, labelled, known, scenario, random_state, on_step)
        chosen, why, compared = (method, f"{method} was asked for.", []) if method != "auto" else work.choose()
        result = work.cross_fit(chosen)
        n_folds = len(result.models)
        on_step("fitting to all rows", n_folds, n_folds + 1)
        classifier = work.fit(chosen, np.arange(len(labelled)))
    said += [str(w.message) for w in caught if issubclass(w.category, PulabWarning)]
    on_step("looking at what was learned", n_folds + 1, n_folds + 1)
    calibrator = PUCalibrator(known.prior, scenario).fit(result.scores, labelled)
    probability = calibrator(result.scores)
    ranked = _ranked(data, result, probability, known.prior, scenario)
    fold_model, held = result.models[0], result.held_out[0]
    what_matters = evaluate.importances(
        lambda rows: raw_scores(fold_model, rows), X.of(chosen)[held], labelled[held], features.groups(), rng
    )
    doubts = evaluate.oddities(labelled, result.scores, probability, known, scenario, what_matters)
    bias = evaluate.labelling_bias(X.filled(), labelled, probability, rng)
    summary = {
        "pulab": __version__,
        "created": datetime.date.today().isoformat(),
        "table": _about(data, features),
        "scenario": scenario,
        "prior": {
            "value": known.prior,
            "interval": list(known.interval),
            "source": "estimated" if prior == "estimate" else "given",
            "methods": known.details.get("methods", {}),
            "warnings": known.details.get("warnings", []),
        },
        "method": {
            "key": chosen,
            "class": type(classifier).__name__,
            "asked": method,
            "why": why,
            "compared": compared,
            "settings": _settings(classifier),
        },
        "folds": len(result.models),
        "metrics": evaluate.figures(labelled, probability, known, scenario),
        "distributions": evaluate.distributions(labelled, probability),
        "review": evaluate.review(labelled, result.scores, known, scenario, rng),
        "curves": _curves(result.models[0]),
        "features": what_matters,
        "stability": {"k": ranked.k, "mean": float(np.mean(ranked.frame["stability"].head(ranked.k).to_numpy()))},
        "candidates": _shown_candidates(ranked.frame, data, [f["name"] for f in what_matters[:5]]),
        "warnings": [*_sentences(said), *doubts, *([bias] if bias else []), *_left_out(data)],
        "seconds": time.perf_counter() - start,
        "random_state": random_state,
    }
    return TableModel(features, classifier, calibrator, data.label, id, _plain(summary), ranked.frame)


def _prior(prior: float | str, X: Views, labelled: Marks, scenario: str, seed: int, on_step: OnStep) -> PriorEstimate:
    if prior != "estimate":
        told = float(prior)
        if scenario == "single-sample" and told <= labelled.mean():
            raise PriorError(
                f"in a single sample the prior is the share of positives in all rows; got {told:g}, but "
                f"{labelled.mean():.4g} of them are labelled positive already. Pass a larger prior, or "
                "--scenario case-control."
            )
        return PriorEstimate(told, (told, told), "given", {})
    on_step("estimating the share of positives", 0, 0)
    return estimate_prior(X.filled(), labelled.astype(int), scenario=scenario, random_state=seed)


# What is written down -------------------------------------------------------------------------------------------------


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


def _sentences(messages: Sequence[str]) -> list[str]:
    """Warnings once each, as sentences."""
    return [text[:1].upper() + text[1:] for text in dict.fromkeys(messages)]


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
