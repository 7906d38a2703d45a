"""Recipes: functions that return the runs of an experiment."""

from collections.abc import Callable, Sequence
from typing import Any

from pulab.bench import frontier, league, paper
from pulab.bench.spec import RunSpec
from pulab.datasets import PlainSampling

COMPARED = ("joint", "nnpu", "pubn-n", "naive", "pn")  # the paper's three, the baseline and the oracle


def demo(trials: int = 5, methods: Sequence[str] = COMPARED) -> list[RunSpec]:
    """Even against odd digits from 50 labelled and 1,000 unlabeled ones; five methods on the same samplings."""
    sampling = PlainSampling(n_labeled=50, n_unlabeled=1000)
    return [RunSpec("digits", sampling, method, seed) for seed in range(trials) for method in methods]


def defaults(trials: int = 5, methods: Sequence[str] = COMPARED) -> list[RunSpec]:
    """Five methods with all parameters but the prior at their defaults: tables of 350 to 100,000 rows, small images."""
    samplings = {
        "breast-cancer": PlainSampling(n_labeled=50, n_unlabeled=300),
        "digits": PlainSampling(n_labeled=100, n_unlabeled=1000),
        "digits-three": PlainSampling(n_labeled=50, n_unlabeled=1000),
        "moons": PlainSampling(n_labeled=50, n_unlabeled=2000),
        "clusters": PlainSampling(n_labeled=200, n_unlabeled=4000),
        "digits-images": PlainSampling(n_labeled=100, n_unlabeled=1000),
        "hundred-thousand": PlainSampling(n_labeled=50, n_unlabeled=100_000),
    }
    return [
        RunSpec(dataset, sampling, method, seed)
        for dataset, sampling in samplings.items()
        for method in methods
        for seed in range(trials)
    ]


def smoke(trials: int = 2) -> list[RunSpec]:
    """The paper's comparisons in small: methods and initial labels on 8 × 8 digits; under a minute on two cores."""
    sampling = PlainSampling(n_labeled=100, n_unlabeled=1000)
    changes: list[tuple[str, dict[str, Any]]] = [
        ("nnpu", {}),
        ("pubn-n", {}),
        ("joint", {}),
        ("joint", {"init": "negative"}),
        ("joint", {"init": "random"}),
    ]
    return [
        RunSpec("digits-images", sampling, method, seed, params={"epochs": 40, **change})
        for method, change in changes
        for seed in range(trials)
    ]


RECIPES: dict[str, Callable[..., list[RunSpec]]] = {
    "demo": demo,
    "defaults": defaults,
    **paper.RECIPES,
    "frontier": frontier.frontier,
    "frontier-search": frontier.frontier_search,
    "frontier-small": frontier.frontier_small,
    "league": league.league,
    "smoke": smoke,
}
