"""How an experiment draws the rows of a trial. They depend on the seed only: all methods see the same rows."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from pulab._validation import check_number, check_prior
from pulab.datasets._labelling import PUSample, draw_population, draw_rows, make_pu, sample_of, truth_of

VALIDATION_SHARE = 5  # the validation set has a fifth of the rows


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
    scenario: ClassVar[str] = "case-control"

    def draw(self, X: Any, y: Any, seed: int) -> Trial:
        """The samples of one trial. They depend on the seed only: all methods of a trial see the same rows."""
        truth = truth_of(X, y)
        check_number("pool", self.pool, low=1, high=len(truth) - 1, whole=True)
        check_prior(self.prior)
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(truth))
        parts = []
        for pool, share in ((order[: self.pool], 1), (order[self.pool :], 5)):
            p = draw_rows(pool[truth[pool] == 1], self.n_labeled // share, rng, "positives of a pool")
            u = draw_population(truth, pool, self.n_unlabeled // share, self.prior if self.exact else None, rng)
            parts.append(sample_of(X, truth, p, u, self.prior))
        return Trial(*parts)


@dataclass(frozen=True)
class HeldOutSampling:
    """P and U as :func:`make_pu` draws them, a validation set of other rows, and labels that may be biased.

    Parameters
    ----------
    n_labeled, n_unlabeled : int
        Numbers of labelled and unlabeled rows. The validation set has a fifth of them, from other rows of the data.
    scenario : {"case-control", "single-sample"}
    prior : float or None
        The share of positives in the population. Test errors are weighted to this share. None: as in the data.
    bias : float
        0: positives are labelled at random. Above: clear positives are labelled more often, the clearest e^bias times
        as often as the least clear. Positives are the clearer the further they lie from the mean of the negatives, in
        the direction of the mean of the positives.
    """

    n_labeled: int
    n_unlabeled: int
    scenario: str = "case-control"
    prior: float | None = None
    bias: float = 0.0

    def draw(self, X: Any, y: Any, seed: int) -> Trial:
        """The samples of one trial."""
        truth = truth_of(X, y)
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(truth))
        held_out = len(order) // (VALIDATION_SHARE + 1)
        parts = []
        for rows, share in ((order[held_out:], 1), (order[:held_out], VALIDATION_SHARE)):
            own = _safe_indexing(X, rows)
            parts.append(
                make_pu(
                    own,
                    truth[rows],
                    n_labeled=self.n_labeled // share,
                    n_unlabeled=self.n_unlabeled // share,
                    prior=self.prior,
                    scenario=self.scenario,
                    propensity=propensity_of(own, truth[rows], self.bias) if self.bias else None,
                    random_state=rng,
                )
            )
        return Trial(*parts)


Sampling = PlainSampling | PaperSampling | HeldOutSampling


def error_of(sampling: Sampling, y_true: NDArray[Any], y_pred: NDArray[Any]) -> float:
    """The share of wrong predictions. If the sampling sets the share of positives, it is weighted to that share."""
    wrong = y_pred != y_true
    if not isinstance(sampling, HeldOutSampling) or sampling.prior is None:
        return float(wrong.mean())
    return float(sampling.prior * wrong[y_true == 1].mean() + (1 - sampling.prior) * wrong[y_true == 0].mean())


def propensity_of(X: NDArray[Any], truth: NDArray[np.int64], bias: float) -> NDArray[np.float64]:
    """How likely each positive is to be labelled, at most 1: higher for clear positives."""
    flat = np.asarray(X, dtype=np.float64).reshape(len(X), -1)
    direction = (flat[truth == 1].mean(0) - flat[truth == 0].mean(0)) / (flat.std(0) + 1e-9)
    clear = flat @ (direction / (flat.std(0) + 1e-9))
    place = np.searchsorted(np.sort(clear[truth == 1]), clear) / max(1, int((truth == 1).sum()))
    return np.asarray(np.exp(bias * (np.minimum(place, 1.0) - 1)))
