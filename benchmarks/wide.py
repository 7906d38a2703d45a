"""CPU time of `fit_table` on tables with many columns, against the bare fits of the same run.

    python benchmarks/wide.py [METHOD ROWS COLUMNS]

Bare fits: what the run spends in LightGBM (data and trees) and in scikit-learn's logistic regression, for the five
folds of each method and the final fit. All else is pulab's: reading, held-out scores, importances, reasons, warnings.
We measure CPU time, since the machine may be shared. Each table has a process of its own, for its peak memory. Twenty
columns say something about the label.
"""

import resource
import subprocess
import sys
import time
import warnings
from typing import Any

import lightgbm
import numpy as np
import polars as pl
from _common import report
from sklearn.linear_model import LogisticRegression

from pulab.tables import fit_table

SIZES = [
    ("auto", 2_000, 1_000),
    ("auto", 2_000, 10_000),
    ("boosting", 2_000, 1_000),
    ("boosting", 2_000, 10_000),
    ("elkan-noto", 2_000, 1_000),
    ("elkan-noto", 2_000, 10_000),
    ("elkan-noto", 200, 50_000),
]
LABELLED = 0.05  # of all rows; one row in four is positive


def table(rows: int, columns: int) -> pl.DataFrame:
    """Normal numbers, the first twenty of which decide which rows are positive."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, columns), dtype=np.float32)
    score = X[:, :20] @ rng.standard_normal(20)
    known = np.zeros(rows, dtype=int)
    known[rng.choice(np.flatnonzero(score > np.quantile(score, 0.75)), int(LABELLED * rows), replace=False)] = 1
    return pl.DataFrame({**{f"c{i}": X[:, i] for i in range(columns)}, "known": known})


def main(method: str, rows: int, columns: int) -> None:
    """One fit, with the time of what it calls."""
    warnings.simplefilter("ignore")
    bare = 0.0

    def timed(owner: Any, name: str) -> None:
        call = getattr(owner, name)

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            nonlocal bare
            start = time.process_time()
            try:
                return call(*args, **kwargs)
            finally:
                bare += time.process_time() - start

        setattr(owner, name, wrapper)

    for owner, name in ((lightgbm.Booster, "__init__"), (lightgbm.Booster, "update"), (LogisticRegression, "fit")):
        timed(owner, name)
    frame = table(rows, columns)
    start = time.process_time()
    fit_table(frame, "known", method=method)
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    size = {"method": method, "rows": rows, "columns": columns}
    report("wide", **size, bare_cpu_seconds=bare, cpu_seconds=seconds, ratio=seconds / bare, gib_at_the_peak=peak)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        main(sys.argv[2], *map(int, sys.argv[3:]))
    else:
        for size in [sys.argv[1:]] if sys.argv[1:] else SIZES:
            subprocess.run([sys.executable, __file__, "--one", *map(str, size)], check=True)
