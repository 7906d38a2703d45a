"""The command ``pulab``."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from pulab import __version__
from pulab.cli import _console as console

app = typer.Typer(
    name="pulab",
    help="Learn classifiers from positive and unlabeled data.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="Print data for a program to read.")]


def main() -> None:
    """Run the command; any error is one line and exit code 1."""
    try:
        code = app(standalone_mode=False)
    except KeyboardInterrupt:
        sys.stderr.write("pulab: interrupted\n")
        code = 130
    except Exception as error:
        code = console.fail(error)
    sys.exit(code if isinstance(code, int) else 0)


def _version(asked: bool) -> None:
    if asked:
        print(f"pulab {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Learn classifiers from positive and unlabeled data."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def methods(as_json: Json = False) -> None:
    """List the methods."""
    from pulab.bench.methods import METHODS

    if as_json:
        console.print_json(
            [
                {
                    "key": key,
                    "class": m.class_path,
                    "needs_prior": m.needs_prior,
                    "reference": m.reference,
                    "summary": m.summary,
                }
                for key, m in METHODS.items()
            ]
        )
        return
    lines = [
        [key, m.class_path, "yes" if m.needs_prior else "no", m.summary, m.reference] for key, m in METHODS.items()
    ]
    console.print_table("", ["key", "class", "prior?", "what it does", "reference"], lines)


@app.command()
def datasets(as_json: Json = False) -> None:
    """List the data sets, and whether they are on this machine."""
    from pulab.datasets import DATASETS

    if as_json:
        console.print_json(
            [
                {"key": key, "summary": d.summary, "positive": d.positive, "on_this_machine": d.on_this_machine}
                for key, d in DATASETS.items()
            ]
        )
        return
    lines = [
        [key, d.summary, d.positive, "yes" if d.on_this_machine else "to be downloaded"] for key, d in DATASETS.items()
    ]
    console.print_table("", ["key", "what", "positive", "here?"], lines)


@app.command()
def demo(
    trials: Annotated[int, typer.Option(min=1, help="Samplings to repeat it on.")] = 5,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("demo.html"),
    as_json: Json = False,
) -> None:
    """Train five methods on scikit-learn's digits, print their errors and write a page about it."""
    from pulab.bench import RECIPES, run_all
    from pulab.report.html import demo_page
    from pulab.report.tables import cells

    specs = RECIPES["demo"](trials)
    rows = []
    with console.progress("training", len(specs)) as advance:
        for row in run_all(specs, device="cpu"):
            rows.append(row)
            advance()
    order = {spec.digest: i for i, spec in enumerate(specs)}
    rows.sort(key=lambda row: order[row["spec"]])
    out.write_text(demo_page(rows), encoding="utf-8")
    table = cells(rows)
    if as_json:
        console.print_json([cell._asdict() for cell in table])
    else:
        by_method = {
            method: [c for c in table if c.method == method] for method in dict.fromkeys(c.method for c in table)
        }
        lines = [[method, *map(str, mine), str(mine[0].n)] for method, mine in by_method.items()]
        title = "Even or odd: 50 labelled, 1,000 unlabeled digits (mean ± std over n trials)"
        console.print_table(title, ["method", "test error, %", "recovery error, %", "n"], lines)
    console.err.print(f"wrote {out}")
