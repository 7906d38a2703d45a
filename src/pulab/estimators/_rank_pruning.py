"""Rank pruning: leave out the unlabeled rows that are most likely positive, and let labelled rows stand for them."""

from dataclasses import field
from typing import Any

import numpy as np

from pulab.estimators._table import Marks, TablePUClassifier, copy_of, logits_out_of_fold, weight_of
from pulab.estimators._work import Work
from pulab.metrics import Array, prior_of_unlabeled


class RankPruningPUClassifier(TablePUClassifier):
    """Rank pruning with the noise of PU data: no labelled row is negative, and some unlabeled ones are positive.

    A classifier of labelled against unlabeled rows gives held-out scores. As many unlabeled rows as there are positives
    among them, by the prior, are left out: those with the highest scores. A second classifier learns from the others.
    The labelled rows weigh as much as all positives.

    Parameters
    ----------
    estimator : scikit-learn classifier or None
        None: logistic regression of standardised features. Its ``fit`` must take ``sample_weight`` (a pipeline's last
        step must).
    {shared}

    Attributes
    ----------
    model_ : the second classifier
    n_pruned_ : int
        Number of unlabeled rows that it did not see.
    {attributes}

    Notes
    -----
    The paper estimates the shares of wrong labels from the scores. Here they follow from the prior: none of P is wrong,
    and of U the share of its positives. With ``prior="estimate"`` they come from pulab's own estimators.

    References
    ----------
    Northcutt, Wu, Chuang: Learning with Confident Examples: Rank Pruning for Robust Classification with Noisy Labels.
    UAI 2017.

    Examples
    --------
    >>> from pulab import RankPruningPUClassifier
    >>> from pulab.datasets import load_digits, make_pu
    >>> digits = load_digits(positive=(0,))
    >>> pu = make_pu(digits.X_train, digits.y_train, n_labeled=50, random_state=0)
    >>> clf = RankPruningPUClassifier(prior=pu.prior, random_state=0).fit(pu.X, pu.s)
    >>> clf.score(digits.X_test, digits.y_test) > 0.9
    True
    """

    estimator: Any = field(default=None, kw_only=False)

    def _learn(self, X: Any, positive: Marks, work: Work, held_out: bool) -> Array | None:
        def pruned(rows: Any) -> tuple[Any, int]:
            return self._pruned(X[rows], positive[rows], work)

        self.model_, self.n_pruned_ = work(lambda: pruned(np.arange(len(positive))))
        if not held_out:
            return None
        return logits_out_of_fold(lambda rows: pruned(rows)[0], X, positive, work)

    def _pruned(self, X: Any, positive: Marks, work: Work) -> tuple[Any, int]:
        """The second classifier, and the number of rows that it did not see."""
        marks, unlabeled = positive.astype(int), np.flatnonzero(~positive)
        first = logits_out_of_fold(lambda rows: copy_of(self.estimator).fit(X[rows], marks[rows]), X, positive, work)
        n_p, n_u = int(positive.sum()), len(unlabeled)
        share = prior_of_unlabeled(self.prior_, n_p, n_u, self.scenario)
        n_pruned = min(round(share * n_u), n_u - 1)
        kept = unlabeled[np.argsort(first[unlabeled], kind="stable")[: n_u - n_pruned]]
        rows = np.concatenate([np.flatnonzero(positive), np.sort(kept)])
        # All positives: in a single sample the labelled ones and those of U, else those of U alone.
        positives = n_pruned + (n_p if self.scenario == "single-sample" else 0)
        weight = np.where(positive[rows], max(positives, 1) / n_p, 1.0)
        model = copy_of(self.estimator)
        return model.fit(X[rows], marks[rows], **{weight_of(model): weight}), n_pruned
