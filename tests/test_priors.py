"""Class priors against the known shares of simulated data."""

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

from pulab import PulabWarning
from pulab.errors import InputError
from pulab.priors import METHODS, Sample, bbe, dedpul, density_ratio, elkan_noto, estimate_prior
from pulab.priors._scores import FIT_ROWS, _some


def two_clouds(prior: float, n_p: int, n_u: int, apart: float, seed: int, scenario: str = "case-control") -> Any:
    """Two Gaussian clouds in five dimensions: X, s and the share of positives in the population."""
    rng = np.random.default_rng(seed)

    def draw(y: NDArray[np.bool_]) -> NDArray[np.float64]:
        X = rng.normal(size=(len(y), 5))
        X[:, 0] += apart * y
        return X

    if scenario == "case-control":
        y = rng.random(n_u) < prior
        return np.concatenate([draw(np.ones(n_p, dtype=bool)), draw(y)]), np.repeat([1, 0], [n_p, n_u]), y.mean()
    y = rng.random(n_u) < prior
    s = np.zeros(n_u, dtype=int)
    s[rng.choice(np.flatnonzero(y), n_p, replace=False)] = 1
    return draw(y), s, y.mean()


@pytest.mark.filterwarnings("ignore:class prior")  # a needless warning does no harm
@pytest.mark.parametrize("scenario", ["case-control", "single-sample"])
@pytest.mark.parametrize("prior", [0.1, 0.3, 0.6])
def test_auto_finds_the_share_in_both_scenarios(prior: float, scenario: str) -> None:
    errors = []
    for seed in range(2):
        X, s, truth = two_clouds(prior, 200, 2500, apart=4, seed=seed, scenario=scenario)
        estimate = estimate_prior(X, s, scenario=scenario, random_state=seed)
        assert estimate.interval[0] <= estimate.prior <= estimate.interval[1]
        assert estimate.interval[0] <= truth <= estimate.interval[1]
        errors.append(estimate.prior - truth)
    assert np.abs(errors).mean() < 0.05


MARGINS = {"dedpul": 0.06, "bbe": 0.06, "tice": 0.25, "km2": 0.12, "elkan-noto": 0.15}


@pytest.mark.parametrize("method", MARGINS)
def test_each_method_comes_near(method: str) -> None:
    X, s, truth = two_clouds(0.3, 400, 3000, apart=4, seed=3)
    assert estimate_prior(X, s, method).prior == pytest.approx(truth, abs=MARGINS[method])


def test_the_formulas_on_scores_without_error() -> None:
    """Positives score 5, negatives −5. Every method that works on scores must give nearly the exact share."""
    rng = np.random.default_rng(0)
    jitter = rng.normal(size=2500) * 0.1
    sample = Sample(5 + jitter[:500], np.where(np.arange(2000) < 500, 5, -5) + jitter[500:])
    assert bbe(sample) == pytest.approx(0.25, abs=0.03)
    assert dedpul(sample) == pytest.approx(0.25, abs=0.03)
    tied = Sample(np.ones(500), np.repeat([1.0, 0.0], [500, 1500]))  # of the rows that score 1, half are labelled
    for scale in (1.0, 7.0):
        assert elkan_noto(Sample(*(scale * part for part in tied))) == pytest.approx(0.25, abs=0.01)
    assert bbe(tied) == pytest.approx(0.25)


def test_the_density_ratio_rises_with_the_score() -> None:
    """Also where the labelled rows lie in the middle: then all rows from there on have the same ratio."""
    rng = np.random.default_rng(0)
    for centre in (1.0, 0.0):
        sample = Sample(rng.normal(size=80) * 0.5 + centre, rng.normal(size=600) * 2)
        ratio = density_ratio(sample)
        assert ratio.mean() == pytest.approx(1)
        assert (np.diff(ratio[np.argsort(sample.unlabeled)]) >= 0).all()
        assert ratio.min() < 0.1 < 1.2 < ratio.max()
    thirds = np.repeat([-10.0, 0.0, 10.0], 200)
    ratio = density_ratio(Sample(rng.normal(size=300), thirds + rng.normal(size=600)))
    assert ratio[thirds == -10] == pytest.approx(0, abs=1e-3)
    assert ratio[thirds >= 0].mean() == pytest.approx(1.5, abs=1e-3)
    assert ratio[thirds == 10] == pytest.approx(ratio.max())


def test_copies_of_rows_change_nothing() -> None:
    """Copies of a row stay in one fold. Otherwise a model would score rows that it was trained on."""
    X, s, truth = two_clouds(0.4, 150, 800, apart=4, seed=0, scenario="single-sample")
    four = [np.tile(X, (4, 1)), np.tile(s, 4)]
    estimate = estimate_prior(*four, scenario="single-sample")
    assert estimate.prior == pytest.approx(truth, abs=0.08)


def test_models_see_no_more_rows_than_they_need() -> None:
    """A model is trained on a sample of many rows. If only a few are labelled, the sample holds all of these."""
    rng = np.random.default_rng(0)
    for n_p, n_u, wanted in ((40, 9000, 40), (8000, 9000, 2500), (9000, 100, 4900), (40, 60, 40)):
        labelled = np.arange(n_p + n_u) < n_p
        rows = _some(np.arange(n_p + n_u), labelled, rng)
        assert len(rows) == len(set(rows.tolist())) == min(n_p + n_u, FIT_ROWS)
        assert labelled[rows].sum() == wanted


def scores_of_clouds(apart: float, n_p: int, n: int, prior: float, seed: int) -> Any:
    """One-dimensional scores of a single sample: scores, s and the share of positives."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < prior
    s = np.zeros(n, dtype=int)
    s[rng.choice(np.flatnonzero(y), n_p, replace=False)] = 1
    return rng.normal(size=n) + apart * y, s, y.mean()


@pytest.mark.filterwarnings("ignore:class prior")
@pytest.mark.parametrize(("apart", "n_p", "prior"), [(0.8, 60, 0.05), (1.5, 300, 0.3), (6.0, 200, 0.2)])
def test_the_range_holds_the_truth(apart: float, n_p: int, prior: float) -> None:
    """Whether classes overlap or not. Each end may miss the truth in 2.5 %."""
    estimates = []
    for seed in range(40):
        scores, s, truth = scores_of_clouds(apart, n_p, 4000, prior, seed)
        estimate = estimate_prior(None, s, scores=scores, scenario="single-sample")
        low, high = estimate.interval
        estimates.append((low <= truth <= high, estimate.evident, high))
        assert low <= estimate.prior <= high
        assert (estimate.value is None) is not estimate.evident
        if not estimate.evident:
            assert low == pytest.approx(n_p / 4000)
    covered, evident, highs = np.mean(estimates, axis=0)
    assert covered >= 0.95
    assert evident > 0.9 if apart > 5 else evident == 0
    assert highs < 1


def test_the_upper_end_is_what_no_probability_above_one_allows() -> None:
    """Half of P in a tenth of the population: at most a fifth of the rows is positive, up to chance."""
    n = 200_000
    s = (np.arange(n) < 20_000).astype(int)
    scores = np.where(np.arange(n) % 20_000 < np.where(s == 1, 10_000, 1_111), 1.0, 0.0)
    with pytest.warns(PulabWarning, match=r"at most 0\.20"):
        estimate = estimate_prior(None, s, scores=scores, scenario="single-sample")
    assert estimate.interval == pytest.approx((0.1, 0.2), abs=0.006)


def test_an_attribute_of_many_rows_is_no_evidence_of_purity() -> None:
    """All positives have it, and six of ten rows: the density ratio is flat, but only a fifth of these are positive."""
    rng = np.random.default_rng(0)
    y = rng.random(6000) < 0.12
    s = (y & (rng.random(6000) < 0.7)).astype(int)
    scores = 9.0 * (y | (rng.random(6000) < 0.55)) + rng.normal(size=6000)
    with pytest.warns(PulabWarning, match="no region of pure positives is evident"):
        estimate = estimate_prior(None, s, scores=scores, scenario="single-sample")
    assert estimate.interval[0] < y.mean() < estimate.interval[1]


@pytest.mark.filterwarnings("ignore:class prior")
@pytest.mark.parametrize("method", METHODS)
def test_few_labelled_rows_are_called_out(method: str) -> None:
    X, s, _ = two_clouds(0.4, 8, 100, apart=4, seed=0)
    with pytest.warns(PulabWarning, match="only 8 rows are labelled"):
        estimate_prior(X, s, method)


def test_doubts_are_warnings_and_details() -> None:
    scores, s, _ = scores_of_clouds(1, 40, 2000, 0.3, seed=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimate = estimate_prior(None, s, scores=scores, scenario="single-sample")
    assert [str(w.message) for w in caught] == [f"class prior: {text}." for text in estimate.details["warnings"]]
    assert all(issubclass(w.category, PulabWarning) for w in caught)
    assert len(caught) == 2


@pytest.mark.filterwarnings("ignore:class prior")
def test_an_estimate_says_whether_its_estimators_agree() -> None:
    rng = np.random.default_rng(0)
    s = np.repeat([1, 0], [300, 3000])
    apart = np.concatenate([rng.normal(size=300) + 8, rng.normal(size=3000) + 8 * (rng.random(3000) < 0.3)])
    low = np.concatenate(
        [rng.normal(size=20) + 1, rng.normal(size=280) - 50, rng.normal(size=3000)]
    )  # most of P below U
    for scores, agree in ((apart, True), (low, False)):
        estimate = estimate_prior(None, s, scores=scores)
        dedpul_share, bbe_share = estimate.details["methods"].values()
        assert (abs(dedpul_share - bbe_share) <= 0.1) is agree
        assert estimate.agree is agree
    assert estimate_prior(None, s, "bbe", scores=apart).agree is None


@pytest.mark.filterwarnings("ignore:class prior")
def test_all_forms_of_rows() -> None:
    X, s, _ = two_clouds(0.3, 100, 600, apart=4, seed=0)
    table = estimate_prior(X, s).prior
    assert estimate_prior(X.reshape(-1, 1, 5, 1), s).prior == table
    assert estimate_prior(X.tolist(), s).prior == pytest.approx(table, abs=1e-3)
    assert estimate_prior(sparse.csr_matrix(X), s).prior == pytest.approx(table, abs=0.03)
    marks = np.where(s == 1, 1.0, np.nan)
    assert estimate_prior(X, marks).prior == table
    assert estimate_prior(X, s, random_state=7) == estimate_prior(X, s, random_state=7)


def test_bad_input() -> None:
    X, s, _ = two_clouds(0.3, 20, 100, apart=4, seed=0)
    with pytest.raises(InputError, match="method must be one of"):
        estimate_prior(X, s, "magic")
    with pytest.raises(InputError, match="one class"):
        estimate_prior(X, np.zeros(len(X)))
    with pytest.raises(InputError, match="at least two labelled"):
        estimate_prior(X[19:], s[19:])
    with pytest.raises(InputError, match="rows that differ"):
        estimate_prior(np.where(s[:, None] == 1, 7.0, X), s)
    with_gaps = np.where(np.random.default_rng(0).random(X.shape) < 0.05, np.nan, X)
    with pytest.warns(PulabWarning):
        whole, holey = (estimate_prior(rows, s).prior for rows in (X, with_gaps))
    assert holey == pytest.approx(whole, abs=0.1)
    with pytest.raises(InputError, match="needs X"):
        estimate_prior(None, s)
    with pytest.raises(InputError, match="got NaN or infinity"):
        estimate_prior(X, s, scores=np.full(len(X), np.nan))
    with pytest.raises(InputError, match="must be numbers"):
        estimate_prior(X, s, scores=["a"] * len(X))
    with pytest.raises(InputError, match="needs X"):
        estimate_prior(None, s, "tice", scores=np.zeros(len(X)))
    with pytest.raises(ValueError, match="infinity"):
        estimate_prior(np.full_like(X, np.inf), s)
    assert set(METHODS) == {"auto", "dedpul", "bbe", "tice", "km2", "elkan-noto"}


def test_scores_of_u_that_are_one_point_need_little_memory() -> None:
    """All of U has one score, and P is spread far beyond it: the width of the kernel stays within the range."""
    positive = np.linspace(-30, 30, 20)
    ratio = density_ratio(Sample(positive, np.concatenate([np.zeros(50_000), [1e-9]])))
    assert np.isfinite(ratio).all()
    assert ratio.mean() == pytest.approx(1)
