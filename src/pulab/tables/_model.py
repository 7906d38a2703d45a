"""A model fitted to a table. It scores and ranks other tables, writes its report, and can be saved."""

import io
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
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
from pulab.model_selection import logits_of
from pulab.persistence import Content, damage_is_told, read_folder, write_folder
from pulab.review.design import Draw
from pulab.summary import Summary, check_summary
from pulab.tables._columns import Column, conform, with_numbers
from pulab.tables._features import Features, Single, import_skrub
from pulab.tables._frame import batches, name_of
from pulab.tables._labels import LabelColumn
from pulab.tables._write import flat, table_writer

KIND = "table model"
RESERVED = ("rank", "row", "score", "probability", "probability_unlabeled", "decision", "stability")


def takes_gaps(classifier: Any) -> bool:
    """Whether the classifier takes NaN for a missing number."""
    return bool(get_tags(classifier).input_tags.allow_nan)


def scores_of(classifier: Any, features: Features, numbers: Single) -> NDArray[np.float64]:
    """The classifier's scores of rows, whose missing numbers are filled in if it cannot take them."""
    return logits_of(classifier, numbers if takes_gaps(classifier) else features.filled(numbers))


@dataclass(frozen=True, repr=False)
class TableModel:
    """The result of :func:`fit_table`.

    Attributes
    ----------
    features : Features
        From columns to numbers.
    classifier : classifier of pulab, fitted
    calibrator : PUCalibrator
        From scores to probabilities.
    label : LabelColumn
        How the label column was read.
    id : str or None
        The column that names rows.
    summary : dict
        Everything that the report shows, as plain data (:class:`pulab.summary.Summary`).
    candidates : polars.DataFrame
        The unlabeled rows with the highest held-out probabilities, best first.
    draw : Draw or None
        The rows that `pulab review` asks about. Older models have none.
    """

    features: Features
    classifier: Any
    calibrator: PUCalibrator
    label: LabelColumn
    id: str | None
    summary: Summary
    candidates: pl.DataFrame
    draw: Draw | None = None

    def __repr__(self) -> str:
        table, prior = self.summary["table"], self.summary["prior"]
        return (
            f"<TableModel of {table['name']}: {self.summary['method']['key']}, {table['labelled']:,} labelled of "
            f"{table['rows']:,} rows, prior {prior['value']:.3f}>"
        )

    def score(self, table: Any) -> pl.DataFrame:
        """Scores of a table's rows in their order: the id if there is one, score, probability, decision."""
        return pl.concat(list(self.score_batches(table)))

    def score_batches(self, table: Any) -> Iterator[pl.DataFrame]:
        """The same piece by piece: the memory does not depend on the size of the table."""
        needed = [column.name for column in self.features.columns] + ([self.id] if self.id else [])
        pieces = self._pieces(table, needed)

        def read() -> tuple[pl.DataFrame, pl.DataFrame] | None:
            frame = next(pieces, None)
            return None if frame is None else (frame, conform(frame, self.features.columns, name_of(table)))

        with ThreadPoolExecutor(1) as pool:  # reads a piece while the one before it is scored
            next_piece = pool.submit(read)
            while (piece := next_piece.result()) is not None:
                next_piece = pool.submit(read)
                yield self._scored(*piece)

    def score_file(self, table: Any, out: str | Path, on_rows: Callable[[int], None] = lambda rows: None) -> int:
        """Write a table's scores to a CSV or Parquet file, all or nothing. Returns the number of rows."""
        n_rows = 0
        with table_writer(Path(out)) as write:
            for scored in self.score_batches(table):
                write(scored)
                n_rows += scored.height
                on_rows(n_rows)
        return n_rows

    def rank(self, table: Any, top: int = 100) -> pl.DataFrame:
        """The rows most likely positive, best first, with all their columns. Labelled rows are left out.

        For the table that the model was fitted to, use ``candidates``: models that had not seen them scored these rows.
        """
        check_number("top", top, low=1, whole=True)
        best: pl.DataFrame | None = None
        first = 1
        for frame in self._pieces(table, None):
            scored = self._scores(frame, name_of(table))
            if self.id not in frame.columns:
                scored = scored.select(pl.Series("row", np.arange(first, first + frame.height)), pl.all())
            joined = beside(scored, frame.drop(self.label.name, strict=False))
            if self.label.name in frame.columns:
                joined = joined.filter(~pl.Series(self.label.of(frame[self.label.name])))
            first += frame.height
            best = joined if best is None else pl.concat([best, joined], how="vertical_relaxed")
            best = best.sort("probability", "score", descending=True, maintain_order=True).head(top)
        assert best is not None  # a table without rows is refused
        best = with_numbers(best, self.features.columns, name_of(table))
        return best.select(pl.Series("rank", np.arange(1, best.height + 1)), pl.all())

    def report(self) -> str:
        """The report: an HTML page in one file."""
        from pulab.report.model import model_page

        return model_page(self.summary)

    def save(self, folder: str | Path) -> Path:
        """Write the model, ``report.html`` and ``candidates.csv`` to a folder, all or nothing."""
        content = Content()
        document = {
            "kind": KIND,
            "columns": [[column.name, column.kind, column.form] for column in self.features.columns],
            "label": [self.label.name, self.label.positive, self.label.given],
            "id": self.id,
            "texts": [name for name, kind in self.candidates.schema.items() if kind == pl.String],
            "vectorizer": content.pack(self.features.vectorizer),
            "imputer": content.pack(self.features.imputer),
            "classifier": content.pack(self.classifier),
            "calibrator": content.pack(self.calibrator),
            "summary": self.summary,
            "draw": _pack(self.draw, content),
        }
        extra = {"report.html": self.report().encode(), "candidates.csv": flat(self.candidates).write_csv().encode()}
        return write_folder(Path(folder), document, content, extra)

    @classmethod
    def load(cls, folder: str | Path) -> "TableModel":
        """Load the model from a folder. This runs no code from the folder."""
        folder = Path(folder)
        document, content = read_folder(folder, KIND)
        with damage_is_told(folder):
            columns = [Column(*column) for column in document["columns"]]
            if document["vectorizer"] is not None:
                import_skrub()
            vectorizer, imputer, classifier, calibrator = (
                content.unpack(document[name]) for name in ("vectorizer", "imputer", "classifier", "calibrator")
            )
            label = LabelColumn(*document["label"])
            features = Features(columns, vectorizer, imputer)
            candidates = _read(folder, document["texts"])
            summary = check_summary(document["summary"])
            draw = _unpack(document.get("draw"), content)
            model = cls(features, classifier, calibrator, label, document["id"], summary, candidates, draw)
            model._check()
        return model

    def _check(self) -> None:
        """Refuse files that do not fit together: an empty row must get a probability."""
        empty = pl.DataFrame({column.name: [None] for column in self.features.columns})
        probability = self._scores(empty, "an empty row")["probability"].to_numpy()
        if probability.shape != (1,) or not 0 <= probability[0] <= 1:
            raise ValueError(f"it gives a probability of {probability}")

    def _pieces(self, table: Any, columns: list[str] | None) -> Iterator[pl.DataFrame]:
        """A table piece by piece, with these columns or all. Refuses a table without rows."""
        empty = True
        for frame in batches(table, columns, self.id):
            if frame.height:
                empty = False
                yield frame
        if empty:
            raise InputError(f"{name_of(table)} has no rows to score.")

    def _scores(self, frame: pl.DataFrame, where: str) -> pl.DataFrame:
        return self._scored(frame, conform(frame, self.features.columns, where))

    def _scored(self, frame: pl.DataFrame, conformed: pl.DataFrame) -> pl.DataFrame:
        score = scores_of(self.classifier, self.features, self.features(conformed))
        probability = self.calibrator(score)
        names = {self.id: frame[self.id]} if self.id in frame.columns else {}
        return pl.DataFrame({**names, "score": score, "probability": probability, "decision": probability > 0.5})


def _read(folder: Path, as_text: list[str]) -> pl.DataFrame:
    """The candidates; none if somebody has changed their file so that it cannot be read."""
    try:
        types = dict.fromkeys(as_text, pl.String)
        return pl.read_csv(folder / "candidates.csv", infer_schema_length=None, schema_overrides=types)
    except (OSError, pl.exceptions.PolarsError):
        return pl.DataFrame()


def _pack(draw: Draw | None, content: Content) -> list[Any] | None:
    if draw is None:
        return None
    file = io.BytesIO()
    flat(draw.frame).write_parquet(file)
    return [content.add("parquet", file.getvalue()), *draw[1:]]


def _unpack(packed: Any, content: Content) -> Draw | None:
    if packed is None:
        return None
    frame = pl.read_parquet(io.BytesIO(content.blobs[packed[0]]))
    draw = Draw(frame, *packed[1:])
    if not len(draw.stratum) == frame.height or not len(draw.ends) == len(draw.labelled) > max(draw.stratum):
        raise ValueError("the rows to review do not fit together")
    return draw


def beside(head: pl.DataFrame, rest: pl.DataFrame) -> pl.DataFrame:
    """Two frames side by side. The second loses columns that the first has; names of results are changed."""
    taken = {"rank", *head.columns}
    same = [name for name in rest.columns if name in head.columns and name not in RESERVED]
    renamed = {name: f"{name} (in the table)" for name in rest.columns if name in taken and name not in same}
    return pl.concat([head, rest.drop(same).rename(renamed)], how="horizontal")
