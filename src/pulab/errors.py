"""Errors and warnings. A message says in one line what was expected, what was given, and what to do."""

import sys
import warnings
from traceback import walk_stack


class PulabError(Exception):
    """Base of every error that pulab raises on purpose."""


class InputError(PulabError, ValueError):
    """Something passed in cannot be used. A ``ValueError``, as scikit-learn's callers expect."""


class PriorError(InputError):
    """The class prior is missing, out of range or not a number."""


class DataNotFoundError(PulabError, FileNotFoundError):
    """A data file is not on this machine and cannot be downloaded."""


class DataFormatError(PulabError, ValueError):
    """A data file does not have the format that its name says."""


class ModelFileError(PulabError, ValueError):
    """A saved model is damaged, was changed, or was not saved by pulab."""


class TrainingError(PulabError, RuntimeError):
    """Training cannot go on, for example because the loss is no longer a finite number."""


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
