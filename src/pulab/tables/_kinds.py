"""What the columns of a table are read as: when a model is fitted, and the same way whenever it scores."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from pulab.errors import InputError

WORDS = (pl.String, pl.Categorical, pl.Enum)
LEFT_OUT = "left out"

# How numbers may be written beside 1234.5: 1.234,5 and 1,234.5.
COMMA, THOUSANDS = ",", "1,000"
NUMBERS = {
    COMMA: r"^[+-]?(\d+|\d{1,3}([. '’]\d{3})+)?(,\d+)?$",
    THOUSANDS: r"^[+-]?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?$",
}
# 1,234 alone may be either; in a column with one of these it can only be the one.
EVIDENCE = {COMMA: r",(\d{1,2}|\d{4,})$|^[+-]?0?,\d|\d{4},|\.\d{3},", THOUSANDS: r",\d{3}[,.]"}
DATES = ("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%d-%m-%Y")
DATE_AND_TIME = (
    r"^(\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4})(?:[T ](\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?)?\s*(Z|[+-]\d{2}:?\d{2})?$"
)
_FORMS: dict[str, tuple[str, ...]] = {"number": ("", *NUMBERS), "date": DATES}  # of other kinds there is one
TIME = r"^([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?$"
ALMOST_A_NUMBER = (
    r"^\(?\s*[+-]?\s*([$€£]|EUR|USD|GBP|CHF)?\s*\d[\d.,' ’]*\s*([%$€£]|EUR|USD|GBP|CHF)?\s*\)?$"  # $20, 5 %, (12.50)
)


@dataclass(frozen=True)
class Column:
    """A column to learn from: its name, what its values are read as, and how they are written where they are text."""

    name: str
    kind: str  # "number", "boolean", "date", "time" or "text"
    form: str = ""  # of numbers a key of NUMBERS, of dates one of DATES


class Kind(NamedTuple):
    """What a column's values are read as, how they are written, and why they are of no use where they are left out."""

    kind: str
    form: str = ""
    note: str = ""


# When a model is fitted -----------------------------------------------------------------------------------------------


def kind_of(values: pl.Series) -> Kind:
    """What a column is to be read as."""
    dtype = values.dtype
    if values.null_count() == len(values):
        return Kind(LEFT_OUT, note="every value is missing")
    if dtype.is_nested() or dtype in (pl.Object, pl.Binary):
        return Kind(LEFT_OUT, note=f"values of type {dtype} cannot be learned from")
    if values.null_count() == 0 and values.n_unique() == 1:
        return Kind(LEFT_OUT, note="every row has the same value")
    if dtype in WORDS:
        return _kind_of_text(values.cast(pl.String))
    if dtype == pl.Boolean:
        return Kind("boolean")
    if dtype == pl.Time:
        return Kind("time")
    if dtype in (pl.Date, pl.Datetime):
        return Kind("date")
    if dtype == pl.Duration:
        return Kind("number")
    if dtype.is_numeric():
        return Kind(LEFT_OUT, note="it numbers the rows") if _is_counter(values) else Kind("number")
    return Kind(LEFT_OUT, note=f"values of type {dtype} cannot be learned from")


def _kind_of_text(text: pl.Series) -> Kind:
    few = text.drop_nulls().head(200)  # most columns are no numbers and no dates, which some values show
    for kind, form in [("number", form) for form in _FORMS["number"]] + [("time", "")] + [("date", f) for f in DATES]:
        promising = _from_text(few, kind, form, sure=False) is not None
        read = _from_text(text, kind, form) if promising else None
        if read is not None:
            counts = kind == "number" and _is_counter(read)
            return Kind(LEFT_OUT, note="it numbers the rows") if counts else Kind(kind, form)
    if text.drop_nulls().str.strip_chars().str.to_lowercase().is_in(["true", "false"]).all():
        return Kind("boolean")
    if _is_code(text) and not almost_numbers(text):
        return Kind(LEFT_OUT, note="another word in every row, as identifiers have")
    return Kind("text")


def _is_counter(values: pl.Series) -> bool:
    """Whether whole numbers count the rows: all different, and nearly all of their range in use."""
    if len(values) < 50 or values.null_count() or not (values.dtype.is_integer() or (values == values.floor()).all()):
        return False
    return values.n_unique() == len(values) and bool(int(values.max()) - int(values.min()) < 1.1 * len(values))  # type: ignore[arg-type]


def _is_code(text: pl.Series) -> bool:
    """Whether every row has another single word."""
    words = text.drop_nulls()
    return len(words) >= 50 and words.n_unique() == len(words) and not words.str.strip_chars().str.contains(r"\s").any()


def almost_numbers(values: pl.Series) -> str | None:
    """Of words that nearly all are numbers, or would be but for signs that are not read, one that is in the way."""
    if values.dtype not in WORDS:
        return None
    words = values.cast(pl.String).drop_nulls().unique(maintain_order=True)
    if len(words) < 3 or words.str.contains(ALMOST_A_NUMBER).sum() <= 0.9 * len(words):
        return None
    odd = words.filter(words.str.strip_chars().cast(pl.Float64, strict=False).is_null())
    return str(odd[0]) if len(odd) else None


# Always ---------------------------------------------------------------------------------------------------------------


def conform(frame: pl.DataFrame, columns: Sequence[Column], where: str) -> pl.DataFrame:
    """These columns, each read as its kind: numbers as float64 (infinite ones as missing), words as text."""
    for column in columns:
        check_column(column.name, frame.columns, where, "a feature that the model was trained on")
    return pl.DataFrame([_as_kind(frame[column.name], column, where) for column in columns])


def with_numbers(frame: pl.DataFrame, columns: Sequence[Column], where: str) -> pl.DataFrame:
    """A table whose numbers are no longer text, but for codes such as 007."""
    texts = [c for c in columns if c.kind == "number" and c.name in frame.columns and frame[c.name].dtype in WORDS]
    numbers = [c for c in texts if not frame[c.name].cast(pl.String).str.contains(r"^\s*0\d").any()]
    return frame.with_columns(map(_whole, conform(frame, numbers, where))) if numbers else frame


def _whole(numbers: pl.Series) -> pl.Series:
    """Whole numbers as such."""
    if (numbers == numbers.floor()).all() and (numbers.abs() < 2**53).all():
        return numbers.cast(pl.Int64)
    return numbers


def _as_kind(values: pl.Series, column: Column, where: str) -> pl.Series:
    read = None
    if values.dtype in WORDS:
        read = _text_as_kind(values.cast(pl.String), column)
    elif _may_hold(values.dtype, column.kind):
        read = _typed_as_kind(values, column.kind)
    if read is None:
        raise InputError(
            f"column {column.name!r} of {where} must hold {_PLURAL[column.kind]}, as in training, got "
            f"{_example(values, column)!r}. Mend it, or fit again with such values."
        )
    if column.kind == "number" and not read.is_finite().all():
        read = read.set(~read.is_finite(), None)
    return read.alias(column.name)


def _may_hold(dtype: pl.DataType, kind: str) -> bool:
    """Whether values of a type can be read as this kind; polars would make numbers of dates, and dates of numbers."""
    if dtype == pl.Null:
        return True
    if kind in ("number", "boolean"):
        return dtype.is_numeric() or dtype == pl.Boolean or (kind == "number" and dtype == pl.Duration)
    if kind == "text":
        return not dtype.is_nested() and dtype not in (pl.Object, pl.Binary)
    return dtype == pl.Time if kind == "time" else dtype in (pl.Date, pl.Datetime)


def _typed_as_kind(values: pl.Series, kind: str) -> pl.Series:
    if kind == "number":
        return (values.dt.total_seconds(fractional=True) if values.dtype == pl.Duration else values).cast(pl.Float64)
    if kind == "time":
        return values.cast(pl.Time).cast(pl.Int64) / 1e9
    # Milliseconds reach further than finer units, to which polars would not come back from the year 300,000.
    return values.cast({"boolean": pl.Boolean(), "date": pl.Datetime("ms"), "text": pl.String()}[kind])


def _text_as_kind(text: pl.Series, column: Column) -> pl.Series | None:
    """Text as numbers, dates, … in the form that the column had in training, or else in another that is plain."""
    if column.kind == "text":
        return text
    if column.form and (read := _from_text(text, column.kind, column.form, sure=False)) is not None:
        return read
    tried = (_from_text(text, column.kind, form) for form in _FORMS.get(column.kind, ("",)))
    found = [read for read in tried if read is not None]
    if not found or any(not found[0].equals(other) for other in found[1:]):  # a day that may as well be a month
        return None
    return found[0]


def _from_text(text: pl.Series, kind: str, form: str, sure: bool = True) -> pl.Series | None:
    """Text in some form as numbers, dates, …; None where a value is in another, or may be (unless that is ``sure``)."""
    text = text.str.strip_chars()
    if kind == "number":
        read = _numbers(text, form, sure)
    elif kind == "time":
        read = _seconds(text)
    elif kind == "date":
        text = text.set(text.str.starts_with("0000-00-00"), None)  # as MySQL writes gaps
        read = _dates(text, form)
    else:
        read = text.str.to_lowercase().replace_strict(_BOOLEANS, default=None, return_dtype=pl.Boolean)
    return None if read is None or read.null_count() > text.null_count() else read


def _numbers(text: pl.Series, form: str, sure: bool) -> pl.Series | None:
    if not form:
        return text.cast(pl.Float64, strict=False)
    if not text.str.contains(NUMBERS[form]).all() or (sure and not text.str.contains(EVIDENCE[form]).any()):
        return None
    if form == COMMA:
        text = text.str.replace_all(r"[. '’]", "").str.replace(",", ".", literal=True)
    return text.str.replace_all(",", "", literal=True).cast(pl.Float64, strict=False)


def _seconds(text: pl.Series) -> pl.Series:
    hours, minutes, seconds = text.str.extract_groups(TIME).struct.unnest()
    return 3600 * hours.cast(pl.Float64) + 60 * minutes.cast(pl.Float64) + seconds.cast(pl.Float64).fill_null(0)


def _dates(text: pl.Series, form: str) -> pl.Series:
    """Dates, and times if there are any; those with a time zone in UTC."""
    day, hours, minutes, seconds, zone = text.str.extract_groups(DATE_AND_TIME).struct.unnest()
    gone = 3600 * hours.cast(pl.Float64) + 60 * minutes.cast(pl.Float64) + seconds.cast(pl.Float64).fill_null(0)
    sign, zone_hours, zone_minutes = zone.str.extract_groups(r"^([+-])(\d{2}):?(\d{2})$").struct.unnest()
    ahead = (3600 * zone_hours.cast(pl.Float64) + 60 * zone_minutes.cast(pl.Float64)) * (
        1 - 2 * (sign == "-").cast(pl.Int8)
    )
    milliseconds = (1000 * (gone.fill_null(0) - ahead.fill_null(0))).round().cast(pl.Int64)
    return day.str.to_date(form, strict=False).cast(pl.Datetime("ms")) + milliseconds.cast(pl.Duration("ms"))


_PLURAL = {"number": "numbers", "boolean": "true or false", "date": "dates", "time": "times", "text": "text"}
_BOOLEANS = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False, "t": True, "f": False}


def _example(values: pl.Series, column: Column) -> str | None:
    """A value that does not fit."""
    present = values.drop_nulls().cast(pl.String, strict=False).unique(maintain_order=True).head(2000).to_list()
    forms = _FORMS.get(column.kind, ("",))
    for tried in (forms, forms[:1]):  # one that is wrong in any form; or else one that may be meant in two ways
        for value in present:
            if all(_from_text(pl.Series([value]), column.kind, form, sure=False) is None for form in tried):
                return str(value)
    return str(present[0]) if present else None


# Names ----------------------------------------------------------------------------------------------------------------


def check_column(name: str, known: Sequence[str], where: str, option: str) -> None:
    """Refuse a column that is not there, and name the one that was probably meant."""
    if not isinstance(name, str):
        raise InputError(f"{option} must be the name of a column, got {name!r}.")
    if name not in known:
        near = nearest(name, known)
        raise InputError(f"{where} has no column {name!r} for {option}.{near or ' It has: ' + _shown(known) + '.'}")


def nearest(name: str, known: Sequence[str]) -> str:
    """A question whether another name was meant; nothing where none is near."""
    by_lower = {other.lower(): other for other in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f" Did you mean {by_lower[near[0]]!r}?" if near else ""


def _shown(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:20])) + (", …" if len(names) > 20 else "")
