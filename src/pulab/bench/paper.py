"""The paper's experiments on images: which runs its tables are made of.

Two settings of `joint` are kept apart: `paper`, the printed hyper-parameters, and `tuned`, chosen from one grid per
data set (and per prior, in Table 4) by the mean validation risk over the trials, never by test error.
"""

from dataclasses import dataclass, field
from itertools import product
from typing import Any

from pulab.bench.spec import RunSpec
from pulab.datasets import PaperSampling


@dataclass(frozen=True)
class Experiment:
    """One data set of the paper: its sampling, its net, and the hyper-parameters of each method."""

    sampling: PaperSampling
    net: str
    shared: dict[str, Any]
    methods: dict[str, dict[str, Any]]
    grid: dict[str, list[Any]] = field(default_factory=dict)


_MNIST = Experiment(
    PaperSampling(pool=40_000, n_labeled=500, n_unlabeled=6000, prior=0.49),
    net="mnist-cnn",
    shared={"epochs": 100, "batch_size_u": 120},
    methods={
        "nnpu": {"loss": "logistic", "lr": 1e-2},
        "pubn-n": {"lr": 1e-2, "lr_sigma": 1e-2, "tau": 0.9},
        "joint": {"lr": 5e-3, "r": 10, "e_start": 20, "lambda_init": 10.0, "alpha": 10.0, "beta": 2.0},
    },
    grid={"lambda_init": [2.0, 5.0, 10.0], "beta": [2.0, 3.0], "positive_loss": ["sigmoid", "logistic"]},
)


def _cifar(tau: float) -> Experiment:
    falling = {"lr_milestones": [80, 120]}
    return Experiment(
        PaperSampling(pool=40_000, n_labeled=1000, n_unlabeled=10_000, prior=0.4),
        net="preact-resnet-18",
        shared={"epochs": 200, "batch_size_u": 100, "dtype": "bfloat16"},
        methods={
            "nnpu": {"loss": "logistic", "lr": 1e-3, **falling},
            "pubn-n": {"lr": 1e-3, "lr_sigma": 1e-3, "tau": tau, **falling},
            "joint": {"lr": 1e-3, "r": 10, "e_start": 20, "lambda_init": 0.5, "alpha": 2.0, "beta": 0.5},
        },
        grid={"weight_decay": [0.0, 1e-4], "beta": [0.5, 1.0]},
    )


PAPER = {"mnist": _MNIST, "cifar10-vehicles": _cifar(tau=0.9), "cifar10-mammals": _cifar(tau=0.7)}
PRIORS = (0.3, 0.4, 0.5, 0.6, 0.7)


def runs(dataset: str, method: str, trials: int, prior: float | None = None, **changes: Any) -> list[RunSpec]:
    """The trials of one method on one data set; with a prior, U is drawn with exactly that share of positives."""
    experiment = PAPER[dataset]
    sampling = experiment.sampling
    if prior is not None:
        sampling = PaperSampling(sampling.pool, sampling.n_labeled, sampling.n_unlabeled, prior, exact=True)
    params = experiment.shared | experiment.methods[method] | changes
    return [RunSpec(dataset, sampling, method, seed, experiment.net, params) for seed in range(trials)]


def grid(dataset: str, trials: int, prior: float | None = None) -> list[RunSpec]:
    """Every point of the grid that `tuned` is chosen from."""
    axes = PAPER[dataset].grid
    points = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    return [spec for point in points for spec in runs(dataset, "joint", trials, prior, **point)]


def table_1(trials: int = 10) -> list[RunSpec]:
    """The paper's Table 1, images: three kinds of initial labels."""
    changes: list[dict[str, Any]] = [{"init": "negative"}, {"init": "random"}, {}]  # the last as in Table 2
    return [s for d in PAPER for change in changes for s in runs(d, "joint", trials, **change)]


def table_2(trials: int = 10) -> list[RunSpec]:
    """The paper's Tables 2 and 3, images: nnPU, PUbN\\N and joint on the same samplings."""
    return [s for d in PAPER for method in PAPER[d].methods for s in runs(d, method, trials)]


def table_4(trials: int = 10) -> list[RunSpec]:
    """The paper's Table 4: MNIST with other shares of positives."""
    return [s for prior in PRIORS for method in _MNIST.methods for s in runs("mnist", method, trials, prior)]
