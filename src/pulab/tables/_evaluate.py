"""The evaluation of a model by held-out scores: figures with intervals, curves, importances, warnings."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from pulab.calibration import PUCalibrator, among_unlabeled
from pulab.errors import PulabWarning
from pulab.metrics import METRICS, Array, estimate, precision, prior_of_unlabeled, roc_auc, separation
from pulab.priors import PriorEstimate
from pulab.summary import Distributions, Feature, Metric, ReviewPoint

Marks = NDArray[np.bool_]
# The held-out rows of a fold, which of them are labelled, and the scores by the fold's model.
Part = tuple[Any, Marks, Callable[[Any], Array]]
SHOWN = ("precision", "recall", "f1", "accuracy", "roc_auc", "average_precision", "lee_liu")
OF_CALLED = ("precision", "f1", "lee_liu")  # not defined if no row is called positive
TOO_GOOD = {"ROC AUC": (0.02, 0.3), "precision": (0.1, 1.5)}  # (a, b): above 1 + max(a, b / √n_p) is not chance


def figures(labelled: Marks, probability: Array, prior: PriorEstimate, scenario: str) -> list[Metric]:
    """The figures of the report, each with its band over the prior's interval and its sampling interval.

    An estimate may lie outside 0 and 1 by chance, and is cut off there. ``between`` covers the band and the interval.
    """
    n_bootstrap = int(np.clip(4_000_000 / len(labelled), 20, 200))  # every draw sorts all rows
    called = probability > 0.5 if scenario == "single-sample" else probability[~labelled] > 0.5
    metrics: list[Metric] = []
    for name in SHOWN:
        values = (probability > 0.5).astype(np.float64) if METRICS[name].of == "decisions" else probability
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PulabWarning)  # the summary has its own warnings
            value = estimate(
                name,
                labelled.astype(int),
                values,
                prior=prior.prior,
                prior_interval=prior.interval if METRICS[name].needs_prior else None,
                scenario=scenario,
                n_bootstrap=n_bootstrap,
            )
        if name == "recall":  # a share of the labelled rows, which may be few
            low, high = _wilson(value.value, int(labelled.sum()))
            value = value._replace(interval=(low, high))
        both = _together(*value)
        if name in OF_CALLED and not called.any():  # no row is called positive, so it has no value
            numbers: list[Any] = [None] * 4
        elif name == "lee_liu":
            numbers = [value.value, value.band, value.interval, both]
        else:
            too_good = both is not None and both[0] > 1
            numbers = [_cut(part) for part in (value.value, value.band, value.interval, None if too_good else both)]
        metrics.append(
            {
                "name": name,
                "value": numbers[0],
                "band": numbers[1],
                "interval": numbers[2],
                "between": numbers[3],
                "more_is_better": METRICS[name].more_is_better,
            }
        )
    return metrics


def _cut(part: Any) -> Any:
    """A number or an interval, cut off at 0 and 1."""
    return None if part is None else np.clip(part, 0, 1).tolist()


def _together(
    value: float, band: tuple[float, float] | None, interval: tuple[float, float] | None
) -> list[float] | None:
    """One interval for two independent sources of error: their squares add up."""
    ends = np.array([part for part in (band, interval) if part is not None])
    if not len(ends):
        return None
    low, high = (float(np.sqrt((np.maximum(part, 0) ** 2).sum())) for part in (value - ends[:, 0], ends[:, 1] - value))
    return [value - low, value + high]


def distributions(labelled: Marks, probability: Array, bins: int = 40) -> Distributions:
    """Histograms of the probabilities of labelled and of unlabeled rows."""
    edges = np.linspace(0, 1, bins + 1)

    def shares(rows: Marks) -> list[float]:
        return [float(n) / max(rows.sum(), 1) for n in np.histogram(probability[rows], edges)[0]]

    return {"edges": edges.tolist(), "labelled": shares(labelled), "unlabeled": shares(~labelled)}


def review(
    labelled: Marks, score: Array, prior: PriorEstimate, scenario: str, rng: np.random.Generator, points: int = 30
) -> list[ReviewPoint]:
    """Precision and recall among the unlabeled rows, by the number of top candidates that are reviewed.

    Precision is the mean probability of these candidates, given that they are unlabeled. Counting labelled rows above
    a threshold gives the same for many candidates, but is too noisy for the first hundred: .78 where .99 is true (UCI's
    adult, 2,275 labelled). The band covers the prior's interval, bootstrap samples, and a lower bound by counting.
    """
    order = np.argsort(-score[~labelled], kind="stable")
    unlabeled, positive = score[~labelled][order], score[labelled]
    n_u, n_p = len(unlabeled), len(positive)
    steps = np.geomspace(min(10, n_u), n_u, points).round().astype(int)
    counts = np.unique([*steps, min(100, n_u)])

    def precisions(share: float, rows: Any = slice(None)) -> Array:
        p = PUCalibrator(share, scenario).fit(score[rows], labelled[rows])(unlabeled)
        p = among_unlabeled(p, prior=share, n_labeled=n_p, n_unlabeled=n_u, scenario=scenario)
        return np.asarray(np.cumsum(p)[counts - 1] / counts)

    groups = [np.flatnonzero(labelled), np.flatnonzero(~labelled)]
    again = [
        np.concatenate([rng.choice(group, len(group)) for group in groups])
        for _ in range(int(np.clip(2_000_000 / len(score), 20, 100)))
    ]
    drawn = np.quantile([precisions(prior.prior, rows) for rows in again], (0.025, 0.975), axis=0)
    reach = np.stack([*drawn, *(precisions(p) for p in (prior.prior, *prior.interval))])
    recalls = [_share_found(positive, unlabeled, k) for k in counts]
    low_share = prior_of_unlabeled(prior.interval[0], n_p, n_u, scenario)
    counted = np.array([low_share * _wilson(r, n_p)[0] * n_u / k for r, k in zip(recalls, counts, strict=True)])
    # Earlier candidates are no worse than later ones, so a lower bound of a longer list holds for its top.
    sure = np.maximum.accumulate(counted[::-1])[::-1]
    return [
        {
            "k": int(k),
            "precision": float(value),
            "precision_band": [float(low), float(high)],
            "recall": recall,
            "recall_band": _wilson(recall, n_p),
        }
        for k, value, low, high, recall in zip(
            counts,
            precisions(prior.prior),
            np.minimum(reach.min(axis=0), sure),
            reach.max(axis=0),
            recalls,
            strict=True,
        )
    ]


def _share_found(positive: Array, ranked: Array, k: int) -> float:
    """The share of the positives that score as high as the first k rows. A tie with the last row counts in part."""
    last = ranked[k - 1]
    above, tied = int((ranked > last).sum()), int((ranked == last).sum())
    return float((positive > last).mean() + (positive == last).mean() * (k - above) / tied)


def _wilson(share: float, n: int) -> list[float]:
    """Wilson's 95 % interval of a share. It stays within 0 and 1, even for few rows."""
    return list(binomtest(round(share * n), n).proportion_ci(method="wilson"))


def importances(parts: Sequence[Part], groups: dict[str, list[int]], rng: np.random.Generator) -> list[Feature]:
    """How much the held-out AUC of labelled against unlabeled rows falls when a column is shuffled; mean over folds."""
    falls: dict[str, list[float]] = {name: [] for name in groups}
    for X, labelled, scores_of in parts:
        rows = np.concatenate([_some(np.flatnonzero(some), 2000, rng) for some in (labelled, ~labelled)])
        marks = labelled[rows]
        whole = _auc(scores_of(X[rows]), marks)
        for name, columns in groups.items():
            shuffled = X[rows]
            shuffled[:, columns] = shuffled[rng.permutation(len(rows))][:, columns]
            falls[name].append(whole - _auc(scores_of(shuffled), marks))
    items: list[Feature] = [
        {"name": name, "importance": float(np.mean(values)), "std": float(np.std(values))}
        for name, values in falls.items()
    ]
    return sorted(items, key=lambda item: -item["importance"])


def _auc(score: Array, marks: Marks) -> float:
    return separation(score[marks], score[~marks])


def oddities(
    labelled: Marks,
    score: Array,
    probability: Array,
    prior: PriorEstimate,
    scenario: str,
    features: Sequence[Feature],
) -> list[str]:
    """Warnings for the reader of the report."""
    messages = []
    n_p = int(labelled.sum())
    apart = separation(score[labelled], score[~labelled])
    s, decided = labelled.astype(int), probability > 0.5
    called = float(decided.mean() if scenario == "single-sample" else decided[~labelled].mean())
    if n_p < 50:
        messages.append(f"Only {n_p} rows are labelled: every figure here is rough. Label a hundred or more.")
    auc = roc_auc(s, score, prior=prior.prior, scenario=scenario)
    right = precision(s, decided.astype(np.float64), prior=prior.prior, scenario=scenario) if called else 0.0
    for name, value in (("ROC AUC", auc), ("precision", right)):
        least, by_rows = TOO_GOOD[name]
        if value > 1 + max(least, by_rows / np.sqrt(n_p)):
            messages.append(
                f"The estimated {name} is {value:.2f}, but cannot be above 1. The prior or the scenario is probably "
                "wrong."
            )
    if auc < 0.6:
        messages.append(
            "The model hardly separates positives from negatives (ROC AUC below 0.6; 0.5 is chance). The columns may "
            "have no information about the label."
        )
    if called > 0.95 and prior.prior < 0.9:
        messages.append(
            f"The model calls {called:.0%} of all rows positive, so its decisions say nothing. Check the prior."
        )
    if called == 0:
        messages.append("The model calls no row positive: use the ranking, not the decisions.")
    if apart > 0.995 and n_p >= 20:
        giveaway = f" {features[0]['name']!r} matters most." if features and features[0]["importance"] > 0 else ""
        messages.append(
            "The model separates labelled from unlabeled rows nearly without error. Either hardly any unlabeled row is "
            "positive, or a column gives the label away, such as one that was filled in afterwards."
            f"{giveaway}"
        )
    return messages


def labelling_bias(X: Any, labelled: Marks, probability: Array, rng: np.random.Generator) -> str:
    """A warning if labelled rows differ from the unlabeled rows that are likely positive; otherwise empty.

    If all positives are equally likely to be labelled, the two look alike. Unlabeled rows are drawn with their
    probability, at most as many as there are labelled ones. Then a forest tries to separate the two, out of fold.
    """
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import cross_val_predict

    unlabeled = np.flatnonzero(~labelled)
    drawn = unlabeled[rng.random(len(unlabeled)) < probability]
    size = min(len(drawn), int(labelled.sum()), 2000)
    if size < 50:
        return ""
    rows = np.concatenate([_some(np.flatnonzero(labelled), size, rng), _some(drawn, size, rng)])
    marks = np.repeat([True, False], size)
    forest = RandomForestClassifier(100, min_samples_leaf=3, random_state=int(rng.integers(2**31)))
    apart = _auc(cross_val_predict(forest, X[rows], marks, cv=3, method="predict_proba")[:, 1], marks)
    if apart < 0.75:
        return ""
    return (
        "Labelled positives look different from the unlabeled rows that are likely positive (a forest separates them "
        f"with an AUC of {apart:.2f}). The labelling may be biased. Kinds of positives that are never labelled then "
        "rank too low here, and the prior is too small."
    )


def _some(rows: NDArray[np.intp], n: int, rng: np.random.Generator) -> NDArray[np.intp]:
    return np.sort(rng.choice(rows, n, replace=False)) if len(rows) > n else rows


def stability(scores: Sequence[Array], top: NDArray[np.intp], k: int) -> Array:
    """For each of these rows, the share of the models that have it among their k highest scores."""
    thresholds = [np.partition(score, -k)[-k] for score in scores]
    is_among = [score[top] >= threshold for score, threshold in zip(scores, thresholds, strict=True)]
    return np.asarray(np.mean(is_among, axis=0))
