"""Tables and pages from rows."""

import json
import re
from html import unescape
from typing import Any

import pytest
from scipy.stats import t as student

from pulab.bench import committed_rows, rows_of
from pulab.bench.paper import figure_2, table_cells, table_runs
from pulab.report.figures import draw_figure_2
from pulab.report.html import demo_page
from pulab.report.paper import HEADER, Curve, Result, as_lines, choices, results, tally
from pulab.report.show import show
from pulab.report.tables import by_dataset, cells, markdown


def rows() -> list[dict[str, Any]]:
    demo = []
    for method, errors in (("joint", (1.0, 2.0, 6.0)), ("nnpu", (4.0, 4.0, 4.0))):
        for error in errors:
            epochs = range(1, 6)
            demo.append(
                {
                    "dataset": "digits",
                    "method": method,
                    "test_error": error,
                    "recovery_error": 2 * error,
                    "history": {"loss": [1 / epoch for epoch in epochs], "val_risk": [0.2] * 5},
                    "sigma_history": {},
                    "settings": {},
                    "label_histogram": [[10 - epoch] + [0] * 18 + [epoch] for epoch in epochs],
                    "best_epoch": 3,
                    "sampling": {"n_labeled": 50, "n_unlabeled": 1000},
                }
            )
    return demo


LOADS = re.compile(r"""(?:src|href)=["'](?!#|data:)|url\((?!['"]?#)|@import|<link|fetch\(|import\(""")


def readings(page: str) -> list[Any]:
    """The values that each chart of a page shows under the pointer."""
    return [json.loads(unescape(text)) for text in re.findall(r"data-readings='([^']*)'", page)]


def test_cells() -> None:
    joint, recovery, *_ = cells(rows())
    assert (joint.mean, joint.n, recovery.mean) == (3.0, 3, 6.0)
    assert joint.std == pytest.approx(7**0.5)  # ((−2)² + (−1)² + 3²) / (3 − 1)
    assert str(joint) == "3.00 ± 2.65"
    assert str(cells(rows()[:1])[0]) == "1.00"


def test_markdown_table() -> None:
    assert markdown(*by_dataset(rows())).splitlines() == [
        "| test error, % | joint | nnpu | n |",
        "| --- | --- | --- | --- |",
        "| digits | 3.00 ± 2.65 | 4.00 ± 0.00 | 3 |",
    ]


def test_the_page_stands_alone() -> None:
    page = demo_page(rows())
    assert "3.00 ± 2.65" in page
    assert not LOADS.findall(page)
    loss, risk, labels = readings(page)
    assert loss[1] == [25, "epoch 2", ["joint 0.5 ± 0", "nnpu 0.5 ± 0"]]
    assert risk[4] == [100, "epoch 5", ["joint 0.2 ± 0", "nnpu 0.2 ± 0"]]
    assert labels[2] == [50, "epoch 3", ["label above 0.9: 30%", "label below 0.1: 70%"]]
    assert len(readings(demo_page([row for row in rows() if row["method"] == "nnpu"]))) == 2


def test_the_heat_map_has_a_place_for_every_epoch_and_label() -> None:
    places = re.findall(r'<path class="area joint shade-(\d+)" d="([^"]*)"', demo_page(rows()))
    assert [int(shade) for shade, _ in places] == [4, 5, 6, 7, 8, 9, 10]  # the rounded up roots of .1 to .9, times ten
    assert sum(path.count("Z") for _, path in places) == 2 * 5
    lowest = dict(places)["10"]  # nine of ten rows have the lowest label in the first epoch
    assert lowest.startswith("M0.0,100.0v-5.0H20.0")


def paper_rows(specs: Any, errors: list[float], risk: float) -> list[dict[str, Any]]:
    return [
        {
            "spec": spec.digest,
            "test_error": error,
            "recovery_error": error + 1,
            "val_risk": risk,
            "settings": spec.params,
        }
        for spec, error in zip(specs, errors, strict=True)
    ]


def test_the_papers_cells_are_all_known() -> None:
    """Twelve cells in each of Tables 1 to 3 and fifteen in Table 4, besides the tuned setting."""
    for table, count in ((1, 12), (2, 12), (3, 12), (4, 15)):
        cells = results(table_cells(table), [])
        for seeds in ("first", "fresh"):
            assert len([r for r in cells if (r.setting, r.seeds) == ("paper", seeds)]) == count
        assert all((r.paper_mean or 0) > 3 for r in cells if r.method != "pn")
        ceilings = [r for r in cells if r.method == "pn"]
        assert {(r.seeds, r.paper_mean) for r in ceilings} <= {("fresh", None)}
        assert len(ceilings) == {1: 0, 2: 4, 3: 0, 4: 5}[table]
        assert {(r.dataset, r.features) for r in cells if r.features} <= {("20news", "minilm")}
    elmo = results(table_cells(2, features="elmo"), [])
    assert {result.features for result in elmo if result.dataset == "20news"} == {"elmo"}


def welch(mean: float, std: float, n: int, paper_mean: float, paper_std: float) -> float:
    """Welch's p written out, with the degrees of freedom of Welch and Satterthwaite; the paper has ten trials."""
    ours, paper = std**2 / n, paper_std**2 / 10
    freedom = (ours + paper) ** 2 / (ours**2 / (n - 1) + paper**2 / 9)
    return float(2 * student.sf(abs(mean - paper_mean) / (ours + paper) ** 0.5, freedom))


def test_tuned_is_chosen_by_validation_risk_over_the_trials_that_all_points_have() -> None:
    cells = [cell for cell in table_cells(2, trials=2) if cell.dataset == "mnist" and cell.method == "joint"]
    printed, tuned = cells
    rows = paper_rows(printed.candidates[0], [5.0, 7.0], risk=0.5)
    for i, specs in enumerate(tuned.candidates):
        # The lowest risk (i = 3) has the highest test error: it must be taken all the same.
        rows += paper_rows(specs, [1.0, 1.0] if i != 3 else [9.0, 11.0], risk=0.1 if i == 3 else 0.2)
    first, second = (r for r in results(cells, rows) if r.seeds == "first")
    assert (first.setting, first.mean, first.n) == ("paper", 6.0, 2)
    assert (second.setting, second.mean, second.n) == ("tuned", 10.0, 2)
    assert (second.paper_mean, second.paper_std) == (3.69, 0.69)
    assert f"| 3.69 ± 0.69 | 10.00 ± 1.41 | 2 | missed | {welch(10, 2**0.5, 2, 3.69, 0.69):.3f} |" in markdown(
        HEADER, as_lines([second])
    )
    assert choices(cells, rows) == ["mnist, prior 0.49: lambda_init 2.0, alpha 10.0, beta 3.0, positive_loss logistic"]
    unfinished = results(cells, rows[:-1])[2]  # the last point lacks its second trial
    assert (unfinished.mean, unfinished.n) == (9.0, 1)
    not_begun = results(cells, rows[:-2])[2]
    assert (not_begun.mean, not_begun.n) == (None, 0)
    assert "not run" in markdown(HEADER, as_lines([not_begun]))
    assert choices(cells, rows[:-2]) == []


def test_both_sets_of_seeds_stand_in_a_line_with_welchs_p() -> None:
    cell = next(
        cell for cell in table_cells(1) if (cell.dataset, cell.init, cell.setting) == ("mnist", "prior", "paper")
    )
    first = paper_rows(cell.candidates[0][:2], [4.0, 5.0], risk=0.1)
    fresh = paper_rows(cell.fresh, [1.69, 2.69] * 10, risk=0.1)  # 1.5 below the paper
    (line,) = as_lines(results([cell], first + fresh))
    assert line[:6] == ["mnist", "0.49", "joint", "prior", "paper", "3.69 ± 0.69"]
    p = f"{welch(4.5, 0.5**0.5, 2, 3.69, 0.69):.3f}"
    assert line[6:] == ["4.50 ± 0.71", "2", "missed", p, "2.19 ± 0.51", "20", "met", "< 0.001, better"]
    table_2 = next(c for c in table_cells(2) if (c.dataset, c.method, c.setting) == ("mnist", "joint", "paper"))
    counted = tally(results([cell, table_2], first + fresh))  # the same runs
    assert counted == [
        ["first", "joint, paper", "1", "0", "0", "0.0", "0.0"],
        ["fresh", "joint, paper", "1", "0", "1", "0.0", "0.0"],
    ]


def test_table_1_uses_the_point_that_the_committed_rows_choose() -> None:
    rows = rows_of(table_runs(1, 2), committed_rows())
    found = [r for table in (1, 2) for r in results(table_cells(table), rows) if r.seeds == "first"]
    tuned = [r for r in found if (r.setting, r.init) == ("tuned", "prior")]
    assert [r._replace(table=2) for r in tuned[:4]] == tuned[4:]
    assert all(r.n == 10 for r in tuned)


def test_the_frozen_settings_are_those_that_the_committed_rows_choose() -> None:
    """The fresh seeds of a tuned cell have the parameters of the candidate that the first seeds choose."""
    tuned = [cell for table in (2, 4) for cell in table_cells(table) if cell.setting == "tuned"]
    by_digest = {row["spec"]: row for row in rows_of(table_runs(2, 4), committed_rows())}
    assert len(tuned) == 9
    for cell in tuned:
        chosen = min(cell.candidates, key=lambda specs: sum(by_digest[spec.digest]["val_risk"] for spec in specs))
        assert {str(spec.params) for spec in cell.fresh} == {str(chosen[0].params)}


def figure_rows() -> list[dict[str, Any]]:
    """Two trials of each method on MNIST, three epochs; PUbN's first training has a history of its own."""
    trials = []
    for spec in figure_2(trials=2):
        if spec.dataset == "mnist":
            shape = {"dataset": spec.dataset, "method": spec.method, "spec": spec.digest}
            loss = {"loss": [3.0 + spec.seed, 2.0, 1.0]}
            first = {"loss": [9.0, 8.0, 7.0]} if spec.method == "pubn-n" else {}
            e_start = 2 if spec.method == "joint" else None
            trials.append({**shape, "history": loss, "sigma_history": first, "settings": {"e_start": e_start}})
    return trials


def test_figure_2() -> None:
    """Mean and deviation over trials, both trainings of PUbN, and where the labels begin to move."""
    specs, rows = figure_2(trials=2), figure_rows()
    points = json.loads(show("paper-figure-2", specs, rows, "json", trials=2))
    assert len(points) == 4 * 3
    first = [p for p in points if p["epoch"] == 1]
    assert [(p["method"], p["training"]) for p in first] == [("nnpu", 1), ("pubn-n", 1), ("pubn-n", 2), ("joint", 1)]
    assert [(p["mean"], p["n"]) for p in first] == [(3.5, 2), (9.0, 2), (3.5, 2), (3.5, 2)]
    assert first[0]["std"] == pytest.approx(0.5**0.5)
    alone = json.loads(show("paper-figure-2", figure_2(trials=1), rows, "json", trials=1))
    assert {(p["std"], p["n"]) for p in alone} == {(None, 1)}
    assert "| 3.000 | 2.000 | 1.000 | 1 |" in str(show("paper-figure-2", figure_2(trials=1), rows, "md", trials=1))
    text = str(show("paper-figure-2", specs, rows, "md", trials=2))
    assert "| mnist | joint | 3.500 ± 0.707 | 2.000 ± 0.000 | 1.000 ± 0.000 | 2 |" in text
    assert str(show("paper-figure-2", specs, rows, "csv", trials=2)).count("\n") == 13
    assert str(show("paper-figure-2", specs, rows, "svg", trials=2)).startswith("<svg")
    assert bytes(show("paper-figure-2", specs, rows, "png", trials=2)).startswith(b"\x89PNG")  # type: ignore[arg-type]


@pytest.mark.parametrize("panels", [1, 2, 4])
def test_the_legend_lies_inside_the_figure(panels: int) -> None:
    methods = (("nnpu", 1, 1), ("pubn-n", 1, 2), ("pubn-n", 2, 2), ("joint", 1, 1))
    names = ["mnist", "20news", "cifar10-vehicles", "cifar10-mammals"][:panels]
    curves = [Curve(name, None, *method, 2, [2.0, 1.0], [0.1, 0.1], 1) for name in names for method in methods]
    figure = draw_figure_2(curves)
    figure.draw_without_rendering()
    legend = figure.legends[0].get_window_extent()
    assert figure.bbox.x0 <= legend.x0 < legend.x1 <= figure.bbox.x1
    assert figure.bbox.y0 <= legend.y0 < legend.y1 <= figure.bbox.y1
    assert not any(legend.overlaps(axes.get_tightbbox()) for axes in figure.axes)


def test_other_features_than_the_papers_are_named_and_not_judged() -> None:
    for features, judged in (("minilm", ["", ""]), ("elmo", ["met", "1.000"])):
        cell = next(c for c in table_cells(2, 2, features) if (c.dataset, c.method) == ("20news", "nnpu"))
        rows = [
            row | {"method": "nnpu", "dataset": "20news"} for row in paper_rows(cell.candidates[0], [15.0, 15.0], 0.1)
        ]
        for form in ("md", "html"):
            text = str(show("paper-table-2", cell.candidates[0], rows, form, 2, features))
            assert ("minilm: all-MiniLM-L6-v2" in text) == (features == "minilm")
            assert "Aim: ours" in text
            assert ("over n trials. First seeds" in " ".join(text.split())) == (form == "html")
        assert as_lines(results([cell], rows))[0][6:10] == ["15.00 ± 0.00", "2", *judged]


@pytest.mark.parametrize(
    ("place", "mean", "rivals", "aim"),
    [
        ((1, "paper"), 10.2, [], "met"),  # at most 0.3 above the paper's 10
        ((1, "paper"), 10.4, [], "missed"),
        ((2, "tuned"), 10.1, [11.0, 12.0], "met"),  # at most our standard error, 0.4 / 2, above it
        ((2, "tuned"), 10.3, [11.0, 12.0], "missed"),
        ((2, "tuned"), 9.9, [11.0, 9.8], "missed"),  # not below every rival
        ((2, "tuned"), 9.9, [11.0, None], ""),  # the other has no rows
        ((2, "tuned"), 9.9, [11.0], ""),  # the other is not shown
        ((2, "tuned"), 10.3, [], "missed"),  # whatever the rivals reach
    ],
)
def test_a_missed_aim_is_called_so(place: tuple[int, str], mean: float, rivals: list[float | None], aim: str) -> None:
    def cell(table: int, setting: str, method: str, mean: float | None) -> Result:
        place = (table, "mnist", None, 0.49, method, setting, None, "test_error", "fresh")
        return Result(*place, mean, 0.4, 4, 10.0, 0.3)

    ours = cell(*place, "joint", mean)
    lines = as_lines(
        [ours, *(cell(2, "paper", name, mean) for name, mean in zip(("nnpu", "pubn-n"), rivals, strict=False))]
    )
    assert lines[0][-2] == aim
    first = [cell(2, "paper", name, 1.0)._replace(seeds="first") for name in ("nnpu", "pubn-n")]
    assert as_lines([ours, *first])[0] == as_lines([ours])[0]  # rivals on other seeds do not count


def test_the_figures_page_stands_alone() -> None:
    page = str(show("paper-figure-2", figure_2(trials=2), figure_rows(), "html", trials=2))
    assert page.count("labels begin to move") == 1
    assert '<i class="swatch dashed"></i>pubn-n, first training' in page
    assert page.count('class="line pubn-n dashed"') == page.count('class="line pubn-n"') == 1
    assert "3.500 ± 0.707" in page
    (mnist,) = readings(page)
    lines = [
        "nnpu 3.5 ± 0.71",
        "pubn-n, first training 9 ± 0",
        "pubn-n, second training 3.5 ± 0.71",
        "joint 3.5 ± 0.71",
    ]
    assert mnist[0] == [0, "epoch 1", lines]
    assert not LOADS.findall(page)
