"""Is the share of positives better estimated by kinds of positives? python benchmarks/shares_by_kind.py

PULSNAR (Kumar and Lambert 2024): a Gaussian mixture of the labelled rows, its number of kinds by BIC, and for each kind
the share of U where min (f_U − α·f_kind) turns. Simulated: four Gaussian kinds of positives at a distance from the
negatives, 400 labelled rows, 4,000 of U with a quarter of positives. The kinds are labelled alike, or at 7 : 2 : .7 :
.3. A row of results/league/shares-by-kind.jsonl is the mean error of an estimate over four draws.
"""

import json
import warnings
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
from scipy.special import expit, logit
from scipy.stats import beta
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.preprocessing import StandardScaler

from pulab.bench.runner import commit
from pulab.priors import Sample, bbe, dedpul

OUT = Path(__file__).parents[1] / "results" / "league" / "shares-by-kind.jsonl"
KINDS, COLUMNS, N_U, N_P, SHARE, SEEDS = 4, 6, 4000, 400, 0.25, 4
BIASED = np.array([0.7, 0.2, 0.07, 0.03])
BINS, WIDTH = 128, 0.02


def drawn(seed: int, distance: float, biased: bool) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(KINDS, COLUMNS))
    centers *= distance / np.linalg.norm(centers, axis=1)[:, None]
    positive = centers[rng.integers(KINDS, size=int(SHARE * N_U))]
    positive = positive + rng.normal(size=positive.shape)
    U = np.concatenate([positive, rng.normal(size=(N_U - len(positive), COLUMNS))])
    labelled = centers[rng.choice(KINDS, N_P, p=BIASED if biased else None)]
    return labelled + rng.normal(size=labelled.shape), U


def held_out(P: Any, U: Any, seed: int) -> Sample:
    X, s = np.concatenate([P, U]), np.repeat([1, 0], [len(P), len(U)])
    model = lightgbm.LGBMClassifier(
        n_estimators=60, num_leaves=8, learning_rate=0.05, is_unbalance=True, verbose=-1, n_jobs=1
    )
    folds = StratifiedKFold(min(5, len(P)), shuffle=True, random_state=seed)
    g = logit(np.clip(cross_val_predict(model, X, s, cv=folds, method="predict_proba")[:, 1], 1e-6, 1 - 1e-6))
    return Sample(g[: len(P)], g[len(P) :])


def turn(sample: Sample, _: Any = None) -> float:
    """Where the logarithm of |min (f_U − α·f_P)| bends most; beta kernels, over probabilities above one half."""
    place = np.linspace(0, 1, BINS)

    def density(values: Any) -> Any:
        value = beta.pdf(values, place[:, None] / WIDTH + 1, (1 - place[:, None]) / WIDTH + 1).mean(axis=1)
        return value / value.sum()

    f_p, f_u = density(expit(sample.positive)), density(expit(sample.unlabeled))
    least, above = max(float(f_p.min()), 1e-10), place > 0.5
    shares = np.arange(10_000) / 10_000
    error = np.min(f_u[above] - shares[:, None] * f_p[above], axis=1)
    return float(shares[1 + np.abs(np.diff(np.log(np.abs(error) + least), n=2)).argmax()])


def kinds_of(P: Any, seed: int) -> Any:
    Z = StandardScaler().fit_transform(P)
    mixtures = [GaussianMixture(k, reg_covar=1e-3, random_state=seed).fit(Z) for k in range(1, 8)]
    return min(mixtures, key=lambda mixture: mixture.bic(Z)).predict(Z)


def main() -> None:
    warnings.simplefilter("ignore")
    OUT.parent.mkdir(parents=True, exist_ok=True)
    for distance in (6.0, 4.0, 2.5):
        for biased in (False, True):
            errors: dict[str, list[float]] = {}
            for seed in range(SEEDS):
                P, U = drawn(seed, distance, biased)
                whole, kinds = held_out(P, U, seed), kinds_of(P, seed)
                parts = [held_out(P[kinds == k], U, seed) for k in np.unique(kinds) if (kinds == k).sum() >= 5]
                for name, estimator in (("dedpul", dedpul), ("bbe", bbe), ("turn", turn)):
                    by_kind = min(1.0, sum(estimator(part) for part in parts))
                    errors.setdefault(name, []).append(estimator(whole) - SHARE)
                    errors.setdefault(f"{name} by kinds", []).append(by_kind - SHARE)
            for name, values in errors.items():
                row = {
                    "topic": "shares by kind",
                    "estimator": name,
                    "distance": distance,
                    "labels": ["random", "biased"][biased],
                }
                row |= {"mean error": round(float(np.mean(values)), 3), "mae": round(float(np.abs(values).mean()), 3)}
                row |= {"n": SEEDS, "commit": commit()}
                print(json.dumps(row), flush=True)
                with OUT.open("a") as file:
                    file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
