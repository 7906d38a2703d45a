"""A cache of vectors: one SQLite file per model, which several processes may use."""

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pulab.errors import warn

Vectors = NDArray[np.float32]
T = TypeVar("T")


def digest_of(text: str) -> bytes:
    """The key of a text."""
    return hashlib.sha256(text.encode()).digest()


class VectorCache:
    """The vectors of one model by text. If the file cannot be used, a warning is given and nothing is cached."""

    def __init__(self, folder: Path, model: str) -> None:
        self._path = folder / f"{model}.sqlite"

    def find(self, texts: Sequence[str], length: int) -> dict[str, Vectors]:
        """The cached vectors of these texts. An entry that is incomplete or not finite is ignored."""
        query = "SELECT vector FROM vectors WHERE text = ?"

        def look(connection: sqlite3.Connection) -> dict[str, Vectors]:
            rows = {text: connection.execute(query, (digest_of(text),)).fetchone() for text in texts}
            whole = {text: row[0] for text, row in rows.items() if row is not None and len(row[0]) == 4 * length}
            vectors = {text: np.frombuffer(blob, dtype=np.float32) for text, blob in whole.items()}
            return {text: vector for text, vector in vectors.items() if np.isfinite(vector).all()}

        return self._within_a_transaction(look) or {}

    def keep(self, texts: Iterable[str], vectors: Vectors) -> None:
        """Store the vectors of these texts."""
        rows = [(digest_of(text), vector.tobytes()) for text, vector in zip(texts, vectors, strict=True)]
        self._within_a_transaction(lambda c: c.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", rows))

    def _within_a_transaction(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self._path, timeout=60)) as connection, connection:
                connection.execute("CREATE TABLE IF NOT EXISTS vectors (text BLOB PRIMARY KEY, vector BLOB)")
                return work(connection)
        except (OSError, TypeError, sqlite3.Error) as error:
            warn(f"the cache {self._path} cannot be used ({error}); computing without it.")
            return None
