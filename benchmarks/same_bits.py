"""Do two versions of pulab learn the same, to the last bit?

Prints digests of what every network method learns, alone, in processes and as one batched network. Run it on two
commits with the same torch on the same machine and compare the output:

    export OMP_NUM_THREADS=1
    python benchmarks/same_bits.py > new.txt
    git worktree add ../old COMMIT && PYTHONPATH=../old/src python benchmarks/same_bits.py > old.txt
    diff old.txt new.txt

A line has a digest for each part of a fit: the weights, the history, the scores (calibrated, where the version
calibrates), the logits without calibration, and the pseudo-labels of `joint`. What is known to differ between versions:

- 49a4f68 and older ones do not calibrate: their scores are the logits.
- 49a4f68 and older ones predicted the labels of held-out rows of U in one batch with held-out rows of P, and threw the
  latter away. A kernel rounds a row by the size of its batch, so in float32 the last digits of these labels differ: by
  6e-8 at most, in 12 of the 160 lines. Labels that a network learned from are the same.
"""

import hashlib
import json
import sys
from typing import Any

import numpy as np
import torch
from torch import nn

from pulab import (
    JointPUClassifier,
    NaivePUClassifier,
    NNPUClassifier,
    PNClassifier,
    PUbNClassifier,
    UPUClassifier,
    fit_many,
)
from pulab.datasets import load_digits, make_pu
from pulab.estimators._base import fit_tasks
from pulab.nets import SmallCNN


def dropping_net() -> nn.Module:
    """Small enough to be batched, with dropout."""
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.4), nn.Linear(32, 1))


def image_net() -> nn.Module:
    """With BatchNorm, on 8 × 8 images."""
    return nn.Sequential(nn.Unflatten(1, (1, 8, 8)), *SmallCNN(1, (8, 8)))


METHODS: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "joint": (JointPUClassifier, {"prior": 0.5, "lambda_init": 2.0}),
    "joint, random labels": (JointPUClassifier, {"prior": 0.5, "init": "random", "positive_loss": "logistic"}),
    "nnpu": (NNPUClassifier, {"prior": 0.5, "beta": 0.01}),
    "upu": (UPUClassifier, {"prior": 0.5, "loss": "logistic"}),
    "pubn-n": (PUbNClassifier, {"prior": 0.5, "lr_sigma": 5e-4}),
    "pubn": (PUbNClassifier, {"prior": 0.5, "rho": 0.2}),
    "naive": (NaivePUClassifier, {}),
    "pn": (PNClassifier, {}),
}


def digests(clf: Any, X: np.ndarray) -> str:
    """A name for each part of what a fit has learned."""
    parts = {
        "weights": b"".join(p.detach().cpu().numpy().tobytes() for p in clf.module_.state_dict().values()),
        "history": json.dumps(clf.history_).encode(),
        "scores": clf.decision_function(X).tobytes(),
    }
    clf.calibration_ = None  # older versions have none
    parts["logits"] = clf.decision_function(X).tobytes()
    if hasattr(clf, "pseudo_labels_"):
        parts["labels"] = clf.pseudo_labels_.tobytes()
    return " ".join(f"{name} {hashlib.sha256(part).hexdigest()[:12]}" for name, part in parts.items())


def main() -> None:
    """Fit them all."""
    torch.set_num_threads(1)
    digits = load_digits(positive=(0, 2, 4, 6, 8))
    pu = make_pu(digits.X_train, digits.y_train, n_labeled=60, n_unlabeled=500, random_state=0)
    negatives = digits.X_train[digits.y_train == 0][:40]
    nets = {"default": None, "dropout": dropping_net, "images": image_net}
    shared = {"epochs": 6, "lr_milestones": [3], "device": "cpu", "random_state": 0}

    def made(key: str, **changes: Any) -> tuple[Any, dict[str, Any]]:
        kind, params = METHODS[key]
        data = {"X": pu.X, "y": pu.s} | ({"X_negative": negatives} if key == "pubn" else {})
        return kind(**{**shared, **params, **changes}), data

    for key in METHODS:
        for net, module in nets.items():
            for dtype in ("float32", "float64"):
                for scenario in ("case-control", "single-sample"):
                    clf, data = made(key, module=module, dtype=dtype, scenario=scenario)
                    print(f"{key} / {net} / {dtype} / {scenario}: {digests(clf.fit(**data), pu.X)}")
                    sys.stdout.flush()
    for n_jobs in (1, 2):
        clfs, datasets = zip(*(made(key) for key in METHODS), strict=True)
        for key, clf in zip(METHODS, fit_many(clfs, datasets, n_jobs=n_jobs), strict=True):
            print(f"fit_many, n_jobs {n_jobs} / {key}: {digests(clf, pu.X)}")
    pairs = [made(key, module=dropping_net, random_state=i, lr=1e-3 * (1 + i)) for key in METHODS for i in range(3)]
    pairs += [made(key, module=dropping_net, random_state=i) for key in METHODS for i in range(3)]
    clfs, datasets = zip(*pairs, strict=True)
    fit_tasks(clfs, [clf._prepare(**data) for clf, data in pairs], batched=True)
    for i, clf in enumerate(clfs):
        print(f"batched, {i}: {digests(clf, pu.X)}")


if __name__ == "__main__":
    main()
