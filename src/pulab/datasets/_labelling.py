"""PU data made from fully labelled data."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import _safe_indexing, check_consistent_length

from pulab._validation import SCENARIOS, Index, check_choice, check_number, check_prior
from pulab.errors import InputError


class PUSample(NamedTuple):
    """Rows with their PU labels ``s`` (1 labelled positive, 0 unlabeled), the truth, and the class prior."""

    X: Any
    s: NDArray[np.int64]
    y_true: NDArray[np.int64]
    prior: float

    @property
    def X_unlabeled(self) -> Any:
        """The unlabeled rows."""
        return _safe_indexing(self.X, np.flatnonzero(self.s == 0))

    @property
    def y_unlabeled(self) -> NDArray[np.int64]:
        """The truth about the unlabeled rows."""
        truth: NDArray[np.int64] = self.y_true[self.s == 0]
        return truth


def make_pu(
    X: Any,
    y: Any,
    *,
    n_labeled: int,
    n_unlabeled: int | None = None,
    prior: float | None = None,
    scenario: str = "case-control",
    random_state: int | np.random.Generator | None = None,
) -> PUSample:
    """Make PU data from labelled data.

    Parameters
    ----------
    X : array, sparse matrix or data frame
    y : array of 0 and 1
        The truth.
    n_labeled : int
        Number of positives to label, drawn at random.
    n_unlabeled : int, optional
        Number of unlabeled rows. By default, case-control: all rows; single-sample: all rows that are not labelled.
    prior : float, optional
        Draw the population with exactly this share of positives. By default it is drawn at random.
    scenario : {"case-control", "single-sample"}
        Case-control: P and U are drawn independently, so that a row may be in both, and U is the population.
        Single-sample: one sample is drawn, then some of its positives are labelled.

    Returns
    -------
    PUSample
        Labelled rows first, then unlabeled ones. Its ``prior`` is the parameter ``prior``, or the share of positives
        in ``y``.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.array([0, 1] * 50)
    >>> pu = make_pu(np.arange(100.0)[:, None], y, n_labeled=10, n_unlabeled=40, random_state=0)
    >>> pu.s.sum(), len(pu.s), pu.prior
    (np.int64(10), 50, 0.5)
    """
    check_choice("scenario", scenario, SCENARIOS)
    check_number("n_labeled", n_labeled, low=1, whole=True)
    rng = np.random.default_rng(random_state)
    truth = _truth(X, y)
    everyone = np.arange(len(truth))
    if scenario == "case-control":
        p = _draw(np.flatnonzero(truth == 1), n_labeled, rng, "positives")
        u = _population(truth, everyone, n_unlabeled, prior, rng)
    else:
        size = None if n_unlabeled is None else n_labeled + n_unlabeled
        sample = _population(truth, everyone, size, prior, rng)
        p = _draw(sample[truth[sample] == 1], n_labeled, rng, "positives")
        u = np.setdiff1d(sample, p)
    return _sample(X, truth, p, u, truth.mean() if prior is None else prior)


class Trial(NamedTuple):
    """The training and the validation sample of one trial. Without validation, the method holds out rows itself."""

    train: PUSample
    validation: PUSample | None


@dataclass(frozen=True)
class PlainSampling:
    """P and U as :func:`make_pu` draws them, without a validation set. This is what most users have."""

    n_labeled: int
    n_unlabeled: int
    scenario: str = "case-control"

    def draw(self, X: Any, y: Any, seed: int) -> Trial:
        """The samples of one trial. They depend on the seed only: all methods of a trial see the same rows."""
        sample = make_pu(
            X, y, n_labeled=self.n_labeled, n_unlabeled=self.n_unlabeled, scenario=self.scenario, random_state=seed
        )
        return Trial(sample, None)


@dataclass(frozen=True)
class PaperSampling:
    """The sampling protocol of the paper, which is that of Hsieh et al. 2019.

    The training data is shuffled and cut into a training pool and a validation pool. P and U are drawn independently
    from the same pool, each without replacement. The validation set has a fifth of their sizes.

    Parameters
    ----------
    pool : int
        Number of rows in the training pool; the rest is the validation pool.
    n_labeled, n_unlabeled : int
        Numbers of labelled and unlabeled rows.
    prior : float
        The prior that the methods get.
    exact : bool
        Draw U with exactly that share of positives (Table 4), not at random.
    """

    pool: int
    n_labeled: int
    n_unlabeled: int
    prior: float
    exact: bool = False

    def draw(self, X: Any, y: Any, seed: int) -> Trial:
        """The samples of one trial. They depend on the seed only: all methods of a trial see the same rows."""
        truth = _truth(X, y)
        check_number("pool", self.pool, low=1, high=len(truth) - 1, whole=True)
        check_prior(self.prior)
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(truth))
        parts = []
        for pool, share in ((order[: self.pool], 1), (order[self.pool :], 5)):
            p = _draw(pool[truth[pool] == 1], self.n_labeled // share, rng, "positives of a pool")
            u = _population(truth, pool, self.n_unlabeled // share, self.prior if self.exact else None, rng)
            parts.append(_sample(X, truth, p, u, self.prior))
        return Trial(*parts)


def _truth(X: Any, y: Any) -> NDArray[np.int64]:
    truth = np.asarray(y)
    check_consistent_length(X, truth)
    if truth.ndim != 1 or not np.isin(truth, (0, 1)).all():
        raise InputError("y must be the truth as a 1-D array of 0 and 1. Convert classes with np.isin(y, positive).")
    return truth.astype(np.int64)


def _population(
    truth: NDArray[np.int64], pool: Index, size: int | None, prior: float | None, rng: np.random.Generator
) -> Index:
    """Rows drawn from the pool at random, or with exactly the prior's share of positives."""
    if prior is None:
        return _draw(pool, len(pool) if size is None else size, rng, "rows")
    check_prior(prior)
    positive, negative = pool[truth[pool] == 1], pool[truth[pool] == 0]
    if size is None:  # as many as possible
        size = int(min(len(positive) / prior, len(negative) / (1 - prior)))
    n_positive = round(prior * size)
    drawn = [_draw(positive, n_positive, rng, "positives"), _draw(negative, size - n_positive, rng, "negatives")]
    return rng.permutation(np.concatenate(drawn))


def _draw(rows: Index, size: int, rng: np.random.Generator, what: str) -> Index:
    check_number("the number of rows to draw", size, low=1, whole=True)
    if size > len(rows):
        raise InputError(f"{size} {what} were asked for, but there are only {len(rows)}. Ask for fewer.")
    return rng.choice(rows, size=size, replace=False)


def _sample(X: Any, truth: NDArray[np.int64], p: Index, u: Index, prior: float) -> PUSample:
    rows = np.concatenate([p, u])
    X = X.tocsr() if sparse.issparse(X) else X
    s = np.concatenate([np.ones(len(p), dtype=np.int64), np.zeros(len(u), dtype=np.int64)])
    return PUSample(_safe_indexing(X, rows), s, truth[rows], float(prior))
