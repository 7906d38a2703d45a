"""Do the intervals of `pulab review` hold the truth? Simulated tables, with random and with biased labelling.

Scores are normal, and those of positives are shifted. Labelling is "random"; "steep": a positive is labelled e^(x/2)
times as often, x its score; "steeper": e^x; or "hidden": three in ten positives score like negatives, and none of
these is labelled. Each review stops after 100 answers, or ("narrow") once the interval is half as wide as the range
that was known before, looked at after every tenth answer.

Prints, by labelling, the share of reviews whose interval holds the truth, and the median width as a part of the range
from n_p/n to the upper bound. `python benchmarks/review.py 50` repeats each setting 50 times (about 15 minutes).
"""

import sys
from typing import NamedTuple

import numpy as np

from pulab.metrics import Array
from pulab.review.design import Drawn, draw
from pulab.review.measure import TAIL, Counts, by_design, posterior


class Setting(NamedTuple):
    """A table, and the upper bound of its share of positives that a fit may find."""

    n: int
    share: float
    shift: float
    labelled: int
    upper: float


SETTINGS = [  # like tables of customers, loans, crashes, flights, churn, birds, tweets, diamonds, pets; and a small one
    Setting(4000, 0.057, 0.8, 116, 0.4),
    Setting(7000, 0.018, 1.0, 50, 0.3),
    Setting(18000, 0.046, 1.5, 250, 0.2),
    Setting(300000, 0.081, 0.95, 4800, 0.24),
    Setting(5000, 0.264, 1.35, 390, 0.45),
    Setting(14000, 0.1, 1.5, 337, 0.2),
    Setting(14000, 0.22, 1.8, 200, 0.32),
    Setting(37000, 0.03, 2.2, 40, 0.06),
    Setting(37000, 0.33, 2.5, 500, 0.37),
    Setting(2000, 0.02, 1.2, 20, 0.2),
]
STEEPNESS = {"random": 0.0, "steep": 0.5, "steeper": 1.0, "hidden": 0.0}


def table(setting: Setting, labelling: str, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Scores of unlabeled rows, which of them are positive, and scores of labelled rows."""
    y = rng.random(setting.n) < setting.share
    x = rng.normal(size=setting.n) + setting.shift * y
    positive = np.flatnonzero(y)
    chance = np.exp(STEEPNESS[labelling] * x[positive])
    if labelling == "hidden":
        hidden = rng.permutation(len(positive)) < min(0.3 * len(positive), len(positive) - setting.labelled)
        x[positive[hidden]] = rng.normal(size=hidden.sum())
        chance[hidden] = 0
    labelled = rng.choice(positive, setting.labelled, replace=False, p=chance / chance.sum())
    rest = np.setdiff1d(np.arange(setting.n), labelled)
    return x[rest], y[rest], x[labelled]


def counts_of(drawn: Drawn, answers: Array) -> Counts:
    """The first answers of a draw, by band."""
    stratum, n = drawn.stratum[: len(answers)], len(drawn.ends)
    yes, no = (np.bincount(stratum[answers == value], minlength=n).astype(float) for value in (True, False))
    return Counts(np.diff(drawn.ends, prepend=0).astype(float), drawn.labelled.astype(float), yes, no)


def interval(counts: Counts, slope: float | None = None) -> Array:
    """Of the number of positives."""
    total = posterior(counts, np.random.default_rng(0), slope=slope).positives.sum(axis=1)
    return np.asarray(np.quantile(total, [TAIL, 1 - TAIL]))


def review(setting: Setting, labelling: str, stop: str, rng: np.random.Generator) -> list[float]:
    """Whether the three intervals hold and how wide they are, whether precision holds, and if bias is found."""
    scores, y, labelled = table(setting, labelling, rng)
    drawn = draw(scores, labelled, setting.upper, rng)
    answers = y[drawn.rows]
    known = setting.upper * setting.n - setting.labelled
    n = 100
    if stop == "narrow":
        looks = range(20, len(answers), 10)
        n = next((n for n in looks if np.ptp(interval(counts_of(drawn, answers[:n]))) <= known / 2), len(answers))
    counts = counts_of(drawn, answers[:n])
    found = posterior(counts, np.random.default_rng(0))
    result = []
    for low, high in (interval(counts), interval(counts, slope=1.0), by_design(counts)):
        result += [low <= y.sum() <= high, (high - low) / known]
    low, high = np.quantile(found.positives[:, 0], [TAIL, 1 - TAIL])
    top = y[np.argsort(-scores, kind="stable")[: drawn.ends[0]]].sum()
    biased = 2 * min((found.slope < 1).mean(), (found.slope > 1).mean()) <= 0.01
    return [float(value) for value in (*result, low <= top <= high, biased, n)]


def main(trials: int) -> None:
    """Print a line per kind of labelling and rule to stop, and one per setting."""
    print("labelling, stop | holds, width: measured | if random | by design | holds: first 100 | bias found | answers")
    for stop in ("100", "narrow"):
        for labelling in STEEPNESS if stop == "100" else ("random", "steep"):
            results = []
            for i, setting in enumerate(SETTINGS):
                rng = np.random.default_rng(i)
                results.append([review(setting, labelling, stop, rng) for _ in range(trials)])
                print("  ", tuple(setting), _line(np.array(results[-1])), flush=True)
            print(labelling, stop, "|", _line(np.concatenate(results)), flush=True)


def _line(r: Array) -> str:
    pairs = " | ".join(f"{r[:, i].mean():.3f} {np.median(r[:, i + 1]):.2f}" for i in (0, 2, 4))
    return f"{pairs} | {r[:, 6].mean():.3f} | {r[:, 7].mean():.3f} | {np.median(r[:, 8]):.0f}"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
