"""Probabilities against the truth, on simulated data."""

import numpy as np
import pytest

from pulab.calibration import PUCalibrator, among_unlabeled
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
