"""Write the tables of README.md and docs/ from the committed rows and the registry of methods.

Run it when either has changed: python docs/render.py. A test fails if a table differs from what this script writes.
"""

import re
import runpy
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from pulab.bench import RECIPES, committed_rows, read_rows, rows_of
from pulab.bench.league import lines as league_lines
from pulab.bench.paper import ENCODER, INITS, PRIORS, TEXTS, cell_runs, table_cells
from pulab.bench.store import Row
from pulab.methods import FAMILIES, METHODS
from pulab.report.league import results as league_results
from pulab.report.paper import HEADER, PAPER_TRIALS, TALLY_HEADER, Result, as_lines, results, tally, targets
from pulab.report.show import league_sections
from pulab.report.tables import by_dataset, by_method, markdown, mean_std

ROOT = Path(__file__).parents[1]


def demo() -> str:
    """A text table, its columns aligned by spaces."""
    header, lines = by_method(rows_of(RECIPES["demo"](), committed_rows()))
    widths = [max(map(len, column)) for column in zip(header, *lines, strict=True)]
    texts = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in (header, *lines)]
    return "\n".join(["```", *texts, "```"])


def methods() -> str:
    """The keys by family."""
    keys = {family: [f"`{key}`" for key, m in METHODS.items() if m.family == family] for family in FAMILIES}
    lines = [[words, ", ".join(keys[family])] for family, words in FAMILIES.items() if keys[family]]
    return markdown(["how they learn", "methods"], lines)


def classifiers() -> str:
    names = dict.fromkeys(m.class_name for m in METHODS.values())
    names |= dict.fromkeys(("PositiveKindsClassifier", "fit_many", "fit_parquet", "fit_parquet_on_ray", "export_onnx"))
    lines = [".. autosummary::", "   :toctree: api", "   :nosignatures:", "", *(f"   ~pulab.{name}" for name in names)]
    return "\n".join(["```{eval-rst}", *lines, "```"])


def guide() -> str:
    """What the registry says about each method, and the pages with rows of it."""
    pages = _methods_by_page()
    lines = []
    for key, m in METHODS.items():
        needs = [
            *(["the prior"] if m.needs_prior else []),
            *(["known negatives and their share"] if m.needs_negatives else []),
            *(["all true labels"] if m.learns_from_truth else []),
        ]
        learner = "network" if m.is_network else "for tables"
        measured = [f"[{page}]({page}.md)" for page, keys in pages.items() if key in keys] or ["nothing yet"]
        link = f"[{m.class_name}](#pulab.{m.class_name})"
        weights = "yes" if m.takes_weights else "–"
        what = [m.summary, learner, ", ".join(needs) or "–", weights]
        lines.append([f"`{key}`", link, *what, m.reference, ", ".join(measured)])
    header = ["key", "class", "what it does", "learner", "needs", "takes weights", "reference", "measured in"]
    return markdown(header, lines)


def _methods_by_page() -> dict[str, set[str]]:
    """The methods that have rows in the results folder with the name of the page."""
    names = sorted(page.stem for page in (ROOT / "docs").glob("*.md"))
    rows_by_page = {name: read_rows(sorted((committed_rows() / name).glob("*.jsonl"))) for name in names}
    return {name: {row["method"] for row in rows if "method" in row} for name, rows in rows_by_page.items()}


def defaults(metric: str = "test_error") -> str:
    return markdown(*by_dataset(rows_of(RECIPES["defaults"](), committed_rows()), metric))


def paper_results(*tables: int, features: str = ENCODER) -> list[Result]:
    cells = [cell for table in tables for cell in table_cells(table, features=features)]
    return results(cells, rows_of(cell_runs(cells), committed_rows()))


def paper_table(table: int) -> str:
    return markdown(HEADER, as_lines(paper_results(table)))


def paper_tally() -> str:
    return markdown(TALLY_HEADER, tally(paper_results(1, 2, 3, 4)))


Point = tuple[Any, ...]


def league() -> str:
    """Standings and errors of the methods, as far as there are rows."""
    rows = rows_of(RECIPES["league"](), committed_rows())
    if not rows:
        return "Not run yet."
    parts = []
    for section in league_sections(league_results(league_lines(), rows)):
        parts += [
            f"**{section.title}**",
            markdown(section.header, section.lines),
            *([section.note] if section.note else []),
        ]
    return "\n\n".join(parts)


POINT = ("lambda_init", "alpha", "positive_loss")


def _errors(rows: Iterable[Row], *names: str) -> dict[Point, dict[str, list[float]]]:
    """The test errors of each point of a search, by initial labels."""
    errors: dict[Point, dict[str, list[float]]] = {}
    for row in rows:
        point = tuple(row[name] if name in row else row["settings"][name] for name in names)
        errors.setdefault(point, {}).setdefault(row["settings"]["init"], []).append(row["test_error"])
    return errors


def _chi2(pairs: Iterable[tuple[list[float], tuple[float, float]]]) -> float:
    """The squared differences between our errors and the paper's mean ± std, in standard errors, added up."""
    total = 0.0
    for ours, (paper_mean, paper_std) in pairs:
        mean, std = mean_std(ours)
        total += (mean - paper_mean) ** 2 / ((std or 0.0) ** 2 / len(ours) + paper_std**2 / PAPER_TRIALS)
    return total


def _plus_minus(mean: float, std: float | None) -> str:
    return f"{mean:.2f} ± {std or 0.0:.2f}"


def mnist_base(shown: int = 6) -> str:
    """The points of the search that are closest to the paper's Table 1, and the printed one."""
    papers = {init: targets()[1, "mnist", 0.49, "joint", init, "test_error"] for init in INITS}
    lines = []
    for point, errors in _errors(rows_of(RECIPES["mnist-base"](), committed_rows()), *POINT).items():
        chi2 = _chi2((errors[init], papers[init]) for init in INITS)
        cells = [_plus_minus(*mean_std(errors[init])) for init in INITS]
        lines.append((chi2, [*map(str, point), *cells, f"{chi2:.1f}"]))
    lines.sort()
    printed = [line for _, line in lines if line[:3] == ["10.0", "10.0", "sigmoid"]]
    paper = ["paper", "", "", *(_plus_minus(*papers[init]) for init in INITS), ""]
    return markdown(["λ_init", "α", "loss on P", *INITS, "χ²"], [paper, *(line for _, line in lines[:shown]), *printed])


def mnist_base_again() -> str:
    """The closest points on other seeds: Table 1, and Table 4 from the same point."""
    of_table_1 = {init: targets()[1, "mnist", 0.49, "joint", init, "test_error"] for init in INITS}
    of_table_4 = {prior: targets()[4, "mnist", prior, "joint", "prior", "test_error"] for prior in PRIORS}
    rows = rows_of(RECIPES["mnist-base-again"](), committed_rows())
    by_init = _errors((row for row in rows if not row["sampling"]["exact"]), *POINT[:2])
    exact = [row for row in rows if row["sampling"]["exact"]]
    by_prior = {prior: _errors((r for r in exact if r["sampling"]["prior"] == prior), *POINT[:2]) for prior in PRIORS}
    papers = [*of_table_1.values(), *of_table_4.values()]
    parts = {"Table 1": slice(0, 3), "0.3 to 0.5": slice(3, 6), "0.6 and 0.7": slice(6, 8)}
    lines = [["paper", "", *(_plus_minus(*cell) for cell in papers), *("" for _ in parts)]]
    for point, errors in by_init.items():
        cells = [errors[init] for init in INITS] + [by_prior[prior][point]["prior"] for prior in PRIORS]
        chi2s = [_chi2(zip(cells[part], papers[part], strict=True)) for part in parts.values()]
        ours = [_plus_minus(*mean_std(cell)) for cell in cells]
        lines.append([*map(str, point), *ours, *(f"{chi2:.1f}" for chi2 in chi2s)])
    header = ["λ_init", "α", *INITS, *(f"π = {prior}" for prior in PRIORS), *(f"χ², {part}" for part in parts)]
    return markdown(header, lines)


def mnist_capacity() -> str:
    """Nets that can memorise more: their errors by initial labels, and how many of the trials failed."""
    rows = rows_of(RECIPES["mnist-capacity"](), committed_rows())
    lines = []
    for (net, decay, lambda_init, alpha), errors in _errors(rows, "net", "weight_decay", *POINT[:2]).items():
        failed = sum(error > FAILED for init in INITS for error in errors[init])
        cells = [_plus_minus(*mean_std(errors[init])) for init in INITS]
        lines.append([net, f"{decay:g}", str(lambda_init), str(alpha), *cells, str(failed)])
    return markdown(["net", "weight decay", "λ_init", "α", *INITS, "failed, of 30"], lines)


FAILED = 25.0  # percent of test error: such a network has learned one class


def other_encoder(features: str) -> str:
    """The lines of Tables 1 to 3 for texts, with another encoder."""
    lines = []
    for table in (1, 2, 3):
        of_texts = [result for result in paper_results(table, features=features) if result.dataset in TEXTS]
        lines += [[f"Table {table}", *line] for line in as_lines(of_texts)]
    return markdown(["", *HEADER], lines)


def headline() -> str:
    """Table 2 in short, a line per data set: fresh seeds, and the first ones where the fresh are not run yet."""
    cells: dict[str, dict[str, list[Result]]] = {}
    for r in paper_results(2):
        if r.paper_mean is not None:
            name = f"{r.dataset}, {r.features}" if r.features else r.dataset
            column = f"`{r.method}`" + (", tuned" if r.setting == "tuned" else "")
            cells.setdefault(name, {}).setdefault(column, []).append(r)
    lines = []
    for name, columns in cells.items():
        (of_paper, *_) = columns["`joint`"]
        paper = "another encoder" if of_paper.features else _plus_minus(of_paper.paper_mean or 0.0, of_paper.paper_std)
        lines.append([name, *map(_freshest, columns.values()), paper])
    return markdown(["test error, %", *columns, "`joint` in the paper"], lines)


def _freshest(of_cell: list[Result]) -> str:
    by_seeds = {r.seeds: r for r in of_cell if r.mean is not None}
    r = by_seeds.get("fresh") or by_seeds["first"]
    return f"{_plus_minus(r.mean or 0.0, r.std)}{'' if r.seeds == 'fresh' else ' *'}"


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
        counts = [f"{sum(map(test, rows))} of {n}" for test in (_covered, _evident)]
        pure = "yes" if first["pure"] else "no"
        lines.append([dataset, pure, f"{first['prior']:.2f}", rate, first["n_labelled"], *shown, *counts, n])
    best = ["pulearn's best"] if scenario == "single-sample" else []
    head = ["data set", "pure region", "prior", "rate", "labelled", "`auto`", "`dedpul`", "`bbe`", *best]
    return markdown([*head, "covered", "evident", "n"], lines)


def prior_methods() -> str:
    """All methods over all single-sample runs, and over those where the aim applies."""
    rows = [row for row in prior_rows() if row["scenario"] == "single-sample"]
    aimed = [row for row in rows if _aimed_at(row)]
    lines = [[f"`{m}`", f"{prior_error(aimed, m):.3f}", f"{prior_error(rows, m):.3f}"] for m in rows[0]["estimates"]]
    lines.sort(key=lambda line: line[1])
    return markdown(["", f"50 labelled, pure region (n = {len(aimed)})", f"all (n = {len(rows)})"], lines)


def prior_aim() -> str:
    """The aims, and whether they were reached."""
    rows = prior_rows()
    aimed = [row for row in rows if _aimed_at(row) and row["scenario"] == "single-sample"]
    auto, best = prior_error(aimed, "auto"), min(prior_error(aimed, method) for method in PULEARN)
    without_rule = [
        row
        for row in rows
        if row["n_labelled"] >= 50 and row["scenario"] == "single-sample" and row["dataset"] not in MADE_WITHOUT
    ]
    missed = [row for row in rows if not _covered(row)]
    where = ", ".join(f"{name} ({n})" for name, n in Counter(row["dataset"] for row in missed).items())
    evident = [row for row in rows if _evident(row)]
    reached = {True: "**reached**", False: "**missed**"}
    return "\n".join(
        [
            "- With 50 labelled positives or more and a pure region, the mean error of `auto` should be at most 0.05. "
            f"It is {auto:.3f}, {reached[auto <= 0.05]} (n = {len(aimed)}). On all data sets except those made "
            f"without a pure region it is {prior_error(without_rule, 'auto'):.3f} (n = {len(without_rule)}); some of "
            "these have no pure region by the rule.",
            "- In the same runs the error of `auto` should be below that of pulearn's best estimator: "
            f"{auto:.3f} against {best:.3f}, {reached[auto < best]}.",
            f"- The range should contain the true prior in 95 %. It does in {len(rows) - len(missed)} of {len(rows)} "
            f"runs{f'; it misses it on {where}' if missed else ''}.",
            f"- Pure positives are evident in {len(evident)} runs. There the mean error of `auto` is "
            f"{prior_error(evident, 'auto'):.3f}.",
        ]
    )


def _aimed_at(row: Row) -> bool:
    return bool(row["pure"]) and row["n_labelled"] >= 50


def _covered(row: Row) -> bool:
    low, high = row["interval"]
    return bool(low <= row["prior"] <= high)


def _evident(row: Row) -> bool:
    return bool(row["evident"])


def feedback_rows() -> list[Row]:
    return read_rows([committed_rows() / "feedback" / "feedback.jsonl"])


def feedback() -> str:
    """Positives found in all rounds, a line per table."""
    rows = feedback_rows()
    by_table: dict[str, list[Row]] = {}
    for row in rows:
        by_table.setdefault(row["table"], []).append(row)
    strategies = list(rows[0]["strategies"])
    lines = []
    for table, draws in by_table.items():
        found = [_mean(row["strategies"][key]["found"][-1] for row in draws) for key in strategies]
        first = draws[0]
        lines.append([table, f"{first['rows']:,}", first["labelled"], *(f"{n:.1f}" for n in found), len(draws)])
    means = [_mean(float(line[3 + i]) for line in lines) for i in range(len(strategies))]
    lines.append(["**mean**", "", "", *(f"**{mean:.1f}**" for mean in means), len(rows)])
    return markdown(["table", "rows", "labelled", *strategies, "n"], lines)


def feedback_intervals() -> str:
    """How often the stated intervals hold the truth, and how wide they are."""
    claims: dict[tuple[str, str], list[list[float]]] = {}
    for row in feedback_rows():
        for strategy, result in row["strategies"].items():
            for stated in result["stated"]:
                for what, ends in stated.items():
                    claims.setdefault((strategy, what), []).append(ends)
    lines = []
    for (strategy, what), stated in claims.items():
        held = sum(low - 1e-5 <= truth <= high + 1e-5 for truth, low, high in stated)  # rows have five digits
        width = _mean(high - low for _, low, high in stated)
        lines.append([strategy, what, f"{held} of {len(stated)}", f"{width:.2f}"])
    return markdown(["rows asked", "figure", "holds", "width"], lines)


def metrics_bias() -> str:
    """The largest mean error of each metric over the priors, by scenario and number of labelled rows."""
    rows = read_rows([committed_rows() / "metrics" / "bias.jsonl"])
    places = sorted({(row["scenario"], row["labelled"]) for row in rows})
    lines = []
    for name in dict.fromkeys(row["metric"] for row in rows):
        own = [row for row in rows if row["metric"] == name]
        low, high = (f(row["truth"] for row in own) for f in (min, max))
        errors = [[row["bias"] for row in own if (row["scenario"], row["labelled"]) == place] for place in places]
        lines.append([f"`{name}`", f"{low:.2f} to {high:.2f}", *(f"{max(e, key=abs):+.3f}" for e in errors)])
    return markdown(["metric", "true values", *(f"{scenario}, {n}" for scenario, n in places)], lines)


def metrics_curves() -> str:
    """Mean error and root mean squared error of points of the curves, at three recalls."""
    rows = read_rows([committed_rows() / "metrics" / "curves.jsonl"])
    places = sorted({(row["scenario"], row["labelled"]) for row in rows})
    lines = []
    for name in dict.fromkeys(row["value"] for row in rows):
        for i, recall in enumerate(rows[0]["recalls"]):
            own = {(row["scenario"], row["labelled"]): row for row in rows if row["value"] == name}
            cells = [f"{own[place]['bias'][i]:+.3f} ({own[place]['rmse'][i]:.3f})" for place in places]
            lines.append([name, f"{recall}", *cells])
    return markdown(["point", "at recall", *(f"{scenario}, {n}" for scenario, n in places)], lines)


def torture() -> str:
    """The counts of the long tests, a line each: of each test the newest row.

    Model files are attacked in several runs, with a seed each. Those of the newest commit are added up.
    """

    def rows(name: str) -> list[Row]:
        found = read_rows([committed_rows() / "reliability" / f"{name}.jsonl"])
        return list({row.get("topic"): row for row in found}.values())

    lines = [
        [
            "killed writers of rows",
            f"{row['kills']:,} kills, {row['kills_in_write']} in a write, {row['writers']} writers at once",
            f"{row['rows_done']} rows reported done, {row['lost']} lost, {row['doubled']} doubled",
        ]
        for row in rows("rows")
    ]
    models = read_rows([committed_rows() / "reliability" / "models.jsonl"])
    for row in rows("models"):
        if "cases" in row:
            runs = [one for one in models if (one["topic"], one.get("commit")) == (row["topic"], row["commit"])]
            cases, refused, fine, other = (
                sum(one[name] for one in runs) for name in ("cases", "ModelFileError", "loaded and predicts", "other")
            )
            tried = f"{refused:,} refused, {fine:,} load and predict, {other} other"
            lines.append([row["topic"], f"{cases:,} files", tried])
        else:
            tried = f"{row['kills']:,} kills, {row['reads']:,} reads beside the writer"
            lines.append([row["topic"], tried, f"{row['failed']} failed, {row['leftovers']} leftovers"])
    for row in rows("checkpoints"):
        where = f"{row['mid_epoch']} inside an epoch" if row["mid_epoch"] else f"{row['with_file']} after a first piece"
        tried = f"{row['kills']:,} kills, {row['in_save']} in a save, {where}"
        same = f"{row['trainings']} trainings, {row['different']} ended differently, {row['leftovers']} leftovers"
        lines.append([row.get("topic", "killed trainings"), tried, same])
    for row in rows("soak"):
        grown = (
            f"{row['MiB grown']:.0f} MiB, {row['descriptors grown']} open files, {row['threads grown']} threads grown"
        )
        lines.append(["fits in one process", f"{row['fits']:,} fits, {row['methods']} methods", grown])
    for row in rows("inputs"):
        fine = f"{row['refused']:,} refused in one line, {row['works']} work"
        lines.append([row["topic"], f"{row['cases']:,} calls, files and commands", f"{fine}, {row['other']} other"])
    for row in rows("lowest"):
        but = f" but {', '.join(row['kept'])}" if row["kept"] else ""
        tried = f"all dependencies{but}, tests of {row['topic']}"
        lines.append(["lowest versions", tried, f"{row['passed']} tests passed, {row['skipped']} skipped"])
    return markdown(["what", "how much", "outcome"], lines)


def memory() -> str:
    """The most memory that loading takes: of each kind of model the newest row."""
    rows = {row["kind"]: row for row in read_rows([committed_rows() / "reliability" / "memory.jsonl"])}
    numbers = ("MiB of the files", "MiB at the peak")
    lines = [[kind, *(f"{row[name]:.1f}" for name in numbers), f"{row['ratio']:.2f}"] for kind, row in rows.items()]
    return markdown(["loading", *numbers, "ratio"], lines)


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers)


MARKS_RISK = runpy.run_path(str(ROOT / "benchmarks" / "marks_risk.py"))


def marks_risk() -> str:
    """Accuracy of the risk methods on MNIST, and what was published about three of them."""
    lines = []
    for row in rows_of(MARKS_RISK["specs"](), committed_rows()):
        accuracy, published = 100 - row["test_error"], MARKS_RISK["PUBLISHED"].get(row["method"])
        beside = ["–", "–"] if published is None else [f"{published:.1f}", f"{accuracy - published:+.1f}"]
        epochs = " + ".join(str(row["params"][name]) for name in ("epochs", "mixup_epochs") if name in row["params"])
        lines.append([f"`{row['method']}`", epochs, f"{accuracy:.1f}", *beside])
    return markdown(["method", "epochs", "accuracy, %", "PU-Bench", "difference"], lines)


TABLES = {
    "README.md": {"paper": headline, "methods": methods},
    "docs/index.md": {"demo": demo},
    "docs/api.md": {"classifiers": classifiers},
    "docs/methods.md": {"methods": guide, "seconds": partial(defaults, "seconds"), "marks-risk": marks_risk},
    "docs/defaults.md": {
        "table": defaults,
        **runpy.run_path(str(ROOT / "benchmarks" / "_defaults_page.py"))["TABLES"],
    },
    "docs/league.md": {
        "league": league,
        "label-marks": runpy.run_path(str(ROOT / "benchmarks" / "label_marks.py"))["table"],
    },
    "docs/priors.md": {
        "aim": prior_aim,
        "methods": prior_methods,
        "single-sample": partial(prior_errors, "single-sample"),
        "case-control": partial(prior_errors, "case-control"),
    },
    "docs/python.md": {"bias": metrics_bias, "curves": metrics_curves},
    "docs/reliability.md": {"torture": torture, "memory": memory},
    "docs/review.md": {"feedback": feedback, "feedback-intervals": feedback_intervals},
    "docs/evidence.md": runpy.run_path(str(ROOT / "benchmarks" / "_evidence_page.py"))["TABLES"],
    "docs/frontier.md": runpy.run_path(str(ROOT / "benchmarks" / "_frontier_page.py"))["TABLES"],
    "docs/scale.md": runpy.run_path(str(ROOT / "benchmarks" / "_scale_page.py"))["TABLES"],
    "docs/performance.md": runpy.run_path(str(ROOT / "benchmarks" / "_performance_page.py"))["TABLES"],
    "docs/paper.md": {
        **{f"table-{table}": partial(paper_table, table) for table in (1, 2, 3, 4)},
        "other-encoder": partial(other_encoder, "minilm-mean"),
        "tally": paper_tally,
        "mnist-base": mnist_base,
        "mnist-base-again": mnist_base_again,
        "mnist-capacity": mnist_capacity,
    },
}


def rendered(name: str) -> str:
    """The text of a page with its tables updated."""
    text = (ROOT / name).read_text(encoding="utf-8")
    for mark, make in TABLES[name].items():
        pattern = rf"(<!-- {mark} -->\n).*?(<!-- /{mark} -->)"
        text = re.sub(pattern, lambda match, make=make: f"{match[1]}{make()}\n{match[2]}", text, flags=re.DOTALL)
    return text


if __name__ == "__main__":
    for page in TABLES:
        (ROOT / page).write_text(rendered(page), encoding="utf-8")
