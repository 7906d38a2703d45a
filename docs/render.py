"""Write the tables of README.md and docs/ from their sources: committed rows and the registry of methods.

Run after either has changed: python docs/render.py. A test fails where a table is not what this would write.
"""

import re
from collections import Counter
from functools import partial
from pathlib import Path

from pulab.bench import RECIPES, committed_rows, read_rows, rows_of
from pulab.bench.paper import TEXTS, table_cells, table_runs
from pulab.bench.store import Row
from pulab.methods import METHODS
from pulab.report.paper import HEADER, Result, as_lines, features_note, results
from pulab.report.tables import by_dataset, by_method, markdown, plain

ROOT = Path(__file__).parents[1]


def demo() -> str:
    rows = rows_of(RECIPES["demo"](), committed_rows())
    return f"```\n{plain(*by_method(rows))}\n```"


def methods() -> str:
    lines = [[f"`{key}`", f"`{m.class_name}`", m.summary, m.reference] for key, m in METHODS.items()]
    return markdown(["key", "class", "what it does", "reference"], lines)


def classifiers() -> str:
    names = dict.fromkeys(m.class_name for m in METHODS.values())
    lines = [".. autosummary::", "   :toctree: api", "   :nosignatures:", "", *(f"   ~pulab.{name}" for name in names)]
    return "\n".join(["```{eval-rst}", *lines, "   ~pulab.fit_many", "```"])


def guide() -> str:
    """What the registry knows of each method that a reader has to choose by, and where there are rows of it."""
    pages = _methods_by_page()
    lines = []
    for key, m in METHODS.items():
        told = [
            *(["the prior"] if m.needs_prior else []),
            *(["known negatives and their share"] if m.needs_negatives else []),
            *(["all true labels"] if m.learns_from_truth else []),
        ]
        learner = "network" if m.is_network else "for tables"
        measured = [f"[{page}]({page}.md)" for page, found in pages.items() if key in found] or ["nothing yet"]
        link = f"[{m.class_name}](#pulab.{m.class_name})"
        lines.append([f"`{key}`", link, learner, ", ".join(told) or "–", ", ".join(measured)])
    return markdown(["key", "class", "learner", "must be told", "measured in"], lines)


def _methods_by_page() -> dict[str, set[str]]:
    """Of which methods there are rows in the folder that has a page's name."""
    names = sorted(page.stem for page in (ROOT / "docs").glob("*.md"))
    rows = {name: read_rows(sorted((committed_rows() / name).glob("*.jsonl"))) for name in names}
    return {name: {row["method"] for row in found if "method" in row} for name, found in rows.items()}


def defaults(metric: str = "test_error") -> str:
    return markdown(*by_dataset(rows_of(RECIPES["defaults"](), committed_rows()), metric))


def paper_table(table: int) -> str:
    cells = table_cells(table)
    rows = rows_of(table_runs(table), committed_rows())
    found = [result for result in results(cells, rows) if result.n]
    return _noted(markdown(HEADER, as_lines(found)), found)


def other_encoder(features: str) -> str:
    """What Tables 1 to 3 say of texts with another encoder than the one they show."""
    found: list[Result] = []
    for table in (1, 2, 3):
        cells = [cell for cell in table_cells(table, features=features) if cell.dataset in TEXTS]
        rows = rows_of(table_runs(table, features=features), committed_rows())
        found += [result for result in results(cells, rows) if result.n]
    lines = [[f"Table {result.table}", *line] for result, line in zip(found, as_lines(found), strict=True)]
    return _noted(markdown(["", *HEADER], lines), found)


def _noted(table: str, found: list[Result]) -> str:
    """The table and, where it has other features than the paper's, a word on them."""
    note = features_note(found)
    return f"{table}\n\n{note}" if note else table


def headline() -> str:
    """Table 2 in short: a line per data set."""
    found = results(table_cells(2), rows_of(table_runs(2), committed_rows()))
    columns = {(r.method, r.setting): r for r in found}
    lines = []
    for dataset in dict.fromkeys(r.dataset for r in found):
        mine = {(r.method, r.setting): r for r in found if r.dataset == dataset}
        ours = [_short(r) for r in mine.values()]
        paper = mine["joint", "paper"]
        name = f"{dataset}, {paper.features}" if paper.features else dataset
        lines.append([name, *ours, f"{paper.paper_mean:.2f} ± {paper.paper_std:.2f}"])
    names = [f"`{method}`" + (", tuned" if setting == "tuned" else "") for method, setting in columns]
    return markdown(["test error, %", *names, "`joint` in the paper"], lines)


def _short(r: Result) -> str:
    if r.mean is None or r.std is None:
        return "not run yet"
    return f"{r.mean:.2f} ± {r.std:.2f}" + ("" if r.n == 10 else f" (n = {r.n})")


def measured(name: str, columns: dict[str, str]) -> str:
    rows = read_rows([committed_rows() / "performance" / f"{name}.jsonl"])
    return markdown(list(columns.values()), [[_number(row[key]) for key in columns] for row in rows])


def _number(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def goals() -> str:
    """What the training engine must reach, beside what the rows say."""

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
    for what, value, relation, bound, unit in wanted:
        met = value >= bound if relation == ">=" else value <= bound
        words = {">=": "at least", "<=": "at most"}
        lines.append([what, f"{words[relation]} {bound}{unit}", f"{value:.3g}{unit}", "met" if met else "**missed**"])
    return markdown(["", "wanted", "measured", ""], lines)


def whole_trials() -> str:
    """What becomes of the ratio on CIFAR-10 when a fleet's first epochs and their compiling count, too."""
    row = read_rows([committed_rows() / "performance" / "cifar10-gpu.jsonl"])[-1]
    ours = row["warm_up_seconds"] / row["fleet"] + 197 / 200 * row["seconds_a_trial"]
    plain = row["ratio"] * row["seconds_a_trial"]
    return (
        "These are epochs from the fourth on, after compiling and recording. With what comes before them a trial of "
        f"200 epochs takes {ours:.1f} s in a fleet of {row['fleet']}, against the plain {plain:.0f} s: "
        f"{plain / ours:.2f} ×."
    )


def peers() -> str:
    """pulab's mean over the seeds beside pulearn's, a line per data set and method."""
    rows = read_rows([committed_rows() / "performance" / "peers.jsonl"])
    lines = []
    for dataset, method in dict.fromkeys((row["dataset"], row["method"]) for row in rows):
        mine = [row for row in rows if (row["dataset"], row["method"]) == (dataset, method)]
        n = len({row["seed"] for row in mine})
        cells = []
        for name, form in (("error_told", ".2f"), ("error_alone", ".2f"), ("auc", ".3f"), ("seconds", ".2g")):
            means = {
                library: sum(row[name] for row in mine if row["library"] == library) / n
                for library in ("pulab", "pulearn")
            }
            cells.append(" / ".join(format(value, form) for value in means.values()))
        lines.append([dataset, f"`{method}`", *cells, n])
    head = ["data set", "method", "error, told the prior, %", "error, not told, %", "AUC", "fit, s", "n"]
    return markdown(head, lines)


def prior_rows() -> list[Row]:
    return read_rows([committed_rows() / "priors" / "priors.jsonl"])


MADE_WITHOUT = ("overlap", "lookalikes")  # a region of pure positives
PULEARN = ("pulearn-label-frequency", "pulearn-histogram-match", "pulearn-em")


def prior_error(rows: list[Row], method: str) -> float:
    """The mean absolute error of a method's class priors."""
    return sum(abs(row["estimates"][method] - row["prior"]) for row in rows) / len(rows)


def prior_errors(scenario: str) -> str:
    """A line per data set and rate."""
    cells: dict[tuple[str, float], list[Row]] = {}
    for row in prior_rows():
        if row["scenario"] == scenario:
            cells.setdefault((row["dataset"], row["rate"]), []).append(row)
    lines = []
    for (dataset, rate), rows in cells.items():
        first, n = rows[0], len(rows)
        errors = [prior_error(rows, method) for method in ("auto", "dedpul", "bbe")]
        if scenario == "single-sample":
            errors.append(min(prior_error(rows, method) for method in PULEARN))
        shown = [f"{error:.3f}" for error in errors]
        counts = [f"{sum(map(told, rows))} of {n}" for told in (_covered, _warned)]
        pure = "yes" if first["pure"] else "no"
        lines.append([dataset, pure, f"{first['prior']:.2f}", rate, first["n_labelled"], *shown, *counts, n])
    best = ["pulearn's best"] if scenario == "single-sample" else []
    head = ["data set", "pure region", "prior", "rate", "labelled", "`auto`", "`dedpul`", "`bbe`", *best]
    return markdown([*head, "covered", "warned", "n"], lines)


def prior_methods() -> str:
    """All methods over all runs of single samples, and over those where the aim applies."""
    rows = [row for row in prior_rows() if row["scenario"] == "single-sample"]
    aimed = [row for row in rows if _aimed_at(row)]
    lines = [[f"`{m}`", f"{prior_error(aimed, m):.3f}", f"{prior_error(rows, m):.3f}"] for m in rows[0]["estimates"]]
    lines.sort(key=lambda line: line[1])
    return markdown(["", f"50 labelled, pure region (n = {len(aimed)})", f"all (n = {len(rows)})"], lines)


def prior_aim() -> str:
    """What was aimed at, and whether it was reached."""
    rows = prior_rows()
    aimed = [row for row in rows if _aimed_at(row) and row["scenario"] == "single-sample"]
    auto, best = prior_error(aimed, "auto"), min(prior_error(aimed, method) for method in PULEARN)
    without_rule = [
        row
        for row in rows
        if row["n_labelled"] >= 50 and row["scenario"] == "single-sample" and row["dataset"] not in MADE_WITHOUT
    ]
    others = [row for row in rows if not _aimed_at(row)]
    missed = [row for row in others if not _covered(row) and not _warned(row)]
    where = ", ".join(f"{name} ({n})" for name, n in Counter(row["dataset"] for row in missed).items())
    return "\n".join(
        [
            f"- Where 50 positives or more are labelled and a pure region exists, `auto` is to err by 0.05 at most: "
            f"{auto:.3f}, **{'reached' if auto <= 0.05 else 'missed'}** (n = {len(aimed)}). On all data sets but those "
            f"made to have no such region, whatever the rule says of them: {prior_error(without_rule, 'auto'):.3f} "
            f"(n = {len(without_rule)}).",
            f"- It is to err by less there than the best of pulearn's estimators: {auto:.3f} against {best:.3f}, "
            f"**{'reached' if auto < best else 'missed'}**.",
            f"- Elsewhere the interval is to hold the truth, or a warning is to be given: so in "
            f"{len(others) - len(missed)} of {len(others)} runs, **{'missed' if missed else 'reached'}**"
            + (f"; not so on {where}." if missed else "."),
        ]
    )


def _aimed_at(row: Row) -> bool:
    return bool(row["pure"]) and row["n_labelled"] >= 50


def _covered(row: Row) -> bool:
    low, high = row["interval"]
    return bool(low <= row["prior"] <= high)


def _warned(row: Row) -> bool:
    return bool(row["warnings"])


def gpu_seconds() -> str:
    lines = []
    for path in sorted((committed_rows() / "paper").glob("*.jsonl")):
        rows = [row for row in read_rows([path]) if row["device"].startswith("cuda")]
        for method in dict.fromkeys(row["method"] for row in rows):
            mine = [row for row in rows if row["method"] == method]
            mean = sum(row["seconds"] for row in mine) / len(mine)
            lines.append([path.stem, f"`{method}`", len(mine), f"{mean:.3g}"])
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
PRIOR_SPEED = {
    "method": "method",
    "rows": "rows",
    "seconds": "seconds",
    "seconds_with_interval": "with its interval",
}

TABLES = {
    "README.md": {"demo": demo, "paper": headline, "methods": methods},
    "docs/index.md": {"demo": demo},
    "docs/api.md": {"classifiers": classifiers},
    "docs/methods.md": {"methods": guide, "seconds": partial(defaults, "seconds")},
    "docs/defaults.md": {"table": defaults},
    "docs/priors.md": {
        "aim": prior_aim,
        "methods": prior_methods,
        "single-sample": partial(prior_errors, "single-sample"),
        "case-control": partial(prior_errors, "case-control"),
    },
    "docs/performance.md": {
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
        "prior-speed": partial(measured, "prior-speed", PRIOR_SPEED),
        "gpu": gpu_seconds,
    },
    "docs/paper.md": {
        **{f"table-{table}": partial(paper_table, table) for table in (1, 2, 3, 4)},
        "other-encoder": partial(other_encoder, "minilm-mean"),
    },
}


def rendered(name: str) -> str:
    """The text of a page with its tables written anew."""
    text = (ROOT / name).read_text(encoding="utf-8")
    for mark, make in TABLES[name].items():
        pattern = rf"(<!-- {mark} -->\n).*?(<!-- /{mark} -->)"
        text = re.sub(pattern, lambda found, make=make: f"{found[1]}{make()}\n{found[2]}", text, flags=re.DOTALL)
    return text


if __name__ == "__main__":
    for page in TABLES:
        (ROOT / page).write_text(rendered(page), encoding="utf-8")
