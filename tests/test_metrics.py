"""Each metric against its value by true labels, on simulated data, in both scenarios."""

import runpy
from functools import lru_cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn import metrics as with_truth

from pulab import metrics
from pulab.errors import InputError, PriorError, PulabWarning

PRIOR = 0.3


@lru_cache(maxsize=64)
def simulate(scenario: str, n: int, seed: int, rate: float = 0.25) -> tuple[NDArray[np.int64], ...]:
    """Labels, truth and logits. The logits separate the classes well, but not perfectly."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < PRIOR).astype(int)
    s = y * (rng.random(n) < rate)
    if scenario == "case-control":  # labelled positives are drawn beside the population
        n_p = max(2, round(n * PRIOR * rate))
        y = np.concatenate([np.ones(n_p, dtype=int), y])
        s = (np.arange(len(y)) < n_p).astype(int)
    logits = rng.normal(size=len(y)) * 1.3 + np.where(y == 1, 1.2, -1.0)
    return s, y, logits


def population(scenario: str, s: NDArray[np.int64]) -> NDArray[np.bool_]:
    return s == 0 if scenario == "case-control" else np.ones(len(s), dtype=bool)


def values_for(name: str, g: NDArray[np.float64]) -> NDArray[np.float64]:
    return (g > 0).astype(float) if metrics.METRICS[name].of == "decisions" else g


@pytest.fixture(scope="module")
def simulation() -> ModuleType:
    """benchmarks/bias.py, which compares every metric with true labels on many samples."""
    spec = spec_from_file_location("bias", Path(__file__).parents[1] / "benchmarks" / "bias.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("scenario", metrics.SCENARIOS)
@pytest.mark.parametrize("name", metrics.METRICS)
def test_meets_the_truth_as_the_sample_grows(simulation: ModuleType, name: str, scenario: str) -> None:
    errors = []
    for n in (2_000, 200_000):
        differences = []
        for seed in range(6):
            s, y, g = simulate(scenario, n, seed)
            value = metrics.METRICS[name].function(s, values_for(name, g), prior=PRIOR, scenario=scenario)
            rows = population(scenario, s)
            differences.append(value - simulation.by_true_labels(name, y[rows], g[rows], PRIOR))
        errors.append(np.sqrt(np.mean(np.square(differences))))
    assert errors[1] < 0.015
    assert errors[1] < errors[0] / 3  # 1/√n would give a tenth


@pytest.mark.filterwarnings("ignore::pulab.PulabWarning")
@pytest.mark.parametrize("size", [(10, 200), (50, 1000), (200, 4000)])
@pytest.mark.parametrize("prior", [0.1, 0.3, 0.6])
@pytest.mark.parametrize("scenario", metrics.SCENARIOS)
def test_no_metric_leans(simulation: ModuleType, scenario: str, prior: float, size: tuple[int, int]) -> None:
    """The mean error is below half of what one labelled row counts, as far as the simulation can tell."""
    for name, found in simulation.bias(scenario, prior, size, repeats=100, seed=1).items():
        limit = 0.5 / size[0] * found["truth"] + 3.5 * found["standard_error"]
        assert abs(found["bias"]) < limit, (name, found)


@pytest.mark.parametrize("scenario", metrics.SCENARIOS)
def test_average_precision_with_few_labelled_rows(simulation: ModuleType, scenario: str) -> None:
    name = "average_precision"
    found = simulation.bias(scenario, 0.3, (10, 200), repeats=1500, seed=2, names=[name])[name]
    assert abs(found["bias"]) < 0.03  # 0.3 to 0.5 if a labelled row counts itself


@pytest.mark.parametrize("scenario", metrics.SCENARIOS)
def test_precision_of_candidates_is_about_the_unlabeled(scenario: str) -> None:
    s, y, g = simulate(scenario, 200_000, seed=1)
    unlabeled = np.flatnonzero(s == 0)
    top = unlabeled[np.argsort(-g[unlabeled])[:20_000]]
    precision = metrics.precision_at_k(s, g, k=20_000, prior=PRIOR, scenario=scenario)
    assert precision == pytest.approx(y[top].mean(), abs=0.03)
    lift = metrics.lift_at_k(s, g, k=20_000, scenario=scenario)
    assert lift == pytest.approx(y[top].mean() / y[unlabeled].mean(), abs=0.1)


@pytest.mark.parametrize("scenario", metrics.SCENARIOS)
def test_curves_meet_those_of_true_labels(scenario: str) -> None:
    s, y, g = simulate(scenario, 200_000, seed=3)
    rows = population(scenario, s)
    given = {"prior": PRIOR, "scenario": scenario}
    false, true, at = metrics.roc_curve(s, g, **given)
    real_false, real_true, real_at = with_truth.roc_curve(y[rows], g[rows])
    grid = np.linspace(-3, 3, 50)
    for found, real in ((false, real_false), (true, real_true)):
        assert np.interp(-grid, -at, found) == pytest.approx(np.interp(-grid, -real_at, real), abs=0.02)
    precision, recall, at = metrics.precision_recall_curve(s, g, **given)
    real_precision, real_recall, real_at = with_truth.precision_recall_curve(y[rows], g[rows])
    assert np.interp(-grid, -at, recall) == pytest.approx(np.interp(grid, real_at, real_recall[:-1]), abs=0.02)
    assert np.interp(-grid, -at, precision) == pytest.approx(np.interp(grid, real_at, real_precision[:-1]), abs=0.03)


@pytest.mark.parametrize("scenario", metrics.SCENARIOS)
def test_the_area_below_the_roc_curve_is_the_auc(scenario: str) -> None:
    s, _, g = simulate(scenario, 300, seed=4)
    for scores in (g, g.round(), np.zeros_like(g)):  # ties, too
        false, true, at = metrics.roc_curve(s, scores, prior=PRIOR, scenario=scenario)
        assert np.trapezoid(true, false) == pytest.approx(metrics.roc_auc(s, scores, prior=PRIOR, scenario=scenario))
        assert at[0] == np.inf
        assert (false[0], true[0], false[-1], true[-1]) == pytest.approx((0, 0, 1, 1))


def test_curves_by_hand() -> None:
    """Two labelled rows at 3 and 1; the population at 3, 2, 1, 0. Half of it is positive."""
    s, scores = [1, 1, 0, 0, 0, 0], [3, 1, 3, 2, 1, 0]
    false, true, at = metrics.roc_curve(s, scores, prior=0.5)
    assert at.tolist() == [np.inf, 3, 2, 1, 0]
    assert true.tolist() == [0, 0.5, 0.5, 1, 1]
    assert false.tolist() == [0, 0, 0.5, 0.5, 1]
    precision, recall, at = metrics.precision_recall_curve(s, scores, prior=0.5)
    assert at.tolist() == [3, 2, 1, 0]
    assert recall.tolist() == [0.5, 0.5, 1, 1]
    assert precision == pytest.approx([1, 0.5, 2 / 3, 0.5])


@pytest.mark.parametrize("scenario", metrics.SCENARIOS)
def test_points_of_the_curves_are_without_bias_in_small_samples(scenario: str) -> None:
    """Against the formula of two normal classes. The committed rows have 1,000 samples, and other sizes."""
    errors = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks" / "curves.py"))["errors"]
    found = errors(scenario, (50, 1000), repeats=150)
    for name, values in found.items():
        noise = 4 * values.std(axis=0, ddof=1) / np.sqrt(len(values))
        mean = np.abs(values.mean(axis=0))
        assert (mean > noise).all() if "uncorrected" in name else (mean < noise).all(), name


def test_the_wrong_scenario_is_off() -> None:
    """Other libraries make this mistake: they treat a single sample as case-control data."""
    s, y, g = simulate("single-sample", 200_000, seed=0, rate=0.6)
    right = metrics.roc_auc(s, g, prior=PRIOR, scenario="single-sample")
    wrong = metrics.roc_auc(s, g, prior=PRIOR, scenario="case-control")
    true = with_truth.roc_auc_score(y, g)
    assert abs(right - true) < 0.005
    assert abs(wrong - true) > 0.02


def test_intervals_cover_the_truth_and_bands_span_the_priors() -> None:
    covered = 0
    for seed in range(40):
        s, y, g = simulate("single-sample", 4000, seed)
        estimate = metrics.estimate(
            "precision", s, g > 0, prior=PRIOR, prior_interval=(0.25, 0.35), scenario="single-sample", n_bootstrap=100
        )
        assert estimate.band is not None
        assert estimate.interval is not None
        at_low = metrics.precision(s, g > 0, prior=0.25, scenario="single-sample")
        at_high = metrics.precision(s, g > 0, prior=0.35, scenario="single-sample")
        assert estimate.band == pytest.approx((at_low, at_high))
        covered += estimate.interval[0] <= with_truth.precision_score(y, g > 0) <= estimate.interval[1]
    assert covered >= 34  # 95 % of 40 is 38; the truth is a little noisy too


def test_case_control_samples_are_drawn_again_part_by_part() -> None:
    """P and U each keep their size. In a single sample the number of labelled rows varies by chance."""
    rng = np.random.default_rng(0)
    s, values = np.repeat([1, 0], [100, 900]), rng.normal(size=1000)

    def interval(metric: object, scenario: str) -> tuple[float, float]:
        estimate = metrics.estimate(metric, s, values, prior=PRIOR, scenario=scenario, n_bootstrap=1000).interval
        assert estimate is not None
        return estimate

    def n_labelled(s: NDArray[np.int64], values: NDArray[np.float64], **_: object) -> float:
        return float(s.sum())

    assert interval(n_labelled, "case-control") == (100, 100)
    low, high = interval(n_labelled, "single-sample")
    assert high - low == pytest.approx(2 * 1.96 * np.sqrt(1000 * 0.1 * 0.9), rel=0.15)
    for mark in (0, 1):  # the mean of each part varies by its standard error

        def mean(s: NDArray[np.int64], values: NDArray[np.float64], mark: int = mark, **_: object) -> float:
            return float(values[s == mark].mean())

        low, high = interval(mean, "case-control")
        standard_error = values[s == mark].std() / np.sqrt((s == mark).sum())
        assert high - low == pytest.approx(2 * 1.96 * standard_error, rel=0.15)


def test_a_band_stops_where_no_prior_can_be() -> None:
    s, _, g = simulate("single-sample", 1000, 0, rate=0.9)
    options = {"k": 50, "scenario": "single-sample", "n_bootstrap": 0}
    estimate = metrics.estimate(metrics.precision_at_k, s, g, prior=PRIOR, prior_interval=(0.0, 0.4), **options)
    # A quarter of the rows is labelled. At the lowest possible prior, U holds no positives.
    at_high = metrics.precision_at_k(s, g, prior=0.4, k=50, scenario="single-sample")
    assert estimate.band == pytest.approx((0, at_high))


def test_nothing_called_positive() -> None:
    s, nothing = [1, 0, 0], [0, 0, 0]
    assert metrics.precision(s, nothing, prior=0.3) == 0
    assert metrics.f1(s, nothing, prior=0.3) == 0
    assert metrics.lee_liu(s, nothing) == 0


def test_bad_input() -> None:
    s = [1, 0, 0, 0]
    with pytest.raises(InputError, match="0 or 1"):
        metrics.precision(s, [0.2, 0.1, 0.5, 0.9], prior=0.3)
    with pytest.raises(InputError, match="finite"):
        metrics.roc_auc(s, [0.2, np.nan, 0.5, 0.9], prior=0.3)
    with pytest.raises(PriorError):
        metrics.precision(s, [1, 0, 0, 1], prior=1.5)
    with pytest.raises(PriorError, match=r"such as prior=0\.3\.$"):
        metrics.precision(s, [1, 0, 0, 1], prior="estimate")
    for metric in (metrics.accuracy, metrics.precision, metrics.f1, metrics.roc_auc, metrics.nnpu_risk):
        with pytest.raises(PriorError, match="labelled already"):
            metric(s, [1, 0, 0, 1], prior=0.01, scenario="single-sample")
    with pytest.raises(PriorError, match="labelled already"):
        metrics.precision_at_k(s, [0.2, 0.1, 0.5, 0.9], k=1, prior=0.01, scenario="single-sample")
    with pytest.raises(InputError, match="k must"):
        metrics.lift_at_k(s, [0.2, 0.1, 0.5, 0.9], k=4)
    with pytest.raises(InputError, match="scenario"):
        metrics.recall(s, [1, 0, 0, 1], scenario="one")


def test_a_model_that_calls_everything_positive_is_called_out() -> None:
    s, everything = np.array([1, 1, 0, 0, 0, 0]), np.ones(6)
    for metric in ("precision", "recall", "f1", "accuracy", "lee_liu"):
        with pytest.warns(PulabWarning, match="every row is called positive") as warned:
            metrics.estimate(metric, s, everything, prior=0.6, prior_interval=(0.5, 0.7), n_bootstrap=5)
        assert len(warned) == 1


def test_a_single_labelled_row_has_an_interval() -> None:
    s = np.array([1] + 9 * [0])
    estimate = metrics.estimate("roc_auc", s, np.arange(10.0)[::-1], prior=0.3, scenario="single-sample")
    assert estimate.interval is not None
    assert np.isfinite(estimate.interval).all()


@pytest.mark.parametrize("scenario", metrics.SCENARIOS)
def test_the_centred_risk_does_not_see_confidence(scenario: str) -> None:
    s, _, g = simulate(scenario, 500, 0)
    risk = metrics.centred_risk(s, g, prior=PRIOR, scenario=scenario)
    for by, shift in ((0.01, -7.0), (1e4, 3.0)):
        assert metrics.centred_risk(s, by * g + shift, prior=PRIOR, scenario=scenario) == pytest.approx(risk, rel=1e-6)
    of = g if scenario == "single-sample" else g[s == 0]
    centred = 4 * (g - np.quantile(of, 1 - PRIOR)) / of.std()
    assert risk == metrics.nnpu_risk(s, centred, prior=PRIOR, scenario=scenario)
    assert metrics.centred_risk(s, np.zeros(len(g)), prior=PRIOR, scenario=scenario) == pytest.approx(0.5)
