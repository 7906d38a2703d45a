"""The same choice with Optuna, which proposes settings and gives up poor ones early.

It needs: pip install -c constraints.txt -e '.[tune]'
"""

import optuna
from sklearn.base import clone

from pulab import NNPUClassifier
from pulab.datasets import load_digits, make_pu
from pulab.model_selection import PUScorer, PUStratifiedKFold

digits = load_digits(positive=(0, 2, 4, 6, 8))
pu = make_pu(digits.X_train, digits.y_train, n_labeled=80, n_unlabeled=1000, random_state=0)
folds = PUStratifiedKFold(3, random_state=0)
score = PUScorer("roc_auc")


def auc(trial: optuna.Trial) -> float:
    """The mean AUC over held-out folds, from marked and unlabeled rows."""
    clf = NNPUClassifier(
        prior=pu.prior,
        lr=trial.suggest_float("lr", 1e-6, 1e-1, log=True),
        weight_decay=trial.suggest_float("weight_decay", 1e-6, 1e-1, log=True),
        loss=trial.suggest_categorical("loss", ["sigmoid", "logistic"]),
        epochs=10,
        random_state=0,
    )
    found: list[float] = []
    for fold, (train, test) in enumerate(folds.split(pu.X, pu.s)):
        fitted = clone(clf).fit(pu.X[train], pu.s[train])
        found.append(score(fitted, pu.X[test], pu.s[test]))
        trial.report(sum(found) / len(found), fold)
        if trial.should_prune():  # worse than most trials after as many folds
            raise optuna.TrialPruned
    return sum(found) / len(found)


optuna.logging.set_verbosity(optuna.logging.WARNING)
study = optuna.create_study(
    direction="maximize",
    sampler=optuna.samplers.TPESampler(seed=0),
    pruner=optuna.pruners.MedianPruner(n_startup_trials=4),
)
study.optimize(auc, n_trials=12)
pruned = sum(trial.state == optuna.trial.TrialState.PRUNED for trial in study.trials)
print(f"12 trials, {pruned} of them given up early; best: {study.best_params}")
print(f"AUC {study.best_value:.3f}, estimated from marks alone")
best = NNPUClassifier(prior=pu.prior, epochs=10, random_state=0, **study.best_params).fit(pu.X, pu.s)
print(f"right on digits that nobody has seen: {best.score(digits.X_test, digits.y_test):.3f}")
