"""PU data made from labelled data: sizes, shares, independence, seeds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulab.datasets import PaperSampling, PlainSampling, make_pu

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
