"""Probabilities against the truth, on simulated data."""

import numpy as np
import pytest

from pulab.calibration import PUCalibrator, PULogisticCalibrator, among_unlabeled
from pulab.errors import InputError, PriorError
from tests.test_metrics import PRIOR, population, simulate


@pytest.mark.parametrize("scenario", ["case-control", "single-sample"])
def test_probabilities_are_shares(scenario: str) -> None:
    """Of rows with probability p a share p is positive, also on rows that it was not fitted on."""
    s, _, g = simulate(scenario, 60_000, seed=0)
    calibrate = PUCalibrator(PRIOR, scenario).fit(g, s)
    s_new, y_new, g_new = simulate(scenario, 60_000, seed=1)
    there = population(scenario, s_new)
    p, y = calibrate(g_new)[there], y_new[there]
    assert p.mean() == pytest.approx(PRIOR, abs=0.01)
    assert 0 <= p.min() <= p.max() <= 1
    bins = np.digitize(p, np.linspace(0, 1, 11)[1:-1])
    error = sum(abs(p[bins == b].mean() - y[bins == b].mean()) * (bins == b).mean() for b in set(bins))
    assert error < 0.03


def test_a_rising_function_that_never_leaves_its_bounds() -> None:
    s, _, g = simulate("case-control", 500, seed=3)
    calibrate = PUCalibrator(0.8).fit(g, s)  # far too high a prior
    p = calibrate(np.linspace(-50, 50, 1001))
    assert (np.diff(p) >= 0).all()
    assert 0 <= p.min() <= p.max() <= 1
    assert calibrate(g[s == 0]).mean() == pytest.approx(0.8, abs=0.02)
    assert PUCalibrator(0.3).fit(np.ones(100), np.arange(100) < 10)(np.ones(3)) == pytest.approx(0.3)


def test_bad_input() -> None:
    with pytest.raises(InputError, match="not been fitted"):
        PUCalibrator(0.3)([0.1])
    with pytest.raises(PriorError):
        PUCalibrator(1.5).fit([0.1, 0.2], [1, 0])
    with pytest.raises(InputError, match="finite"):
        PUCalibrator(0.5).fit([np.inf, 0.2], [1, 0])


def test_of_unlabeled_rows_fewer_are_positive() -> None:
    """In a simulation, the formula gives the share of positives among unlabeled rows with each probability."""
    rng = np.random.default_rng(0)
    p = rng.choice([0.2, 0.5, 0.9], 300_000)
    y = rng.random(len(p)) < p
    s = y & (rng.random(len(p)) < 0.4)
    shares = among_unlabeled(p, prior=y.mean(), n_labeled=int(s.sum()), n_unlabeled=int((~s).sum()))
    for value in (0.2, 0.5, 0.9):
        rows = (p == value) & ~s
        assert abs(shares[rows].mean() - y[rows].mean()) < 0.01
    np.testing.assert_array_equal(among_unlabeled(p, prior=0.5, n_labeled=1, n_unlabeled=9, scenario="case-control"), p)


def clouds(n: int, n_labeled: int, purity: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Scores and truth: the upper group of scores holds a tenth of the rows, of which ``purity`` are positive."""
    top = rng.random(n) < 0.1
    y = rng.random(n) < np.where(top, purity, 0.02)
    return rng.normal(size=n) + 6 * top, y


@pytest.mark.parametrize("purity", [0.8, 1.0])
@pytest.mark.parametrize("n_labeled", [40, 200])
def test_no_probability_is_higher_than_the_labelled_rows_support(purity: float, n_labeled: int) -> None:
    """The top group is .8 or wholly positive. On average over samples, what is said of it is near, and never 1."""
    rng = np.random.default_rng(0)
    said = []
    for _ in range(40):
        g, y = clouds(4000, n_labeled, purity, rng)
        of_p = clouds(4000, n_labeled, purity, rng)
        p = of_p[0][of_p[1]][:n_labeled]
        calibrate = PUCalibrator(y.mean()).fit(np.concatenate([p, g]), np.arange(len(p) + len(g)) < len(p))
        said.append(calibrate(g[g > 4]).mean())
        assert calibrate(np.array([1e3]))[0] < 1
        assert calibrate(g).mean() == pytest.approx(y.mean(), abs=1e-3)
    assert np.mean(said) == pytest.approx(purity, abs=0.1 if n_labeled == 40 else 0.05)


@pytest.mark.parametrize("scenario", ["case-control", "single-sample"])
def test_two_numbers_give_the_log_odds(scenario: str) -> None:
    """Clouds of one width have log-odds 2h - 2 + logit(prior) at h. Thousands of labelled rows find it from sinh(h)."""
    rng = np.random.default_rng(0)
    y = rng.random(200_000) < 0.3
    h = rng.normal(size=len(y)) + 2 * y
    s = y & (rng.random(len(y)) < 0.05)
    if scenario == "case-control":
        h = np.concatenate([h, rng.normal(size=3000) + 2])
        s = np.arange(len(h)) >= len(y)
    fitted = PULogisticCalibrator(0.3, scenario).fit(np.sinh(h), s)
    assert fitted.slope_ == pytest.approx(2, abs=0.15)
    assert fitted.offset_ == pytest.approx(np.log(0.3 / 0.7) - 2, abs=0.15)
    population = slice(200_000) if scenario == "case-control" else slice(None)
    assert fitted(np.sinh(h[population])).mean() == pytest.approx(0.3, abs=1e-4)


def test_the_two_numbers_minimise_the_penalised_risk() -> None:
    """Against others around them, with the risk written out."""
    rng = np.random.default_rng(1)
    p, u, prior = rng.normal(size=12) + 1, rng.normal(size=300), 0.4
    fitted = PULogisticCalibrator(prior).fit(np.sinh(np.concatenate([p, u])), np.arange(312) < 12)

    def risk(slope: float, offset: float) -> float:
        def loss(z: np.ndarray) -> float:
            return float(np.log1p(np.exp(-z)).mean())

        on_p, on_u = slope * p + offset, slope * u + offset
        penalty = prior / len(p) * (slope * u.std()) ** 2 / 2
        return prior * loss(on_p) + loss(-on_u) - prior * loss(-on_p) + penalty

    best = risk(fitted.slope_, fitted.offset_)
    for slope, offset in ((0.01, 0), (-0.01, 0), (0, 0.01), (0, -0.01), (0.01, 0.01), (-0.01, 0.01)):
        assert risk(fitted.slope_ + slope, fitted.offset_ + offset) > best


def test_a_few_far_logits_do_not_decide() -> None:
    """A network is wrong and very sure about two of ten labelled rows. The others are called positive all the same."""
    rng = np.random.default_rng(0)
    p = np.concatenate([rng.normal(3, 1, 8), [-30, -40]])
    u = np.concatenate([rng.normal(3, 1, 60), rng.normal(-8, 4, 140)])
    probability = PULogisticCalibrator(0.3).fit(np.concatenate([p, u]), np.arange(210) < 10)
    assert (probability(u[:60]) > 0.5).mean() > 0.8
    assert (probability(u[60:]) > 0.5).mean() < 0.05


def test_weighted_rows() -> None:
    """A row of weight 3 counts as three, but for the penalty. By weight the mean probability is the prior."""
    rng = np.random.default_rng(0)
    p, u = rng.normal(size=5000) + 1, rng.normal(size=20_000) + (rng.random(20_000) < 0.4)
    s, weight = np.arange(25_000) < 5000, rng.integers(1, 4, 25_000)
    g = np.concatenate([p, u])
    weighed = PULogisticCalibrator(0.4).fit(g, s, weight)
    repeated = PULogisticCalibrator(0.4).fit(np.repeat(g, weight), np.repeat(s, weight))
    assert (weighed.slope_, weighed.offset_) == pytest.approx((repeated.slope_, repeated.offset_), abs=1e-3)
    assert np.average(weighed(u), weights=weight[5000:]) == pytest.approx(0.4, abs=1e-6)


def test_where_the_logits_tell_nothing_all_rows_get_the_prior() -> None:
    s = np.arange(100) < 10
    for scores in (np.ones(100), -s.astype(float)):  # constant; labelled rows score lowest
        np.testing.assert_allclose(PULogisticCalibrator(0.3).fit(scores, s)(scores), 0.3)
    apart = PULogisticCalibrator(0.5).fit(10.0 * np.repeat([1, 0, 1], [10, 45, 45]), s)
    assert 0 < apart.slope_ < np.inf  # though no finite slope has the lowest risk without the penalty
    with pytest.raises(InputError, match="not been fitted"):
        PULogisticCalibrator(0.3)([0.1])
