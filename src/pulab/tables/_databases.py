"""The result of a query on a database file, SQLite or DuckDB. Both are opened for reading alone."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import polars as pl
import pyarrow as pa

from pulab.errors import DataFormatError, InputError, in_one_line
from pulab.tables._arrow import BATCH, from_arrow, need, wanted
from pulab.tables._json import kind_of, series

PATIENCE = 5.0  # seconds to wait for another program that writes
TYPES = {"integer": int, "real": float, "text": str, "blob": bytes, "null": type(None)}


def sqlite_pieces(path: Path, query: str | None, columns: Sequence[str] | None) -> Iterator[pl.DataFrame]:
    """The result of a query on a SQLite file, piece by piece.

    Any cell of SQLite may hold any type. So the database is first asked for the types in each column.
    """
    with _told(path, sqlite3.Error), closing(_open_sqlite(path)) as database:
        found = (
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        )
        text = _query(path, query, [name for (name,) in database.execute(found)])
        inner = f"FROM ({text}\n)"  # a comment may end the query
        names = [column[0] for column in database.execute(f"SELECT * {inner} LIMIT 0").description]
        asked = ", ".join(f"group_concat(DISTINCT typeof({_quoted(name)}))" for name in names)
        types = next(database.execute(f"SELECT {asked} {inner}"))
        kinds = [kind_of(TYPES[word] for word in (words or "null").split(",")) for words in types]
        cursor = database.execute(text)
        names = [column[0] for column in cursor.description]
        kept = wanted(columns, names)
        while rows := cursor.fetchmany(BATCH):
            values = zip(names, zip(*rows, strict=True), kinds, strict=True)
            yield pl.DataFrame({name: series(name, column, kind) for name, column, kind in values if name in kept})


def _open_sqlite(path: Path) -> sqlite3.Connection:
    # A table is read in a thread of its own, and an error may close the connection from another.
    address = f"{path.resolve().as_uri()}?mode=ro"
    return sqlite3.connect(address, uri=True, timeout=PATIENCE, check_same_thread=False)


def duckdb_pieces(path: Path, query: str | None, columns: Sequence[str] | None) -> Iterator[pl.DataFrame]:
    """The result of a query on a DuckDB file, piece by piece."""
    duckdb = need("duckdb", "duckdb", "reading a DuckDB file")
    with _told(path, duckdb.Error), closing(duckdb.connect(str(path), read_only=True)) as database:
        found = "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"
        text = _query(path, query, [name for (name,) in database.execute(found).fetchall()])
        if [part.type for part in duckdb.extract_statements(text)] != [duckdb.StatementType.SELECT]:
            raise InputError(f"the query on {path} must be one SELECT, got {text[:80]!r}.")
        reader = database.sql(text).to_arrow_reader(BATCH)
        kept = wanted(columns, reader.schema.names)
        for batch in reader:
            yield from_arrow(pa.Table.from_batches([batch]).select(kept))


def _query(path: Path, query: str | None, tables: Sequence[str]) -> str:
    """What to run: the query, or all of the table that it names, or of the only table."""
    if query is None and len(tables) == 1:
        (query,) = tables
    if query in tables:
        return f"SELECT * FROM {_quoted(str(query))}"
    if query is None or not query.strip(" ;"):
        shown = ", ".join(map(repr, tables[:10])) or "none"
        raise InputError(f"{path} is a database. Name a table or a query: '{path}::SELECT …'. Its tables: {shown}.")
    return query.strip().rstrip(";")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def _told(path: Path, kind: type[Exception]) -> Iterator[None]:
    """Errors of a database, as one line."""
    try:
        yield
    except kind as error:
        reason = in_one_line(error)
        if "lock" in reason.lower():
            reason += ". Another program uses it: close it there, or read a copy"
        raise DataFormatError(f"{path} cannot be read as asked: {reason}.") from error
