"""What the documentation shows is what the rows and the registry say."""

import re
import runpy
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest
from typer.main import get_command

import pulab
from pulab.bench import RECIPES, committed_rows, is_current, rows_of
from pulab.bench.paper import table_cells, table_runs
from pulab.cli.app import app
from pulab.methods import METHODS
from pulab.report.paper import results
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
        assert is_current(specs[row["spec"]], row), f"run again: pulab bench run {recipe}"


def test_the_claim_about_defaults_holds_in_the_committed_rows() -> None:
    """`joint` is below `naive` on each table, and on average not above `nnpu` beyond the standard error."""
    found = cells(rows_of(RECIPES["defaults"](), committed_rows()), ["test_error"])
    error = {(cell.dataset, cell.method): cell for cell in found}
    datasets = {cell.dataset for cell in found}
    assert all(error[name, "joint"].mean < error[name, "naive"].mean for name in datasets)
    excess = [error[name, "joint"].mean - error[name, "nnpu"].mean for name in datasets]
    variances = [(error[name, "nnpu"].std or 0) ** 2 / error[name, "nnpu"].n for name in datasets]
    assert sum(excess) / len(excess) <= sum(variances) ** 0.5 / len(excess)


def test_the_claim_about_images_holds_in_the_committed_rows() -> None:
    """`joint` has the lowest mean error of the PU methods on images; the paper's order but for one prior."""
    error: dict[tuple[str, float], dict[str, float]] = {}
    papers: dict[tuple[str, float], dict[str, float]] = {}
    for table in (2, 4):
        for r in results(table_cells(table), rows_of(table_runs(table), committed_rows())):
            if r.mean is not None and r.paper_mean is not None and r.setting == "paper" and r.dataset != "20news":
                error.setdefault((r.dataset, r.prior), {})[r.method] = r.mean
                papers.setdefault((r.dataset, r.prior), {})[r.method] = r.paper_mean
    for cell in cells(rows_of(RECIPES["defaults"](), committed_rows()), ["test_error"]):
        if cell.dataset == "digits-images" and cell.method not in ("pn", "naive"):
            error.setdefault((cell.dataset, 0.5), {})[cell.method] = cell.mean
    assert len(error) == 9
    others = []
    for place, by_method in error.items():
        order = sorted(by_method, key=by_method.__getitem__)
        assert order[0] == "joint"
        if place in papers and order != sorted(papers[place], key=papers[place].__getitem__):
            others.append(place)
    assert others == [("mnist", 0.3)]


def test_results_stay_small() -> None:
    assert sum(path.stat().st_size for path in (ROOT / "results").rglob("*") if path.is_file()) < 20 * 2**20


def test_no_link_leads_nowhere() -> None:
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", [ROOT / "README.md", *(ROOT / "docs").glob("*.md")], ids=lambda page: page.name)
def test_every_command_that_is_shown_exists(page: Path) -> None:
    for line in re.findall(r"^(?: {4})?pulab (.*?)(?:#.*)?$", page.read_text(encoding="utf-8"), flags=re.M):
        command: Any = get_command(app)
        words = line.split()
        while hasattr(command, "commands"):
            assert words[0] in command.commands, f"{page.name}: pulab {line}"
            command = command.commands[words.pop(0)]
        options = {name for parameter in command.params for name in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options, f"{page.name}: pulab {line}"


def test_every_page_is_in_the_contents() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    contents = " ".join(re.findall(r"```{toctree}\n(.*?)```", index, flags=re.DOTALL)).split()
    missing = {page.stem for page in (ROOT / "docs").glob("*.md")} - {"index", *contents}
    assert not missing, "name it in a toctree of docs/index.md"


def test_the_api_page_has_every_public_name_and_module() -> None:
    listed = set(re.findall(r"^   ~?(pulab\.\S+)$", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), flags=re.M))
    for name in set(pulab.__all__) - {"__version__"}:
        assert {f"pulab.{name}", getattr(pulab, name).__module__} & listed, f"list pulab.{name} in docs/api.md"
    modules = {module.name for module in iter_modules(pulab.__path__) if not module.name.startswith("_")}
    for module in modules - {"cli", "report", "estimators"}:  # a command; what it prints; listed class by class
        assert f"pulab.{module}" in listed, f"list pulab.{module} in docs/api.md"


def test_the_guide_has_a_word_on_every_method() -> None:
    guide = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    said = set(re.findall(r"`(.+?)`", " ".join(re.findall(r"^### (.*)$", guide, flags=re.M))))
    assert said == set(METHODS)
