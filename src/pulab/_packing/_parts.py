"""The files of a model, read once: numbers go from the disk straight into the arrays where they stay.

So loading needs no copy of a file beside its arrays. A file is never mapped into memory: if another process cuts a
mapped file, a signal ends the reader. All sizes are checked before memory is allocated.
"""

import hashlib
import io
import math
import struct
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from pulab._packing._checks import must
from pulab._packing._json import read_json
from pulab._validation import AnyArray
from pulab.errors import ModelFileError

PIECE = 2**20


class Part:
    """A file of so many bytes. All that is read from it goes into its checksum."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.left = size
        self._file, self._hash = file, hashlib.sha256()

    def read(self, n: int) -> bytes:
        """The next n bytes."""
        must(0 <= n <= self.left, "its parts are larger than the file")
        raw = self._file.read(n)
        self._hash.update(raw)
        self.left -= n
        must(len(raw) == n, "it is cut off")
        return raw

    def rest(self) -> bytes:
        """All bytes that are left."""
        return self.read(self.left)

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any], by_column: bool = False) -> AnyArray:
        """The next bytes as an array, whose size the caller has checked."""
        must(not dtype.hasobject, "an array in it has objects")
        array = np.empty(shape, dtype, "F" if by_column else "C")
        if array.nbytes:
            raw = memoryview((array.T if by_column else array).reshape(-1).view(np.uint8))  # type: ignore[arg-type]
            read = self._file.readinto(raw)  # type: ignore[attr-defined]  # files and BytesIO have it
            self._hash.update(raw)
            self.left -= array.nbytes
            must(read == array.nbytes, "it is cut off")
        return array

    def checksum(self) -> str:
        """The checksum of the whole file, also of bytes that were not read yet. One of a grown file is another."""
        left = self.left + 1
        while left and (raw := self._file.read(min(PIECE, left))):
            self._hash.update(raw)
            left -= len(raw)
        return self._hash.hexdigest()


def part_of(raw: bytes) -> Part:
    """A part whose bytes are in memory."""
    return Part(io.BytesIO(raw), len(raw))


# safetensors ----------------------------------------------------------------------------------------------------------

DTYPES = {f"{kind}{8 * size}": f"<{kind.lower()}{size}" for kind in "IU" for size in (1, 2, 4, 8)}
DTYPES |= {"F16": "<f2", "F32": "<f4", "F64": "<f8", "BOOL": "?"}


def read_arrays(part: Part) -> dict[str, AnyArray]:
    """The arrays of a safetensors file. They must follow each other without a gap, up to the end of the file."""
    header = read_json(part.read(int.from_bytes(part.read(8), "little")))
    header.pop("__metadata__", None)
    arrays, at = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        dtype, shape = np.dtype(DTYPES[entry["dtype"]]), entry["shape"]
        must(all(type(n) is int and n >= 0 for n in shape), "an array in it has an invalid shape")
        end = at + math.prod(shape) * dtype.itemsize
        must(entry["data_offsets"] == [at, end], "an array in it has another size than its header says")
        must(end - at <= part.left, "an array in it is larger than the file")
        arrays[name] = part.array(tuple(shape), dtype)
        at = end
    must(part.left == 0, "it is longer than its header says")
    for array in arrays.values():
        must(array.dtype != bool or array.view(np.uint8).max(initial=0) <= 1, "an array in it is not of booleans")
    return arrays


# skops ----------------------------------------------------------------------------------------------------------------

SCHEMA = "schema.json"
_HEAD = struct.Struct("<4s5H3L2H")  # of a member of a zip file
_LARGE, _OF_LARGE = 2**32 - 1, struct.Struct("<2H2Q")


class Skops(NamedTuple):
    """A skops file: how its objects are made, in JSON, and its arrays."""

    schema: list[str]  # one text, in a list so that the parser can take it out and free it
    arrays: dict[str, AnyArray]


def read_skops(part: Part) -> Skops:
    """The members of a skops file, which is a zip file, one after the other. Only what skops writes is read."""
    schema: list[str] = []
    arrays: dict[str, AnyArray] = {}
    while (head := _HEAD.unpack(part.read(_HEAD.size)))[0] == b"PK\3\4":
        _, _, flags, method, _, _, _, stored, size, n_name, n_more = head
        name, more = part.read(n_name).decode("ascii"), part.read(n_more)
        must(method == 0, "a part of it is compressed, and could grow to any size")
        if size == _LARGE:
            kind, _, size, stored = _OF_LARGE.unpack_from(more)
            must(kind == 1, "a part of it has no size")
        must(not flags & ~0x800 and stored == size, "a part of it is not as skops writes it")
        must(size <= part.left, "its parts are larger than the file")
        must(name not in arrays and not (schema and name == SCHEMA), "two parts of it have one name")
        if name == SCHEMA:
            schema.append(part.read(size).decode("ascii"))
        else:
            arrays[name] = _read_npy(part, size)
    must(head[0] == b"PK\1\2" and schema, "it is not a skops file")  # the list of members, which nobody needs
    return Skops(schema, arrays)


def _read_npy(part: Part, size: int) -> AnyArray:
    """An array in numpy's format. Refused if its header claims another size than its file has."""
    end = part.left - size
    version = np.lib.format.read_magic(part)  # type: ignore[arg-type]  # reads alone
    read_header: Any = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    shape, by_column, dtype = read_header[version](part)
    if math.prod(shape) * dtype.itemsize != part.left - end or math.prod(shape) > size:
        raise ModelFileError("an array in it has another size than its header says")
    return part.array(shape, dtype, by_column)
