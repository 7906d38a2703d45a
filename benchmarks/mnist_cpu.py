"""MNIST on a CPU: fit_many over processes against a plain eager loop of one thread, one trial after another.

    PULAB_DATA=… python benchmarks/mnist_cpu.py [epochs] [trials]

Both train the paper's net on the same samples by the same loss, with validation after every epoch; the plain loop is
what one would write by hand: NCHW, torch's Adam as it comes, no label ring but the whole matrix. The two alternate.
"""

import sys
import time

import torch
from _common import report
from joblib import cpu_count
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

from pulab import JointPUClassifier, fit_many
from pulab.datasets import PaperSampling, PUSample, load_mnist
from pulab.nets import MnistCNN

SAMPLING = PaperSampling(pool=40_000, n_labeled=500, n_unlabeled=6000, prior=0.49)
HYPER = {"lr": 0.005, "r": 10, "e_start": 20, "lambda_init": 10.0, "alpha": 10.0, "beta": 2.0}


def plain(train: PUSample, validation: PUSample, epochs: int, seed: int) -> None:
    """Algorithm 1 as a plain loop."""
    torch.manual_seed(seed)
    x_p, x_u = (torch.from_numpy(train.X[train.s == s]) for s in (1, 0))
    v_p, v_u = (torch.from_numpy(validation.X[validation.s == s]) for s in (1, 0))
    net = MnistCNN()
    optimizer = torch.optim.Adam(net.parameters(), lr=HYPER["lr"], weight_decay=1e-4, amsgrad=True)
    y = torch.full((len(x_u),), 0.49)
    Z = torch.zeros(len(x_u), epochs)
    for epoch in range(epochs):
        lam = (epochs - 1 - epoch) / (epochs - 1) * (HYPER["lambda_init"] - 1 / 12) + 1 / 12
        net.train()
        for rows_p, rows_u in zip(torch.randperm(500).split(10), torch.randperm(6000).split(120), strict=True):
            g = net(torch.cat([x_p[rows_p], x_u[rows_u]])).squeeze(1)
            g_p, g_u = g[:10], g[10:]
            p = torch.sigmoid(g_u)
            loss = lam * torch.sigmoid(-g_p).mean() + cross_entropy(g_u, y[rows_u]) + HYPER["beta"] * entropy(p)
            loss = loss - HYPER["alpha"] * (0.49 * p.mean().log() + 0.51 * (1 - p.mean()).log())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            Z[rows_u, epoch] = p.detach()
        if epoch + 1 >= HYPER["e_start"]:
            y = Z[:, max(0, epoch + 1 - HYPER["r"]) : epoch + 1].mean(dim=1)
        net.eval()
        with torch.no_grad():
            on_p, on_u = torch.sigmoid(net(v_p)), torch.sigmoid(net(v_u))
            float(0.49 * (1 - on_p).mean() + (on_u.mean() - 0.49 * on_p.mean()).clamp_min(0))


def entropy(p: Tensor) -> Tensor:
    q = p.clamp(1e-7, 1 - 1e-7)
    return -(q * q.log() + (1 - q) * (1 - q).log()).mean()


def main(epochs: int = 20, trials: int = 4) -> None:
    data = load_mnist()
    samples = [SAMPLING.draw(data.X_train, data.y_train, seed) for seed in range(trials)]
    shared = {"prior": 0.49, "module": MnistCNN, "epochs": epochs, "batch_size_u": 120, "device": "cpu", **HYPER}
    made = [JointPUClassifier(**shared, random_state=seed) for seed in range(trials)]
    given = [{"X": t.X, "y": t.s, "X_val": v.X, "y_val": v.s} for t, v in samples]
    fit_many(made[:1], given[:1], n_jobs=-1)  # the processes start, outside of the timing
    times: dict[str, list[float]] = {"plain": [], "ours": []}
    for _ in range(2):
        start = time.perf_counter()
        torch.set_num_threads(1)
        for seed, (train, validation) in enumerate(samples):
            plain(train, validation, epochs, seed)
        times["plain"].append(time.perf_counter() - start)
        start = time.perf_counter()
        fit_many(made, given, n_jobs=-1)
        times["ours"].append(time.perf_counter() - start)
    best = {name: min(values) for name, values in times.items()}
    per_trial = {f"{name}_seconds_per_100_epochs": t / trials * 100 / epochs for name, t in best.items()}
    report(
        "mnist-cpu", ratio=best["plain"] / best["ours"], cores=cpu_count(), epochs=epochs, trials=trials, **per_trial
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
