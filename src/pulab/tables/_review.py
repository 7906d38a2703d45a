"""The rows of a table that a person may review."""

import numpy as np
import polars as pl

from pulab.metrics import Array
from pulab.review.design import Draw, draw
from pulab.tables._model import beside
from pulab.tables._prepare import TableData


def draw_rows(data: TableData, scores: Array, upper: float, seed: int) -> Draw:
    """Draw unlabeled rows by their held-out scores, with all their columns. ``upper`` bounds the share of positives."""
    labelled = data.labelled
    drawn = draw(scores[~labelled], scores[labelled], upper, np.random.default_rng(seed))
    rows = np.flatnonzero(~labelled)[drawn.rows]
    names = {} if data.id is None else {data.id: data.frame[data.id][rows]}
    frame = beside(pl.DataFrame({"row": rows + 1, **names}), data.frame[rows].drop(data.label.name))
    return Draw(frame, drawn.stratum.tolist(), drawn.ends.tolist(), drawn.labelled.tolist())
