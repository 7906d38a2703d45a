"""pulab learns classifiers from positive and unlabeled data."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pulab.errors import PulabError, PulabWarning

if TYPE_CHECKING:
    from pulab.estimators import (
        BaggingPUClassifier,
        ElkanNotoClassifier,
        JointPUClassifier,
        NaivePUClassifier,
        NNPUBoostingClassifier,
        NNPUClassifier,
        PNClassifier,
        PUbNClassifier,
        TwoStepPUClassifier,
        UPUClassifier,
        fit_many,
    )

__version__ = "0.1.0"

# Loaded when first asked for: `import pulab` stays fast, and works where torch is missing.
_LAZY = {
    "BaggingPUClassifier": "pulab.estimators",
    "ElkanNotoClassifier": "pulab.estimators",
    "JointPUClassifier": "pulab.estimators",
    "NNPUBoostingClassifier": "pulab.estimators",
    "NNPUClassifier": "pulab.estimators",
    "NaivePUClassifier": "pulab.estimators",
    "PNClassifier": "pulab.estimators",
    "PUbNClassifier": "pulab.estimators",
    "TwoStepPUClassifier": "pulab.estimators",
    "UPUClassifier": "pulab.estimators",
    "fit_many": "pulab.estimators",
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
    "PulabError",
    "PulabWarning",
    "TwoStepPUClassifier",
    "UPUClassifier",
    "__version__",
    "fit_many",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'pulab' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
