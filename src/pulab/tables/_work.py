"""Fits of a table's rows: in folds, of one method or of several to choose from."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pulab.calibration import PUCalibrator
from pulab.estimators._boosting import backends
from pulab.methods import METHODS
from pulab.metrics import estimate
from pulab.model_selection import PUStratifiedKFold, logits_of
from pulab.priors import PriorEstimate
from pulab.summary import Compared
from pulab.tables._features import Features
from pulab.tables._model import takes_gaps

Array = NDArray[np.float64]
Marks = NDArray[np.bool_]
Rows = NDArray[np.intp]
OnStep = Callable[[str, int, int], None]  # what is being done, how many of its fits are done, and of how many

AUTO = ("nnpu-boosting", "elkan-noto", "joint")  # what `auto` chooses from
COMPARED_ROWS = 20_000  # rows that `auto` compares methods on
FOLDS = 5


class Views:
    """The numbers of a table, with gaps for the classifiers that take them and without for the others."""

    def __init__(self, features: Features, numbers: Any) -> None:
        self.features, self.numbers = features, numbers
        self._filled: Any = None

    def filled(self) -> Any:
        """Without gaps."""
        if self._filled is None:
            self._filled = self.features.filled(self.numbers)
        return self._filled

    def of(self, method: str) -> Any:
        """As this method wants them."""
        return self.numbers if self.takes_gaps(method) else self.filled()

    def takes_gaps(self, method: str) -> bool:
        """Whether this method can take NaN for a missing number."""
        return takes_gaps(METHODS[method].load()())


class CrossFit(NamedTuple):
    """Scores of rows by models that had not seen them, and these models."""

    scores: Array  # NaN for rows that were left aside
    models: list[Any]
    held_out: list[Rows]
    refits: list[Array]  # scores of the unlabeled rows by each model


class Choice(NamedTuple):
    """A method, why it was taken, and what it was compared with."""

    method: str
    why: str
    compared: list[Compared]


class Work:
    """Fits of one table's rows, with one prior."""

    def __init__(
        self, X: Views, labelled: Marks, prior: PriorEstimate, scenario: str, seed: int, on_step: OnStep
    ) -> None:
        self.X, self.labelled, self.prior, self.scenario, self.seed = X, labelled, prior, scenario, seed
        self.on_step = on_step
        self._done: dict[tuple[str, int], CrossFit] = {}

    def fit(self, method: str, rows: Rows) -> Any:
        """A method's classifier, fitted to these rows."""
        told: dict[str, Any] = {"scenario": self.scenario, "random_state": self.seed}
        if METHODS[method].needs_prior:
            told["prior"] = self.prior.prior
        return METHODS[method].load()(**told).fit(self.X.of(method)[rows], self.labelled[rows].astype(int))

    def cross_fit(self, method: str, rows: Rows | None = None) -> CrossFit:
        """Rows (by default, all) scored by models that have not seen them; P and U dealt out alike."""
        rows = np.arange(len(self.labelled)) if rows is None else rows
        if (method, len(rows)) in self._done:
            return self._done[method, len(rows)]
        marks = self.labelled[rows]
        n_splits = int(min(FOLDS, marks.sum(), (~marks).sum()))
        found = CrossFit(np.full(len(self.labelled), np.nan), [], [], [])
        X = self.X.of(method)[rows]
        for i, (train, test) in enumerate(PUStratifiedKFold(n_splits, random_state=self.seed).split(marks, marks)):
            self.on_step(f"{method}: fit {i + 1} of {n_splits}, the rest held out", i, n_splits)
            found.models.append(self.fit(method, rows[train]))
            scores = logits_of(found.models[-1], X)
            found.scores[rows[test]] = scores[test]
            found.held_out.append(rows[test])
            found.refits.append(scores[~marks])
        self._done[method, len(rows)] = found
        return found

    def choose(self) -> Choice:
        """The method with the fewest wrong decisions on held-out rows, by the PU 0-1 risk, and why."""
        rows = self._compared_rows()
        marks = self.labelled[rows]
        compared: list[Compared] = []
        risks: list[float] = []  # may be below zero, which tells methods apart that the summary shows as zero
        for method in AUTO:
            if method == "nnpu-boosting" and not backends():
                continue
            start = time.perf_counter()
            scores = self.cross_fit(method, rows).scores[rows]
            probability = PUCalibrator(self.prior.prior, self.scenario).fit(scores, marks)(scores)
            told: dict[str, Any] = {"prior": self.prior.prior, "scenario": self.scenario}
            risk = estimate("zero_one_risk", marks, probability > 0.5, **told, n_bootstrap=100)
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
            f"auto chose {best['method']}: in folds{size} it has the lowest held-out PU risk, {best['risk']:.3f} (the "
            f"estimated share of wrong decisions, between {low:.3f} and {high:.3f}, and as the lowest of "
            f"{len(compared)} rather too low); {others}."
        )
        return Choice(best["method"], why, compared)

    def _compared_rows(self) -> Rows:
        """All rows, or so many that trying every method on them is a matter of a minute or two."""
        n = len(self.labelled)
        if n <= COMPARED_ROWS:
            return np.arange(n)
        rng = np.random.default_rng(self.seed)
        parts = [np.flatnonzero(marks) for marks in (self.labelled, ~self.labelled)]
        drawn = [rng.choice(part, max(2, round(COMPARED_ROWS / n * len(part))), replace=False) for part in parts]
        return np.sort(np.concatenate(drawn))
