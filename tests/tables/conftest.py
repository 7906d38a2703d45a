"""A table as people have them, and the truth about it."""

import datetime

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray


class Customers:
    """Numbers with gaps, words, dates and notes; three in ten are positive, and four in ten of these are labelled."""

    def __init__(self, n: int = 2400, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.prior = 0.3
        self.y: NDArray[np.bool_] = rng.random(n) < self.prior
        y = self.y
        self.s = y & (rng.random(n) < 0.4)
        age = rng.normal(40, 8, n) + 14 * y
        spent = np.exp(rng.normal(3, 0.5, n) + 0.9 * y)
        plan = np.where(rng.random(n) < np.where(y, 0.75, 0.2), "gold", rng.choice(["basic", "silver"], n))
        notes = np.where(rng.random(n) < np.where(y, 0.6, 0.1), "asked about cancelling the plan", "all fine today")
        joined = [datetime.date(2024, 1, 1) + datetime.timedelta(days=int(d)) for d in rng.integers(0, 700, n)]
        gaps = rng.random(n) < 0.1
        self.frame = pl.DataFrame(
            {
                "customer": [f"c-{i}" for i in range(n)],
                "age": [None if gap else float(a) for a, gap in zip(age, gaps, strict=True)],
                "spent": spent,
                "plan": plan,
                "notes": [f"{text}, said agent {i % 97}" for i, text in enumerate(notes)],
                "joined": joined,
                "member": rng.random(n) < 0.5,
                "nothing": [None] * n,
                "churned": self.s.astype(int),
            }
        )


@pytest.fixture(scope="session")
def customers() -> Customers:
    return Customers()
