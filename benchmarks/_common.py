"""What the benchmarks share: a row per measurement, appended to results/performance/."""

import platform
from pathlib import Path
from typing import Any

import torch

from pulab.bench import append_row

ROWS = Path(__file__).parents[1] / "results" / "performance"


def report(name: str, **measured: Any) -> None:
    """Print a measurement and keep it."""
    row = {"benchmark": name, **measured, "torch": torch.__version__, "machine": platform.machine()}
    shown = {key: f"{value:.4g}" if isinstance(value, float) else value for key, value in row.items()}
    print("  ".join(f"{key}={value}" for key, value in shown.items()), flush=True)
    append_row(ROWS / f"{name}.jsonl", row)
