"""MNIST on a CPU: fit_many with processes against a plain eager loop on one thread, one trial after another.

    PULAB_DATA=… python benchmarks/mnist_cpu.py [epochs] [trials]

Both train the paper's net on the same samples with the same loss, with validation after every epoch. They alternate.
"""

import sys
import time

import torch
from _common import joint_runs, report
from _plain import plain_training
from joblib import cpu_count

from pulab import fit_many
from pulab.nets import MnistCNN


def main(epochs: int = 20, trials: int = 10) -> None:
    estimators, arguments, samples, hyper = joint_runs("mnist", trials, epochs, device="cpu")
    fit_many(estimators[:1], arguments[:1], n_jobs=-1)  # starts the processes, outside the timing
    times: dict[str, list[float]] = {"plain": [], "ours": []}
    for _ in range(2):
        start = time.perf_counter()
        torch.set_num_threads(1)
        for seed, (train, validation) in enumerate(samples):
            torch.manual_seed(seed)
            plain_training(MnistCNN(), train, validation, hyper=hyper, epochs=epochs)
        times["plain"].append(time.perf_counter() - start)
        start = time.perf_counter()
        fit_many(estimators, arguments, n_jobs=-1)
        times["ours"].append(time.perf_counter() - start)
    best = {name: min(values) for name, values in times.items()}
    per_trial = {f"{name}_seconds_per_100_epochs": t / trials * 100 / epochs for name, t in best.items()}
    report(
        "mnist-cpu", ratio=best["plain"] / best["ours"], cores=cpu_count(), epochs=epochs, trials=trials, **per_trial
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
