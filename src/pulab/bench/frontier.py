"""Past the paper with the same labels: `joint-views`, what each part of it brings, and the supervised ceiling.

The samples and the fresh seeds are those of the paper's protocol, so the runs of `joint` are shared with
`paper-confirm`. The settings of `joint-views` are compared on other seeds, by criteria that need no negatives, and are
frozen before a fresh seed is run. A self-supervised network depends on no setting of the second training, so that the
runs of one seed share it.
"""

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from pulab.bench.paper import PAPER
from pulab.bench.spec import RunSpec
from pulab.datasets import PaperSampling, PlainSampling

Params = dict[str, Any]
SEEDS, SEARCH_SEEDS = range(10, 20), range(3)
BLOCK = 5  # seeds that run side by side; the next setting of the same seeds finds their networks
WHOLE = "whole"


@dataclass(frozen=True)
class Experiment:
    """One data set: its samples, its net, the parameters of `joint-views`, and what is changed in them."""

    of_paper: str  # the data set of the paper whose settings `joint` has here
    sampling: PaperSampling
    net: str
    params: Params
    ablations: dict[str, Params]
    search: dict[str, Params]
    supervised: Params  # of `pn`, with the student's views
    features: str | None = None


def _supervised(prior: float, batch_size_u: int, **params: Any) -> Params:
    """The ceiling learns from the true labels. Its batches count negatives, and have as many rows as the others'."""
    rows = round((1 - prior) * batch_size_u)
    return {"prior": prior, "loss": "logistic", "lr_schedule": "cosine", "batch_size_u": rows, **params}


_ABLATIONS: dict[str, Params] = {
    "no self-supervision": {"pretrain_epochs": 0},
    "no teacher": {"teacher_decay": None},
    "labels not aligned": {"align": False},
    "with mixup": {"mixup_alpha": 1.0},
}
_CIFAR = Experiment(
    "cifar10-vehicles",
    PAPER["cifar10-vehicles"].sampling,
    "preact-resnet-18-bare",
    {"epochs": 100, "batch_size_u": 100, "dtype": "bfloat16", "pretrain_epochs": 300},
    {
        **_ABLATIONS,
        "weak views": {"augment": "weak", "pretrain_augment": "stronger"},
        "views before, not after": {"augment": None, "pretrain_augment": "stronger"},
    },
    {
        "with mixup": {"mixup_alpha": 1.0},
        "no entropy": {"beta": 0.0},
        "rate 2e-4": {"lr": 2e-4},
        "rate 1e-3": {"lr": 1e-3},
        "larger batches": {"batch_size_u": 200, "lr": 1e-3},
    },
    _supervised(0.4, 100, epochs=100, lr=5e-4, augment="strong", dtype="bfloat16"),
)
_MNIST = Experiment(
    "mnist",
    PAPER["mnist"].sampling,
    "small-cnn-wide",
    {"epochs": 100, "batch_size_u": 120, "pretrain_epochs": 200, "lr": 2e-3},
    {**_ABLATIONS, "views before, not after": {"augment": None, "pretrain_augment": "digits"}},
    {"with mixup": {"mixup_alpha": 1.0}, "rate 5e-4": {"lr": 5e-4}, "rate 5e-3": {"lr": 5e-3}},
    _supervised(0.49, 120, epochs=100, lr=2e-3, augment="digits"),
)
_NEWS = Experiment(
    "20news",
    PAPER["20news"].sampling,
    "mlp",
    {"epochs": 50, "batch_size_u": 120},
    {
        **{name: change for name, change in _ABLATIONS.items() if name != "no self-supervision"},
        "masks as views": {"augment": "mask"},
        "masks, self-supervision": {"augment": "mask", "pretrain_epochs": 100},
    },
    {
        "beta 2": {"beta": 2.0},
        "with mixup": {"mixup_alpha": 1.0},
        "with mixup, beta 2": {"mixup_alpha": 1.0, "beta": 2.0},
        "masks, beta 2": {"augment": "mask", "beta": 2.0},
        "rate 1e-4": {"lr": 1e-4},
    },
    _supervised(0.56, 120, epochs=50, lr=5e-4),
    features="mpnet",
)
FRONTIER = {
    "cifar10-vehicles": _CIFAR,
    "cifar10-mammals": replace(_CIFAR, of_paper="cifar10-mammals"),
    "mnist": _MNIST,
    "fashion-mnist": replace(
        _MNIST,
        sampling=replace(_MNIST.sampling, prior=0.4),
        supervised=_MNIST.supervised | _supervised(0.4, 120),
    ),
    "20news": _NEWS,
}


@dataclass(frozen=True)
class Line:
    """A line of the table: runs that differ in their seed alone."""

    dataset: str
    features: str | None
    method: str
    setting: str
    runs: tuple[RunSpec, ...]


def lines(trials: int | None = None) -> list[Line]:
    """`joint`, printed and tuned, `joint-views` whole and without its parts, the supervised ceiling."""
    return [
        line
        for dataset, e in FRONTIER.items()
        for line in (*_of_joint(dataset, SEEDS[:trials]), *_of_views(dataset, e.ablations, SEEDS[:trials]),
                     _line(dataset, "pn", "supervised", SEEDS[:trials], e.supervised))
    ]  # fmt: skip


def search_lines(trials: int | None = None) -> list[Line]:
    """The settings of `joint-views` that are compared before one is frozen, on seeds of their own."""
    seeds = SEARCH_SEEDS if trials is None else range(trials)
    return [line for dataset, e in FRONTIER.items() for line in _of_views(dataset, e.search, seeds)]


def _of_joint(dataset: str, seeds: range) -> list[Line]:
    of_paper = PAPER[FRONTIER[dataset].of_paper]
    base = of_paper.shared | of_paper.methods["joint"]
    settings = {"paper": base, "tuned": base | of_paper.tuned[of_paper.sampling.prior]}
    return [_line(dataset, "joint", name, seeds, params, of_paper.net) for name, params in settings.items()]


def _of_views(dataset: str, changes: dict[str, Params], seeds: range) -> list[Line]:
    params = FRONTIER[dataset].params
    named = {WHOLE: {}, **changes}
    return [_line(dataset, "joint-views", name, seeds, params | change) for name, change in named.items()]


def _line(dataset: str, method: str, setting: str, seeds: range, params: Params, net: str | None = None) -> Line:
    e = FRONTIER[dataset]
    specs = tuple(RunSpec(dataset, e.sampling, method, seed, net or e.net, params, e.features) for seed in seeds)
    return Line(dataset, e.features, method, setting, specs)


# Tables and texts: do the parts bring anything there? The defaults of `joint` are the ones to beat.
SMALL: dict[str, PaperSampling | PlainSampling] = {
    "breast-cancer": PlainSampling(n_labeled=50, n_unlabeled=300),
    "spambase": PlainSampling(n_labeled=100, n_unlabeled=2000),
    "mushroom": PlainSampling(n_labeled=50, n_unlabeled=2000),
    "adult": PlainSampling(n_labeled=300, n_unlabeled=4000),
    "clusters": PlainSampling(n_labeled=200, n_unlabeled=4000),
    "digits": PlainSampling(n_labeled=100, n_unlabeled=1000),
    "20news": PAPER["20news"].sampling,
}
_OF_JOINT: Params = {"lambda_init": 10.0, "alpha": 20.0, "beta": 2.0, "positive_loss": "sigmoid", "lr": 2e-3}
_NONE: Params = {"augment": None, "label_augment": None, "pretrain_epochs": 0}
_ON_SMALL: dict[str, tuple[str, Params]] = {
    "defaults of joint": ("joint", {}),
    "weights for pictures": ("joint-views", _NONE),
    "teacher, aligned": ("joint-views", _OF_JOINT | _NONE),
    "no teacher": ("joint-views", _OF_JOINT | _NONE | {"teacher_decay": None}),
    "not aligned": ("joint-views", _OF_JOINT | _NONE | {"align": False}),
    "with mixup": ("joint-views", _OF_JOINT | _NONE | {"mixup_alpha": 1.0}),
    "noise as views": ("joint-views", _OF_JOINT | {"augment": "noise", "pretrain_epochs": 0}),
    "masks as views": ("joint-views", _OF_JOINT | {"augment": "mask", "pretrain_epochs": 0}),
    "masks, self-supervision": ("joint-views", _OF_JOINT | {"augment": "mask", "pretrain_epochs": 100}),
}


def small_lines(trials: int | None = None) -> list[Line]:
    """`joint-views` on tables and texts, part by part."""
    return [
        Line(
            dataset,
            features,
            method,
            setting,
            tuple(RunSpec(dataset, sampling, method, seed, None, params, features) for seed in range(trials or 5)),
        )
        for dataset, sampling in SMALL.items()
        for features in [("tfidf" if dataset == "20news" else None)]
        for setting, (method, params) in _ON_SMALL.items()
    ]


def frontier_small(trials: int | None = None) -> list[RunSpec]:
    """`joint-views` on tables and texts, part by part, against the defaults of `joint`."""
    return [spec for line in small_lines(trials) for spec in line.runs]


def frontier(trials: int | None = None) -> list[RunSpec]:
    """Past the paper: `joint-views`, each part left out, `joint`, and the supervised ceiling, on fresh seeds."""
    return _in_blocks(lines(trials))


def frontier_search(trials: int | None = None) -> list[RunSpec]:
    """The settings of `joint-views` that `frontier` was chosen from, on other seeds."""
    return _in_blocks(search_lines(trials))


def _in_blocks(of: list[Line]) -> list[RunSpec]:
    """Setting after setting for a few seeds, then the next seeds."""
    longest = max(len(line.runs) for line in of)
    return [
        spec
        for dataset, start in product(FRONTIER, range(0, longest, BLOCK))
        for line in of
        if line.dataset == dataset
        for spec in line.runs[start : start + BLOCK]
    ]
