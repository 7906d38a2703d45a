"""From columns of mixed kinds to numbers."""

import os
import tempfile
import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pulab.errors import InputError
from pulab.tables._columns import Column

Single = NDArray[np.float32]
PLAIN = ("number", "boolean", "time")  # kinds that are numbers already
# skrub's defaults: a column with MANY_WORDS different words or more becomes EMBEDDED numbers.
MANY_WORDS, EMBEDDED = 40, 30
ENCODER = 0.7e6  # bytes that skrub keeps for a column of 300 words, measured
COPIES = 3  # of all numbers, at least: as they are, without gaps, and those of a fold


def import_skrub() -> Any:
    """The package skrub. Its import makes a folder: here in the temporary folder if the home folder is read-only."""
    home = os.path.expanduser("~")  # noqa: PTH111  # Path.home() fails where there is no home
    if "SKB_DATA_DIRECTORY" in os.environ or os.access(home, os.W_OK):
        return import_module("skrub")
    os.environ["SKB_DATA_DIRECTORY"] = f"{tempfile.gettempdir()}/skrub_data"
    try:
        return import_module("skrub")
    finally:
        del os.environ["SKB_DATA_DIRECTORY"]


class Features:
    """A table as numbers: first the plain columns, then what skrub makes of the others.

    skrub takes dates apart, encodes a few words as one-hot, and embeds many words and texts. Missing numbers are NaN.
    For classifiers that cannot take NaN, :meth:`filled` puts the median in their place and adds columns that mark them.
    """

    def __init__(self, columns: Sequence[Column], vectorizer: Any, imputer: Any) -> None:
        self.columns = tuple(columns)
        self.vectorizer = vectorizer  # None if all columns are plain
        self.imputer = imputer

    @classmethod
    def learn(cls, frame: pl.DataFrame, columns: Sequence[Column], seed: int) -> tuple[Self, Single]:
        """Fit to columns of known kinds. Returns the features and the numbers of these rows."""
        from sklearn.impute import SimpleImputer

        features = cls(columns, None, None)
        rest = features._rest(frame)
        _check_memory(frame, columns)
        if rest.width:
            skrub = import_skrub()
            encoder = skrub.StringEncoder(random_state=seed)
            features.vectorizer = skrub.TableVectorizer(high_cardinality=encoder)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                features.vectorizer.fit(rest)
        numbers = features(frame)
        if numbers.shape[1] == 0:
            raise InputError("no column is left to learn from: all are empty or have one value.")
        features.imputer = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True).fit(numbers)
        return features, numbers

    def __call__(self, frame: pl.DataFrame) -> Single:
        """The numbers of rows whose columns are of these kinds."""
        parts = [_array(frame.select(self._plain()))] if self._plain() else []
        if self.vectorizer is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # words that were not seen in the fit
                parts.append(_array(self.vectorizer.transform(self._rest(frame))))
        return parts[0] if len(parts) == 1 else np.hstack(parts)

    def filled(self, numbers: Single) -> Single:
        """The numbers without missing values."""
        return np.asarray(self.imputer.transform(numbers), dtype=np.float32)

    def groups(self, width: int | None = None) -> dict[str, list[int]]:
        """For each column, the indices of its numbers.

        An array of filled numbers ends with a mark for each number with gaps. Pass its width to include the marks.
        """
        plain = self._plain()
        indices = {name: [i] for i, name in enumerate(plain)}
        if self.vectorizer is not None:
            index = {name: len(plain) + i for i, name in enumerate(self.vectorizer.get_feature_names_out())}
            for name, outputs in self.vectorizer.input_to_outputs_.items():
                indices[name] = [index[output] for output in outputs if output in index]
        if width not in (None, self.imputer.n_features_in_):
            marked = enumerate(self.imputer.indicator_.features_, start=self.imputer.n_features_in_)
            mark = {int(index): at for at, index in marked}
            indices = {name: own + [mark[i] for i in own if i in mark] for name, own in indices.items()}
        return {name: own for name, own in indices.items() if own}

    def kinds(self) -> dict[str, str]:
        """The kind of each column, as a word for the report."""
        words = {"datetime": "date", "low_cardinality": "category", "high_cardinality": "text"}
        by_skrub = {} if self.vectorizer is None else self.vectorizer.kind_to_columns_
        return dict.fromkeys(self._plain(), "number") | {
            name: words.get(kind, kind) for kind, names in by_skrub.items() for name in names
        }

    def _plain(self) -> list[str]:
        return [column.name for column in self.columns if column.kind in PLAIN]

    def _rest(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The columns for skrub. Text is passed as categories, in which skrub does not look for dates and numbers."""
        rest = frame.select(column.name for column in self.columns if column.kind not in PLAIN)
        return rest.with_columns(pl.col(pl.String).cast(pl.Categorical))


def _check_memory(frame: pl.DataFrame, columns: Sequence[Column]) -> None:
    """Refuse a table whose numbers cannot fit into the machine: the system would end the process without a word."""
    texts = [values for values, column in zip(frame, columns, strict=True) if column.kind == "text"]
    n_words = sum(values.n_unique() >= MANY_WORDS for values in texts)
    n_numbers = len(columns) + (EMBEDDED - 1) * n_words
    needed, have = COPIES * 4 * frame.height * n_numbers + ENCODER * n_words, _memory()
    if needed > have:
        words = f", {n_words:,} of them with many different words," if n_words else ""
        raise InputError(
            f"{len(columns):,} columns{words} become {n_numbers:,} numbers in each of {frame.height:,} rows. They need "
            f"{needed / 2**30:.3g} GiB at least, but this machine has {have / 2**30:.3g} GiB. Leave columns out "
            "(--drop), or fit to fewer rows."
        )


CONTAINER = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")  # of a container


def _memory() -> float:
    """The bytes of memory that the machine has, or its container; no limit where the system does not tell."""
    limits = [float("inf")]
    with suppress(AttributeError, ValueError, OSError):  # Windows has no sysconf
        limits.append(float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")))
    for path in CONTAINER:
        with suppress(ValueError, OSError):  # "max" is no limit
            limits.append(float(int(Path(path).read_text())))
    return min(limits)


def _array(frame: pl.DataFrame) -> Single:
    numbers = np.array(frame.cast(pl.Float32).to_numpy(), order="C")
    return np.clip(numbers, -1e18, 1e18, out=numbers)  # squares of larger numbers would overflow
