"""Does bfloat16 help on this CPU? Seconds of a fit on one thread, alternately in float32 and in bfloat16.

PULAB_DATA=… python benchmarks/bf16_cpu.py
"""

import time
import warnings
from typing import Any

import numpy as np
import torch
from _common import joint_runs, report
from sklearn.base import clone

from pulab import JointPUClassifier


def part(arguments: dict[str, Any], n_p: int, n_u: int) -> dict[str, Any]:
    """Some of the labelled and some of the unlabeled rows."""
    rows = {
        name: np.concatenate([np.flatnonzero(arguments[y] == 1)[:n_p], np.flatnonzero(arguments[y] == 0)[:n_u]])
        for name, y in (("", "y"), ("_val", "y_val"))
    }
    return {"X" + name: arguments["X" + name][i] for name, i in rows.items()} | {
        "y" + name: arguments["y" + name][i] for name, i in rows.items()
    }


def main() -> None:
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="the labels stay")
    rng = np.random.default_rng(0)
    table = {"X": rng.normal(size=(20_000, 100)).astype(np.float32), "y": (rng.random(20_000) < 0.1).astype(int)}
    (mnist,), (digits,), *_ = joint_runs("mnist", 1, 3, device="cpu")
    (cifar,), (images,), *_ = joint_runs("cifar10-vehicles", 1, 1, device="cpu")
    fits = {
        "MNIST net, 3 epochs": (mnist, digits),
        "PreAct ResNet-18, 6 steps": (cifar, part(images, 60, 600)),
        "table of 20,000 × 100, 5 epochs": (
            JointPUClassifier(prior=0.4, epochs=5, device="cpu", random_state=0),
            table,
        ),
    }
    for name, (estimator, arguments) in fits.items():
        seconds: dict[str, float] = {}
        for _ in range(2):
            for dtype in ("float32", "bfloat16"):
                start = time.perf_counter()
                clone(estimator).set_params(dtype=dtype).fit(**arguments)
                seconds[dtype] = min(seconds.get(dtype, np.inf), time.perf_counter() - start)
        report("bf16-cpu", fit=name, **seconds, ratio=seconds["float32"] / seconds["bfloat16"])


if __name__ == "__main__":
    main()
