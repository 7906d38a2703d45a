"""The folder of a model: written in one step, and read only after its checksums agree."""

import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from pulab import __version__
from pulab._files import BINARY, NO_FOLLOW, NO_WAIT, WRITING, folder_beside, move_folder
from pulab._packing import read_json
from pulab._packing._parts import Part, read_arrays, read_skops
from pulab.errors import InputError, ModelFileError, in_one_line
from pulab.persistence._content import Content, ModuleNeeded

FORMAT = 3
DOCUMENT, ARRAYS = "model.json", "arrays.safetensors"
PART = re.compile(r"arrays\.safetensors|part-\d{1,6}\.\w{1,12}")
PAGE = r"report\.html|candidates\.csv"
MODEL_FILES = re.compile(rf"model\.json|{PART.pattern}|{PAGE}|\.({PAGE}){WRITING}")
TRIES = 20  # reads beside a process that replaces the model again and again


# Writing --------------------------------------------------------------------------------------------------------------


def write_folder(
    folder: Path, document: Mapping[str, Any], content: Content, extra: Mapping[str, bytes] | None = None
) -> Path:
    """Write a model and ``extra`` files to a temporary folder, flush them to the disk, then move the folder."""
    from safetensors.numpy import save as save_arrays

    files = {ARRAYS: save_arrays(content.arrays), **content.blobs}
    whole = {
        "format": FORMAT,
        "pulab": __version__,
        **document,
        "files": {name: _checksum(raw) for name, raw in files.items()},
    }
    whole["checksum"] = _checksum(_canonical(whole))
    files[DOCUMENT] = json.dumps(whole, indent=1, allow_nan=False).encode()
    check_folder(folder)
    place = folder.resolve()
    with folder_beside(place) as beside:
        new = beside / "new"
        new.mkdir()
        for name, raw in (files | dict(extra or {})).items():
            with (new / name).open("xb") as file:
                file.write(raw)
                file.flush()
                os.fsync(file.fileno())
        move_folder(new, place)
    return folder


def check_folder(folder: Path) -> None:
    """Refuse a folder where no model can be written. Call it before long work."""
    folder = folder.resolve()  # the target of a link
    if not folder.parent.is_dir():
        raise InputError(f"the model's folder must be in an existing one, got {folder}. Create {folder.parent} first.")
    if folder.exists() and not (folder / DOCUMENT).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists and is not a pulab model. Name another folder; this one is not changed.")
    if (folder.parent / DOCUMENT).is_file():
        raise InputError(f"{folder} would lie within a model. Name a folder elsewhere.")
    inside = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    strangers = [name for name in inside if not MODEL_FILES.fullmatch(name)]
    if strangers:
        raise InputError(f"{folder} holds {strangers[0]!r} beside a model. Name another folder, or move that file.")
    try:
        with folder_beside(folder):
            pass
    except OSError as error:
        raise InputError(f"{folder} cannot be created: {error.strerror}. Name a folder elsewhere.") from None


# Reading --------------------------------------------------------------------------------------------------------------


def read_folder(folder: Path, kind: str) -> tuple[dict[str, Any], Content]:
    """The contents of a model's files, after a check of their checksums."""
    if not (folder / DOCUMENT).is_file():
        raise ModelFileError(f"{folder} holds no model: it has no {DOCUMENT}. Name a folder that pulab wrote.")
    with damage_is_told(folder):
        document, parts = _read_files(folder)
        if document.get("kind") != kind:
            raise ModelFileError(f"it holds a {document.get('kind')}, not a {kind}")
        return document, Content(parts.pop(ARRAYS), parts)


def _read_files(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The document and the other parts of one model. Starts again if another process replaced the model meanwhile."""
    for left in reversed(range(TRIES)):
        with _held(folder) as before:
            try:
                document = _document(read_regular(folder / DOCUMENT))
                parts = {name: _read_part(folder, name, checksum) for name, checksum in document["files"].items()}
            except Exception:
                if not left or _identity(folder) == before:
                    raise
            else:
                if not left or _identity(folder) == before:
                    return document, parts
    raise AssertionError  # the last try returns or raises


@contextmanager
def _held(folder: Path) -> Iterator[tuple[int, int] | None]:
    """Which folder has this name now. It stays open, because the number of a removed folder may go to a new one."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # there is none now, or this is Windows
        yield _identity(folder)
        return
    try:
        now = os.fstat(descriptor)
        yield now.st_dev, now.st_ino
    finally:
        os.close(descriptor)


def _identity(folder: Path) -> tuple[int, int] | None:
    """Which folder has this name now. None if there is none, as between the two renames of some file systems."""
    try:
        now = folder.stat()
    except FileNotFoundError:
        return None
    return now.st_dev, now.st_ino


READERS: dict[str, Callable[[Part], Any]] = {".safetensors": read_arrays, ".skops": read_skops}


def _read_part(folder: Path, name: str, checksum: str) -> Any:
    """A part of a model: its arrays, the members of a skops file, or the bytes of a text."""
    if not PART.fullmatch(name):
        raise ModelFileError(f"it names a file {name[:60]!r}, which a model does not have")
    read = READERS.get(Path(name).suffix, Part.rest)
    with open_regular(folder / name) as file:
        part = Part(file, os.fstat(file.fileno()).st_size)
        try:
            value = read(part)
        except Exception:  # the usual cause is a damaged file, and then this is the better message
            _refuse_damaged(part, name, checksum)
            raise
        _refuse_damaged(part, name, checksum)
    return value


def _refuse_damaged(part: Part, name: str, checksum: str) -> None:
    if part.checksum() != checksum:
        raise ModelFileError(f"{name} is cut off or has been changed since it was written")


@contextmanager
def open_regular(path: Path) -> Iterator[BinaryIO]:
    """Open a file that must be a regular one: a pipe would never end, a link may lead anywhere."""
    if path.is_symlink():  # said here, because O_NOFOLLOW gives "too many levels of symbolic links"
        raise ModelFileError(f"{path.name} is a link. Copy the file itself")
    with os.fdopen(os.open(path, os.O_RDONLY | NO_FOLLOW | NO_WAIT | BINARY), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ModelFileError(f"{path.name} is not a regular file")
        yield file


def read_regular(path: Path) -> bytes:
    """The bytes of a file that must be a regular one."""
    with open_regular(path) as file:
        return file.read(os.fstat(file.fileno()).st_size + 1)


def _document(raw: bytes) -> dict[str, Any]:
    document = read_json(raw)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        written = document.get("format") if isinstance(document, dict) else None
        raise ModelFileError(f"{DOCUMENT} has format {str(written)[:20]}, and this pulab reads {FORMAT}")
    if document.pop("checksum", None) != _checksum(_canonical(document)):
        raise ModelFileError(f"{DOCUMENT} has been changed since it was written")
    return document


@contextmanager
def damage_is_told(folder: Path) -> Iterator[None]:
    """Turn any error while a model's files are read into one of one line."""
    try:
        yield
    except ModuleNeeded:  # the caller can correct it
        raise
    except MemoryError:
        raise ModelFileError(
            f"the model in {folder} needs more memory than there is. Free some, or fit it again."
        ) from None
    except Exception as error:
        line = f"the model in {folder} cannot be read: {in_one_line(error)}. Fit it again, or copy it again."
        raise ModelFileError(line) from error


def _checksum(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def _canonical(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
