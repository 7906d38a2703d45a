"""`pulab score` of a Parquet file against bare LightGBM `predict` on arrays in memory, with the same trees and threads.

    python benchmarks/score.py [rows] [threads]

Each scoring runs in its own process, whose peak memory is recorded. Bare LightGBM follows in this process. The start-up
time (imports and loading the model, measured on a file of one row) is reported separately and not part of the rate.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet
from _common import report

from pulab.tables import TableModel, fit_table

FEATURES, PIECE = 28, 200_000


def numbers(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, FEATURES))


def frame(X: np.ndarray) -> pl.DataFrame:
    return pl.DataFrame({f"f{i}": X[:, i] for i in range(FEATURES)})


def write(path: Path, rows: int) -> None:
    """Write a file of many row groups, piece by piece."""
    writer = None
    for start in range(0, rows, PIECE):
        table = frame(numbers(min(PIECE, rows - start), start)).to_arrow()
        writer = writer or pyarrow.parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def scored(model: Path, table: Path, out: Path, threads: int) -> tuple[float, float]:
    """Seconds and peak GiB of one scoring."""
    start = time.perf_counter()
    words = [sys.executable, "-m", "pulab", "score", str(model), str(table), "--out", str(out)]
    subprocess.run(words, check=True, env={**os.environ, "OMP_NUM_THREADS": str(threads)}, capture_output=True)
    seconds = time.perf_counter() - start
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20


def main(rows: int = 10_000_000, threads: int = 2) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        X = numbers(100_000, seed=1)
        y = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * np.abs(X[:, 3]) > 1.5
        s = y & (np.random.default_rng(2).random(len(y)) < 0.2)
        table = frame(X).with_columns(s=pl.Series(s.astype(int)))
        fit_table(table, "s", method="nnpu-boosting", prior=float(y.mean())).save(place / "model")
        booster = TableModel.load(place / "model").classifier
        write(place / "one.parquet", 1)
        write(place / "all.parquet", rows)
        start_up, _ = scored(place / "model", place / "one.parquet", place / "out.parquet", threads)
        seconds, peak = scored(place / "model", place / "all.parquet", place / "out.parquet", threads)
        in_memory = numbers(min(rows, 1_000_000), seed=3)
        start = time.perf_counter()
        booster.model_.predict(in_memory, num_iteration=booster.best_iteration_, raw_score=True, num_threads=threads)
        bare = len(in_memory) / (time.perf_counter() - start)
    ours = rows / (seconds - start_up)
    report(
        "score",
        rows=rows,
        threads=threads,
        trees=booster.best_iteration_,
        bare_rows_per_second=bare,
        our_rows_per_second=ours,
        ratio=ours / bare,
        start_seconds=start_up,
        peak_gib=peak,
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
