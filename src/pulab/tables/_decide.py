"""Probabilities and decisions of a table's rows, from their scores."""

from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pulab._validation import check_number
from pulab.calibration import PUCalibrator, among_unlabeled
from pulab.errors import InputError
from pulab.metrics import Array
from pulab.priors import PriorEstimate
from pulab.summary import Decision
from pulab.tables._strata import Counted, Strata, known_share

Marks = NDArray[np.bool_]
Index = NDArray[np.intp]


class Probabilities(NamedTuple):
    """From scores to probabilities: at both ends of the prior's range, and at the prior itself if it is known.

    With strata, a calibrator gives the chance that a row is labelled, and a number for each stratum says how many
    positives there are for each labelled one. The methods then need the stratum of each row (``of_row``).
    """

    low: PUCalibrator
    high: PUCalibrator
    value: PUCalibrator | None
    strata: Strata | None = None

    @classmethod
    def learn(
        cls,
        scores: Array,
        labelled: Marks,
        prior: PriorEstimate,
        scenario: str,
        strata: Strata | None = None,
        counted: Counted | None = None,
    ) -> "Probabilities":
        """From held-out scores, which are corrected if there are strata."""
        if strata is not None and counted is not None:
            of_label = PUCalibrator(float(labelled.mean()), scenario)
            of_label.fit(scores - counted.offset[counted.of_row], labelled)
            value = None if known_share(prior, counted) is None else of_label
            return cls(of_label, of_label, value, counted.weights(strata, prior))

        def at(share: float) -> PUCalibrator:
            return PUCalibrator(share, scenario).fit(scores, labelled)

        low, high = prior.interval
        return cls(at(low), at(high), None if prior.value is None else at(prior.value))

    def _at(self, calibrator: PUCalibrator, end: str, scores: Array, of_row: Index | None) -> Array:
        if self.strata is None:
            return calibrator(scores)
        return np.minimum(self._of_label(calibrator, scores, of_row) * np.array(self.strata[end])[of_row], 1.0)  # type: ignore[literal-required]

    def _of_label(self, calibrator: PUCalibrator, scores: Array, of_row: Index | None) -> Array:
        """The chance of being labelled."""
        assert self.strata is not None
        return calibrator(scores - np.array(self.strata["offset"])[of_row])

    def of(self, scores: Array, decision: Decision, of_row: Index | None = None) -> dict[str, Any]:
        """The columns of a result: probability, its ends, decision."""
        low, high = self._at(self.low, "low", scores, of_row), self._at(self.high, "high", scores, of_row)
        value = None if self.value is None else self._at(self.value, "value", scores, of_row)
        return _columns(value, np.sort([low, high], axis=0), self.called(scores, decision, of_row))

    def called(self, scores: Array, decision: Decision, of_row: Index | None = None) -> Marks | None:
        """Which rows are called positive; None if no rule says so."""
        if decision["at"] is None:
            return None
        if decision["rule"] == "score":
            return np.asarray(scores >= decision["at"])
        assert self.value is not None  # a rule about probabilities needs a known prior
        return np.asarray(self._at(self.value, "value", scores, of_row) > decision["at"])

    def of_candidates(
        self,
        scores: Array,
        decision: Decision,
        n_labelled: int,
        n_unlabeled: int,
        scenario: str,
        of_row: Index | None = None,
    ) -> dict[str, Any]:
        """The same for unlabeled rows of the table itself. The probabilities account for the rows being unlabeled."""

        def given_unlabeled(calibrator: PUCalibrator, end: str) -> Array:
            if self.strata is not None:
                positive, known = self._at(calibrator, end, scores, of_row), self._of_label(calibrator, scores, of_row)
                return np.asarray(np.maximum(positive - known, 0) / np.maximum(1 - known, 1e-12))
            return among_unlabeled(
                calibrator(scores),
                prior=calibrator.prior,
                n_labeled=n_labelled,
                n_unlabeled=n_unlabeled,
                scenario=scenario,
            )

        ends = np.sort([given_unlabeled(self.low, "low"), given_unlabeled(self.high, "high")], axis=0)
        value = None if self.value is None else given_unlabeled(self.value, "value")
        return _columns(value, ends, self.called(scores, decision, of_row))


def _columns(value: Array | None, ends: Array, decision: Marks | None) -> dict[str, Any]:
    n = ends.shape[1]
    low, high = ends if value is None else (np.minimum(ends[0], value), np.maximum(ends[1], value))
    return {
        "probability": pl.Series([None] * n, dtype=pl.Float64) if value is None else value,
        "probability_low": low,
        "probability_high": high,
        "decision": pl.Series([None] * n, dtype=pl.Boolean) if decision is None else decision,
    }


class Rule(NamedTuple):
    """What the caller said about decisions."""

    top: int | None
    budget: float | None
    costs: tuple[float, float] | None

    def checked(self) -> "Rule":
        """Refuse two rules at once, and numbers that mean nothing."""
        if sum(part is not None for part in self) > 1:
            raise InputError("top, budget and costs exclude each other. Pass one of them.")
        if self.top is not None:
            check_number("top", self.top, low=1, whole=True)
        if self.budget is not None:
            check_number("budget, a share of the rows,", self.budget, low=0, high=1, ends="()")
        if self.costs is not None:
            if not isinstance(self.costs, tuple | list) or len(self.costs) != 2:
                raise InputError(f"costs are two numbers, of a false alarm and of a miss, got {self.costs!r}.")
            for cost in self.costs:
                check_number("a cost", cost, low=0, ends="()")
        return self

    def decision(self, ranked: Array, prior: float | None, by_strata: bool = False) -> Decision:
        """The rule for rows of any table. ``ranked`` are the scores of the unlabeled rows, best first."""
        n = len(ranked)
        if self.top is not None or self.budget is not None:
            k = min(n, self.top) if self.top is not None else max(1, round(n * (self.budget or 0)))
            why = f"The first {k:,} of {n:,} unlabeled rows are called positive, and rows that score as high."
            return {"rule": "score", "at": float(ranked[k - 1]), "why": why}
        if prior is None:
            need = ", and costs need it" if self.costs is not None else ""
            why = f"No row is called positive, because the share of positives is not known{need}"
            say = "say how many rows you can look at (--top, --budget)."
            why += (
                f" for each group: {say}" if by_strata else f". Give it (--prior), measure it (pulab review), or {say}"
            )
            return {"rule": None, "at": None, "why": why}
        if self.costs is not None:
            alarm, miss = self.costs
            at = alarm / (alarm + miss)
            why = f"A row is called positive if its probability exceeds {at:.3g}, which follows from your costs."
            return {"rule": "probability", "at": at, "why": why}
        return {
            "rule": "probability",
            "at": 0.5,
            "why": "A row is called positive if its probability exceeds one half.",
        }
