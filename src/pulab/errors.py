"""Errors and warnings. A message says in one line what was expected, what was given, and what to do."""

import difflib
import sys
import warnings
from collections.abc import Iterable
from traceback import walk_stack
from typing import Any


class PulabError(Exception):
    """Base of every error that pulab raises on purpose. Its text is one line, whatever names and values are in it."""

    def __str__(self) -> str:
        return " ".join(super().__str__().split())


class InputError(PulabError, ValueError):
    """Something passed in cannot be used. A ``ValueError``, as scikit-learn's callers expect."""


class InputTypeError(InputError, TypeError):
    """Something passed in is of a type that cannot be used. Also a ``TypeError``, as scikit-learn's callers expect."""


class OutOfMemoryError(PulabError, MemoryError):
    """The memory is too small for what was asked."""


class PriorError(InputError):
    """The class prior is missing, out of range or not a number."""


class DataNotFoundError(PulabError, FileNotFoundError):
    """A data file is not on this machine and cannot be downloaded."""


class DataFormatError(PulabError, ValueError):
    """A data file does not have the format that its name says."""


class ModelFileError(PulabError, ValueError):
    """A saved model is damaged, was changed, or was not saved by pulab."""


class CheckpointError(PulabError, ValueError):
    """A checkpoint is damaged, or is of another training."""


class TrainingError(PulabError, RuntimeError):
    """Training cannot go on, for example because the loss is no longer a finite number."""


class ClusterError(PulabError, RuntimeError):
    """A cluster cannot be reached, has another version of pulab, or could not finish the work."""


def in_one_line(error: BaseException) -> str:
    """The message of another library's error, short enough for a sentence of ours."""
    return " ".join(str(error).split()).rstrip(".")[:200] or type(error).__name__


class PulabWarning(UserWarning):
    """pulab did something that the user may not expect. The message says what and why."""


def warn(message: str) -> None:
    """Warn at the line that called pulab, however deep the call stack is."""
    modules = [frame.f_globals.get("__name__", "") for frame, _ in walk_stack(sys._getframe())]
    outermost = max(i for i, name in enumerate(modules) if name.partition(".")[0] == "pulab")
    warnings.warn(message, PulabWarning, stacklevel=outermost + 2)


def short(value: Any) -> str:
    """A value in a message: in one line, and not too long."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # whole numbers of 4,301 digits have no text
        text = f"a {type(value).__name__}"
    return text if len(text) <= 100 else f"{text[:97]}…"


def nearest(name: str, known: Iterable[str]) -> str:
    """A question that suggests a similar name; empty if there is none."""
    by_lower = {other.lower(): other for other in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f" Did you mean {by_lower[near[0]]!r}?" if near else ""
