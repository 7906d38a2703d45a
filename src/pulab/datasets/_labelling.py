"""PU data made from fully labelled data."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import _safe_indexing, check_consistent_length

from pulab._validation import SCENARIOS, Index, check_choice, check_number, check_prior, one_error, plain
from pulab.errors import InputError


class PUSample(NamedTuple):
    """Rows with their PU labels ``s`` (1 labelled positive, 0 unlabeled), the truth, and the class prior.

    ``propensity`` has the chance of each positive row to be labelled, and NaN for negatives. It is None if the labelled
    rows were drawn at random.
    """

    X: Any
    s: NDArray[np.int64]
    y_true: NDArray[np.int64]
    prior: float
    propensity: NDArray[np.float64] | None = None

    @property
    def X_unlabeled(self) -> Any:
        """The unlabeled rows."""
        return _safe_indexing(self.X, np.flatnonzero(self.s == 0))

    @property
    def y_unlabeled(self) -> NDArray[np.int64]:
        """The truth about the unlabeled rows."""
        truth: NDArray[np.int64] = self.y_true[self.s == 0]
        return truth


@one_error()
def make_pu(
    X: Any,
    y: Any,
    *,
    n_labeled: int | None = None,
    n_unlabeled: int | None = None,
    prior: float | None = None,
    scenario: str = "case-control",
    propensity: Any = None,
    random_state: int | np.random.Generator | None = None,
) -> PUSample:
    """Make PU data from labelled data.

    Parameters
    ----------
    X : array, sparse matrix or data frame
    y : array of 0 and 1
        The truth.
    n_labeled : int
        Number of positives to label, drawn at random, or by ``propensity``.
    n_unlabeled : int, optional
        Number of unlabeled rows. By default, case-control: all rows; single-sample: all rows that are not labelled.
    prior : float, optional
        Draw the population with exactly this share of positives. By default it is drawn at random.
    scenario : {"case-control", "single-sample"}
        Case-control: P and U are drawn independently, so that a row may be in both, and U is the population.
        Single-sample: one sample is drawn, then some of its positives are labelled.
    propensity : function of X, or array, optional
        The chance of each positive to be labelled, for labels that are not given at random: a number for each row of X,
        or for each positive. Without ``n_labeled`` each positive is labelled with its own chance. With it, so many are
        labelled, and only the ratios of the chances count.

    Returns
    -------
    PUSample
        Labelled rows first, then unlabeled ones. Its ``prior`` is the parameter ``prior``, or the share of positives
        in ``y``. Its ``propensity`` has the chances as they were passed.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.array([0, 1] * 50)
    >>> pu = make_pu(np.arange(100.0)[:, None], y, n_labeled=10, n_unlabeled=40, random_state=0)
    >>> pu.s.sum(), len(pu.s), pu.prior
    (np.int64(10), 50, 0.5)

    Older rows are labelled more often:

    >>> biased = make_pu(np.arange(100.0)[:, None], y, propensity=lambda X: X[:, 0] / 100, random_state=0)
    >>> bool(biased.X[biased.s == 1].mean() > 60)
    True
    """
    check_choice("scenario", scenario, SCENARIOS)
    if n_labeled is not None or propensity is None:
        check_number("n_labeled", n_labeled, low=1, whole=True)
    rng = np.random.default_rng(random_state)
    truth = truth_of(X, y)
    everyone = np.arange(len(truth))
    chance = None if propensity is None else _chances(propensity, X, truth)
    if scenario == "case-control":
        p = _labelled(np.flatnonzero(truth == 1), n_labeled, chance, rng)
        u = draw_population(truth, everyone, n_unlabeled, prior, rng)
    else:
        if n_unlabeled is not None and n_labeled is None:
            raise InputError(
                "n_unlabeled needs n_labeled in a single sample, got None: the propensities decide how many rows are "
                "left. Pass n_labeled, too, or leave both out."
            )
        size = None if n_unlabeled is None or n_labeled is None else n_labeled + n_unlabeled
        sample = draw_population(truth, everyone, size, prior, rng)
        p = _labelled(sample[truth[sample] == 1], n_labeled, chance, rng)
        u = np.setdiff1d(sample, p)
    return sample_of(X, truth, p, u, truth.mean() if prior is None else prior, chance)


def _chances(propensity: Any, X: Any, truth: NDArray[np.int64]) -> NDArray[np.float64]:
    """The chance of each positive row to be labelled, NaN for negatives."""
    given = propensity(X) if callable(propensity) else propensity
    chance, positive = np.asarray(plain(given)), truth == 1
    what = "the function propensity must return" if callable(propensity) else "propensity must be"
    if chance.dtype.kind not in "biuf" or chance.ndim != 1 or len(chance) not in (len(truth), positive.sum()):
        raise InputError(
            f"{what} one number for each of the {len(truth)} rows or {positive.sum()} positives, got an array of "
            f"{chance.dtype} with shape {chance.shape}. Compute it from X, or pass an array in the order of X."
        )
    everywhere = np.full(len(truth), np.nan)
    everywhere[positive] = chance[positive] if len(chance) == len(truth) else chance
    wrong = everywhere[positive & ~((everywhere >= 0) & (everywhere <= 1))]
    if len(wrong):
        raise InputError(f"{what} chances from 0 to 1 for the positives, got {wrong[0]:g}. Scale or clip them.")
    return everywhere


def _labelled(positives: Index, n_labeled: int | None, chance: Any, rng: np.random.Generator) -> Index:
    """Positives that get a label: at random, each with its chance, or so many with chances in these ratios."""
    if chance is None:
        return draw_rows(positives, n_labeled or 0, rng, "positives")
    own = chance[positives]
    if n_labeled is not None:
        possible = positives[own > 0]
        if n_labeled > len(possible):
            raise InputError(
                f"{n_labeled} positives were asked for, but only {len(possible)} have a propensity above 0. Ask for "
                "fewer, or raise the propensities."
            )
        return rng.choice(positives, n_labeled, replace=False, p=own / own.sum())
    p: Index = positives[rng.random(len(positives)) < own]
    if not len(p):
        raise InputError(
            f"the propensities left none of {len(positives)} positives labelled: their mean is {own.mean():.2g}. Raise "
            "them, or pass n_labeled."
        )
    return p


def truth_of(X: Any, y: Any) -> NDArray[np.int64]:
    truth = np.asarray(plain(y))
    check_consistent_length(X, truth)
    if truth.ndim != 1 or not np.isin(truth, (0, 1)).all():
        raise InputError("y must be the truth as a 1-D array of 0 and 1. Convert classes with np.isin(y, positive).")
    return truth.astype(np.int64)


def draw_population(
    truth: NDArray[np.int64], pool: Index, size: int | None, prior: float | None, rng: np.random.Generator
) -> Index:
    """Rows drawn from the pool at random, or with exactly the prior's share of positives."""
    if prior is None:
        return draw_rows(pool, len(pool) if size is None else size, rng, "rows")
    check_prior(prior)
    positive, negative = pool[truth[pool] == 1], pool[truth[pool] == 0]
    if size is None:  # as many as possible
        size = int(min(len(positive) / prior, len(negative) / (1 - prior)))
    n_positive = round(prior * size)
    drawn = [
        draw_rows(positive, n_positive, rng, "positives"),
        draw_rows(negative, size - n_positive, rng, "negatives"),
    ]
    return rng.permutation(np.concatenate(drawn))


def draw_rows(rows: Index, size: int, rng: np.random.Generator, what: str) -> Index:
    check_number("the number of rows to draw", size, low=1, whole=True)
    if size > len(rows):
        raise InputError(f"{size} {what} were asked for, but there are only {len(rows)}. Ask for fewer.")
    return rng.choice(rows, size=size, replace=False)


def sample_of(
    X: Any, truth: NDArray[np.int64], p: Index, u: Index, prior: float, chance: NDArray[np.float64] | None = None
) -> PUSample:
    rows = np.concatenate([p, u])
    X = X.tocsr() if sparse.issparse(X) else X
    s = np.concatenate([np.ones(len(p), dtype=np.int64), np.zeros(len(u), dtype=np.int64)])
    return PUSample(_safe_indexing(X, rows), s, truth[rows], float(prior), None if chance is None else chance[rows])
