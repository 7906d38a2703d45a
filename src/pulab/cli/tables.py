"""The commands for tables, which call :mod:`pulab.tables`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from pulab.cli import _console as console
from pulab.errors import InputError
from pulab.methods import METHODS
from pulab.summary import Summary

EXCEPT = " and ".join(key for key, method in METHODS.items() if not method.learns_from_pu_alone)

Table = Annotated[Path, typer.Argument(help="A CSV or Parquet file.", show_default=False)]
Model = Annotated[Path, typer.Argument(help="A folder that `pulab fit` wrote.", show_default=False)]
Label = Annotated[str, typer.Option(help="The column that marks the known positives.", show_default=False)]
Positive = Annotated[
    str | None, typer.Option(help="The value that marks a known positive. All other rows are unlabeled.")
]
Scenario = Annotated[
    str,
    typer.Option(help="single-sample: the table is the population. case-control: only its unlabeled rows are."),
]
Drop = Annotated[
    list[str] | None, typer.Option(help="A column not to learn from. Can be repeated.", show_default=False)
]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same result.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


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
    prior: Annotated[str, typer.Option(help="The share of positives, such as 0.3, or the word estimate.")] = "estimate",
    scenario: Scenario = "single-sample",
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Fit a model to a table in which some positives are marked. Write the model, a report and candidates."""
    from pulab.persistence import check_folder
    from pulab.tables import fit_table

    check_folder(out)
    if out.resolve() in table.resolve().parents:
        raise InputError(f"--out {out} would replace the folder of {table.name}. Name another.")
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
    for line in _lines(model.summary):
        console.say(line)
    console.say(f"Look at {out / 'report.html'} and {out / 'candidates.csv'}.")


def score(
    model: Model,
    table: Table,
    out: Annotated[Path, typer.Option(help="A .csv or .parquet file to write.", show_default=False)],
) -> None:
    """Score the rows of another table of any size: score, probability, decision."""
    from pulab.tables import TableModel, batches, check_target

    _check_apart(out, model, table)
    check_target(out)
    fitted = TableModel.load(model)
    with console.steps() as step:
        n_rows = fitted.score_file(table, out, lambda n: step(f"{n:,} rows scored", 0, 0))
    has_id = fitted.id is None or fitted.id in next(batches(out)).columns
    note = "" if has_id else f" in the order of {table.name}, which has no column {fitted.id!r}"
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

    estimate = estimate_table_prior(
        table, label, positive=positive, drop=drop or (), scenario=scenario, method=method, random_state=seed
    )
    if as_json:
        console.print_json(
            {
                "prior": estimate.prior,
                "interval": list(estimate.interval),
                "method": estimate.method,
                "methods": estimate.details["methods"],
                "scenario": scenario,
                "warnings": estimate.details["warnings"],
            }
        )
        return
    low, high = estimate.interval
    of = "all rows" if scenario == "single-sample" else "the unlabeled rows"
    console.note(f"{table.name}: {estimate.details['rows']}")
    line = f"{estimate.prior:.3f} of {of} are positive, between {low:.3f} and {high:.3f}"
    parts = ", ".join(f"{name} {value:.3f}" for name, value in estimate.details["methods"].items())
    console.say(f"{line} ({parts})")


def rank(
    model: Model,
    table: Table,
    top: Annotated[int, typer.Option(min=1, help="Number of rows.")] = 100,
    out: Annotated[Path | None, typer.Option(help="A .csv or .parquet file to write instead of printing.")] = None,
    as_json: Json = False,
) -> None:
    """Print the rows of a table that are most likely positive, best first. Labelled rows are left out."""
    from pulab.tables import TableModel, check_target, flat, table_writer

    if out is not None:
        _check_apart(out, model, table)
        check_target(out)
    fitted = TableModel.load(model)
    ranked = fitted.rank(table, top)
    if fitted.summary["table"]["name"] == table.name:
        console.note(
            "! If the model was fitted to these rows, use its candidates.csv: it has scores "
            "by models that had not seen them."
        )
    if out is not None:
        with table_writer(out) as write:
            write(ranked)
        console.note(f"wrote {out}: {ranked.height:,} rows")
    elif as_json:
        console.print_json(json.loads(flat(ranked).write_json()))  # NaN and infinity become null
    else:
        shown = ranked.columns[:9]  # a terminal is narrow
        lines = [[_cell(value) for value in row] for row in ranked.select(shown).iter_rows()]
        console.print_table("", shown, lines)
        if more := ranked.width - len(shown):
            console.note(f"{more} more columns: use --out or --json to see them all")


def report(
    model: Model,
    out: Annotated[Path | None, typer.Option(help="The HTML page to write. Default: report.html in the model.")] = None,
    as_json: Json = False,
) -> None:
    """Write the report of a model again, or print its data."""
    from pulab.review import measured_in
    from pulab.tables import TableModel

    fitted = TableModel.load(model)
    fitted.summary["measured"] = measured_in(model, fitted.draw, fitted.summary)
    if as_json:
        console.print_json(fitted.summary)
        return
    page = out or model / "report.html"
    if model.resolve() in page.resolve().parents and page.name != "report.html":
        raise InputError(f"--out {page} is inside the model. Name a file elsewhere.")
    if page.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"--out must end in .html, got {page}.")
    console.check_file(page)
    console.write_whole(page, fitted.report())


def _check_apart(out: Path, model: Path, table: Path) -> None:
    """Refuse to overwrite the input."""
    target = out.resolve()
    if target == table.resolve() or model.resolve() in target.parents:
        raise InputError(f"--out {out} would overwrite the input. Name another file.")


def _prior(text: str) -> float | str:
    if text == "estimate":
        return text
    try:
        return float(text)
    except ValueError:
        raise InputError(f"--prior must be a share such as 0.3, or the word estimate, got {text!r}.") from None


def _lines(summary: Summary) -> Iterator[str]:
    """The result of a fit, as lines of text."""
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
            yield f"{name}: not defined, because no row is called positive"
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
