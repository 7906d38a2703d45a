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
    family: str  # a key of FAMILIES
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


FAMILIES = {
    "labels": "labels for the unlabeled rows, learned with the network",
    "risk": "a risk that labelled and unlabeled rows estimate",
    "two-step": "likely negatives first, then a classifier",
    "labelled": "labelled against unlabeled rows, corrected by the prior",
    "biased": "for labels that were not given at random",
    "compare": "to compare with: the floor and the ceiling",
}

METHODS = {
    "joint": Method(
        "pulab.estimators._joint.JointPUClassifier",
        "network and soft pseudo-labels, optimised jointly",
        "Tanaka, Ikami, Aizawa 2021, arXiv 2103.04685",
        "labels",
        takes_weights=True,
    ),
    "joint-views": Method(
        "pulab.estimators._joint_views.JointViewsPUClassifier",
        "the same for images: self-supervised start, strong and weak views, a mean teacher",
        "this library; parts of Tanaka et al. 2021, Chen et al. 2020 (SimCLR), Tarvainen and Valpola 2017",
        "labels",
    ),
    "cvir": Method(
        "pulab.estimators._cvir.CVIRClassifier",
        "labelled rows against U without its highest scores, as many as the prior says",
        "Garg et al. 2021, NeurIPS",
        "labels",
    ),
    "ted-n": Method(
        "pulab.estimators._cvir.CVIRClassifier",
        "the same, and the prior estimated on held-out rows after each epoch",
        "Garg et al. 2021, NeurIPS",
        "labels",
        needs_prior=False,
    ),
    "p3mix": Method(
        "pulab.estimators._p3mix.P3MixClassifier",
        "sure rows of U become positives, unsure ones are mixed with labelled rows near the border",
        "Li et al. 2022, ICLR",
        "labels",
        needs_prior=False,
    ),
    "holistic": Method(
        "pulab.estimators._holistic.HolisticPUClassifier",
        "positives in U are told by the trend of their predictions; a second network learns from these labels",
        "Wang et al. 2023, NeurIPS",
        "labels",
        needs_prior=False,
    ),
    "nnpu": Method(
        "pulab.estimators._risk.NNPUClassifier",
        "unbiased risk, its negative part kept from falling below zero",
        "Kiryo et al. 2017, NeurIPS",
        "risk",
        takes_weights=True,
    ),
    "upu": Method(
        "pulab.estimators._risk.UPUClassifier",
        "unbiased risk",
        "du Plessis et al. 2014, NeurIPS; 2015, ICML",
        "risk",
        takes_weights=True,
    ),
    "pubn-n": Method(
        "pulab.estimators._pubn.PUbNClassifier",
        "weighted negatives from U, found by a first network",
        "Hsieh et al. 2019, ICML",
        "two-step",
    ),
    "pubn": Method(
        "pulab.estimators._pubn.PUbNClassifier",
        "the same, with some known, biased negatives",
        "Hsieh et al. 2019, ICML",
        "two-step",
        needs_negatives=True,
    ),
    "vpu": Method(
        "pulab.estimators._vpu.VPUClassifier",
        "a variational bound in the place of the prior, and mixup",
        "Chen et al. 2020, NeurIPS",
        "risk",
        needs_prior=False,
        takes_weights=True,
    ),
    "dist-pu": Method(
        "pulab.estimators._dist_pu.DistPUClassifier",
        "predictions of U with the prior as their mean, then mixup with them",
        "Zhao et al. 2022, CVPR",
        "risk",
    ),
    "pulda": Method(
        "pulab.estimators._pulda.PULDAClassifier",
        "the same with means over many steps, a smooth distance and a margin",
        "Jiang, Xu and others 2023, IEEE TPAMI",
        "risk",
    ),
    "imbalanced-nnpu": Method(
        "pulab.estimators._imbalanced.ImbalancedNNPUClassifier",
        "the risk of `nnpu`, with both classes weighted alike; for rare positives",
        "Su, Chen, Xu 2021, IJCAI",
        "risk",
        takes_weights=True,
    ),
    "pu-auc": Method(
        "pulab.estimators._cut.PUAUCClassifier",
        "labelled rows above unlabeled ones, pair by pair, cut by the prior",
        "Sakai, Niu, Sugiyama 2018, Machine Learning; Xie and Li 2018, AAAI",
        "risk",  # its ranking needs no prior, but its cut is learned in the fit: a prior cannot be set later
    ),
    "elkan-noto": Method(
        "pulab.estimators._classical.ElkanNotoClassifier",
        "the chance of being labelled, divided by the label frequency; any classifier",
        "Elkan and Noto 2008, KDD",
        "labelled",
        ranks_without_prior=True,
        takes_weights=True,
        is_network=False,
    ),
    "bagging": Method(
        "pulab.estimators._classical.BaggingPUClassifier",
        "labelled rows against small random parts of U, many times; any classifier",
        "Mordelet and Vert 2014, Pattern Recognition Letters",
        "labelled",
        takes_weights=True,
        is_network=False,
    ),
    "two-step": Method(
        "pulab.estimators._classical.TwoStepPUClassifier",
        "spies find reliable negatives, then any classifier",
        "Liu et al. 2002, ICML",
        "two-step",
        takes_weights=True,
        is_network=False,
    ),
    "boosting": Method(
        "pulab.estimators._boosting.BoostingPUClassifier",
        "boosted trees of labelled against unlabeled rows, cut by the prior",
        "Elkan and Noto 2008, KDD",
        "labelled",
        ranks_without_prior=True,
        takes_weights=True,
        is_network=False,
    ),
    "plain-boosting": Method(
        "pulab.estimators._boosting.PlainBoostingPUClassifier",
        "the same with larger trees and without regularisation",
        "Elkan and Noto 2008, KDD",
        "labelled",
        ranks_without_prior=True,
        takes_weights=True,
        is_network=False,
    ),
    "nnpu-boosting": Method(
        "pulab.estimators._boosting.NNPUBoostingClassifier",
        "boosted trees that minimise the non-negative PU risk",
        "the risk: Kiryo et al. 2017, NeurIPS",
        "risk",
        is_network=False,
    ),
    "pusb": Method(
        "pulab.estimators._cut.PUSBClassifier",
        "the logistic risk of `nnpu`, cut by the prior; for positives that are labelled the more the clearer they are",
        "Kato, Teshima, Honda 2019, ICLR",
        "biased",
    ),
    "lbe": Method(
        "pulab.estimators._lbe.LBEClassifier",
        "a classifier and the chance of being labelled, which may depend on the row, estimated together",
        "Gong et al. 2021, TPAMI",
        "biased",
        needs_prior=False,
    ),
    "pu-forest": Method(
        "pulab.estimators._forest.PUForestClassifier",
        "a random forest whose splits minimise the non-negative PU risk",
        "Wilton et al. 2022, NeurIPS",
        "risk",
        is_network=False,
    ),
    "sar-em": Method(
        "pulab.estimators._sar.SAREMPUClassifier",
        "the chance to be labelled, learned from named features or told, and labelled rows weighed by its inverse",
        "Bekker, Robberechts, Davis 2019, ECML PKDD",
        "biased",
        is_network=False,
    ),
    "rank-pruning": Method(
        "pulab.estimators._rank_pruning.RankPruningPUClassifier",
        "the rows of U that rank highest are left out, then any classifier",
        "Northcutt, Wu, Chuang 2017, UAI",
        "two-step",
        is_network=False,
    ),
    "logistic": Method(
        "pulab.estimators._sceptic.LogisticPUClassifier",
        "logistic regression of labelled against unlabeled rows, cut by the prior",
        "baseline",
        "compare",
        ranks_without_prior=True,
        takes_weights=True,
        is_network=False,
    ),
    "one-class-svm": Method(
        "pulab.estimators._sceptic.OneClassSVMPUClassifier",
        "closeness to the labelled rows alone, cut by the prior",
        "Schölkopf et al. 2001, Neural Computation",
        "compare",
        ranks_without_prior=True,
        is_network=False,
    ),
    "isolation-forest": Method(
        "pulab.estimators._sceptic.IsolationForestPUClassifier",
        "random splits of the labelled rows alone, cut by the prior",
        "Liu et al. 2008, ICDM",
        "compare",
        ranks_without_prior=True,
        is_network=False,
    ),
    "naive": Method(
        "pulab.estimators._risk.NaivePUClassifier",
        "unlabeled taken for negative: what to beat",
        "baseline",
        "compare",
        needs_prior=False,
        takes_weights=True,
    ),
    "pn": Method(
        "pulab.estimators._risk.PNClassifier",
        "supervised, from the true labels: the oracle",
        "oracle, eq. (1)",
        "compare",
        needs_prior=False,
        takes_weights=True,
        learns_from_truth=True,
    ),
}
