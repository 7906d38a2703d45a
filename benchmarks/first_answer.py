"""CPU seconds and peak memory until `fit_table` gives its answer, with all defaults, and of `estimate_prior`.

The tables are synthetic, with the shapes of real ones. Each fit has a process of its own. To compare two versions of
pulab, run it once with each:

    python benchmarks/first_answer.py [shape …]
    git worktree add ../old COMMIT && PYTHONPATH=../old/src python benchmarks/first_answer.py [shape …]
"""

import resource
import subprocess
import sys
import time
import warnings

import numpy as np
import polars as pl
from _common import report

from pulab.priors import estimate_prior
from pulab.tables import fit_table

# rows, labelled rows, columns of numbers, of words, of texts
SHAPES = {
    "insurance": (4_076, 116, 85, 0, 0),
    "customers": (4_931, 390, 4, 15, 0),
    "loans": (7_000, 50, 35, 14, 0),
    "texts": (14_533, 200, 2, 1, 1),
    "flights": (300_597, 4_867, 9, 4, 0),
}
SHARE = 0.1


def table(shape: str) -> pl.DataFrame:
    """A table whose first columns of each kind have to do with the label, whose classes overlap."""
    n, n_labelled, numbers, words, texts = SHAPES[shape]
    rng = np.random.default_rng(0)
    y = rng.random(n) < SHARE
    labelled = np.zeros(n, dtype=int)
    labelled[rng.choice(np.flatnonzero(y), n_labelled, replace=False)] = 1
    columns = {f"n{i}": rng.normal(size=n) + (y if i < 4 else 0) for i in range(numbers)}
    for i in range(words):
        kinds = np.array([f"kind {k}" for k in range(3 + 5 * i)])
        columns[f"w{i}"] = kinds[(rng.integers(0, len(kinds), n) * (1 - 0.5 * (y & (i < 4)))).astype(int)]
    vocabulary = np.array(["".join(rng.choice(list("abcdefghijklmnopqrstuvwxyz"), 6)) for _ in range(5000)])
    for i in range(texts):
        draws = (5000 * rng.random((n, 16)) ** np.where(y, 3.0, 2.0)[:, None]).astype(int)
        columns[f"t{i}"] = np.array([" ".join(row) for row in vocabulary[draws]])
    return pl.DataFrame(columns).with_columns(s=pl.Series(labelled))


def main(shape: str) -> None:
    """Fit to one table, or estimate the prior of an array of numbers."""
    warnings.simplefilter("ignore")
    if shape == "prior":
        frame = table("customers").select(pl.col("^[ns].*$"))
        X = np.hstack([frame.drop("s").to_numpy(), np.random.default_rng(1).normal(size=(frame.height, 36))])
    else:
        frame = table(shape)
    cpu, start = time.process_time(), time.perf_counter()
    if shape == "prior":
        estimate_prior(X, frame["s"].to_numpy(), scenario="single-sample")
        method = "estimate_prior"
    else:
        method = fit_table(frame, "s").summary["method"]["key"]
    report(
        "first-answer",
        shape=shape,
        rows=frame.height,
        chosen=method,
        cpu_seconds=time.process_time() - cpu,
        seconds=time.perf_counter() - start,
        peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        main(sys.argv[2])
    else:
        for shape in sys.argv[1:] or [*SHAPES, "prior"]:
            subprocess.run([sys.executable, __file__, "--one", shape], check=True)
