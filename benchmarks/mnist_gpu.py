"""MNIST on a GPU: a fleet of trials against a plain eager loop on the same GPU, one trial after another.

    PULAB_DATA=… python benchmarks/mnist_gpu.py [trials] [epochs]

Both train the paper's net on the same samples with the same loss, with validation after every epoch. The plain loop's
time is ten times that of a tenth of the epochs, the better of two. The fleet's time includes set-up and recording.
"""

import sys
import time

import torch
from _common import joint_runs, report
from _plain import plain_training

from pulab import fit_many
from pulab.nets import MnistCNN


def main(trials: int = 120, epochs: int = 100) -> None:
    estimators, arguments, samples, hyper = joint_runs("mnist", trials, epochs, device="cuda")
    short = max(2, epochs // 10)

    def plain() -> float:
        torch.cuda.synchronize()
        start = time.perf_counter()
        plain_training(MnistCNN(), *samples[0], hyper=hyper, epochs=short, device="cuda")
        torch.cuda.synchronize()
        return (time.perf_counter() - start) * epochs / short

    plain()  # loads the kernels, outside the timing
    fit_many(joint_runs("mnist", 2, 2, device="cuda")[0], arguments[:2])
    before = plain()
    start = time.perf_counter()
    fitted = fit_many(estimators, arguments)
    ours = (time.perf_counter() - start) / trials
    plainly = min(before, plain())
    assert all(clf.best_epoch_ > 1 for clf in fitted)
    report("mnist-gpu", ratio=plainly / ours, trials=trials, epochs=epochs, plain_seconds=plainly, our_seconds=ours)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
