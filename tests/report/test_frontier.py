"""The table and the figure past the paper, from rows made up here."""

import json
from typing import Any

import pytest

from pulab.bench import RECIPES
from pulab.bench.frontier import BLOCK, FRONTIER, SEARCH_SEEDS, SEEDS, WHOLE, lines, search_lines
from pulab.bench.paper import confirm
from pulab.report.figures import draw_frontier
from pulab.report.frontier import as_lines, results
from pulab.report.show import show


def rows(**of_setting: Any) -> list[dict[str, Any]]:
    """Rows of MNIST: errors 1, 2, … by seed, and what is given for a setting."""
    made = []
    for line in (line for line in lines(trials=3) if line.dataset == "mnist"):
        for i, spec in enumerate(line.runs):
            row = {
                **spec.as_row(),
                "test_error": 1.0 + i,
                "recovery_error": 0.0,
                "centred_risk": 0.1 * i,
                "seconds": 10.0,
            }
            made.append(row | of_setting.get(line.setting.replace(" ", "_").replace("-", "_"), {}))
    return made


def test_lines_have_means_and_what_a_shared_network_cost() -> None:
    found = results(
        lines(trials=3),
        rows(whole={"seconds": 100.0}, no_self_supervision={"seconds": 30.0}, no_teacher={"body": "of another run"}),
    )
    assert {r.dataset for r in found} == {"mnist"}
    assert (found[0].setting, found[0].mean, found[0].n, found[0].seconds) == ("the paper's number", 3.69, 10, None)
    by_setting = {r.setting: r for r in found[1:]}
    assert by_setting[WHOLE].mean == 2.0
    assert by_setting[WHOLE].std == 1.0
    assert by_setting[WHOLE].centred_risk == pytest.approx(0.1)
    seconds = {name: r.seconds for name, r in by_setting.items()}
    assert seconds["no teacher"] == 10 + 100 - 30
    assert seconds["labels not aligned"] == 10
    assert as_lines(found)[3] == ["mnist", "`joint-views`", "whole", "2.00 ± 1.00", "3", "0.1000", "100"]


def test_it_is_shown_as_text_data_page_and_picture() -> None:
    given = rows()
    specs = RECIPES["frontier"](trials=3)
    assert "| mnist | `joint-views` | whole | 2.00 ± 1.00 | 3 |" in str(show("frontier", specs, given, "md", 3))
    records = json.loads(str(show("frontier", specs, given, "json", 3)))
    assert {"dataset", "method", "setting", "mean", "std", "n", "seconds"} <= set(records[0])
    assert "joint-views" in str(show("frontier", specs, given, "html", 3))
    assert str(show("frontier", specs, given, "svg", 3)).startswith("<svg")
    (axes,) = [a for a in draw_frontier(results(lines(3), given)).axes if a.get_title()]
    assert {text.get_text() for text in axes.texts} >= {"whole", "joint, tuned", "pn, supervised"}


def test_runs_are_in_blocks_so_that_settings_of_a_seed_follow_each_other() -> None:
    specs = RECIPES["frontier"]()
    first = [spec for spec in specs if spec.dataset == "mnist"]
    n = len([line for line in lines() if line.dataset == "mnist"])
    assert [spec.seed for spec in first[: BLOCK * n]] == [*SEEDS[:BLOCK]] * n
    assert len({spec.digest for spec in specs}) == len(specs)


def test_the_search_and_the_table_have_other_seeds_and_joint_is_that_of_the_paper() -> None:
    assert not {*SEARCH_SEEDS} & {*SEEDS}
    assert {line.method for line in search_lines()} == {"joint-views"}
    confirmed = {spec.digest for spec in confirm()}
    for line in lines():
        if line.method == "joint" and line.dataset == FRONTIER[line.dataset].of_paper and line.dataset != "20news":
            assert {spec.digest for spec in line.runs} <= confirmed
