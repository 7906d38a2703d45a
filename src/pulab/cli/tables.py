"""The commands for tables, which call :mod:`pulab.tables`."""

import json
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from pulab.cli import _console as console
from pulab.errors import InputError, PulabWarning
from pulab.methods import METHODS
from pulab.report._words import assumption, headline, share_of_positives
from pulab.summary import Summary

EXCEPT = " and ".join(key for key, method in METHODS.items() if not method.learns_from_pu_alone)
SHOWN = 20  # columns that were left out and have a line of their own

Table = Annotated[
    str,
    typer.Argument(
        help="A file (CSV, TSV, JSON Lines, Parquet, Arrow, Excel), a folder of Parquet files, a quoted pattern, or "
        "a quoted query on a SQLite or DuckDB file: 'shop.db::SELECT …'.",
        show_default=False,
    ),
]
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
Ray = Annotated[
    str | None,
    typer.Option(
        metavar="[ADDRESS]",
        help="Work on a Ray cluster: host:port, local, or nothing for $RAY_ADDRESS or the one on this machine.",
        show_default=False,
    ),
]


def with_ray_address(words: Sequence[str]) -> list[str]:
    """The words of a command, where a ``--ray`` without an address gets the word auto."""
    given = list(words)
    for i in reversed([i for i, word in enumerate(given) if word == "--ray"]):
        following = given[i + 1] if i + 1 < len(given) else "-"
        if not (
            following in ("auto", "local") or re.fullmatch(r"(ray://)?[^-:/][^:/]*:[0-9]+|\[.*\]:[0-9]+", following)
        ):
            given.insert(i + 1, "auto")
    return given


def fit(
    table: Table,
    label: Label,
    out: Annotated[Path, typer.Option(help="The folder to write the model to.", show_default=False)],
    id_column: Annotated[str | None, typer.Option("--id", help="A column that names the rows.")] = None,
    positive: Positive = None,
    negative: Annotated[
        str | None, typer.Option(help="A value of the label that marks confirmed negatives. Other rows are unlabeled.")
    ] = None,
    reviewed: Annotated[
        list[str] | None,
        typer.Option(
            help="Answers to learn from: a reviewed model, its answers.csv, or a table with the columns answer and row "
            "or the id. Can be repeated.",
            show_default=False,
        ),
    ] = None,
    drop: Drop = None,
    method: Annotated[
        list[str],
        typer.Option(
            help=f"auto, or a key from `pulab methods` except {EXCEPT}, which need negatives. Repeated: the best."
        ),
    ] = ["auto"],  # noqa: B006
    prior: Annotated[
        str, typer.Option(help="The share of positives, such as 0.3, a range, such as 0.02:0.06, or the word estimate.")
    ] = "estimate",
    scenario: Scenario = "single-sample",
    labelled_by: Annotated[
        list[str] | None,
        typer.Option(help="A column that the labelling may depend on. Can be repeated.", show_default=False),
    ] = None,
    weight: Annotated[
        str | None,
        typer.Option(help="A column of numbers: how much the ranking learns from each row.", show_default=False),
    ] = None,
    top: Annotated[int | None, typer.Option(help="Call the first so many candidates positive.")] = None,
    budget: Annotated[
        float | None, typer.Option(help="Call this share of the unlabeled rows positive, such as 0.02.")
    ] = None,
    costs: Annotated[
        str | None, typer.Option(help="What a false alarm and a missed positive cost, such as 1:20. Needs a prior.")
    ] = None,
    seed: Seed = 0,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="A folder to keep the fits in. The same command goes on after a kill or Ctrl-C. The folder is removed "
            "when the model is written.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Fit a model to a table in which some positives are marked. Write the model, a report and candidates."""
    from pulab.persistence import check_folder
    from pulab.tables import fit_table, is_inside, name_of

    check_folder(out)
    if is_inside(table, out):
        raise InputError(f"--out {out} would replace the folder of {name_of(table)}. Name another.")
    with _kept_in(checkpoint), console.steps() as step:
        model = fit_table(
            table,
            label,
            id=id_column,
            positive=positive,
            negative=negative,
            reviewed=reviewed,
            drop=drop or (),
            method=method,
            prior=_told(prior),
            scenario=scenario,
            labelled_by=labelled_by or (),
            weight=weight,
            top=top,
            budget=budget,
            costs=_costs(costs),
            random_state=seed,
            checkpoint=checkpoint,
            on_step=step,
        )
        step(f"writing {out}", 1, 1)
        model.save(out)
    if checkpoint is not None:
        from pulab.training.checkpoint import remove_folder

        remove_folder(checkpoint)
    if as_json:
        console.print_json(model.summary)
        return
    for line in _lines(model.summary):
        console.say(line)
    console.say(f"Look at {out / 'report.html'} and {out / 'candidates.csv'}.")


def score(
    model: Model,
    table: Table,
    out: Annotated[
        str, typer.Option(help="A .csv or .parquet file to write. With --ray: a folder.", show_default=False)
    ],
    ray: Ray = None,
    ray_cpus: Annotated[float, typer.Option(min=0.01, help="With --ray: CPUs of a task.")] = 1.0,
) -> None:
    """Score the rows of another table of any size: score, probabilities, decision.

    With --ray the machines of a cluster score a Parquet table part by part, and write a folder of Parquet files. The
    table and the folder may be addresses, such as s3://bucket/folder. A command that was stopped can be started again.
    """
    if ray is None:
        _score_here(model, table, Path(out))
        return
    from pulab.tables import score_on_ray

    with console.steps() as step:

        def show(done: int, rows: int) -> None:
            step(f"{done:,} of {rows:,} rows scored", done, rows)
            if not console.err.is_terminal:
                console.note(f"{done:,} of {rows:,} rows scored")

        done = score_on_ray(model, table, out, address=ray, cpus=ray_cpus, on_rows=show)
    there = f" ({done.found} were there already)" if done.found else ""
    console.note(f"wrote {out}: {done.rows:,} rows in {done.parts} files{there}")
    for line in done.watch.lines():
        console.note(f"! {line}")


def _score_here(model: Path, table: str, out: Path) -> None:
    from pulab.tables import TableModel, batches, check_target, name_of

    _check_apart(out, model, table)
    check_target(out)
    fitted = TableModel.load(model)
    watch = fitted.watch()
    with console.steps() as step:
        n_rows = fitted.score_file(table, out, lambda n: step(f"{n:,} rows scored", 0, 0), watch)
    has_id = fitted.id is None or fitted.id in next(batches(out)).columns
    note = "" if has_id else f" in the order of {name_of(table)}, which has no column {fitted.id!r}"
    console.note(f"wrote {out}: {n_rows:,} rows{note}")
    for line in watch.lines():
        console.note(f"! {line}")


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
    from pulab.tables import estimate_table_prior, name_of

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PulabWarning)  # printed below, or in the JSON
        estimate = estimate_table_prior(
            table, label, positive=positive, drop=drop or (), scenario=scenario, method=method, random_state=seed
        )
    low, high = estimate.interval
    if as_json:
        console.print_json(
            {
                "prior": {"low": low, "high": high, "evident": estimate.evident, "value": estimate.value},
                "method": estimate.method,
                "methods": estimate.details["methods"],
                "scenario": scenario,
                "warnings": estimate.details["warnings"],
            }
        )
        return
    console.note(f"{name_of(table)}: {estimate.details['rows']}")
    console.say(share_of_positives(low, high, estimate.value, scenario))
    for text in estimate.details["warnings"]:
        if not text.startswith("it is at most"):  # said above
            console.note(f"! {text}")


def rank(
    model: Model,
    table: Table,
    top: Annotated[int, typer.Option(min=1, help="Number of rows.")] = 100,
    out: Annotated[Path | None, typer.Option(help="A .csv or .parquet file to write instead of printing.")] = None,
    as_json: Json = False,
) -> None:
    """Print the rows of a table that are most likely positive, best first. Labelled rows are left out."""
    from pulab.tables import TableModel, check_target, flat, name_of, table_writer

    if out is not None:
        _check_apart(out, model, table)
        check_target(out)
    fitted = TableModel.load(model)
    watch = fitted.watch()
    ranked = fitted.rank(table, top, watch)
    for line in watch.lines():
        console.note(f"! {line}")
    if fitted.summary["table"]["name"] == name_of(table):
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
        lines = [[_cell(value) for value in row] for row in ranked.iter_rows()]
        n_shown = max(5, console.columns_that_fit(ranked.columns, lines))  # rank, id, score, probability, decision
        console.print_table("", ranked.columns[:n_shown], [line[:n_shown] for line in lines])
        if more := ranked.width - n_shown:
            console.note(f"{more} more columns: use --out or --json to see them all")


def report(
    model: Model,
    out: Annotated[Path | None, typer.Option(help="The HTML page to write. Default: report.html in the model.")] = None,
    as_json: Json = False,
) -> None:
    """Write the report of a model again, and its candidates after a review. Or print the report's data."""
    from pulab.tables import TableModel, flat

    fitted = TableModel.load(model)
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
    if out is None and fitted.summary["prior"]["source"] == "measured":
        console.write_whole(model / "candidates.csv", flat(fitted.candidates).write_csv())


def _check_apart(out: Path, model: Path, table: str) -> None:
    """Refuse to overwrite the input, or to add a file to it."""
    from pulab.tables import is_changed_by

    if is_changed_by(table, out) or model.resolve() in out.resolve().parents:
        raise InputError(f"--out {out} would overwrite the input. Name another file.")


def _told(text: str) -> float | tuple[float, float] | str:
    if text == "estimate":
        return text
    numbers = _numbers(text)
    if numbers is None or len(numbers) > 2:
        raise InputError(
            f"--prior must be a share such as 0.3, a range such as 0.02:0.06, or the word estimate, got {text!r}."
        )
    return numbers[0] if len(numbers) == 1 else (numbers[0], numbers[1])


def _costs(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    numbers = _numbers(text)
    if numbers is None or len(numbers) != 2:
        raise InputError(f"--costs must be two numbers such as 1:20, of a false alarm and of a miss, got {text!r}.")
    return numbers[0], numbers[1]


def _numbers(text: str) -> list[float] | None:
    """Numbers with colons between them; None if one of them is none."""
    try:
        return [float(part) for part in text.split(":")]
    except ValueError:
        return None


@contextmanager
def _kept_in(checkpoint: Path | None) -> Iterator[None]:
    """Say after Ctrl-C or SIGTERM how the command goes on."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        if checkpoint is not None and checkpoint.is_dir():
            console.note(f"what is finished is kept in {checkpoint}. Run the same command again to go on.")
        raise


def _lines(summary: Summary) -> Iterator[str]:
    """The result of a fit, as lines of text."""
    table, prior = summary["table"], summary["prior"]
    mark = f"{table['label']} = {table['positive']}"
    yield f"{table['name']}: {table['labelled']:,} labelled ({mark}), {table['unlabeled']:,} unlabeled"
    if table["weight"] is not None:
        yield f"Weights: column {table['weight']!r}. All figures are about rows, whatever their weights."
    if (answers := summary["reviewed"]) is not None:
        yield f"Answers: {answers['positive']:,} confirmed positive, {answers['negative']:,} confirmed negative"
    yield headline(summary)
    yield share_of_positives(prior["low"], prior["high"], prior["value"], summary["scenario"], prior["source"])
    yield summary["method"]["why"]
    for item in summary["metrics"]:
        if item["name"] in ("precision", "recall", "roc_auc") and item["low"] is not None and item["high"] is not None:
            value = "" if item["value"] is None else f"{item['value']:.3f}, "
            yield f"{item['name']} {value}between {item['low']:.3f} and {item['high']:.3f}"
    yield summary["decision"]["why"]
    yield assumption(summary)
    left_out = [column for column in table["columns"] if column["kind"] == "left out"]
    for column in left_out[:SHOWN]:
        yield f"! Column {column['name']!r} was left out: {column['note']}."
    if len(left_out) > SHOWN:
        yield f"! {len(left_out) - SHOWN:,} more columns were left out. model.json says why."
    for text in summary["warnings"]:
        yield f"! {text}"


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
