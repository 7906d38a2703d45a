"""The tables of docs/performance.md, from the rows in results/performance and results/paper."""

from collections.abc import Callable
from functools import partial

from pulab.bench import committed_rows, read_rows
from pulab.bench.store import Row
from pulab.report.tables import markdown


def measured(name: str, columns: dict[str, str]) -> str:
    rows = read_rows([committed_rows() / "performance" / f"{name}.jsonl"])
    return markdown(list(columns.values()), [[_number(row[key]) for key in columns] for row in rows])


def _number(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def goals() -> str:
    """The goals of the training engine, and the values in the rows."""

    def rows(name: str) -> list[Row]:
        return read_rows([committed_rows() / "performance" / f"{name}.jsonl"])

    names = ("cifar10-gpu", "mnist-gpu", "mnist-cpu")
    cifar, gpu, cpu = (min(rows(name), key=lambda row: row["ratio"]) for name in names)  # the worst of its runs
    cost = rows("cost")[-1]  # the largest
    wanted = [
        (f"CIFAR-10 on a GPU, fleet of {cifar['fleet']}: images/s against plain, warm", cifar["ratio"], ">=", 5, " ×"),
        ("CIFAR-10 on a GPU: a trial of 200 epochs, warm", cifar["seconds_a_trial"], "<=", 30, " s"),
        (f"MNIST on a GPU, fleet of {gpu['trials']}: a trial", gpu["our_seconds"], "<=", 1, " s"),
        (f"MNIST on a GPU, fleet of {gpu['trials']}: against plain", gpu["ratio"], ">=", 20, " ×"),
        (f"MNIST on {cpu['cores']} cores, {cpu['trials']} trials: against plain", cpu["ratio"], ">=", 2, " ×"),
        (f"memory beyond the data, {cost['n_u']:,} unlabeled rows", cost["gib_beyond_the_data"], "<=", 2, " GiB"),
    ]
    lines = []
    for name, value, relation, bound, unit in wanted:
        met = value >= bound if relation == ">=" else value <= bound
        words = {">=": "at least", "<=": "at most"}
        lines.append([name, f"{words[relation]} {bound}{unit}", f"{value:.3g}{unit}", "met" if met else "**missed**"])
    return markdown(["", "goal", "measured", ""], lines)


def whole_trials() -> str:
    """The ratio on CIFAR-10 if the first epochs of a fleet and their compilation count, too."""
    row = read_rows([committed_rows() / "performance" / "cifar10-gpu.jsonl"])[-1]
    ours = row["warm_up_seconds"] / row["fleet"] + 197 / 200 * row["seconds_a_trial"]
    plain = row["ratio"] * row["seconds_a_trial"]
    return (
        "These times are for epochs from the fourth on, after compiling and recording. With the first three epochs and "
        f"the compilation, a trial of 200 epochs takes {ours:.1f} s in a fleet of {row['fleet']}. "
        f"The plain loop takes {plain:.0f} s: {plain / ours:.2f} ×."
    )


def peers() -> str:
    """pulab's mean over the seeds beside pulearn's, a line per data set and method."""
    rows = read_rows([committed_rows() / "performance" / "peers.jsonl"])
    lines = []
    for dataset, method in dict.fromkeys((row["dataset"], row["method"]) for row in rows):
        cell_rows = [row for row in rows if (row["dataset"], row["method"]) == (dataset, method)]
        n = len({row["seed"] for row in cell_rows})
        cells = []
        for name, form in (("error_told", ".2f"), ("error_alone", ".2f"), ("auc", ".3f"), ("seconds", ".2g")):
            means = {
                library: sum(row[name] for row in cell_rows if row["library"] == library) / n
                for library in ("pulab", "pulearn")
            }
            cells.append(" / ".join(format(value, form) for value in means.values()))
        lines.append([dataset, f"`{method}`", *cells, n])
    head = ["data set", "method", "error, prior given, %", "error, prior not given, %", "AUC", "fit, s", "n"]
    return markdown(head, lines)


def gpu_seconds() -> str:
    lines = []
    for path in sorted((committed_rows() / "paper").glob("*.jsonl")):
        rows = [row for row in read_rows([path]) if row["device"].startswith("cuda")]
        for method in dict.fromkeys(row["method"] for row in rows):
            seconds = [row["seconds"] for row in rows if row["method"] == method]
            mean = sum(seconds) / len(seconds)
            lines.append([path.stem, f"`{method}`", len(seconds), f"{mean:.3g}"])
    return markdown(["rows", "method", "trials", "seconds a trial"], lines)


BF16_CPU = {"fit": "fit", "float32": "float32, s", "bfloat16": "bfloat16, s", "ratio": "ratio"}
MNIST_GPU = {
    "device": "device",
    "trials": "trials in a fleet",
    "plain_seconds": "plain, s a trial",
    "our_seconds": "ours",
    "ratio": "ratio",
}
CIFAR10_GPU = {
    "device": "device",
    "fleet": "fleet",
    "plain_images_per_second": "plain, images/s",
    "our_images_per_second": "ours",
    "ratio": "ratio",
    "seconds_a_trial": "s a trial of 200 epochs",
    "warm_up_seconds": "before the fourth epoch, s",
}
BOOSTING = {
    "rows": "rows",
    "trees": "trees",
    "plain": "plain, s",
    "boosting": "`nnpu-boosting`, s",
    "boosting_ratio": "ratio",
    "plain_bags": "plain, ten bags one by one, s",
    "plain_of_bags": "plain, all rows of ten bags at once, s",
    "bagging": "`bagging`, s",
    "bagging_ratio": "ratio, bag by bag",
    "bagging_ratio_to_one_fit": "ratio, at once",
}
SCORE = {
    "rows": "rows",
    "threads": "threads",
    "trees": "trees",
    "bare_rows_per_second": "bare predict, rows/s",
    "our_rows_per_second": "ours",
    "ratio": "ratio",
    "start_seconds": "start, s",
    "peak_gib": "GiB at the peak",
}
COST = {"n_u": "unlabeled rows", "epochs": "epochs", "seconds": "seconds", "gib_beyond_the_data": "GiB beyond the data"}
MNIST_CPU = {
    "cores": "cores",
    "trials": "trials",
    "plain_seconds_per_100_epochs": "plain, s a trial of 100 epochs",
    "ours_seconds_per_100_epochs": "ours",
    "ratio": "ratio",
}
FIRST_ANSWER = {
    "shape": "shape",
    "rows": "rows",
    "commit": "version",
    "cpu_seconds": "CPU seconds",
    "peak_mb": "MB at the peak",
}

WIDE = {
    "method": "method",
    "rows": "rows",
    "columns": "columns",
    "bare_cpu_seconds": "bare fits, CPU s",
    "cpu_seconds": "`pulab fit`, CPU s",
    "ratio": "ratio",
    "gib_at_the_peak": "GiB at the peak",
}

CHECKPOINTS = {
    "epochs": "epochs",
    "seconds_a_fit": "a fit without, s",
    "saves": "saves",
    "seconds_a_save": "a save, s",
    "share": "share of the time in saves",
    "ratio": "fit with against without",
}

TABLES: dict[str, Callable[[], str]] = {
    "goals": goals,
    "cost": partial(measured, "cost", COST),
    "mnist-cpu": partial(measured, "mnist-cpu", MNIST_CPU),
    "bf16-cpu": partial(measured, "bf16-cpu", BF16_CPU),
    "mnist-gpu": partial(measured, "mnist-gpu", MNIST_GPU),
    "cifar10-gpu": partial(measured, "cifar10-gpu", CIFAR10_GPU),
    "whole-trials": whole_trials,
    "boosting": partial(measured, "boosting", BOOSTING),
    "score": partial(measured, "score", SCORE),
    "peers": peers,
    "wide": partial(measured, "wide", WIDE),
    "checkpoints": partial(measured, "checkpoints", CHECKPOINTS),
    "first-answer": partial(measured, "first-answer", FIRST_ANSWER),
    "gpu": gpu_seconds,
}
