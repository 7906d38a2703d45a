"""pulab learns classifiers from positive and unlabeled data."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pulab.errors import PulabError, PulabWarning
from pulab.methods import METHODS

if TYPE_CHECKING:  # for editors and type checkers; a class that is missing here works all the same
    from pulab.estimators._boosting import BoostingPUClassifier as BoostingPUClassifier
    from pulab.estimators._boosting import NNPUBoostingClassifier as NNPUBoostingClassifier
    from pulab.estimators._boosting import PlainBoostingPUClassifier as PlainBoostingPUClassifier
    from pulab.estimators._classical import BaggingPUClassifier as BaggingPUClassifier
    from pulab.estimators._classical import ElkanNotoClassifier as ElkanNotoClassifier
    from pulab.estimators._classical import TwoStepPUClassifier as TwoStepPUClassifier
    from pulab.estimators._joint import JointPUClassifier as JointPUClassifier
    from pulab.estimators._many import fit_many as fit_many
    from pulab.estimators._pubn import PUbNClassifier as PUbNClassifier
    from pulab.estimators._risk import NaivePUClassifier as NaivePUClassifier
    from pulab.estimators._risk import NNPUClassifier as NNPUClassifier
    from pulab.estimators._risk import PNClassifier as PNClassifier
    from pulab.estimators._risk import UPUClassifier as UPUClassifier
    from pulab.estimators._vpu import VPUClassifier as VPUClassifier
    from pulab.persistence import load_model as load  # noqa: F401
    from pulab.persistence import save_model as save  # noqa: F401

__version__ = "0.1.0"

# Loaded at first use: `import pulab` stays fast, and works without torch.
_LAZY = {method.class_name: method.class_path for method in METHODS.values()}
_LAZY["fit_many"] = "pulab.estimators._many.fit_many"
_LAZY["save"], _LAZY["load"] = "pulab.persistence.save_model", "pulab.persistence.load_model"

__all__ = ["PulabError", "PulabWarning", "__version__"]
__all__ += sorted(_LAZY)


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'pulab' has no attribute {name!r}")
    module, _, attribute = _LAZY[name].rpartition(".")
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
