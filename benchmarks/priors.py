"""Class priors: the errors of `auto`, of its parts and of pulearn's estimators on data with known truth.

    PULAB_DATA=… python benchmarks/priors.py [--seeds 5] [--again]

The rows are in results/priors/; runs that have a row are skipped. With --again they are made anew, except for the
estimates of pulearn, which are kept. At most 5,000 rows of a data set are used,
the same ones in every run (MNIST as 50 principal components). A run draws the labelled rows.

Whether a region of pure positives exists is decided with the truth: boosted trees are trained on true labels, and their
region is where unseen rows have a posterior of .98 or more. At least 98 % of the rows there must be positive, and at
least a quarter of all positives must lie there. These data sets were not used to choose the methods.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
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
    "pulearn-label-frequency": "LabelFrequencyPriorEstimator",
    "pulearn-histogram-match": "HistogramMatchPriorEstimator",
    "pulearn-em": "ScarEMPriorEstimator",
}
Run = tuple[str, str, float, int]  # data set, scenario, rate, seed
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


def measure(run: Run, before: dict[str, Any] | None) -> dict[str, Any]:
    """A row. ``before`` is the same run's older row, whose estimates of pulearn are kept."""
    warnings.simplefilter("ignore")
    name, scenario, rate, seed = run
    X, y = table(name)
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
        estimate = timed(method, lambda arguments=arguments: estimate_prior(**arguments, **settings))
        estimates |= estimate.details["methods"]
    if before is not None:
        estimates |= {key: value for key, value in before["estimates"].items() if key in PEERS}
        seconds |= {key: value for key, value in before["seconds"].items() if key in PEERS}
    elif scenario == "single-sample":  # the only one that pulearn has
        from pulearn import priors as peers

        Z = StandardScaler().fit_transform(pu.X)
        for key, estimator in PEERS.items():
            estimates[key] = timed(key, lambda e=estimator: getattr(peers, e)().estimate(Z, pu.s)).pi
    share, purity = (before["sure_share"], before["sure_purity"]) if before else pure_region(X, y)
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
        "evident": auto.evident,
        "seconds": seconds,
        "sure_share": share,
        "sure_purity": purity,
        "pure": share >= 0.25 and purity >= 0.98,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    done = {
        (row["dataset"], row["scenario"], row["rate"], row["seed"]): row
        for row in read_rows([ROWS] if ROWS.exists() else [])
    }
    runs = [(name, "single-sample", rate, seed) for name in TABLES for rate in RATES for seed in range(options.seeds)]
    runs += [(name, "case-control", 0.1, seed) for name in CASE_CONTROL for seed in range(options.seeds)]
    todo = [run for run in runs if options.again or run not in done]
    rows = Parallel(-1, verbose=1, return_as="generator")(delayed(measure)(run, done.get(run)) for run in todo)
    if options.again:
        rows = list(rows)
        ROWS.unlink()
    for row in rows:
        append_row(ROWS, row)


if __name__ == "__main__":
    main()
