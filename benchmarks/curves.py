"""Corrected ROC and precision-recall curves against the truth, by simulation: python benchmarks/curves.py

Two normal classes, so that the true curves are known by a formula. Each point of a curve is compared at its threshold.
Beside it stands the curve that takes unlabeled rows for negatives. Rows are in results/metrics/; docs/python.md shows
them.
"""

import runpy
from itertools import product
from pathlib import Path

import numpy as np
from scipy.stats import norm
from sklearn import metrics as plain

from pulab import metrics
from pulab.bench import append_row
from pulab.bench.runner import commit

ROOT = Path(__file__).parents[1]
ROWS = ROOT / "results" / "metrics" / "curves.jsonl"
SIZES = ((50, 1000), (200, 4000))  # labelled, unlabeled
RECALLS = (0.2, 0.5, 0.8)
PRIOR = 0.3
draw = runpy.run_path(str(ROOT / "benchmarks" / "bias.py"))["draw"]


def true_points() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Thresholds at which the recalls are reached, with the true false positive rates and precisions."""
    at = 1.2 + 1.3 * norm.isf(RECALLS)  # a score is normal with deviation 1.3, around 1.2 or -1
    false = norm.sf((at + 1) / 1.3)
    found = PRIOR * np.array(RECALLS)
    return at, false, found / (found + (1 - PRIOR) * false)


def at_thresholds(values: np.ndarray, thresholds: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The values of a curve at these thresholds: what the lowest row has that reaches them."""
    falling = np.argsort(-thresholds, kind="stable")
    place = np.searchsorted(-thresholds[falling], -at, side="right") - 1
    return values[falling][np.maximum(place, 0)]


def errors(scenario: str, size: tuple[int, int], repeats: int, seed: int = 0) -> dict[str, np.ndarray]:
    """The error of every point in every sample, corrected and not."""
    rng = np.random.default_rng(seed)
    at, real_false, real_precision = true_points()
    found: dict[str, list[np.ndarray]] = {}
    for _ in range(repeats):
        sample = draw(scenario, PRIOR, size, rng)
        given = {"prior": PRIOR, "scenario": scenario}
        false, true, thresholds = metrics.roc_curve(sample.s, sample.g, **given)
        precision, _, cuts = metrics.precision_recall_curve(sample.s, sample.g, **given)
        naive_false, _, naive_thresholds = plain.roc_curve(sample.s, sample.g, drop_intermediate=False)
        naive_precision, _, naive_cuts = plain.precision_recall_curve(sample.s, sample.g)
        for name, value in {
            "recall": at_thresholds(true, thresholds, at) - RECALLS,
            "false positive rate": at_thresholds(false, thresholds, at) - real_false,
            "precision": at_thresholds(precision, cuts, at) - real_precision,
            "false positive rate, uncorrected": at_thresholds(naive_false, naive_thresholds, at) - real_false,
            "precision, uncorrected": at_thresholds(naive_precision[:-1], naive_cuts, at) - real_precision,
        }.items():
            found.setdefault(name, []).append(value)
    return {name: np.array(values) for name, values in found.items()}


def main() -> None:
    """Simulate, and replace the rows."""
    ROWS.unlink(missing_ok=True)
    for scenario, size in product(metrics.SCENARIOS, SIZES):
        for name, values in errors(scenario, size, repeats=1000).items():
            row = {
                "value": name,
                "scenario": scenario,
                "labelled": size[0],
                "unlabeled": size[1],
                "prior": PRIOR,
                "recalls": list(RECALLS),
                "bias": values.mean(axis=0).round(5).tolist(),
                "standard_error": (values.std(axis=0, ddof=1) / np.sqrt(len(values))).round(5).tolist(),
                "rmse": np.sqrt((values**2).mean(axis=0)).round(5).tolist(),
                "commit": commit(),
            }
            append_row(ROWS, row)
            print(scenario, size, name, row["bias"], row["rmse"])


if __name__ == "__main__":
    main()
