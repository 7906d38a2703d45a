"""Files and folders that are written all or nothing.

New content is written beside its place, under a private name, and moved there when it is complete and on the disk. The
process that writes holds a lock on it. So the next writer can tell what a killed process left behind, and removes it.
"""

import ctypes
import errno
import glob
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

WRITING = r"\.writing-[0-9a-f]{16}"  # the end of a private name
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)  # Windows has none of these
NO_WAIT = getattr(os, "O_NONBLOCK", 0)
BINARY = getattr(os, "O_BINARY", 0)


@contextmanager
def whole_file(place: Path) -> Iterator[BinaryIO]:
    """A new file to fill. At the end it replaces the file at ``place``; after an error it is deleted."""
    target = place.resolve()  # the target of a link, not the link
    remove_leftovers(target)
    path, descriptor = _new_file(target)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if sys.platform == "win32":
                file.close()  # an open file cannot be moved there; elsewhere its lock keeps others from removing it
            path.replace(target)
        sync_folder(target.parent)
    except BaseException:  # a full disk, Ctrl-C
        path.unlink(missing_ok=True)
        raise


@contextmanager
def folder_beside(place: Path) -> Iterator[Path]:
    """A new folder beside ``place``, deleted at the end with all that is left in it."""
    remove_leftovers(place)
    path, descriptor = _new_folder(place)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        if descriptor is not None:
            os.close(descriptor)


def remove_leftovers(place: Path) -> None:
    """Remove what killed writers of ``place`` left beside it. What a living process writes is locked, and stays."""
    for path in place.parent.glob(f"{glob.escape(_private(place, ''))}*"):
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | NO_FOLLOW | NO_WAIT)
            try:
                if not _lock(descriptor):
                    continue
                if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
                    path.unlink()
                    continue
                if (path / OLD).is_dir() and not place.exists():  # killed between two renames
                    (path / OLD).rename(place)
                shutil.rmtree(path)
            finally:
                os.close(descriptor)


def move_folder(new: Path, place: Path) -> None:
    """Move a folder to its place. A folder that is there already stays in the parent of the new one.

    On Linux the two names are exchanged in one step, so that ``place`` is always one or the other. Other systems and
    some file systems have no such step: there are two renames, and between them a reader finds no folder.
    """
    sync_folder(new)
    try:
        new.rename(place)  # if there is nothing, or an empty folder
    except OSError:
        if not place.is_dir():
            raise
        if not _exchange(new, place):
            _rename_twice(new, place)
    sync_folder(place.parent)


OLD = "old"


def _rename_twice(new: Path, place: Path) -> None:
    old = new.with_name(OLD)
    place.rename(old)
    try:
        new.rename(place)
    except BaseException:
        old.rename(place)
        raise


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two names in one step. Returns False where this is not possible."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if sys.platform == "linux" else None
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if call is None:
        return False
    if call(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        return False
    raise OSError(code, os.strerror(code), str(other))


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk. Windows has no such call."""
    if sys.platform != "win32":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _private(place: Path, ending: str) -> str:
    return f".{place.name}.writing-{ending}"


def _new_file(place: Path) -> tuple[Path, int]:
    """A new empty file and its locked descriptor. No file and no link that lies there already is followed."""
    while True:
        path = place.with_name(_private(place, secrets.token_hex(8)))
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_FOLLOW | BINARY, 0o666)
        _lock(descriptor)
        if path.exists():  # nobody took it for a leftover before it was locked
            return path, descriptor
        os.close(descriptor)


def _new_folder(place: Path) -> tuple[Path, int | None]:
    """The same for a folder."""
    while True:
        path = place.with_name(_private(place, secrets.token_hex(8)))
        path.mkdir(mode=0o700)
        if sys.platform == "win32":
            return path, None
        with suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDONLY | NO_FOLLOW)
            _lock(descriptor)
            if path.exists():
                return path, descriptor
            os.close(descriptor)


if sys.platform == "win32":

    def _lock(descriptor: int) -> bool:
        return False  # leftovers stay: a file that is locked there cannot be moved

else:
    import fcntl

    def _lock(descriptor: int) -> bool:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False
