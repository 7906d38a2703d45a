"""A training on disk: written all or nothing as it goes, and continued to the same bits.

A checkpoint is one safetensors file. Its metadata hold a JSON document (of which training it is, and the state with the
names of its tensors) and a checksum. There is no pickle: a forged or cut file gives one clear error.
"""

import hashlib
import json
import os
import signal
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from pulab._files import BINARY, NO_WAIT, folder_beside, move_folder, remove_leftovers, whole_file
from pulab.errors import CheckpointError, in_one_line, warn

FORMAT = 1
SECONDS = 30.0  # between two saves, at least
SHARE = 0.02  # of the time that saves may take; where a save is slow, there are fewer
LEAST = 1.0  # seconds; a training that takes less is not kept at its end
ENDING = ".checkpoint"  # of the files in a folder
WAITING = ("SIGINT", "SIGTERM", "SIGHUP")  # signals that wait for the end of a step; Windows has no SIGHUP


class Identity:
    """Of which training a checkpoint is: settings that can be shown, and the checksums of arrays.

    ``arrays`` gives the checksums when they are first needed: short trainings never need them.
    """

    def __init__(self, settings: Mapping[str, Any], arrays: Callable[[], Mapping[str, str]]) -> None:
        self._settings, self._arrays = settings, arrays
        self._known: dict[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        """As it is stored."""
        if self._known is None:
            plain = json.loads(json.dumps(self._settings))  # tuples become lists, as in a file
            self._known = {"settings": plain, "arrays": dict(self._arrays())}
        return self._known


class Checkpoint:
    """The file of one training, or of several that are trained as one.

    If ``place`` is a folder, the file's name in it says of which training it is, so any number of trainings share a
    folder. A file at ``place`` must be of this training, or it is refused.
    """

    def __init__(self, place: Path, identities: Sequence[Identity]) -> None:
        self._place, self._identities = place.resolve(), identities
        self._in_folder = self._place.is_dir()
        self._path = None if self._in_folder else self._place
        self._begun = time.monotonic()
        self._due = self._begun + SECONDS
        self.last: str | None = None  # the position that the file holds

    @classmethod
    def joined(cls, parts: Sequence[Self | None]) -> Self | None:
        """One checkpoint for trainings that run as one. It lies where the first one's would."""
        own = [part for part in parts if part is not None]
        if not own or len(own) < len(parts):
            return None
        return (
            own[0] if len(own) == 1 else cls(own[0]._place, [identity for part in own for identity in part._identities])
        )

    @property
    def path(self) -> Path:
        """The file."""
        if self._path is None:
            self._path = self._place / (sha256(canonical(self._identity()))[:32] + ENDING)
        return self._path

    @property
    def is_due(self) -> bool:
        """Whether it is time to save."""
        return time.monotonic() >= self._due

    @property
    def is_worth_keeping(self) -> bool:
        """Whether the training has taken long enough to keep its result until the whole fit is done."""
        return time.monotonic() >= self._begun + LEAST

    @property
    def in_folder(self) -> bool:
        """Whether the file lies in a folder of many, and stays when its fit is done."""
        return self._in_folder

    def save(self, state: Mapping[str, Any] | Callable[[], Mapping[str, Any]], position: str) -> bool:
        """Write the state and wait until the disk has it. If it cannot be written, warn: the training goes on.

        Returns whether it was written.

        If ``state`` is a function, its time counts as time of the save.
        """
        start = time.monotonic()
        tensors: dict[str, Tensor] = {}
        document = {"format": FORMAT, "identity": self._identity(), "position": position}
        document["state"] = _pack(state() if callable(state) else state, tensors)
        try:
            with whole_file(self.path) as file:
                file.write(_to_bytes(document, tensors))
            self.last, is_written = position, True
        except OSError as error:
            is_written = False
            kept = "" if self.last is None else f" The one of {self.last} stays."
            warn(f"the checkpoint {self.path} cannot be written: {error.strerror}.{kept} The training goes on.")
        now = time.monotonic()
        self._due = now + max(SECONDS, (now - start) / SHARE)
        return is_written

    def load(self) -> dict[str, Any] | None:
        """The state in the file. None if there is no file."""
        if self._in_folder and not any(self._place.glob(f"*{ENDING}")):
            return None  # without a look at the data
        with damage_is_told(self.path):
            try:
                document, tensors = _from_bytes(_read(self.path))
            except FileNotFoundError:
                return None
            refuse_others(self.path, document["identity"], self._identity())
            self.last = str(document["position"])
            state: dict[str, Any] = _unpack(document["state"], tensors)
            return state

    def remove(self) -> None:
        """The whole fit is done. The files in a folder stay: they belong to a search that may go on."""
        if not self._in_folder:
            remove_leftovers(self.path)  # of a killed save, after which nothing was left to save
            self.path.unlink(missing_ok=True)

    def _identity(self) -> list[dict[str, Any]]:
        return [identity.as_json() for identity in self._identities]


def refuse_others(place: Path, theirs: Any, ours: list[dict[str, Any]]) -> None:
    """Raise an error that names the differences, if a checkpoint is not of these trainings."""
    if theirs == ours:
        return
    if len(theirs) != len(ours):
        found = [f"it is of {len(theirs)} trainings, not of {len(ours)}"]
    else:
        found = [text for pair in zip(theirs, ours, strict=True) for text in _differences(*pair)]
    more = f" (and {len(found) - 3} more)" if len(found) > 3 else ""
    raise CheckpointError(
        f"the checkpoint {place} is of another training: {', '.join(found[:3])}{more}. Name another one, or delete it "
        "to begin anew."
    )


def _differences(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> list[str]:
    """What two trainings differ in, in words: in settings, or else in arrays. Another seed makes other arrays, too."""
    old, new = theirs["settings"], ours["settings"]
    settings = [
        f"{name} was {_shown(old, name)} and is {_shown(new, name)}"
        for name in dict.fromkeys((*old, *new))
        if old.get(name) != new.get(name) or (name in old) != (name in new)
    ]
    old, new = theirs["arrays"], ours["arrays"]
    return settings or [
        f"{name} is not the same" for name in dict.fromkeys((*old, *new)) if old.get(name) != new.get(name)
    ]


def _shown(settings: Mapping[str, Any], name: str) -> str:
    return str(settings[name])[:60] if name in settings else "not there"


@contextmanager
def damage_is_told(place: Path) -> Iterator[None]:
    """Turn any error while the content of a checkpoint is used into one of one line."""
    try:
        yield
    except CheckpointError as error:
        if str(place) in str(error):
            raise
        raise CheckpointError(f"the checkpoint {place} cannot be used: {error}. Delete it to begin anew.") from error
    except Exception as error:
        raise CheckpointError(
            f"the checkpoint {place} cannot be read: {in_one_line(error)}. Delete it to begin anew."
        ) from error


# A folder for one piece of work that has many fits --------------------------------------------------------------------

ABOUT = "about.json"


def is_begun(folder: Path) -> bool:
    """Whether a folder was made by :func:`begin_folder`, and not by the user."""
    return (folder / ABOUT).exists()


def begin_folder(folder: Path, identity: Identity) -> None:
    """Make a folder for the trainings of this work. If it is there already, it must be of the same work."""
    folder, ours = folder.resolve(), [identity.as_json()]
    if is_begun(folder):
        with damage_is_told(folder):
            refuse_others(folder, json.loads(_read(folder / ABOUT)), ours)
        return
    try:
        if folder.is_dir() and (strangers := [p.name for p in folder.iterdir() if not p.name.startswith(f".{ABOUT}.")]):
            raise CheckpointError(f"the folder {folder} of a checkpoint holds {strangers[0]!r}. Name a new folder.")
        with folder_beside(folder) as beside:  # so that it is never there without the file
            new = beside / folder.name
            new.mkdir()
            with whole_file(new / ABOUT) as file:
                file.write(canonical(ours))
            move_folder(new, folder)
    except OSError as error:
        raise CheckpointError(
            f"the checkpoint {folder} must be a folder that can be made and written to, got: {error.strerror}."
        ) from error


def remove_folder(folder: Path) -> None:
    """The work is done: remove its checkpoints, and in one step the folder if nothing else is in it."""
    folder = folder.resolve()
    own = {*folder.glob(f"*{ENDING}"), *folder.glob(f".*{ENDING}.writing-*"), folder / ABOUT}
    if folder.is_dir() and own.issuperset(folder.iterdir()):
        with folder_beside(folder) as beside:
            folder.rename(beside / folder.name)
    else:
        for path in own:
            path.unlink(missing_ok=True)


# Signals --------------------------------------------------------------------------------------------------------------


class Interrupts:
    """While trainings with checkpoints run, Ctrl-C, SIGTERM and SIGHUP wait for the end of the step, for a save.

    They wait only in the main thread, and not if they are ignored. After the save they do what they did before: call
    their handler, or end the process. A second signal does not wait. Nor does the first one if ``save_now`` returns
    True: then nothing is left to save.
    """

    def __init__(self, save_now: Callable[[], bool] = lambda: False) -> None:
        self._save_now = save_now
        self._handlers: dict[int, Any] = {}
        self._waiting: list[int] = []

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            numbers = [getattr(signal, name) for name in WAITING if hasattr(signal, name)]
            handlers = {number: signal.getsignal(number) for number in numbers}
            self._handlers = {n: h for n, h in handlers.items() if callable(h) or h is signal.SIG_DFL}
            for number in self._handlers:
                signal.signal(number, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        if self._waiting:
            signal.raise_signal(self._waiting.pop())

    def _note(self, number: int, frame: Any) -> None:
        self._waiting.append(number)
        if len(self._waiting) > 1 or self._save_now():
            self.answer()

    @property
    def came(self) -> bool:
        """Whether a signal waits."""
        return bool(self._waiting)

    def answer(self) -> None:
        """Do what the last signal would have done. Most handlers raise an error."""
        number = self._waiting.pop()
        self._waiting.clear()
        signal.signal(number, self._handlers[number])
        try:
            signal.raise_signal(number)
        finally:
            signal.signal(number, self._note)


# The file -------------------------------------------------------------------------------------------------------------


def sha256(*parts: Any) -> str:
    """The checksum of these bytes, one part after the other."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def canonical(value: Any) -> bytes:
    """JSON with one form for one value. Numbers that are not finite are Python's NaN and Infinity."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def checksum(tensors: Mapping[str, Tensor]) -> str:
    """The checksum of tensors: names, types, shapes and values."""
    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    head = canonical([[name, str(t.dtype), list(t.shape)] for name, t in sorted(plain.items())])
    return sha256(head, *(_bytes_of(t) for _, t in sorted(plain.items())))


def _bytes_of(tensor: Tensor) -> Any:
    if not tensor.numel():
        return b""
    flat = tensor.reshape(-1).as_strided((tensor.numel(),), (1,))  # one number alone may have any stride
    return flat.view(torch.uint8).numpy()


def _to_bytes(document: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> bytes:
    from safetensors.torch import save

    text = canonical(document).decode()
    whole: bytes = save(
        dict(tensors), {"checkpoint": text, "checksum": sha256(text.encode(), checksum(tensors).encode())}
    )
    return whole


def _from_bytes(raw: bytes) -> tuple[dict[str, Any], dict[str, Tensor]]:
    from safetensors.torch import load

    length = int.from_bytes(raw[:8], "little")  # safetensors' own functions for bytes do not give the metadata
    notes = json.loads(raw[8 : 8 + length])["__metadata__"]
    text, tensors = notes["checkpoint"], load(raw)
    if notes["checksum"] != sha256(text.encode(), checksum(tensors).encode()):
        raise CheckpointError("it is cut off or has been changed since it was written")
    document = json.loads(text)
    if document["format"] != FORMAT:
        raise CheckpointError(f"it has format {str(document['format'])[:20]}, and this pulab reads {FORMAT}")
    return document, tensors


def _read(path: Path) -> bytes:
    """The bytes of a file that must be a regular one: a pipe would never end."""
    with os.fdopen(os.open(path, os.O_RDONLY | NO_WAIT | BINARY), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise CheckpointError("it is not a regular file")
        return file.read()


def _pack(value: Any, tensors: dict[str, Tensor]) -> Any:
    """A state as JSON. Its tensors go to ``tensors``, each with its strides: kernels round by them."""
    if isinstance(value, Tensor):
        name = str(len(tensors))
        plain = value.detach().to("cpu", copy=True)
        tensors[name] = plain.contiguous()
        in_order = not plain.numel() or plain.stride() == torch.empty(plain.shape, device="meta").stride()
        return {"tensor": name} if in_order else {"tensor": name, "stride": list(plain.stride())}
    if isinstance(value, Mapping):  # a list: keys may be numbers
        return {"items": [[key, _pack(item, tensors)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return [_pack(item, tensors) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise CheckpointError(f"a state that holds a {type(value).__name__} cannot be kept. Use tensors and plain numbers.")


def _unpack(packed: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(packed, list):
        return [_unpack(item, tensors) for item in packed]
    if not isinstance(packed, dict):
        return packed
    if "items" in packed:
        return {key: _unpack(item, tensors) for key, item in packed["items"]}
    value, strides = tensors[packed["tensor"]], packed.get("stride")
    if strides is None:
        return value
    span = 1 + sum((n - 1) * step for n, step in zip(value.shape, strides, strict=True))
    if min(strides) < 0 or span != value.numel():
        raise CheckpointError("its strides do not fit its shapes")
    return torch.empty_strided(value.shape, strides, dtype=value.dtype).copy_(value)
