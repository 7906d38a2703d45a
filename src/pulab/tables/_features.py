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


class Features:
    """skrub's view of a table: numbers as they are, dates in parts, few words one-hot, many words and texts embedded.

    Missing numbers stay NaN, for those classifiers that can take them; for the others :meth:`filled` puts the median
    in their place and adds a column that says so.
    """

    def __init__(self, columns: Sequence[Column], vectorizer: Any, imputer: Any) -> None:
        self.columns = tuple(columns)
        self.vectorizer = vectorizer
        self.imputer = imputer

    @classmethod
    def learn(cls, frame: pl.DataFrame, columns: Sequence[Column], seed: int) -> tuple[Self, Array]:
        """Learn from columns of known kinds; and their numbers."""
        from sklearn.impute import SimpleImputer
        from skrub import StringEncoder, TableVectorizer

        vectorizer = TableVectorizer(high_cardinality=StringEncoder(random_state=seed))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            numbers = _array(vectorizer.fit_transform(_words_as_such(frame)))
        if numbers.shape[1] == 0:
            raise InputError("no column is left to learn from: all are empty or carry one value.")
        imputer = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True).fit(numbers)
        return cls(columns, vectorizer, imputer), numbers

    def __call__(self, frame: pl.DataFrame) -> Array:
        """The numbers of other rows, whose columns must be of the same kinds."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # words that were not seen before are fine
            return _array(self.vectorizer.transform(_words_as_such(frame)))

    def filled(self, numbers: Array) -> Array:
        """The numbers without gaps."""
        return np.asarray(self.imputer.transform(numbers), dtype=np.float32)

    def groups(self) -> dict[str, list[int]]:
        """Which of the numbers come from which column."""
        place = {name: i for i, name in enumerate(self.vectorizer.get_feature_names_out())}
        by_column = self.vectorizer.input_to_outputs_
        found = {name: [place[out] for out in outs if out in place] for name, outs in by_column.items()}
        return {name: places for name, places in found.items() if places}

    def kinds(self) -> dict[str, str]:
        """What each column was taken for, in a word for people."""
        words = {"numeric": "number", "datetime": "date", "low_cardinality": "category", "high_cardinality": "text"}
        return {
            name: words.get(kind, kind) for kind, names in self.vectorizer.kind_to_columns_.items() for name in names
        }


def _words_as_such(frame: pl.DataFrame) -> pl.DataFrame:
    """What text is has been decided: skrub would look for dates and numbers in it once more, but not in categories."""
    return frame.with_columns(pl.col(pl.String).cast(pl.Categorical))


def _array(frame: pl.DataFrame) -> Array:
    numbers = np.array(frame.to_numpy(), dtype=np.float32)
    # Squares of what is larger would overflow, and nothing measured is.
    return np.clip(numbers, -1e18, 1e18, out=numbers)
