"""Choose settings without a single negative: scikit-learn's GridSearchCV with a scorer for PU data.

Which handwritten digits are even? Eighty are marked, a thousand are not. The search sees these marks only. The true
labels are looked at once, at the end, to see what the choice was worth.
"""

from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pulab import NNPUClassifier
from pulab.datasets import load_digits, make_pu
from pulab.model_selection import PUScorer, PUStratifiedKFold

digits = load_digits(positive=(0, 2, 4, 6, 8))
pu = make_pu(digits.X_train, digits.y_train, n_labeled=80, n_unlabeled=1000, random_state=0)

search = GridSearchCV(
    make_pipeline(StandardScaler(), NNPUClassifier(prior=pu.prior, epochs=10, random_state=0)),
    {"nnpuclassifier__lr": [1e-5, 1e-3, 1e-2], "nnpuclassifier__loss": ["sigmoid", "logistic"]},
    # Several metrics may be watched. Each is corrected for the positives among the unlabeled rows.
    scoring={"auc": PUScorer("roc_auc"), "error": PUScorer("zero_one_risk")},
    refit="auc",
    cv=PUStratifiedKFold(3, random_state=0),  # the same share of marked rows in each fold
)
search.fit(pu.X, pu.s)

for settings, auc, error in sorted(
    zip(*(search.cv_results_[name] for name in ("params", "mean_test_auc", "mean_test_error")), strict=True),
    key=lambda line: -line[1],
):
    words = ", ".join(f"{name.split('__')[1]}={value}" for name, value in settings.items())
    print(f"{words:25} AUC {auc:.3f}   error {-error:.3f}   (estimated from marks alone)")
worst = search.cv_results_["params"][search.cv_results_["mean_test_auc"].argmin()]
right = search.best_estimator_.score(digits.X_test, digits.y_test)
other = search.estimator.set_params(**worst).fit(pu.X, pu.s).score(digits.X_test, digits.y_test)
print(f"right on digits that nobody has seen: {right:.3f} with the best settings, {other:.3f} with the worst")
