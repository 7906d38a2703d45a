"""The bias of every metric from labelled and unlabeled rows, by simulation.

    python benchmarks/bias.py

Two normal classes, fixed scores. Each sample gives the estimate from P and U, and the value by the true labels of the
same population. Rows are in results/metrics/; docs/python.md shows them.
"""

import warnings
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn import metrics as with_truth

from pulab import metrics
from pulab.bench import append_row
from pulab.bench.runner import commit
from pulab.errors import PulabWarning

ROWS = Path(__file__).parents[1] / "results" / "metrics" / "bias.jsonl"
SIZES = ((10, 200), (50, 1000), (200, 4000))  # labelled, unlabeled
PRIORS = (0.1, 0.3, 0.6)
TOP = 0.1  # the share of U that precision_at_k and lift_at_k are about
Marks = npt.NDArray[np.int64]
Array = npt.NDArray[np.float64]


class Sample(NamedTuple):
    """Labels, truth and logits of a sample."""

    s: Marks
    y: Marks
    g: Array
    scenario: str
    prior: float

    @property
    def population(self) -> npt.NDArray[np.bool_]:
        """The rows that the metrics are about."""
        return (self.s == 0) | (self.scenario == "single-sample")


def draw(scenario: str, prior: float, size: tuple[int, int], rng: np.random.Generator) -> Sample:
    """A sample of about this size."""
    n_p, n_u = size
    if scenario == "case-control":
        y = np.concatenate([np.ones(n_p, dtype=int), (rng.random(n_u) < prior).astype(int)])
        s = (np.arange(len(y)) < n_p).astype(int)
    else:
        y = (rng.random(n_p + n_u) < prior).astype(int)
        s = y * (rng.random(len(y)) < n_p / (prior * len(y)))
    return Sample(s, y, 1.3 * rng.normal(size=len(y)) + np.where(y == 1, 1.2, -1.0), scenario, prior)


def estimate(name: str, sample: Sample) -> float:
    """A metric from P and U."""
    given = {"prior": sample.prior, "scenario": sample.scenario}
    if name in ("precision_at_k", "lift_at_k"):
        return float(getattr(metrics, name)(sample.s, sample.g, k=round(TOP * (sample.s == 0).sum()), **given))
    values = (sample.g > 0).astype(float) if metrics.METRICS[name].of == "decisions" else sample.g
    return metrics.METRICS[name].function(sample.s, values, **given)


def truth(name: str, sample: Sample) -> float:
    """The same metric from true labels."""
    if name in ("precision_at_k", "lift_at_k"):
        y, g = sample.y[sample.s == 0], sample.g[sample.s == 0]
        precision = y[np.argsort(-g)[: round(TOP * len(y))]].mean()
        return float(precision if name == "precision_at_k" else precision / y.mean())
    return by_true_labels(name, sample.y[sample.population], sample.g[sample.population], sample.prior)


def by_true_labels(name: str, y: Marks, g: Array, prior: float) -> float:
    """A metric by true labels, from scikit-learn where it has it."""
    decided = (g > 0).astype(int)
    match name:
        case "accuracy" | "precision" | "recall" | "f1":
            return float(getattr(with_truth, f"{name}_score")(y, decided))
        case "roc_auc" | "average_precision":
            return float(getattr(with_truth, f"{name}_score")(y, g))
        case "zero_one_risk":
            return float((y != decided).mean())
        case "lee_liu":
            return float(decided[y == 1].mean() ** 2 / decided.mean())
        case "centred_risk":
            g = 4 * (g - np.quantile(g, 1 - prior)) / g.std()
    loss = 1 / (1 + np.exp(np.where(y == 1, g, -g)))
    return float(prior * loss[y == 1].mean() + (1 - prior) * loss[y == 0].mean())


NAMES = (*metrics.METRICS, "precision_at_k", "lift_at_k")


def bias(
    scenario: str,
    prior: float,
    size: tuple[int, int],
    repeats: int,
    seed: int = 0,
    names: Iterable[str] = NAMES,
) -> dict[str, dict[str, float]]:
    """By metric: the mean by true labels, the mean error, its standard error, and the root mean squared error."""
    rng = np.random.default_rng(seed)
    pairs: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for _ in range(repeats):
        sample = draw(scenario, prior, size, rng)
        while min(sample.s.sum(), sample.y[sample.s == 0].sum()) < 2:  # some metrics are not defined
            sample = draw(scenario, prior, size, rng)
        for name, values in pairs.items():
            values.append((estimate(name, sample), truth(name, sample)))
    found = {}
    for name, values in pairs.items():
        ours, true = np.array(values).T
        error = ours - true
        found[name] = {
            "truth": float(true.mean()),
            "bias": float(error.mean()),
            "standard_error": float(error.std(ddof=1) / np.sqrt(len(error))),
            "rmse": float(np.sqrt((error**2).mean())),
        }
    return found


def main() -> None:
    """Simulate, and replace the rows."""
    ROWS.unlink(missing_ok=True)
    for scenario, prior, size in product(metrics.SCENARIOS, PRIORS, SIZES):
        print(scenario, prior, size, flush=True)
        for name, found in bias(scenario, prior, size, repeats=4000 if size[0] < 200 else 1000).items():
            place = {"metric": name, "scenario": scenario, "prior": prior, "labelled": size[0], "unlabeled": size[1]}
            append_row(ROWS, {**place, **found, "commit": commit()})


if __name__ == "__main__":
    warnings.simplefilter("ignore", PulabWarning)
    main()
