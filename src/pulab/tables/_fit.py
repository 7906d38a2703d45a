"""From a table with some known positives to a model."""

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from pulab import __version__
from pulab._threads import threads_for
from pulab._validation import SCENARIOS, check_choice, check_number, check_prior, several
from pulab.errors import InputError
from pulab.methods import METHODS
from pulab.metrics import prior_of_unlabeled
from pulab.priors import PriorEstimate, estimate_prior
from pulab.tables._crossfit import ANSWERED, AUTO, FOLDS, WEIGHTED, Choice, CrossFit, OnStep, Views, auto
from pulab.tables._decide import Probabilities, Rule
from pulab.tables._drift import learn_profile
from pulab.tables._evaluate import Population
from pulab.tables._features import Single
from pulab.tables._importances import leading, parts_of
from pulab.tables._model import TableModel
from pulab.tables._prepare import Request, TableData, learn_features, prepare
from pulab.tables._review import draw_rows
from pulab.tables._reviewed import with_reviewed
from pulab.tables._strata import known_share, stratum_of
from pulab.tables._summary import Knowledge, summarise

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
    _check_counts(data)
    with threads_for(data.frame.height * data.frame.width):
        X = Views(*learn_features(data, random_state))
        cross_fit = CrossFit(X, data.labelled, None, scenario, random_state, lambda text, done, total: None)
        estimate = estimate_prior(
            X.filled,
            data.labelled.astype(int),
            method=method,
            scenario=scenario,
            random_state=random_state,
            scores=cross_fit.held_out(cross_fit.ranker).scores,
        )
    mark = f"{data.label.name} = {data.label.positive}"
    estimate.details["rows"] = f"{data.n_labelled:,} labelled ({mark}), {data.n_unlabeled:,} unlabeled"
    return estimate


def fit_table(
    table: Any,
    label: str,
    *,
    id: str | None = None,
    positive: Any = None,
    negative: Any = None,
    reviewed: Any = None,
    drop: Sequence[str] = (),
    method: str | Sequence[str] = "auto",
    prior: float | tuple[float, float] | str = "estimate",
    scenario: str = "single-sample",
    labelled_by: Sequence[str] = (),
    weight: str | None = None,
    top: int | None = None,
    budget: float | None = None,
    costs: tuple[float, float] | None = None,
    random_state: int = 0,
    checkpoint: str | Path | None = None,
    on_step: OnStep = lambda text, done, total: None,
) -> TableModel:
    """Learn from a table in which some positives are marked, and find the others.

    Parameters
    ----------
    table : path of a file, a folder or a pattern, a query such as "shop.db::SELECT …", or a frame of polars, pandas
        or pyarrow
        The formats are CSV, JSON Lines, Parquet, Arrow, Excel, SQLite and DuckDB.
    label : str
        The column that marks the known positives: {1, 0}, {1, −1}, true/false, yes/blank or a value and nothing.
    id : str, optional
        A column that names the rows. The model does not learn from it, and every score keeps it.
    positive : str or number, optional
        The value that marks a known positive, if it cannot be guessed. All other rows are unlabeled.
    negative : str or number, optional
        A value that marks confirmed negatives. Rows with neither value are unlabeled.
    reviewed : answers of a person, optional
        A model's folder or its answers.csv, as ``pulab review`` writes it, or a table with a column ``answer`` (yes, no
        or skip) and the id or ``row`` (counted from 1), or a list of these. Confirmed rows are learned from, and are no
        candidates. A share of positives that the review measured is taken as the prior, unless a prior is given.
    drop : list of str
        Columns not to learn from, such as those that are only filled in for known positives.
    method : str or list of str
        A key of ``pulab methods``, several keys to compare, or "auto". Auto compares boosted trees (regularised
        or not), logistic regression and boosted trees with the PU risk, by how high their held-out rankings have the
        labelled rows. "boosting" alone is the quickest.
    prior : float, tuple of two floats, or "estimate"
        The share of positives in the population, or a range of it. "estimate": what the rows tell. That is a range,
        too, unless a region of pure positives is evident.
    scenario : {"single-sample", "case-control"}
        Single-sample: the table is the population, and some of its positives are marked. Case-control: the known
        positives come from elsewhere, and the unlabeled rows alone are the population.
    labelled_by : list of str
        Columns that the labelling may depend on. Among rows with alike values of them, the labelled ones must be a
        random part of the positives. Numbers and dates are divided at their quartiles. Without it, the labelled rows
        must be a random part of all positives. Only for a single sample.
    weight : str, optional
        A column of numbers: how much the ranking learns from each row. All figures are about rows, whatever their
        weights. The method must take them: ``pulab.methods.METHODS[key].takes_weights``.
    top : int, optional
        Call this many candidates positive, the best ones.
    budget : float, optional
        Call this share of the unlabeled rows positive, the best ones.
    costs : tuple of two floats, optional
        What a false alarm and a missed positive cost, such as (1, 20). A row is called positive if that is cheaper.
        This needs a known prior. Without top, budget and costs, a row is called positive if its probability exceeds
        one half, and no row is called if the prior is not known.
    random_state : int
    checkpoint : path, optional
        A folder that keeps the fits of all methods. Run a killed fit again with the same arguments: it goes on from
        the folder and gives the same model. Fits that took less than a second are not kept. A folder of another fit is
        refused. The folder stays when the fit is done: delete it then.
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
    >>> [round(point["lift"]) for point in model.summary["review"] if point["k"] == 100]
    [3]
    """
    start = time.perf_counter()
    check_choice("scenario", scenario, SCENARIOS)
    methods = (method,) if isinstance(method, str) else tuple(several("method", method))
    for key in methods:
        check_choice("method", key, ("auto", *USABLE) if len(methods) == 1 else USABLE)
    if not methods:
        raise InputError('method must name at least one method, got an empty list. Pass "auto".')
    check_number("random_state", random_state, low=0, high=2**32 - 1, whole=True)
    told = _told(prior)
    rule = Rule(top, budget, costs).checked()
    labelled_by, drop = several("labelled_by", labelled_by), several("drop", drop)
    if labelled_by and scenario != "single-sample":
        raise InputError('labelled_by is for scenario="single-sample", got "case-control". Leave one of them out.')
    on_step("reading the table", 0, 0)
    data = prepare(
        table, label, id=id, positive=positive, negative=negative, drop=drop, labelled_by=labelled_by, weight=weight
    )
    data, measured = with_reviewed(data, reviewed)
    answered = bool(data.answers.any())
    if answered and data.strata is not None:
        raise InputError("labelled_by and answers of a review exclude each other. Leave one of them out.")
    weighted = answered or weight is not None
    for key in methods if weighted else ():
        able, why = (ANSWERED, "from answers") if answered else (WEIGHTED, "with weights")
        check_choice(f"method, to learn {why},", key, ("auto", *able))
    _check_counts(data)
    kept = None if checkpoint is None else Path(checkpoint)
    on_step(f"{data.counts}; turning columns into numbers", 0, 0)
    with threads_for(data.frame.height * data.frame.width):
        features, numbers = learn_features(data, random_state)
        X = Views(features, numbers)
        if kept is not None:
            asked_for = {
                "method": ", ".join(methods),
                "prior": prior,
                "scenario": scenario,
                "random_state": random_state,
            }
            _keep_in(kept, asked_for, numbers, data)
        given, of_row = _given(told, measured, data, scenario), data.strata and stratum_of(data.strata, data.conformed)
        untold = _given(None, measured, data, scenario)
        about = (scenario, random_state, on_step, of_row, data.answers, data.weights, kept)
        cross_fit = CrossFit(X, data.labelled, untold, *about)
        asked = ", ".join(dict.fromkeys(methods))
        ranker = asked if asked in METHODS and METHODS[asked].ranks_without_prior else AUTO[0]
        if told is not None and given is not None:
            most = cross_fit.estimated_by(ranker).interval[1]
            if told[1] > most:
                data = data._replace(warnings=(_impossible(told, most), *data.warnings))
            if told[0] <= most:
                low, high = (min(end, most) for end in given.interval)
                cross_fit = cross_fit.told(replace(given, prior=math.sqrt(low * high), interval=(low, high)))
        if asked in METHODS:
            choice = Choice(asked, f"{asked} was asked for.", [])
        else:
            choice = cross_fit.choose(auto(len(data.labelled), weighted) if asked == "auto" else methods)
        held_out = cross_fit.held_out(choice.method)
        share = cross_fit.prior_of(choice.method)
        on_step("fitting to all rows", FOLDS, FOLDS + 1)
        classifier = cross_fit.fit_to_all(choice.method)
        on_step("evaluating the model", FOLDS + 1, FOLDS + 1)
        request = Request(asked, scenario, random_state, start)
        ranked, known = np.sort(held_out.scores[data.open])[::-1], known_share(share, held_out.strata)
        decision = rule.decision(ranked, known, data.strata is not None)
        strata = data.strata, held_out.strata
        probabilities = Probabilities.learn(held_out.scores, data.labelled, share, scenario, *strata)
        knowledge = Knowledge(share, getattr(classifier, "prior_", share.prior), probabilities, decision)
        groups = features.groups(X.of(choice.method).shape[1])
        columns = leading(parts_of(X, choice.method, held_out, data.labelled), groups, random_state)
        summary, candidates = summarise(request, data, X, knowledge, choice, held_out, classifier, columns)
        population = np.flatnonzero(~data.labelled | (scenario == "single-sample"))
        likely = probabilities.of(held_out.scores, decision, of_row)["probability_high"][population]
        profile = learn_profile(data.conformed[population], data.columns, likely)
        drawn = draw_rows(data, X, held_out, share.interval[1], random_state, columns)
    scores = pl.DataFrame({"labelled": data.labelled, "score": held_out.scores, "answer": data.answers})
    if of_row is not None:
        scores = scores.with_columns(stratum=of_row)
    return TableModel(features, classifier, probabilities, data.label, id, summary, candidates, scores, profile, drawn)


def _keep_in(folder: Path, settings: dict[str, Any], numbers: Single, data: TableData) -> None:
    """Begin or continue the checkpoints of this fit."""
    import torch

    from pulab.training.checkpoint import Identity, begin_folder, checksum

    arrays = {"the table": numbers, "the label": data.labelled}
    arrays |= {"the review": data.answers} if data.answers.any() else {}
    arrays |= {} if data.weights is None else {"the weights": data.weights}
    versions = {"the version of pulab": __version__, "the version of torch": torch.__version__}
    sums = {name: checksum({name: torch.from_numpy(np.ascontiguousarray(array))}) for name, array in arrays.items()}
    begin_folder(folder, Identity(versions | settings, lambda: sums))


def _told(prior: Any) -> tuple[float, float] | None:
    """The range that the caller gave; None if it is to be estimated."""
    if isinstance(prior, str) and prior == "estimate":
        return None
    low, high = prior if isinstance(prior, tuple | list) and len(prior) == 2 else (prior, prior)
    low, high = check_prior(low), check_prior(high)
    if low > high:
        raise InputError(f"the range of the prior must rise, got {low:g} to {high:g}. Pass ({high:g}, {low:g}).")
    return low, high


def _check_counts(data: TableData) -> None:
    if min(data.n_labelled, int(data.open.sum())) < 4:
        raise InputError(f"at least four labelled and four unlabeled rows are needed, got {data.counts}.")


def _impossible(told: tuple[float, float], most: float) -> str:
    """A warning about a prior that the rows rule out, or a range of it whose end they rule out."""
    low, high = told
    what = f"a prior of {high:.4g}" if low == high else f"a prior from {low:.4g} to {high:.4g}"
    done = "So your prior was not used." if low > most else "So the range was cut there."
    return (
        f"You gave {what}, but the rows allow {most:.4g} at most. With more positives, some rows would be positive "
        f"with a probability above 1. {done} It is wrong, or the scenario is, or the labelled rows are not like the "
        "other positives."
    )


def _given(
    told: tuple[float, float] | None, measured: PriorEstimate | None, data: TableData, scenario: str
) -> PriorEstimate | None:
    """What the caller said about the prior, or a review measured. It is at least the share of known positives."""
    found = int((data.answers > 0).sum())
    population = Population.of(data.labelled, scenario)
    least = (population.n_labelled + found) / int(population.rows.sum())
    if told is None and measured is not None:
        low, high = (max(end, least) for end in measured.interval)
        return replace(measured, prior=max(measured.prior, least), interval=(low, high))
    if told is None:
        return None
    if found and told[1] < least:
        raise InputError(f"the prior must be at least {least:.3g}, the share of known positives, got {told[1]:g}.")
    prior_of_unlabeled(told[1], data.n_labelled, data.n_unlabeled, scenario)  # refuses a prior that is too low
    low, high = max(told[0], min(least, told[1])), told[1]
    return PriorEstimate(math.sqrt(low * high), (low, high), "given", source="given")
