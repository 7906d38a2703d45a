"""The command ``pulab``."""

import os
import shlex
import signal
import sys
import warnings
from collections.abc import Callable
from inspect import signature
from io import TextIOWrapper
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pulab import __version__
from pulab.cli import _console as console
from pulab.cli import review, tables
from pulab.errors import InputError

if TYPE_CHECKING:
    from pulab.bench import OnRay, Row, RunSpec
    from pulab.bench.runner import Claim

app = typer.Typer(
    name="pulab",
    help="Learn classifiers from positive and unlabeled data.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def main() -> None:
    """Run the command; any error is one line and exit code 1."""
    # A closed stream is None.
    sys.stdout, sys.stderr = (stream or Path(os.devnull).open("w") for stream in (sys.stdout, sys.stderr))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may lack letters of a table
    warnings.formatwarning = console.format_warning
    for name in ("SIGTERM", "SIGHUP"):  # like Ctrl-C, they remove half-written files; Windows has no SIGHUP
        if hasattr(signal, name) and signal.getsignal(getattr(signal, name)) != signal.SIG_IGN:  # nohup ignores it
            signal.signal(getattr(signal, name), _end)
    try:
        code = app(tables.with_ray_address(sys.argv[1:]), standalone_mode=False)
    except KeyboardInterrupt:
        code = 130
    except Exception as error:
        code = console.fail(error)
    if code == 130:  # typer also returns this after Ctrl-C
        sys.stderr.write("pulab: interrupted\n")
    sys.exit(code if isinstance(code, int) else 0)


def _end(number: int, frame: object) -> None:
    sys.stderr.write("pulab: terminated\n")
    sys.exit(128 + number)


def _version(asked: bool) -> None:
    if asked:
        print(f"pulab {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Learn classifiers from positive and unlabeled data."""
    if context.invoked_subcommand is None:
        print(context.get_help())


for command in (tables.fit, tables.score, tables.prior, tables.rank, tables.report, review.review):
    app.command()(command)


@app.command()
def methods(as_json: Json = False) -> None:
    """List the methods."""
    from pulab.methods import METHODS

    records = [
        {
            "key": key,
            "class": f"pulab.{m.class_name}",
            "needs_prior": m.needs_prior,
            "reference": m.reference,
            "summary": m.summary,
        }
        for key, m in METHODS.items()
    ]
    titles = {"key": "key", "class": "class", "needs_prior": "prior?", "summary": "what it does"}
    console.print_records(records, titles, as_json)


@app.command()
def datasets(as_json: Json = False) -> None:
    """List the data sets and whether they are on this machine."""
    from pulab.datasets import DATASETS

    records = [
        {"key": key, "summary": d.summary, "positive": d.positive, "on_this_machine": d.on_this_machine}
        for key, d in DATASETS.items()
    ]
    titles = {"key": "key", "summary": "what", "positive": "positive", "on_this_machine": "on this machine?"}
    console.print_records(records, titles, as_json)


@app.command()
def demo(
    trials: Annotated[int, typer.Option(min=1, help="Number of samplings.")] = 5,
    out: Annotated[Path, typer.Option(help="The HTML page to write.")] = Path("demo.html"),
    as_json: Json = False,
) -> None:
    """Train five methods on scikit-learn's digits, print their errors and write an HTML page."""
    console.check_file(out)
    from pulab.bench import RECIPES
    from pulab.report.html import demo_page
    from pulab.report.tables import by_method, cells

    specs = RECIPES["demo"](trials)
    rows = _run(specs, device="cpu")
    order = {spec.digest: i for i, spec in enumerate(specs)}
    rows.sort(key=lambda row: order[row["spec"]])
    console.write_whole(out, demo_page(rows))
    if as_json:
        console.print_json([cell._asdict() for cell in cells(rows)])
    else:
        title = "Even or odd: 50 labelled, 1,000 unlabeled digits (mean ± std over n trials)"
        console.print_table(title, *by_method(rows))


bench = typer.Typer(help="Run experiments and show their results.")
app.add_typer(bench, name="bench")


@bench.callback(invoke_without_command=True)
def bench_root(context: typer.Context) -> None:
    """Run experiments and show their results."""
    if context.invoked_subcommand is None:
        print(context.get_help())


Recipe = Annotated[str, typer.Argument(help="A name from `pulab bench list`.")]
Names = Annotated[str | None, typer.Option(help="Only these; separate names by commas.")]
Encoder = Annotated[str | None, typer.Option(help="Encoder of texts: minilm (default), elmo, minilm-mean or tfidf.")]
Trials = Annotated[int | None, typer.Option(min=1, help="Number of samplings. The default is the recipe's.")]


@bench.command("list")
def bench_list(as_json: Json = False) -> None:
    """List the recipes."""
    from pulab.bench import RECIPES

    records = [
        {"recipe": name, "runs": len(make()), "what": (make.__doc__ or "").strip()} for name, make in RECIPES.items()
    ]
    console.print_records(records, {name: name for name in records[0]}, as_json)


@bench.command("run")
def bench_run(
    recipe: Recipe,
    datasets: Names = None,
    methods: Names = None,
    trials: Trials = None,
    features: Encoder = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    out: Annotated[Path, typer.Option(help="The folder for the rows.")] = Path("runs"),
    deterministic: Annotated[bool, typer.Option("--deterministic", help="The same bits every time; slower.")] = False,
    ray: tables.Ray = None,
    ray_cpus: Annotated[float, typer.Option(min=0, help="With --ray: CPUs of a task.")] = 1.0,
    ray_gpus: Annotated[
        float | None,
        typer.Option(min=0, help="With --ray: GPUs of a task. At 0.25, four tasks share one. [default: 1 if any]"),
    ] = None,
) -> None:
    """Run a recipe. Finished runs are skipped, so a killed command can be started again.

    Several commands may work on one folder: each run is done by one of them.
    """
    from pulab._torch import be_deterministic, resolve_device
    from pulab.bench import Claims, OnRay, shortened
    from pulab.bench.paper import ENCODER, figure_2
    from pulab.bench.store import open_own

    where = None if ray is None else OnRay(ray, ray_cpus, ray_gpus)
    if where is None:  # the machines of a cluster have their own devices
        resolve_device(device)
    specs = _specs(recipe, datasets, methods, trials, features)
    rows = out / f"{recipe}.jsonl"
    try:  # fail now, not after the first training
        if out.is_file():
            raise InputError(f"--out must be a folder, got the file {out}.")
        out.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=out).close()
    except OSError as error:
        raise InputError(f"--out must be a folder that can be written to, got {out} ({error.strerror}).") from error
    if rows.exists() or rows.is_symlink():
        os.close(open_own(rows))
    drawn = {spec.digest for spec in figure_2(trials, features or ENCODER)}
    with Claims(specs, out) as claims:

        def add(row: "Row") -> None:
            claims.add(rows, shortened(row, row["spec"] in drawn))

        if claims.done:
            console.err.print(f"{len(claims.done)} of {len(specs)} runs are already done")
        if deterministic:
            be_deterministic()
        left = claims.left
        while left:
            _run(left, device, add, claims.claim, claims.checkpoints, where)
            left = claims.take_over(lambda n: console.note(f"waiting for {n} runs that other commands work on"))
    same = _options(datasets=datasets, methods=methods, trials=trials, features=features, rows=out)
    console.note(f"{out} holds all {len(specs)} runs. See them: pulab bench show {recipe}{same}")


@bench.command("show")
def bench_show(
    recipe: Recipe,
    datasets: Names = None,
    methods: Names = None,
    trials: Trials = None,
    features: Encoder = None,
    rows: Annotated[Path | None, typer.Option(help="The folder of the rows. Default: the committed rows.")] = None,
    form: Annotated[
        str | None, typer.Option("--format", help="md, html, csv or json; for a figure also svg or png. [default: md]")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The file to write. Its ending chooses the format.")] = None,
    as_json: Json = False,
) -> None:
    """Show the results of a recipe: mean ± std over n trials. For the paper's tables, also the paper's numbers."""
    from pulab._validation import check_choice
    from pulab.bench import committed_rows, rows_of
    from pulab.bench.paper import ENCODER, TABLES
    from pulab.report.show import FORMATS, PICTURED, PICTURES, show, shown_runs

    specs = _specs(recipe, datasets, methods, trials, features)
    if TABLES.get(recipe):  # the tables show both sets of seeds
        fresh = _specs("paper-confirm", datasets, methods, trials, features)
        specs = shown_runs(recipe, [*specs, *fresh], trials, features or ENCODER)
    if as_json and form not in (None, "json"):
        raise InputError(f"--json is short for --format json, got --format {form} with it. Pass one of them.")
    known = (*FORMATS, *PICTURES) if recipe in PICTURED else FORMATS
    ending = out.suffix.removeprefix(".").lower() if out else ""
    form = form or ("json" if as_json else ending or "md")
    if ending in (*FORMATS, *PICTURES) and ending != form:
        raise InputError(f"--out {out} and --format {form} contradict each other. Pass one of them.")
    check_choice("--format, or the ending of --out," if out else "--format", form, known)
    if form == "png" and out is None:
        raise InputError("a PNG needs a file to go to. Pass --out figure.png.")
    if out is not None:
        console.check_file(out)
    if rows is not None and rows.is_file():
        raise InputError(f"--rows must be a folder, got the file {rows}. Pass its folder.")
    folder = rows or committed_rows()
    results = rows_of(specs, folder)
    if not results:
        same = _options(datasets=datasets, methods=methods, trials=trials, features=features, out=rows)
        then = "" if rows else ", then pass --rows runs"
        raise InputError(f"{folder} holds no such rows. Run `pulab bench run {recipe}{same}`{then}.")
    if len(results) < len(specs):
        console.note(f"{len(specs) - len(results)} of {len(specs)} runs have no row yet")
    others = [row for row in results if row.get("versions", {}).get("pulab") not in (None, __version__)]
    if others and rows is not None:
        console.note(f"{len(others)} of {len(results)} rows were made by another version of pulab, with its defaults")
    shown = show(recipe, specs, results, form, trials, features or ENCODER)
    if out is not None:
        console.write_whole(out, shown)
    elif form in ("html", "svg"):  # these formats declare their own encoding
        sys.stdout.buffer.write(str(shown).encode())
    else:
        print(str(shown).rstrip("\n"))


def _options(**given: object) -> str:
    """Options as the user would type them."""
    return "".join(f" --{name} {shlex.quote(str(value))}" for name, value in given.items() if value is not None)


def _specs(
    recipe: str, datasets: str | None, methods: str | None, trials: int | None, features: str | None
) -> "list[RunSpec]":
    from pulab._validation import check_choice
    from pulab.bench import RECIPES
    from pulab.bench.features import FEATURES
    from pulab.bench.paper import TABLES
    from pulab.bench.recipes import COMPARED
    from pulab.methods import METHODS

    check_choice("recipe", recipe, RECIPES)
    options = {"trials": trials, "features": features}
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if features is not None:
        check_choice("--features", features, FEATURES)
        if recipe not in TABLES:
            raise InputError(f"--features is for the paper's recipes, got {recipe}. Omit it.")
    if methods is not None and "methods" in signature(RECIPES[recipe]).parameters:
        given["methods"] = [key for key, method in METHODS.items() if method.learns_from_pu_alone or key in COMPARED]
    specs = RECIPES[recipe](**given)
    for names, field in ((datasets, "dataset"), (methods, "method")):
        if names is not None:
            known = dict.fromkeys(getattr(spec, field) for spec in specs)
            chosen = [name.strip() for name in names.split(",")]
            for name in chosen:
                check_choice(f"for {recipe}, --{field}s", name, known)
            specs = [spec for spec in specs if getattr(spec, field) in chosen]
    return specs


def _run(
    specs: "list[RunSpec]",
    device: str,
    keep: "Callable[[Row], None]" = lambda row: None,
    claim: "Claim" = list,
    checkpoints: Path | None = None,
    ray: "OnRay | None" = None,
) -> "list[Row]":
    from pulab.bench import prepare, run_all

    prepare(specs, "cpu" if ray else device)
    rows = []
    given: dict[str, Any] = {"claim": claim, "checkpoints": checkpoints, "ray": ray}
    with console.progress("training", len(specs)) as advance:
        for row in run_all(specs, device=device, on_progress=advance, **given):
            keep(row)
            rows.append(row)
    return rows
