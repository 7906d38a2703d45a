"""A fit in pieces. A checkpoint keeps the finished pieces, and a fit that goes on gets them back."""

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from pulab._packing import Content
from pulab.errors import InputError, PulabError, in_one_line, short, warn

if TYPE_CHECKING:  # methods for tables need no torch
    from pulab.training import Checkpoint
    from pulab.training.checkpoint import Interrupts

T = TypeVar("T")
State = Mapping[str, Any]


class Packed(NamedTuple):
    """A piece as it is stored: its value, and the state of the random numbers after it."""

    value: Any
    content: Content
    random: State


class Live(NamedTuple):
    """A piece that no file has yet."""

    value: Any
    random: State


class Work:
    """The random numbers of a fit, and its finished pieces.

    ``work(make)`` gives the result of ``make()``: computed now, or from the checkpoint. In both cases the random
    numbers go on from the same state. A piece is known by its place in the order of the calls, so that order must be
    the same in every fit. A piece may consist of smaller ones. These are dropped when it is finished. Without a
    checkpoint nothing is kept.
    """

    def __init__(self, rng: np.random.Generator, checkpoint: "Checkpoint | None" = None) -> None:
        self.rng = rng
        self._checkpoint = checkpoint
        self._done: dict[str, Packed | Live] = {}
        self._place = [0]  # how many pieces were asked for; then how many parts of the current one; and so on
        self._lock = threading.RLock()  # pieces may end in threads, and a signal may come at any moment
        self._is_busy = False
        self._is_over = False  # then nothing is saved: a thread may outlive an interrupted fit
        self._unsaved = 0
        self._interrupts: Interrupts | None = None

    def __call__(self, make: Callable[[], T], rng: np.random.Generator | None = None) -> T:
        """The piece that ``make`` computes. ``rng`` is its source of random numbers; the fit's own by default."""
        if self._checkpoint is None:
            return make()
        rng, name = self.rng if rng is None else rng, self._next()
        if name in self._done:
            return self._found(name, rng)  # type: ignore[no-any-return]
        self._place.append(0)
        try:
            value = make()
        finally:
            self._place.pop()
        self._add(name, Live(value, rng.bit_generator.state))
        return value

    def places(self, n: int) -> list[Callable[[Callable[[], T]], T]]:
        """A function for each of n pieces, which threads may call in any order.

        Each is called like ``work``: ``place(make)``. These pieces must not draw from the fit's random numbers.
        """
        if self._checkpoint is None:
            return [lambda make: make()] * n

        def place() -> Callable[[Callable[[], T]], T]:
            name = self._next()
            if name in self._done:
                value = self._found(name)  # not in a thread: Python 3.11 cannot parse the headers of arrays in several
                return lambda make: value

            def made(make: Callable[[], T]) -> T:
                value = make()
                self._add(name, Live(value, {}))
                return value

            return made

        return [place() for _ in range(n)]

    # The checkpoint ------------------------------------------------------------------------------------------------

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Inside, the fit goes on from its checkpoint. At its end the file is removed, but not from a folder."""
        from pulab.training.checkpoint import Interrupts, damage_is_told

        assert self._checkpoint is not None
        if (state := self._checkpoint.load()) is not None:
            with damage_is_told(self._checkpoint.path):
                self._done = {name: _of_state(piece) for name, piece in state["pieces"].items()}
        try:
            with Interrupts(self.save_now) as self._interrupts:
                yield
                if self._checkpoint.in_folder:
                    self.save_now()  # the file stays, for a search that may go on
                self._checkpoint.remove()
        finally:
            with self._lock:
                self._is_over = True

    def save_now(self) -> bool:
        """Save the new pieces, if that is worth it. False while another save runs, which must end first."""
        assert self._checkpoint is not None
        with self._lock:
            if self._is_busy:
                return False
            if self._unsaved and self._checkpoint.is_worth_keeping:
                self._save()
        return True

    def _next(self) -> str:
        name = ".".join(map(str, self._place))
        self._place[-1] += 1
        return name

    def _found(self, name: str, rng: np.random.Generator | None = None) -> Any:
        from pulab.training.checkpoint import damage_is_told

        assert self._checkpoint is not None
        piece = self._done[name]
        with damage_is_told(self._checkpoint.path):
            if rng is not None:
                rng.bit_generator.state = piece.random
            if isinstance(piece, Live):
                return piece.value
            content = Content(dict(piece.content.arrays), dict(piece.content.blobs))  # the next save needs them, too
            return content.unpack(piece.value)

    def _add(self, name: str, piece: Live) -> None:
        assert self._checkpoint is not None
        with self._lock:
            if self._is_over:
                return
            self._done[name] = piece
            self._done = {key: kept for key, kept in self._done.items() if not key.startswith(f"{name}.")}
            self._unsaved += 1
            if self._checkpoint.is_due:
                self._save()

    def _save(self) -> None:
        assert self._checkpoint is not None
        self._is_busy = True
        try:
            if self._checkpoint.save(self._state, f"{len(self._done)} pieces"):
                self._unsaved = 0
        finally:
            self._is_busy = False
        if self._interrupts and self._interrupts.came and threading.current_thread() is threading.main_thread():
            self._interrupts.answer()

    def _state(self) -> dict[str, Any]:
        for name, piece in list(self._done.items()):
            if isinstance(piece, Live):
                try:
                    self._done[name] = _packed(piece)
                except InputError as error:  # very rare: check_can_be_kept has tried one before the fit
                    warn(f"a part of the fit cannot be kept in the checkpoint: {error} The fit goes on.")
                    del self._done[name]
        return {"pieces": {name: _as_state(p) for name, p in self._done.items() if isinstance(p, Packed)}}


@contextmanager
def work_of(rng: np.random.Generator, checkpoint: "Checkpoint | None") -> Iterator[Work]:
    """The work of a fit. With a checkpoint, the fit goes on from it."""
    work = Work(rng, checkpoint)
    with nullcontext() if checkpoint is None else work.kept():
        yield work


def check_checkpoint(place: Any, random_state: Any, name: str = "checkpoint") -> None:
    """Refuse a place where no checkpoint can be written, and a fit that no later one can go on with."""
    if not isinstance(place, str | PathLike) or not str(place):
        raise InputError(f"{name} must be the path of a file or of a folder, got {short(place)}.")
    folder = Path(place) if Path(place).is_dir() else Path(place).parent
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{name} must lie in a folder that exists and can be written to, got {place}.")
    if random_state is None:
        raise InputError(f"a {name} needs random_state, so that the next fit draws the same numbers. Pass a number.")


def check_can_be_kept(value: Any) -> None:
    """Refuse a classifier whose fitted copies no checkpoint can hold."""
    content = Content()
    try:
        content.unpack(content.pack(value))
    except PulabError as error:
        raise InputError(
            f"a checkpoint cannot keep this estimator: {in_one_line(error)}. Leave checkpoint out, or pass another "
            "estimator."
        ) from error


def _packed(piece: Live) -> Packed:
    content = Content()
    return Packed(content.pack(piece.value), content, piece.random)


def _as_state(piece: Packed) -> dict[str, Any]:
    """A piece of plain values and tensors."""
    import torch

    arrays = {name: torch.from_numpy(array) for name, array in piece.content.arrays.items()}
    blobs = {name: torch.frombuffer(bytearray(raw), dtype=torch.uint8) for name, raw in piece.content.blobs.items()}
    return {"value": piece.value, "arrays": arrays, "blobs": blobs, "random": piece.random}


def _of_state(state: State) -> Packed:
    # Copies: arrays within a file may not be aligned in memory, and sums of such arrays may be rounded in another way.
    arrays = {name: tensor.numpy().copy() for name, tensor in state["arrays"].items()}
    blobs = {name: tensor.numpy().tobytes() for name, tensor in state["blobs"].items()}
    return Packed(state["value"], Content(arrays, blobs), state["random"])
