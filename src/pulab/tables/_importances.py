"""How much each column matters: how far the held-out AUC falls when the values of the column are shuffled.

A shuffled column costs a prediction, whose time grows with the number of columns. So for all columns together the time
would grow with their square. In a table with more than MOST columns only MOST are shuffled: those that move the scores
most. A search finds them with few rows. It replaces the values of a whole group of columns at once, drops the groups
that move the scores least, and halves the others, until every group is one column. There are at most 2 · MOST groups,
and a table of twice the width takes one more round. The search may miss a column that moves the scores only together
with columns of other groups, or only in rare rows.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pulab.metrics import Array, separation
from pulab.summary import Feature
from pulab.tables._crossfit import HeldOut, Views
from pulab.tables._model import raw_scores

Marks = NDArray[np.bool_]
Index = NDArray[np.intp]
MOST = 100  # columns that are shuffled one by one
ROWS = 2000  # labelled rows of a fold, and as many unlabeled ones, in which they are shuffled
SEARCHED = 10  # the same for the search
NUMBERS_AT_ONCE = 2**23  # the size of an array of replacements


class Part(NamedTuple):
    """A fold: the rows that its model has not seen, and the model's scores."""

    X: Any  # all rows of the table
    labelled: Marks
    rows: Index
    score: Callable[[Any], Array]

    def some(self, n: int, rng: np.random.Generator) -> tuple[Any, Marks]:
        """Up to n labelled rows, and then up to n unlabeled ones; with their marks."""
        kinds = (self.rows[self.labelled[self.rows]], self.rows[~self.labelled[self.rows]])
        drawn = [np.sort(rng.choice(rows, n, replace=False)) if len(rows) > n else rows for rows in kinds]
        rows = np.concatenate(drawn)
        return self.X[rows], self.labelled[rows]


def parts_of(X: Views, method: str, held_out: HeldOut, labelled: Marks) -> list[Part]:
    """The folds of a method."""
    numbers = X.of(method)
    return [
        Part(numbers, labelled, rows, lambda some, model=model: raw_scores(model, some))  # type: ignore[misc]
        for model, rows in zip(held_out.models, held_out.rows, strict=True)
    ]


def replaced(score: Callable[[Any], Array], X: Any, own: Sequence[int], values: Any) -> Array:
    """Scores of rows with other values in the columns ``own``. X is changed and restored: a copy would take longer."""
    before = X[:, own]
    X[:, own] = values
    scores = score(X)
    X[:, own] = before
    return scores


def leading(parts: Sequence[Part], groups: dict[str, list[int]], seed: int) -> list[str]:
    """The columns to look at one by one: all, or those that move the scores of the folds most, in their order."""
    names = list(groups)
    if len(names) <= MOST:
        return names
    rng = np.random.default_rng(seed)
    samples = []
    for part in parts:
        rows, _ = part.some(SEARCHED, rng)
        others = np.roll(rows, len(rows) // 2, axis=0)  # a labelled row gets the values of an unlabeled one
        samples.append((part.score, rows, others, part.score(rows)))

    def effects(blocks: Sequence[Index]) -> Array:
        """How much the scores move, on average, if the columns of a block are replaced; by block."""
        own = [[number for i in block for number in groups[names[i]]] for block in blocks]
        moved = np.zeros(len(blocks))
        for score, X, others, whole in samples:
            at_once = max(1, NUMBERS_AT_ONCE // X.size)
            for start in range(0, len(blocks), at_once):
                some = slice(start, start + at_once)
                copies = np.repeat(X[None], len(own[some]), axis=0)
                for copy, numbers in zip(copies, own[some], strict=True):
                    copy[:, numbers] = others[:, numbers]
                scores = score(copies.reshape(-1, X.shape[1])).reshape(len(copies), -1)
                moved[some] += np.abs(scores - whole).mean(axis=1)
        return moved

    blocks = np.array_split(np.arange(len(names)), min(len(names), 2 * MOST))
    while True:
        order = np.argsort(-effects(blocks), kind="stable")[:MOST]
        best = [blocks[i] for i in order]
        if all(len(block) == 1 for block in best):
            return [names[i] for i in sorted(int(block[0]) for block in best)]
        blocks = [half for block in best for half in np.array_split(block, 2) if len(half)]


def importances(parts: Sequence[Part], groups: dict[str, list[int]], rng: np.random.Generator) -> list[Feature]:
    """How much the held-out AUC of labelled against unlabeled rows falls when a column is shuffled; mean over folds."""
    falls: dict[str, list[float]] = {name: [] for name in groups}
    for part in parts:
        X, marks = part.some(ROWS, rng)
        whole = _auc(part.score(X), marks)
        for name, own in groups.items():
            shuffled = X[rng.permutation(len(X))[:, None], own]
            falls[name].append(whole - _auc(replaced(part.score, X, own, shuffled), marks))
    items: list[Feature] = [
        {"name": name, "importance": float(np.mean(values)), "std": float(np.std(values))}
        for name, values in falls.items()
    ]
    return sorted(items, key=lambda item: -item["importance"])


def _auc(score: Array, marks: Marks) -> float:
    return separation(score[marks], score[~marks])
