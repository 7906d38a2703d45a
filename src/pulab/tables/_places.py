"""Folders that hold a table or its scores: on this machine, or at an address such as s3://bucket/folder."""

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from pulab._files import whole_file
from pulab.errors import DataNotFoundError, InputError, in_one_line
from pulab.tables._sources import ENDINGS, _natural, is_address, source_of


class File(NamedTuple):
    """A file of a table: where it is, and its size and time, which show a change."""

    path: str
    size: int
    changed: int


# What pyarrow says when a store refuses, and what then helps.
REMEDIES = {
    "NETWORK_CONNECTION": "Check the network, and AWS_ENDPOINT_URL.",
    "NO_SUCH_BUCKET|resolving region": "Check the name of the bucket, and AWS_ENDPOINT_URL.",
    "ACCESS_DENIED|ACCESS_KEY|SIGNATURE|TOKEN|HTTP status 40[13]": "Check the credentials (AWS_ACCESS_KEY_ID, "
    "AWS_SECRET_ACCESS_KEY or ~/.aws) of this machine and of the cluster's, and their rights.",
}


def system_of(address: str) -> tuple[Any, str]:
    """The file system of an address, and the path in it. The path has no escapes: ``%`` is ``%``."""
    from pyarrow import fs

    begin, bucket, inside = re.fullmatch(r"(\w+:/+)([^/]*)(.*)", address, flags=re.DOTALL).groups()  # type: ignore[union-attr]
    if begin == "file:///":  # no bucket
        bucket, inside = "", f"/{bucket}{inside}"
    _refuse_options(address)
    try:
        system, path = fs.FileSystem.from_uri(f"{begin}{bucket}")
    except (pa.ArrowException, ValueError, OSError) as error:
        raise InputError(
            f"{address} is an address that cannot be used: {_told(error)} Known are s3://, gs://, abfs://, hdfs:// and "
            "file://."
        ) from error
    return system, path.rstrip("/") + inside


def _refuse_options(address: str) -> None:
    """Options belong in the environment: addresses appear in files and messages, and ``?`` is part of a pattern."""
    if re.match(r"s3://[^/]*@", address):
        raise InputError("an address must have no credentials. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.")
    if option := re.search(r"[?&](region|scheme|endpoint_override)=", address):
        raise InputError(f"an address must have no options, got {option[1]}. Set AWS_ENDPOINT_URL.")


def _told(error: Exception) -> str:
    """The answer of a store, without the words that our message has already, and a remedy."""
    answer = re.sub(r"^When .*?: (?=AWS Error)| \(Request ID: [^)]*\)", "", str(error))
    helps = [remedy for pattern, remedy in REMEDIES.items() if re.search(pattern, str(error))]
    return " ".join([f"{in_one_line(OSError(answer))}.", *helps[:1]])


def open_file(path: str) -> Any:
    """What pyarrow reads a file from: its path, or the open file at an address."""
    if not is_address(path):
        return path
    system, inside = system_of(path)
    try:
        return system.open_input_file(inside)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InputError(f"{path} cannot be opened: {_told(error)}") from error


def files_of(table: str) -> tuple[list[File], str]:
    """The files of a table in their order, and the folder where names such as year=2024 begin (empty for one file)."""
    if is_address(table):
        return _at_address(table)
    source = source_of(table)
    if source.query is not None or source.sheet is not None:
        raise InputError(f"on a cluster a table is one of Parquet files, got {table}. Export it to Parquet first.")
    stats = [(path.absolute(), path.stat()) for path in source.files]
    root = "" if source.root is None else str(source.root.absolute())
    return [File(str(path), stat.st_size, stat.st_mtime_ns) for path, stat in stats], root


def _at_address(table: str) -> tuple[list[File], str]:
    from pyarrow import fs

    _refuse_options(table)
    pattern = re.search(r"[*?[]", table)
    folder = table if pattern is None else table[: pattern.start()].rpartition("/")[0]
    system, root = system_of(folder)
    try:
        info = system.get_file_info(root)
        found = [info] if info.is_file else system.get_file_info(fs.FileSelector(root, recursive=True))
    except (pa.ArrowException, OSError) as error:
        raise DataNotFoundError(f"{table} cannot be listed: {_told(error)}") from error
    head = folder.rstrip("/")
    files = []
    for one in (one for one in found if one.is_file):
        inside = one.path.removeprefix(root).strip("/")
        address = f"{head}/{inside}" if inside else head
        hidden = any(part.startswith((".", "_")) for part in inside.split("/"))
        if pattern:
            wanted = _matches(inside.split("/"), table.removeprefix(head).strip("/").split("/"))
        else:
            wanted = not inside or one.path.lower().endswith(ENDINGS)
        if wanted and not hidden:
            files.append(File(address, one.size, one.mtime_ns or 0))
    if not files:
        raise DataNotFoundError(f"there are no Parquet files at {table}.")
    one_file = len(files) == 1 and files[0].path == head
    return sorted(files, key=lambda file: _natural(Path(file.path))), "" if one_file else head


def _matches(path: Sequence[str], pattern: Sequence[str]) -> bool:
    """As in a local pattern: ``*`` stays within a folder, ``**`` stands for any number of folders."""
    if not path or not pattern:
        return not path and list(pattern) in ([], ["**"])
    if pattern[0] == "**":
        return _matches(path, pattern[1:]) or _matches(path[1:], pattern)
    return fnmatch.fnmatchcase(path[0], pattern[0]) and _matches(path[1:], pattern[1:])


@dataclass(frozen=True)
class Place:
    """A folder to write to. A file appears in it when all of it is written."""

    path: str

    @classmethod
    def of(cls, given: str) -> "Place":
        """The folder of this name, or at this address."""
        given = given.removeprefix("file://")  # the same folder by its path, where a file is written all or nothing
        return cls(given.rstrip("/") if is_address(given) else str(Path(given).absolute()))

    def names(self) -> set[str]:
        """What lies in the folder; nothing if it is not there."""
        from pyarrow import fs

        if not is_address(self.path):
            folder = Path(self.path)
            if folder.exists() and not folder.is_dir():
                raise InputError(f"scores of a cluster go to a folder, got the file {folder}.")
            return {path.name for path in folder.iterdir()} if folder.is_dir() else set()
        system, root = system_of(self.path)
        try:
            return {one.base_name for one in system.get_file_info(fs.FileSelector(root, allow_not_found=True))}
        except OSError as error:
            raise InputError(f"{self.path} cannot be listed: {_told(error)}") from error

    def read(self, name: str) -> bytes | None:
        """A file's content; None if there is no such file."""
        try:
            if not is_address(self.path):
                return (Path(self.path) / name).read_bytes()
            system, root = system_of(self.path)
            with system.open_input_stream(f"{root}/{name}") as file:
                return bytes(file.read())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InputError(f"{self.path}/{name} cannot be read: {_told(error)}") from error

    def write(self, name: str, content: bytes) -> None:
        """Write a file, all or nothing."""
        try:
            if not is_address(self.path):
                with whole_file(Path(self.path) / name) as file:
                    file.write(content)
                return
            system, root = system_of(self.path)
            with system.open_output_stream(f"{root}/{name}") as stream:  # an object appears when it is closed
                stream.write(content)
        except OSError as error:
            raise InputError(f"{self.path} must be a folder that can be written to: {_told(error)}") from error

    def make(self) -> None:
        """Make the folder, if it is not there."""
        if is_address(self.path):
            return  # a store of objects has no folders
        try:
            Path(self.path).mkdir(exist_ok=True)
        except OSError as error:
            raise InputError(f"--out {self.path} must be a folder that can be made: {error.strerror}.") from error
