"""Positives found when answers go into the next fit, with the truth of real tables as the person who answers.

    python benchmarks/feedback.py 3     # three draws of labels; a second call goes on where the first stopped

Four rounds of 50 answers. Rows are in results/feedback/; docs/review.md says what they mean. Needs the group `evidence`
of pyproject.toml.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import _real_tables as tables
import numpy as np
import numpy.typing as npt
import polars as pl

from pulab.bench import append_row, read_rows
from pulab.calibration import PUCalibrator
from pulab.model_selection import PUStratifiedKFold
from pulab.priors import PriorEstimate
from pulab.review import Answers, measured
from pulab.review.design import Draw, draw
from pulab.summary import Summary
from pulab.tables import _evaluate as evaluate
from pulab.tables._crossfit import CrossFit, Views
from pulab.tables._prepare import learn_features, prepare
from pulab.tables._review import like_the_open

ROWS = Path(__file__).parents[1] / "results" / "feedback" / "feedback.jsonl"
TABLES = ("caravan", "loans", "crash", "churn", "credit", "lending", "covid", "diamonds")
ROUNDS, BUDGET = 4, 50
DEPTHS = (100, 500)
Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.intp]


class Simulated:
    """A table of which all labels are known, and what was answered so far."""

    def __init__(self, name: str, seed: int) -> None:
        drawn = tables.draw(name, seed)
        self.truth, self.seed = drawn.truth, seed
        data = prepare(drawn.frame, tables.LABEL)
        self.labelled = data.labelled
        self.X = Views(*learn_features(data, seed))
        self.first = self.cross_fit(np.zeros(len(self.truth), dtype=np.int8))

    def cross_fit(self, answers: npt.NDArray[np.int8], given: PriorEstimate | None = None) -> CrossFit:
        """The fits of the tool with these answers."""
        return CrossFit(
            self.X, self.labelled, given, "single-sample", self.seed, lambda text, done, total: None, answers=answers
        )


class Strategy:
    """Whom to ask in each round, and how to learn from the answers."""

    def __init__(self, table: Simulated) -> None:
        self.table, self.answers = table, np.zeros(len(table.truth), dtype=np.int8)
        self.given: PriorEstimate | None = None
        self.fits = table.first

    @property
    def scores(self) -> Array:
        """Of all rows, by models that have not seen them."""
        return self.fits.held_out("boosting").scores

    def is_open(self) -> npt.NDArray[np.bool_]:
        """The rows with neither a label nor an answer."""
        return ~self.table.labelled & (self.answers == 0)

    def choose(self) -> Index:
        """The rows to ask about: the next candidates."""
        rows = np.flatnonzero(self.is_open())
        return rows[np.argsort(-self.scores[rows], kind="stable")[:BUDGET]]

    def learn(self) -> None:
        """Fit again."""
        self.fits = self.table.cross_fit(self.answers, self.given)

    def stated(self) -> dict[str, list[float]]:
        """The truth of each figure that the tool states, and the ends of its interval."""
        truth, labelled = self.table.truth, self.table.labelled
        prior = self.fits.prior_of("boosting")
        points = evaluate.review(labelled, self.scores, prior, "single-sample", [], self.answers)
        rows = np.flatnonzero(self.is_open())
        found = np.cumsum(truth[rows[np.argsort(-self.scores[rows], kind="stable")]])
        claims = {"share": [float(truth.mean()), *prior.interval]}
        for point in points:
            if (k := point["k"]) in DEPTHS:
                claims[f"recall {k}"] = [found[k - 1] / found[-1], point["recall_low"], point["recall_high"]]
                claims[f"precision {k}"] = [found[k - 1] / k, point["precision_low"], point["precision_high"]]
        return claims

    def run(self) -> dict[str, Any]:
        """Positives found after each round, and what is stated then."""
        found, stated = [], []
        for number in range(ROUNDS):
            rows = self.choose()
            self.answers[rows] = np.where(self.table.truth[rows], 1, -1)
            found.append(int((self.answers > 0).sum()))
            self.after(rows)
            if type(self).stated is not Strategy.stated and number == ROUNDS - 1:
                break
            self.learn()
            stated.append(self.stated())
        return {"found": found, "stated": stated}

    def after(self, rows: Index) -> None:
        """What the answers measure, if these rows were drawn at random."""


class Silent(Strategy):
    """A strategy of others, whose figures are not looked at."""

    def stated(self) -> dict[str, list[float]]:
        return {}


class Once(Silent):
    """The first candidates of the first ranking."""

    def learn(self) -> None:
        """Nothing."""


class Drawn(Strategy):
    """The stratified draw of `pulab review`; what it measures is the prior of the next fit."""

    def choose(self) -> Index:
        rows = np.flatnonzero(self.is_open())
        scores = self.scores
        high = self.fits.prior_of("boosting").interval[1]
        rng = np.random.default_rng(self.table.seed)
        drawn = draw(scores[rows], scores[self.table.labelled], high, rng, BUDGET)
        like = like_the_open(drawn, scores[rows], scores[self.answers != 0])
        asked = rows[drawn.rows]
        self.draw = Draw(pl.DataFrame({"row": asked}), drawn.stratum.tolist(), drawn.ends.tolist(), like.tolist())
        self.before = int((self.answers > 0).sum()), len(rows), self.fits.prior_of("boosting").interval
        return asked

    def after(self, rows: Index) -> None:
        n_found, n_open, (low, high) = self.before
        summary = {
            "table": {"rows": len(self.answers), "labelled": int(self.table.labelled.sum()), "unlabeled": n_open},
            "scenario": "single-sample",
            "reviewed": {"positive": n_found, "negative": 0},
            "prior": {"low": low, "high": high},
        }
        words = [(i, "yes" if self.table.truth[row] else "no") for i, row in enumerate(rows)]
        share = measured(Answers(self.draw, words), cast(Summary, summary))
        assert share is not None
        prior = share["prior"]
        self.given = PriorEstimate(prior["value"], (prior["low"], prior["high"]), "measured", source="measured")


class Uncertain(Silent):
    """The rows whose probability is nearest to one half."""

    def choose(self) -> Index:
        prior = evaluate.middle(self.fits.prior_of("boosting"))
        p = PUCalibrator(prior, "single-sample").fit(self.scores, self.table.labelled)(self.scores)
        rows = np.flatnonzero(self.is_open())
        return rows[np.argsort(np.abs(p[rows] - 0.5), kind="stable")[:BUDGET]]


class Negative(Silent):
    """LightGBM with its defaults, fitted to known positives against all other rows."""

    @property
    def scores(self) -> Array:
        import lightgbm

        known = self.table.labelled | (self.answers > 0)
        scores, X = np.empty(len(known)), self.table.X.numbers
        for train, test in PUStratifiedKFold(5, random_state=self.table.seed).split(known, known):
            model = lightgbm.LGBMClassifier(random_state=self.table.seed, verbose=-1, n_jobs=1)
            scores[test] = model.fit(X[train], known[train]).predict_proba(X[test])[:, 1]
        return scores

    def learn(self) -> None:
        """The scores are computed when they are needed."""


STRATEGIES: dict[str, Callable[[Simulated], Strategy]] = {
    "rank once": Once,
    "next candidates": Strategy,
    "stratified draw": Drawn,
    "uncertainty": Uncertain,
    "U is negative": Negative,
}


def main(draws: int) -> None:
    """Simulate what is not in the file yet."""
    done = {(row["table"], row["seed"]) for row in read_rows([ROWS])} if ROWS.exists() else set()
    for seed in range(draws):
        for name in TABLES:
            if (name, seed) in done:
                continue
            table = Simulated(name, seed)
            results = {key: strategy(table).run() for key, strategy in STRATEGIES.items()}
            row = {"table": name, "seed": seed, "rows": len(table.truth), "positives": int(table.truth.sum())}
            append_row(ROWS, {**row, "labelled": int(table.labelled.sum()), "strategies": rounded(results)})
            print(name, seed, {key: result["found"] for key, result in results.items()}, flush=True)


def rounded(value: Any) -> Any:
    """Numbers with five digits."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return round(float(value), 5) if isinstance(value, float) else value


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
