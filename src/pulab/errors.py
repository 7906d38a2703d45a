"""What can go wrong, said in one line: what was wanted, what was got, what to do."""

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
    """A data file is neither on this machine nor to be downloaded."""


class DataFormatError(PulabError, ValueError):
    """A data file is there, but is not what its name says."""


class ModelFileError(PulabError, ValueError):
    """A saved model is damaged, changed, or not one of pulab's."""


class TrainingError(PulabError, RuntimeError):
    """Training cannot go on, for example because the loss is no longer a finite number."""


def in_one_line(error: BaseException) -> str:
    """What another library says, short enough to go into a sentence of ours."""
    return " ".join(str(error).split()).rstrip(".")[:200] or type(error).__name__


class PulabWarning(UserWarning):
    """Something was done that the user may not expect; the message says what and why."""


def warn(message: str) -> None:
    """Say it at the line that called pulab, from however deep within."""
    modules = [frame.f_globals.get("__name__", "") for frame, _ in walk_stack(sys._getframe())]
    outermost = max(i for i, name in enumerate(modules) if name.partition(".")[0] == "pulab")
    warnings.warn(message, PulabWarning, stacklevel=outermost + 2)
