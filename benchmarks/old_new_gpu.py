"""Seconds of an epoch on a GPU, of this version against an older one, in one run.

    git worktree add ../old COMMIT
    python benchmarks/old_new_gpu.py ../old/src [rounds]

Both versions train the same networks on the same random images: a batched fleet of the paper's MNIST net, a single
PreAct ResNet-18 and four side by side. They take turns, each time in a fresh process. The median of the epochs from the
fourth on counts, so that recording and compiling lie outside.
"""

import json
import os
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

WARM = 3  # epochs
CASES = {
    "mnist fleet of 120": ("MnistCNN", (1, 28, 28), 120, 12, "float32"),
    "resnet": ("PreActResNet18", (3, 32, 32), 1, 9, "bfloat16"),
    "resnet fleet of 4": ("PreActResNet18", (3, 32, 32), 4, 9, "bfloat16"),
}


def epoch_seconds(case: str) -> float:
    """Train, and take the median time between the ends of epochs."""
    from pulab import JointPUClassifier, nets
    from pulab.estimators import fit_in_step

    net, shape, fleet, epochs, dtype = CASES[case]
    rng = np.random.default_rng(0)
    X = rng.normal(size=(11_000, *shape)).astype(np.float32)
    y = (np.arange(11_000) < 1000).astype(int)
    data = {"X": X, "y": y, "X_val": X[:2000], "y_val": (np.arange(2000) < 200).astype(int)}
    shared: dict[str, Any] = {"prior": 0.4, "module": getattr(nets, net), "epochs": epochs, "dtype": dtype}
    shared |= {"batch_size_u": 100, "batch_size_p": 10, "device": "cuda", "e_start": 2}
    clfs = [JointPUClassifier(**shared, random_state=i) for i in range(fleet)]
    marks: list[float] = []
    fit_in_step(clfs, [data] * fleet, side_by_side=4, on_progress=lambda fits: marks.append(time.perf_counter()))
    ends = marks[fleet - 1 :: fleet]
    return median(b - a for a, b in pairwise(ends[WARM - 1 :]))


def main(old: str, rounds: int = 3) -> None:
    """Let the two versions take turns."""
    from _common import report

    sources = {"old": str(Path(old).resolve()), "new": str(Path(__file__).parents[1] / "src")}
    for case in CASES:
        seconds: dict[str, list[float]] = {"old": [], "new": []}
        for _ in range(rounds):
            for version, source in sources.items():
                run = [sys.executable, __file__, "--case", case]
                out = subprocess.run(
                    run, env={**os.environ, "PYTHONPATH": source}, capture_output=True, text=True, check=False
                )
                if out.returncode:
                    sys.exit(f"{version}, {case}: {out.stderr[-2000:]}")
                seconds[version].append(json.loads(out.stdout.splitlines()[-1]))
        best = {version: min(values) for version, values in seconds.items()}
        report(
            "old-new-gpu", case=case, ratio=best["new"] / best["old"], rounds=rounds, epoch_seconds=seconds["new"],
            old_epoch_seconds=seconds["old"],
        )  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1] == "--case":
        print(json.dumps(epoch_seconds(sys.argv[2])))
    else:
        main(sys.argv[1], *map(int, sys.argv[2:]))
