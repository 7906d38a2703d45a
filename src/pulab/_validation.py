"""Checks of the arguments: rows become finite numbers, labels become a mask, the prior is a fraction."""

import math
import numbers
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.validation import validate_data

from pulab.errors import InputError, PriorError, warn

AnyArray = NDArray[Any]
Index = NDArray[np.int64]
SCENARIOS = ("case-control", "single-sample")
Scenario = Literal["case-control", "single-sample"]


def check_number(
    name: str, value: Any, *, low: float = -math.inf, high: float = math.inf, ends: str = "[]", whole: bool = False
) -> None:
    """Refuse a parameter that is not a finite number in the interval, or not a whole one if ``whole``."""
    kind = numbers.Integral if whole else numbers.Real
    good = not isinstance(value, bool) and isinstance(value, kind) and math.isfinite(value)
    good = good and (value >= low if ends[0] == "[" else value > low)
    good = good and (value <= high if ends[1] == "]" else value < high)
    if not good:
        noun = "whole number" if whole else "number"
        left, right = ends[0] if math.isfinite(low) else "(", ends[1] if math.isfinite(high) else ")"
        raise InputError(f"{name} must be a {noun} in {left}{low:g}, {high:g}{right}, got {value!r}.")


def check_choice(name: str, value: Any, choices: Any) -> None:
    """Refuse a parameter that is not one of these words."""
    if not isinstance(value, str) or value not in choices:
        raise InputError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}.")


def check_prior(prior: Any, hint: str = ", or prior='estimate'") -> float:
    """The class prior as a float strictly between 0 and 1."""
    if not isinstance(prior, numbers.Real) or not 0 < float(prior) < 1:
        raise PriorError(
            f"prior must be a number strictly between 0 and 1, got {prior!r}. "
            f"Pass the share of positives in the population, such as prior=0.3{hint}."
        )
    return float(prior)


def check_rows(estimator: Any, X: Any, *, reset: bool, allow_nan: bool = False) -> Any:
    """X as a finite numeric array of two or more dimensions, or as a CSR matrix.

    With ``reset`` the estimator keeps the width and the column names of X; otherwise X must have the same. With
    ``allow_nan`` numbers may be missing, but not infinite.
    """
    try:
        X = validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse="csr",
            accept_large_sparse=True,
            allow_nd=True,
            dtype="numeric",
            ensure_all_finite="allow-nan",
        )
    except ValueError as error:
        if "could not convert" in str(error):
            raise InputError(f"X must be numbers, but: {error}. Encode such columns, for example with skrub.") from None
        raise
    if X.dtype.kind not in "buif":
        raise InputError(f"X must be numbers, got {X.dtype}. Encode such columns, for example with skrub.")
    numbers = X.data if sparse.issparse(X) else X
    if not allow_nan and numbers.size and np.isnan(numbers.min()):
        raise InputError(
            "Input X contains NaN. This method takes no missing values. Impute first, for example with SimpleImputer."
        )
    if 0 in X.shape[1:]:
        raise InputError(f"X has rows of shape {X.shape[1:]}, which are empty.")
    if X.dtype.itemsize > 8 or not X.dtype.isnative:
        X = X.astype(np.float64)
    if not reset and X.shape[1:] != estimator.row_shape_:
        raise InputError(f"X has rows of shape {X.shape[1:]}, but fit saw rows of shape {estimator.row_shape_}.")
    if reset:
        estimator.row_shape_ = X.shape[1:]
    return X


@dataclass(frozen=True)
class Labels:
    """PU labels: which rows are labelled positive, and the caller's names of the two classes."""

    positive: NDArray[np.bool_]
    classes: AnyArray


def check_labels(y: Any, n_rows: int, *, classes: AnyArray | None = None, name: str = "y") -> Labels:
    """Read PU labels: {1, 0}, {1, −1}, booleans, a value and NaN/None, or any two classes, the last one positive.

    For the labels of a validation set, ``classes`` are those of the training set.
    """
    if y is None:
        raise InputError("estimator requires y to be passed, but the target y is None.")
    if hasattr(y, "dtype") and type(y).__module__.startswith("pandas") and not isinstance(y.dtype, np.dtype):
        y = np.asarray(y, dtype=object)  # pandas' own types keep their missing values
    y = column_or_1d(y, warn=True)
    if len(y) != n_rows:
        check_consistent_length(np.empty(n_rows), y)
    missing = _missing(y)
    if len({isinstance(value, str) for value in y[~missing]} if y.dtype == object else ()) > 1:
        raise InputError(f"{name} mixes words and numbers. Mark positives with 1 and unlabeled rows with 0.")
    values = np.unique(np.array(y[~missing].tolist()) if y.dtype == object else y[~missing])
    if classes is None:
        classes = _classes(values, bool(missing.any()))
    elif unknown := set(values.tolist()) - set(classes.tolist()):
        raise InputError(
            f"y_val holds {sorted(unknown)}, but y has the classes {classes.tolist()}. Use the same labels."
        )
    positive = np.zeros(len(y), dtype=bool)
    positive[~missing] = y[~missing] == classes[1]
    if positive.all():
        raise InputError(f"{name} has one class: every row is labelled positive. Add unlabeled rows, marked 0.")
    if not positive.any():
        raise InputError(f"{name} has one class: every row is unlabeled. Mark the known positives with 1.")
    return Labels(positive, classes)


def _missing(y: AnyArray) -> NDArray[np.bool_]:
    if y.dtype.kind == "f":
        return np.isnan(y)
    if y.dtype != object:
        return np.zeros(len(y), dtype=bool)
    # NaN differs from itself. pandas' NA cannot be compared, so look at its type.
    return np.array([v is None or type(v).__name__ in ("NAType", "NaTType") or v != v for v in y], dtype=bool)


def _classes(values: AnyArray, has_missing: bool) -> AnyArray:
    """The two classes of the labels, the positive one last."""
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InputError("y contains infinity. Mark positives with 1 and unlabeled rows with 0.")
    if len(values) + has_missing > 2:
        shown = ", ".join(map(repr, values[:5].tolist())) + (", missing" if has_missing else "")
        raise InputError(
            f"Unknown label type: y holds {shown}. Only binary classification is supported. "
            "Mark positives with 1 and unlabeled rows with 0."
        )
    if len(values) == 2:
        last = str(values[1])
        if last.strip().lower() in ("u", "unl", "unlabeled", "unlabelled", "unknown", "negative", "neg", "nan", "none"):
            raise InputError(
                f"the label in y that sorts last marks the known positives, but here that is {last!r}. Pass 1 for "
                "positive and 0 for unlabeled."
            )
        if values.dtype.kind == "U":
            warn(f"{last!r} is taken as the label of the known positives")
        return values
    if len(values) == 0:
        raise InputError("y has one class: every row is unlabeled. Mark the known positives with 1.")
    (value,) = values
    if values.dtype.kind in "biuf":
        if not has_missing:  # one number in every row: only 1 (or True) marks a positive
            return np.array([0, 1]) if value == 1 else np.array([value, value + 1])
        if value <= 0:
            raise InputError(f"y is {value} or missing: mark the known positives with 1, the unlabeled rows with 0.")
        return np.array([0, value], dtype=values.dtype)
    return np.array([f"not {value}", value]) if has_missing else np.array(["", value])


def hold_out(rows: Index, fraction: float, rng: np.random.Generator) -> tuple[Index, Index]:
    """Split rows at random into training and validation rows, each in their old order.

    Both parts get at least one row. A single row is in both.
    """
    if len(rows) == 1:
        return rows, rows
    n_out = min(max(1, round(fraction * len(rows))), len(rows) - 1)
    out = np.zeros(len(rows), dtype=bool)
    out[rng.permutation(len(rows))[:n_out]] = True
    return rows[~out], rows[out]
