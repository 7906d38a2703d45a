"""A fitted model of a table: scores other tables, ranks them, tells about itself, goes to disk and comes back."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.utils import get_tags

from pulab._validation import check_number
from pulab.calibration import PUCalibrator
from pulab.errors import InputError
from pulab.persistence import Content, check_folder, damage_is_told, read_folder, write_folder
from pulab.tables._features import Features
from pulab.tables._frame import Column, batches, check_column, column_names, conform, name_of
from pulab.tables._labels import LabelColumn

Array = NDArray[np.float64]
KIND = "table model"


def raw_scores(classifier: Any, X: Any) -> Array:
    """Log-odds of being positive."""
    return np.asarray(classifier.decision_function(X), dtype=np.float64)


def takes_gaps(classifier: Any) -> bool:
    """Whether NaN may stand for a missing number."""
    return bool(get_tags(classifier).input_tags.allow_nan)


@dataclass(frozen=True)
class TableModel:
    """What :func:`fit_table` makes of a table.

    Attributes
    ----------
    features : from columns to numbers
    classifier : a fitted classifier of pulab
    calibrator : from scores to probabilities
    label : how the label column was read
    id : str or None
        The column that names rows.
    summary : dict
        All that the report shows, as plain data.
    candidates : polars.DataFrame
        The unlabeled rows with the highest held-out probabilities, best first.
    """

    features: Features
    classifier: Any
    calibrator: PUCalibrator
    label: LabelColumn
    id: str | None
    summary: dict[str, Any]
    candidates: pl.DataFrame

    def score(self, table: Any) -> pl.DataFrame:
        """Scores of a table's rows, in their order: its id if it has one, score, probability, decision."""
        return pl.concat(list(self.score_batches(table)))

    def score_batches(self, table: Any) -> Iterator[pl.DataFrame]:
        """The same piece by piece: memory stays flat however large the table is."""
        for _, scored in self._scored(table, keep=()):
            yield scored

    def score_file(self, table: Any, out: str | Path, on_rows: Callable[[int], None] = lambda rows: None) -> int:
        """Write a table's scores to a CSV or Parquet file: all of it, or nothing. Returns the number of rows."""
        from pulab.tables._write import table_writer

        n_rows = 0
        with table_writer(Path(out)) as write:
            for scored in self.score_batches(table):
                write(scored)
                n_rows += scored.height
                on_rows(scored.height)
        return n_rows

    def rank(self, table: Any, top: int = 100) -> pl.DataFrame:
        """The rows most likely positive, best first, with all their columns; those already labelled are passed over."""
        check_number("top", top, low=1, whole=True)
        best: pl.DataFrame | None = None
        first = 1
        for frame, scored in self._scored(table, keep=None):
            names = {"row": np.arange(first, first + frame.height)} if self._id_in(frame) is None else {}
            first += frame.height
            rest = frame.select(c for c in frame.columns if c not in (*scored.columns, "row", self.label.name))
            joined = pl.concat([pl.DataFrame(names), scored, rest], how="horizontal")
            if self.label.name in frame.columns:
                joined = joined.filter(~self.label.of(frame[self.label.name]))
            best = joined if best is None else pl.concat([best, joined], how="vertical_relaxed")
            best = best.sort("probability", "score", descending=True, maintain_order=True).head(top)
        if best is None:
            raise InputError(f"{name_of(table)} has no rows to rank.")
        return pl.concat([pl.DataFrame({"rank": np.arange(1, best.height + 1)}), best], how="horizontal")

    def report(self) -> str:
        """A page about the model that stands alone: HTML, to be opened in a browser or sent on."""
        from pulab.report.model import model_page

        return model_page(self.summary)

    def save(self, folder: str | Path) -> Path:
        """Write the model, ``report.html`` and ``candidates.csv`` to a folder: all of it, or nothing."""
        content = Content()
        document = {
            "kind": KIND,
            "columns": [[column.name, column.kind] for column in self.features.columns],
            "label": [self.label.name, self.label.positive],
            "id": self.id,
            "vectorizer": content.pack(self.features.vectorizer),
            "imputer": content.pack(self.features.imputer),
            "classifier": content.pack(self.classifier),
            "calibrator": content.pack(self.calibrator),
            "summary": self.summary,
        }
        extra = {"report.html": self.report().encode(), "candidates.csv": self.candidates.write_csv().encode()}
        return write_folder(Path(folder), document, content, extra)

    @classmethod
    def load(cls, folder: str | Path) -> "TableModel":
        """The model that a folder holds. Nothing of it is run as code."""
        folder = Path(folder)
        document, content = read_folder(folder, KIND)
        with damage_is_told(folder):
            columns = [Column(name, kind) for name, kind in document["columns"]]
            vectorizer, imputer, classifier, calibrator = (
                content.unpack(document[name]) for name in ("vectorizer", "imputer", "classifier", "calibrator")
            )
            label = LabelColumn(*document["label"])
            path = folder / "candidates.csv"
            candidates = pl.read_csv(path, infer_schema_length=None) if path.is_file() else pl.DataFrame()
            features = Features(columns, vectorizer, imputer)
            model = cls(features, classifier, calibrator, label, document["id"], document["summary"], candidates)
            model._check()
        return model

    def _check(self) -> None:
        """Refuse files that say things which do not go together: a row with nothing in it must get a probability."""
        empty = pl.DataFrame({column.name: [None] for column in self.features.columns})
        probability = self._scores(empty, "an empty row")["probability"].to_numpy()
        if probability.shape != (1,) or not 0 <= probability[0] <= 1:
            raise ValueError(f"it gives a probability of {probability}")

    def _scored(self, table: Any, keep: Any) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
        """Pieces of a table and their scores; ``keep=()`` reads only the columns that scoring needs."""
        where = name_of(table)
        known = column_names(table)
        wanted = [column.name for column in self.features.columns]
        for name in wanted:
            check_column(name, known, where, "a feature that the model was trained on")
        read = [*wanted, *([self.id] if self.id else [])] if keep is not None else None
        n_rows = 0
        for frame in batches(table, read):
            n_rows += frame.height
            if frame.height:
                yield frame, self._scores(frame, where)
        if n_rows == 0:
            raise InputError(f"{where} has no rows to score.")

    def _scores(self, frame: pl.DataFrame, where: str) -> pl.DataFrame:
        numbers = self.features(conform(frame, self.features.columns, where))
        if not takes_gaps(self.classifier):
            numbers = self.features.filled(numbers)
        score = raw_scores(self.classifier, numbers)
        probability = self.calibrator(score)
        id_column = self._id_in(frame)
        names = {} if id_column is None else {id_column: frame[id_column]}
        return pl.DataFrame({**names, "score": score, "probability": probability, "decision": probability > 0.5})

    def _id_in(self, frame: pl.DataFrame) -> str | None:
        return self.id if self.id in frame.columns else None


def check_out(folder: str | Path) -> None:
    """Refuse a place where no model can be written, before any work is done for it."""
    check_folder(Path(folder))
