"""Criteria that choose the epoch and the setting without negatives, compared by what they cost in test error.

    python benchmarks/criteria.py [--datasets mnist,clusters] [--settings plain] [--seeds 3] [--bodies FOLDER]

Every training is watched: after each epoch each criterion is taken from the validation rows, and the error from the
test rows. The test error is only reported. Rows, with all curves, go to results/frontier/criteria.jsonl, and
docs/frontier.md shows what follows from them. The settings of CIFAR-10 need a GPU.
"""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from pulab import JointViewsPUClassifier
from pulab.bench import append_row
from pulab.bench.runner import commit
from pulab.bench.store import read_rows
from pulab.datasets import DATASETS, PaperSampling, PlainSampling
from pulab.estimators._base import Task, make_streams
from pulab.losses import LOSSES, nnpu_risk, upu_risk
from pulab.nets import MnistCNN, PreActResNet18
from pulab.training import Objective, Schedule

ROWS = Path(__file__).parents[1] / "results" / "frontier" / "criteria.jsonl"
N_TEST = 4000

SAMPLINGS: dict[str, PaperSampling | PlainSampling] = {
    "mnist": PaperSampling(pool=40_000, n_labeled=500, n_unlabeled=6000, prior=0.49),
    "fashion-mnist": PaperSampling(pool=40_000, n_labeled=500, n_unlabeled=6000, prior=0.4),
    "digits-images": PlainSampling(n_labeled=100, n_unlabeled=1000),
    "clusters": PlainSampling(n_labeled=200, n_unlabeled=4000),
    "adult": PlainSampling(n_labeled=300, n_unlabeled=4000),
    **{
        name: PaperSampling(pool=40_000, n_labeled=1000, n_unlabeled=10_000, prior=0.4)
        for name in ("cifar10-vehicles", "cifar10-mammals")
    },
}
NETS = {"mnist": MnistCNN, "fashion-mnist": MnistCNN, "cifar10-vehicles": PreActResNet18}
NETS["cifar10-mammals"] = PreActResNet18  # other data have the default nets

PLAIN: dict[str, Any] = {"augment": None, "teacher_decay": None, "align": False, "pretrain_epochs": 0, "epochs": 60}
SMALL: dict[str, dict[str, Any]] = {
    "plain": {},
    "sigmoid": {"positive_loss": "sigmoid", "lambda_init": 10.0, "alpha": 10.0, "beta": 2.0},
    "no entropy": {"beta": 0.0},
    "views": {"augment": "views"},
    "aligned": {"augment": "views", "align": True},
    "teacher": {"augment": "views", "align": True, "teacher_decay": 0.99},
    "mixup": {"align": True, "mixup_alpha": 1.0},
    "mixup, teacher": {"augment": "views", "align": True, "teacher_decay": 0.99, "mixup_alpha": 1.0, "beta": 0.0},
}
WHOLE: dict[str, Any] = {"epochs": 100, "batch_size_u": 100, "dtype": "bfloat16", "pretrain_epochs": 300}
LARGE: dict[str, dict[str, Any]] = {
    "whole": {},
    "no entropy": {"beta": 0.0},
    "mixup": {"mixup_alpha": 1.0},
    "lr 2e-4": {"lr": 2e-4},
    "no self-supervision": {"pretrain_epochs": 0},
}


def settings_of(dataset: str) -> dict[str, dict[str, Any]]:
    """The parameters of each setting on a data set."""
    if dataset.startswith("cifar10"):
        return {name: WHOLE | changes for name, changes in LARGE.items()}
    view = "digits" if "mnist" in dataset or "images" in dataset else "mask"
    lr = 5e-3 if dataset in NETS else 2e-3
    small = {name: PLAIN | {"lr": lr} | changes for name, changes in SMALL.items()}
    return {name: p | {"augment": view} if p["augment"] else p for name, p in small.items()}


def _auc(p: Tensor, u: Tensor, prior: float) -> float:
    return -float(roc_auc_score([1] * len(p) + [0] * len(u), torch.cat([p, u]).numpy()))


def _risk(p: Tensor, u: Tensor, prior: float, loss: str = "sigmoid", clamped: bool = True) -> float:
    value = nnpu_risk(p, u, prior, LOSSES[loss]) if clamped else upu_risk(p, u, prior, LOSSES[loss])
    return float(value.value)


def _zero_one(p: Tensor, u: Tensor, prior: float) -> float:
    missed = float((p <= 0).double().mean())
    return prior * missed + max(0.0, float((u > 0).double().mean()) - prior * (1 - missed))


def _centred(g: Tensor, u: Tensor, prior: float) -> Tensor:
    """As in :func:`pulab.metrics.centred_risk`."""
    return 4 * (g - u.quantile(1 - prior)) / u.std(correction=0).clamp_min(torch.finfo(u.dtype).tiny)


def _of_centred(p: Tensor, u: Tensor, prior: float, criterion: Callable[[Tensor, Tensor, float], float]) -> float:
    return criterion(_centred(p, u, prior), _centred(u, u, prior), prior)


# Each gets the logits of P and U of the validation set, and the prior. The lowest value is chosen.
CRITERIA: dict[str, Callable[[Tensor, Tensor, float], float]] = {
    "sigmoid risk": _risk,
    "sigmoid risk, not clamped": partial(_risk, clamped=False),
    "logistic risk": partial(_risk, loss="logistic"),
    "zero-one error": _zero_one,
    "AUC": _auc,
    "sigmoid risk, centred": partial(_of_centred, criterion=_risk),
    "zero-one error, centred": partial(_of_centred, criterion=_zero_one),
}


class Watched(JointViewsPUClassifier):
    """Keeps all criteria and the test error of each epoch in ``watch``. The test rows are a stream of their own."""

    def _prepare(self, *args: Any, **kwargs: Any) -> Task:
        task = super()._prepare(*args, **kwargs)
        X, _ = self.watch["test"]
        self.watch["rows"] = task.validation
        test = make_streams(self._rows(X, task.dtype, task.device), {"test": np.arange(len(X))}, task.device)
        return replace(task, validation={**(task.validation or {}), **test})

    def _pretraining(self, task: Task, *args: Any) -> Any:
        return super()._pretraining(replace(task, validation=self.watch["rows"]), *args)  # without the test rows

    def _objective(self, task: Task, schedule: Schedule) -> Objective:
        objective, watch = super()._objective(task, schedule), self.watch
        of_method = type(objective).validation_risk

        def validation_risk(self: Objective, g: Mapping[str, Tensor]) -> Tensor:
            p, u, test = (g[name][0].double().cpu() for name in ("p", "u", "test"))
            for name, criterion in CRITERIA.items():
                watch.setdefault(name, []).append(criterion(p, u, task.prior))
            watch.setdefault("error", []).append(100 * float(((test > 0).numpy() != watch["test"][1]).mean()))
            return of_method(self, {"p": g["p"], "u": g["u"]})

        objective.__class__ = type("Watched", (type(objective),), {"validation_risk": validation_risk})
        return objective


def measure(dataset: str, setting: str, seed: int, bodies: Path | None = None) -> dict[str, Any]:
    """One training: its test error and the value of each criterion after every epoch."""
    data = DATASETS[dataset].load()
    train, validation = SAMPLINGS[dataset].draw(data.X_train, data.y_train, seed)
    params = settings_of(dataset)[setting]
    clf = Watched(prior=train.prior, module=NETS.get(dataset), random_state=seed, pretrain_cache=bodies, **params)
    clf.watch = {"test": (data.X_test[:N_TEST], data.y_test[:N_TEST] == 1)}
    held_out = {} if validation is None else {"X_val": validation.X, "y_val": validation.s}
    clf.fit(train.X, train.s, **held_out)
    curves = {name: clf.watch[name] for name in ("error", *CRITERIA)}
    return {"dataset": dataset, "setting": setting, "seed": seed, "curves": curves, "device": str(clf.device_)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--datasets", default=",".join(name for name in SAMPLINGS if not name.startswith("cifar10")))
    parser.add_argument("--settings", help="default: all of the data set")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--bodies", type=Path, help="an existing folder for self-supervised networks")
    parser.add_argument("--out", type=Path, default=ROWS)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    rows = read_rows([asked.out]) if asked.out.exists() else []
    done = {(row["dataset"], row["setting"], row["seed"]) for row in rows}
    for seed in range(asked.seeds):
        for dataset in asked.datasets.split(","):
            for setting in asked.settings.split(",") if asked.settings else settings_of(dataset):
                if (dataset, setting, seed) not in done:
                    row = measure(dataset, setting, seed, asked.bodies)
                    append_row(asked.out, row | {"commit": commit()})
                    error = row["curves"]["error"]
                    print(f"{dataset:18s}{setting:18s}{seed}  best {min(error):.2f}, last {error[-1]:.2f}", flush=True)


if __name__ == "__main__":
    main()
