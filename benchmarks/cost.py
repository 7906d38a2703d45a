"""Time of a joint fit by rows and epochs, and memory beyond the data at ten million unlabeled rows.

    python benchmarks/cost.py

Time should be linear in n_u and in epochs. Memory should be n_u × r numbers plus indices, not n_u × epochs. The result
is the best of three fits of every size.
"""

import resource
import subprocess
import sys
import time

import numpy as np
import torch
from _common import report

from pulab import JointPUClassifier


def fit(n_u: int, epochs: int) -> tuple[float, float]:
    """Seconds of a fit, and its GiB beyond the data."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_u + 1000, 4), dtype=np.float32)
    s = np.zeros(len(X), dtype=np.int8)
    s[:1000] = 1
    shared = {"e_start": 1, "batch_size_u": 8192, "validation_fraction": 0, "device": "cpu", "random_state": 0}
    clf = JointPUClassifier(prior=0.3, module=torch.nn.Linear(4, 1), epochs=epochs, **shared)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    clf.fit(X, s)
    seconds = time.perf_counter() - start
    return seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20


SIZES = [(10**6, 5), (2 * 10**6, 5), (4 * 10**6, 5), (10**6, 10), (10**6, 20), (10**7, 12)]

if __name__ == "__main__":
    if len(sys.argv) == 3:
        torch.set_num_threads(1)
        fit(1000, 1)  # a warm-up, outside the timing
        print(*fit(*map(int, sys.argv[1:])))
    else:  # a process per fit, to measure its peak memory; sizes in turn, since the machine's speed varies
        measured: dict[tuple[int, int], list[tuple[float, ...]]] = {size: [] for size in SIZES}
        for size in SIZES * 3:
            words = [sys.executable, __file__, *map(str, size)]
            output = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout
            measured[size].append(tuple(map(float, output.split())))
        for (n_u, epochs), runs in measured.items():
            seconds, gib = (min(values) for values in zip(*runs, strict=True))
            report("cost", n_u=n_u, epochs=epochs, seconds=seconds, gib_beyond_the_data=gib)
