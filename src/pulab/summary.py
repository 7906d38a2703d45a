"""The summary of a fitted table, as plain JSON. :mod:`pulab.tables` writes it, and the report reads it.

These types are its only definition: mypy checks both sides against them, and tests check the templates.
"""

import math
from types import UnionType
from typing import Any, TypedDict, cast, get_args, get_origin, get_type_hints, is_typeddict

Interval = list[float]  # its two ends
ODDS = 20.0  # the odds of a positive to be labelled in one stratum against another, at most: assumed, not measured


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
    weight: str | None  # the column that says how much was learned from each row
    columns: list[Column]


class Prior(TypedDict):
    """What is known about the share of positives in the population."""

    low: float
    high: float
    evident: bool  # whether a region of pure positives is evident
    value: float | None  # None unless evident, told or measured
    used: float  # the share that methods were trained with
    source: str  # "estimated", "given" or "measured"
    methods: dict[str, float]  # what each estimator says
    warnings: list[str]
    agree: bool | None  # whether the estimators agree; None for a single one


class Compared(TypedDict):
    """A method that was compared, by how far down its held-out ranking the labelled rows stand."""

    method: str
    depth: float  # geometric mean of the shares of U that score at least as high as a labelled row
    ratio: float  # of the depth to that of the chosen method
    interval: Interval  # of the ratio
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


class Decision(TypedDict):
    """Which rows are called positive."""

    rule: str | None  # "probability" or "score"; None: no row can be called without a prior or a budget
    at: float | None  # rows with a higher probability, or with at least this score, are called positive
    why: str


class Metric(TypedDict):
    """A figure of merit. Its range covers other samples and the range of the prior."""

    name: str
    value: float | None  # None if it depends on a prior that is not known
    low: float | None
    high: float | None
    more_is_better: bool


class Distributions(TypedDict):
    """Histograms of the scores: shares of the rows in each bin."""

    edges: list[float]
    labelled: list[float]
    unlabeled: list[float]


class ReviewPoint(TypedDict):
    """What the first k candidates hold."""

    k: int
    precision: float | None  # None if it depends on a prior that is not known
    precision_low: float
    precision_high: float
    recall: float  # share of the hidden positives
    recall_low: float
    recall_high: float
    lift: float  # times as many positives as among k random unlabeled rows
    lift_low: float
    lift_high: float


class Stratum(TypedDict):
    """Rows with alike values of the columns that the labelling depends on."""

    name: str
    rows: int
    labelled: int
    low: float  # the number of positives
    high: float


class WhatIf(TypedDict):
    """The share of the hidden positives in the first k rows, if labelling were biased along a column."""

    column: str
    times: float  # positives of one kind are labelled up to so many times as often as those of another
    k: int
    low: float
    high: float


class Labelling(TypedDict):
    """What is assumed about the choice of the labelled rows."""

    by: list[str]  # the columns that it may depend on; empty: labelled rows are like all positives
    strata: list[Stratum]
    what_if: WhatIf | None  # for the column along which a bias would change most; None if columns are named


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
    probability: float | None  # given that the row is unlabeled; None without a prior
    probability_low: float
    probability_high: float
    score: float
    decision: bool | None
    stability: float
    reasons: list[str]  # the strongest, for or against
    values: dict[str, str]  # of the columns that matter most


class Share(TypedDict):
    """A share of positives that was measured, and the ends of its interval."""

    value: float
    low: float
    high: float


class MeasuredDepth(TypedDict):
    """The first k unlabeled rows of the ranking, by a person's answers: how many are positive, and of all how many."""

    k: int
    precision: float
    precision_low: float
    precision_high: float
    recall: float  # of the unlabeled positives
    recall_low: float
    recall_high: float


class MeasuredBand(TypedDict):
    """The answers about one band of the ranking."""

    first: int  # rank
    last: int
    answered: int
    yes: int
    low: float  # ends of the share of positives, from these answers alone
    high: float
    expected: float  # the share if labelled rows are spread like all positives


class RandomLabelling(TypedDict):
    """Whether labelled rows are spread over the ranking like the positives that the answers found."""

    p_value: float
    rejected: bool
    text: str


class Measured(TypedDict):
    """What a person's answers say."""

    answers: int  # yes and no
    yes: int
    no: int
    skipped: int
    prior: Share
    prior_if_random: Share | None  # true only of random labelling; None if the answers speak against it
    prior_by_design: Share | None  # assumes nothing; None before every band has an answer
    review: list[MeasuredDepth]
    calibration: list[MeasuredBand]
    random_labelling: RandomLabelling
    before: Interval  # the range of the prior without the answers
    settled: bool  # whether the answers are enough to take the measured share as the prior
    enough: bool  # whether one may stop
    warnings: list[str]


class Reviewed(TypedDict):
    """Answers of earlier reviews that the fit learned from. These rows count neither as labelled nor as unlabeled."""

    positive: int
    negative: int


class Summary(TypedDict):
    """Everything that the report shows."""

    pulab: str
    created: str
    table: Table
    scenario: str
    labelling: Labelling | None
    prior: Prior
    method: MethodUsed
    decision: Decision
    folds: int
    metrics: list[Metric]
    distributions: Distributions
    review: list[ReviewPoint]
    curves: list[Curve]
    features: list[Feature]  # the columns that were shuffled
    wide: str | None  # what was done for some columns alone; None if it was done for all
    stability: Stability
    candidates: list[Candidate]
    warnings: list[str]
    seconds: float
    random_state: int
    measured: Measured | None  # after `pulab review`
    reviewed: Reviewed | None  # None if there were no answers before the fit


ADDED = ("labelling", "measured", "reviewed", "wide")  # keys that older files lack


def check_summary(summary: Any) -> Summary:
    """A summary from a file, without unknown keys. Raises ValueError if a value is missing or of another type."""
    return cast(Summary, _checked(summary, Summary, "summary"))


def _checked(value: Any, kind: Any, where: str) -> Any:
    origin, inner = get_origin(kind), get_args(kind)
    if is_typeddict(kind) and isinstance(value, dict):
        missing = [key for key in get_type_hints(kind) if key not in value and key not in ADDED]
        if missing:
            raise ValueError(f"{where}.{missing[0]} is missing")
        return {key: _checked(value.get(key), item, f"{where}.{key}") for key, item in get_type_hints(kind).items()}
    if origin is list and isinstance(value, list):
        return [_checked(item, inner[0], where) for item in value]
    if origin is dict and isinstance(value, dict):
        return {str(key): _checked(item, inner[1], where) for key, item in value.items()}
    if origin is UnionType:  # of a type and None
        return None if value is None else _checked(value, inner[0], where)
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if kind is Any or (kind is float and is_number) or (kind in (int, str, bool) and type(value) is kind):
        return value
    raise ValueError(f"{where} is {value!r}")
