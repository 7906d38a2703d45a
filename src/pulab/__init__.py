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
    from pulab.estimators._cut import PUAUCClassifier as PUAUCClassifier
    from pulab.estimators._cut import PUSBClassifier as PUSBClassifier
    from pulab.estimators._cvir import CVIRClassifier as CVIRClassifier
    from pulab.estimators._dist_pu import DistPUClassifier as DistPUClassifier
    from pulab.estimators._holistic import HolisticPUClassifier as HolisticPUClassifier
    from pulab.estimators._imbalanced import ImbalancedNNPUClassifier as ImbalancedNNPUClassifier
    from pulab.estimators._joint import JointPUClassifier as JointPUClassifier
    from pulab.estimators._kinds import PositiveKindsClassifier as PositiveKindsClassifier
    from pulab.estimators._lbe import LBEClassifier as LBEClassifier
    from pulab.estimators._many import fit_many as fit_many
    from pulab.estimators._p3mix import P3MixClassifier as P3MixClassifier
    from pulab.estimators._parallel import fit_parquet as fit_parquet
    from pulab.estimators._parallel import fit_parquet_on_ray as fit_parquet_on_ray
    from pulab.estimators._pubn import PUbNClassifier as PUbNClassifier
    from pulab.estimators._pulda import PULDAClassifier as PULDAClassifier
    from pulab.estimators._risk import NaivePUClassifier as NaivePUClassifier
    from pulab.estimators._risk import NNPUClassifier as NNPUClassifier
    from pulab.estimators._risk import PNClassifier as PNClassifier
    from pulab.estimators._risk import UPUClassifier as UPUClassifier
    from pulab.estimators._vpu import VPUClassifier as VPUClassifier
    from pulab.persistence import export_onnx as export_onnx
    from pulab.persistence import load_model as load  # noqa: F401
    from pulab.persistence import save_model as save  # noqa: F401

__version__ = "0.1.0"

# Loaded at first use: `import pulab` stays fast, and works without torch.
_LAZY = {method.class_name: method.class_path for method in METHODS.values()}
_LAZY["PositiveKindsClassifier"] = "pulab.estimators._kinds.PositiveKindsClassifier"
_LAZY["fit_many"] = "pulab.estimators._many.fit_many"
_LAZY["fit_parquet"] = "pulab.estimators._parallel.fit_parquet"
_LAZY["fit_parquet_on_ray"] = "pulab.estimators._parallel.fit_parquet_on_ray"
_LAZY["export_onnx"] = "pulab.persistence.export_onnx"
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
