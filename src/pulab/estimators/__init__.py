"""The classifiers."""

from pulab.estimators._joint import JointPUClassifier
from pulab.estimators._many import fit_many
from pulab.estimators._pubn import PUbNClassifier
from pulab.estimators._risk import NaivePUClassifier, NNPUClassifier, PNClassifier, UPUClassifier

__all__ = [
    "JointPUClassifier",
    "NNPUClassifier",
    "NaivePUClassifier",
    "PNClassifier",
    "PUbNClassifier",
    "UPUClassifier",
    "fit_many",
]
