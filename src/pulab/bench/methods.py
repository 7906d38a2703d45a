"""The methods by name. The same keys name them in Python, on the command line, in result rows and in tables."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Method:
    """A method: its class as an import path, so that listing methods loads no torch, and what it needs to be told."""

    class_path: str
    summary: str
    needs_prior: bool
    reference: str
    learns_from_truth: bool = False  # y is the truth, not PU labels: the oracle
    needs_negatives: bool = False  # fit wants X_negative as well
    is_network: bool = True

    def load(self) -> Any:
        """The class."""
        module, _, name = self.class_path.rpartition(".")
        return getattr(import_module(module), name)


METHODS = {
    "joint": Method(
        "pulab.JointPUClassifier",
        "network and soft pseudo-labels, optimised jointly",
        needs_prior=True,
        reference="Tanaka, Ikami, Aizawa 2021, arXiv 2103.04685",
    ),
    "nnpu": Method(
        "pulab.NNPUClassifier",
        "unbiased risk, its negative part kept from falling below zero",
        needs_prior=True,
        reference="Kiryo et al. 2017, NeurIPS",
    ),
    "upu": Method(
        "pulab.UPUClassifier",
        "unbiased risk",
        needs_prior=True,
        reference="du Plessis et al. 2014, NeurIPS; 2015, ICML",
    ),
    "pubn-n": Method(
        "pulab.PUbNClassifier",
        "weighted negatives from U, found by a first network",
        needs_prior=True,
        reference="Hsieh et al. 2019, ICML",
    ),
    "pubn": Method(
        "pulab.PUbNClassifier",
        "the same, with some known, biased negatives",
        needs_prior=True,
        reference="Hsieh et al. 2019, ICML",
        needs_negatives=True,
    ),
    "elkan-noto": Method(
        "pulab.ElkanNotoClassifier",
        "the chance of being labelled, divided by the label frequency; any classifier",
        needs_prior=True,
        reference="Elkan and Noto 2008, KDD",
        is_network=False,
    ),
    "bagging": Method(
        "pulab.BaggingPUClassifier",
        "labelled rows against small random parts of U, many times; any classifier",
        needs_prior=True,
        reference="Mordelet and Vert 2014, Pattern Recognition Letters",
        is_network=False,
    ),
    "two-step": Method(
        "pulab.TwoStepPUClassifier",
        "spies find reliable negatives, then any classifier",
        needs_prior=True,
        reference="Liu et al. 2002, ICML",
        is_network=False,
    ),
    "nnpu-boosting": Method(
        "pulab.NNPUBoostingClassifier",
        "boosted trees that minimise the non-negative PU risk",
        needs_prior=True,
        reference="the risk: Kiryo et al. 2017, NeurIPS",
        is_network=False,
    ),
    "naive": Method(
        "pulab.NaivePUClassifier",
        "unlabeled taken for negative: what to beat",
        needs_prior=False,
        reference="baseline",
    ),
    "pn": Method(
        "pulab.PNClassifier",
        "supervised, from the true labels: the oracle",
        needs_prior=False,
        reference="oracle, eq. (1)",
        learns_from_truth=True,
    ),
}
