"""From files and frames to columns of known kinds."""

import csv
import difflib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from pulab.errors import DataFormatError, DataNotFoundError, InputError

BATCH = 65_536  # rows at a time where a table is streamed
WORDS = (pl.String, pl.Categorical, pl.Enum)
MISSING = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?", "#N/A"]


@dataclass(frozen=True)
class Column:
    """A column to learn from: its name, and what its values are read as."""

    name: str
    kind: str  # "number", "boolean", "date", "time" or "text"


# Reading --------------------------------------------------------------------------------------------------------------


def read_table(source: Any, label: str | None = None, id: str | None = None) -> pl.DataFrame:
    """A table as a polars frame: a CSV or Parquet file, or a frame of polars, pandas or pyarrow.

    A CSV file's labels are read as text, and its ids as they are written: 007 is one, and so is NA.
    """
    frame = _from_memory(source)
    if frame is None:
        path = _existing(source)
        frame = _whole_parquet(path) if _is_parquet(path) else _whole_csv(path, label, id)
    if frame.height == 0:
        raise InputError(f"{name_of(source)} has no rows. Pass a table with labelled and unlabeled rows.")
    return frame


def batches(source: Any, columns: Sequence[str] | None = None, id: str | None = None) -> Iterator[pl.DataFrame]:
    """A table in pieces, in its order, without ever holding all of it; a CSV file's values come as text."""
    frame = _from_memory(source)
    if frame is not None:
        yield from frame.iter_slices(BATCH)
        return
    path = _existing(source)
    with _said_of(path):
        yield from _parquet_pieces(path, columns) if _is_parquet(path) else _csv_pieces(path, columns, id)


def _parquet_pieces(path: Path, columns: Sequence[str] | None) -> Iterator[pl.DataFrame]:
    with pa.parquet.ParquetFile(path, pre_buffer=False, buffer_size=2**20) as file:  # of large row groups a part
        for batch in file.iter_batches(BATCH, columns=_wanted(columns, file.schema_arrow.names)):
            yield _frame(pa.Table.from_batches([batch]))


def _csv_pieces(path: Path, columns: Sequence[str] | None, id: str | None) -> Iterator[pl.DataFrame]:
    names = _header(path)
    options = _csv_options(path, names, as_written=True)
    options["convert_options"].include_columns = _wanted(columns, names)
    gaps = pl.exclude([id] if id else []).replace(MISSING, None)
    with pa.csv.open_csv(path, **options) as reader:
        for batch in reader:
            yield from _frame(pa.Table.from_batches([batch])).with_columns(gaps).iter_slices(BATCH)


def _wanted(columns: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """Those columns of a file that are asked for; all where it has none of them, so that somebody can say so."""
    return [name for name in known if columns is None or name in set(columns)] or list(known)


def name_of(source: Any) -> str:
    """What to call a table."""
    return Path(source).name if isinstance(source, str | Path) else "the table"


def _from_memory(source: Any) -> pl.DataFrame | None:
    if isinstance(source, pl.DataFrame):
        return source
    if isinstance(source, pl.LazyFrame):
        return source.collect()
    if isinstance(source, pa.Table):
        return _frame(source)
    if type(source).__module__.split(".")[0] == "pandas":
        if any(not isinstance(name, str) for name in source.columns):
            source = source.rename(columns=str)
        try:
            return pl.DataFrame(pl.from_pandas(source))
        except Exception as error:  # pandas holds anything, and each kind fails in its own way
            raise InputError(f"this pandas frame cannot be read as a table: {_reason(error)}.") from error
    if not isinstance(source, str | Path):
        raise InputError(
            f"a table must be a CSV or Parquet file, or a frame of polars, pandas or pyarrow, got {type(source)}."
        )
    return None


def _existing(source: str | Path) -> Path:
    path = Path(source)
    if path.is_dir():
        raise InputError(f"{path} is a folder. Name a CSV or Parquet file.")
    if not path.exists():
        near = _nearest(path.name, [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else [])
        raise DataNotFoundError(f"there is no file {path}.{near}")
    if not path.is_file():
        raise InputError(
            f"{path} is no file but a pipe or a device, and a table is read more than once. Save it first."
        )
    return path


def _is_parquet(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PAR1"


@contextmanager
def _said_of(path: Path) -> Iterator[None]:
    """What pyarrow says of a file that it cannot read, in one line and in our words."""
    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError) as error:
        kind = "Parquet" if _is_parquet(path) else "CSV"
        line = "" if kind == "Parquet" else _first_broken_line(path)
        raise DataFormatError(line or f"{path} is no {kind} file that can be read: {_reason(error)}.") from error


def _reason(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200].rstrip(".")


def _whole_parquet(path: Path) -> pl.DataFrame:
    with _said_of(path):
        return _frame(pa.parquet.read_table(path))


def _whole_csv(path: Path, label: str | None, id: str | None) -> pl.DataFrame:
    as_text = [column for column in (label, id) if isinstance(column, str)]
    with _said_of(path):
        table = pa.csv.read_csv(path, **_csv_options(path, as_text))
        if any(pa.types.is_binary(kind) for kind in table.schema.types):
            raise DataFormatError(_first_broken_line(path) or f"{path} is not UTF-8 text. Save it as UTF-8.")
        frame = _frame(table)
        if id in frame.columns and frame[id].null_count():
            options = _csv_options(path, as_text, as_written=True)
            options["convert_options"].include_columns = [id]
            frame = frame.with_columns(_frame(pa.csv.read_csv(path, **options)))
    return frame


def _frame(table: pa.Table) -> pl.DataFrame:
    names = table.column_names
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataFormatError(f"two columns are called {twice!r}. Give each a name of its own.")
    for i, field in enumerate(table.schema):
        if pa.types.is_decimal256(field.type):  # which polars has not
            table = table.set_column(i, field.name, table.column(i).cast(pa.float64()))
    try:
        return pl.DataFrame(pl.from_arrow(table))
    except pl.exceptions.PolarsError as error:
        raise DataFormatError(f"the table has a column that cannot be read: {_reason(error)}. Leave it out.") from error


def _csv_options(path: Path, as_text: Sequence[str], as_written: bool = False) -> dict[str, Any]:
    _check_quotes(path)
    return {
        "read_options": pa.csv.ReadOptions(block_size=2**22),
        "parse_options": pa.csv.ParseOptions(delimiter=_separator(path), newlines_in_values=True),
        "convert_options": pa.csv.ConvertOptions(
            null_values=MISSING, strings_can_be_null=not as_written, column_types=dict.fromkeys(as_text, pa.string())
        ),
    }


def _check_quotes(path: Path) -> None:
    """Refuse a file that ends within a quoted field: all lines after the open quote would be one value."""
    with path.open("rb") as file:
        if sum(piece.count(b'"') for piece in iter(lambda: file.read(2**24), b"")) % 2:
            raise DataFormatError(
                f"{path} has a quote that is never closed. Close it, or double a quote within a field."
            )


def _separator(path: Path) -> str:
    """What separates the fields of the first line: a comma, a semicolon, a tab or a bar."""
    first = _first_text_line(path)
    return max(",;\t|", key=lambda mark: (first.count(mark), mark == ","))


def _header(path: Path) -> list[str]:
    return next(csv.reader([_first_text_line(path)], delimiter=_separator(path)), [])


def _first_text_line(path: Path) -> str:
    with path.open("rb") as file:
        line = file.readline(2**20)
    if line.startswith(b"\x1f\x8b"):
        raise DataFormatError(f"{path} is compressed. Unpack it first, or save it as Parquet.")
    if not line.strip():
        raise DataFormatError(f"{path} is empty or begins with an empty line. Its first line must name the columns.")
    try:
        return line.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        raise DataFormatError(f"{path} is not UTF-8 text. Save it as CSV in UTF-8, or as Parquet.") from None


def _first_broken_line(path: Path) -> str:
    """Where a CSV file goes wrong; an empty text where it does not."""
    n_fields = len(_header(path))
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=_separator(path))
            for fields in reader:
                if fields and len(fields) != n_fields:
                    return (
                        f"line {reader.line_num} of {path} has {len(fields)} fields, but its first line names "
                        f"{n_fields} columns. Mend that line: a field with a separator in it must be quoted."
                    )
    except UnicodeDecodeError:
        return f"{path} is not UTF-8 text. Save it as CSV in UTF-8, or as Parquet."
    except csv.Error as error:
        return f"{path} is no CSV file that can be read: {error}."
    return ""


# Columns --------------------------------------------------------------------------------------------------------------


def check_column(name: str, known: Sequence[str], where: str, option: str) -> None:
    """Refuse a column that is not there, and name the one that was probably meant."""
    if not isinstance(name, str):
        raise InputError(f"{option} must be the name of a column, got {name!r}.")
    if name not in known:
        near = _nearest(name, known)
        raise InputError(f"{where} has no column {name!r} for {option}.{near or ' It has: ' + _shown(known) + '.'}")


def _nearest(name: str, known: Sequence[str]) -> str:
    by_lower = {other.lower(): other for other in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f" Did you mean {by_lower[near[0]]!r}?" if near else ""


def _shown(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:20])) + (", …" if len(names) > 20 else "")


def kind_of(values: pl.Series) -> tuple[str, str]:
    """What a column's values are read as, and why they cannot be learned from where they are of no use."""
    kind = values.dtype
    if values.null_count() == len(values):
        return "left out", "every value is missing"
    if values.null_count() == 0 and not kind.is_nested() and kind != pl.Object and values.n_unique() == 1:
        return "left out", "every row has the same value"
    if kind == pl.Boolean:
        return "boolean", ""
    if kind == pl.Time:
        return "time", ""
    if kind.is_numeric() or kind == pl.Duration:
        is_counter = kind.is_integer() and _is_counter(values)
        return ("left out", "it numbers the rows") if is_counter else ("number", "")
    if kind in (pl.Date, pl.Datetime):
        return "date", ""
    if kind in WORDS:
        if with_commas(values.cast(pl.String)) is not None:
            return "number", ""
        return ("left out", "another word in every row, as identifiers have") if _is_code(values) else ("text", "")
    return "left out", f"values of type {kind} cannot be learned from"


def _is_counter(values: pl.Series) -> bool:
    """Whether whole numbers count the rows: all different, and nearly all of their range in use."""
    if len(values) < 50 or values.n_unique() < len(values) or values.null_count():
        return False
    return bool(int(values.max()) - int(values.min()) < 1.1 * len(values))  # type: ignore[arg-type]


def _is_code(values: pl.Series) -> bool:
    """Whether every row has another single word."""
    text = values.cast(pl.String).drop_nulls()
    return len(text) >= 50 and text.n_unique() == len(text) and not text.str.strip_chars().str.contains(r"\s").any()


def with_commas(text: pl.Series) -> pl.Series | None:
    """Numbers written with a decimal comma, where that is plain: 1,234 and its like alone may be thousands."""
    text = text.str.strip_chars()
    commas = text.filter(text.str.contains(",", literal=True))
    if not len(commas) or not text.str.contains(r"^[+-]?\d*,?\d+$").all():
        return None
    thousands = commas.str.contains(r"^[+-]?[1-9]\d{0,2},\d{3}$").all()
    return None if thousands else text.str.replace(",", ".", literal=True).cast(pl.Float64)


def almost_numbers(values: pl.Series) -> bool:
    """Whether words are numbers with signs that are not read: 1,234 or 5 % or $20."""
    if values.dtype not in WORDS:
        return False
    words = values.cast(pl.String).drop_nulls().unique()
    numbers = words.str.contains(r"^\s*[+-]?[$€£]?\s*\d{1,3}([,' ]?\d{3})*([.,]\d+)?\s*[%$€£]?\s*$")
    return bool(numbers.sum() > 0.9 * len(words)) and len(words) > 2


def conform(frame: pl.DataFrame, columns: Sequence[Column], where: str) -> pl.DataFrame:
    """These columns, each read as its kind: numbers as float64 (infinite ones as missing), words as text."""
    for column in columns:
        check_column(column.name, frame.columns, where, "a feature that the model was trained on")
    return pl.DataFrame([_as_kind(frame[column.name], column, where) for column in columns])


def _as_kind(values: pl.Series, column: Column, where: str) -> pl.Series:
    from_text = values.dtype in WORDS
    try:
        if not _may_hold(values.dtype, column.kind):
            raise ValueError("of another type")
        if column.kind == "number":
            if values.dtype == pl.Duration:
                values = values.dt.total_seconds(fractional=True)
            number = _numbers(values.cast(pl.String)) if from_text else values.cast(pl.Float64)
            return number if number.is_finite().all() else number.set(~number.is_finite(), None)
        if column.kind == "time":
            time = values.cast(pl.String).str.strip_chars().str.to_time() if from_text else values.cast(pl.Time)
            return time.cast(pl.Int64) / 1e9
        if column.kind == "boolean":
            return _booleans(values) if from_text else values.cast(pl.Boolean)
        if column.kind == "date":
            text = values.cast(pl.String).str.strip_chars() if from_text else None
            return (values if text is None else text.str.to_datetime()).cast(pl.Datetime("us"))
        return values.cast(pl.String)
    except (pl.exceptions.PolarsError, ValueError) as error:
        raise InputError(
            f"column {column.name!r} of {where} must hold {_PLURAL[column.kind]}, as in training, got "
            f"{_example(values, column)!r}. Mend it, or fit again with such values."
        ) from error


def _may_hold(dtype: pl.DataType, kind: str) -> bool:
    """Whether values of a type can be read as this kind; polars would make numbers of dates, and dates of numbers."""
    if kind == "text" or dtype in (*WORDS, pl.Null):
        return True
    if kind in ("number", "boolean"):
        return dtype.is_numeric() or dtype == pl.Boolean or (kind == "number" and dtype == pl.Duration)
    return dtype == pl.Time if kind == "time" else dtype in (pl.Date, pl.Datetime)


def _numbers(text: pl.Series) -> pl.Series:
    numbers = with_commas(text)
    return text.str.strip_chars().cast(pl.Float64) if numbers is None else numbers


_PLURAL = {"number": "numbers", "boolean": "true or false", "date": "dates", "time": "times", "text": "text"}
_WORDS = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False, "t": True, "f": False}


def _booleans(values: pl.Series) -> pl.Series:
    words = values.cast(pl.String).str.strip_chars().str.to_lowercase()
    return words.replace_strict(_WORDS, return_dtype=pl.Boolean)


def _example(values: pl.Series, column: Column) -> Any:
    """A value that does not fit."""
    if column.kind == "number" and values.dtype == pl.String:
        bad = values.filter(values.str.strip_chars().cast(pl.Float64, strict=False).is_null() & values.is_not_null())
        return bad[0] if len(bad) else None
    return values.drop_nulls().to_list()[:1][0] if values.null_count() < len(values) else None
