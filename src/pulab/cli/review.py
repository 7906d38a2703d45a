"""The command that lets a person review rows."""

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pulab.cli import _console as console
from pulab.cli.tables import Json, Model
from pulab.errors import InputError
from pulab.summary import Measured, Summary

if TYPE_CHECKING:
    from pulab.review import Draw


def review(
    model: Model,
    answers: Annotated[Path | None, typer.Option(help="The file of answers. Default: answers.csv in MODEL.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port of the page; 0 for a free one.")] = 0,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open the browser.")] = False,
    export: Annotated[Path | None, typer.Option(help="Write the rows to a .csv file to fill in instead.")] = None,
    n: Annotated[int, typer.Option(min=1, help="Number of rows that --export writes.")] = 100,
    import_: Annotated[Path | None, typer.Option("--import", help="Take the answers from such a file.")] = None,
    show: Annotated[bool, typer.Option("--show", help="Print what was measured.")] = False,
    as_json: Json = False,
) -> None:
    """Answer yes or no about some rows, one at a time on a page. This measures the share of positives and precision."""
    from pulab.review import FILE, from_sheet, open_log, read_answers, sheet
    from pulab.tables import TableModel, check_target, flat, table_writer

    if sum((export is not None, import_ is not None, show)) > 1:
        raise InputError("pass one of --export, --import and --show.")
    fitted = TableModel.load(model)
    if fitted.draw is None:
        raise InputError(f"{model} is from an earlier pulab and has no rows to review. Fit it again.")
    path = answers or model / FILE
    if export is not None:
        if export.suffix.lower() != ".csv" or model.resolve() in export.resolve().parents:
            raise InputError(f"--export must be a .csv file outside the model, got {export}.")
        check_target(export)
        with table_writer(export) as write:
            write(flat(sheet(read_answers(path, fitted.draw), n)))
        console.note(f"wrote {export}: fill in its last column with yes, no or skip, from the top, and --import it")
        return
    if import_ is not None:
        taken = from_sheet(import_, fitted.draw)
        with open_log(path, fitted.draw) as log:
            fresh = [(place, answer) for place, answer in taken if log.latest.get(place) != answer]
            log.add(fresh)
        console.note(f"{len(fresh)} new answers are in {path}. Now `pulab report {model}` writes the page anew.")
    elif not (show or as_json):
        _serve(path, fitted.draw, fitted.summary, port, no_open)
    _print(path, fitted.draw, fitted.summary, as_json)


def _serve(path: Path, draw: "Draw", summary: Summary, port: int, no_open: bool) -> None:
    """Serve the page until Ctrl-C."""
    from pulab.review import open_log
    from pulab.review.server import ReviewServer

    with open_log(path, draw) as log:
        try:
            server = ReviewServer(log, summary, port)
        except OSError as error:
            raise InputError(f"port {port} cannot be used: {error.strerror}. Name another, or none.") from None
        with server:
            console.note(f"Review at {server.address}")
            console.note(f"Every answer goes to {path} at once. Ctrl-C ends.")
            if not no_open:
                webbrowser.open(server.address)
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                console.note("")


def _print(path: Path, draw: "Draw", summary: Summary, as_json: bool) -> None:
    from pulab.review import lines, measured, read_answers

    result: Measured | None = measured(read_answers(path, draw), summary)
    if as_json:
        console.print_json(result)
    elif result is None:
        console.say("There are no answers yet.")
    else:
        for line in lines(result, summary):
            console.say(line)
