"""The evaluation of a model by held-out scores: figures with intervals, curves, warnings."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from scipy.stats import beta
from scipy.stats import t as student

from pulab.calibration import PUCalibrator, among_unlabeled
from pulab.metrics import Array, accuracy_of, f1_of, precision_of, roc_auc_of, separation
from pulab.priors import PriorEstimate
from pulab.priors._range import COUNTS
from pulab.summary import Distributions, Feature, Metric, ReviewPoint, WhatIf
from pulab.tables._strata import BIAS, Box, Counted, Triple, known_share

Marks = NDArray[np.bool_]
Answers = NDArray[np.int8]  # by row: 1 for a confirmed positive, -1 for a confirmed negative, 0 for none


class Population(NamedTuple):
    """The rows that the prior is a share of, and how many hidden positives a prior means."""

    rows: Marks
    n_labelled: int  # of these rows
    n_unlabeled: int

    @classmethod
    def of(cls, labelled: Marks, scenario: str) -> "Population":
        """All rows of a single sample; the unlabeled rows of case-control data."""
        in_one_sample = scenario == "single-sample"
        n_labelled = int(labelled.sum())
        rows = np.ones_like(labelled) if in_one_sample else ~labelled
        return cls(rows, n_labelled if in_one_sample else 0, len(labelled) - n_labelled)

    def hidden(self, prior: float) -> float:
        """The number of positives among the unlabeled rows."""
        return max(0.0, prior * (self.n_labelled + self.n_unlabeled) - self.n_labelled)


def middle(prior: PriorEstimate) -> float:
    """The share of positives; the geometric middle of its range where only that is known."""
    return prior.value or math.sqrt(prior.interval[0] * prior.interval[1])


def with_found(prior: PriorEstimate, labelled: Marks, score: Array, answers: Answers, scenario: str) -> PriorEstimate:
    """The same with a lower end that the confirmed positives allow.

    If the rows above a score hold a share r of the labelled rows, they hold about that share of the hidden positives.
    So c confirmed positives there mean c/r hidden ones or more. The score is the middle one of the confirmed positives.
    """
    found = score[answers > 0]
    if not len(found):
        return prior
    at = float(np.median(found))
    n_labelled = int(labelled.sum())
    _, _, most = _share_interval(float((score[labelled] >= at).mean()), n_labelled)
    hidden = max(len(found), float((found >= at).sum()) / most)
    population = Population.of(labelled, scenario)
    low, high = prior.interval
    low = max(low, (population.n_labelled + hidden) / population.rows.sum())
    return replace(prior, prior=max(prior.prior, low), interval=(low, max(low, high)))


def figures(
    labelled: Marks,
    score: Array,
    called: Marks | None,
    prior: PriorEstimate,
    scenario: str,
    strata: Counted | None = None,
) -> list[Metric]:
    """The figures of the report, each with its range.

    Every figure is a formula of the prior and of something that labelled rows tell: a share, or a mean over them. It
    rises or falls steadily with each of the two. So its range has its ends at the ends of both ranges. With strata,
    each of them tells its own mean. Average precision is no mean over strata and is left out then.
    """
    population = Population.of(labelled, scenario).rows
    above = _share_above(score[labelled], score[population])
    parts = _parts(labelled, strata)
    mean = (lambda triples: triples[0]) if strata is None else strata.box(prior).mean
    if known_share(prior, strata) is None:
        prior = replace(prior, evident=False, source="estimated")  # figures have no values, only ranges
    separated = mean([_mean_interval(1 - above[part]) for part in parts])
    metrics = [
        _metric("separation", lambda prior, x: x, separated, None),
        _metric("roc_auc", roc_auc_of, separated, prior),
    ]
    if strata is None:
        base, slope = _average_precision(score[labelled], score[population], scenario)
        metrics.append(_metric("average_precision", lambda prior, x: base + prior * x, slope, prior))
    names: dict[str, Callable[[float, float, float], float]] = {
        "precision": precision_of,
        "recall": lambda prior, recall, called: recall,
        "f1": f1_of,
        "accuracy": accuracy_of,
    }
    share_called = 0.0 if called is None else float(called[population].mean())
    found = (0.0, 0.0, 1.0)
    if called is not None:
        found = mean([_share_interval(float(called[labelled][part].mean()), int(part.sum())) for part in parts])
    for name, formula in names.items():
        if called is None or (not share_called and name != "accuracy"):  # not defined if no row is called positive
            metrics.append({"name": name, "value": None, "low": None, "high": None, "more_is_better": True})
            continue

        def of_rates(share: float, recall: float, formula: Any = formula) -> float:
            return float(formula(share, recall, share_called))

        metrics.append(_metric(name, of_rates, found, None if name == "recall" else prior))
    return metrics


def _parts(labelled: Marks, strata: Counted | None) -> list[Marks]:
    """By stratum, which of the labelled rows belong to it."""
    if strata is None:
        return [np.ones(int(labelled.sum()), bool)]
    return [strata.of_row[labelled] == a for a in range(len(strata.rows))]


def _metric(name: str, formula: Callable[[float, float], float], x: Triple, prior: PriorEstimate | None) -> Metric:
    """A figure with its range. A figure without a prior is known whatever the prior is."""
    value, *ends = x
    low, high = (0.0, 0.0) if prior is None else prior.interval
    corners = [formula(share, end) for share in (low, high) for end in ends]
    point = 0.0 if prior is None else prior.value
    lowest, highest = (float(np.clip(end, 0, 1)) for end in (min(corners), max(corners)))
    return {
        "name": name,
        "value": None if point is None else float(np.clip(formula(point, value), lowest, highest)),
        "low": lowest,
        "high": highest,
        "more_is_better": True,
    }


def _share_above(values: Array, others: Array) -> Array:
    """For each value, the share of the others that are higher. A tie counts one half."""
    ordered = np.sort(others)
    below, up_to = (np.searchsorted(ordered, values, side=side) for side in ("left", "right"))
    return np.asarray(1 - (below + up_to) / (2 * len(others)))


def _mean_interval(values: Array) -> Triple:
    """The mean of numbers between 0 and 1 with its 95 % interval, on the scale of log-odds."""
    mean = float(values.mean())
    n = len(values)
    if not 0 < mean < 1 or n < 3:
        return mean, 0.0, 1.0
    error = float(values.std(ddof=1)) / math.sqrt(COUNTS * n) / (mean * (1 - mean))
    reach = error * float(student.ppf(0.975, n - 1))
    low, high = expit(logit(mean) + np.array([-reach, reach]))
    return mean, float(low), float(high)


def _average_precision(positive: Array, population: Array, scenario: str) -> tuple[float, Triple]:
    """Average precision as a line in the prior: its height at 0, and its slope with an interval by bootstrap samples.

    :func:`pulab.metrics.average_precision` says why no labelled row counts itself.
    """
    ranked = np.sort(positive)[::-1]
    rows = len(population) - np.searchsorted(np.sort(population), ranked, side="left")
    n = len(ranked)
    in_one_sample = scenario == "single-sample"
    others = len(population) / (rows if in_one_sample else rows + 2)
    size = max(2, round(COUNTS * n))
    draws = int(np.clip(2_000_000 / n, 20, 200))
    counts = np.random.default_rng(0).multinomial(size, np.full(n, 1 / n), draws) / size

    last = n - np.searchsorted(ranked[::-1], ranked, side="left") - 1  # of the rows with the same score

    def slope(weights: Array) -> Array:
        share = (np.cumsum(weights, axis=-1)[..., last] - weights) / np.maximum(1 - weights, 1e-9)
        return np.asarray((weights * share * others).sum(axis=-1))

    value = float(slope(np.full(n, 1 / n)))
    # The limits are wide because the first few rows vary more than the draws show.
    low, high = np.quantile(slope(counts), (0.01, 0.99))
    share = last / max(n - 1, 1)
    base = (1 - share) / rows if in_one_sample else 1 / (1 + rows)
    return float(base.mean()), (value, min(float(low), value), max(float(high), value))


def _share_interval(share: float, n: float) -> Triple:
    """A share of the n labelled rows with Jeffreys' 95 % interval. It stays within 0 and 1, even for few rows."""
    yes = share * COUNTS * n
    low, high = beta.ppf((0.025, 0.975), yes + 0.5, COUNTS * n - yes + 0.5)
    return share, float(min(low, share)), float(max(high, share))


def distributions(labelled: Marks, score: Array, bins: int = 40) -> Distributions:
    """Histograms of the scores of labelled and of unlabeled rows. The outer bins hold all beyond them."""
    low, high = np.quantile(score, (0.002, 0.998))
    edges = np.linspace(low, max(high, low + 1e-9), bins + 1)

    def shares(rows: Marks) -> list[float]:
        return [float(n) / max(rows.sum(), 1) for n in np.histogram(np.clip(score[rows], low, high), edges)[0]]

    return {"edges": edges.tolist(), "labelled": shares(labelled), "unlabeled": shares(~labelled)}


def review(
    labelled: Marks,
    score: Array,
    prior: PriorEstimate,
    scenario: str,
    depths: Sequence[int],
    answers: Answers,
    strata: Counted | None = None,
) -> list[ReviewPoint]:
    """What the first candidates hold, by their number.

    Under random labelling the hidden positives score as the labelled ones do. So recall and lift need no prior. With
    strata, labelling is random in each of them, and recall is a mean over their hidden positives. The
    ranges are for this table: they cover the chance of its hidden positives, too. Their number is not known; they are
    taken to be as many as the labelled ones, or fewer if the prior says so.

    Precision is recall times the number of hidden positives, which is known up to the prior. Where the prior is known,
    precision itself is the mean probability of the candidates. Counting labelled rows gives the same for many
    candidates, but is too noisy for the first hundred: .78 where .99 is true (UCI's adult, 2,275 labelled).

    Rows with an answer are no candidates. The labelled rows tell how many hidden positives score as high as a
    candidate. Those of them that are confirmed by now are known, and taken off.
    """
    is_open = ~labelled & (answers == 0)
    ranked = np.sort(score[is_open])[::-1]
    positive, confirmed = score[labelled], score[answers > 0]
    n_u, n_found = len(ranked), len(confirmed)
    steps = [digit * 10**power for power in range(1, 1 + len(str(n_u))) for digit in (1, 1.5, 2, 3, 5, 7)]
    counts = np.unique(np.minimum([*steps, *depths, n_u], n_u)).astype(int)
    hidden = _hidden(labelled, prior, scenario) if strata is None else strata.hidden(prior)
    parts = [positive[part] for part in _parts(labelled, strata)]
    sizes = [_as_many(len(part), n) for part, n in zip(parts, hidden.value, strict=True)]
    known = None
    share = known_share(prior, strata)
    if share is not None and strata is None:
        known = _mean_probabilities(labelled, score, share, scenario, is_open)[counts - 1]
    result: list[ReviewPoint] = []
    by_part = [
        [_share_interval(_share_found(part, ranked, k), n) for part, n in zip(parts, sizes, strict=True)]
        for k in counts
    ]
    found = [hidden.mean(triples) for triples in by_part]
    if share is not None and strata is not None:
        known = np.array([n for n, _, _ in found]) * hidden.value.sum() / counts
    sums = [hidden.sums(triples) for triples in by_part]
    taken = [n_found * _share_found(confirmed, ranked, k) if n_found else 0.0 for k in counts]
    lowest = np.array([(least - c) / k for (least, _), c, k in zip(sums, taken, counts, strict=True)])
    # Earlier candidates are no worse than later ones, so a lower bound of a longer list holds for its top.
    lowest = np.maximum.accumulate(lowest[::-1])[::-1]
    for i, (k, ends, c) in enumerate(zip(counts, found, taken, strict=True)):
        precision_low, precision_high = (float(np.clip(n, 0, 1)) for n in (lowest[i], (sums[i][1] - c) / k))
        recall, low, high = ends
        if n_found:
            corners = [_share_left(end, float(n.sum()), c, n_found) for end in ends for n in (hidden.low, hidden.high)]
            low, high = min(corners), max(corners)
            recall = _share_left(recall, float(hidden.value.sum()), c, n_found)
        result.append(
            {
                "k": int(k),
                "precision": None if known is None else float(np.clip(known[i], precision_low, precision_high)),
                "precision_low": precision_low,
                "precision_high": precision_high,
                "recall": recall,
                "recall_low": low,
                "recall_high": high,
                "lift": recall * n_u / k,
                "lift_low": low * n_u / k,
                "lift_high": high * n_u / k,
            }
        )
    return result


def _hidden(labelled: Marks, prior: PriorEstimate, scenario: str) -> Box:
    """The number of hidden positives, all in one stratum."""
    population = Population.of(labelled, scenario)
    least, most = (population.hidden(end) for end in prior.interval)
    value = population.hidden(middle(prior))
    return Box(np.array([least]), np.array([most]), np.array([value]), (least, most))


def _as_many(n_p: int, hidden: float) -> float:
    """The number of rows that vary as much as labelled and hidden rows together."""
    return 1 / (1 / n_p + COUNTS / max(1.0, min(n_p, hidden)))


def what_if(labelled: Marks, score: Array, of_row: NDArray[np.intp], column: str, k: int) -> WhatIf:
    """The share of the hidden positives in the first k rows, if labelling is biased along a column.

    Positives of one stratum are labelled up to three times as often as those of another; the range is over all such
    ways. No test of the rows can exclude that: whatever the chance of a row to be labelled, it may also be its chance
    to be positive.
    """
    ranked = np.sort(score[~labelled])[::-1]
    own, positive = of_row[labelled], score[labelled]
    shares = [_share_found(positive[own == a], ranked, k) for a in np.unique(own)]
    n = np.unique(own, return_counts=True)[1].astype(float)
    _, low, high = Box(n / BIAS, n, n, (0.0, float(n.sum()))).mean([(share, share, share) for share in shares])
    return {"column": column, "times": BIAS, "k": k, "low": low, "high": high}


def _share_left(share: float, hidden: float, taken: float, found: int) -> float:
    """The share of the positives that nobody has found yet, from the share of all that were hidden.

    ``taken`` of the ``found`` positives score as high.
    """
    return float(np.clip((share * hidden - taken) / max(hidden - found, 1.0), 0, 1))


def _mean_probabilities(labelled: Marks, score: Array, prior: float, scenario: str, is_open: Marks) -> Array:
    """The mean probability of the first candidate, the first two, and so on, given that they are unlabeled."""
    ranked = np.sort(score[is_open])[::-1]
    n_p = int(labelled.sum())
    p = PUCalibrator(prior, scenario).fit(score, labelled)(ranked)
    p = among_unlabeled(p, prior=prior, n_labeled=n_p, n_unlabeled=len(labelled) - n_p, scenario=scenario)
    return np.asarray(np.cumsum(p) / np.arange(1, len(p) + 1))


def _share_found(positive: Array, ranked: Array, k: int) -> float:
    """The share of the positives that score as high as the first k rows. A tie with the last row counts in part."""
    last = ranked[k - 1]
    above, tied = int((ranked > last).sum()), int((ranked == last).sum())
    return float((positive > last).mean() + (positive == last).mean() * (k - above) / tied)


def oddities(
    labelled: Marks,
    score: Array,
    called: Marks | None,
    prior: PriorEstimate,
    scenario: str,
    features: Sequence[Feature],
) -> list[str]:
    """Warnings for the reader of the report."""
    messages = []
    n_p = int(labelled.sum())
    apart = separation(score[labelled], score[~labelled])
    if n_p < 50:
        messages.append(f"Only {n_p} rows are labelled: every figure here is rough. Label a hundred or more.")
    if apart < 0.6:
        messages.append(
            "The model hardly separates positives from unlabeled rows (AUC below 0.6; 0.5 is chance). The columns may "
            "have no information about the label."
        )
    if called is not None:
        share = float(called[Population.of(labelled, scenario).rows].mean())
        if share > 0.95 and prior.prior < 0.9:
            messages.append(
                f"The model calls {share:.0%} of all rows positive, so its decisions say nothing. Check the prior."
            )
        if share == 0:
            messages.append(
                "No row is more likely positive than not, so the model calls none positive. Say how many rows you can "
                "look at (--top, --budget) or what errors cost (--costs)."
            )
    if apart > 0.995 and n_p >= 20:
        giveaway = f" {features[0]['name']!r} matters most." if features and features[0]["importance"] > 0 else ""
        messages.append(
            "The model separates labelled from unlabeled rows nearly without error. Either hardly any unlabeled row is "
            "positive, or a column gives the label away, such as one that was filled in afterwards."
            f"{giveaway}"
        )
    return messages


def stability(scores: Sequence[Array], top: NDArray[np.intp], k: int) -> Array:
    """For each of these rows, the share of the models that have it among their k highest scores."""
    thresholds = [np.partition(score, -k)[-k] for score in scores]
    is_among = [score[top] >= threshold for score, threshold in zip(scores, thresholds, strict=True)]
    return np.asarray(np.mean(is_among, axis=0))
