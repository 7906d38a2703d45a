"""Cross-fitting: models of a table's rows in folds, for one method or for several to choose from."""

import time
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pulab.calibration import PUCalibrator
from pulab.estimators._boosting import backends
from pulab.methods import METHODS
from pulab.metrics import Array, estimate
from pulab.model_selection import PUStratifiedKFold, logits_of
from pulab.priors import PriorEstimate
from pulab.summary import Compared
from pulab.tables._features import Features, Single
from pulab.tables._model import takes_gaps

Marks = NDArray[np.bool_]
Index = NDArray[np.intp]
OnStep = Callable[[str, int, int], None]  # the current step, the number of fits done, and their total

AUTO = ("nnpu-boosting", "elkan-noto", "joint")  # the methods that `auto` compares
COMPARED_ROWS = 20_000  # the rows that `auto` compares methods on
FOLDS = 5


class Views:
    """The numbers of a table, with NaN for missing values and without."""

    def __init__(self, features: Features, numbers: Single) -> None:
        self.features, self.numbers = features, numbers

    @cached_property
    def filled(self) -> Single:
        """Without missing values."""
        return self.features.filled(self.numbers)

    def of(self, method: str) -> Single:
        """As this method takes them."""
        return self.numbers if takes_gaps(METHODS[method].load()()) else self.filled


class HeldOut(NamedTuple):
    """Scores of rows by models that have not seen them, and these models."""

    scores: Array  # NaN for rows outside the comparison
    models: list[Any]
    rows: list[Index]  # by model, the rows that it has not seen
    of_unlabeled: list[Array]  # by model, its scores of all unlabeled rows


class Choice(NamedTuple):
    """A method, why it was chosen, and its competitors."""

    method: str
    why: str
    compared: list[Compared]


class CrossFit:
    """Fits of one table's rows with one prior."""

    def __init__(
        self, X: Views, labelled: Marks, prior: PriorEstimate, scenario: str, seed: int, on_step: OnStep
    ) -> None:
        self.X, self.labelled, self.prior, self.scenario, self.seed = X, labelled, prior, scenario, seed
        self.on_step = on_step
        self._done: dict[tuple[str, int], HeldOut] = {}

    def fit(self, method: str, rows: Index) -> Any:
        """The classifier of a method, fitted to these rows."""
        settings: dict[str, Any] = {"scenario": self.scenario, "random_state": self.seed}
        if METHODS[method].needs_prior:
            settings["prior"] = self.prior.prior
        return METHODS[method].load()(**settings).fit(self.X.of(method)[rows], self.labelled[rows].astype(int))

    def held_out(self, method: str, rows: Index | None = None) -> HeldOut:
        """Scores of rows (by default, all) by models that have not seen them. P and U are split alike."""
        rows = np.arange(len(self.labelled)) if rows is None else rows
        if (method, len(rows)) in self._done:
            return self._done[method, len(rows)]
        marks = self.labelled[rows]
        n_splits = int(min(FOLDS, marks.sum(), (~marks).sum()))
        held_out = HeldOut(np.full(len(self.labelled), np.nan), [], [], [])
        X = self.X.of(method)[rows]
        for i, (train, test) in enumerate(PUStratifiedKFold(n_splits, random_state=self.seed).split(marks, marks)):
            self.on_step(f"{method}: fit {i + 1} of {n_splits}, the rest held out", i, n_splits)
            held_out.models.append(self.fit(method, rows[train]))
            scores = logits_of(held_out.models[-1], X)
            held_out.scores[rows[test]] = scores[test]
            held_out.rows.append(rows[test])
            held_out.of_unlabeled.append(scores[~marks])
        self._done[method, len(rows)] = held_out
        return held_out

    def choose(self) -> Choice:
        """The method with the lowest PU 0-1 risk on held-out rows, and why."""
        rows = self._compared_rows()
        marks = self.labelled[rows]
        compared: list[Compared] = []
        risks: list[float] = []  # an estimate may be below zero, which the summary shows as zero
        for method in AUTO:
            if method == "nnpu-boosting" and not backends():
                continue
            start = time.perf_counter()
            scores = self.held_out(method, rows).scores[rows]
            decisions = PUCalibrator(self.prior.prior, self.scenario).fit(scores, marks)(scores) > 0.5
            population: dict[str, Any] = {"prior": self.prior.prior, "scenario": self.scenario}
            risk = estimate("zero_one_risk", marks, decisions, **population, n_bootstrap=100)
            risks.append(risk.value)
            compared.append(
                {
                    "method": method,
                    "risk": max(0.0, risk.value),
                    "interval": np.clip(risk.interval or (0, 1), 0, 1).tolist(),
                    "seconds": time.perf_counter() - start,
                }
            )
        best = compared[int(np.argmin(risks))]
        others = ", ".join(f"{item['method']} {item['risk']:.3f}" for item in compared if item is not best)
        size = "" if len(rows) == len(self.labelled) else f" of {len(rows):,} rows"
        low, high = best["interval"]
        why = (
            f"auto chose {best['method']}: in folds{size} it has the lowest held-out PU risk (estimated share of wrong "
            f"decisions), {best['risk']:.3f}, between {low:.3f} and {high:.3f}. The lowest of {len(compared)} such "
            f"estimates tends to be too low. The others: {others}."
        )
        return Choice(best["method"], why, compared)

    def _compared_rows(self) -> Index:
        """All rows, or a sample on which all methods together take a minute or two."""
        n = len(self.labelled)
        if n <= COMPARED_ROWS:
            return np.arange(n)
        rng = np.random.default_rng(self.seed)
        parts = [np.flatnonzero(marks) for marks in (self.labelled, ~self.labelled)]
        drawn = [rng.choice(part, max(2, round(COMPARED_ROWS / n * len(part))), replace=False) for part in parts]
        return np.sort(np.concatenate(drawn))
