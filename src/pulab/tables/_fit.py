"""From a table with some known positives to a model of it."""

import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pulab._threads import threads_for
from pulab._validation import SCENARIOS, check_choice, check_number, check_prior
from pulab.calibration import PUCalibrator
from pulab.errors import InputError, PulabWarning
from pulab.methods import METHODS
from pulab.metrics import prior_of_unlabeled
from pulab.priors import PriorEstimate, estimate_prior
from pulab.tables._features import Features
from pulab.tables._frame import name_of, read_table
from pulab.tables._kinds import (
    LEFT_OUT,
    Column,
    Kind,
    check_column,
    conform,
    dots_may_be_thousands,
    kind_of,
    with_numbers,
)
from pulab.tables._labels import read_labels
from pulab.tables._model import RESERVED, TableModel
from pulab.tables._summary import Asked, TableData, summarise
from pulab.tables._work import FOLDS, Choice, OnStep, Views, Work

USABLE = tuple(key for key, m in METHODS.items() if m.learns_from_pu_alone)


ASKED = "so it was asked for"


def ignore(text: str, done: int, total: int) -> None:
    """Nobody waits."""


def prepare(
    source: Any, label: str, *, id: str | None = None, positive: Any = None, drop: Sequence[str] = ()
) -> TableData:
    """Read a table and understand its columns."""
    frame = read_table(source, id)
    name = name_of(source)
    check_column(label, frame.columns, name, "the label")
    column, labelled = read_labels(frame[label], positive)
    if id is not None and id == label:
        raise InputError(f"{id!r} cannot be both the label and the id. Name two columns.")
    if id is not None:
        check_column(id, frame.columns, name, "the id")
        _check_ids(frame[id], id)
        if id in RESERVED:
            raise InputError(f"the id column cannot be called {id!r}, as a column of the results is. Rename it.")
    if isinstance(drop, str):
        raise InputError(f"drop must be a list of columns, got {drop!r}. Pass [{drop!r}].")
    for other in drop:
        check_column(other, frame.columns, name, "what is to be left out")
        if other in (label, id):
            raise InputError(f"{other!r} is the label or the id, and is not learned from anyway. Drop other columns.")
    rest = [other for other in frame.columns if other not in (label, id)]
    kinds = {other: Kind(LEFT_OUT, note=ASKED) if other in drop else kind_of(frame[other]) for other in rest}
    columns = [Column(other, found.kind, found.form) for other, found in kinds.items() if found.kind != LEFT_OUT]
    notes = {other: found.note for other, found in kinds.items() if found.kind == LEFT_OUT}
    if not columns:
        left = "; ".join(f"{other!r}: {note}" for other, note in list(notes.items())[:5])
        raise InputError(f"{name} has no column to learn from beside the label. {left}".rstrip(". ") + ".")
    dots = {c.name: dots_may_be_thousands(frame[c.name]) for c in columns if c.kind == "number" and not c.form}
    unsure = {other: value for other, value in dots.items() if value is not None}
    return TableData(name, with_numbers(frame, columns, name), columns, notes, column, labelled, id, unsure)


def _check_ids(values: pl.Series, name: str) -> None:
    if values.dtype.is_nested() or values.dtype in (pl.Binary, pl.Object, pl.Duration):
        raise InputError(f"ids must be text or numbers, but column {name!r} holds {values.dtype}. Name another (--id).")
    no_number = int(values.is_nan().sum()) if values.dtype.is_float() else 0
    gaps = values.null_count() + no_number + int((values.cast(pl.String) == "").sum())
    if gaps:
        raise InputError(f"rows without an id in column {name!r}: {gaps:,}. Fill them in, or leave the id out (--id).")
    if values.n_unique() < len(values):
        twice = values.filter(values.is_duplicated())[0]
        n_rows = int(values.is_duplicated().sum())
        raise InputError(
            f"ids must be different, but {n_rows:,} rows of column {name!r} share theirs, such as {twice!r}. Remove "
            "the copies, or leave the id out (--id)."
        )


def _learn_features(data: TableData, seed: int) -> tuple[Features, NDArray[np.float32]]:
    """From P first, then U: how their rows are interleaved must not matter, and texts are embedded in their order."""
    order = np.concatenate([np.flatnonzero(data.labelled), np.flatnonzero(~data.labelled)])
    features, ordered = Features.learn(conform(data.frame, data.columns, data.name)[order], data.columns, seed)
    numbers = np.empty_like(ordered)
    numbers[order] = ordered
    return features, numbers


def estimate_table_prior(
    table: Any,
    label: str,
    *,
    positive: Any = None,
    drop: Sequence[str] = (),
    scenario: str = "single-sample",
    method: str = "auto",
    random_state: int = 0,
) -> PriorEstimate:
    """The share of positives in a table; ``details["rows"]`` says how many of its rows are labelled, and by what."""
    data = prepare(table, label, positive=positive, drop=drop)
    with threads_for(data.frame.height * data.frame.width):
        features, numbers = _learn_features(data, random_state)
        X, s = features.filled(numbers), data.labelled.astype(int)
        found = estimate_prior(X, s, method=method, scenario=scenario, random_state=random_state)
    found.details["rows"] = f"{data.n_labelled:,} labelled ({data.mark}), {data.n_unlabeled:,} unlabeled"
    return found


def fit_table(
    table: Any,
    label: str,
    *,
    id: str | None = None,
    positive: Any = None,
    drop: Sequence[str] = (),
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
    drop : list of str
        Columns not to learn from, such as those that are filled in once a row is known to be positive.
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
    >>> known = pl.Series([int(y) if i % 2 else 0 for i, y in enumerate(rows.y_train)])
    >>> table = pl.DataFrame(rows.X_train).with_columns(known=known)
    >>> model = fit_table(table, "known", method="elkan-noto", prior=0.37)
    >>> model.candidates.columns[:4]
    ['rank', 'row', 'score', 'probability']
    """
    start = time.perf_counter()
    check_choice("scenario", scenario, SCENARIOS)
    check_choice("method", method, ("auto", *USABLE))
    check_number("random_state", random_state, low=0, high=2**32 - 1, whole=True)
    if prior != "estimate":
        check_prior(prior)
    on_step("reading the table", 0, 0)
    data = prepare(table, label, id=id, positive=positive, drop=drop)
    if min(data.n_labelled, data.n_unlabeled) < 4:
        raise InputError(f"learning needs four labelled and four unlabeled rows at least, got {data.counts}.")
    on_step(f"{data.counts}; turning columns into numbers", 0, 0)
    with threads_for(data.frame.height * data.frame.width):
        features, numbers = _learn_features(data, random_state)
        X = Views(features, numbers)
        known = _prior(prior, X, data, scenario, random_state, on_step)
        work = Work(X, data.labelled, known, scenario, random_state, on_step)
        choice = Choice(method, f"{method} was asked for.", []) if method != "auto" else work.choose()
        found = work.cross_fit(choice.method)
        on_step("fitting to all rows", FOLDS, FOLDS + 1)
        classifier = work.fit(choice.method, np.arange(len(data.labelled)))
        on_step("looking at what was learned", FOLDS + 1, FOLDS + 1)
        calibrator = PUCalibrator(known.prior, scenario).fit(found.scores, data.labelled)
        asked = Asked(method, prior, scenario, random_state, start)
        summary, candidates = summarise(asked, data, X, known, choice, found, classifier, calibrator)
    return TableModel(features, classifier, calibrator, data.label, id, summary, candidates)


def _prior(prior: float | str, X: Views, data: TableData, scenario: str, seed: int, on_step: OnStep) -> PriorEstimate:
    if prior != "estimate":
        told = check_prior(prior)
        prior_of_unlabeled(told, data.n_labelled, data.n_unlabeled, scenario)  # refuses what cannot be
        return PriorEstimate(told, (told, told), "given", {})
    on_step("estimating the share of positives", 0, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PulabWarning)  # they are in the summary
        return estimate_prior(X.filled(), data.labelled.astype(int), scenario=scenario, random_state=seed)
