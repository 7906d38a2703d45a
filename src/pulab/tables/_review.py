"""The review of a table by a person: the rows to ask about, and the model once they are answered."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pulab.metrics import Array
from pulab.priors import PriorEstimate
from pulab.review.design import Draw, Drawn, draw
from pulab.summary import Measured
from pulab.tables import _evaluate as evaluate
from pulab.tables._crossfit import HeldOut, Views
from pulab.tables._decide import Probabilities, Rule
from pulab.tables._model import HELD_OUT, TableModel, beside
from pulab.tables._prepare import TableData
from pulab.tables._reasons import held_out_contributions, reason_columns, strongest
from pulab.tables._strata import Counted, known_share


def draw_rows(data: TableData, X: Views, held_out: HeldOut, upper: float, seed: int, leading: Sequence[str]) -> Draw:
    """Draw unlabeled rows by their held-out scores, with reasons and all columns.

    ``upper`` bounds the prior, and ``leading`` are the columns that are looked at one by one.
    """
    labelled, scores = data.labelled, held_out.scores
    drawn = draw(scores[data.open], scores[labelled], upper, np.random.default_rng(seed))
    unlabeled = np.flatnonzero(data.open)
    rows = unlabeled[drawn.rows]
    effects = held_out_contributions(held_out.models, held_out.rows, X.features, X.numbers, rows, unlabeled, leading)
    reasons = reason_columns(strongest(effects, list(X.features.groups()), data.frame[rows]))
    names = {} if data.id is None else {data.id: data.frame[data.id][rows]}
    head = pl.concat([pl.DataFrame({"row": rows + 1, **names}), reasons], how="horizontal")
    frame = beside(head, data.frame[rows].drop(data.label.name))
    like = like_the_open(drawn, scores[data.open], scores[data.answers != 0])
    return Draw(frame, drawn.stratum.tolist(), drawn.ends.tolist(), like.tolist())


def like_the_open(drawn: Drawn, candidates: Array, answered: Array) -> NDArray[np.intp]:
    """The labelled rows by band, less the part that answered rows are of the band: positives among them are gone."""
    last = np.sort(candidates)[::-1][drawn.ends - 1]
    band = np.minimum(np.searchsorted(-last, -answered), len(last) - 1)
    n_answered = np.bincount(band, minlength=len(last))
    sizes = np.diff(drawn.ends, prepend=0)
    return np.rint(drawn.labelled * sizes / (sizes + n_answered)).astype(np.intp)


def with_answers(model: TableModel, measured: Measured, answered: Collection[str]) -> TableModel:
    """The same model with the measured share of positives: its figures, probabilities and decisions follow it.

    ``answered`` are the ids or numbers of the rows that were answered. They are not candidates any more.
    """
    summary, held_out = model.summary, model.held_out
    labelled, scores, answers = (held_out[name].to_numpy() for name in HELD_OUT.names())
    is_open = ~labelled & (answers == 0)
    scenario, before = summary["scenario"], summary["prior"]
    least = labelled.mean() if scenario == "single-sample" else 0.0
    low, value, high = (
        float(np.clip(measured["prior"][end], max(least, 1e-6), 1 - 1e-6)) for end in ("low", "value", "high")
    )
    prior = PriorEstimate(value, (low, high), "measured", source="measured")
    strata, counted, of_row = model.probabilities.strata, None, None
    if strata is not None:
        of_row = held_out["stratum"].to_numpy()
        counted = Counted.of(scores - np.array(strata["offset"])[of_row], labelled, of_row)
    probabilities = Probabilities.learn(scores, labelled, prior, scenario, strata, counted)
    ranked = np.sort(scores[is_open])[::-1]
    decision = summary["decision"]
    if decision["rule"] is None:
        decision = Rule(None, None, None).decision(ranked, known_share(prior, counted), strata is not None)
    is_called = probabilities.called(scores, decision, of_row)
    n_called = 0 if is_called is None else int(is_called[is_open].sum())
    points = evaluate.review(labelled, scores, prior, scenario, [n_called] if n_called else [], answers, counted)
    counts = (int(labelled.sum()), int((~labelled).sum()))

    def columns(some: Array) -> dict[str, Any]:
        strata_of_some = None if of_row is None else of_row[_nearest(scores, some)]
        return probabilities.of_candidates(some, decision, *counts, scenario, strata_of_some)

    shown = [row for row in summary["candidates"] if row["id"] not in answered]
    of_shown = pl.DataFrame(columns(np.array([row["score"] for row in shown]))).rows(named=True)
    candidates, name = model.candidates, model.id or "row"
    # Somebody may have changed their file.
    if {"score", name} <= set(candidates.columns) and candidates["score"].dtype.is_numeric():
        candidates = candidates.filter(~candidates[name].cast(pl.String).is_in(list(answered)))
        candidates = candidates.with_columns(**columns(candidates["score"].to_numpy()))
    changed = {
        **summary,
        "prior": {**before, "low": low, "high": high, "value": value, "source": "measured"},
        "decision": decision,
        "metrics": evaluate.figures(labelled, scores, is_called, prior, scenario, counted),
        "review": points,
        "candidates": [{**row, **new} for row, new in zip(shown, of_shown, strict=True)],
        "measured": measured,
    }
    return replace(model, summary=changed, probabilities=probabilities, candidates=candidates)  # type: ignore[arg-type]


def _nearest(scores: Array, some: Array) -> NDArray[np.intp]:
    """The rows that have these scores, up to how a file or a page rounds them."""
    order = np.argsort(scores)
    after = np.clip(np.searchsorted(scores[order], some), 1, len(scores) - 1)
    closer = some - scores[order][after - 1] < scores[order][after] - some
    return np.asarray(order[after - closer])
