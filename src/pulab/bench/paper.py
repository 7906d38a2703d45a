"""The paper's experiments: the runs behind its tables.

`joint` has two settings. `paper` has the printed hyper-parameters. `tuned` is chosen from one grid per data set, in
Table 4 per prior. It is chosen by the mean validation risk over the trials, never by test error. Table 1 compares
initial labels twice: at the printed setting, and at the setting that was chosen for labels that start at the prior.

There are two sets of runs. The *first seeds*, 0 to 9, chose the tuned settings, and the grids were drawn up with test
errors in sight. The *fresh seeds* are run once, with every setting frozen. On CIFAR-10 the fresh seeds also have
another net: the protocol's, without the final BatchNorm and ReLU.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from pulab.bench.spec import RunSpec
from pulab.datasets import PaperSampling


@dataclass(frozen=True)
class Experiment:
    """One data set of the paper: its sampling, its net, and the hyper-parameters of each method."""

    sampling: PaperSampling
    net: str
    first_net: str  # of the first seeds
    fresh: range  # seeds
    shared: dict[str, Any]
    methods: dict[str, dict[str, Any]]
    grid: list[dict[str, Any]]  # changes to `joint` that `tuned` is chosen from; {} is the printed setting
    tuned: dict[float, dict[str, Any]]  # the chosen point by prior, frozen; a test compares it with the rows


_MNIST = Experiment(
    PaperSampling(pool=40_000, n_labeled=500, n_unlabeled=6000, prior=0.49),
    net="mnist-cnn",
    first_net="mnist-cnn",
    fresh=range(10, 30),
    shared={"epochs": 100, "batch_size_u": 120},
    methods={
        "nnpu": {"loss": "logistic", "lr": 1e-2},
        "pubn-n": {"lr": 1e-2, "lr_sigma": 1e-2, "tau": 0.9},
        "joint": {"lr": 5e-3, "r": 10, "e_start": 20, "lambda_init": 10.0, "alpha": 10.0, "beta": 2.0},
    },
    grid=[
        {"lambda_init": lambda_init, "alpha": alpha, "beta": beta, "positive_loss": loss}
        for lambda_init, alpha in ((2.0, 10.0), (5.0, 10.0), (10.0, 10.0), (5.0, 5.0), (5.0, 20.0))
        for beta, loss in product((2.0, 3.0), ("sigmoid", "logistic"))
    ],
    tuned={
        0.49: {"lambda_init": 2.0, "alpha": 10.0, "beta": 3.0, "positive_loss": "sigmoid"},
        0.3: {"lambda_init": 2.0, "alpha": 10.0, "beta": 3.0, "positive_loss": "logistic"},
        0.4: {"lambda_init": 2.0, "alpha": 10.0, "beta": 3.0, "positive_loss": "sigmoid"},
        0.5: {"lambda_init": 5.0, "alpha": 10.0, "beta": 3.0, "positive_loss": "sigmoid"},
        0.6: {"lambda_init": 5.0, "alpha": 20.0, "beta": 3.0, "positive_loss": "logistic"},
        0.7: {"lambda_init": 10.0, "alpha": 10.0, "beta": 3.0, "positive_loss": "sigmoid"},
    },
)


def _cifar(tau: float) -> Experiment:
    falling = {"lr_milestones": [80, 120]}
    return Experiment(
        PaperSampling(pool=40_000, n_labeled=1000, n_unlabeled=10_000, prior=0.4),
        net="preact-resnet-18-bare",
        first_net="preact-resnet-18",
        fresh=range(10, 20),
        shared={"epochs": 200, "batch_size_u": 100, "dtype": "bfloat16"},
        methods={
            "nnpu": {"loss": "logistic", "lr": 1e-3, **falling},
            "pubn-n": {"lr": 1e-3, "lr_sigma": 1e-3, "tau": tau, **falling},
            "joint": {"lr": 1e-3, "r": 10, "e_start": 20, "lambda_init": 0.5, "alpha": 2.0, "beta": 0.5},
        },
        # The paper leaves three things open: this method's weight decay, whether its learning rate falls as its
        # rivals' do, and the loss on P, whose printed form cannot be meant.
        grid=[
            {},
            {"weight_decay": 0.0},
            {"weight_decay": 0.0, **falling},
            {"weight_decay": 5e-4},
            {"positive_loss": "logistic"},
        ],
        tuned={0.4: {"positive_loss": "logistic"}},
    )


_NEWS = Experiment(
    PaperSampling(pool=8000, n_labeled=500, n_unlabeled=6000, prior=0.56),
    net="mlp",
    first_net="mlp",
    fresh=range(10, 30),
    shared={"epochs": 50, "batch_size_u": 120},
    methods={
        "nnpu": {"loss": "logistic", "lr": 5e-3},
        "pubn-n": {"lr": 5e-4, "lr_sigma": 5e-3, "tau": 0.9},
        "joint": {"lr": 1e-2, "r": 10, "e_start": 10, "lambda_init": 2.0, "alpha": 2.0, "beta": 2.0},
    },
    grid=[{"lr": lr, "alpha": alpha} for lr, alpha in product((1e-2, 1e-3), (2.0, 5.0))],
    tuned={0.56: {"lr": 1e-2, "alpha": 5.0}},
)

PAPER = {
    "mnist": _MNIST,
    "cifar10-vehicles": _cifar(tau=0.9),
    "cifar10-mammals": _cifar(tau=0.7),
    "20news": _NEWS,
}
TEXTS = ("20news",)
ENCODER = "minilm"  # the key of FEATURES that replaces ELMo by default
PRIORS = (0.3, 0.4, 0.5, 0.6, 0.7)
INITS = ("negative", "random", "prior")


def runs(
    dataset: str,
    method: str,
    seeds: Iterable[int],
    prior: float | None = None,
    features: str = ENCODER,
    net: str | None = None,
    **changes: Any,
) -> list[RunSpec]:
    """The runs of one method on one data set. With a prior, U is drawn with exactly that share of positives.

    ``features`` is for texts and is ignored for images. ``net`` replaces the experiment's.
    """
    experiment = PAPER[dataset]
    sampling = experiment.sampling
    if prior is not None:
        sampling = PaperSampling(sampling.pool, sampling.n_labeled, sampling.n_unlabeled, prior, exact=True)
    params = experiment.shared | _params(experiment, method, sampling.prior) | changes
    encoder = features if dataset in TEXTS else None
    return [RunSpec(dataset, sampling, method, seed, net or experiment.net, params, encoder) for seed in seeds]


def _params(experiment: Experiment, method: str, prior: float) -> dict[str, Any]:
    """The hyper-parameters of a method.

    `pn`, the supervised ceiling, learns from the true labels of P and U, weighted to the prior. It has the rates of
    `nnpu`. Its batches count negatives, so a smaller number gives steps of as many rows as the other methods have.
    """
    if method != "pn":
        return experiment.methods[method]
    negatives = round((1 - prior) * experiment.shared["batch_size_u"])
    return {**experiment.methods["nnpu"], "prior": prior, "batch_size_u": negatives}


def first_runs(
    dataset: str, method: str, trials: int | None, prior: float | None, features: str, **changes: Any
) -> list[RunSpec]:
    """Runs of the first seeds: ten, unless another number of trials is given."""
    seeds = range(10 if trials is None else trials)
    return runs(dataset, method, seeds, prior, features, PAPER[dataset].first_net, **changes)


@dataclass(frozen=True)
class Cell:
    """One number of the paper's tables, and the runs behind ours.

    On the first seeds, a fixed setting has one candidate. `tuned` has the points of the grid; the rows decide which one
    is taken. On the fresh seeds every setting is fixed.
    """

    table: int
    dataset: str
    features: str | None
    prior: float
    method: str
    setting: str
    init: str | None
    metric: str
    candidates: tuple[tuple[RunSpec, ...], ...]
    fresh: tuple[RunSpec, ...]


def table_cells(table: int, trials: int | None = None, features: str = ENCODER) -> list[Cell]:
    """The cells of one of the paper's four tables, and of the supervised ceiling, which the paper does not have.

    Table 3 shows another metric of the runs of Table 2.
    """
    if table == 1:
        return [c for d in PAPER for c in _cells_of_inits(d, trials, features)]
    if table == 4:
        return [c for prior in PRIORS for c in _cells_of_methods(4, "mnist", prior, "test_error", trials, features)]
    metric = "test_error" if table == 2 else "recovery_error"
    return [c for d in PAPER for c in _cells_of_methods(table, d, None, metric, trials, features)]


def _cells_of_inits(dataset: str, trials: int | None, features: str) -> list[Cell]:
    experiment = PAPER[dataset]
    prior = experiment.sampling.prior
    cells = []
    for (setting, point), init in product((("paper", {}), ("tuned", experiment.tuned[prior])), INITS):
        change = point if init == "prior" else {**point, "init": init}  # "prior" is the default: runs of Table 2
        first = tuple(first_runs(dataset, "joint", trials, None, features, **change))
        fresh = tuple(runs(dataset, "joint", experiment.fresh[:trials], None, features, **change))
        cells.append(Cell(1, dataset, fresh[0].features, prior, "joint", setting, init, "test_error", (first,), fresh))
    return cells


def _cells_of_methods(
    table: int, dataset: str, prior: float | None, metric: str, trials: int | None, features: str
) -> list[Cell]:
    experiment = PAPER[dataset]
    shown = experiment.sampling.prior if prior is None else prior
    seeds = experiment.fresh[:trials]

    def cell(method: str, setting: str, candidates: Iterable[Sequence[RunSpec]], fresh: Sequence[RunSpec]) -> Cell:
        init = "prior" if method == "joint" else None
        runs_of_both = tuple(map(tuple, candidates)), tuple(fresh)
        return Cell(table, dataset, fresh[0].features, shown, method, setting, init, metric, *runs_of_both)

    cells = [
        cell(
            method,
            "paper",
            [first_runs(dataset, method, trials, prior, features)],
            runs(dataset, method, seeds, prior, features),
        )
        for method in experiment.methods
    ]
    points = [first_runs(dataset, "joint", trials, prior, features, **point) for point in experiment.grid]
    cells.append(
        cell("joint", "tuned", points, runs(dataset, "joint", seeds, prior, features, **experiment.tuned[shown]))
    )
    if metric == "test_error":  # the ceiling knows the labels that a recovery error is about
        half = experiment.fresh[: len(experiment.fresh) // 2][:trials]  # enough for it
        cells.append(cell("pn", "supervised", [], runs(dataset, "pn", half, prior, features)))
    return cells


def cell_runs(cells: Iterable[Cell]) -> list[RunSpec]:
    """Every run behind these cells, once: first seeds, then fresh ones."""
    cells = list(cells)
    return _once([*_first(cells), *(spec for cell in cells for spec in cell.fresh)])


def table_runs(*tables: int, trials: int | None = None, features: str = ENCODER) -> list[RunSpec]:
    """Every run of the first seeds that these tables need, once."""
    return _once(_first(cell for table in tables for cell in table_cells(table, trials, features)))


def _first(cells: Iterable[Cell]) -> list[RunSpec]:
    return [spec for cell in cells for candidate in cell.candidates for spec in candidate]


def _once(specs: Iterable[RunSpec]) -> list[RunSpec]:
    return list({spec.digest: spec for spec in specs}.values())


def figure_2(trials: int | None = None, features: str = ENCODER) -> list[RunSpec]:
    """The paper's Figure 2: training losses of the printed settings, from the runs of Table 2."""
    pairs = [(dataset, method) for dataset in PAPER for method in PAPER[dataset].methods]
    return [spec for dataset, method in pairs for spec in first_runs(dataset, method, trials, None, features)]


def float32_arm() -> list[RunSpec]:
    """Five fresh runs of tuned `joint` on CIFAR-10 again, in float32 in the place of bfloat16."""
    experiment = PAPER["cifar10-vehicles"]
    point = experiment.tuned[experiment.sampling.prior]
    return runs("cifar10-vehicles", "joint", experiment.fresh[:5], dtype="float32", **point)


def confirm(trials: int | None = None, features: str = ENCODER) -> list[RunSpec]:
    """Tables 1 to 4 on fresh seeds with every setting frozen, the supervised ceiling, and five runs in float32."""

    def rank(spec: RunSpec) -> int:  # the most wanted first, in case that time runs out
        if spec in in_float32:
            return 5
        if spec.method == "joint":
            return 3 if "init" in spec.params else 0
        return {"nnpu": 1, "pubn-n": 2, "pn": 4}[spec.method]

    in_float32 = float32_arm()[:trials]
    in_tables = [spec for table in (2, 1, 4) for cell in table_cells(table, trials, features) for spec in cell.fresh]
    return sorted(_once([*in_tables, *in_float32]), key=rank)


BASE_SEEDS = range(30, 40)


def mnist_base(trials: int = 10) -> list[RunSpec]:
    """The search for the base setting of the paper's MNIST runs: λ_init, α, both losses on P, three initial labels."""
    points = product((0.5, 1.0, 2.0, 5.0, 10.0), (1.0, 2.0, 5.0, 10.0), ("sigmoid", "logistic"))
    return [
        spec
        for lambda_init, alpha, loss in points
        for spec in _with_all_inits(BASE_SEEDS[:trials], lambda_init=lambda_init, alpha=alpha, positive_loss=loss)
    ]


# The points of that search whose three errors are closest to the paper's.
CLOSEST = ((1.0, 2.0), (0.5, 5.0), (1.0, 5.0))  # λ_init, α, each with the logistic loss


def mnist_base_again(trials: int = 10) -> list[RunSpec]:
    """The three points of that search that are closest to the paper, on other seeds; Table 1 and Table 4."""
    seeds = range(40, 40 + trials)
    specs = []
    for lambda_init, alpha in CLOSEST:
        point: dict[str, Any] = {"lambda_init": lambda_init, "alpha": alpha, "positive_loss": "logistic"}
        specs += _with_all_inits(seeds, **point)
        specs += [spec for prior in PRIORS for spec in runs("mnist", "joint", seeds, prior, **point)]
    return specs


def mnist_capacity(trials: int = 10) -> list[RunSpec]:
    """Nets for MNIST that can memorise more: no dropout, no weight decay, wider, all three; three initial labels."""
    capacities: list[dict[str, Any]] = [
        {"net": "mnist-cnn-no-dropout"},
        {"weight_decay": 0.0},
        {"net": "mnist-cnn-wide"},
        {"net": "mnist-cnn-wide-no-dropout", "weight_decay": 0.0},
    ]
    return [
        spec
        for change, (lambda_init, alpha) in product(capacities, ((10.0, 10.0), (2.0, 2.0), (1.0, 1.0)))
        for spec in _with_all_inits(
            BASE_SEEDS[:trials], lambda_init=lambda_init, alpha=alpha, positive_loss="sigmoid", **change
        )
    ]


def _with_all_inits(seeds: Iterable[int], **change: Any) -> list[RunSpec]:
    inits: list[dict[str, Any]] = [{} if init == "prior" else {"init": init} for init in INITS]
    return [spec for init in inits for spec in runs("mnist", "joint", seeds, **change, **init)]


def _tables(summary: str, *tables: int) -> Callable[..., list[RunSpec]]:
    """A recipe of the runs of some tables; its docstring is what `pulab bench list` shows."""

    def recipe(trials: int | None = None, features: str = ENCODER) -> list[RunSpec]:
        return table_runs(*tables, trials=trials, features=features)

    recipe.__doc__ = summary
    return recipe


RECIPES: dict[str, Callable[..., list[RunSpec]]] = {
    "paper-table-1": _tables(
        "The paper's Table 1: three kinds of initial labels, at the printed and at the tuned setting.", 1
    ),
    "paper-table-2": _tables(
        "The paper's Table 2: nnPU, PUbN\\N and joint on the same samplings, joint as printed and tuned.", 2
    ),
    "paper-table-3": _tables("The paper's Table 3: recovery error of the same runs.", 3),
    "paper-table-4": _tables("The paper's Table 4: MNIST with other shares of positives.", 4),
    "paper-figure-2": figure_2,
    "paper": _tables("All of the paper's experiments: Tables 1 to 4 and Figure 2.", 2, 1, 3, 4),
    "paper-confirm": confirm,
    "mnist-base": mnist_base,
    "mnist-base-again": mnist_base_again,
    "mnist-capacity": mnist_capacity,
}
# The tables and figures that each recipe shows.
TABLES: dict[str, tuple[int, ...]] = {
    **{f"paper-table-{table}": (table,) for table in (1, 2, 3, 4)},
    "paper-figure-2": (),
    "paper": (1, 2, 3, 4),
    "paper-confirm": (1, 2, 3, 4),
}
FIGURES = ("paper-figure-2", "paper")
