"""A download over HTTPS. It has a private temporary name until it is whole, checked and on the disk."""

import hashlib
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Any

from pulab._files import sync_folder

TIMEOUT = 30  # seconds without an answer
MOST_BYTES = 2**30  # the largest published file has 0.4 GB; a server that never ends must not fill the disk
CHUNK = 2**18
YOUNG = 60  # seconds


class Refused(Exception):
    """The server's answer cannot be used. The message is a reason in a few words."""


def note_of(path: Path) -> Path:
    """The file that keeps the checksum of a download that has no published one, as ``sha256sum`` writes it."""
    return path.with_name(f"{path.name}.sha256")


def download_file(url: str, target: Path, checksum: str | None) -> None:
    """Write the file at this address. Without a checksum, the server must tell the length, and a note is written."""
    algorithm, _, expected = (checksum or "sha256:").partition(":")
    with unfinished(target) as file:
        digest = _receive(url, file, algorithm, length_needed=checksum is None)
        if expected and digest != expected:
            raise Refused("its checksum does not match")
        if not expected:  # the note comes first: a file without its note would never be checked
            with unfinished(note_of(target)) as note:
                note.write(f"{digest}  {target.name}\n".encode())


@contextmanager
def unfinished(target: Path) -> Iterator[IO[bytes]]:
    """A private temporary file beside the target, which it replaces at the end. After an error it is removed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", suffix=".part", delete=False) as file:
        path = Path(file.name)
        try:
            _lock(file)
            yield file
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            file.close()  # Windows removes no open file
            path.unlink()
            raise
    path.replace(target)
    sync_folder(target.parent)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of downloads that were killed. A living process holds a lock on its own."""
    for path in folder.rglob(".*.part"):
        # A young file may be between two steps of a living process: not locked yet, or closed and not renamed yet.
        with suppress(OSError):
            if path.is_file() and time.time() - path.stat().st_mtime > YOUNG:
                with path.open("rb") as file:
                    _lock(file)
                path.unlink()


if sys.platform == "win32":

    def _lock(file: IO[bytes]) -> None:
        """Do nothing. Windows does not remove a file that is open."""

else:
    import fcntl

    def _lock(file: IO[bytes]) -> None:
        """Lock the file until it is closed. ``BlockingIOError``: another process holds the lock."""
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _receive(url: str, file: IO[bytes], algorithm: str, length_needed: bool) -> str:
    """Write the bytes of an answer, as they are, and return their checksum."""
    import requests

    digest, size = hashlib.new(algorithm, usedforsecurity=False), 0
    with requests.Session() as session, _progress(url.rpartition("/")[2]) as advance:
        session.adapters.pop("http://")  # no plain HTTP, and no redirect to it
        plain = {"Accept-Encoding": "identity"}
        with session.get(url, stream=True, timeout=TIMEOUT, headers=plain) as answer:
            answer.raise_for_status()
            length = int(answer.headers.get("Content-Length") or 0)
            if length_needed and not length and answer.headers.get("Transfer-Encoding") != "chunked":
                raise Refused("no checksum is known and the server tells no length, so a part may be missing")
            for chunk in answer.raw.stream(CHUNK, decode_content=False):
                size += len(chunk)
                if size > MOST_BYTES:
                    raise Refused(f"more than {MOST_BYTES:,} bytes came")
                file.write(chunk)
                digest.update(chunk)
                advance(len(chunk), length or None)
    if size < length:
        raise Refused(f"only {size:,} of {length:,} bytes came")
    return digest.hexdigest()


@contextmanager
def _progress(name: str) -> Iterator[Any]:
    """A progress bar on a terminal: a function of the bytes that came and of the length."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bars:
        bar = bars.add_task(name, total=None)
        yield lambda n, total: bars.update(bar, advance=n, total=total)


def reason(error: Exception) -> str:
    """The reason of a failed download in a few words."""
    from requests import exceptions
    from urllib3.exceptions import ProtocolError, ReadTimeoutError

    if isinstance(error, Refused):
        return str(error)
    if isinstance(error, exceptions.InvalidSchema):
        return "the address, or one that it leads to, is not HTTPS"
    if isinstance(error, exceptions.SSLError):
        return "the server's certificate is not valid"
    if isinstance(error, exceptions.Timeout | ReadTimeoutError):
        return f"no answer within {TIMEOUT} s"
    if isinstance(error, exceptions.HTTPError):
        return str(error).split(" for url")[0]
    if isinstance(error, ProtocolError):
        return "the connection broke off"
    if isinstance(error, exceptions.ConnectionError):
        return "no connection"
    return getattr(error, "strerror", None) or type(error).__name__
