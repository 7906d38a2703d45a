"""All methods on eight data sets: tables, images and texts, both scenarios, shares of .05 to .6, also biased labelling.

Every method gets four settings: its defaults, and three more. A trial takes the setting with the lowest zero-one risk
on held-out labelled and unlabeled rows of that trial, as a user without negatives can. So tuning costs every method the
same number of fits, and no test row and no true label takes part.
"""

from dataclasses import dataclass
from typing import Any

from pulab.bench.spec import RunSpec
from pulab.datasets import HeldOutSampling
from pulab.methods import METHODS

Params = dict[str, Any]
TRIALS = 5
DEFAULTS = "defaults"


@dataclass(frozen=True)
class Case:
    """A data set of the league, and how its rows are drawn and labelled."""

    sampling: HeldOutSampling
    features: str | None = None

    @property
    def told(self) -> Params:
        """What every method is told about the rows, besides the prior."""
        return {} if self.sampling.scenario == "case-control" else {"scenario": self.sampling.scenario}


CASES = {
    "adult": Case(HeldOutSampling(300, 6000, "single-sample")),
    "spambase": Case(HeldOutSampling(100, 1500)),
    "mushroom": Case(HeldOutSampling(100, 2000, "single-sample", bias=3.0)),
    "clusters": Case(HeldOutSampling(100, 1500, "single-sample", prior=0.2)),
    "hundred-thousand": Case(HeldOutSampling(200, 10_000, prior=0.05)),
    "mnist": Case(HeldOutSampling(500, 6000, bias=3.0)),
    "fashion-mnist": Case(HeldOutSampling(500, 6000, "single-sample", prior=0.3)),
    "20news": Case(HeldOutSampling(500, 6000, prior=0.6), features="tfidf"),
}

# Networks are tuned by the learning rate and the weight decay.
_NETWORK: dict[str, Params] = {
    "rate 3e-4": {"lr": 3e-4},
    "rate 3e-3": {"lr": 3e-3},
    "decay 1e-2": {"weight_decay": 1e-2},
}
# The others are tuned by what their users would try first. "trees" and the like are names of base learners.
_TREES: dict[str, Params] = {
    "fewer leaves": {"num_leaves": 4},
    "more leaves": {"num_leaves": 16},
    "more trees": {"n_estimators": 300},
}
_TUNING: dict[str, dict[str, Params]] = {
    "elkan-noto": {
        "weights": {"form": "weights"},
        "trees": {"estimator": "trees"},
        "weights, trees": {"form": "weights", "estimator": "trees"},
    },
    "bagging": {
        "stumps": {"estimator": "small-tree"},
        "linear": {"estimator": "logistic"},
        "large leaves": {"estimator": "tree-large-leaves"},
    },
    "two-step": {
        "trees": {"estimator": "trees"},
        "fewer spies": {"spy_fraction": 0.1},
        "stricter": {"tolerance": 0.02},
    },
    "boosting": _TREES,
    "plain-boosting": _TREES,
    "nnpu-boosting": _TREES,
    "pu-forest": {
        "leaves of 5": {"min_samples_leaf": 5},
        "leaves of 20": {"min_samples_leaf": 20},
        "shallow": {"max_depth": 8},
    },
    "sar-em": {"C 0.01": {"C": 0.01}, "C 1": {"C": 1.0}, "C 10": {"C": 10.0}},
    "rank-pruning": {
        "trees": {"estimator": "trees"},
        "small trees": {"estimator": "small-tree"},
        "large leaves": {"estimator": "tree-large-leaves"},
    },
    "logistic": {"C 0.01": {"C": 0.01}, "C 0.1": {"C": 0.1}, "C 10": {"C": 10.0}},
    "one-class-svm": {"nu 0.1": {"nu": 0.1}, "nu 0.25": {"nu": 0.25}, "nu 0.75": {"nu": 0.75}},
    "isolation-forest": {
        "20 trees": {"n_estimators": 20},
        "300 trees": {"n_estimators": 300},
        "1,000 trees": {"n_estimators": 1000},
    },
}


def settings(method: str) -> dict[str, Params]:
    """The settings that a trial of this method chooses from, the defaults first."""
    return {DEFAULTS: {}, **_TUNING.get(method, _NETWORK)}


def competitors() -> list[str]:
    """All methods that learn from labelled positives and unlabeled rows, and the ceiling."""
    return [key for key, method in METHODS.items() if not method.needs_negatives]


@dataclass(frozen=True)
class Line:
    """The trials of one method on one data set: by setting, then by seed."""

    dataset: str
    method: str
    runs: dict[str, tuple[RunSpec, ...]]


def lines(trials: int | None = None) -> list[Line]:
    """A line per data set and method."""
    return [
        Line(
            dataset,
            method,
            {
                name: tuple(
                    RunSpec(dataset, case.sampling, method, seed, params=case.told | params, features=case.features)
                    for seed in range(trials or TRIALS)
                )
                for name, params in settings(method).items()
            },
        )
        for dataset, case in CASES.items()
        for method in competitors()
    ]


def league(trials: int | None = None) -> list[RunSpec]:
    """Every method on eight data sets, at its defaults and at three more settings to choose from."""
    by_setting = zip(*(line.runs.values() for line in lines(trials)), strict=True)  # the defaults of all come first
    return [spec for of_lines in by_setting for specs in of_lines for spec in specs]
