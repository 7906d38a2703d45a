"""The classifiers, each loaded when it is first asked for: those without a network need no torch."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pulab.estimators._boosting import NNPUBoostingClassifier
    from pulab.estimators._classical import BaggingPUClassifier, ElkanNotoClassifier, TwoStepPUClassifier
    from pulab.estimators._joint import JointPUClassifier
    from pulab.estimators._many import fit_in_step, fit_many
    from pulab.estimators._pubn import PUbNClassifier
    from pulab.estimators._risk import NaivePUClassifier, NNPUClassifier, PNClassifier, UPUClassifier

_MODULES = {
    "_boosting": ("NNPUBoostingClassifier",),
    "_classical": ("BaggingPUClassifier", "ElkanNotoClassifier", "TwoStepPUClassifier"),
    "_joint": ("JointPUClassifier",),
    "_many": ("fit_in_step", "fit_many"),
    "_pubn": ("PUbNClassifier",),
    "_risk": ("NNPUClassifier", "NaivePUClassifier", "PNClassifier", "UPUClassifier"),
}

__all__ = [
    "BaggingPUClassifier",
    "ElkanNotoClassifier",
    "JointPUClassifier",
    "NNPUBoostingClassifier",
    "NNPUClassifier",
    "NaivePUClassifier",
    "PNClassifier",
    "PUbNClassifier",
    "TwoStepPUClassifier",
    "UPUClassifier",
    "fit_in_step",
    "fit_many",
]


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"pulab.estimators.{module}"), name)
    raise AttributeError(f"module 'pulab.estimators' has no attribute {name!r}")
