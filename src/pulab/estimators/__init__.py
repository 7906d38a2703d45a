"""The classifiers."""

from pulab.estimators._boosting import NNPUBoostingClassifier
from pulab.estimators._classical import BaggingPUClassifier, ElkanNotoClassifier, TwoStepPUClassifier
from pulab.estimators._joint import JointPUClassifier
from pulab.estimators._many import fit_in_step, fit_many
from pulab.estimators._pubn import PUbNClassifier
from pulab.estimators._risk import NaivePUClassifier, NNPUClassifier, PNClassifier, UPUClassifier

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
