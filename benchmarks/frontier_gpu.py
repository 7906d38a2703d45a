"""What a trial of `joint-views` on CIFAR-10 costs on a GPU, and how near self-supervision comes to the GPU's ceiling.

    python benchmarks/frontier_gpu.py [fleet] [pretrain_epochs] [epochs]

Pictures are random numbers: no data are needed, and the time does not depend on them. The ceiling is a large bfloat16
matrix product, measured in the same run. Seconds of whole trials of 300 and 100 epochs are worked out from the median
epochs, to which the time before them (compiling and recording) is added as it was.
"""

import sys
import time
from itertools import pairwise
from statistics import median

import numpy as np
import torch
from _common import report

from pulab import JointViewsPUClassifier
from pulab.bench.frontier import FRONTIER
from pulab.estimators import fit_in_step
from pulab.nets import PreActResNet18

WARM = 3  # epochs
GFLOP = 3.329  # forward and backward of one 32 × 32 picture


def ceiling(n: int = 8192, rounds: int = 30) -> float:
    """TFLOP/s of a square bfloat16 matrix product."""
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    times = []
    for _ in range(rounds):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        a @ b
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return 2 * n**3 / median(times) / 1e12


def main(fleet: int = 4, pretrain_epochs: int = 30, epochs: int = 12) -> None:
    e = FRONTIER["cifar10-vehicles"]
    n_p, n_u = e.sampling.n_labeled, e.sampling.n_unlabeled
    n_val = (n_p + n_u) // 5
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_p + n_u + n_val, 3, 32, 32), dtype=np.float32)
    s = (np.arange(len(X)) % ((n_p + n_u) // n_p) == 0).astype(int)
    train, held_out = slice(0, n_p + n_u), slice(n_p + n_u, None)
    given = {"X": X[train], "y": s[train], "X_val": X[held_out], "y_val": s[held_out]}
    params = e.params | {"pretrain_epochs": pretrain_epochs, "epochs": epochs}
    makes = [JointViewsPUClassifier(prior=0.4, module=PreActResNet18, random_state=i, **params) for i in range(fleet)]
    marks: list[float] = []
    start = time.perf_counter()
    fit_in_step(makes, [given] * fleet, side_by_side=fleet, on_progress=lambda fits: marks.append(time.perf_counter()))
    ends = marks[fleet - 1 :: fleet]  # when all networks had finished an epoch
    first, second = ends[:pretrain_epochs], ends[pretrain_epochs:]
    bodies, labels = (median(b - a for a, b in pairwise(part[WARM - 1 :])) for part in (first, second))
    before = (first[WARM - 1] - start) + (second[WARM - 1] - first[-1]) - WARM * (bodies + labels)
    peak = ceiling()
    tflops = fleet * 2 * len(X) * GFLOP / 1e3 / bodies
    whole = 300 * bodies + 100 * labels
    report(
        "frontier-gpu",
        fleet=fleet,
        views_per_second=fleet * 2 * len(X) / bodies,
        self_supervision_tflops=tflops,
        ceiling_tflops=peak,
        share_of_ceiling=tflops / peak,
        seconds_a_trial=(whole + before) / fleet,
        body_seconds=300 * bodies / fleet,
        label_seconds=100 * labels / fleet,
        before_seconds=before / fleet,
        memory_gib=torch.cuda.max_memory_allocated() / 2**30,
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
