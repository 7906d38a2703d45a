"""From a table with some known positives to a model."""

import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from pulab._threads import threads_for
from pulab._validation import SCENARIOS, check_choice, check_number, check_prior
from pulab.calibration import PUCalibrator
from pulab.errors import InputError, PulabWarning
from pulab.methods import METHODS
from pulab.metrics import prior_of_unlabeled
from pulab.priors import PriorEstimate, estimate_prior
from pulab.tables._crossfit import FOLDS, Choice, CrossFit, OnStep, Views
from pulab.tables._model import TableModel
from pulab.tables._prepare import Request, TableData, learn_features, prepare
from pulab.tables._review import draw_rows
from pulab.tables._summary import summarise

USABLE = tuple(key for key, method in METHODS.items() if method.learns_from_pu_alone)


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
    """The share of positives in a table. ``details["rows"]`` has the numbers of labelled and unlabeled rows as text."""
    data = prepare(table, label, positive=positive, drop=drop)
    with threads_for(data.frame.height * data.frame.width):
        features, numbers = learn_features(data, random_state)
        X, s = features.filled(numbers), data.labelled.astype(int)
        estimate = estimate_prior(X, s, method=method, scenario=scenario, random_state=random_state)
    mark = f"{data.label.name} = {data.label.positive}"
    estimate.details["rows"] = f"{data.n_labelled:,} labelled ({mark}), {data.n_unlabeled:,} unlabeled"
    return estimate


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
    on_step: OnStep = lambda text, done, total: None,
) -> TableModel:
    """Learn from a table in which some positives are marked, and find the others.

    Parameters
    ----------
    table : path of a CSV or Parquet file, or a frame of polars, pandas or pyarrow
    label : str
        The column that marks the known positives: {1, 0}, {1, −1}, true/false, yes/blank or a value and nothing.
    id : str, optional
        A column that names the rows. The model does not learn from it, and every score keeps it.
    positive : str or number, optional
        The value that marks a known positive, if it cannot be guessed. All other rows are unlabeled.
    drop : list of str
        Columns not to learn from, such as those that are only filled in for known positives.
    method : str
        A key of ``pulab methods``, or "auto". Auto compares boosted trees, logistic regression and the joint network,
        and takes the one with the lowest PU 0-1 risk on held-out rows.
    prior : float or "estimate"
        The share of positives in the population.
    scenario : {"single-sample", "case-control"}
        Single-sample: the table is the population, and some of its positives are marked. Case-control: the known
        positives come from elsewhere, and the unlabeled rows alone are the population.
    random_state : int
    on_step : function, optional
        Called with the current step as text, the number of fits done, and their total.

    Returns
    -------
    TableModel
        Fitted to all rows. Its figures and the scores of its candidates come from five more models. Each of them scores
        the fifth of P and U that it has not seen.

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
        raise InputError(f"a fit needs at least four labelled and four unlabeled rows, got {data.counts}.")
    on_step(f"{data.counts}; turning columns into numbers", 0, 0)
    with threads_for(data.frame.height * data.frame.width):
        features, numbers = learn_features(data, random_state)
        X = Views(features, numbers)
        share = _prior(prior, X, data, scenario, random_state, on_step)
        cross_fit = CrossFit(X, data.labelled, share, scenario, random_state, on_step)
        choice = Choice(method, f"{method} was asked for.", []) if method != "auto" else cross_fit.choose()
        held_out = cross_fit.held_out(choice.method)
        on_step("fitting to all rows", FOLDS, FOLDS + 1)
        classifier = cross_fit.fit(choice.method, np.arange(len(data.labelled)))
        on_step("evaluating the model", FOLDS + 1, FOLDS + 1)
        calibrator = PUCalibrator(share.prior, scenario).fit(held_out.scores, data.labelled)
        request = Request(method, prior, scenario, random_state, start)
        summary, candidates = summarise(request, data, X, share, choice, held_out, classifier, calibrator)
        drawn = draw_rows(data, held_out.scores, share.interval[1], random_state)
    return TableModel(features, classifier, calibrator, data.label, id, summary, candidates, drawn)


def _prior(prior: float | str, X: Views, data: TableData, scenario: str, seed: int, on_step: OnStep) -> PriorEstimate:
    if prior != "estimate":
        share = check_prior(prior)
        prior_of_unlabeled(share, data.n_labelled, data.n_unlabeled, scenario)  # refuses a prior that is too low
        return PriorEstimate(share, (share, share), "given")
    on_step("estimating the share of positives", 0, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PulabWarning)  # the summary has them
        return estimate_prior(X.filled, data.labelled.astype(int), scenario=scenario, random_state=seed)
