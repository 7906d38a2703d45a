"""What the columns of a table are read as: when a model is fitted, and the same way whenever it scores."""

import datetime
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
    COMMA: r"^[+-]?(\d+|[1-9]\d{0,2}([. '’\u{a0}\u{202f}]\d{3})+)?(,\d+)?$",
    THOUSANDS: r"^[+-]?(\d+|[1-9]\d{0,2}(,\d{3})+)(\.\d+)?$",
}
# 1,234 may be either; a value with one of these in it can only be the one.
EVIDENCE = {COMMA: r",(\d{1,2}|\d{4,})$|^[+-]?0?,\d|\d{4},|[. '’\u{a0}\u{202f}]\d{3},", THOUSANDS: r",\d{3}[,.]"}
SURE_DATES = ("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y")
DATES = (*SURE_DATES, "%m/%d/%Y", "%d/%m/%Y", "%m-%d-%Y", "%d-%m-%Y")  # the latter may be meant in two ways
DATE_AND_TIME = (
    r"^(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})"
    r"(?:[T ]([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?)?\s*(Z|[+-][01]\d:?[0-5]\d)?$"
)
TIME = r"^([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?$"
ALMOST_A_NUMBER = (  # $20, 5 %, (12.50)
    r"^\(?\s*[+-]?\s*([$€£]|EUR|USD|GBP|CHF)?\s*\d[\d.,' ’\u{a0}\u{202f}]*\s*([%$€£]|EUR|USD|GBP|CHF)?\s*\)?$"
)
DOTS = r"^[+-]?[1-9]\d{0,2}(\.\d{3})+$"


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
        counts = _is_counter(values.cast(pl.Float64))
        return Kind(LEFT_OUT, note="it numbers the rows") if counts else Kind("number")
    return Kind(LEFT_OUT, note=f"values of type {dtype} cannot be learned from")


def _kind_of_text(text: pl.Series) -> Kind:
    text = text.str.strip_chars()
    few = text.drop_nulls().head(200)  # most columns are no numbers and no dates, which some values show
    for kind, form in FORMS:
        if _whole_as(few, kind, form) is None or (read := _whole_as(text, kind, form)) is None:
            continue
        if form in EVIDENCE and not text.str.contains(EVIDENCE[form]).any():
            continue
        counts = kind == "number" and _is_counter(read)
        return Kind(LEFT_OUT, note="it numbers the rows") if counts else Kind(kind, form)
    if text.drop_nulls().str.strip_chars().str.to_lowercase().is_in(["true", "false"]).all():
        return Kind("boolean")
    if _is_code(text) and not in_the_way(text):
        return Kind(LEFT_OUT, note="another word in every row, as identifiers have")
    return Kind("text")


def _is_counter(values: pl.Series) -> bool:
    """Whether whole numbers count the rows: all different, and nearly all of their range in use."""
    if len(values) < 50 or values.null_count() or not values.is_finite().all() or (values != values.floor()).any():
        return False
    return values.n_unique() == len(values) and bool(int(values.max()) - int(values.min()) < 1.1 * len(values))  # type: ignore[arg-type]


def _is_code(text: pl.Series) -> bool:
    """Whether every row has another single word."""
    words = text.drop_nulls()
    return len(words) >= 50 and words.n_unique() == len(words) and not words.str.strip_chars().str.contains(r"\s").any()


def in_the_way(values: pl.Series) -> str | None:
    """Of words that nearly all are numbers or dates, or would be but for signs that are not read, one that is not."""
    if values.dtype not in WORDS:
        return None
    words = values.cast(pl.String).drop_nulls().unique(maintain_order=True).str.strip_chars()
    if len(words) < 3:
        return None
    if words.str.contains(ALMOST_A_NUMBER).sum() > 0.9 * len(words):
        odd = words.filter(words.cast(pl.Float64, strict=False).is_null())
        return str(odd[0]) if len(odd) else None
    for form in DATES:
        read = _dates(words, form)
        if 0.9 * len(words) < read.is_not_null().sum() < len(words):
            return str(words.filter(read.is_null())[0])
    return None


def dots_may_be_thousands(values: pl.Series) -> str | None:
    """Of numbers that are written as 999 and 1.234 alone, one with a dot."""
    if values.dtype not in WORDS:
        return None
    words = values.cast(pl.String).drop_nulls().str.strip_chars()
    dotted = words.filter(words.str.contains(".", literal=True))
    plain = words.filter(~words.str.contains(".", literal=True))
    if not len(dotted) or not len(plain) or not dotted.str.contains(DOTS).all():
        return None
    return str(dotted[0]) if plain.str.contains(r"^[+-]?\d{1,3}$").all() else None


# Always ---------------------------------------------------------------------------------------------------------------


def conform(frame: pl.DataFrame, columns: Sequence[Column], where: str) -> pl.DataFrame:
    """These columns, each read as its kind: numbers as float64 (infinite ones as missing), words as text."""
    known = frame.columns
    for column in columns:
        check_column(column.name, known, where, "a feature that the model was trained on")
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
    if values.dtype in WORDS:
        values = values.cast(pl.String)
    elif values.dtype.is_float():
        values = values.fill_nan(None)
    present = values.is_not_null()
    if values.dtype == pl.String:
        present &= ~values.str.strip_chars().str.starts_with("0000-00-00") if column.kind == "date" else present
        read = _text_as_kind(values, column)
    elif _may_hold(values.dtype, column.kind):
        read = _typed_as_kind(values, column.kind)
    else:
        read = pl.Series([None] * len(values), dtype=pl.Float64)
    odd = values.filter(read.is_null() & present)
    if len(odd):
        raise InputError(
            f"column {column.name!r} of {where} must hold {_wanted(column)}, as in training, got {str(odd[0])!r}. Mend "
            "it, or fit again with such values."
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
        return not dtype.is_nested() and dtype not in (pl.Object, pl.Binary, pl.Duration)
    return dtype == pl.Time if kind == "time" else dtype in (pl.Date, pl.Datetime)


def _typed_as_kind(values: pl.Series, kind: str) -> pl.Series:
    """Values of a type that may hold this kind; one that does not becomes a gap."""
    if kind == "number":
        return (values.dt.total_seconds(fractional=True) if values.dtype == pl.Duration else values).cast(pl.Float64)
    if kind == "time":
        return values.cast(pl.Time).cast(pl.Int64) / 1e9
    if kind == "boolean":
        number = values.cast(pl.Float64)
        return number.set(~number.is_in([0.0, 1.0]), None).cast(pl.Boolean)
    if kind == "text":
        text = values.cast(pl.String)
        return text.str.strip_suffix(".0") if values.dtype.is_float() else text
    # Milliseconds reach further than finer units, to which polars would not come back from the year 300,000.
    return values.cast(pl.Datetime("ms"))


def _text_as_kind(text: pl.Series, column: Column) -> pl.Series:
    """Text as numbers, dates, …, each value on its own: what it is must not depend on the others beside it.

    It must be in the form that the column had in training; where it had none of its own, in one that cannot be meant in
    another way. What is in neither becomes a gap.
    """
    if column.kind == "text":
        return text
    text = _stripped(text, column.kind)
    read = _as_written(text, column.kind, column.form)
    others = SURE_DATES if column.kind == "date" else NUMBERS if column.kind == "number" and not column.form else ()
    for form in others:
        if read.null_count() > text.null_count():
            sure = text.set(~text.str.contains(EVIDENCE[form]), None) if form in EVIDENCE else text
            read = read.zip_with(read.is_not_null(), _as_written(sure, column.kind, form))
    return read


def _whole_as(text: pl.Series, kind: str, form: str) -> pl.Series | None:
    """All of a column in one form; None where a value is in another."""
    text = _stripped(text, kind)
    read = _as_written(text, kind, form)
    return None if read.null_count() > text.null_count() else read


def _stripped(text: pl.Series, kind: str) -> pl.Series:
    text = text.str.strip_chars()
    return text.set(text.str.starts_with("0000-00-00"), None) if kind == "date" else text  # as MySQL writes gaps


def _as_written(text: pl.Series, kind: str, form: str) -> pl.Series:
    """Text in some form as numbers, dates, …; what is in another becomes a gap."""
    if kind == "number":
        return _numbers(text, form)
    if kind == "time":
        return _seconds(text)
    if kind == "date":
        return _dates(text, form or SURE_DATES[0])
    return text.str.to_lowercase().replace_strict(_BOOLEANS, default=None, return_dtype=pl.Boolean)


def _numbers(text: pl.Series, form: str) -> pl.Series:
    text = text.str.replace("−", "-", literal=True)  # a minus sign proper
    if form:
        text = text.set(~text.str.contains(NUMBERS[form]), None)
    if form == COMMA:
        text = text.str.replace_all(r"[. '’\u{a0}\u{202f}]", "").str.replace(",", ".", literal=True)
    elif form == THOUSANDS:
        text = text.str.replace_all(",", "", literal=True)
    return text.cast(pl.Float64, strict=False)


def _seconds(text: pl.Series) -> pl.Series:
    hours, minutes, seconds = text.str.extract_groups(TIME).struct.unnest()
    return _clock(hours, minutes) + seconds.cast(pl.Float64).fill_null(0)


def _clock(hours: pl.Series, minutes: pl.Series) -> pl.Series:
    return 3600 * hours.cast(pl.Float64) + 60 * minutes.cast(pl.Float64)


def _dates(text: pl.Series, form: str) -> pl.Series:
    """Dates, and times if there are any; those with a time zone in UTC."""
    day, hours, minutes, seconds, zone = text.str.extract_groups(DATE_AND_TIME).struct.unnest()
    gone = _clock(hours, minutes) + seconds.cast(pl.Float64).fill_null(0)
    sign, zone_hours, zone_minutes = zone.str.extract_groups(r"^([+-])(\d{2}):?(\d{2})$").struct.unnest()
    ahead = _clock(zone_hours, zone_minutes) * (1 - 2 * (sign == "-").cast(pl.Int8))
    milliseconds = (1000 * (gone.fill_null(0) - ahead.fill_null(0))).floor().cast(pl.Int64)
    return day.str.to_date(form, strict=False).cast(pl.Datetime("ms")) + milliseconds.cast(pl.Duration("ms"))


FORMS = [("number", ""), *(("number", form) for form in NUMBERS), ("time", ""), *(("date", form) for form in DATES)]
_PLURAL = {
    "number": "numbers",
    "boolean": "true or false",
    "date": "dates",
    "time": "times",
    "text": "text",
    COMMA: "numbers written as 1234,5",
    THOUSANDS: "numbers written as 1,234.5",
    **{form: f"dates written as {datetime.date(2024, 12, 31).strftime(form)}" for form in DATES},
}
_BOOLEANS = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False, "t": True, "f": False}


def _wanted(column: Column) -> str:
    return _PLURAL[column.form or column.kind]


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
