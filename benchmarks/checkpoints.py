"""What a checkpoint costs on MNIST: the paper's `joint` with and without one, in turn, at the default of 30 seconds.

    PULAB_DATA=… python benchmarks/checkpoints.py [epochs] [rounds]

``ratio`` compares whole fits, and is as noisy as the machine. ``share`` is the part of the fits' time that went into
saves; the first one also takes the checksum of the data.
"""

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from _common import joint_runs, report
from sklearn.base import clone

from pulab.training.checkpoint import Checkpoint


def main(epochs: int = 30, rounds: int = 3) -> None:
    torch.set_num_threads(1)
    (estimator,), (arguments,), *_ = joint_runs("mnist", 1, epochs, device="cpu")
    save, saves = Checkpoint.save, []

    def timed(self: Checkpoint, *content: Any) -> bool:
        start = time.perf_counter()
        written = save(self, *content)
        saves.append(time.perf_counter() - start)
        return written

    Checkpoint.save = timed  # type: ignore[method-assign]
    clone(estimator).set_params(epochs=1).fit(**arguments)  # what torch loads late, outside the timing
    times: dict[str, list[float]] = {"without": [], "with": []}
    with TemporaryDirectory() as folder:
        for _ in range(rounds):
            for name, place in (("without", None), ("with", Path(folder) / "a")):
                start = time.perf_counter()
                clone(estimator).set_params(checkpoint=place).fit(**arguments)
                times[name].append(time.perf_counter() - start)
    best = {name: min(values) for name, values in times.items()}
    report(
        "checkpoints",
        ratio=best["with"] / best["without"],
        share=sum(saves) / sum(times["with"]),
        saves=len(saves),
        seconds_a_save=sum(saves) / max(1, len(saves)),
        seconds_a_fit=best["without"],
        epochs=epochs,
        rounds=rounds,
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
