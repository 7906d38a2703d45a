"""PU data made from labelled data: sizes, shares, independence, seeds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulab.datasets import HeldOutSampling, PaperSampling, PlainSampling, error_of, make_pu

Y = (np.arange(1000) % 10 < 3).astype(int)  # 300 positives
X = np.arange(1000.0)[:, None]


def rows(sample_X: np.ndarray) -> np.ndarray:
    return sample_X[:, 0].astype(int)


@given(
    n_labeled=st.integers(1, 100),
    n_unlabeled=st.integers(20, 150),
    prior=st.none() | st.floats(0.1, 0.9),
    scenario=st.sampled_from(["case-control", "single-sample"]),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=60, deadline=None)
def test_make_pu(n_labeled: int, n_unlabeled: int, prior: float | None, scenario: str, seed: int) -> None:
    wanted = {"n_labeled": n_labeled, "n_unlabeled": n_unlabeled, "prior": prior, "scenario": scenario}
    if scenario == "single-sample" and n_labeled > 0.5 * (prior or 0.2) * (n_labeled + n_unlabeled):
        return  # there may be fewer positives in the sample than are to be labelled
    pu = make_pu(X, Y, **wanted, random_state=seed)
    chosen, labelled = rows(pu.X), pu.s == 1
    assert (labelled.sum(), (~labelled).sum()) == (n_labeled, n_unlabeled)
    assert pu.y_true[labelled].all()
    assert np.array_equal(pu.y_true, Y[chosen])
    assert len(set(chosen[labelled])) == n_labeled  # without replacement inside P and inside U
    assert len(set(chosen[~labelled])) == n_unlabeled
    assert pu.prior == pytest.approx(prior or 0.3)
    population = pu.y_true if scenario == "single-sample" else pu.y_unlabeled
    if prior is not None:
        assert population.sum() == round(prior * len(population))
    if scenario == "single-sample":
        assert not set(chosen[labelled]) & set(chosen[~labelled])
    again = make_pu(X, Y, **wanted, random_state=seed)
    assert np.array_equal(again.X, pu.X)


def test_case_control_draws_p_and_u_independently() -> None:
    """A labelled row is in U as often as any other."""
    overlaps = []
    for seed in range(200):
        pu = make_pu(X, Y, n_labeled=100, n_unlabeled=500, random_state=seed)
        overlaps.append(len(set(rows(pu.X[pu.s == 1])) & set(rows(pu.X_unlabeled))))
    assert np.mean(overlaps) == pytest.approx(50, abs=1.5)


def test_single_sample_shifts_the_share_in_u() -> None:
    """With c the labelled share of positives, U has (1−c)π/(1−cπ) positives."""
    pu = make_pu(X, Y, n_labeled=150, scenario="single-sample", random_state=0)
    c, pi = 0.5, 0.3
    assert pu.y_unlabeled.mean() == pytest.approx((1 - c) * pi / (1 - c * pi))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_labeled": 301}, "only 300"),
        ({"n_unlabeled": 1001}, "only 1000"),
        ({"n_labeled": 0}, "whole number"),
        ({"scenario": "x"}, "scenario"),
        ({"prior": 1.5}, "prior"),
        ({"y": Y + 1}, "0 and 1"),
    ],
)
def test_bad_input(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_pu(**{"X": X, "y": Y, "n_labeled": 10, **change})


@pytest.mark.parametrize("scenario", ["case-control", "single-sample"])
def test_labels_follow_the_propensities(scenario: str) -> None:
    """Positives with the chances .1, .5, .9: so many of each kind are labelled, and their ratios hold for a number."""
    kind = np.arange(30_000) % 3
    y = (np.arange(30_000) % 5 < 2).astype(int)
    chances = np.array([0.1, 0.5, 0.9])[kind]
    shared = {"scenario": scenario, "random_state": 0}
    pu = make_pu(kind[:, None], y, propensity=lambda X: np.array([0.1, 0.5, 0.9])[X[:, 0]], **shared)
    assert pu.propensity is not None
    labelled = pu.s == 1
    assert pu.y_true[labelled].all()
    assert pu.prior == pytest.approx(0.4)
    for k, chance in enumerate((0.1, 0.5, 0.9)):
        assert (pu.X[labelled, 0] == k).sum() == pytest.approx(4000 * chance, abs=150)
        assert (pu.propensity[(pu.X[:, 0] == k) & (pu.y_true == 1)] == chance).all()
    assert np.isnan(pu.propensity[pu.y_true == 0]).all()
    assert (len(pu.s) == len(y)) == (scenario == "single-sample")
    for form in (chances, chances[y == 1]):  # one for each row, or for each positive
        assert np.array_equal(make_pu(kind[:, None], y, propensity=form, **shared).X, pu.X)
    some = make_pu(kind[:, None], y, n_labeled=300, propensity=chances / 9, **shared)
    counts = np.bincount(some.X[some.s == 1, 0])
    assert counts.sum() == 300
    assert counts == pytest.approx([20, 100, 180], abs=30)


def test_random_labels_have_no_propensities() -> None:
    assert make_pu(X, Y, n_labeled=10, random_state=0).propensity is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"propensity": np.ones(7)}, r"one number for each of the 1000 rows or 300 positives, got .* shape \(7,\)"),
        ({"propensity": lambda X: X}, r"the function propensity must return one number .* got .* \(1000, 1\)"),
        ({"propensity": lambda X: None}, "the function propensity must return one number"),
        ({"propensity": ["a"] * 1000}, "one number for each"),
        ({"propensity": np.full(300, 1.5)}, "chances from 0 to 1 for the positives, got 1.5"),
        ({"propensity": np.full(300, np.nan)}, "chances from 0 to 1 for the positives, got nan"),
        ({"propensity": lambda X: -X[:, 0]}, "chances from 0 to 1 for the positives, got -1"),
        ({"propensity": np.zeros(300)}, "left none of 300 positives labelled"),
        ({"propensity": Y * (np.arange(1000) < 10), "n_labeled": 5}, "only 3 have a propensity above 0"),
        ({"propensity": np.ones(300), "scenario": "single-sample", "n_unlabeled": 100}, "n_unlabeled needs n_labeled"),
        ({}, "n_labeled must be a whole number"),
    ],
)
def test_propensities_that_cannot_be_meant(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_pu(X, Y, **change)  # type: ignore[arg-type]


def test_paper_sampling() -> None:
    y = (np.arange(6000) % 2 == 0).astype(int)
    X = np.arange(6000)[:, None]
    sampling = PaperSampling(pool=4000, n_labeled=50, n_unlabeled=600, prior=0.49)
    trial = sampling.draw(X, y, seed=3)
    assert trial.validation is not None
    for part, n_p, n_u in ((trial.train, 50, 600), (trial.validation, 10, 120)):
        assert (part.s.sum(), (part.s == 0).sum(), part.prior) == (n_p, n_u, 0.49)
        assert part.y_true[part.s == 1].all()
        assert len(set(rows(part.X_unlabeled))) == n_u
    assert not set(rows(trial.train.X)) & set(rows(trial.validation.X))  # each from its own pool
    assert np.array_equal(sampling.draw(X, y, seed=3).train.X, trial.train.X)
    assert not np.array_equal(sampling.draw(X, y, seed=4).train.X, trial.train.X)


def test_paper_sampling_with_an_exact_share() -> None:
    y = (np.arange(6000) % 2 == 0).astype(int)
    for prior in (0.3, 0.7):
        trial = PaperSampling(4000, 50, 600, prior, exact=True).draw(np.arange(6000)[:, None], y, seed=0)
        assert trial.train.y_unlabeled.mean() == pytest.approx(prior)
        assert trial.validation.y_unlabeled.mean() == pytest.approx(prior)
        assert not (np.diff(trial.train.y_unlabeled) <= 0).all()  # shuffled, not positives first


def test_plain_sampling_is_make_pu() -> None:
    train, validation = PlainSampling(20, 100).draw(X, Y, seed=5)
    assert validation is None
    assert np.array_equal(train.X, make_pu(X, Y, n_labeled=20, n_unlabeled=100, random_state=5).X)


def test_held_out_rows_are_others_and_the_population_has_the_prior() -> None:
    X, y = np.arange(6000.0)[:, None], (np.arange(6000) % 3 == 0).astype(int)
    sampling = HeldOutSampling(100, 600, "single-sample", prior=0.2)
    train, validation = sampling.draw(X, y, seed=3)
    assert validation is not None
    assert (train.s.sum(), len(train.s), validation.s.sum(), len(validation.s)) == (100, 700, 20, 140)
    assert train.prior == validation.prior == train.y_true.mean() == validation.y_true.mean() == 0.2
    assert not {*train.X[:, 0]} & {*validation.X[:, 0]}
    assert (sampling.draw(X, y, seed=3).train.X == train.X).all()
    assert (sampling.draw(X, y, seed=4).train.X != train.X).any()


@pytest.mark.parametrize("bias", [0.0, 3.0])
def test_biased_labels_prefer_clear_positives(bias: float) -> None:
    """With bias b, the mean place of a label among the positives is that of the density proportional to e^(b·place)."""
    rng = np.random.default_rng(0)
    y = (rng.random(20_000) < 0.5).astype(int)
    X = rng.normal(size=(len(y), 2)) + 2 * y[:, None] * [1, 0]
    train = HeldOutSampling(2000, 100, bias=bias).draw(X, y, seed=0).train
    place = np.searchsorted(np.sort(X[y == 1, 0]), train.X[train.s == 1, 0]) / y.sum()
    expected = 0.5 if bias == 0 else (np.exp(bias) * (bias - 1) + 1) / (bias * (np.exp(bias) - 1))
    assert place.mean() == pytest.approx(expected, abs=0.04)  # labels are drawn without replacement


def test_errors_are_weighted_to_the_prior_of_the_sampling() -> None:
    y, called = np.array([1, 1, 0, 0, 0, 0]), np.array([1, 0, 0, 0, 0, 1])
    assert error_of(PlainSampling(1, 1), y, called) == 2 / 6
    assert error_of(HeldOutSampling(1, 1), y, called) == 2 / 6
    assert error_of(HeldOutSampling(1, 1, prior=0.1), y, called) == pytest.approx(0.1 * 0.5 + 0.9 * 0.25)
