"""A recipe's results as text, data, a page or a picture."""

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pulab.bench import RunSpec
from pulab.bench.frontier import Line, lines, search_lines, small_lines
from pulab.bench.league import DEFAULTS
from pulab.bench.league import lines as league_lines
from pulab.bench.paper import ENCODER, FIGURES, TABLES, Cell, cell_runs, figure_2, table_cells
from pulab.errors import InputError
from pulab.report import frontier, league, paper, tables

ResultRows = Sequence[dict[str, Any]]
FORMATS = ("md", "html", "csv", "json")
PICTURES = ("svg", "png")  # of the recipes that have a figure
FRONTIERS: dict[str, Callable[..., list[Line]]] = {
    "frontier": lines,
    "frontier-search": search_lines,
    "frontier-small": small_lines,
}
PICTURED = (*FIGURES, "frontier", "league")


class Section(NamedTuple):
    """A table with a title."""

    title: str
    header: list[str]
    lines: list[list[str]]
    note: str = ""


def show(
    recipe: str,
    specs: Sequence[RunSpec],
    rows: ResultRows,
    form: str,
    trials: int | None = None,
    features: str = ENCODER,
) -> str | bytes:
    """The results of a recipe's runs in one of the FORMATS or PICTURES.

    CSV and JSON hold the cells of the tables, or the points of the figure if the recipe has no table.
    """
    cells = paper_cells(recipe, specs, trials, features)
    past = frontier.results(FRONTIERS[recipe](trials), rows) if recipe in FRONTIERS else []
    placed = league.results(league_lines(trials), rows) if recipe == "league" else []
    curves = []
    if recipe in FIGURES:
        printed = {spec.digest for spec in figure_2(trials, features)}
        curves = paper.curves(row for row in rows if row["spec"] in printed)
    if form in PICTURES:
        from pulab.report import figures

        if past:
            return figures.frontier(past, form)
        if placed:
            return figures.league(placed, form)
        if not curves:
            run = f"pulab bench run paper-figure-2 --features {features}"
            raise InputError(f"there are no rows for Figure 2. Run `{run}`, then pass --rows runs.")
        return figures.figure_2(curves, form)
    if form in ("json", "csv"):
        records: list[Any] = paper.results(cells, rows) or paper.points(curves) or past or placed or tables.cells(rows)
        if form == "csv":
            return tables.as_csv(records)
        return json.dumps([record._asdict() for record in records], indent=2)
    legend = paper.LEGEND if cells else ""
    if recipe in TABLES:
        sections = [*table_sections(cells, rows), *tally_sections(cells, rows), *figure_sections(curves)]
    elif past:
        sections, legend = [Section("", frontier.HEADER, frontier.as_lines(past))], frontier.LEGEND
    elif placed:
        sections, legend = league_sections(placed), league.LEGEND
    else:
        sections = [Section("", *tables.by_dataset(rows))]
    if form == "md":
        parts = [*(_markdown(section, titled=len(sections) > 1) for section in sections), legend]
        return "\n\n".join(part for part in parts if part)
    from pulab.report.html import results_page

    return results_page(recipe, sections, curves, legend, has_errors=bool(cells) or recipe not in TABLES)


def shown_runs(recipe: str, specs: Sequence[RunSpec], trials: int | None, features: str) -> list[RunSpec]:
    """The runs behind the cells of the paper's tables that these runs help to fill: those of both sets of seeds."""
    return cell_runs(paper_cells(recipe, specs, trials, features))


def paper_cells(recipe: str, specs: Sequence[RunSpec], trials: int | None, features: str) -> list[Cell]:
    """The cells of the paper's tables that these runs of a recipe fill."""
    wanted = {(spec.dataset, spec.method) for spec in specs}
    cells = [cell for table in TABLES.get(recipe, ()) for cell in table_cells(table, trials, features)]
    return [cell for cell in cells if (cell.dataset, cell.method) in wanted]


def table_sections(cells: Sequence[Cell], rows: ResultRows) -> list[Section]:
    """A section per table. Its note names the points that were chosen from the grids."""
    sections = []
    for number in dict.fromkeys(cell.table for cell in cells):
        in_table = [cell for cell in cells if cell.table == number]
        chosen = "; ".join(paper.choices(in_table, rows))
        notes = [paper.features_note(in_table), f"tuned, by validation risk: {chosen}." if chosen else ""]
        note = "\n\n".join(text for text in notes if text)
        lines = paper.as_lines(paper.results(in_table, rows))
        sections.append(Section(paper.TITLES[number], paper.HEADER, lines, note))
    return sections


def league_sections(found: Sequence[league.Result]) -> list[Section]:
    """Standings and errors, tuned and at the defaults."""
    sections = []
    for setting in (league.CHOSEN, DEFAULTS):
        if table := league.standings(found, setting):
            note = league.difference(found, setting)
            sections.append(
                Section(f"Standings, {setting}", league.STANDING_HEADER, league.standing_lines(table), note)
            )
            sections.append(Section(f"Errors, {setting}", *league.error_lines(found, setting)))
    return sections


def tally_sections(cells: Sequence[Cell], rows: ResultRows) -> list[Section]:
    """How many cells of all the tables are worse or better than the paper."""
    lines = paper.tally(paper.results(cells, rows))
    return [Section(paper.TALLY_TITLE, paper.TALLY_HEADER, lines)] if lines else []


def figure_sections(curves: Sequence[paper.Curve]) -> list[Section]:
    """Figure 2 in numbers."""
    title = "Figure 2: training loss, each method's own"
    return [Section(title, paper.CURVE_HEADER, paper.curve_lines(curves))] if curves else []


def _markdown(section: Section, titled: bool) -> str:
    table = tables.markdown(section.header, section.lines)
    parts = [f"## {section.title}" if titled else "", table, section.note]
    return "\n\n".join(part for part in parts if part)
