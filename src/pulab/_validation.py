"""Checks of the arguments: rows become finite numbers, labels become a mask, the prior is a fraction."""

import math
import numbers
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from pulab.errors import (
    InputError,
    InputTypeError,
    OutOfMemoryError,
    PriorError,
    PulabError,
    in_one_line,
    nearest,
    short,
    warn,
)

AnyArray = NDArray[Any]
Index = NDArray[np.int64]
SCENARIOS = ("case-control", "single-sample")
Scenario = Literal["case-control", "single-sample"]


class UnfittedError(InputError, NotFittedError):  # type: ignore[misc]  # scikit-learn is untyped
    """The estimator is not fitted yet. Also scikit-learn's ``NotFittedError``."""


def check_fitted(estimator: Any, attribute: str) -> None:
    """Refuse an estimator that is not fitted."""
    try:
        check_is_fitted(estimator, attribute)
    except NotFittedError as error:
        raise UnfittedError(str(error)) from None


@contextmanager
def out_of_memory() -> Iterator[None]:
    """Inside, an error that says that memory is short becomes ours. Others stay as they are."""
    try:
        yield
    except Exception as error:
        if isinstance(error, PulabError) or not is_out_of_memory(error):
            raise
        raise OutOfMemoryError(TOO_LARGE) from error


@contextmanager
def one_error(what: str = "") -> Iterator[None]:
    """Inside, an error of another library becomes one of ours, in one line that begins with ``what``."""
    try:
        with out_of_memory():
            yield
    except PulabError:
        raise
    except Exception as error:
        kind = InputTypeError if isinstance(error, TypeError) else InputError
        raise kind(f"{what}{_in_short(error)}.") from error


TOO_LARGE = (
    "there is too little memory for this. Pass fewer rows or columns, or use smaller batches or another machine."
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory is short. torch has a plain RuntimeError for it on a CPU."""
    said = isinstance(error, RuntimeError) and re.search(r"allocate memory|not enough memory|out of memory", str(error))
    return isinstance(error, MemoryError) or bool(said)


def _in_short(error: Exception) -> str:
    """The message without the values of the array that it is about."""
    text = re.sub(r"\barray=.*Reshape", "Reshape", str(error), flags=re.DOTALL)
    text = re.sub(r"(Complex data not supported)\n.*", r"\1", text, flags=re.DOTALL)
    line = in_one_line(ValueError(text)) if text else type(error).__name__
    if "could not convert" in line or "bytes/strings" in line:
        return f"X must be numbers, but: {line}. Encode such columns, for example with skrub"
    return line


def plain(array: Any) -> Any:
    """A tensor as numpy can read it; anything else as it is."""
    if type(array).__module__.partition(".")[0] != "torch" or not hasattr(array, "detach"):
        return array
    with one_error():
        array = array.detach().cpu()
    return array.float() if str(array.dtype) == "torch.bfloat16" else array


def check_number(
    name: str, value: Any, *, low: float = -math.inf, high: float = math.inf, ends: str = "[]", whole: bool = False
) -> None:
    """Refuse a parameter that is not a finite number in the interval, or not a whole one if ``whole``."""
    kind = numbers.Integral if whole else numbers.Real
    largest = 2**63 - 1 if whole else sys.float_info.max
    good = not isinstance(value, bool) and isinstance(value, kind) and bool(-largest <= value <= largest)  # type: ignore[operator]
    good = good and (value >= low if ends[0] == "[" else value > low)
    good = good and (value <= high if ends[1] == "]" else value < high)
    if not good:
        noun = "whole number" if whole else "number"
        left, right = ends[0] if math.isfinite(low) else "(", ends[1] if math.isfinite(high) else ")"
        raise InputError(f"{name} must be a {noun} in {left}{low:g}, {high:g}{right}, got {short(value)}.")


def check_choice(name: str, value: Any, choices: Any) -> None:
    """Refuse a parameter that is not one of these words."""
    if not isinstance(value, str) or value not in choices:
        near = nearest(value, map(str, choices)) if isinstance(value, str) else ""
        raise InputError(f"{name} must be one of {', '.join(map(repr, choices))}, got {short(value)}.{near}")


def several(name: str, values: Any) -> Any:
    """Values to go through, unless there is nothing to go through. A single word is left to the caller."""
    if isinstance(values, str):
        return values
    with one_error(f"{name} must be a list of names, got {short(values)}: "):
        return [*values]


def check_prior(prior: Any, hint: str = ", or prior='estimate'") -> float:
    """The class prior as a float strictly between 0 and 1."""
    if isinstance(prior, bool) or not isinstance(prior, numbers.Real) or not 0 < prior < 1:  # type: ignore[operator]
        raise PriorError(
            f"prior must be a number strictly between 0 and 1, got {short(prior)}. "
            f"Pass the share of positives in the population, such as prior=0.3{hint}."
        )
    return float(prior)


def check_rows(estimator: Any, X: Any, *, reset: bool, allow_nan: bool = False) -> Any:
    """X as a finite numeric array of two or more dimensions, or as a CSR matrix.

    With ``reset`` the estimator keeps the width and the column names of X; otherwise X must have the same. With
    ``allow_nan`` numbers may be missing, but not infinite.
    """
    with one_error():
        X = validate_data(
            estimator,
            plain(X),
            reset=reset,
            accept_sparse="csr",
            accept_large_sparse=True,
            allow_nd=True,
            dtype="numeric",
            ensure_all_finite="allow-nan",
        )
    if X.dtype.kind not in "buif":
        raise InputError(f"X must be numbers, got {X.dtype}. Encode such columns, for example with skrub.")
    numbers = X.data if sparse.issparse(X) else X
    if not allow_nan and numbers.size and np.isnan(numbers.min()):
        raise InputError(
            "Input X contains NaN. This method takes no missing values. Impute first, for example with SimpleImputer."
        )
    if 0 in X.shape[1:]:
        raise InputError(f"X has rows of shape {X.shape[1:]}, which are empty.")
    if sparse.issparse(X) and X.indices.dtype == np.int64 and max(X.nnz, *X.shape) < 2**31:
        # trees of scikit-learn take short indices only
        X = type(X)((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape, copy=False)
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
    with one_error():
        return _labels(_column(y, n_rows), classes, name)


def check_kinds(y: Any, n_rows: int, unlabeled: Any) -> tuple[Index, AnyArray]:
    """Labels of several kinds: the number of each row's kind, or -1 for an unlabeled row, and the sorted kinds."""
    with one_error():
        if isinstance(y, list | tuple) and len({isinstance(value, str) for value in y}) > 1:
            y = np.array(y, dtype=object)  # otherwise the numbers become words
        y = _column(y, n_rows)
        missing = _missing(y)
        marked = np.array([not m and v != unlabeled for m, v in zip(missing, y.tolist(), strict=True)], dtype=bool)
        if len({isinstance(value, str) for value in y[marked].tolist()}) > 1:
            raise InputError("y mixes words and numbers as kinds. Use words for all, or numbers for all.")
        kinds, of_marked = np.unique(np.array(y[marked].tolist()), return_inverse=True)
    if kinds.dtype.kind == "f" and not (np.isfinite(kinds) & (kinds == np.floor(kinds))).all():
        raise InputError("Unknown label type: y holds infinity or a fraction. Mark kinds with whole numbers.")
    if marked.all() or not marked.any():
        one = "y has one class: " if len(kinds) <= 1 else ""
        all_are = "of a kind" if marked.all() else "unlabeled"
        raise InputError(f"{one}every row of y is {all_are}. Mark unlabeled rows with {unlabeled!r}, None or NaN.")
    if kinds.dtype.kind in "if" and kinds[0] == -1 and unlabeled == 0:
        raise InputError("y holds -1, which often marks unlabeled rows. Pass unlabeled=-1, or name the kind otherwise.")
    kind_of = np.full(n_rows, -1, dtype=np.int64)
    kind_of[marked] = of_marked
    return kind_of, kinds


def _column(y: Any, n_rows: int) -> AnyArray:
    """Labels as one array."""
    if y is None:
        raise InputError("estimator requires y to be passed, but the target y is None.")
    if hasattr(y, "dtype") and type(y).__module__.startswith("pandas") and not isinstance(y.dtype, np.dtype):
        y = np.asarray(y, dtype=object)  # pandas' own types keep their missing values
    column: AnyArray = column_or_1d(plain(y), warn=True)
    if len(column) != n_rows:
        check_consistent_length(np.empty(n_rows), column)
    return column


def _labels(y: AnyArray, classes: AnyArray | None, name: str) -> Labels:
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


def check_weights(sample_weight: Any, positive: NDArray[np.bool_], name: str = "sample_weight") -> NDArray[np.float64]:
    """Checked weights with a mean of 1: only their ratios count. Neither P nor U is without any."""
    with one_error(f"{name} cannot be used: "):
        given = np.asarray(plain(sample_weight))
    if given.dtype.kind not in "biuf" or given.shape != positive.shape:
        raise InputError(
            f"{name} must have one number for each of the {len(positive)} rows, got an array of "
            f"{given.dtype} with shape {given.shape}."
        )
    weight = given.astype(np.float64)
    wrong = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if len(wrong):
        raise InputError(f"{name} must have finite numbers of at least 0, got {given[wrong[0]]}.")
    if not (weight[positive].any() and weight[~positive].any()):
        raise InputError(f"{name} is zero for a whole class: for all labelled or all unlabeled rows. Give some more.")
    weight = weight / weight.max()  # before the mean, which might overflow
    return np.asarray(weight / weight.mean())


def random_numbers(random_state: Any) -> np.random.RandomState:
    """The source of random numbers that a random state names."""
    try:
        state: np.random.RandomState = check_random_state(random_state)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"random_state must be a whole number, a numpy RandomState or None, got {short(random_state)}."
        ) from error
    return state


def draw_seed(random_state: Any) -> int:
    """The one number that a fit draws from its random state."""
    return int(random_numbers(random_state).randint(2**31 - 1))


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
