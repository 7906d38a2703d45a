"""A model fitted to a table. It scores and ranks other tables, writes its report, and can be saved."""

import io
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.utils import get_tags

from pulab._validation import check_number
from pulab.errors import InputError, ModelFileError
from pulab.estimators._table import TablePUClassifier
from pulab.model_selection import logits_of
from pulab.persistence import Content, damage_is_told, read_folder, read_regular, write_folder
from pulab.review.design import Draw
from pulab.summary import Summary, check_summary
from pulab.tables._columns import Column, conform, with_numbers
from pulab.tables._decide import Probabilities
from pulab.tables._drift import Profile, Watch, check_profile
from pulab.tables._features import Features, Single, import_skrub
from pulab.tables._frame import batches, like, name_of
from pulab.tables._labels import LabelColumn
from pulab.tables._strata import check_strata, stratum_of
from pulab.tables._write import flat, table_writer

KIND = "table model"
RESULTS = ("score", "probability", "probability_low", "probability_high", "decision")
KINDS = ("number", "boolean", "date", "time", "text")
SCENARIOS = ("single-sample", "case-control")
HELD_OUT = pl.Schema({"labelled": pl.Boolean, "score": pl.Float64, "answer": pl.Int8})
REASONS = ("reason_1", "reason_2", "reason_3")
RESERVED = ("rank", "row", *RESULTS, "stability", *REASONS)


def takes_gaps(classifier: Any) -> bool:
    """Whether the classifier takes NaN for a missing number."""
    return bool(get_tags(classifier).input_tags.allow_nan)


def raw_scores(classifier: Any, X: Any) -> NDArray[np.float64]:
    """The scores that a classifier ranks rows by: before its own calibration, if it has one."""
    return classifier.raw_scores(X) if isinstance(classifier, TablePUClassifier) else logits_of(classifier, X)


def scores_of(classifier: Any, features: Features, numbers: Single) -> NDArray[np.float64]:
    """The classifier's scores of rows, whose missing numbers are filled in if it cannot take them."""
    return raw_scores(classifier, numbers if takes_gaps(classifier) else features.filled(numbers))


@dataclass(frozen=True, repr=False)
class TableModel:
    """The result of :func:`fit_table`.

    Attributes
    ----------
    features : Features
        From columns to numbers.
    classifier : classifier of pulab, fitted
    probabilities : Probabilities
        From scores to probabilities, at both ends of the prior's range and at the prior itself if it is known.
    label : LabelColumn
        How the label column was read.
    id : str or None
        The column that names rows.
    summary : dict
        Everything that the report shows, as plain data (:class:`pulab.summary.Summary`).
    candidates : polars.DataFrame
        The unlabeled rows with the highest held-out scores, best first. Their probabilities account for the rows
        being unlabeled.
    held_out : polars.DataFrame
        For every row of the table, whether it is labelled, its score by a model that has not seen it, and a person's
        answer before the fit: 1 for yes, -1 for no, 0 for none.
    profile : dict or None
        The distribution of each column, to compare other tables with.
    draw : Draw or None
        The rows that ``pulab review`` asks about.
    """

    features: Features
    classifier: Any
    probabilities: Probabilities
    label: LabelColumn
    id: str | None
    summary: Summary
    candidates: pl.DataFrame
    held_out: pl.DataFrame
    profile: Profile | None = None
    draw: Draw | None = None

    def __repr__(self) -> str:
        table, prior = self.summary["table"], self.summary["prior"]
        return (
            f"<TableModel of {table['name']}: {self.summary['method']['key']}, {table['labelled']:,} labelled of "
            f"{table['rows']:,} rows, prior {prior['low']:.3f} to {prior['high']:.3f}>"
        )

    def _repr_html_(self) -> str:
        """What a notebook shows: the headline, what is known of the share of positives, and the first candidates."""
        from html import escape

        from pulab.report._words import about

        lines = "".join(f"<p>{escape(line)}</p>" for line in (repr(self), *about(self.summary)))
        return f"{lines}{self.candidates.head(5)._repr_html_()}"

    def score(self, table: Any) -> Any:
        """Scores of a table's rows in their order: the id if there is one, score, probabilities, decision.

        ``probability_low`` and ``probability_high`` are for the two ends of the prior's range. ``probability`` and
        ``decision`` are empty if they are not known.

        For a frame of pandas or pyarrow, the result is such a frame, with the index of pandas. Otherwise it is polars.
        """
        return like(table, self._all_scores(table), same_rows=True)

    def predict_proba(self, table: Any) -> NDArray[np.float64]:
        """Probabilities of being negative and positive, for each row. Refused if only their range is known."""
        p = self.score(table)["probability"]
        if p.null_count():
            if self.probabilities.strata is not None:
                raise InputError(
                    "probabilities are not known, because the share of positives is not known for each group of rows "
                    "that labelling depends on. Use score, which gives both ends."
                )
            low, high = self.summary["prior"]["low"], self.summary["prior"]["high"]
            raise InputError(
                f"probabilities are not known, because the share of positives lies anywhere from {low:.3g} to "
                f"{high:.3g}. Use score, which gives both ends, or fit with prior=…"
            )
        return np.stack([1 - p.to_numpy(), p.to_numpy()], axis=1)

    def predict(self, table: Any) -> NDArray[np.bool_]:
        """Whether each row is called positive. Refused if no rule says so."""
        decision = self.score(table)["decision"]
        if decision.null_count():
            raise InputError(self.summary["decision"]["why"])
        return np.asarray(decision.to_numpy(), dtype=bool)

    def watch(self, random_state: int = 0) -> Watch:
        """Pass it to a method that scores, and its ``lines()`` then say how the table differs from the training."""
        return Watch(self.profile, random_state)

    def score_batches(self, table: Any, watch: Watch | None = None) -> Iterator[pl.DataFrame]:
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
                scored = self._scored(*piece)
                if watch is not None:
                    watch.add(piece[1], scored["probability_high"].to_numpy())
                yield scored

    def score_file(
        self,
        table: Any,
        out: str | Path,
        on_rows: Callable[[int], None] = lambda rows: None,
        watch: Watch | None = None,
    ) -> int:
        """Write a table's scores to a CSV or Parquet file, all or nothing. Returns the number of rows."""
        n_rows = 0
        with table_writer(Path(out)) as write:
            for scored in self.score_batches(table, watch):
                write(scored)
                n_rows += scored.height
                on_rows(n_rows)
        return n_rows

    def rank(self, table: Any, top: int = 100, watch: Watch | None = None) -> Any:
        """The rows most likely positive, best first, with all their columns. Rows whose label is known are left out.

        For a frame of pandas or pyarrow, the result is such a frame. Otherwise it is polars.

        For the table that the model was fitted to, use ``candidates``: models that had not seen them scored these rows.
        """
        check_number("top", top, low=1, whole=True)
        best: pl.DataFrame | None = None
        first = 1
        for frame in self._pieces(table, None):
            conformed = conform(frame, self.features.columns, name_of(table))
            scored = self._scored(frame, conformed)
            if watch is not None:
                watch.add(conformed, scored["probability_high"].to_numpy())
            if self.id not in frame.columns:
                scored = scored.select(pl.Series("row", np.arange(first, first + frame.height)), pl.all())
            joined = beside(scored, frame.drop(self.label.name, strict=False))
            if self.label.name in frame.columns:
                label = frame[self.label.name]
                joined = joined.filter(~pl.Series(self.label.of(label) | self.label.refuted(label)))
            first += frame.height
            best = joined if best is None else pl.concat([best, joined], how="vertical_relaxed")
            best = best.sort("score", descending=True, maintain_order=True).head(top)
        assert best is not None  # a table without rows is refused
        best = with_numbers(best, self.features.columns, name_of(table))
        return like(table, best.select(pl.Series("rank", np.arange(1, best.height + 1)), pl.all()))

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
            "label": [self.label.name, self.label.positive, self.label.given, self.label.negative],
            "id": self.id,
            "texts": [name for name, kind in self.candidates.schema.items() if kind == pl.String],
            "vectorizer": content.pack(self.features.vectorizer),
            "imputer": content.pack(self.features.imputer),
            "classifier": content.pack(self.classifier),
            "probabilities": [None if part is None else content.pack(part) for part in self.probabilities[:3]],
            "strata": self.probabilities.strata,
            "summary": self.summary,
            "profile": self.profile,
            "draw": None if self.draw is None else [_pack(flat(self.draw.frame), content), *self.draw[1:]],
            "held_out": _pack(self.held_out, content),
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
            vectorizer, imputer, classifier = (
                content.unpack(document[name]) for name in ("vectorizer", "imputer", "classifier")
            )
            *ends, value = document["probabilities"]
            low, high = map(content.unpack, ends)
            strata = check_strata(document.get("strata"))
            probabilities = Probabilities(low, high, None if value is None else content.unpack(value), strata)
            label = LabelColumn(*document["label"])
            features = Features(columns, vectorizer, imputer)
            candidates = _read(folder, document["texts"])
            summary = check_summary(document["summary"])
            profile = check_profile(document.get("profile"))
            draw = _draw(document["draw"], content)
            held_out = _frame(document["held_out"], content)
            model = cls(
                features, classifier, probabilities, label, document["id"], summary, candidates, held_out, profile, draw
            )
            model._check()
        return model._with_answers(folder)

    def _with_answers(self, folder: Path) -> "TableModel":
        """The model as the answers in its folder have changed it."""
        from pulab.review import FILE, measured, read_answers
        from pulab.tables._review import with_answers

        if self.draw is None:
            return self
        if (folder / FILE).exists() and not (folder / FILE).is_file():
            raise ModelFileError(f"{folder / FILE} is not a file of answers. Move it elsewhere.")
        answers = read_answers(folder / FILE, self.draw)
        found = measured(answers, self.summary)
        if found is None:
            return self
        if not found["settled"]:
            return replace(self, summary={**self.summary, "measured": found})
        names = self.draw.frame[self.id or "row"]
        return with_answers(self, found, {str(names[at]) for at, answer in answers.latest.items() if answer != "skip"})

    def _check(self) -> None:
        """Refuse files that do not fit together, so that no later command fails on them.

        An empty row must get a probability, the report must be written, and every row has a score.
        """
        columns, summary = [column.name for column in self.features.columns], self.summary
        _must(all(column.kind in KINDS for column in self.features.columns), "the columns have unknown kinds")
        _must(
            all(type(name) is str for name in columns) and len({*columns}) == len(columns), "the columns have no names"
        )
        _must(self.id is None or type(self.id) is str, "the id is not the name of a column")
        _must(isinstance(self.label.name, str) and isinstance(self.label.positive, str), "the label has no name")
        _must(self.label.negative is None or isinstance(self.label.negative, str), "the label has no name")
        self._check_held_out()
        if self.draw is not None:
            self._check_draw(self.draw)
        _must(
            self.profile is None or [c["name"] for c in self.profile["columns"]] == columns, "the profile does not fit"
        )
        decision, prior = summary["decision"], summary["prior"]
        _must(0 < prior["low"] <= prior["high"] < 1 and summary["scenario"] in SCENARIOS, "the prior is not a share")
        _must(
            decision["rule"] in (None, "score") or (decision["rule"] == "probability" and self.probabilities.value),
            "no prior is known for the decision",
        )
        empty = pl.DataFrame({name: [None] for name in columns})
        watch = self.watch()
        conformed = conform(empty, self.features.columns, "an empty row")
        scored = self._scored(empty, conformed)
        (low,), (high,) = scored["probability_low", "probability_high"]
        _must(0 <= low <= high <= 1, f"it gives probabilities of {low} to {high}")
        watch.add(conformed, scored["probability_high"].to_numpy())
        watch.lines()
        self.report()

    def _check_held_out(self) -> None:
        held_out, table, strata = self.held_out, self.summary["table"], self.probabilities.strata
        schema = HELD_OUT if strata is None else {**HELD_OUT, "stratum": pl.Int64}
        fits = held_out.schema == schema and held_out.height == table["rows"] and not sum(held_out.null_count().row(0))
        _must(fits, "the held-out scores do not fit the table")
        labelled, answers = held_out["labelled"], held_out["answer"]
        n_open = (~labelled & (answers == 0)).sum()
        _must(
            (labelled.sum(), n_open) == (table["labelled"], table["unlabeled"]), "the held-out rows are not labelled so"
        )
        _must(
            labelled.any() and n_open > 0 and answers.is_between(-1, 1).all(), "the held-out rows are not labelled so"
        )
        _must(held_out["score"].is_finite().all(), "the held-out scores are not finite")
        _must(
            strata is None or set(held_out["stratum"].unique()) == set(range(strata["strata"])),
            "the held-out scores do not fit the strata",
        )

    def _check_draw(self, draw: Draw) -> None:
        """The rows to review are unlabeled rows of the table, and their bands divide all unlabeled rows."""
        wrong = "the rows to review do not fit together"
        frame, stratum, ends, labelled = draw
        lists = (stratum, ends, labelled)
        _must(all(isinstance(part, list) and all(type(n) is int for n in part) for part in lists), wrong)
        _must(len(ends) == len(labelled) and min(labelled, default=0) >= 0, wrong)
        _must(sum(labelled) <= self.held_out.height, wrong)
        _must(ends and ends[0] > 0 and ends[-1] == self.summary["table"]["unlabeled"], wrong)
        _must(all(one < other for one, other in pairwise(ends)), wrong)
        _must(stratum and min(stratum) >= 0 and max(stratum) < len(ends) and len(stratum) == frame.height, wrong)
        _must({"row", *REASONS, *([self.id] if self.id else [])} <= {*frame.columns}, wrong)
        rows = frame["row"]
        _must(rows.dtype == pl.Int64 and not rows.null_count() and rows.n_unique() == len(rows), wrong)
        _must(rows.is_between(1, self.held_out.height).all(), wrong)
        of_draw = self.held_out[rows - 1]
        _must((~of_draw["labelled"] & (of_draw["answer"] == 0)).all(), wrong)
        sizes = [end - start for start, end in zip([0, *ends], ends, strict=False)]
        _must(all(stratum.count(band) <= size for band, size in enumerate(sizes)), wrong)

    def _all_scores(self, table: Any) -> pl.DataFrame:
        return pl.concat(list(self.score_batches(table)), how="vertical_relaxed")

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
        names = {self.id: frame[self.id]} if self.id in frame.columns else {}
        strata, of_row = self.probabilities.strata, None
        if strata is not None:
            of_row = stratum_of(strata, conformed)
            score = score + np.array(strata["offset"])[of_row]
        results = self.probabilities.of(score, self.summary["decision"], of_row)
        return pl.DataFrame({**names, "score": score, **results})


def _read(folder: Path, as_text: list[str]) -> pl.DataFrame:
    """The candidates; none if somebody has changed their file so that it cannot be read."""
    try:
        types = dict.fromkeys(as_text, pl.String)
        raw = read_regular(folder / "candidates.csv")
        return pl.read_csv(io.BytesIO(raw), infer_schema_length=None, schema_overrides=types)
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return pl.DataFrame()


# Parquet files are not used here: a small one can hold any number of rows, and a damaged one ends in a panic.
WHOLE = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)
TYPES: dict[str, Any] = {str(kind): kind for kind in (pl.Boolean, *WHOLE, pl.Float32, pl.Float64)}


def _pack(frame: pl.DataFrame, content: Content) -> list[Any]:
    """A frame as JSON and arrays. Dates and all other kinds become text, as people read them."""
    columns: list[Any] = []
    for values in frame:
        if str(values.dtype) not in TYPES:
            columns.append([values.name, "text", values.cast(pl.String).to_list()])
            continue
        missing = values.is_null().arg_true().to_list()
        filled = values.fill_null(False if values.dtype == pl.Boolean else 0)
        columns.append([values.name, str(values.dtype), content.pack(filled.to_numpy()), missing])
    return columns


def _frame(packed: Any, content: Content) -> pl.DataFrame:
    columns = []
    for name, kind, values, *missing in packed:
        if kind == "text":
            columns.append(pl.Series(name, values, dtype=pl.String))
            continue
        array = content.unpack(values)
        column = pl.Series(name, array, dtype=TYPES[kind])
        if array.ndim != 1 or column.dtype != TYPES[kind]:
            raise ValueError(f"column {name!r} holds other values than it says")
        columns.append(column.scatter(missing[0], None) if missing[0] else column)
    return pl.DataFrame(columns)


def _draw(packed: Any, content: Content) -> Draw | None:
    return None if packed is None else Draw(_frame(packed[0], content), *packed[1:])


def _must(holds: Any, what: str) -> None:
    if not holds:
        raise ValueError(what)


def beside(head: pl.DataFrame, rest: pl.DataFrame) -> pl.DataFrame:
    """Two frames side by side. The second loses columns that the first has; names of results are changed."""
    taken = {"rank", *head.columns}
    same = [name for name in rest.columns if name in head.columns and name not in RESERVED]
    renamed = {name: f"{name} (in the table)" for name in rest.columns if name in taken and name not in same}
    return pl.concat([head, rest.drop(same).rename(renamed)], how="horizontal")
