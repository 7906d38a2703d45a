"""The commands for tables: thin skins over :mod:`pulab.tables`."""

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from pulab.cli import _console as console
from pulab.errors import InputError, PulabWarning
from pulab.methods import METHODS
from pulab.summary import Summary

EXCEPT = " and ".join(key for key, method in METHODS.items() if not method.learns_from_pu_alone)

Table = Annotated[Path, typer.Argument(help="A CSV or Parquet file.", show_default=False)]
Model = Annotated[Path, typer.Argument(help="A folder that `pulab fit` wrote.", show_default=False)]
Label = Annotated[str, typer.Option(help="The column that marks the known positives.", show_default=False)]
Positive = Annotated[
    str | None, typer.Option(help="The value that marks a known positive; all other rows are unlabeled.")
]
Scenario = Annotated[
    str,
    typer.Option(help="single-sample: the table is the population; case-control: its unlabeled rows alone are."),
]
Drop = Annotated[
    list[str] | None, typer.Option(help="A column not to learn from; may be given several times.", show_default=False)
]
Seed = Annotated[int, typer.Option(min=0, help="The same seed, the same result.")]
Json = Annotated[bool, typer.Option("--json", help="Print data for a program to read.")]


def fit(
    table: Table,
    label: Label,
    out: Annotated[Path, typer.Option(help="The folder to write the model to.", show_default=False)],
    id_column: Annotated[str | None, typer.Option("--id", help="A column that names the rows.")] = None,
    positive: Positive = None,
    drop: Drop = None,
    method: Annotated[
        str, typer.Option(help=f"auto, or a key from `pulab methods` except {EXCEPT}, which need negatives.")
    ] = "auto",
    prior: Annotated[str, typer.Option(help="The share of positives, such as 0.3, or estimate.")] = "estimate",
    scenario: Scenario = "single-sample",
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Learn from a table in which some positives are marked: a model, a report, and candidates."""
    from pulab.persistence import check_folder
    from pulab.tables import fit_table

    check_folder(out)
    if out.resolve() in table.resolve().parents:
        raise InputError(f"--out {out} would replace the folder that {table.name} lies in. Name another.")
    with console.steps() as step:
        model = fit_table(
            table,
            label,
            id=id_column,
            positive=positive,
            drop=drop or (),
            method=method,
            prior=_prior(prior),
            scenario=scenario,
            random_state=seed,
            on_step=step,
        )
        step(f"writing {out}", 1, 1)
        model.save(out)
    if as_json:
        console.print_json(model.summary)
        return
    for line in _told(model.summary):
        console.say(line)
    console.say(f"Look at {out / 'report.html'} and {out / 'candidates.csv'}.")


def score(
    model: Model,
    table: Table,
    out: Annotated[Path, typer.Option(help="A .csv or .parquet file to write.", show_default=False)],
) -> None:
    """Score the rows of another table, however large: score, probability, decision."""
    from pulab.tables import TableModel, batches, check_target

    _check_apart(out, model, table)
    check_target(out)
    fitted = TableModel.load(model)
    with console.counter("rows scored") as count:
        n_rows = fitted.score_file(table, out, count)
    named = fitted.id is None or fitted.id in next(batches(out)).columns
    note = "" if named else f"; {table.name} has no column {fitted.id!r} that names them, they are in its order"
    console.note(f"wrote {out}: {n_rows:,} rows{note}")


def prior(
    table: Table,
    label: Label,
    positive: Positive = None,
    drop: Drop = None,
    scenario: Scenario = "single-sample",
    method: Annotated[str, typer.Option(help="auto, dedpul, bbe, tice, km2 or elkan-noto.")] = "auto",
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Estimate the share of positives in a table."""
    from pulab.tables import estimate_table_prior

    with _warnings_as_lines():
        found = estimate_table_prior(
            table, label, positive=positive, drop=drop or (), scenario=scenario, method=method, random_state=seed
        )
    if as_json:
        console.print_json(
            {
                "prior": found.prior,
                "interval": list(found.interval),
                "method": found.method,
                "methods": found.details["methods"],
                "scenario": scenario,
                "warnings": found.details["warnings"],
            }
        )
        return
    low, high = found.interval
    of = "all rows" if scenario == "single-sample" else "the unlabeled rows"
    console.note(f"{table.name}: {found.details['rows']}")
    line = f"{found.prior:.3f} of {of} are positive, between {low:.3f} and {high:.3f}"
    parts = ", ".join(f"{name} {value:.3f}" for name, value in found.details["methods"].items())
    console.say(f"{line} ({parts})")


def rank(
    model: Model,
    table: Table,
    top: Annotated[int, typer.Option(min=1, help="How many.")] = 100,
    out: Annotated[Path | None, typer.Option(help="A .csv or .parquet file instead of the screen.")] = None,
    as_json: Json = False,
) -> None:
    """The rows of a table that are most likely positive, best first; those already labelled are passed over."""
    from pulab.tables import TableModel, check_target, flat, table_writer

    if out is not None:
        _check_apart(out, model, table)
        check_target(out)
    fitted = TableModel.load(model)
    found = fitted.rank(table, top)
    if fitted.summary["table"]["name"] == table.name:
        console.note(
            "! Where the model was trained on these rows, better look at its candidates.csv, whose scores come from "
            "models that had not seen them."
        )
    if out is not None:
        with table_writer(out) as write:
            write(found)
        console.note(f"wrote {out}: {found.height:,} rows")
    elif as_json:
        console.print_json(json.loads(flat(found).write_json()))  # in which NaN and infinity are null
    else:
        shown = found.columns[:9]  # a terminal is narrow
        lines = [[_cell(value) for value in row] for row in found.select(shown).iter_rows()]
        console.print_table("", shown, lines)
        if more := found.width - len(shown):
            console.note(f"{more} more columns: --out or --json has them all")


def report(
    model: Model,
    out: Annotated[Path | None, typer.Option(help="Where to write the page; by default, into the model.")] = None,
    as_json: Json = False,
) -> None:
    """Write a model's report again, or print what it says as data."""
    from pulab.tables import TableModel

    fitted = TableModel.load(model)
    if as_json:
        console.print_json(fitted.summary)
        return
    page = out or model / "report.html"
    if model.resolve() in page.resolve().parents and page.name != "report.html":
        raise InputError(f"--out {page} lies within the model. Name a file elsewhere.")
    if page.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"the report goes to a file that ends in .html, got {page}.")
    console.check_file(page)
    console.write_whole(page, fitted.report())


def _check_apart(out: Path, model: Path, table: Path) -> None:
    """Refuse to write over what is being read."""
    target = out.resolve()
    if target == table.resolve() or model.resolve() in target.parents:
        raise InputError(f"--out {out} would write over what is read. Name another file.")


def _prior(text: str) -> float | str:
    if text == "estimate":
        return text
    try:
        return float(text)
    except ValueError:
        raise InputError(f"--prior must be a share such as 0.3, or estimate, got {text!r}.") from None


def _told(summary: Summary) -> Iterator[str]:
    """What came of a fit, in some lines."""
    table, prior = summary["table"], summary["prior"]
    low, high = prior["interval"]
    between = f", between {low:.3f} and {high:.3f}" if low < high else ""
    figures = {item["name"]: item for item in summary["metrics"]}
    mark = f"{table['label']} = {table['positive']}"
    yield f"{table['name']}: {table['labelled']:,} labelled ({mark}), {table['unlabeled']:,} unlabeled"
    yield f"prior {prior['value']:.3f} ({prior['source']}){between}"
    yield summary["method"]["why"]
    for name in ("precision", "recall", "roc_auc"):
        item = figures[name]
        if item["value"] is None:
            yield f"{name}: no row is called positive"
        else:
            ends = item["between"]
            yield f"{name} {item['value']:.3f}" + (f", between {ends[0]:.3f} and {ends[1]:.3f}" if ends else "")
    for column in table["columns"]:
        if column["kind"] == "left out":
            yield f"! Column {column['name']!r} was left out: {column['note']}."
    for text in summary["warnings"]:
        yield f"! {text}"


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Our own warnings as lines on stderr, not as Python prints them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", PulabWarning)
        yield
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        console.note(f"! {text[:1].upper()}{text[1:]}")
