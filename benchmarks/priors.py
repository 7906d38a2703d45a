"""Class priors: the errors of `auto`, of its parts and of pulearn's estimators on data with known truth.

    PULAB_DATA=… python benchmarks/priors.py [seeds]

Each run appends a row to results/priors/; runs that have a row are skipped. At most 5,000 rows of a data set are used,
the same ones in every run (MNIST as 50 principal components). A run draws the labelled rows.

Whether a region of pure positives exists is decided with the truth: boosted trees are trained on true labels, and their
region is where unseen rows have a posterior of .98 or more. At least 98 % of the rows there must be positive, and at
least a quarter of all positives must lie there. These data sets were not used to choose the methods.
"""

import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pulearn.priors import HistogramMatchPriorEstimator, LabelFrequencyPriorEstimator, ScarEMPriorEstimator
from rich.progress import track
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.preprocessing import StandardScaler

from pulab.bench import append_row, read_rows
from pulab.datasets import DATASETS, make_pu
from pulab.priors import estimate_prior
from pulab.priors._scores import out_of_fold

ROWS = Path(__file__).parents[1] / "results" / "priors" / "priors.jsonl"
MAX_ROWS = 5000
RATES = (0.05, 0.1, 0.5)
CASE_CONTROL = ("breast-cancer", "mushroom", "spambase", "moons")  # with a tenth of the positives as P
PEERS = {
    "pulearn-label-frequency": LabelFrequencyPriorEstimator,
    "pulearn-histogram-match": HistogramMatchPriorEstimator,
    "pulearn-em": ScarEMPriorEstimator,
}
Table = tuple[np.ndarray, np.ndarray]


def known(name: str) -> Table:
    """All rows of a data set, training and test rows together."""
    split = DATASETS[name].load()
    X = np.concatenate([split.X_train, split.X_test])
    return X.reshape(len(X), -1), np.concatenate([split.y_train, split.y_test])


def overlap() -> Table:
    """Two Gaussian clouds in five features, 1.5 apart, without a region of pure positives."""
    rng = np.random.default_rng(0)
    y = (rng.random(MAX_ROWS) < 0.3).astype(int)
    X = rng.normal(size=(MAX_ROWS, 5))
    X[:, 0] += 1.5 * y
    return X, y


def lookalikes() -> Table:
    """Clouds far apart, but a fifth of the negatives is distributed like positives: the prior cannot be known."""
    rng = np.random.default_rng(0)
    y = (rng.random(MAX_ROWS) < 0.3).astype(int)
    X = rng.normal(size=(MAX_ROWS, 5))
    X[:, 0] += 5 * ((y == 1) | (rng.random(MAX_ROWS) < 0.2))
    return X, y


NAMES = ("breast-cancer", "digits", "digits-three", "mushroom", "spambase", "adult", "mnist", "moons", "clusters")
TABLES: dict[str, Callable[[], Table]] = {name: lambda name=name: known(name) for name in NAMES} | {
    "overlap": overlap,
    "lookalikes": lookalikes,
}


def table(name: str) -> Table:
    """The rows of a data set that every run sees."""
    X, y = TABLES[name]()
    chosen = np.random.default_rng(0).permutation(len(y))[:MAX_ROWS]
    X, y = X[chosen], y[chosen]
    return (PCA(50, random_state=0).fit_transform(X) if X.shape[1] > 200 else X), y


def pure_region(X: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """The share of positives in the region where a supervised model is sure, and the share of positives there."""
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    model = HistGradientBoostingClassifier(max_leaf_nodes=8, random_state=0)
    sure = cross_val_predict(model, X, y, cv=folds, method="predict_proba")
    there = sure[:, 1] >= 0.98
    return float(there[y == 1].mean()), float(y[there].mean()) if there.any() else 0.0


def measure(name: str, X: np.ndarray, y: np.ndarray, rate: float, seed: int, scenario: str) -> dict[str, Any]:
    pu = make_pu(X, y, n_labeled=max(2, round(rate * y.sum())), scenario=scenario, random_state=seed)
    estimates: dict[str, float] = {}
    seconds: dict[str, float] = {}

    def timed(key: str, estimate: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        result = estimate()
        seconds[key] = time.perf_counter() - start
        return result

    # As in estimate_prior(pu.X, pu.s), but the scores are computed once for all methods.
    scores = timed("scores", lambda: out_of_fold(pu.X, pu.s == 1, np.random.default_rng(seed), {}))
    settings = {"scenario": scenario, "random_state": seed}
    auto = timed("auto", lambda: estimate_prior(None, pu.s, scores=scores, **settings))
    estimates |= {"auto": auto.prior} | auto.details["methods"]
    for method in ("elkan-noto", "tice", "km2"):
        arguments = {"X": pu.X, "s": pu.s, "method": method, "scores": scores}
        estimates[method] = timed(method, lambda arguments=arguments: estimate_prior(**arguments, **settings)).prior
    if scenario == "single-sample":  # the only one that pulearn has
        Z = StandardScaler().fit_transform(pu.X)
        for key, estimator in PEERS.items():
            estimates[key] = timed(key, lambda e=estimator: e().estimate(Z, pu.s)).pi
    return {
        "dataset": name,
        "scenario": scenario,
        "rate": rate,
        "seed": seed,
        "n": len(y),
        "n_labelled": int(pu.s.sum()),
        "prior": float(pu.prior),
        "estimates": estimates,
        "interval": list(auto.interval),
        "warnings": auto.details["warnings"],
        "seconds": seconds,
    }


def main(seeds: int = 5) -> None:
    warnings.simplefilter("ignore")
    identity = ("dataset", "scenario", "rate", "seed")
    done = {tuple(row[key] for key in identity) for row in read_rows([ROWS] if ROWS.exists() else [])}
    runs = [(name, "single-sample", rate, seed) for name in TABLES for rate in RATES for seed in range(seeds)]
    runs += [(name, "case-control", 0.1, seed) for name in CASE_CONTROL for seed in range(seeds)]
    last, oracle = "", {}
    for run in track([run for run in runs if run not in done], "class priors"):
        name, scenario, rate, seed = run
        if name != last:
            X, y = table(name)
            share, purity = pure_region(X, y)
            oracle = {"sure_share": share, "sure_purity": purity, "pure": share >= 0.25 and purity >= 0.98}
            last = name
        append_row(ROWS, measure(name, X, y, rate, seed, scenario) | oracle)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
