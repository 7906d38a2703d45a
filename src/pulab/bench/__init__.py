"""The laboratory: what to run, running it, and the rows that come of it."""

from pulab.bench._ray import OnRay
from pulab.bench.recipes import RECIPES
from pulab.bench.runner import Claims, is_current, prepare, run, run_all
from pulab.bench.spec import RunSpec
from pulab.bench.store import Row, append_row, committed_rows, read_rows, rows_of, shortened

__all__ = [
    "RECIPES",
    "Claims",
    "OnRay",
    "Row",
    "RunSpec",
    "append_row",
    "committed_rows",
    "is_current",
    "prepare",
    "read_rows",
    "rows_of",
    "run",
    "run_all",
    "shortened",
]
