"""The classifiers. :mod:`pulab.methods` lists them, and ``pulab`` loads each at first use."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pulab.estimators._many import fit_in_step, fit_many

__all__ = ["fit_in_step", "fit_many"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("pulab.estimators._many"), name)
    if name.endswith("Classifier"):
        return getattr(import_module("pulab"), name)
    raise AttributeError(f"module 'pulab.estimators' has no attribute {name!r}")
