"""Seconds of DEDPUL and BBE on given scores, without and with their interval.

python benchmarks/prior_speed.py [rows]
"""

import sys
import time
from statistics import median

import numpy as np
from _common import report

from pulab.priors import estimate_prior


def main(n: int = 100_000) -> None:
    rng = np.random.default_rng(0)
    y = rng.random(n) < 0.3
    s = (y & (rng.random(n) < 0.2)).astype(int)
    scores = rng.normal(size=n) + 2.5 * y
    for method in ("dedpul", "bbe", "auto"):

        def seconds(n_bootstrap: int, method: str = method) -> float:
            start = time.perf_counter()
            estimate_prior(None, s, method, scenario="single-sample", scores=scores, n_bootstrap=n_bootstrap)
            return time.perf_counter() - start

        alone, with_interval = (median(seconds(n_bootstrap) for _ in range(5)) for n_bootstrap in (0, 100))
        report("prior-speed", method=method, rows=n, seconds=alone, seconds_with_interval=with_interval)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
