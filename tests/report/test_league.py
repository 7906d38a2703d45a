"""The league: its runs, its ranks and its pictures, from rows made up here."""

import json
from typing import Any

import numpy as np
import pytest
from scipy.stats import rankdata

from pulab.bench import RECIPES
from pulab.bench.league import CASES, DEFAULTS, competitors, lines, settings
from pulab.methods import METHODS
from pulab.report.figures import draw_league
from pulab.report.league import CHOSEN, critical_difference, error_lines, results, standings
from pulab.report.show import show

METHODS_HERE = ("nnpu", "joint", "boosting", "pn")
ERRORS = {"nnpu": 20.0, "joint": 10.0, "boosting": 15.0, "pn": 1.0}


def rows(**of_method: Any) -> list[dict[str, Any]]:
    """Two trials of four methods. The second setting of each is a point better, and its risk is lower in trial 0."""
    made = []
    for line in (line for line in lines(trials=2) if line.method in METHODS_HERE):
        for place, specs in enumerate(line.runs.values()):
            for spec in specs:
                better = 1.0 if place == 1 else 0.0
                row = {
                    **spec.as_row(),
                    "test_error": ERRORS[line.method] - better + spec.seed,
                    "test_auc": 0.9,
                    "zero_one_risk": 0.1 if better and spec.seed == 0 else 0.2,
                    "seconds": 2.0,
                    "memory_mib": 10.0,
                }
                made.append(row | of_method.get(line.method, {}))
    return made


def test_every_method_has_the_same_budget_on_every_data_set() -> None:
    specs = RECIPES["league"]()
    assert len({spec.digest for spec in specs}) == len(specs)
    assert len(CASES) == 8
    keys = {key for key, method in METHODS.items() if not method.needs_negatives}
    assert {spec.method for spec in specs} == keys == set(competitors())
    assert {len(settings(key)) for key in keys} == {4}
    assert next(iter(settings("nnpu"))) == DEFAULTS
    assert {case.sampling.scenario for case in CASES.values()} == {"case-control", "single-sample"}
    assert {case.sampling.bias > 0 for case in CASES.values()} == {True, False}


@pytest.mark.parametrize("method", competitors())
def test_settings_are_parameters_that_differ_from_the_defaults(method: str) -> None:
    defaults = METHODS[method].load()().get_params(deep=False)
    for name, params in settings(method).items():
        assert params.keys() <= defaults.keys()
        assert name == DEFAULTS or any(defaults[key] != value for key, value in params.items())


def test_methods_are_told_the_scenario() -> None:
    for spec in RECIPES["league"](trials=1):
        assert spec.params.get("scenario", "case-control") == spec.sampling.scenario


def test_a_trial_takes_the_setting_with_its_lowest_risk_and_the_first_of_equals() -> None:
    found = {(r.method, r.setting, r.dataset): r for r in results(lines(trials=2), rows())}
    assert found["nnpu", DEFAULTS, "adult"].mean == pytest.approx(20.5)
    assert found["nnpu", CHOSEN, "adult"].mean == pytest.approx((19.0 + 21.0) / 2)
    assert found["nnpu", CHOSEN, "adult"].n == 2


def test_ranks_are_means_over_the_data_sets_and_the_ceiling_has_none() -> None:
    found = results(lines(trials=2), rows())
    table = standings(found, CHOSEN)
    assert [(s.method, s.rank) for s in table] == [("joint", 1), ("boosting", 2), ("nnpu", 3), ("pn", None)]
    header, errors = error_lines(found, CHOSEN)
    assert header[1:-1] == [*CASES]
    assert errors[0][0] == "`joint`"
    assert errors[0][1] == "10.0 ± 1.4"


def test_a_method_without_rows_of_some_data_set_has_no_rank() -> None:
    given = [row for row in rows() if (row["method"], row["dataset"]) != ("joint", "mnist")]
    ranks = {s.method: s.rank for s in standings(results(lines(trials=2), given), DEFAULTS)}
    assert ranks == {"boosting": 1, "nnpu": 2, "joint": None, "pn": None}


def test_equal_methods_rarely_differ_by_more_than_the_critical_difference() -> None:
    """Ten methods without any difference on eight data sets: the best and the worst differ at 5 % in about 5 %."""
    rng = np.random.default_rng(0)
    spread = [np.ptp(rankdata(rng.random((8, 10)), axis=1).mean(0)) for _ in range(4000)]
    assert np.mean(np.array(spread) > critical_difference(10, 8)) == pytest.approx(0.05, abs=0.02)


def test_it_is_shown_as_text_data_page_and_picture() -> None:
    given, specs = rows(), RECIPES["league"](trials=2)
    text = str(show("league", specs, given, "md", 2))
    assert "| `joint` | 1.0 | 10.0 | 0.900 | 2.0 | 10 | 8 |" in text
    assert "3 methods on 8 data sets" in text
    records = json.loads(str(show("league", specs, given, "json", 2)))
    assert {"dataset", "method", "setting", "mean", "std", "n", "auc", "seconds"} <= set(records[0])
    assert "boosting" in str(show("league", specs, given, "html", 2))
    assert str(show("league", specs, given, "svg", 2)).startswith("<svg")
    (axes,) = draw_league(results(lines(2), given)).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["joint", "boosting", "nnpu"]
