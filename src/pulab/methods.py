"""The registry of methods. The same keys name them in Python, on the command line, in result rows and in tables.

To add a method, write its class in a file of ``pulab/estimators`` and add an entry here. ``pulab`` exports the class,
and the tests, the command and the documentation find the method in this dict.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Method:
    """A method: where its class is, and what it needs. The class is named by its path, so listing loads no torch."""

    class_path: str
    summary: str
    reference: str
    needs_prior: bool = True  # False: the constructor may have no parameter `prior`, so never pass it
    ranks_without_prior: bool = False  # the prior only turns its scores into probabilities
    takes_weights: bool = False  # fit takes sample_weight
    needs_negatives: bool = False  # fit also needs X_negative
    learns_from_truth: bool = False  # y is the truth, not PU labels
    is_network: bool = True

    @property
    def class_name(self) -> str:
        """The name of the class, which ``pulab`` exports."""
        return self.class_path.rpartition(".")[2]

    @property
    def learns_from_pu_alone(self) -> bool:
        """Whether labelled positives and unlabeled rows are enough to fit it."""
        return not self.needs_negatives and not self.learns_from_truth

    def load(self) -> Any:
        """The class."""
        return getattr(import_module(self.class_path.rpartition(".")[0]), self.class_name)


METHODS = {
    "joint": Method(
        "pulab.estimators._joint.JointPUClassifier",
        "network and soft pseudo-labels, optimised jointly",
        "Tanaka, Ikami, Aizawa 2021, arXiv 2103.04685",
    ),
    "nnpu": Method(
        "pulab.estimators._risk.NNPUClassifier",
        "unbiased risk, its negative part kept from falling below zero",
        "Kiryo et al. 2017, NeurIPS",
    ),
    "upu": Method(
        "pulab.estimators._risk.UPUClassifier",
        "unbiased risk",
        "du Plessis et al. 2014, NeurIPS; 2015, ICML",
    ),
    "pubn-n": Method(
        "pulab.estimators._pubn.PUbNClassifier",
        "weighted negatives from U, found by a first network",
        "Hsieh et al. 2019, ICML",
    ),
    "pubn": Method(
        "pulab.estimators._pubn.PUbNClassifier",
        "the same, with some known, biased negatives",
        "Hsieh et al. 2019, ICML",
        needs_negatives=True,
    ),
    "vpu": Method(
        "pulab.estimators._vpu.VPUClassifier",
        "a variational bound in the place of the prior, and mixup",
        "Chen et al. 2020, NeurIPS",
        needs_prior=False,
    ),
    "elkan-noto": Method(
        "pulab.estimators._classical.ElkanNotoClassifier",
        "the chance of being labelled, divided by the label frequency; any classifier",
        "Elkan and Noto 2008, KDD",
        ranks_without_prior=True,
        takes_weights=True,
        is_network=False,
    ),
    "bagging": Method(
        "pulab.estimators._classical.BaggingPUClassifier",
        "labelled rows against small random parts of U, many times; any classifier",
        "Mordelet and Vert 2014, Pattern Recognition Letters",
        is_network=False,
    ),
    "two-step": Method(
        "pulab.estimators._classical.TwoStepPUClassifier",
        "spies find reliable negatives, then any classifier",
        "Liu et al. 2002, ICML",
        is_network=False,
    ),
    "boosting": Method(
        "pulab.estimators._boosting.BoostingPUClassifier",
        "boosted trees of labelled against unlabeled rows, cut by the prior",
        "Elkan and Noto 2008, KDD",
        ranks_without_prior=True,
        takes_weights=True,
        is_network=False,
    ),
    "plain-boosting": Method(
        "pulab.estimators._boosting.PlainBoostingPUClassifier",
        "the same with larger trees and without regularisation",
        "Elkan and Noto 2008, KDD",
        ranks_without_prior=True,
        takes_weights=True,
        is_network=False,
    ),
    "nnpu-boosting": Method(
        "pulab.estimators._boosting.NNPUBoostingClassifier",
        "boosted trees that minimise the non-negative PU risk",
        "the risk: Kiryo et al. 2017, NeurIPS",
        is_network=False,
    ),
    "naive": Method(
        "pulab.estimators._risk.NaivePUClassifier",
        "unlabeled taken for negative: what to beat",
        "baseline",
        needs_prior=False,
    ),
    "pn": Method(
        "pulab.estimators._risk.PNClassifier",
        "supervised, from the true labels: the oracle",
        "oracle, eq. (1)",
        needs_prior=False,
        learns_from_truth=True,
    ),
}
