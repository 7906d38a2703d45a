"""The summary of a fitted table, as plain JSON. :mod:`pulab.tables` writes it, and the report reads it.

These types are its only definition: mypy checks both sides against them, and tests check the templates.
"""

from collections.abc import Mapping
from typing import Any, TypedDict, cast, get_args, get_origin, get_type_hints, is_typeddict

Interval = list[float]  # its two ends


class Column(TypedDict):
    """A column of the table."""

    name: str
    kind: str
    missing: float  # share of the rows
    note: str  # why it was left out


class Table(TypedDict):
    """The table that the model was fitted to."""

    name: str
    rows: int
    labelled: int
    unlabeled: int
    label: str
    positive: str
    id: str | None
    columns: list[Column]


class Prior(TypedDict):
    """The share of positives."""

    value: float
    interval: Interval
    source: str  # "estimated" or "given"
    methods: dict[str, float]  # what each estimator says
    warnings: list[str]
    agree: bool | None  # whether the estimators agree; None for a single one


class Compared(TypedDict):
    """A method that `auto` compared, with its held-out PU risk."""

    method: str
    risk: float
    interval: Interval
    seconds: float


# Not a class, because "class" is a keyword.
MethodUsed = TypedDict(
    "MethodUsed",
    {
        "key": str,
        "class": str,
        "asked": str,  # "auto", or the key
        "why": str,
        "compared": list[Compared],
        "settings": dict[str, Any],
    },
)


class Metric(TypedDict):
    """A figure of merit. The intervals are for the prior's interval, for other samples, and for both."""

    name: str
    value: float | None
    band: Interval | None
    interval: Interval | None
    between: Interval | None
    more_is_better: bool


class Distributions(TypedDict):
    """Histograms of the probabilities: shares of the rows in each bin."""

    edges: list[float]
    labelled: list[float]
    unlabeled: list[float]


class ReviewPoint(TypedDict):
    """What to expect from the first k candidates."""

    k: int
    precision: float
    precision_band: Interval
    recall: float
    recall_band: Interval


class Curve(TypedDict):
    """A training curve."""

    name: str
    unit: str  # "epochs" or "trees"
    values: list[float | None]
    best: int | None  # counted from 1


class Feature(TypedDict):
    """How much a column matters."""

    name: str
    importance: float
    std: float


class Stability(TypedDict):
    """How often the models of the folds agree on the first k candidates."""

    k: int
    mean: float


class Candidate(TypedDict):
    """An unlabeled row that is likely positive."""

    rank: int
    id: str
    probability: float  # given that the row is unlabeled
    score: float
    decision: bool
    stability: float
    values: dict[str, str]  # of the columns that matter most


class Summary(TypedDict):
    """Everything that the report shows."""

    pulab: str
    created: str
    table: Table
    scenario: str
    prior: Prior
    method: MethodUsed
    folds: int
    metrics: list[Metric]
    distributions: Distributions
    review: list[ReviewPoint]
    curves: list[Curve]
    features: list[Feature]
    stability: Stability
    candidates: list[Candidate]
    warnings: list[str]
    seconds: float
    random_state: int


def complete(summary: Any) -> Summary:
    """A summary from a file, with every key that is defined here and no other.

    The file may be old, partial or wrong. A missing text becomes empty, a missing list or dict becomes empty, any other
    missing value becomes None. Numbers are passed on unchecked.
    """
    return cast(Summary, _complete(summary, Summary))


def _complete(value: Any, kind: Any) -> Any:
    if is_typeddict(kind):
        known = value if isinstance(value, Mapping) else {}
        return {key: _complete(known.get(key), item) for key, item in get_type_hints(kind).items()}
    if get_origin(kind) is list:
        items = value if isinstance(value, list | tuple) else []
        return [_complete(item, get_args(kind)[0]) for item in items]
    if get_origin(kind) is dict:
        return dict(value) if isinstance(value, Mapping) else {}
    return "" if value is None and kind is str else value
