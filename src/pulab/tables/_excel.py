"""A sheet of an Excel file."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from pulab.errors import DataFormatError, in_one_line
from pulab.tables._arrow import need, wanted

DAY_ZERO = pl.date(1899, 12, 31)  # what Excel has for the day of a time


def excel_pieces(path: Path, sheet: str | None, columns: Sequence[str] | None) -> Iterator[pl.DataFrame]:
    """A sheet as one piece: the first, or the one of this name. Its first row that is not empty names the columns."""
    fastexcel = need("fastexcel", "excel", "reading an Excel file")
    try:
        book = fastexcel.read_excel(path.read_bytes())  # bytes: the content decides, not the ending
        names = book.sheet_names
        if not names or sheet not in (None, *names):
            missing = "no sheets" if not names else f"no sheet {sheet!r}. Its sheets: {', '.join(map(repr, names))}"
            raise DataFormatError(f"{path} has {missing}.")
        name = sheet or names[0]
        with _quiet("fastexcel.types.dtype"):  # it warns of every empty column
            header = book.load_sheet(name, header_row=None, n_rows=1, dtypes="string").to_polars()
            if not header.height:
                others = f" Its sheets: {', '.join(map(repr, names))}." if len(names) > 1 else ""
                raise DataFormatError(f"sheet {name!r} of {path} is empty. Name another: '{path}#NAME'.{others}")
            frame = book.load_sheet(name, schema_sample_rows=None).to_polars()
    except fastexcel.FastExcelError as error:
        raise DataFormatError(f"{path} cannot be read as an Excel file: {in_one_line(error)}.") from error
    titles = [(text or "").strip() or f"column {i + 1}" for i, text in enumerate(header.row(0))]
    kept = wanted(columns, titles)
    if frame.width > 1:
        frame = frame.filter(~pl.all_horizontal(pl.all().is_null()))
    frame.columns = titles
    yield pl.DataFrame([_typed(frame[title]) for title in kept])


def _typed(values: pl.Series) -> pl.Series:
    """Excel stores whole numbers, days and times of day as fractions. Here they get types of their own."""
    if values.null_count() == len(values):
        return values
    if values.dtype == pl.Float64 and (values == values.floor()).all() and (values.abs() < 2**53).all():
        return values.cast(pl.Int64)
    if values.dtype == pl.Datetime:
        day, time = values.dt.date(), values.dt.time()
        if pl.select((pl.lit(day) <= DAY_ZERO).all()).item():
            return time
        if pl.select((pl.lit(time) == pl.time(0)).all()).item():
            return day
    return values


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Without the warnings of this logger."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
