"""ROC and precision-recall curves without a negative: corrected ones, those of true labels, and the usual mistake.

Writes curves.png, or the file that is named: python examples/curves.py picture.png
"""

import sys

import matplotlib as mpl
import numpy as np
from sklearn import metrics as with_truth

from pulab import NNPUClassifier, metrics
from pulab.datasets import load_digits, make_pu

mpl.use("agg")
import matplotlib.pyplot as plt

digits = load_digits(positive=(0, 1, 2))
pu = make_pu(digits.X_train, digits.y_train, n_labeled=200, n_unlabeled=1000, random_state=0)
order = np.random.default_rng(0).permutation(len(pu.s))
train, new = order[:600], order[600:]  # a curve needs rows that the model has not learned from
clf = NNPUClassifier(prior=pu.prior, epochs=20, random_state=0).fit(pu.X[train], pu.s[train])
score, s, truth = clf.decision_function(pu.X[new]), pu.s[new], pu.y_true[new]

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4))
false, true, _ = metrics.roc_curve(s, score, prior=pu.prior)
left.plot(false, true, label="labelled and unlabeled rows, corrected")
of_u = s == 0  # the unlabeled rows are the population: the truth is about them
left.plot(*with_truth.roc_curve(truth[of_u], score[of_u])[:2], "k--", lw=1, label="true labels")
left.plot(*with_truth.roc_curve(s, score)[:2], "C3:", label="unlabeled rows taken for negatives")
left.set(xlabel="false positive rate", ylabel="recall", xlim=(-0.05, 1.05), title="ROC")
left.legend(fontsize=8, loc="lower right")

precision, recall, _ = metrics.precision_recall_curve(s, score, prior=pu.prior)
right.plot(recall, precision)
right.plot(*with_truth.precision_recall_curve(truth[of_u], score[of_u])[1::-1], "k--", lw=1)
right.plot(*with_truth.precision_recall_curve(s, score)[1::-1], "C3:")
right.set(xlabel="recall", ylabel="precision", ylim=(0, 1.3), title="Precision and recall")
figure.tight_layout()

place = sys.argv[1] if len(sys.argv) > 1 else "curves.png"
figure.savefig(place, dpi=80)
print(f"AUC: corrected {metrics.roc_auc(s, score, prior=pu.prior):.3f}, ", end="")
print(f"true {with_truth.roc_auc_score(truth[of_u], score[of_u]):.3f}, ", end="")
print(f"with unlabeled rows as negatives {with_truth.roc_auc_score(s, score):.3f}")
print(f"the curves are in {place}")
