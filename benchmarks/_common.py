"""Shared by the benchmarks: the paper's runs, and a result row per measurement in results/performance/."""

import os
import platform
from pathlib import Path
from typing import Any

import torch

from pulab.bench import append_row
from pulab.bench.paper import PAPER, runs
from pulab.bench.runner import commit, make_estimator
from pulab.datasets import DATASETS, Trial

ROWS = Path(os.environ.get("BENCHMARK_ROWS", Path(__file__).parents[1] / "results" / "performance"))


def joint_runs(
    dataset: str, trials: int, epochs: int, device: str
) -> tuple[list[Any], list[dict[str, Any]], list[Trial], dict[str, Any]]:
    """The paper's `joint` on a data set: estimators, arguments of their fits, samples, hyper-parameters."""
    data = DATASETS[dataset].load()
    experiment = PAPER[dataset]
    samples = [experiment.sampling.draw(data.X_train, data.y_train, seed) for seed in range(trials)]
    specs = runs(dataset, "joint", range(trials), epochs=epochs)
    estimators = [make_estimator(spec, experiment.sampling.prior, device) for spec in specs]
    arguments = [{"X": t.X, "y": t.s, "X_val": v.X, "y_val": v.s} for t, v in samples if v is not None]
    return estimators, arguments, samples, specs[0].params


def report(name: str, **measured: Any) -> None:
    """Print a measurement and store it."""
    row = {"benchmark": name, **measured, "torch": torch.__version__, "machine": platform.machine(), "commit": commit()}
    if torch.cuda.is_available():
        row["device"] = torch.cuda.get_device_name()
    shown = {key: f"{value:.4g}" if isinstance(value, float) else value for key, value in row.items()}
    print("  ".join(f"{key}={value}" for key, value in shown.items()), flush=True)
    append_row(ROWS / f"{name}.jsonl", row)
