"""Where data files are: in $PULAB_DATA, in the user's cache, or on the web, checked."""

import hashlib
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pulab.errors import DataFormatError, DataNotFoundError

TIMEOUT = 30  # seconds without an answer


@dataclass(frozen=True)
class Source:
    """A file, where it lies below a data folder, where it can be had, and the checksum it must have."""

    path: str
    url: str
    checksum: str | None  # "md5:…" or "sha256:…"; None where none could be found


def cache_folder() -> Path:
    """The user's cache of pulab: ``$XDG_CACHE_HOME/pulab``, by default ``~/.cache/pulab``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pulab"


def data_folders() -> list[Path]:
    """Folders to look in, in this order."""
    given = os.environ.get("PULAB_DATA")
    return [*([Path(given).expanduser()] if given else []), cache_folder()]


def find(paths: Sequence[str]) -> Path | None:
    """The first of these paths that exists below a data folder; a folder's wishes come before the next folder's."""
    for folder in data_folders():
        for path in paths:
            if (folder / path).exists():
                return folder / path
    return None


def fetch(source: Source) -> Path:
    """The file on this machine: found, or downloaded to the cache and checked."""
    return fetch_all([source])[0]


def fetch_all(sources: Sequence[Source]) -> list[Path]:
    """The files on this machine, as :func:`fetch` has them; one error names all that cannot be had."""
    return [_unchanged(find([source.path]) or download(source, needed=sources)) for source in sources]


def download(source: Source, places: Sequence[str] = (), needed: Sequence[Source] = ()) -> Path:
    """Download to the cache, under another name until size and checksum are right.

    ``places`` is what was looked for in place of the file, ``needed`` are the files that go with it, for the error.
    """
    import pooch

    target = cache_folder() / source.path
    log = pooch.get_logger()
    level = log.level
    log.setLevel(logging.WARNING)
    try:
        pooch.retrieve(
            source.url, known_hash=source.checksum, path=target.parent, fname=target.name, downloader=_download
        )
        if source.checksum is None:
            _note(target).write_text(f"{digest_of_file(target)}  {target.name}\n", encoding="utf-8")
    except Exception as error:  # pooch lets through whatever requests, the disk or the checksum raise
        lacking = [item.path for item in needed if find([item.path]) is None] or [source.path]
        names, paths = (" and ".join(items) for items in ([Path(path).name for path in lacking], lacking))
        looked = places or sorted({str(Path(path).parent) for path in lacking})
        where = ", ".join(str(folder / place) for folder in data_folders() for place in looked)
        raise DataNotFoundError(
            f"{names} {'is' if len(lacking) == 1 else 'are'} not on this machine (looked {'for' if places else 'in'} "
            f"{where}) and could not be downloaded from {source.url} ({_reason(error)}). Put "
            f"{'the file' if len(lacking) == 1 else 'the files'} at one of these places, or set PULAB_DATA to a folder "
            f"that holds {paths}."
        ) from error
    finally:
        log.setLevel(level)
    return target


def digest_of_file(path: Path) -> str:
    """The checksum of a file's content, which is read again only when the file has changed."""
    facts = path.stat()
    return _digest_of_file(path, facts.st_mtime_ns, facts.st_size)


@lru_cache(maxsize=64)
def _digest_of_file(path: Path, changed: int, size: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _note(path: Path) -> Path:
    """Where the checksum of a file is noted down for which none is published, as ``sha256sum`` writes it."""
    return path.with_name(f"{path.name}.sha256")


def _unchanged(path: Path) -> Path:
    """The same path; what is not as it was downloaded is refused."""
    note = _note(path)
    if note.is_file() and note.read_text(encoding="utf-8", errors="replace").split()[:1] != [digest_of_file(path)]:
        raise DataFormatError(
            f"{path} has changed since it was downloaded. Delete it and {note.name} to have it fetched anew."
        )
    return path


class _Meter:
    """What pooch reports to: how long the file is said to be, and a bar on a terminal."""

    def __init__(self, name: str) -> None:
        from rich.console import Console
        from rich.progress import Progress

        self.total = 0  # pooch sets it to the Content-Length
        self._bars = Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())
        self._bar = self._bars.add_task(name, total=None)
        self._bars.start()

    def update(self, n: int) -> None:
        self._bars.update(self._bar, advance=n, total=self.total or None)

    def reset(self) -> None:
        """Nothing: pooch begins anew only to end."""

    def close(self) -> None:
        self._bars.stop()


def _download(url: str, output_file: str, pooch_object: Any) -> None:
    """pooch's own way, but a file that ends early is refused."""
    import pooch

    meter = _Meter(url.rpartition("/")[2])
    plain = {"Accept-Encoding": "identity"}  # else the length would be that of something else
    try:
        pooch.HTTPDownloader(progressbar=meter, chunk_size=2**18, timeout=TIMEOUT, headers=plain)(
            url, output_file, pooch_object
        )
    finally:
        meter.close()
    if (came := Path(output_file).stat().st_size) < meter.total:
        raise EOFError(f"only {came:,} of {meter.total:,} bytes came")


def _reason(error: Exception) -> str:
    """What went wrong, in a few words."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if "does not match" in str(error):
        return "its checksum does not match"
    if "Timeout" in kinds:
        return f"no answer within {TIMEOUT} s"
    if "HTTPError" in kinds:
        return str(error).split(" for url")[0]
    if "ChunkedEncodingError" in kinds:
        return "the connection broke off"
    if "ConnectionError" in kinds:
        return "no connection"
    if isinstance(error, EOFError):
        return str(error)
    return getattr(error, "strerror", None) or type(error).__name__
