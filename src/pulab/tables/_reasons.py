"""Reasons: how much each column of the table speaks for or against a row.

The effect of a column is its part of the row's score, compared with the other rows of the population. It is in units of
the score. These are log-odds, except for methods that count votes. How it is computed depends on the model:

- Trees of LightGBM and XGBoost: TreeSHAP. The effects and a constant add up to the score.
- Linear models: coefficient × (value − mean over the population). They and a constant add up to the score, too.
- Other models: occlusion. The effect is how much the score falls, on average, if the column's values are replaced by
  those of a few random rows. Such effects need not add up. In a wide table only some columns are tried, because each
  takes predictions; the others get no effect.
"""

from collections.abc import Collection, Sequence
from typing import Any, TypedDict

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

from pulab._scaling import CutScaler
from pulab.estimators._table import TablePUClassifier
from pulab.metrics import Array
from pulab.tables._features import Features, Single
from pulab.tables._importances import NUMBERS_AT_ONCE, replaced
from pulab.tables._model import REASONS, raw_scores, takes_gaps

Index = NDArray[np.intp]
BACKGROUND = 16  # rows whose values replace those of a column; fewer for many rows
LEAST_BACKGROUND = 4
PASSES = 50_000  # rows that a model scores for them, unless LEAST_BACKGROUND needs more; a network does it in a second
COMPARED = 10_000  # rows of the table to compare with
NEGLIGIBLE, STRONG = 0.02, 0.25  # shares of a row's effects: below, it is no reason; above, a strong one
SCALERS = (CutScaler, MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler)  # each number for itself
LONGEST = 40  # letters of a value


class Reason(TypedDict):
    """What a column's value in a row says about it."""

    column: str
    value: str
    effect: float  # on the score: above zero it speaks for the row, below against it
    share: float  # of the effects of all columns in this row, by size


# Effects ----------------------------------------------------------------------------------------------------------


def contributions(
    classifier: Any,
    features: Features,
    numbers: Single,
    background: Single,
    tried: Sequence[str] | None = None,
    random_state: int = 0,
) -> Array:
    """The effect of each column on each row's score, as an array of shape (rows, columns of ``features.groups()``).

    Parameters
    ----------
    classifier : classifier of pulab, fitted to these features
    features : Features
    numbers : array of shape (rows, numbers)
        The rows as numbers, with NaN for missing values.
    background : array of shape (rows, numbers)
        Rows of the population to compare with.
    tried : list of str, optional
        The columns to try by occlusion; all, unless they are named.
    random_state : int
        Draws the rows of the background for occlusion.
    """
    X = numbers if takes_gaps(classifier) else features.filled(numbers)
    model = getattr(classifier, "model_", None)
    groups = features.groups(X.shape[1])
    if _library(model) is not None:
        parts = _tree_parts(classifier, model, X)
    else:
        others = background if takes_gaps(classifier) else features.filled(background)
        if not _is_linear(classifier, model):
            return _occlusion(classifier, X, others, groups, groups if tried is None else tried, random_state)
        parts = _linear_parts(model, X, others)
    return np.stack([parts[:, own].sum(axis=1) for own in groups.values()], axis=1)


def needs_occlusion(classifier: Any) -> bool:
    """Whether the effects of columns are known only from further predictions."""
    model = getattr(classifier, "model_", None)
    return _library(model) is None and not _is_linear(classifier, model)


def held_out_contributions(
    models: Sequence[Any],
    folds: Sequence[Index],
    features: Features,
    numbers: Single,
    rows: Index,
    background: Index,
    tried: Sequence[str] | None = None,
) -> Array:
    """The effects for rows of a table, each by the model that has not seen it, compared with the rows ``background``.

    ``numbers`` has all rows of the table, and ``folds`` by model the rows that it has not seen. ``tried`` are the
    columns to try by occlusion; all, unless they are named.
    """
    fold_of = np.full(len(numbers), -1)
    for i, held in enumerate(folds):
        fold_of[held] = i
    others = numbers[_some(background, COMPARED, 0)]
    effects = np.zeros((len(rows), len(features.groups())))
    for i, model in enumerate(models):
        own = np.flatnonzero(fold_of[rows] == i)
        if len(own):
            effects[own] = contributions(model, features, numbers[rows[own]], others, tried)
    return effects


def _library(model: Any) -> str | None:
    """The library of the model's trees, if it computes TreeSHAP."""
    library = type(model).__module__.partition(".")[0]
    return library if library in ("lightgbm", "xgboost") else None


def _tree_parts(classifier: Any, model: Any, X: Single) -> Array:
    """TreeSHAP values by number, without the constant."""
    n_trees = getattr(classifier, "best_iteration_", None)
    if _library(model) == "lightgbm":
        model = getattr(model, "booster_", model)
        return np.asarray(model.predict(X, num_iteration=n_trees, pred_contrib=True))[:, :-1]
    import xgboost

    model = model.get_booster() if hasattr(model, "get_booster") else model
    values = model.predict(xgboost.DMatrix(X), pred_contribs=True, iteration_range=(0, n_trees or 0))
    return np.asarray(values, dtype=np.float64)[:, :-1]


def _is_linear(classifier: Any, model: Any) -> bool:
    """Whether the classifier's score is a sum of one term for each number."""
    *before, last = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    return (
        isinstance(classifier, TablePUClassifier)
        and hasattr(last, "coef_")
        and hasattr(last, "decision_function")
        and all(isinstance(step, SCALERS) for step in before)
    )


def _linear_parts(model: Any, X: Single, background: Single) -> Array:
    """Coefficient × (value − mean over the background), by number."""
    last = model
    if isinstance(model, Pipeline):
        last = model[-1]
        X, background = (model[:-1].transform(part) if len(model) > 1 else part for part in (X, background))
    return np.asarray(last.coef_[0] * (X - np.asarray(background).mean(axis=0, dtype=np.float64)))


def _occlusion(
    classifier: Any, X: Single, background: Single, groups: dict[str, list[int]], tried: Collection[str], seed: int
) -> Array:
    """How much the score falls, on average, if a column's numbers are replaced by those of background rows."""
    n_rows, width = X.shape
    n_drawn = int(np.clip(PASSES // max(1, n_rows * len(tried)), LEAST_BACKGROUND, BACKGROUND))
    drawn = background[_some(np.arange(len(background)), n_drawn, seed)]
    effects = np.zeros((n_rows, len(groups)))
    step = max(1, NUMBERS_AT_ONCE // (width * len(drawn)))
    at = {name: i for i, name in enumerate(groups)}

    def score(rows: Single) -> Array:
        """Before calibration. Calibrated scores have flat parts, where no column would have an effect."""
        return raw_scores(classifier, rows)

    for start in range(0, n_rows, step):
        rows = X[start : start + step]
        whole = score(rows)
        repeated = np.tile(rows, (len(drawn), 1))
        for name in tried:
            values = np.repeat(drawn[:, groups[name]], len(rows), axis=0)
            scores = replaced(score, repeated, groups[name], values)
            effects[start : start + step, at[name]] = whole - scores.reshape(len(drawn), -1).mean(axis=0)
    return effects


def _some(rows: Index, n: int, seed: int) -> Index:
    return rows if len(rows) <= n else np.sort(np.random.default_rng(seed).choice(rows, n, replace=False))


# Reasons ----------------------------------------------------------------------------------------------------------


def strongest(effects: Array, columns: Sequence[str], frame: pl.DataFrame, n: int = len(REASONS)) -> list[list[Reason]]:
    """For each row, the columns with the largest effects, for or against it, the largest first.

    There may be fewer than n, because a column with hardly any effect is no reason.

    Parameters
    ----------
    effects : array of shape (rows, columns)
    columns : list of str
        Their names.
    frame : polars.DataFrame
        The same rows of the table.
    """
    sizes = np.abs(effects)
    shares = sizes / np.maximum(sizes.sum(axis=1, keepdims=True), 1e-12)
    order = np.argsort(-sizes, axis=1, kind="stable")[:, :n]
    values = {columns[i]: frame[columns[i]] for i in np.unique(order)}
    return [
        [
            {
                "column": columns[i],
                "value": _short(values[columns[i]][row]),
                "effect": float(effects[row, i]),
                "share": float(shares[row, i]),
            }
            for i in own
            if shares[row, i] >= NEGLIGIBLE
        ]
        for row, own in enumerate(order)
    ]


def in_words(reason: Reason) -> str:
    """A reason as text, such as ``tenure = 2: strongly for``."""
    direction = "for" if reason["effect"] > 0 else "against"
    return f"{reason['column']} = {reason['value']}: {'strongly ' if reason['share'] >= STRONG else ''}{direction}"


def reason_columns(reasons: Sequence[Sequence[Reason]]) -> pl.DataFrame:
    """The reasons of rows as text, in the columns ``REASONS``."""
    texts = [[in_words(reason) for reason in own] + [None] * (len(REASONS) - len(own)) for own in reasons]
    return pl.DataFrame(texts, schema=dict.fromkeys(REASONS, pl.String), orient="row")


def _short(value: Any) -> str:
    if value is None or value != value:
        return "missing"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = f"{value:.6g}" if isinstance(value, float) else " ".join(str(value).removesuffix(" 00:00:00").split())
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
