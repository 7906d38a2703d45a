"""Which other customers would buy the premium plan? From a CSV file to a call list, in three commands.

    python examples/churn.py

A firm has about 2,000 customers with the premium plan, and 30,000 others. Some of these would want it; nobody knows
which. The table is UCI's Adult: an income above 50K stands for "would want it", and one in four of these is known. The
truth is used only at the end. A minute or two on a CPU.
"""

import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

from pulab.datasets import load_adult

people = load_adult(as_frame=True)
truth = people["income"].to_numpy() == ">50K"
rng = np.random.default_rng(0)
known = truth & (rng.random(len(truth)) < 0.25)
customers = people.drop("income").with_columns(
    customer=pl.Series([f"c-{i}" for i in range(len(truth))]),
    premium=pl.Series(["yes" if k else None for k in known]),  # a value or nothing, as is usual
)
today, next_month = customers[:32561], customers[32561:].drop("premium")

with tempfile.TemporaryDirectory() as folder:
    place = Path(folder)
    today.write_csv(place / "customers.csv")
    next_month.write_parquet(place / "new.parquet")
    for command in (
        "fit customers.csv --label premium --id customer --method nnpu-boosting --out model",
        "score model new.parquet --out scores.csv",
        "rank model new.parquet --top 5",
    ):
        print(f"$ pulab {command}", flush=True)
        done = subprocess.run([sys.executable, "-m", "pulab", *shlex.split(command)], cwd=place, check=False)
        if done.returncode:
            sys.exit(done.returncode)
        print(flush=True)
    candidates = pl.read_csv(place / "model" / "candidates.csv")
    scores = pl.read_csv(place / "scores.csv")

wanted = dict(zip(customers["customer"], truth, strict=True))
for top in (100, 1000):
    right = np.mean([wanted[name] for name in candidates["customer"][:top]])
    print(f"of the first {top:4d} candidates {right:.0%} are right")
called = scores.filter(pl.col("decision"))["customer"]
right = np.mean([wanted[name] for name in called])
print(f"of {len(called):,} new customers that are called positive {right:.0%} are right")
