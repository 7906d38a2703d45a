"""pulab and pulearn: bagging and Elkan–Noto with the same base learners and data, in one run.

    python benchmarks/peers.py [seeds]        # needs pip install -e '.[peers]'

One in five positives of a training set is labelled. Errors are measured on test rows with true labels, in two ways.
Without the prior, pulab estimates it and pulearn uses its own rule. With the prior, pulab uses it. pulearn has no such
parameter, so its threshold is set to call the prior's share of training rows positive. The seconds are those of the fit
with the prior.
"""

import sys
import time
import warnings
from typing import Any

import numpy as np
from _common import report
from pulearn import BaggingPuClassifier, ElkanotoPuClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from pulab import BaggingPUClassifier, ElkanNotoClassifier
from pulab.datasets import DATASETS

SETS = ("adult", "mushroom", "spambase", "mnist")
ROWS, BAGS = 10_000, 100


def linear() -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))


def classifier(library: str, method: str, n_labeled: int, seed: int, prior: float | str) -> Any:
    if library == "pulab":
        shared = {"prior": prior, "scenario": "single-sample", "random_state": seed}
        if method == "bagging":
            return BaggingPUClassifier(DecisionTreeClassifier(), n_estimators=BAGS, **shared)
        return ElkanNotoClassifier(linear(), **shared)
    if method == "bagging":
        return BaggingPuClassifier(
            DecisionTreeClassifier(), n_estimators=BAGS, max_samples=n_labeled, random_state=seed
        )
    return ElkanotoPuClassifier(linear(), hold_out_ratio=0.1, random_state=seed)


def sample(name: str, seed: int) -> tuple[Any, ...]:
    """Training rows with PU labels, and test rows with the truth."""
    data = DATASETS[name].load()
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(data.y_train))[:ROWS]
    X, y = data.X_train[rows].reshape(len(rows), -1).astype(np.float64), data.y_train[rows]
    s = ((y == 1) & (rng.random(len(y)) < 0.2)).astype(int)
    test = rng.permutation(len(data.y_test))[:ROWS]
    return X, s, float(y.mean()), data.X_test[test].reshape(len(test), -1).astype(np.float64), data.y_test[test]


def scores(model: Any, X: Any) -> np.ndarray:
    shares = np.asarray(model.predict_proba(X), dtype=float)
    return shares[:, 1] if shares.ndim == 2 else shares


def main(seeds: int = 5) -> None:
    warnings.simplefilter("ignore")
    for name in SETS:
        for seed in range(seeds):
            X, s, prior, X_test, y_test = sample(name, seed)
            for method in ("elkan-noto", "bagging"):
                for library in ("pulab", "pulearn"):
                    n_p = int(s.sum())
                    start = time.perf_counter()
                    fitted = classifier(library, method, n_p, seed, prior).fit(X, s)
                    seconds = time.perf_counter() - start
                    alone = fitted
                    if library == "pulab":
                        alone = classifier(library, method, n_p, seed, "estimate").fit(X, s)
                    on_test = scores(fitted, X_test)
                    if library == "pulab":
                        decided = fitted.predict(X_test)
                    else:
                        decided = on_test > np.quantile(scores(fitted, X), 1 - prior)
                    report(
                        "peers",
                        dataset=name,
                        seed=seed,
                        method=method,
                        library=library,
                        prior=prior,
                        labelled=n_p,
                        rows=len(s),
                        auc=float(roc_auc_score(y_test, on_test)),
                        error_told=100 * float((decided != y_test).mean()),
                        error_alone=100 * float(((np.asarray(alone.predict(X_test)) == 1) != (y_test == 1)).mean()),
                        seconds=seconds,
                    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
