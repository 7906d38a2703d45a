"""Which mushrooms are poisonous, if only some poisonous ones are known and no harmless ones?

    python examples/mushrooms.py

UCI's mushrooms have only categories: cap, smell, gills, habitat. One in ten of the poisonous ones is marked, by people
who had a bad evening. The share of poisonous ones is unknown. Half a minute on a CPU.
"""

import numpy as np
import polars as pl

from pulab.datasets import load_mushroom
from pulab.tables import fit_table

mushrooms = load_mushroom(as_frame=True)
poisonous = mushrooms["class"].to_numpy() == "p"
rng = np.random.default_rng(0)
marked = poisonous & (rng.random(len(poisonous)) < 0.1)
table = mushrooms.drop("class").with_columns(bad_evening=pl.Series(marked))

model = fit_table(table, label="bad_evening")

prior = model.summary["prior"]
print(f"{marked.sum()} marked, {(~marked).sum():,} others")
print(f"share of poisonous ones between {prior['low']:.2f} and {prior['high']:.2f}, true {poisonous.mean():.2f}")
print("most important columns:", ", ".join(item["name"] for item in model.summary["features"][:3]))

if prior["value"] is None:
    raise SystemExit("The rows do not tell the share, so no mushroom is called poisonous. Review some of them.")
decision = model.predict(table)
others = ~marked
print(f"of the poisonous ones that nobody had marked, {decision[others & poisonous].mean():.1%} are found")
print(f"of the harmless ones, {decision[~poisonous].mean():.1%} are thrown away")
