"""Data files: found in $PULAB_DATA or in the user's cache, else downloaded and checked."""

import hashlib
import logging
import os
import sys
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pulab.errors import DataFormatError, DataNotFoundError

TIMEOUT = 30  # seconds without an answer


@dataclass(frozen=True)
class Source:
    """A file: its path below a data folder, its address, and its checksum."""

    path: str
    url: str
    checksum: str | None  # "md5:…" or "sha256:…"; None where none is published


def cache_folder() -> Path:
    """The user's cache of pulab: ``$XDG_CACHE_HOME/pulab``, by default ``~/.cache/pulab``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pulab"


def data_folders() -> list[Path]:
    """The folders to search, in this order."""
    from_user = os.environ.get("PULAB_DATA")
    return [*([Path(from_user).expanduser()] if from_user else []), cache_folder()]


def find(paths: Sequence[str]) -> Path | None:
    """The first of these paths that exists. All paths are tried in one data folder before the next folder."""
    for folder in data_folders():
        for path in paths:
            if (folder / path).exists():
                return folder / path
    return None


def fetch(source: Source) -> Path:
    """The path of the file. A missing file is downloaded to the cache and checked."""
    return fetch_all([source])[0]


def fetch_all(sources: Sequence[Source]) -> list[Path]:
    """The paths of the files, as from :func:`fetch`. One error names all files that are missing."""
    return [_unchanged(find([source.path]) or download(source, needed=sources)) for source in sources]


def download(source: Source, places: Sequence[str] = (), needed: Sequence[Source] = ()) -> Path:
    """Download to the cache. The file has a temporary name until its size and checksum are right.

    The error names ``places``, the paths that were searched, and ``needed``, the files that belong together.
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
        searched = places or sorted({str(Path(path).parent) for path in lacking})
        where = ", ".join(str(folder / place) for folder in data_folders() for place in searched)
        are, files = ("is", "the file") if len(lacking) == 1 else ("are", "the files")
        raise DataNotFoundError(
            f"{names} {are} not on this machine (looked {'for' if places else 'in'} {where}) and could not be "
            f"downloaded from {source.url} ({_reason(error)}). Put {files} at one of these places, or set PULAB_DATA "
            f"to a folder that holds {paths}."
        ) from error
    finally:
        log.setLevel(level)
    return target


def digest_of_file(path: Path) -> str:
    """The checksum of a file. The file is read again only when it has changed."""
    facts = path.stat()
    return _digest_of_file(path, facts.st_mtime_ns, facts.st_size)


@lru_cache(maxsize=64)
def _digest_of_file(path: Path, changed: int, size: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def contents(place: Path) -> Iterator[tuple[Path, bytes]]:
    """Paths and contents of the files in a folder or in a tar archive."""
    if place.is_dir():
        yield from ((path, path.read_bytes()) for path in place.rglob("*") if path.is_file())
        return
    with tarfile.open(place) as tar:
        for item in tar:
            file = tar.extractfile(item) if item.isfile() else None
            if file is not None:
                yield Path(item.name), file.read()


def _note(path: Path) -> Path:
    """The file that keeps the checksum of a download that has no published one, as ``sha256sum`` writes it."""
    return path.with_name(f"{path.name}.sha256")


def _unchanged(path: Path) -> Path:
    """The same path. A file that has changed since its download is refused."""
    note = _note(path)
    if note.is_file() and note.read_text(encoding="utf-8", errors="replace").split()[:1] != [digest_of_file(path)]:
        raise DataFormatError(
            f"{path} has changed since it was downloaded. Delete it and {note.name} to download it again."
        )
    return path


class _Meter:
    """A progress bar for pooch on a terminal. It also keeps the announced length of the file."""

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
        """Do nothing. pooch calls this at the end only."""

    def close(self) -> None:
        self._bars.stop()


def _download(url: str, output_file: str, pooch_object: Any) -> None:
    """Download by pooch, and refuse a file that ends early."""
    import pooch

    meter = _Meter(url.rpartition("/")[2])
    plain = {"Accept-Encoding": "identity"}  # otherwise the length is that of the compressed file
    try:
        pooch.HTTPDownloader(progressbar=meter, chunk_size=2**18, timeout=TIMEOUT, headers=plain)(
            url, output_file, pooch_object
        )
    finally:
        meter.close()
    if (size := Path(output_file).stat().st_size) < meter.total:
        raise EOFError(f"only {size:,} of {meter.total:,} bytes came")


def _reason(error: Exception) -> str:
    """The reason in a few words."""
    from requests import exceptions

    if type(error) is ValueError:  # pooch's error for a wrong checksum
        return "its checksum does not match"
    if isinstance(error, exceptions.Timeout):
        return f"no answer within {TIMEOUT} s"
    if isinstance(error, exceptions.HTTPError):
        return str(error).split(" for url")[0]
    if isinstance(error, exceptions.ChunkedEncodingError):
        return "the connection broke off"
    if isinstance(error, exceptions.ConnectionError):
        return "no connection"
    return str(error) if isinstance(error, EOFError) else getattr(error, "strerror", None) or type(error).__name__
