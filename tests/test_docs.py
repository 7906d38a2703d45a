"""What the documentation shows is what the rows and the registry say."""

import json
import re
import runpy
from pathlib import Path

import pytest

from pulab.bench import RECIPES, committed_rows, rows_of
from pulab.bench.runner import make_estimator, settings
from pulab.report.tables import cells

ROOT = Path(__file__).parents[1]
RENDER = runpy.run_path(str(ROOT / "docs" / "render.py"))


@pytest.mark.parametrize("page", RENDER["TABLES"])
def test_tables_are_what_the_rows_say(page: str) -> None:
    assert (ROOT / page).read_text(encoding="utf-8") == RENDER["rendered"](page), "run: python docs/render.py"


@pytest.mark.parametrize("recipe", ["demo", "defaults"])
def test_committed_rows_are_complete(recipe: str) -> None:
    specs = RECIPES[recipe]()
    assert len(rows_of(specs, committed_rows())) == len(specs)


@pytest.mark.parametrize("recipe", RECIPES)
def test_committed_rows_were_run_with_todays_defaults(recipe: str) -> None:
    specs = {spec.digest: spec for spec in RECIPES[recipe]()}
    for row in rows_of(specs.values(), committed_rows()):
        today = settings(make_estimator(specs[row["spec"]], prior=0.5))
        assert row["settings"] == json.loads(json.dumps(today)), f"run again: pulab bench run {recipe}"


def test_the_claim_about_defaults_holds_in_the_committed_rows() -> None:
    """`joint` is below `naive` on each table, and on average not above `nnpu` beyond the standard error."""
    found = cells(rows_of(RECIPES["defaults"](), committed_rows()), ["test_error"])
    error = {(cell.dataset, cell.method): cell for cell in found}
    datasets = {cell.dataset for cell in found}
    assert all(error[name, "joint"].mean < error[name, "naive"].mean for name in datasets)
    excess = [error[name, "joint"].mean - error[name, "nnpu"].mean for name in datasets]
    variances = [(error[name, "nnpu"].std or 0) ** 2 / error[name, "nnpu"].n for name in datasets]
    assert sum(excess) / len(excess) <= sum(variances) ** 0.5 / len(excess)


def test_results_stay_small() -> None:
    assert sum(path.stat().st_size for path in (ROOT / "results").rglob("*") if path.is_file()) < 20 * 2**20


def test_no_link_leads_nowhere() -> None:
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
