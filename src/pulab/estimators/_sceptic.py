"""What a sceptic compares with: logistic regression of the labels, and two methods that learn from P alone."""

from abc import abstractmethod
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.ensemble import IsolationForest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import OneClassSVM

from pulab._scaling import CutScaler, Scaler
from pulab._validation import check_number
from pulab.estimators._table import Marks, TablePUClassifier, WeightedPUClassifier, out_of_fold, rows_of
from pulab.estimators._work import Work
from pulab.metrics import Array
from pulab.model_selection import logits_of


class LogisticPUClassifier(WeightedPUClassifier):
    """Logistic regression of labelled against unlabeled rows, of standardised features.

    It is :class:`ElkanNotoClassifier` in its plainest form, under a name of its own. Whatever is no better than this
    has learned nothing from its additions.

    Parameters
    ----------
    C : float
        The inverse of the strength of the L2 penalty.
    {shared}

    Attributes
    ----------
    model_ : the fitted pipeline
    {attributes}

    References
    ----------
    Elkan and Noto: Learning Classifiers from Only Positive and Unlabeled Data. KDD 2008.

    Examples
    --------
    >>> from pulab import LogisticPUClassifier
    >>> from pulab.datasets import load_digits, make_pu
    >>> digits = load_digits(positive=(0,))
    >>> pu = make_pu(digits.X_train, digits.y_train, n_labeled=50, random_state=0)
    >>> clf = LogisticPUClassifier(prior=pu.prior, random_state=0).fit(pu.X, pu.s)
    >>> clf.score(digits.X_test, digits.y_test) > 0.9
    True
    """

    C: float = 1.0

    def _learn(self, X: Any, positive: Marks, work: Work, held_out: bool, weight: Array | None = None) -> Array | None:
        check_number("C", self.C, low=0, ends="(]")

        def fitted(rows: Any) -> Any:
            model = make_pipeline(CutScaler(), LogisticRegression(C=self.C, max_iter=1000))
            return model.fit(X[rows], positive[rows], logisticregression__sample_weight=rows_of(weight, rows))

        self.model_ = work(lambda: fitted(np.arange(len(positive))))
        if not held_out:
            return None
        return out_of_fold(lambda train, test: logits_of(fitted(train), X[test]), positive, work)


class OneClassPUClassifier(TablePUClassifier):
    """Base of the methods that learn how labelled rows look. Unlabeled rows only scale the features and calibrate."""

    @abstractmethod
    def _detector(self, n_labelled: int, seed: int) -> Any:
        """An unfitted outlier detector of scikit-learn."""

    def _learn(self, X: Any, positive: Marks, work: Work, held_out: bool) -> Array | None:
        X, seed = _dense(X), int(work.rng.integers(2**31))
        self.scaler_, self.model_ = work(lambda: self._fitted(X, positive, seed))
        if not held_out:
            return None

        def scores(train: Any, test: Any) -> Array:
            scaler, model = self._fitted(X[train], positive[train], seed)
            return self._scores(scaler, model, X[test])

        return out_of_fold(scores, positive, work)

    def _fitted(self, X: Any, positive: Marks, seed: int) -> tuple[Scaler, Any]:
        scaler, rows = Scaler.fit(X, np.arange(len(X))), np.flatnonzero(positive)
        most = getattr(self, "max_rows", len(rows))
        if len(rows) > most:
            rows = np.random.default_rng(seed).choice(rows, most, replace=False)
        return scaler, self._detector(len(rows), seed).fit(scaler(X[rows], np.float64))

    def _score(self, X: Any) -> Array:
        return self._scores(self.scaler_, self.model_, _dense(X))

    def _scores(self, scaler: Scaler, model: Any, X: Any) -> Array:
        """Scores on a scale that does not depend on the number of labelled rows."""
        return np.asarray(model.score_samples(scaler(X, np.float64)))


class OneClassSVMPUClassifier(OneClassPUClassifier):
    """A one-class support vector machine: rows that lie close to labelled rows are positive.

    Features are standardised by all rows. The kernel is Gaussian.

    Parameters
    ----------
    nu : float in (0, 1]
        The share of the labelled rows that may lie outside.
    max_rows : int
        At most so many labelled rows are learned from, drawn at random: the time grows with their square.
    {shared}

    Attributes
    ----------
    model_ : the fitted OneClassSVM
    scaler_ : what standardises rows
    {attributes}

    References
    ----------
    Schölkopf, Platt, Shawe-Taylor, Smola, Williamson: Estimating the Support of a High-Dimensional Distribution. Neural
    Computation 2001.

    Examples
    --------
    >>> from pulab import OneClassSVMPUClassifier
    >>> from pulab.datasets import load_digits, make_pu
    >>> digits = load_digits(positive=(0,))
    >>> pu = make_pu(digits.X_train, digits.y_train, n_labeled=50, random_state=0)
    >>> clf = OneClassSVMPUClassifier(prior=pu.prior, random_state=0).fit(pu.X, pu.s)
    >>> clf.score(digits.X_test, digits.y_test) > 0.9
    True
    """

    nu: float = 0.5
    max_rows: int = 5000

    def _detector(self, n_labelled: int, seed: int) -> Any:
        check_number("nu", self.nu, low=0, high=1, ends="(]")
        check_number("max_rows", self.max_rows, low=1, whole=True)
        detector = OneClassSVM(nu=self.nu)
        detector.random_state = seed  # no parameter of its own: without it a fit draws from numpy's global source
        return detector

    def _scores(self, scaler: Scaler, model: Any, X: Any) -> Array:
        # A sum over support vectors: a model of four fifths of the labelled rows would score lower everywhere.
        return np.asarray(super()._scores(scaler, model, X) / model.shape_fit_[0])


class IsolationForestPUClassifier(OneClassPUClassifier):
    """An isolation forest of the labelled rows: a row that random splits soon isolate from them is negative.

    Parameters
    ----------
    n_estimators : int
        Number of trees.
    {shared}

    Attributes
    ----------
    model_ : the fitted IsolationForest
    scaler_ : what standardises rows
    {attributes}

    References
    ----------
    Liu, Ting, Zhou: Isolation Forest. ICDM 2008.

    Examples
    --------
    >>> from pulab import IsolationForestPUClassifier
    >>> from pulab.datasets import load_digits, make_pu
    >>> digits = load_digits(positive=(0,))
    >>> pu = make_pu(digits.X_train, digits.y_train, n_labeled=50, random_state=0)
    >>> clf = IsolationForestPUClassifier(prior=pu.prior, random_state=0).fit(pu.X, pu.s)
    >>> clf.score(digits.X_test, digits.y_test) > 0.85
    True
    """

    n_estimators: int = 100

    def _detector(self, n_labelled: int, seed: int) -> Any:
        check_number("n_estimators", self.n_estimators, low=1, whole=True)
        return IsolationForest(n_estimators=self.n_estimators, max_samples=min(256, n_labelled), random_state=seed)


def _dense(X: Any) -> Any:
    return X.toarray() if sparse.issparse(X) else X
