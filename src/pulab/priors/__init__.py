"""The class prior: the share of positives in the population, estimated from labelled positives and unlabeled rows.

Labelled and unlabeled rows tell a *range* of this share: no less than the labelled share, and no more than the density
ratio at the top of the ranking allows. All estimators take the upper end of this range. It is the share itself only if
(almost) all rows of some region are positive. Where such a region is not evident, only the range is known.

The methods estimate the share of positives among the *unlabeled* rows. The returned share is that of the population,
which in a single sample includes the labelled rows.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import _num_samples, check_array

from pulab._threads import threads_for
from pulab._validation import SCENARIOS, check_choice, check_labels, draw_seed, one_error, plain
from pulab.errors import InputError, warn
from pulab.metrics import Array, finite_values
from pulab.priors._from_rows import km2, tice
from pulab.priors._from_scores import bbe, dedpul, density_ratio, elkan_noto
from pulab.priors._range import limits
from pulab.priors._sample import Sample
from pulab.priors._scores import out_of_fold

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
    "limits",
    "tice",
]

Estimator = Callable[[Sample, np.random.Generator], float]
CAREFUL = 0.1  # estimates that differ by more disagree
FEW = 50  # with fewer labelled rows an estimate is unsure


@dataclass(frozen=True)
class PriorEstimate:
    """What is known about the share of positives in the population.

    Attributes
    ----------
    prior : float
        The share to train with. It is an estimate only where a region of pure positives is evident. Elsewhere it is
        where the estimators put the upper end of the range.
    interval : tuple of two floats
        The range of the share. Each end misses the truth with a chance of 2.5 %, if labels were given at random.
    evident : bool
        Whether a region of pure positives is evident. If not, the share may lie anywhere in the range.
    source : {"estimated", "given", "measured"}
    agree : bool or None
        Whether the estimators agree; None where there is only one.
    """

    prior: float
    interval: tuple[float, float]
    method: str
    details: dict[str, Any] = field(default_factory=dict)
    agree: bool | None = None
    evident: bool = False
    source: str = "estimated"

    @property
    def value(self) -> float | None:
        """The share of positives; None where only its range is known."""
        return self.prior if self.evident or self.source != "estimated" else None


def estimate_prior(
    X: Any,
    s: Any,
    method: str = "auto",
    *,
    scenario: str = "case-control",
    random_state: Any = 0,
    scores: Any = None,
) -> PriorEstimate:
    """Estimate the class prior.

    Parameters
    ----------
    X : array of shape (n, …) or sparse matrix, or None where scores are given and the method needs no more
    s : array of shape (n,)
        1 for a known positive, 0 for an unlabeled row, or any other labels that ``fit`` accepts.
    method : {"auto", "dedpul", "bbe", "tice", "km2", "elkan-noto"}
        "auto" is the mean of DEDPUL and BBE. It warns where the share is not known but only its range, where the two
        disagree, and where fewer than 50 rows are labelled.
    scenario : {"case-control", "single-sample"}
        Case-control: the unlabeled rows are the population. Single-sample: all rows are.
    random_state : int, RandomState or None
        Seeds folds, models and subsamples.
    scores : array of shape (n,), optional
        A score of each row by a model that has not seen it: high for rows that look like labelled ones. Without scores
        a logistic model, a kernel model and trees are trained in five folds. The one that separates P from U best is
        taken.
    Notes
    -----
    The range (``interval``) comes from held-out scores, whatever the method is. ``details`` holds the warnings
    (``warnings``) and the estimate of each method (``methods``). If no scores were given, it also says how well each
    model separates P from U (``separation``) and which model was taken (``scores``).

    Examples
    --------
    >>> from pulab.datasets import load_digits, make_pu
    >>> from pulab.priors import estimate_prior
    >>> digits = load_digits(positive=(0, 2, 4, 6, 8))
    >>> pu = make_pu(digits.X_train, digits.y_train, n_labeled=500, n_unlabeled=1000, random_state=0)
    >>> estimate = estimate_prior(pu.X, pu.s)
    >>> low, high = estimate.interval
    >>> low <= pu.prior <= high
    True

    References
    ----------
    Ivanov 2020 (DEDPUL), Garg et al. 2021 (BBE), Bekker and Davis 2018 (TIcE), Ramaswamy et al. 2016 (KM2), Elkan and
    Noto 2008.
    """
    check_choice("method", method, METHODS)
    check_choice("scenario", scenario, SCENARIOS)
    rng = np.random.default_rng(draw_seed(random_state))
    if X is None and (scores is None or method in FROM_ROWS):
        raise InputError(f"method={method!r} needs X{'' if method in FROM_ROWS else ' or scores'}, got None.")
    X = plain(X)
    with one_error():
        n = _num_samples(plain(scores) if X is None else X)
    labelled = check_labels(s, n, name="s").positive
    # P first, then U: the result must not depend on how their rows are interleaved.
    order = np.concatenate([np.flatnonzero(labelled), np.flatnonzero(~labelled)])
    labelled = labelled[order]
    details: dict[str, Any] = {}
    table = None if X is None else _table(X)[order]
    with threads_for(n * (1 if table is None else table.shape[1])):
        values = out_of_fold(table, labelled, rng, details) if scores is None else finite_values(scores, n)[order]
        held_out = Sample(values[labelled], values[~labelled])
        if method in FROM_ROWS:
            rows = _rows(table, rng)
            sample = Sample(rows[labelled], rows[~labelled])
        else:
            sample = held_out
        shares = {name: function(sample, rng) for name, function in METHODS[method].items()}
    in_one_sample = scenario == "single-sample"
    n_p, n_u = len(held_out.positive), len(held_out.unlabeled)
    low, high, evident = limits(held_out, scenario)

    def population(share: float) -> float:
        return (n_p + share * n_u) / n if in_one_sample else share

    def within(share: float) -> float:
        return float(np.clip(share, max(low, 1e-6), min(high, 1 - 1e-6)))

    methods = {name: float(population(value)) for name, value in shares.items()}
    agree = max(shares.values()) - min(shares.values()) <= CAREFUL if len(shares) > 1 else None
    prior = within(float(np.mean(list(methods.values()))))
    estimate = PriorEstimate(prior, (within(low), within(high)), method, details, agree, evident)
    details |= {"methods": methods, "warnings": _doubts(estimate, methods, n_p)}
    return estimate


def _doubts(estimate: PriorEstimate, methods: dict[str, float], n_p: int) -> list[str]:
    """Reasons to distrust an estimate, in shares of the population. Each is also given as a warning."""
    reasons = []
    low, high = estimate.interval
    if n_p < FEW:
        reasons.append(f"only {n_p} rows are labelled, which tells little")
    if not estimate.evident:
        reasons.append(
            f"it is at most {high:.3f} and at least {low:.3f}. More is not known, because no region of pure positives "
            "is evident"
        )
    elif estimate.agree is False:
        reasons.append(f"{' and '.join(f'{name} says {value:.2f}' for name, value in methods.items())}: they disagree")
    for text in reasons:
        warn(f"class prior: {text}.")
    return reasons


# One estimator, or several whose mean is taken.
METHODS: dict[str, dict[str, Estimator]] = {
    "auto": {"dedpul": dedpul, "bbe": bbe},
    "dedpul": {"dedpul": dedpul},
    "bbe": {"bbe": bbe},
    "tice": {"tice": tice},
    "km2": {"km2": km2},
    "elkan-noto": {"elkan-noto": elkan_noto},
}
FROM_ROWS = ("tice", "km2")  # the others use scores


def _table(X: Any) -> Any:
    """Rows as a table. Images are flattened, sparse rows stay sparse, gaps are filled with the median."""
    with one_error():
        if sparse.issparse(X):
            return check_array(X, accept_sparse="csr", dtype=np.float64)
        array = check_array(X, allow_nd=True, dtype=np.float64, ensure_all_finite="allow-nan")
    array = array.reshape(len(array), -1)
    if np.isnan(array).any():
        array = SimpleImputer(strategy="median", keep_empty_features=True).fit_transform(array)
    return array


def _rows(table: Any, rng: np.random.Generator) -> Array:
    """Standardised rows, with at most 100 of their features."""
    chosen = np.sort(rng.choice(table.shape[1], min(table.shape[1], 100), replace=False))
    part = table[:, chosen]
    dense = np.asarray(part.todense() if sparse.issparse(part) else part, dtype=np.float64)
    return np.asarray(StandardScaler().fit_transform(dense))
