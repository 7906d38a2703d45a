"""Which other customers would buy the premium plan? From a CSV file to a call list, in six commands.

    python examples/churn.py

A firm has about 2,000 customers with the premium plan, and 30,000 others. Some of these would want it; nobody knows
which, and nobody knows how many. The table is UCI's Adult: an income above 50K stands for "would want it", and one in
four of these is known. The truth stands in for the person who reviews 100 rows, and is compared at the end. A minute.
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

wanted = dict(zip(customers["customer"], truth, strict=True))


def pulab(command: str, folder: Path) -> None:
    print(f"$ pulab {command}", flush=True)
    done = subprocess.run([sys.executable, "-m", "pulab", *shlex.split(command)], cwd=folder, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    print(flush=True)


with tempfile.TemporaryDirectory() as folder:
    place = Path(folder)
    today.write_csv(place / "customers.csv")
    next_month.write_parquet(place / "new.parquet")
    pulab("fit customers.csv --label premium --id customer --out model", place)
    pulab("review model --export rows.csv --n 100", place)
    rows = pl.read_csv(place / "rows.csv")  # a person fills in the last column
    filled = pl.Series("answer", ["yes" if wanted[name] else "no" for name in rows["customer"]])
    rows.with_columns(filled).write_csv(place / "rows.csv")
    pulab("review model --import rows.csv", place)
    pulab("report model", place)
    pulab("score model new.parquet --out scores.csv", place)
    pulab("rank model new.parquet --top 5", place)
    candidates = pl.read_csv(place / "model" / "candidates.csv")
    scores = pl.read_csv(place / "scores.csv")

print(f"true share of those who want it: {truth[: today.height].mean():.3f}")
for top in (100, 1000):
    right = np.mean([wanted[name] for name in candidates["customer"][:top]])
    print(f"of the first {top:4d} candidates {right:.0%} are right")
called = scores.filter(pl.col("decision"))
right = np.mean([wanted[name] for name in called["customer"]])
stated = called["probability"].mean()
print(f"of {called.height:,} new customers that are called positive {right:.0%} are right; stated: {stated:.0%}")
