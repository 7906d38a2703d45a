"""From mixed columns to numbers."""

import os
import tempfile
import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pulab.errors import InputError
from pulab.tables._kinds import Column

Array = NDArray[np.float32]

# skrub makes a folder in the home directory when it is imported, and fails where there is none to write to.
if not os.access(os.path.expanduser("~"), os.W_OK):  # noqa: PTH111  # Path fails where there is no home at all
    os.environ.setdefault("SKB_DATA_DIRECTORY", f"{tempfile.gettempdir()}/skrub_data")


PLAIN = ("number", "boolean", "time")  # kinds that are numbers as they stand


class Features:
    """A table as numbers: numbers as they are, then skrub's view of the rest.

    Of the rest, dates are taken apart, few words become one-hot, many words and texts are embedded. Missing numbers are
    NaN, for those classifiers that can take them; for the others :meth:`filled` puts the median in their place and adds
    a column that says so.
    """

    def __init__(self, columns: Sequence[Column], vectorizer: Any, imputer: Any) -> None:
        self.columns = tuple(columns)
        self.vectorizer = vectorizer  # None where all columns are plain
        self.imputer = imputer

    @classmethod
    def learn(cls, frame: pl.DataFrame, columns: Sequence[Column], seed: int) -> tuple[Self, Array]:
        """Learn from columns of known kinds; and their numbers."""
        from sklearn.impute import SimpleImputer

        features = cls(columns, None, None)
        rest = features._rest(frame)
        if rest.width:
            from skrub import StringEncoder, TableVectorizer

            features.vectorizer = TableVectorizer(high_cardinality=StringEncoder(random_state=seed))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                features.vectorizer.fit(rest)
        numbers = features(frame)
        if numbers.shape[1] == 0:
            raise InputError("no column is left to learn from: all are empty or carry one value.")
        features.imputer = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True).fit(numbers)
        return features, numbers

    def __call__(self, frame: pl.DataFrame) -> Array:
        """The numbers of rows whose columns are of these kinds."""
        parts = [_array(frame.select(self._plain()))] if self._plain() else []
        if self.vectorizer is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # words that were not seen before are fine
                parts.append(_array(self.vectorizer.transform(self._rest(frame))))
        return parts[0] if len(parts) == 1 else np.hstack(parts)

    def filled(self, numbers: Array) -> Array:
        """The numbers without gaps."""
        return np.asarray(self.imputer.transform(numbers), dtype=np.float32)

    def groups(self) -> dict[str, list[int]]:
        """Which of the numbers come from which column."""
        plain = self._plain()
        found = {name: [i] for i, name in enumerate(plain)}
        if self.vectorizer is not None:
            place = {name: len(plain) + i for i, name in enumerate(self.vectorizer.get_feature_names_out())}
            for name, outs in self.vectorizer.input_to_outputs_.items():
                found[name] = [place[out] for out in outs if out in place]
        return {name: places for name, places in found.items() if places}

    def kinds(self) -> dict[str, str]:
        """What each column was taken for, in a word for people."""
        words = {"datetime": "date", "low_cardinality": "category", "high_cardinality": "text"}
        by_skrub = {} if self.vectorizer is None else self.vectorizer.kind_to_columns_
        return dict.fromkeys(self._plain(), "number") | {
            name: words.get(kind, kind) for kind, names in by_skrub.items() for name in names
        }

    def _plain(self) -> list[str]:
        return [column.name for column in self.columns if column.kind in PLAIN]

    def _rest(self, frame: pl.DataFrame) -> pl.DataFrame:
        """What is for skrub, which would look for dates and numbers in text, as was done, but not in categories."""
        rest = frame.select(column.name for column in self.columns if column.kind not in PLAIN)
        return rest.with_columns(pl.col(pl.String).cast(pl.Categorical))


def _array(frame: pl.DataFrame) -> Array:
    numbers = np.array(frame.cast(pl.Float32).to_numpy(), order="C")
    # Squares of what is larger would overflow, and nothing measured is.
    return np.clip(numbers, -1e18, 1e18, out=numbers)
