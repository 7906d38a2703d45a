"""Score a table on a Ray cluster: a task per part, a loaded model per worker, a file per part.

Not with Ray Data: its blocks do not keep the pieces that one machine reads, so last bits could differ, and it writes
files by block, so a second run could not tell which rows are done.
"""

import hashlib
import io
import json
import re
import tempfile
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from pulab import __version__
from pulab.errors import ClusterError, InputError
from pulab.tables._drift import Watch
from pulab.tables._frame import name_of
from pulab.tables._model import TableModel
from pulab.tables._parts import PART, TablePart, parts_of
from pulab.tables._places import Place, files_of

JOB, DONE = "_job.json", "_SUCCESS"


class Scored(NamedTuple):
    """What a scoring on a cluster has done."""

    rows: int  # of the table
    parts: int
    found: int  # parts that an earlier run had written
    watch: Watch  # of the rows scored now


def score_on_ray(
    model: str | Path,
    table: str,
    out: str,
    *,
    address: str = "auto",
    cpus: float = 1.0,
    on_rows: Callable[[int, int], None] = lambda done, all: None,
) -> Scored:
    """Write a table's scores to a folder: ``part-00000.parquet`` …, in the order of the rows, then ``_SUCCESS``.

    The rows are those of :meth:`TableModel.score_file`. Parts that are there already are not scored again, so a run
    that was stopped goes on.

    Parameters
    ----------
    model : path
        The folder of a :class:`TableModel`. Only this machine needs it.
    table : str
        A folder or a pattern of Parquet files, or an address of such: ``s3://bucket/folder``. All machines must see it.
    out : str
        A folder that all machines see, or an address.
    address, cpus
        The cluster, and the CPUs of a task.
    on_rows : function
        Called with the number of rows done and of all rows.
    """
    from pulab.cluster import connected, spread

    fitted = TableModel.load(model)
    place = Place.of(out)
    files, root = files_of(table)
    if f"{place.path}/".startswith(tuple(f"{inside}/" for inside in (root, str(Path(model).resolve())) if inside)):
        raise InputError(f"--out {place.path} lies within the input. Name another folder.")
    needed = [column.name for column in fitted.features.columns] + ([fitted.id] if fitted.id else [])
    parts = parts_of(name_of(table), files, root, needed)
    packed = _packed(Path(model))
    digest = hashlib.sha256(repr(sorted(packed.items())).encode()).hexdigest()
    job = {"pulab": __version__, "model": digest, "part": PART, "table": [list(file) for file in files]}
    found = _begin(place, job, len(parts))
    token = hashlib.sha256(_json(job)).hexdigest()
    watch, done, n_rows = fitted.watch(), sum(parts[i].rows for i in found), sum(part.rows for part in parts)
    on_rows(done, n_rows)
    if len(found) < len(parts):
        with connected(address) as ray:
            shipped = [ray.put(packed)]  # in a list: a worker fetches it when it has no such model yet

            def calls() -> Iterator[tuple[int, tuple[Any, ...]]]:
                for i, part in enumerate(parts):
                    if i not in found:
                        yield i, (digest, shipped, part, i, place, token)

            for i, sample in spread(ray, _score_part, calls(), options={"num_cpus": cpus}):
                if isinstance(sample, ClusterError):
                    raise ClusterError(f"part {i} of {table}: {sample} The parts that are done stay: run it again.")
                watch.merge(sample)
                done += parts[i].rows
                on_rows(done, n_rows)
    place.write(DONE, b"")
    return Scored(n_rows, len(parts), len(found), watch)


def _begin(place: Place, job: dict[str, Any], n_parts: int) -> set[int]:
    """Make the folder, or check that it is of this job. Returns the parts that it has."""
    names, raw = place.names(), _json(job)
    if JOB not in names:
        if strangers := sorted(name for name in names if not name.startswith(".")):
            raise InputError(f"--out {place.path} must be an empty folder, but holds {strangers[0]!r}. Name another.")
        place.make()
        place.write(JOB, raw)
    elif place.read(JOB) != raw:
        raise InputError(
            f"--out {place.path} has scores of another model or table, or of one that has changed since. Name another "
            "folder, or delete it."
        )
    found = {int(match[1]) for name in names if (match := re.fullmatch(r"part-(\d{5,})\.parquet", name))}
    return {i for i in found if i < n_parts}


def _json(job: dict[str, Any]) -> bytes:
    return json.dumps(job, indent=1).encode()


def _packed(folder: Path) -> dict[str, bytes]:
    """The files of a model. The report and the candidates have no part in scores."""
    left_out = ("report.html", "candidates.csv")
    files = [path for path in folder.iterdir() if path.is_file() and path.name not in left_out]
    return {path.name: path.read_bytes() for path in sorted(files) if not path.name.startswith(".")}


# On the workers -------------------------------------------------------------------------------------------------------


class _Files:
    """The files of a model, as a key of the cache: they are fetched only for a model that is not there."""

    def __init__(self, digest: str, shipped: list[Any]) -> None:
        self.digest, self.shipped = digest, shipped

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Files) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


@lru_cache(maxsize=1)
def _model(files: _Files) -> TableModel:
    import ray

    with tempfile.TemporaryDirectory() as folder:
        for name, raw in ray.get(files.shipped[0]).items():
            (Path(folder) / name).write_bytes(raw)
        return TableModel.load(folder)


def _score_part(digest: str, shipped: list[Any], part: TablePart, number: int, place: Place, token: str) -> Any:
    """Score a part, write its file, and return a sample of its rows."""
    from pyarrow.parquet import ParquetWriter

    job = place.read(JOB)
    if job is None or hashlib.sha256(job).hexdigest() != token:
        raise InputError(f"all machines of a cluster must see --out {place.path} as one folder, but one does not.")
    fitted = _model(_Files(digest, shipped))
    watch, buffer, writer = fitted.watch(random_state=number), io.BytesIO(), None
    for scored in fitted.score_batches(part, watch):
        rows = scored.to_arrow()
        writer = writer or ParquetWriter(buffer, rows.schema)
        writer.write_table(rows.cast(writer.schema))
    if writer is not None:
        writer.close()
    place.write(f"part-{number:05d}.parquet", buffer.getvalue())
    return watch.sample
