"""Compare every figure that a fitted table states with the truth.

    python benchmarks/evidence.py run     # fits tables × draws; a second call goes on where the first stopped
    python benchmarks/evidence.py page    # writes the tables of docs/evidence.md

Needs the group `evidence` of pyproject.toml. Rows are in results/evidence/; docs/evidence.md says what they mean.
"""

import argparse
import importlib.util
import inspect
import runpy
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import _real_tables as tables
import numpy as np
import numpy.typing as npt
import polars as pl
from _evidence_page import bounded, covered
from sklearn import metrics as true_metrics
from sklearn.model_selection import StratifiedKFold

from pulab.bench import append_row, read_rows
from pulab.bench.runner import commit
from pulab.tables import fit_table
from pulab.tables._crossfit import CrossFit

ROOT = Path(__file__).parents[1]
ROWS = ROOT / "results" / "evidence"
DEPTHS = (100, 500)  # candidates reviewed
GROUPS = ((0, 100), (100, 300), (300, 1000))  # candidates by rank, whose mean probability is compared
ANSWERS = 100
MEASURED = {
    "prior": "measured",
    "prior_if_random": "measured, labelling random",
    "prior_by_design": "measured, nothing assumed",
}
LABELLINGS = ("random", "biased", "told")  # told: biased, and the column is named to `fit_table`

Array = npt.NDArray[np.float64]
Marks = npt.NDArray[np.bool_]
Claim = dict[str, Any]  # what, truth; low and high of the stated interval; value, the stated point


def claim(what: str, truth: float, low: float | None, high: float | None, value: float | None = None) -> Claim:
    """A stated figure beside its truth."""
    return {"what": what, "truth": float(truth), "low": low, "high": high, "value": value}


def ends(stated: dict[str, Any], prefix: str, old: str) -> tuple[float | None, float | None]:
    """The ends of an interval: two keys, or one key with both in older summaries."""
    low, high = stated.get(old) or (None, None)
    return stated.get(f"{prefix}low", low), stated.get(f"{prefix}high", high)


def claims_of(summary: dict[str, Any], candidates: pl.DataFrame, score: Array, draw: tables.Draw) -> list[Claim]:
    """Everything that a summary states about the first table, with the truth."""
    order = ranking(score, draw.labelled)
    found = np.cumsum(draw.truth[order])
    prior = summary["prior"]
    claims = [claim("share of positives", draw.truth.mean(), *ends(prior, "", "interval"), prior.get("value"))]
    truths = true_figures(called(candidates, score), score, draw.truth)
    for item in summary["metrics"]:
        if item["name"] in truths:
            stated = ends(item, "", "between")
            claims.append(claim(item["name"], truths[item["name"]], *stated, item.get("value")))
    for item in summary["review"]:
        k = item["k"]
        if k in DEPTHS:
            recall = found[k - 1] / found[-1]
            lift = ends(item, "lift_", "lift_band")
            stated = ends(item, "precision_", "precision_band")
            claims += [
                claim(f"precision of the first {k}", found[k - 1] / k, *stated, item.get("precision")),
                claim(f"recall of the first {k}", recall, *ends(item, "recall_", "recall_band"), item.get("recall")),
                claim(f"lift of the first {k}", recall * len(order) / k, *lift, item.get("lift")),
            ]
    return [item for item in claims if (item["low"], item["value"]) != (None, None)]


def ranking(score: Array, labelled: Marks) -> npt.NDArray[np.intp]:
    """The unlabeled rows, best first."""
    unlabeled = np.flatnonzero(~labelled)
    return unlabeled[np.argsort(-score[unlabeled], kind="stable")]


def called(candidates: pl.DataFrame, score: Array) -> Marks:
    """The rows called positive: those that score as high as the last candidate that is called so."""
    positive = candidates.filter(pl.col("decision").cast(pl.Boolean))
    return score >= (positive["score"].min() if positive.height else np.inf)


def true_figures(decided: Marks, score: Array, truth: Marks) -> dict[str, float]:
    """The figures of a summary, from all true labels. Those of called rows are left out if no row is called."""
    recall = float(decided[truth].mean())
    figures = {
        "recall": recall,
        "accuracy": float((decided == truth).mean()),
        "roc_auc": true_metrics.roc_auc_score(truth, score),
        "average_precision": true_metrics.average_precision_score(truth, score),
    }
    if decided.any():
        figures["precision"] = float(truth[decided].mean())
        figures["f1"] = true_metrics.f1_score(truth, decided)
        figures["lee_liu"] = recall**2 / float(decided.mean())
    return figures


def probability_claims(candidates: pl.DataFrame, truth: Marks) -> list[Claim]:
    """The mean stated probability of groups of candidates beside their true share, and how far chance moves it."""
    stated = candidates["probability_unlabeled"] if "probability_unlabeled" in candidates.columns else None
    ranges = [name for name in ("probability_low", "probability_high") if name in candidates.columns]
    hits = truth[candidates["row"].to_numpy() - 1]
    claims = []
    for first, last in GROUPS:
        if candidates.height >= last:
            rows = slice(first, last)
            low, high = (candidates[name][rows].mean() for name in ranges) if len(ranges) == 2 else (None, None)
            value = None if stated is None else stated[rows].mean()
            n, n_hits = last - first, int(hits[rows].sum())
            share = (n_hits + 1) / (n + 2)  # never 0 or 1, so that the chance below is never none
            chance = 1.96 * float(np.sqrt(share * (1 - share) / n))
            what = f"probability, candidates {first + 1} to {last}"
            claims.append({**claim(what, n_hits / n, low, high, value), "chance": chance})
    return claims


@contextmanager
def watched() -> Iterator[dict[str, Any]]:
    """Inside, every cross-fit of all rows leaves its held-out scores here by method, and its numbers as `X`."""
    seen: dict[str, Any] = {}
    held_out = CrossFit.held_out

    def remember(self: Any, method: str, *args: Any, **named: Any) -> Any:
        result = held_out(self, method, *args, **named)
        if not np.isnan(result.scores).any():
            seen[method] = result.scores
        seen["X"] = self.X.numbers
        return result

    with mock.patch.object(CrossFit, "held_out", remember):
        yield seen


def plain_scores(X: Any, labelled: Marks, seed: int) -> Array:
    """Held-out scores of LightGBM at its defaults, taught labelled against unlabeled."""
    from lightgbm import LGBMClassifier

    scores = np.full(len(labelled), np.nan)
    for train, test in StratifiedKFold(5, shuffle=True, random_state=seed).split(labelled, labelled):
        model = LGBMClassifier(verbose=-1, n_jobs=1, random_state=seed).fit(X[train], labelled[train])
        scores[test] = model.predict(X[test], raw_score=True)
    return scores


def after_review(model: Any, score: Array, draw: tables.Draw) -> list[Claim]:
    """What answers to the first rows of the model's draw measure; empty if this pulab has no review."""
    if importlib.util.find_spec("pulab.review") is None:
        return []
    from pulab import review

    rows = model.draw.frame["row"].to_numpy()[:ANSWERS] - 1
    given = [(place, "yes" if draw.truth[row] else "no") for place, row in enumerate(rows)]
    return measured_claims(review.measured(review.Answers(model.draw, given), model.summary), score, draw)


def measured_claims(measured: dict[str, Any], score: Array, draw: tables.Draw) -> list[Claim]:
    """Measured figures beside their truth."""
    found = np.cumsum(draw.truth[ranking(score, draw.labelled)])
    claims = []
    for key, words in MEASURED.items():
        if measured[key] is not None:
            ends, value = (measured[key]["low"], measured[key]["high"]), measured[key]["value"]
            claims.append(claim(f"share, {words}", draw.truth.mean(), *ends, value))
    for item in measured["review"]:
        k = item["k"]
        if k in DEPTHS:
            for name, truth in (("precision", found[k - 1] / k), ("recall", found[k - 1] / found[-1])):
                stated = item[f"{name}_low"], item[f"{name}_high"], item[name]
                claims.append(claim(f"{name} of the first {k}, measured", truth, *stated))
    for item in measured["calibration"]:
        hits = found[item["last"] - 1] - (found[item["first"] - 2] if item["first"] > 1 else 0)
        size = item["last"] - item["first"] + 1
        claims.append(claim("bands of the ranking, measured", hits / size, item["low"], item["high"]))
    return claims


def ranking_of(model: Any) -> npt.NDArray[np.intp]:
    """The rows of a model's candidates, best first, counted from 0."""
    return model.candidates["row"].to_numpy().astype(np.intp) - 1


def measure(name: str, seed: int, labelling: str) -> dict[str, Any]:
    """Fit one draw of a table with all defaults, and compare."""
    draw = tables.draw(name, seed, biased=labelling != "random")
    named = {"labelled_by": [tables.find(name).bias]} if labelling == "told" else {}
    start = time.process_time()
    with watched() as seen:
        model = fit_table(draw.frame, tables.LABEL, **named)
    seconds = time.process_time() - start
    chosen = model.summary["method"]["key"]
    score = seen[chosen]
    order = ranking(score, draw.labelled)
    if set(order[:100]) != set(ranking_of(model)[:100]) and len(set(score)) == len(score):
        raise RuntimeError(f"{name}, draw {seed}: the watched scores do not rank as the candidates do")
    plain = plain_scores(seen["X"], draw.labelled, seed)
    claims = claims_of(dict(model.summary), model.candidates, score, draw)
    claims += probability_claims(model.candidates, draw.truth) + after_review(model, score, draw)
    return {
        "table": name,
        "seed": seed,
        "labelling": labelling,
        "rows": len(draw.truth),
        "labelled": int(draw.labelled.sum()),
        "share": float(draw.truth.mean()),
        "evident": model.summary["prior"].get("evident"),
        "chosen": chosen,
        "auc": true_metrics.roc_auc_score(draw.truth, score),
        "plain_auc": true_metrics.roc_auc_score(draw.truth, plain),
        "hits": int(draw.truth[ranking_of(model)[:100]].sum()),
        "plain_hits": int(draw.truth[ranking(plain, draw.labelled)[:100]].sum()),
        "cpu_seconds": seconds,
        "claims": claims,
        "warnings": len(model.summary["warnings"]),
        "commit": commit(),
    }


def run(out: Path, names: list[str], draws: int, labelling: str, budget: float) -> None:
    """Fit what has no row yet: the first draw of every table, then the second."""
    if labelling == "told" and "labelled_by" not in inspect.signature(fit_table).parameters:
        raise SystemExit("this pulab cannot be told what the labelling depends on")
    done = {(row["table"], row["seed"], row["labelling"]) for row in read_rows([out] if out.exists() else [])}
    start = time.monotonic()
    for seed in range(draws):
        for name in names:
            if (name, seed, labelling) in done:
                continue
            if time.monotonic() - start > 60 * budget:
                print(f"stopped after {budget:g} minutes; call again to go on")
                return
            row = measure(name, seed, labelling)
            append_row(out, row)
            print(
                f"{name} {seed}: {row['chosen']}, {row['hits']} of the first 100 (plain: {row['plain_hits']}), "
                f"{sum(map(covered, row['claims']))} of {sum(map(bounded, row['claims']))} intervals hold, "
                f"{row['cpu_seconds']:.0f} s",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "page"))
    parser.add_argument("--tables", default=",".join(table.name for table in tables.TABLES), help="names, with commas")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--labelling", choices=LABELLINGS, default="random")
    parser.add_argument("--budget", type=float, default=float("inf"), help="minutes; no fit starts after them")
    parser.add_argument("--out", type=Path, default=ROWS / "now.jsonl")
    options = parser.parse_args()
    if options.what == "page":
        runpy.run_path(str(ROOT / "docs" / "render.py"), run_name="__main__")
    else:
        run(options.out, options.tables.split(","), options.draws, options.labelling, options.budget)


if __name__ == "__main__":
    main()
