"""The measures meet brute force, and hold the truth as often as they say."""

import itertools
from typing import cast

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from pulab.review import Answers, Draw, measured
from pulab.review.design import draw
from pulab.review.measure import (
    ALPHA,
    Counts,
    _log_mixture,
    _log_probability,
    band_by_design,
    by_design,
    line,
    posterior,
)
from pulab.summary import Measured, Summary
from pulab.tables import TableModel


def counts(size: list[int], labelled: list[int], yes: list[int], no: list[int]) -> Counts:
    return Counts(*(np.array(part, dtype=np.float64) for part in (size, labelled, yes, no)))


def test_bounds_by_design_are_those_of_all_possible_numbers_of_positives() -> None:
    """Every pair of whole numbers is tried; the bounds hold them all, and are at most one row wider per band."""
    given = counts([40, 90], [6, 3], [5, 1], [4, 14])
    limit = _log_mixture(given) + np.log(ALPHA)

    def log_p(K: int, N: float, yes: float, no: float) -> float:
        ways = gammaln(K + 1) - gammaln(K - yes + 1) + gammaln(N - K + 1) - gammaln(N - K - no + 1)
        return float(ways - gammaln(N + 1) + gammaln(N - yes - no + 1))

    inside = [
        first + second
        for first, second in itertools.product(range(5, 37), range(1, 77))
        if log_p(first, 40, 5, 4) + log_p(second, 90, 1, 14) > limit
    ]
    low, high = by_design(given)
    assert low == pytest.approx(min(inside), abs=2)
    assert high == pytest.approx(max(inside), abs=2)
    assert low <= min(inside)
    assert high >= max(inside)


def test_a_band_that_is_answered_whole_is_known() -> None:
    assert band_by_design(30, 12, 18) == pytest.approx((12, 12))
    assert by_design(counts([30, 10], [5, 1], [12, 1], [18, 9])) == pytest.approx((13, 13))


def test_the_mixture_is_a_probability() -> None:
    """Over all answers to three rows in their order, it adds up to one: only then Ville's inequality holds."""
    total = []
    for answers in itertools.product([0, 1], repeat=3):
        yes = [answers[0] + answers[1], answers[2]]
        total.append(_log_mixture(counts([500, 900], [9, 2], yes, [2 - yes[0], 1 - yes[1]])))
    assert logsumexp(total) == pytest.approx(0, abs=1e-9)


def test_bounds_by_design_hold_at_any_time() -> None:
    """Looked at eight times, they miss in at most 5 % of reviews; nothing is assumed of the labelling."""
    rng = np.random.default_rng(1)
    missed = 0
    for _ in range(60):
        y = rng.random(1500) < 0.15  # the ranking is worthless, and labelled rows say the contrary
        scores = rng.normal(size=1500)
        drawn = draw(scores, rng.normal(2, 1, 60), 0.4, rng, size=160)
        true = np.add.reduceat(y[np.argsort(-scores)], [0, *drawn.ends[:-1]])
        for n in (10, 20, 40, 60, 80, 100, 130, 160):
            given = _counts(drawn.stratum[:n], y[drawn.rows[:n]], drawn.ends, drawn.labelled)
            if _log_mixture(given) - _log_probability(given, true).sum() >= np.log(1 / ALPHA):
                missed += 1
                break
        low, high = by_design(given)
        assert missed or low <= y.sum() <= high
    assert missed <= 6


def _counts(stratum: np.ndarray, y: np.ndarray, ends: np.ndarray, labelled: np.ndarray) -> Counts:
    by_answer = [np.bincount(stratum[y == answer], minlength=len(ends)).tolist() for answer in (True, False)]
    return counts(np.diff(ends, prepend=0).tolist(), labelled.tolist(), *by_answer)


def test_a_slope_of_one_is_random_labelling() -> None:
    lift = np.log([4.0, 1.0, 0.25])
    assert line(np.log(0.1), np.float64(1), lift) == pytest.approx([0.4, 0.1, 0.025])
    flat = line(np.log(0.1), np.float64(0), lift)
    assert flat == pytest.approx([0.1, 0.1, 0.1])


@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_the_interval_of_the_share_holds_with_and_without_biased_labelling(bias: float) -> None:
    """60 tables with overlapping classes and 100 answers each; bias 1 labels the top e times as often, by a unit."""
    rng = np.random.default_rng(5)
    held, halves, n, trials = 0, 0, 6000, 60
    for _ in range(trials):
        y = rng.random(n) < 0.1
        x = rng.normal(size=n) + 1.5 * y
        chance = np.exp(bias * x[y])
        labelled = rng.choice(np.flatnonzero(y), 150, replace=False, p=chance / chance.sum())
        is_labelled = np.isin(np.arange(n), labelled)
        unlabeled, rest = x[~is_labelled], y[~is_labelled]
        drawn = draw(unlabeled, x[is_labelled], 0.25, rng)
        given = _counts(drawn.stratum[:100], rest[drawn.rows[:100]], drawn.ends, drawn.labelled)
        low, high = np.quantile(posterior(given, rng).positives.sum(axis=1), [0.01, 0.99])
        held += bool(low <= rest.sum() <= high)
        halves += bool((high - low) / n <= (0.25 - 150 / n) / 2)
    assert held >= 0.9 * trials
    if bias == 0:
        assert halves >= 0.8 * trials


def _answer(model: TableModel, shares: list[float]) -> Measured:
    """What 200 answers measure if the bands hold these shares of positives."""
    old = model.draw
    assert old is not None
    answers = Answers(Draw(old.frame, old.stratum, old.ends, old.labelled))
    rng = np.random.default_rng(0)
    answers.given = [(i, "yes" if rng.random() < shares[h] else "no") for i, h in enumerate(old.stratum[:200])]
    result = measured(answers, model.summary)
    assert result is not None
    return result


def test_biased_labelling_is_found_and_said(model: TableModel) -> None:
    assert model.draw is not None
    sizes = np.diff(model.draw.ends, prepend=0)
    by_labelled = np.array(model.draw.labelled) / sizes
    as_labelled = _answer(model, (0.9 * by_labelled / by_labelled.max()).tolist())
    assert not as_labelled["random_labelling"]["rejected"]
    assert as_labelled["prior_if_random"] is not None
    flat = _answer(model, [0.3] * len(sizes))
    assert flat["random_labelling"]["rejected"]
    assert flat["prior_if_random"] is None
    assert "deep in the ranking there are more" in flat["random_labelling"]["text"]
    assert flat["prior"]["low"] < (0.3 * sizes.sum() + model.summary["table"]["labelled"]) / 600 < flat["prior"]["high"]


def test_measured_figures_are_about_the_population(model: TableModel, draw: Draw) -> None:
    everything = Answers(draw, [(i, "yes" if i % 3 == 0 else "no") for i in range(len(draw.stratum))])
    result = measured(everything, model.summary)
    assert result is not None
    assert (result["answers"], result["skipped"], result["enough"]) == (len(draw.stratum), 0, True)
    table = model.summary["table"]
    by_design = result["prior_by_design"]
    assert by_design is not None
    found = by_design["value"] * table["rows"] - table["labelled"]
    shares = [np.mean([i % 3 == 0 for i, h in enumerate(draw.stratum) if h == band]) for band in range(len(draw.ends))]
    assert found == pytest.approx((np.array(shares) * np.diff(draw.ends, prepend=0)).sum())
    of_unlabeled = measured(everything, cast(Summary, {**model.summary, "scenario": "case-control"}))
    assert of_unlabeled is not None
    assert of_unlabeled["prior"]["value"] * table["unlabeled"] == pytest.approx(
        result["prior"]["value"] * table["rows"] - table["labelled"]
    )
    assert [depth["k"] for depth in result["review"]] == draw.ends
    assert all(d["precision_low"] <= d["precision"] <= d["precision_high"] <= 1 for d in result["review"])
    assert result["review"][-1]["recall_low"] == 1
    assert sum(band["answered"] for band in result["calibration"]) == len(draw.stratum)


def test_skipped_rows_are_counted_and_many_are_a_warning(model: TableModel, draw: Draw) -> None:
    few = measured(Answers(draw, [(i, "skip" if i == 3 else "no") for i in range(30)]), model.summary)
    assert few is not None
    assert (few["skipped"], few["warnings"]) == (1, [])
    many = measured(Answers(draw, [(i, "no") for i in range(0, 30, 2)]), model.summary)  # every other is left out
    assert many is not None
    assert many["skipped"] == 14
    assert "14 of 29 rows were skipped" in many["warnings"][0]
    assert measured(Answers(draw, [(0, "skip")]), model.summary) is None
