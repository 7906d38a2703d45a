"""Where data files are: in $PULAB_DATA, in the user's cache, or on the web, checked."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pulab.errors import DataNotFoundError


@dataclass(frozen=True)
class Source:
    """A file, where it lies below a data folder, where it can be had, and the checksum it must have."""

    path: str
    url: str
    checksum: str | None  # "md5:…" or "sha256:…"; None where nobody has published one


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
    return find([source.path]) or download(source)


def download(source: Source, places: Sequence[str] = ()) -> Path:
    """Download to the cache, under another name until the checksum is right; ``places`` is what was looked for."""
    import pooch

    target = cache_folder() / source.path
    try:
        pooch.retrieve(
            source.url,
            known_hash=source.checksum,
            path=target.parent,
            fname=target.name,
            downloader=pooch.HTTPDownloader(progressbar=False, timeout=30),
        )
    except Exception as error:  # pooch lets through whatever requests, the disk or the checksum raise
        looked = ", ".join(str(folder / place) for folder in data_folders() for place in places or [source.path])
        raise DataNotFoundError(
            f"{target.name} is not on this machine (looked for {looked}) and could not be downloaded from {source.url} "
            f"({_reason(error)}). Put the file at one of these places, or set PULAB_DATA to a folder that holds "
            f"{source.path}."
        ) from error
    return target


def _reason(error: Exception) -> str:
    text = str(error).splitlines()[0] if str(error) else ""
    return f"{type(error).__name__}: {text[:200]}".rstrip(": ")
