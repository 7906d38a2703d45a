"""SAR-EM on simulated labels that are not given at random: python benchmarks/biased_labels.py

Five Gaussian columns, 4,000 rows. The last column decides how often a positive is labelled: by a logistic curve from
.05 to .9, or .1 below zero and .6 above. The class is logistic in the columns, or not. A row of
results/league/biased.jsonl is
the mean over four draws of the error on 4,000 fresh rows, the AUC, and the mean error of the estimated propensities.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.metrics import roc_auc_score

from pulab import LogisticPUClassifier, SAREMPUClassifier
from pulab.bench.runner import commit
from pulab.datasets import make_pu

OUT = Path(__file__).parents[1] / "results" / "league" / "biased.jsonl"
SEEDS, N = 4, 4000
CLASSES = {
    "logistic, without the column": lambda X: 1.5 * X[:, 0] - 1.5 * X[:, 1] + X[:, 2] - 1.5,
    "logistic, rising with the column": lambda X: 1.5 * X[:, 0] - 1.5 * X[:, 1] + X[:, 2] + X[:, 4] - 1.5,
    "logistic, falling with the column": lambda X: 1.5 * X[:, 0] - 1.5 * X[:, 1] + X[:, 2] - X[:, 4] - 1.5,
    "a step without the column": lambda X: np.where(X[:, 0] > 0.5, 4, -3) + np.where(X[:, 1] > 0, 1, -1),
    "a step with the column": lambda X: np.where(X[:, 0] + X[:, 4] > 0, 0.3, -2.0),
    "an interaction with the column": lambda X: 3 * X[:, 0] * (X[:, 4] > 0) - 1,
}
CHANCES = {
    "logistic": lambda X: 0.05 + 0.85 * expit(2 * X[:, 4] - 0.5),
    "step": lambda X: np.where(X[:, 4] > 0, 0.6, 0.1),
}


def rows_like(odds: Any, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 5))
    return X, (rng.random(N) < expit(odds(X))).astype(int)


def fits(pu: Any) -> dict[str, Any]:
    shared = {"prior": pu.prior, "scenario": "single-sample", "random_state": 0}
    return {
        "logistic": LogisticPUClassifier(**shared).fit(pu.X, pu.s),
        "sar-em": SAREMPUClassifier(propensity_features=[4], **shared).fit(pu.X, pu.s),
        "sar-em, separate": SAREMPUClassifier(propensity_features=[4], separate=True, **shared).fit(pu.X, pu.s),
        "sar-em, true propensities": SAREMPUClassifier(**shared).fit(pu.X, pu.s, pu.propensity),
    }


def main() -> None:
    OUT.parent.mkdir(parents=True, exist_ok=True)
    for name, odds in CLASSES.items():
        for curve, chance in CHANCES.items():
            found: dict[str, list[tuple[float, ...]]] = {}
            for seed in range(SEEDS):
                (X, y), (unseen, truth) = rows_like(odds, seed), rows_like(odds, seed + 100)
                pu = make_pu(X, y, propensity=chance, scenario="single-sample", random_state=seed)
                for method, clf in fits(pu).items():
                    p = clf.predict_proba(unseen)[:, 1]
                    off = float(np.abs(clf.propensity_ - chance(pu.X)).mean()) if "sar-em" in method else np.nan
                    error = 100 * float(((p > 0.5) != truth).mean())
                    found.setdefault(method, []).append((error, float(roc_auc_score(truth, p)), off))
            for method, values in found.items():
                error, auc, off = np.mean(values, axis=0)
                row = {"topic": "biased labels", "class": name, "propensity": curve, "method": method}
                row |= {"error": round(float(error), 2), "auc": round(float(auc), 4), "n": SEEDS, "commit": commit()}
                row |= {} if np.isnan(off) else {"propensity off": round(float(off), 3)}
                print(json.dumps(row), flush=True)
                with OUT.open("a") as file:
                    file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
