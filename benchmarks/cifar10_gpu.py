"""CIFAR-10 and the PreAct ResNet-18 on a GPU: a fleet of four against a plain eager bfloat16 loop on the same GPU.

    PULAB_DATA=… python benchmarks/cifar10_gpu.py [fleet] [epochs]

The result is training images per second, with validation after every epoch, in batches of 10 + 100. Compiling,
recording and the first epochs are not included; their time is reported separately.
"""

import sys
import time
from itertools import pairwise
from statistics import median

import torch
from _common import joint_runs, report
from _plain import plain_training

from pulab.estimators import fit_in_step
from pulab.nets import PreActResNet18

WARM = 3  # epochs


def main(fleet: int = 4, epochs: int = 60) -> None:
    estimators, arguments, samples, hyper = joint_runs("cifar10-vehicles", fleet, epochs, device="cuda")
    images = len(samples[0].train.X)

    def plain() -> float:
        marks: list[float] = []
        plain_training(
            PreActResNet18(),
            *samples[0],
            hyper=hyper,
            epochs=WARM + 5,
            device="cuda",
            autocast=torch.bfloat16,
            on_epoch=lambda: marks.append(time.perf_counter()),
        )
        return images / median(b - a for a, b in pairwise(marks[WARM - 1 :]))

    before = plain()
    start = time.perf_counter()
    marks: list[float] = []
    fit_in_step(estimators, arguments, side_by_side=fleet, on_progress=lambda fits: marks.append(time.perf_counter()))
    ends = marks[fleet - 1 :: fleet]  # the times when all runs had finished an epoch
    ours = fleet * images / median(b - a for a, b in pairwise(ends[WARM - 1 :]))
    plainly = max(before, plain())
    report(
        "cifar10-gpu",
        ratio=ours / plainly,
        fleet=fleet,
        plain_images_per_second=plainly,
        our_images_per_second=ours,
        seconds_a_trial=200 * images / ours,
        warm_up_seconds=ends[WARM - 1] - start,
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
