"""Boosting with the PU risk, and PU bagging of LightGBM, against plain LightGBM with the same trees and rows.

    python benchmarks/boosting.py [rows] [trees]

The plain alternative fits labelled against unlabeled rows with LightGBM's logistic loss. The three alternate.
"""

import sys
import time

import lightgbm
import numpy as np
from _common import report

from pulab import BaggingPUClassifier, NNPUBoostingClassifier


def table(n: int, n_features: int = 28) -> tuple[np.ndarray, np.ndarray]:
    """A tenth of the rows is positive, with a curved border. A tenth of these is labelled."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, n_features)).astype(np.float32)
    score = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * np.abs(X[:, 3]) + 0.5 * rng.normal(size=n)
    y = score > np.quantile(score, 0.9)
    return X, (y & (rng.random(n) < 0.1)).astype(int)


def main(n: int = 1_000_000, trees: int = 100) -> None:
    X, s = table(n)
    plain = lightgbm.LGBMClassifier(n_estimators=trees, num_leaves=31, verbose=-1)
    shared = {"prior": 0.1, "scenario": "single-sample", "random_state": 0}
    boosting = NNPUBoostingClassifier(n_estimators=trees, num_leaves=31, early_stopping=None, **shared)
    # A bag has twice as many rows as are labelled. Ten bags are compared with ten plain fits to a bag, and with one
    # plain fit to as many rows, which has less overhead.
    bags, per_bag = 10, int(2 * s.sum())
    base = lightgbm.LGBMClassifier(n_estimators=trees, num_leaves=31, verbose=-1)
    bagging = BaggingPUClassifier(base, n_estimators=bags, **shared)
    small = np.random.default_rng(1).choice(n, bags * per_bag % n or n, replace=False)

    def seconds(fit: object) -> float:
        start = time.perf_counter()
        fit()  # type: ignore[operator]
        return time.perf_counter() - start

    bag = np.concatenate([np.flatnonzero(s), np.flatnonzero(s == 0)[: int(s.sum())]])
    times: dict[str, list[float]] = {"plain": [], "boosting": [], "bagging": [], "plain_bags": [], "plain_of_bags": []}
    for _ in range(2):
        times["plain"].append(seconds(lambda: plain.fit(X, s)))
        times["boosting"].append(seconds(lambda: boosting.fit(X, s)))
        times["bagging"].append(seconds(lambda: bagging.fit(X, s)))
        times["plain_bags"].append(seconds(lambda: [plain.fit(X[bag], s[bag]) for _ in range(bags)]))
        times["plain_of_bags"].append(seconds(lambda: plain.fit(X[small], s[small])))
    best = {name: min(values) for name, values in times.items()}
    ratios = {
        "boosting_ratio": best["boosting"] / best["plain"],
        "bagging_ratio": best["bagging"] / best["plain_bags"],
        "bagging_ratio_to_one_fit": best["bagging"] / best["plain_of_bags"],
    }
    report("boosting", rows=n, trees=trees, **best, **ratios)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
