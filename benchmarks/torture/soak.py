"""Fit and predict with every method, many times in one process: python benchmarks/torture/soak.py 1000

The methods take turns. After a quarter of the fits, when all libraries are loaded and their caches are full, memory,
open files and threads are read, and again at the end. They must not have grown. The counts are printed and added to
results/reliability/soak.jsonl.
"""

import argparse
import gc
import json
import os
import statistics
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from pulab.bench.runner import commit
from pulab.methods import METHODS

ROWS = Path(os.environ.get("TORTURE_ROWS", Path(__file__).parents[2] / "results" / "reliability"))
READINGS = 3
# Allocators keep pages, so the memory of a process is never quite flat: a leak of 32 KiB per fit is seen in 1,000 fits.
ALLOWED = {"MiB grown": 24, "descriptors grown": 0, "threads grown": 0}


def data() -> tuple[Any, Any]:
    """Two clouds, 300 rows, 40 of them labelled."""
    rng = np.random.default_rng(0)
    y = np.arange(300) < 120
    X = rng.normal(size=(300, 5)) + 2.0 * y[:, None]
    order = rng.permutation(300)
    return X[order], (np.arange(300) < 40).astype(int)[order]


def unfitted(key: str, seed: int = 0, **params: Any) -> Any:
    """A classifier that is fitted fast."""
    method = METHODS[key]
    params = {"random_state": seed, "scenario": "single-sample"} | params
    params |= {"epochs": 2} if method.is_network else {}
    params |= {"n_estimators": 5} if hasattr(method.load(), "n_estimators") else {}
    params |= {"prior": 0.4} if method.needs_prior else {}
    params |= {"rho": 0.2} if method.needs_negatives else {}
    return method.load()(**params)


def fitted(key: str, X: Any, S: Any, seed: int = 0, **params: Any) -> Any:
    """The classifier, fitted."""
    given = {"X_negative": X[S == 0][:40]} if METHODS[key].needs_negatives else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return unfitted(key, seed, **params).fit(X, S, **given)


def fit_and_use(key: str, X: Any, S: Any, seed: int) -> None:
    """One fit and two predictions."""
    model = fitted(key, X, S, seed)
    model.predict(X)
    model.predict_proba(X)


def state() -> dict[str, float]:
    """Memory in MiB, open files and threads of this process."""
    gc.collect()
    own = Path("/proc/self")
    lines = dict(line.split(":", 1) for line in (own / "status").read_text().splitlines())
    return {
        "MiB": int(lines["VmRSS"].split()[0]) / 1024,
        "descriptors": len(list((own / "fd").iterdir())),
        "threads": int(lines["Threads"]),
    }


def soak(n: int) -> dict[str, Any]:
    """Fit n times. The middle of several readings after a quarter of the fits, and at the end."""
    X, S = data()
    keys = list(METHODS)
    start = time.perf_counter()
    early, late = [], []
    for i in range(n):
        fit_and_use(keys[i % len(keys)], X, S, i)
        if i >= n - READINGS:
            late.append(state())
        elif n // 4 <= i < n // 4 + READINGS:
            early.append(state())
    before, after = ({name: statistics.median(s[name] for s in some) for name in some[0]} for some in (early, late))
    return {
        "topic": "soak",
        "fits": n,
        "methods": len(keys),
        **{f"{name} grown": round(after[name] - before[name], 1) for name in before},
        "MiB": round(after["MiB"]),
        "seconds": round(time.perf_counter() - start),
        "commit": commit(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("n", type=int)
    parser.add_argument("--no-row", action="store_true", help="print only")
    asked = parser.parse_args()
    row = soak(asked.n)
    print(json.dumps(row))
    if not asked.no_row:
        ROWS.mkdir(parents=True, exist_ok=True)
        with (ROWS / "soak.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")
    return int(any(row[name] > most for name, most in ALLOWED.items()))


if __name__ == "__main__":
    sys.exit(main())
