"""The classifiers."""

from pulab.estimators._classical import BaggingPUClassifier, ElkanNotoClassifier
from pulab.estimators._joint import JointPUClassifier
from pulab.estimators._many import fit_in_step, fit_many
from pulab.estimators._pubn import PUbNClassifier
from pulab.estimators._risk import NaivePUClassifier, NNPUClassifier, PNClassifier, UPUClassifier

__all__ = [
    "BaggingPUClassifier",
    "ElkanNotoClassifier",
    "JointPUClassifier",
    "NNPUClassifier",
    "NaivePUClassifier",
    "PNClassifier",
    "PUbNClassifier",
    "UPUClassifier",
    "fit_in_step",
    "fit_many",
]
