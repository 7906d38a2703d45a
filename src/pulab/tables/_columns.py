"""How the columns of a table are read. The kinds are decided in the fit, and scoring reads the same kinds."""

import datetime
from collections.abc import Sequence
from typing import Any, NamedTuple

import polars as pl

from pulab.errors import InputError, nearest, short

WORDS = (pl.String, pl.Categorical, pl.Enum)
LEFT_OUT = "left out"

# Numbers may be written as 1234.5, as 1.234,5 and as 1,234.5. Spaces and apostrophes may mark the thousands, too.
COMMA, THOUSANDS = ",", "1,000"
NUMBERS = {
    COMMA: r"^[+-]?(\d+|[1-9]\d{0,2}((\.\d{3})+|([\s'’]\d{3})+))?(,\d+)?$",
    THOUSANDS: r"^[+-]?(\d+|[1-9]\d{0,2}((,\d{3})+|([\s'’]\d{3})+))(\.\d+)?$",
}
SURE_DATES = ("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y")
DATES = (*SURE_DATES, "%m/%d/%Y", "%d/%m/%Y", "%m-%d-%Y", "%d-%m-%Y")
CLOCK = r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?"
TIME = rf"^{CLOCK}$"
DATE_AND_TIME = (
    r"^(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})"
    rf"(?:[T ]{CLOCK})?\s*(?:Z|([+-][01]\d):?([0-5]\d))?$"
)
# $20, 5 %, (12.50)
ALMOST_A_NUMBER = r"^\(?\s*[+−-]?\s*([$€£]|EUR|USD|GBP|CHF)?\s*\d[\d.,\s'’]*\s*([%$€£]|EUR|USD|GBP|CHF)?\s*\)?$"


class Column(NamedTuple):
    """How the values of a column are read."""

    name: str
    kind: str  # "number", "boolean", "date", "time", "text" or LEFT_OUT
    form: str = ""  # how text is written: a key of NUMBERS, or one of DATES; empty for the usual form
    note: str = ""  # why it was left out


TYPED: dict[Any, str] = {pl.Boolean: "boolean", pl.Time: "time", pl.Date: "date", pl.Datetime: "date"}


# In the fit -----------------------------------------------------------------------------------------------------------


def column_of(values: pl.Series) -> Column:
    """How to read a column, or why not to."""
    name, dtype = values.name, values.dtype
    if values.null_count() == len(values):
        return Column(name, LEFT_OUT, note="every value is missing")
    if dtype not in WORDS and not dtype.is_numeric() and dtype.base_type() not in TYPED:
        return Column(name, LEFT_OUT, note=f"values of type {dtype} cannot be learned from")
    if values.null_count() == 0 and values.n_unique() == 1:
        return Column(name, LEFT_OUT, note="every row has the same value")
    if dtype in WORDS:
        column = _column_of_text(values.cast(pl.String).str.strip_chars())
    else:
        column = Column(name, "number" if dtype.is_numeric() else TYPED[dtype.base_type()])
    if column.kind == "number" and _is_counter(_as_kind(values, column, name)):
        return Column(name, LEFT_OUT, note="it numbers the rows")
    return column


def _column_of_text(words: pl.Series) -> Column:
    text = _without_none(words)
    few = text.drop_nulls().head(200)  # a few values exclude most forms, without reading the whole column
    for kind, form in FORMS:
        if not _is_all(few, kind, form) or not _is_all(text, kind, form):
            continue
        if form == COMMA and _is_all(text, kind, THOUSANDS):
            break  # such as 1,234 in every row: either may be meant
        return Column(text.name, kind, form)
    if text.drop_nulls().str.to_lowercase().is_in(["true", "false"]).all():
        return Column(text.name, "boolean")
    if _is_code(words) and not misfit(words):
        return Column(text.name, LEFT_OUT, note="another word in every row, as identifiers have")
    return Column(text.name, "text")


def _without_none(text: pl.Series) -> pl.Series:
    """In numbers, dates, times and booleans the word none is a gap. Among words it is a value."""
    return text.set(text.str.strip_chars().str.to_lowercase() == "none", None)


def _is_all(text: pl.Series, kind: str, form: str) -> bool:
    return _read(text, kind, form).null_count() == text.null_count()


def _is_counter(values: pl.Series) -> bool:
    """Whether whole numbers count the rows: all are different, and they use nearly all of their range."""
    if len(values) < 50 or values.null_count() or (values[:50] != values[:50].floor()).any():
        return False  # a few values exclude most columns
    if (values != values.floor()).any():
        return False
    return values.n_unique() == len(values) and bool(int(values.max()) - int(values.min()) < 1.1 * len(values))  # type: ignore[arg-type]


def _is_code(text: pl.Series) -> bool:
    """Whether every row has another single word."""
    words = text.drop_nulls()
    return len(words) >= 50 and words.n_unique() == len(words) and not words.str.contains(r"\s").any()


def misfit(values: pl.Series) -> str | None:
    """In a column of words that looks like numbers or dates, a value that cannot be read as one; otherwise None."""
    if values.dtype not in WORDS:
        return None
    words = values.cast(pl.String).drop_nulls().unique(maintain_order=True).str.strip_chars()
    if len(words) < 3:
        return None
    for kind, form in FORMS:
        unread = words.filter(_read(words, kind, form).is_null())
        if 0 < len(unread) < 0.1 * len(words):
            return str(unread[0])
    odd = words.filter(_numbers(words, "").is_null())
    return str(odd[0]) if len(odd) and words.str.contains(ALMOST_A_NUMBER).sum() > 0.9 * len(words) else None


# In the fit and in scoring --------------------------------------------------------------------------------------------


def conform(frame: pl.DataFrame, columns: Sequence[Column], where: str) -> pl.DataFrame:
    """These columns, each read as its kind. Infinite numbers become missing."""
    by_name = dict(zip(frame.columns, frame.get_columns(), strict=True))  # frame[name] takes long in a wide frame
    for column in columns:
        if column.name not in by_name:
            check_column(column.name, list(by_name), where, "a feature that the model was trained on")
    return pl.DataFrame([_as_kind(by_name[column.name], column, where) for column in columns])


def with_numbers(frame: pl.DataFrame, columns: Sequence[Column], where: str) -> pl.DataFrame:
    """The table with its number columns as numbers instead of text, except for codes such as 007."""
    kinds = dict(frame.schema)
    texts = [c for c in columns if c.kind != "text" and kinds.get(c.name) in WORDS]
    frame = frame.with_columns(_without_none(frame[c.name].cast(pl.String)) for c in texts)
    numbers = [c for c in texts if c.kind == "number" and not frame[c.name].str.contains(r"^\s*0\d").any()]
    return frame.with_columns(map(_whole, conform(frame, numbers, where))) if numbers else frame


def _whole(numbers: pl.Series) -> pl.Series:
    """Integers if all are whole."""
    is_whole = (numbers == numbers.floor()).all() and (numbers.abs() < 2**53).all()
    return numbers.cast(pl.Int64) if is_whole else numbers


def _as_kind(values: pl.Series, column: Column, where: str) -> pl.Series:
    if values.dtype in WORDS:
        values = values.cast(pl.String)
        values = values if column.kind == "text" else _without_none(values)
        read = _text_as_kind(values, column)
    else:
        values = values.fill_nan(None) if values.dtype.is_float() else values
        read = _typed_as_kind(values, column.kind)
    if read.null_count() > values.null_count():
        unread = values.filter(read.is_null() & values.is_not_null())
        wanted = PLURAL.get(column.form, PLURAL[column.kind])
        raise InputError(
            f"column {column.name!r} of {where} must hold {wanted}, as in training, got {str(unread[0])!r}. "
            "Correct it, or fit again with such values."
        )
    if column.kind == "number" and not (finite := read.is_finite()).all():
        read = read.set(~finite, None)
    return read.alias(column.name)


def _typed_as_kind(values: pl.Series, kind: str) -> pl.Series:
    """Typed values as this kind. Values that cannot be read become missing."""
    dtype = values.dtype
    if not _may_hold(dtype, kind):  # polars would turn dates into numbers, and numbers into dates
        return pl.Series([None] * len(values), dtype=pl.Float64)
    if kind == "number":
        return values.cast(pl.Float64)
    if kind == "time":
        return values.cast(pl.Time).cast(pl.Int64) / 1e9
    if kind == "boolean":
        number = values.cast(pl.Float64)
        return number.set(~number.is_in([0.0, 1.0]), None).cast(pl.Boolean)
    if kind == "text":
        text = values.cast(pl.String)
        return text.str.strip_suffix(".0") if dtype.is_float() else text
    return values.cast(pl.Datetime("ms"))  # finer units do not reach the year 300,000


def _may_hold(dtype: pl.DataType, kind: str) -> bool:
    if dtype == pl.Null:
        return True
    if kind in ("number", "boolean"):
        return dtype.is_numeric() or dtype == pl.Boolean
    if kind == "text":
        return not dtype.is_nested() and dtype not in (pl.Object, pl.Binary)
    return dtype == pl.Time if kind == "time" else dtype in (pl.Date, pl.Datetime)


def _text_as_kind(text: pl.Series, column: Column) -> pl.Series:
    """Text as this kind, each value for itself: other rows must not change how it is read.

    A value must be written as in training. Dates may also be written in a form that has only one meaning.
    """
    if column.kind == "text":
        return text
    text = text.str.strip_chars()
    read = _read(text, column.kind, column.form)
    for form in SURE_DATES if column.kind == "date" else ():
        if read.null_count() > text.null_count():
            read = read.zip_with(read.is_not_null(), _dates(text, form))
    return read


def _read(text: pl.Series, kind: str, form: str) -> pl.Series:
    """Text of one form. Values of another form become missing."""
    if kind == "number":
        return _numbers(text, form)
    if kind == "time":
        return _seconds(*text.str.extract_groups(TIME).struct.unnest())
    if kind == "date":
        return _dates(text, form or SURE_DATES[0])
    return text.str.to_lowercase().replace_strict(BOOLEANS, default=None, return_dtype=pl.Boolean)


def _numbers(text: pl.Series, form: str) -> pl.Series:
    text = text.str.replace("−", "-", literal=True)  # U+2212, the minus sign of typesetting
    if form:
        text = text.set(~text.str.contains(NUMBERS[form]), None)
    if form == COMMA:
        text = text.str.replace_all(r"[.\s'’]", "").str.replace(",", ".", literal=True)
    elif form == THOUSANDS:
        text = text.str.replace_all(r"[,\s'’]", "")
    return text.cast(pl.Float64, strict=False)


def _seconds(hours: pl.Series, minutes: pl.Series, seconds: pl.Series) -> pl.Series:
    return 3600 * hours.cast(pl.Float64) + 60 * minutes.cast(pl.Float64) + seconds.cast(pl.Float64).fill_null(0)


def _dates(text: pl.Series, form: str) -> pl.Series:
    """Dates, with times if there are any. Those with a time zone are in UTC."""
    day, *clock, zone_hours, zone_minutes = text.str.extract_groups(DATE_AND_TIME).struct.unnest()
    minutes_ahead = 60 * zone_hours.cast(pl.Float64) + (zone_hours.str.head(1) + zone_minutes).cast(pl.Float64)
    seconds = _seconds(*clock).fill_null(0) - 60 * minutes_ahead.fill_null(0)
    milliseconds = (1000 * seconds).floor().cast(pl.Int64)
    return day.str.to_date(form, strict=False).cast(pl.Datetime("ms")) + milliseconds.cast(pl.Duration("ms"))


FORMS = [("number", ""), *(("number", form) for form in NUMBERS), ("time", ""), *(("date", form) for form in DATES)]
PLURAL = {
    "number": "numbers",
    "boolean": "true or false",
    "date": "dates",
    "time": "times",
    "text": "text",
    COMMA: "numbers written as 1234,5",
    THOUSANDS: "numbers written as 1,234.5",
    **{form: f"dates written as {datetime.date(2024, 12, 31).strftime(form)}" for form in DATES},
}
BOOLEANS = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False, "t": True, "f": False}


# Names ----------------------------------------------------------------------------------------------------------------


def check_column(name: Any, known: Sequence[str], where: str, option: str) -> None:
    """Refuse a column that does not exist, and suggest one with a similar name."""
    if not isinstance(name, str):
        raise InputError(f"{option} must be the name of a column, got {short(name)}.")
    if name not in known:
        shown = ", ".join(map(repr, known[:20])) + (", …" if len(known) > 20 else "")
        raise InputError(f"{where} has no column {name!r} for {option}.{nearest(name, known) or f' It has: {shown}.'}")
