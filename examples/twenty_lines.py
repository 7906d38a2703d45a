"""pulab in twenty lines: some even digits are labelled, all other digits are unlabeled. Half a minute on a CPU."""

from sklearn.model_selection import cross_val_score

from pulab import JointPUClassifier
from pulab.datasets import load_digits, make_pu
from pulab.metrics import estimate
from pulab.model_selection import PUScorer, PUStratifiedKFold
from pulab.priors import estimate_prior

digits = load_digits()
pu = make_pu(digits.X_train, digits.y_train, n_labeled=150, random_state=0)

prior = estimate_prior(pu.X, pu.s, random_state=0)
print(f"share of even digits: estimated {prior.prior:.2f}, true {pu.prior:.2f}")

clf = JointPUClassifier(prior=prior.prior, random_state=0)
scores = cross_val_score(clf, pu.X, pu.s, scoring=PUScorer("accuracy"), cv=PUStratifiedKFold(3, random_state=0))
print(f"accuracy, estimated without a single odd digit: {scores.mean():.3f}")

clf.fit(pu.X, pu.s)
print(f"accuracy, by true labels of new digits:         {clf.score(digits.X_test, digits.y_test):.3f}")
recall = estimate("recall", pu.s, clf.predict(pu.X), prior=prior.prior)
print(f"recall of the labelled ones: {recall.value:.2f}, between {recall.interval[0]:.2f} and {recall.interval[1]:.2f}")
