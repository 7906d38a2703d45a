"""Write the tables of README.md and docs/ from their sources: committed rows and the registry of methods.

Run after either has changed: python docs/render.py. A test fails where a table is not what this would write.
"""

import re
from functools import partial
from pathlib import Path

from pulab.bench import METHODS, RECIPES, committed_rows, read_rows, rows_of
from pulab.bench.paper import TEXTS, table_cells, table_runs
from pulab.report.paper import HEADER, Result, as_lines, results
from pulab.report.tables import by_dataset, by_method, markdown, plain

ROOT = Path(__file__).parents[1]


def demo() -> str:
    rows = rows_of(RECIPES["demo"](), committed_rows())
    return f"```\n{plain(*by_method(rows))}\n```"


def methods() -> str:
    lines = [[f"`{key}`", f"`{m.class_path.split('.')[-1]}`", m.summary, m.reference] for key, m in METHODS.items()]
    return markdown(["key", "class", "what it does", "reference"], lines)


def guide() -> str:
    """What the registry knows of each method that a reader has to choose by, and where there are rows of it."""
    pages = _methods_by_page()
    lines = []
    for key, m in METHODS.items():
        name = m.class_path.split(".")[-1]
        told = [
            *(["the prior"] if m.needs_prior else []),
            *(["known negatives and their share"] if m.needs_negatives else []),
            *(["all true labels"] if m.learns_from_truth else []),
        ]
        learner = "network" if m.is_network else "for tables"
        measured = [f"[{page}]({page}.md)" for page, found in pages.items() if key in found] or ["nothing yet"]
        lines.append([f"`{key}`", f"[{name}](#{m.class_path})", learner, ", ".join(told) or "–", ", ".join(measured)])
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
    return markdown(HEADER, as_lines(result for result in results(cells, rows) if result.n))


def other_encoder(features: str) -> str:
    """What Tables 1 to 3 say of texts with another encoder than the one they show."""
    lines = []
    for table in (1, 2, 3):
        cells = [cell for cell in table_cells(table, features=features) if cell.dataset in TEXTS]
        found = results(cells, rows_of(table_runs(table, features=features), committed_rows()))
        lines += [[f"Table {table}", *line] for line in as_lines(found)]
    return markdown(["", *HEADER], lines)


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
COST = {"n_u": "unlabeled rows", "epochs": "epochs", "seconds": "seconds", "gib_beyond_the_data": "GiB beyond the data"}
MNIST_CPU = {
    "cores": "cores",
    "trials": "trials",
    "plain_seconds_per_100_epochs": "plain, s a trial of 100 epochs",
    "ours_seconds_per_100_epochs": "ours",
    "ratio": "ratio",
}

TABLES = {
    "README.md": {"demo": demo, "paper": headline, "methods": methods},
    "docs/index.md": {"demo": demo},
    "docs/methods.md": {"methods": guide, "seconds": partial(defaults, "seconds")},
    "docs/defaults.md": {"table": defaults},
    "docs/performance.md": {
        "cost": partial(measured, "cost", COST),
        "mnist-cpu": partial(measured, "mnist-cpu", MNIST_CPU),
        "bf16-cpu": partial(measured, "bf16-cpu", BF16_CPU),
        "mnist-gpu": partial(measured, "mnist-gpu", MNIST_GPU),
        "cifar10-gpu": partial(measured, "cifar10-gpu", CIFAR10_GPU),
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
