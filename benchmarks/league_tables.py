"""Methods without a network on real tables whose labels are known: python benchmarks/league_tables.py [NAME …]

Half of the rows are for training: 100 of the positives (or a third of them, if these are fewer) are labelled at random,
or with chances that rise along one column, as 1 to 9. The other half tells the error. Methods get the true prior and
their defaults. A row of results/league/tables.jsonl is the mean over three draws.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import _real_tables
import numpy as np
import polars as pl
from sklearn.metrics import roc_auc_score

from pulab.bench.runner import commit
from pulab.datasets import load_breast_cancer, load_digits, load_mushroom, load_spambase, make_pu
from pulab.methods import METHODS

OUT = Path(__file__).parents[1] / "results" / "league" / "tables.jsonl"
KEYS = ("pu-forest", "sar-em", "rank-pruning", "logistic", "one-class-svm", "isolation-forest")
BESIDE = ("elkan-noto", "bagging", "boosting")
SEEDS, MOST = 3, 6000


def loaded(load: Callable[[], Any]) -> tuple[Any, Any]:
    data = load()
    return np.concatenate([data.X_train, data.X_test]), np.concatenate([data.y_train, data.y_test])


def of_r(name: str) -> tuple[Any, Any]:
    """A table of R as numbers: words of few kinds as columns of 0 and 1, gaps as the median."""
    frame, truth = _real_tables.read(name)
    few = [c for c in frame.columns if frame[c].dtype.is_numeric() or frame[c].n_unique() <= 20]
    words = [c for c in few if not frame[c].dtype.is_numeric()]
    numbers = frame.select(few).to_dummies(words).cast(pl.Float64)
    return numbers.select(pl.all().fill_nan(None).fill_null(strategy="mean").fill_null(0)).to_numpy(), truth.astype(int)


TABLES = {
    "breast-cancer": partial(loaded, load_breast_cancer),
    "digits": partial(loaded, load_digits),
    "spambase": partial(loaded, load_spambase),
    "mushroom": partial(loaded, load_mushroom),
    **{name: partial(of_r, name) for name in ("biopsy", "pima", "churn", "chains", "titanic", "wilms", "cells")},
}


def draw(X: Any, y: Any, seed: int, biased: bool) -> tuple[Any, Any, Any, int]:
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))[:MOST]
    train, test = np.array_split(order, 2)
    column = int(np.argmax(X[train].std(axis=0) / np.maximum(np.abs(X[train]).max(axis=0), 1e-9)))
    rank = np.argsort(np.argsort(X[train, column], kind="stable")) / len(train)
    n = min(100, int(y[train].sum() // 3))
    chances = {"propensity": (1 + 8 * rank) / 9} if biased else {}
    pu = make_pu(X[train], y[train], n_labeled=n, scenario="single-sample", random_state=seed, **chances)
    return pu, X[test], y[test], column


def rows_of(name: str, keys: tuple[str, ...], biased: bool) -> list[dict[str, Any]]:
    X, y = TABLES[name]()
    rows = []
    for key in keys:
        error, auc, share, seconds = [], [], [], []
        for seed in range(SEEDS):
            pu, unseen, truth, column = draw(X, y, seed, biased)
            more = {"propensity_features": [column]} if key == "sar-em" and biased else {}
            clf = METHODS[key].load()(prior=pu.prior, scenario="single-sample", random_state=0, **more)
            begin = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                p = clf.fit(pu.X, pu.s).predict_proba(unseen)[:, 1]
            seconds.append(time.process_time() - begin)
            error.append(100 * float(((p > 0.5) != truth).mean()))
            auc.append(float(roc_auc_score(truth, p)))
            share.append(float(p.mean() - truth.mean()))
        rows.append(
            {
                "topic": "tables",
                "dataset": name,
                "method": key,
                "labels": "biased" if biased else "random",
                "error": round(float(np.mean(error)), 2),
                "all one class": round(100 * float(min(y.mean(), 1 - y.mean())), 2),
                "auc": round(float(np.mean(auc)), 4),
                "mean probability - share": round(float(np.mean(share)), 3),
                "seconds": round(float(np.mean(seconds)), 2),
                "rows": len(pu.s),
                "labelled": int(pu.s.sum()),
                "n": SEEDS,
                "commit": commit(),
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(TABLES))
    OUT.parent.mkdir(parents=True, exist_ok=True)
    for name in parser.parse_args().names:
        for biased in (False, True):
            for row in rows_of(name, KEYS + BESIDE, biased):
                print(json.dumps(row), flush=True)
                with OUT.open("a") as file:
                    file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
