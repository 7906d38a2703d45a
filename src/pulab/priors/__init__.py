"""The class prior: what share of the population is positive, from labelled positives and unlabeled rows.

Every estimator here rests on one assumption that data cannot prove: somewhere there is a region where (almost) all rows
are positive. Without it the share cannot be known, and what is estimated is an upper bound.

Inside, all methods estimate the share of positives among the *unlabeled* rows; what is returned is the share in the
population, which in a single sample holds the labelled rows, too.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array

from pulab._validation import check_choice, check_labels, check_number
from pulab.errors import InputError, PulabWarning
from pulab.metrics import SCENARIOS, separation
from pulab.priors._from_rows import km2, tice
from pulab.priors._from_scores import bbe, dedpul, density_ratio, elkan_noto, shows_pure_positives
from pulab.priors._sample import Array, Sample

__all__ = [
    "METHODS",
    "PriorEstimate",
    "Sample",
    "bbe",
    "dedpul",
    "density_ratio",
    "elkan_noto",
    "estimate_prior",
    "km2",
    "tice",
]

Estimator = Callable[[Sample, np.random.Generator], float]
CAREFUL = 0.1  # estimates that lie further apart than this disagree
FEW = 50  # labelled rows, below which nothing is sure


@dataclass(frozen=True)
class PriorEstimate:
    """The share of positives in the population, between which values it lies (95 %), and how it was found."""

    prior: float
    interval: tuple[float, float]
    method: str
    details: dict[str, Any] = field(default_factory=dict)


def estimate_prior(
    X: Any,
    s: Any,
    method: str = "auto",
    *,
    scenario: str = "case-control",
    random_state: Any = 0,
    scores: Any = None,
    n_bootstrap: int = 100,
) -> PriorEstimate:
    """Estimate the class prior.

    Parameters
    ----------
    X : array of shape (n, …) or sparse matrix, or None where scores are given and the method needs no more
    s : array of shape (n,)
        1 for a known positive, 0 for an unlabeled row; also read: whatever ``fit`` reads.
    method : {"auto", "dedpul", "bbe", "tice", "km2", "elkan-noto"}
        "auto" is the mean of DEDPUL and BBE, with a warning where they disagree or where no region of pure positives
        is in sight.
    scenario : {"case-control", "single-sample"}
        Whether the unlabeled rows are the population, or labelled and unlabeled rows together are.
    random_state : int, RandomState or None
        For folds, subsamples and the bootstrap.
    scores : array of shape (n,), optional
        How much each row looks like a labelled one, by a model that has not seen it. Without them a logistic model and
        boosted trees are trained in five folds, and the one that tells P from U better is taken.
    n_bootstrap : int
        Samples to draw again for the interval; 0: the interval is the estimate alone.

    Examples
    --------
    >>> from pulab.datasets import load_digits, make_pu
    >>> from pulab.priors import estimate_prior
    >>> digits = load_digits(positive=(0, 2, 4, 6, 8))
    >>> pu = make_pu(digits.X_train, digits.y_train, n_labeled=200, n_unlabeled=1000, random_state=0)
    >>> found = estimate_prior(pu.X, pu.s)
    >>> abs(found.prior - pu.prior) < 0.1
    True

    References
    ----------
    Ivanov 2020 (DEDPUL), Garg et al. 2021 (BBE), Bekker and Davis 2018 (TIcE), Ramaswamy et al. 2016 (KM2), Elkan and
    Noto 2008.
    """
    check_choice("method", method, METHODS)
    check_choice("scenario", scenario, SCENARIOS)
    check_number("n_bootstrap", n_bootstrap, low=0, whole=True)
    rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
    n = len(scores) if X is None and scores is not None else _n_rows(X)
    labelled = check_labels(s, n, name="s").positive
    # P first, then U: how their rows are interleaved must not matter.
    order = np.argsort(~labelled, kind="stable")
    labelled = labelled[order]
    details: dict[str, Any] = {}
    if METHODS[method].needs_scores:
        if scores is not None:
            logits = _given_scores(scores, n)[order]
        else:
            logits = _out_of_fold(_table(X)[order], labelled, rng, details)
        sample = Sample(logits[labelled], logits[~labelled])
    else:
        sample = _rows(_table(X)[order], labelled, rng)
    found = {name: function(sample, rng) for name, function in METHODS[method].parts.items()}
    share = float(np.mean(list(found.values())))
    reach = [*found.values(), *_quantiles(METHODS[method].parts.values(), sample, rng, n_bootstrap)]
    n_p, n_u = int(labelled.sum()), int((~labelled).sum())

    def population(value: float) -> float:
        whole = value if scenario == "case-control" else (n_p + value * n_u) / n
        return float(np.clip(whole, 1e-6, 1 - 1e-6))

    details["warnings"] = _doubts(found, sample, share)
    details["methods"] = {name: population(value) for name, value in found.items()}
    return PriorEstimate(population(share), (population(min(reach)), population(max(reach))), method, details)


def _quantiles(
    parts: Iterable[Estimator], sample: Sample, rng: np.random.Generator, n_bootstrap: int
) -> Iterator[float]:
    """Between which values 95 % of each method's estimates lie, over samples that are drawn again."""
    slow = sample.positive.ndim > 1
    again = [sample.drawn_again(rng) for _ in range(min(n_bootstrap, 10) if slow else n_bootstrap)]
    for function in parts:
        yield from np.quantile([function(other, rng) for other in again], (0.025, 0.975)) if again else ()


def _doubts(found: dict[str, float], sample: Sample, share: float) -> list[str]:
    """Why the estimate may not be trusted; each reason is a warning, too."""
    said = []
    if len(sample.positive) < FEW:
        said.append(f"only {len(sample.positive)} rows are labelled, which makes it a guess")
    if share > 0.99:
        said.append("it comes out as all of the unlabeled rows, so that P and U cannot be told apart")
    if len(found) > 1:
        if max(found.values()) - min(found.values()) > CAREFUL:
            said.append(f"{' and '.join(f'{name} says {value:.2f}' for name, value in found.items())}: they disagree")
        if not shows_pure_positives(sample, share):
            said.append("no region of pure positives is in sight, so that this may be an upper bound")
    for text in said:
        warnings.warn(f"class prior: {text}.", PulabWarning, stacklevel=3)
    return said


@dataclass(frozen=True)
class Method:
    """One estimator or several whose mean is taken: from scores, or from the rows themselves."""

    parts: dict[str, Estimator]
    needs_scores: bool = True


METHODS = {
    "auto": Method({"dedpul": dedpul, "bbe": bbe}),
    "dedpul": Method({"dedpul": dedpul}),
    "bbe": Method({"bbe": bbe}),
    "tice": Method({"tice": tice}, needs_scores=False),
    "km2": Method({"km2": km2}, needs_scores=False),
    "elkan-noto": Method({"elkan-noto": elkan_noto}),
}


def _n_rows(X: Any) -> int:
    if X is None or (not hasattr(X, "shape") and not hasattr(X, "__len__")):
        raise InputError("estimate_prior needs X, or scores for a method that works on scores.")
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def _given_scores(scores: Any, n: int) -> Array:
    try:
        array = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"scores must be numbers, one per row, but: {error}.") from error
    if array.shape != (n,):
        raise InputError(f"scores must be {n} finite numbers, one per row, got an array of shape {array.shape}.")
    if not np.isfinite(array).all():
        raise InputError("scores must be finite numbers, got NaN or infinity.")
    return array


def _table(X: Any) -> Any:
    """Any rows as a table; images are flattened, sparse rows stay sparse."""
    if X is None:
        raise InputError("this method looks at the rows themselves: pass X.")
    if sparse.issparse(X):
        return check_array(X, accept_sparse="csr", dtype=np.float64)
    array = check_array(X, allow_nd=True, dtype=np.float64)
    return array.reshape(len(array), -1)


def _rows(table: Any, labelled: NDArray[np.bool_], rng: np.random.Generator) -> Sample:
    """Standardised rows for the methods that look at rows, at most 100 of their features."""
    chosen = np.sort(rng.choice(table.shape[1], min(table.shape[1], 100), replace=False))
    part = table[:, chosen]
    dense = np.asarray(part.todense() if sparse.issparse(part) else part, dtype=np.float64)
    dense = StandardScaler().fit_transform(dense)
    return Sample(dense[labelled], dense[~labelled])


def _out_of_fold(table: Any, labelled: NDArray[np.bool_], rng: np.random.Generator, details: dict[str, Any]) -> Array:
    """Logits of being labelled, by models that have not seen the row; of two kinds of model the better one's."""
    n_splits = int(min(5, labelled.sum(), (~labelled).sum()))
    if n_splits < 2:
        raise InputError(
            f"estimating the prior needs at least two labelled and two unlabeled rows, got {labelled.sum()} and "
            f"{(~labelled).sum()}. Pass prior=… instead."
        )
    seed = int(rng.integers(2**31))
    scale = StandardScaler(with_mean=not sparse.issparse(table))
    models: dict[str, Any] = {
        "logistic": make_pipeline(scale, LogisticRegression(class_weight="balanced", max_iter=300)),
        "trees": HistGradientBoostingClassifier(
            max_leaf_nodes=15, l2_regularization=1.0, class_weight="balanced", random_state=seed
        ),
    }
    if sparse.issparse(table):
        del models["trees"]
    folds = _folds_of_whole_groups(table, labelled, n_splits, rng)
    found: dict[str, Array] = {}
    for name, model in models.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # lbfgs that stops early gives scores that are good enough
            found[name] = cross_val_predict(model, table, labelled.astype(int), cv=folds, method="decision_function")
    told_apart = {name: separation(g[labelled], g[~labelled]) for name, g in found.items()}
    # Noise flatters the larger of two figures, and simple scores are smoother: trees must be better by a little.
    better = max(told_apart, key=lambda name: told_apart[name] + (0.005 if name == "logistic" else 0))
    details |= {"scores": better, "separation": told_apart}
    return found[better]


def _folds_of_whole_groups(
    table: Any, labelled: NDArray[np.bool_], n_splits: int, rng: np.random.Generator
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Folds with their share of labelled rows, in which copies of a row stay together: else a model would know them."""
    rows = (
        [table[i].data.tobytes() + table[i].indices.tobytes() for i in range(table.shape[0])]
        if (sparse.issparse(table))
        else [row.tobytes() for row in table]
    )
    numbers: dict[bytes, int] = {}
    group = np.array([numbers.setdefault(row, len(numbers)) for row in rows])
    has_label = np.zeros(len(numbers), dtype=bool)
    has_label[group[labelled]] = True
    fold_of_group = np.empty(len(numbers), dtype=int)
    for members in (np.flatnonzero(has_label), np.flatnonzero(~has_label)):
        fold_of_group[rng.permutation(members)] = np.arange(len(members)) % n_splits
    fold = fold_of_group[group]
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_splits)]
