"""Tables: one of scikit-learn's, three of UCI's, and synthetic ones that are hard for their size."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from pulab.datasets._fetch import Source, fetch
from pulab.datasets._split import Split, shuffled_split
from pulab.errors import DataFormatError, in_one_line

if TYPE_CHECKING:
    import polars


def load_breast_cancer() -> Split:
    """Wisconsin breast cancer: 30 features, malignant is positive; 427 training and 142 test rows."""
    from sklearn.datasets import load_breast_cancer as load

    bunch = load()
    return shuffled_split(bunch.data, 1 - bunch.target, n_test=142)


def make_moons() -> Split:
    """Two interleaved half-moons with noise 0.25, a quarter positive; 3,000 training and 5,000 test rows."""
    from sklearn.datasets import make_moons as make

    X, y = make((6000, 2000), noise=0.25, random_state=0)
    return shuffled_split(X, y, n_test=5000)


def make_clusters() -> Split:
    """Sixteen clusters on a hypercube's corners in 20 features, a third positive, 2 % of the labels flipped."""
    from sklearn.datasets import make_classification as make

    X, y = make(
        n_samples=10000,
        n_features=20,
        n_informative=6,
        n_redundant=4,
        n_clusters_per_class=8,
        weights=[0.67],
        flip_y=0.02,
        class_sep=1.5,
        random_state=0,
    )
    return shuffled_split(X, y, n_test=5000)


def make_hundred_thousand() -> Split:
    """Overlapping clouds in 20 features, a tenth positive; 110,000 training and 10,000 test rows."""
    rng = np.random.default_rng(0)
    y = (rng.random(120_000) < 0.1).astype(np.int64)
    X = rng.normal(size=(len(y), 20)).astype(np.float32)
    X[:, :8] += y[:, None] * rng.choice([-1.0, 1.0], size=8)
    X[:, 8] *= np.where(y == 1, 2.0, 1.0)  # the classes differ in spread here, which a linear model cannot use
    return shuffled_split(X, y, n_test=10_000)


UCI_URL = "https://archive.ics.uci.edu/ml/machine-learning-databases/"
UCI = {  # file: its folder below the address, its checksum
    "adult.data": ("adult/", "sha256:5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"),
    "adult.test": ("adult/", "sha256:a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"),
    "agaricus-lepiota.data": ("mushroom/", "sha256:e65d082030501a3ebcbcd7c9f7c71aa9d28fdfff463bf4cf4716a3fe13ac360e"),
    "spambase.data": ("spambase/", "sha256:b1ef93de71f97714d3d7d4f58fc9f718da7bbc8ac8a150eff2778616a8097b12"),
}
UCI_ROWS = {"adult.data": 32_561, "adult.test": 16_281, "agaricus-lepiota.data": 8_124, "spambase.data": 4_601}

ADULT = (  # noqa: SIM905
    "age workclass fnlwgt education education-num marital-status occupation relationship race sex capital-gain "
    "capital-loss hours-per-week native-country income"
).split()
ADULT_NUMBERS = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
MUSHROOM = (  # noqa: SIM905
    "class cap-shape cap-surface cap-color bruises odor gill-attachment gill-spacing gill-size gill-color stalk-shape "
    "stalk-root stalk-surface-above-ring stalk-surface-below-ring stalk-color-above-ring stalk-color-below-ring "
    "veil-type veil-color ring-number ring-type spore-print-color population habitat"
).split()
SPAM_WORDS = (  # noqa: SIM905
    "make address all 3d our over remove internet order mail receive will people report addresses free business email "
    "you credit your font 000 money hp hpl george 650 lab labs telnet 857 data 415 85 technology 1999 parts pm direct "
    "cs meeting original project re edu table conference"
).split()
SPAMBASE = [
    *(f"word_freq_{word}" for word in SPAM_WORDS),
    *(f"char_freq_{mark}" for mark in ";([!$#"),
    *(f"capital_run_length_{kind}" for kind in ("average", "longest", "total")),
    "spam",
]

Columns = dict[str, NDArray[Any]]


@overload
def load_adult(*, as_frame: Literal[False] = ...) -> Split: ...
@overload
def load_adult(*, as_frame: Literal[True]) -> "polars.DataFrame": ...
def load_adult(*, as_frame: bool = False) -> "Split | polars.DataFrame":
    """UCI's Adult: 14 columns of a census, an income above 50K is positive; 32,561 training and 16,281 test rows.

    Files: ``uci/adult.data`` and ``uci/adult.test`` below ``$PULAB_DATA`` or the user's cache. Missing files are
    downloaded. Each category becomes a column of zeros and ones; so does "?", which marks a missing value.

    Parameters
    ----------
    as_frame : bool
        Return all rows as one polars frame in place of arrays. Categories are strings, missing values are null, and
        ``income`` is the last column. The training rows come first.
    """
    parts = [_uci(name, ADULT, ADULT_NUMBERS, "income", ("<=50K", ">50K")) for name in ("adult.data", "adult.test")]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in ADULT}
    if as_frame:
        return _frame(columns)
    X, y = _arrays(columns, "income", ">50K")
    n_train = len(parts[0]["income"])
    return Split(X[:n_train], y[:n_train], X[n_train:], y[n_train:])


@overload
def load_mushroom(*, as_frame: Literal[False] = ...) -> Split: ...
@overload
def load_mushroom(*, as_frame: Literal[True]) -> "polars.DataFrame": ...
def load_mushroom(*, as_frame: bool = False) -> "Split | polars.DataFrame":
    """UCI's Mushroom: 22 columns of categories, poisonous is positive; 6,093 training and 2,031 test rows.

    File: ``uci/agaricus-lepiota.data``. It is found, and its categories are encoded, as in ``load_adult``.

    Parameters
    ----------
    as_frame : bool
        Return a polars frame of the published letters in place of arrays, with ``class`` ("p" or "e").
    """
    columns = _uci("agaricus-lepiota.data", MUSHROOM, (), "class", ("e", "p"))
    if as_frame:
        return _frame(columns)
    return shuffled_split(*_arrays(columns, "class", "p"), n_test=len(columns["class"]) // 4)


@overload
def load_spambase(*, as_frame: Literal[False] = ...) -> Split: ...
@overload
def load_spambase(*, as_frame: Literal[True]) -> "polars.DataFrame": ...
def load_spambase(*, as_frame: bool = False) -> "Split | polars.DataFrame":
    """UCI's Spambase: 57 counts of words and signs in messages, spam is positive; 3,451 training and 1,150 test rows.

    File: ``uci/spambase.data``. It is found as in ``load_adult``.

    Parameters
    ----------
    as_frame : bool
        Return a polars frame with named columns in place of arrays, with ``spam`` (0 or 1).
    """
    columns = _uci("spambase.data", SPAMBASE, SPAMBASE, "spam", (0, 1))
    if as_frame:
        return _frame(columns)
    return shuffled_split(*_arrays(columns, "spam", 1), n_test=len(columns["spam"]) // 4)


def _uci(
    name: str, names: Sequence[str], numbers: Collection[str], target: str, classes: tuple[str, str] | tuple[int, int]
) -> Columns:
    """The columns of a file, as numbers or as strings."""
    folder, checksum = UCI[name]
    path = fetch(Source(f"uci/{name}", f"{UCI_URL}{folder}{name}", checksum))
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        # adult.test begins with a comment, and its classes end with a dot.
        rows = [line.rstrip(".").split(",") for line in lines if line.strip() and not line.startswith("|")]
        if len(rows) != UCI_ROWS[name] or any(len(row) != len(names) for row in rows):
            raise ValueError(f"it must hold {UCI_ROWS[name]:,} lines of {len(names)} comma-separated values")
        table = dict(zip(names, np.char.strip(np.array(rows)).T, strict=True))
        columns = {column: _as_numbers(values) if column in numbers else values for column, values in table.items()}
        if unknown := set(columns[target].tolist()) - set(classes):
            raise ValueError(f"{target} must be one of {', '.join(map(repr, classes))}, got {min(unknown)!r}")
    except (OSError, ValueError) as error:
        raise DataFormatError(
            f"{path} cannot be read ({in_one_line(error)}). Delete it and download it again."
        ) from error
    return columns


def _as_numbers(values: NDArray[np.str_]) -> NDArray[Any]:
    numbers = values.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError("NaN or infinity")
    whole = numbers.astype(np.int64)
    return whole if (whole == numbers).all() else numbers


def _arrays(columns: Columns, target: str, positive: str | int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Features and truth, with a column of zeros and ones for each category."""
    blocks = [
        values == np.unique(values) if values.dtype.kind == "U" else values
        for values in (columns[name][:, None] for name in columns if name != target)
    ]
    return np.hstack(blocks).astype(np.float32), (columns[target] == positive).astype(np.int64)


def _frame(columns: Columns) -> "polars.DataFrame":
    import polars

    frame = polars.DataFrame({name: values.tolist() for name, values in columns.items()})
    return frame.with_columns(polars.col(polars.String).replace("?", None))
