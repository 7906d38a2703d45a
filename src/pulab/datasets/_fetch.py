"""Data files: found in $PULAB_DATA or in the user's cache, else downloaded and checked."""

import gzip
import hashlib
import os
import tarfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pulab.datasets._download import download_file, note_of, reason, remove_leftovers
from pulab.errors import DataFormatError, DataNotFoundError, warn

SYSTEM_FOLDERS = (Path("/usr/share/datasets"),)  # of Debian's packages of data


@dataclass(frozen=True)
class Source:
    """A file: its path below a data folder, its address, and its checksum."""

    path: str
    url: str
    checksum: str | None  # "md5:…" or "sha256:…"; None where none is published
    packed_otherwise: str | None = None  # the checksum of a copy with the same content that a distribution carries


def cache_folder() -> Path:
    """The user's cache of pulab: ``$XDG_CACHE_HOME/pulab``, by default ``~/.cache/pulab``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pulab"


def data_folders() -> list[Path]:
    """The folders to search, in this order."""
    from_user = os.environ.get("PULAB_DATA")
    return [*([Path(from_user).expanduser()] if from_user else []), cache_folder(), *SYSTEM_FOLDERS]


def find(paths: Sequence[str]) -> Path | None:
    """The first of these paths that exists. All paths are tried in one data folder before the next folder."""
    for folder in data_folders():
        for path in paths:
            if (folder / path).exists():
                return folder / path
    return None


def fetch(source: Source) -> Path:
    """The path of the file. A missing file is downloaded to the cache. Every file is checked, the user's own too."""
    return fetch_all([source])[0]


def fetch_all(sources: Sequence[Source]) -> list[Path]:
    """The paths of the files, as from :func:`fetch`. One error names all files that are missing."""
    return [checked(find([source.path]) or download(source, needed=sources), source) for source in sources]


def download(source: Source, places: Sequence[str] = (), needed: Sequence[Source] = ()) -> Path:
    """Download to the cache. The file has a temporary name until its size and checksum are right.

    The error names ``places``, the paths that were searched, and ``needed``, the files that belong together.
    """
    target = cache_folder() / source.path
    try:
        remove_leftovers(cache_folder())
        download_file(source.url, target, source.checksum)
    except Exception as error:  # requests, urllib3 or the disk may raise anything
        lacking = [item.path for item in needed if find([item.path]) is None] or [source.path]
        names, paths = (" and ".join(items) for items in ([Path(path).name for path in lacking], lacking))
        searched = places or sorted({str(Path(path).parent) for path in lacking})
        folders = [str(folder / searched[0]) if len(searched) == 1 else str(folder) for folder in data_folders()]
        where = ("" if len(searched) == 1 else f"{', '.join(searched)} in ") + ", ".join(folders)
        are, files = ("is", "the file") if len(lacking) == 1 else ("are", "the files")
        raise DataNotFoundError(
            f"{names} {are} not on this machine (looked {'for' if len(searched) > 1 else 'in'} {where}) and could "
            f"not be downloaded from {source.url} ({reason(error)}). Put {files} at one of these places, or set "
            f"PULAB_DATA to a folder that holds {paths}."
        ) from error
    if source.checksum is None:
        warn(
            f"no checksum of {target.name} is known: only HTTPS vouches for it. The checksum of what came is kept in "
            f"{note_of(target).name}, and a later change is refused."
        )
    return target


def checked(path: Path, source: Source) -> Path:
    """The same path. A file with another checksum than the known one, or than at its download, is refused.

    A file is read once per process, and again when its size, time or number on the disk has changed.
    """
    if not path.is_file():
        raise DataFormatError(f"{path} must be a file. Delete it to download it again.")
    note = note_of(path)
    if source.checksum is not None:
        algorithm, _, known = source.checksum.partition(":")
        got = _digest(path, algorithm)
        if f"{algorithm}:{got}" not in (source.checksum, source.packed_otherwise):
            raise DataFormatError(
                f"{path} is not the published file: its {algorithm} is {got}, not {known}. Delete it to download it "
                "again."
            )
    elif note.is_file() and note.read_text(encoding="utf-8", errors="replace").split()[:1] != [digest_of_file(path)]:
        raise DataFormatError(
            f"{path} has changed since it was downloaded. Delete it and {note.name} to download it again."
        )
    return path


def digest_of_file(path: Path) -> str:
    """The checksum of a file. The file is read again only when it has changed."""
    return _digest(path, "sha256")


def _digest(path: Path, algorithm: str) -> str:
    facts = path.stat()
    return _digest_of_file(path, algorithm, facts.st_mtime_ns, facts.st_size, facts.st_ino)


@lru_cache(maxsize=64)
def _digest_of_file(path: Path, algorithm: str, changed: int, size: int, number: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()


def contents(place: Path, wanted: Callable[[Path], bool], most_bytes: int) -> Iterator[tuple[Path, bytes]]:
    """Paths and contents of the wanted files in a folder or in a .tar.gz archive.

    More than ``most_bytes`` in all is refused before it is read. Nothing is written to the disk. Links and devices of
    an archive are passed over.
    """
    if place.is_dir():
        for path in place.rglob("*"):
            if wanted(path) and path.is_file():
                size = path.stat().st_size
                most_bytes -= size
                if most_bytes < 0:
                    raise tarfile.ReadError(_TOO_MUCH)
                with path.open("rb") as file:
                    yield path, file.read(size)
        return
    with _LimitedGzip(place) as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
        stream.left = most_bytes
        for item in tar:
            if item.size > most_bytes or item.issparse():  # a sparse member is larger than its bytes in the archive
                raise tarfile.ReadError(_TOO_MUCH)
            member = tar.extractfile(item) if item.isreg() and wanted(Path(item.name)) else None
            if member is not None:
                yield Path(item.name), member.read()


_TOO_MUCH = "it holds more bytes than the published data"


class _LimitedGzip(gzip.GzipFile):
    """A gzip file that ends with an error after ``left`` unpacked bytes."""

    left = 2**20  # until the limit is set: tarfile reads the first header at once

    def read(self, size: int | None = -1) -> bytes:
        """The next bytes."""
        content = super().read(size)
        self.left -= len(content)
        if self.left < 0:
            raise tarfile.ReadError(_TOO_MUCH)
        return content
