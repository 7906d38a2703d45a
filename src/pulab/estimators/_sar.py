"""Labels that are not given at random: their chances are learned beside the classifier, or known."""

from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from pulab._scaling import Scaler
from pulab._validation import check_choice, check_fitted, check_labels, check_number, plain
from pulab.calibration import PUCalibrator
from pulab.errors import InputError, short
from pulab.estimators._table import Marks, TablePUClassifier, out_of_fold, rows_of
from pulab.estimators._work import Work
from pulab.metrics import Array

LEAST = 0.01  # a row weighs at most a hundred times as much as one whose propensity is the highest
TOLERANCE = 1e-4  # the mean change of a propensity in a round


class SAREMPUClassifier(TablePUClassifier):
    """SAR-EM: a positive's chance to be labelled, its propensity e(x), depends on some features that you name.

    Expectation maximisation learns two logistic models in turns: of the class, and of the propensity from the named
    features. Then a third logistic model of all features learns the class from labelled rows that weigh 1/e, which
    makes its risk unbiased. Probabilities are calibrated with the same weights. If the propensities are known, ``fit``
    takes them, and nothing else is estimated.

    Parameters
    ----------
    propensity_features : list of column names or positions
        The features that decide which positives are labelled. With none, labels are taken as given at random.
    separate : bool
        Whether to leave the named features out of the class while the propensity is learned. Then all that the labels
        owe to these features goes to the propensity. Pass True only if the class does not depend on them.
    form : {"unbiased", "ranking"}
        The last model. "unbiased": labelled rows count as positives 1/e times and are taken off the negatives, as in
        the paper. "ranking": labelled rows with these weights against unlabeled ones, as in
        :class:`ElkanNotoClassifier`; steadier with few labelled rows and many columns.
    C : float
        The inverse of the strength of the L2 penalty. Few labelled rows with large weights need a stronger one than
        scikit-learn's default of 1.
    max_rounds : int
        Most rounds of expectation maximisation.
    {shared}

    Attributes
    ----------
    propensity_ : array of shape (n,)
        The propensity of each row of X: estimated, or as it was passed.
    n_rounds_ : int
    coef_, intercept_ : the logistic model of the class, on standardised features
    propensity_coef_, propensity_intercept_ : the same of the propensity
    scaler_ : what standardises rows
    {attributes}

    Notes
    -----
    P and U tell the product e(x)·P(positive | x), not its factors. With ``separate=True`` the factors follow if the
    class does not depend on the named features, but for a common factor, which the prior gives. If the class depends on
    them, the propensity takes that part, and the result is biased. Otherwise only the logistic form of the two models
    tells the factors apart. If the form is wrong, the result may be worse than that of a method for random labels. No
    figure can tell which of this holds.

    References
    ----------
    Bekker, Robberechts, Davis: Beyond the Selected Completely At Random Assumption for Learning from Positive and
    Unlabeled Data. ECML PKDD 2019.

    Examples
    --------
    >>> from pulab import SAREMPUClassifier
    >>> from pulab.datasets import load_breast_cancer, make_pu
    >>> data = load_breast_cancer()
    >>> rare = lambda X: 0.6 / (1 + (X[:, 1] > 20))
    >>> pu = make_pu(data.X_train, data.y_train, propensity=rare, scenario="single-sample", random_state=0)
    >>> clf = SAREMPUClassifier(propensity_features=[1], prior=pu.prior, scenario="single-sample", random_state=0)
    >>> clf.fit(pu.X, pu.s).score(data.X_test, data.y_test) > 0.85
    True
    """

    propensity_features: Any = ()
    separate: bool = False
    form: str = "unbiased"
    C: float = 0.1
    max_rounds: int = 500

    def fit(self, X: Any, y: Any, propensity: Any = None) -> Self:
        """Learn from positive and unlabeled rows.

        Parameters
        ----------
        X, y
            As for all methods for tables: 1 marks a known positive, 0 an unlabeled row.
        propensity : array of shape (n,), optional
            The chance of each labelled row to be labelled; numbers of unlabeled rows are not used. Only ratios count,
            because the prior says how many positives there are.
        """
        with self._whole_or_nothing():
            weight = _inverse(propensity, y)
            self._fit_and_calibrate(X, y, weight)
            if weight is None:
                self.propensity_ = self.propensity(X)
                weight = 1 / _odds_of(self.propensity_, self.scenario)
            else:
                self.propensity_ = np.asarray(plain(propensity), dtype=np.float64)
            positive = check_labels(y, len(weight)).positive
            self.calibrator_ = weighted_calibrator(self.scores_, positive, weight[positive], self.prior_, self.scenario)
        return self

    def fit_ranking(self, X: Any, y: Any, propensity: Any = None) -> Self:
        """Learn what ranks rows, without the held-out scores that probabilities need.

        Afterwards :meth:`raw_scores` works. Probabilities need :meth:`calibrate`, which takes labels as random.
        """
        with self._whole_or_nothing():
            self._fit(X, y, held_out=False, sample_weight=_inverse(propensity, y))
        return self

    def propensity(self, X: Any) -> Array:
        """The estimated chance of a positive row to be labelled; for case-control data, relative to U."""
        check_fitted(self, "prior_")
        if self.propensity_coef_ is None:
            raise InputError(
                "the propensities were passed to fit, so there is no model of them. Compute them yourself."
            )
        rows = self._rows(X, reset=False)
        linear = self.scaler_(rows, np.float64)[:, self._columns()] @ self.propensity_coef_
        return np.asarray(expit(linear + self.propensity_intercept_))

    def _score(self, X: Any) -> Array:
        return np.asarray(self.scaler_(X, np.float64) @ self.coef_ + self.intercept_)

    def _learn(self, X: Any, positive: Marks, work: Work, held_out: bool, weight: Array | None = None) -> Array | None:
        check_choice("form", self.form, ("unbiased", "ranking"))
        check_number("C", self.C, low=0, ends="(]")
        check_number("max_rounds", self.max_rounds, low=1, whole=True)
        columns = self._columns()

        def learned(rows: Any) -> tuple[Any, ...]:
            scaler = Scaler.fit(X, rows)
            Z = scaler(X[rows], np.float64)
            return scaler, *self._learned(Z, positive[rows], columns, rows_of(weight, rows), work)

        self.scaler_, model, chance, self.n_rounds_ = work(lambda: learned(np.arange(len(positive))))
        self.coef_, self.intercept_ = model[:-1], float(model[-1])
        self.propensity_coef_ = None if chance is None else chance[:-1]
        self.propensity_intercept_ = None if chance is None else float(chance[-1])
        if not held_out:
            return None

        def scores(train: Any, test: Any) -> Array:
            scaler, model, *_ = learned(train)
            return np.asarray(scaler(X[test], np.float64) @ model[:-1] + model[-1])

        return out_of_fold(scores, positive, work)

    def _learned(
        self, Z: Any, positive: Marks, columns: NDArray[np.int64], weight: Array | None, work: Work
    ) -> tuple[Array, Array | None, int]:
        """The model of the class, that of the propensity if it is estimated, and the number of rounds."""
        chance, rounds = None, 0
        if weight is None:
            chance, rounds = self._propensity_model(Z, positive, columns, work)
            weight = 1 / _odds_of(_shares(Z[:, columns], chance), self.scenario)
        if self.form == "ranking":
            of_labelled = np.where(positive, weight, 0.0) * positive.sum() / weight[positive].sum()
            return _logistic(Z, np.where(positive, of_labelled, 1.0), of_labelled, self.C), chance, rounds
        one = self.scenario == "single-sample"
        in_population = np.ones(len(positive)) if one else (~positive).astype(np.float64)
        of_positives = np.where(positive, weight, 0.0)
        of_positives *= self.prior_ * in_population.sum() / of_positives.sum()
        return _logistic(Z, in_population, of_positives, self.C), chance, rounds

    def _propensity_model(self, Z: Any, positive: Marks, columns: NDArray[np.int64], work: Work) -> tuple[Array, int]:
        """Expectation maximisation. Labelled rows are positive; w is the chance of each unlabeled row to be."""
        s = positive.astype(np.float64)
        if not len(columns):
            others = len(s) * self.prior_ - s.sum() if self.scenario == "single-sample" else self.prior_ * (1 - s).sum()
            return np.array([np.log(s.sum() / max(others, 1e-3))]), 0
        named = np.isin(np.arange(Z.shape[1]), columns)
        of_class, of_chance = Z[:, np.flatnonzero(~named)] if self.separate else Z, Z[:, columns]
        balance = np.where(positive, 1 - s.mean(), s.mean())
        f_model = work(lambda: _logistic(of_class, balance, balance * s, self.C))
        f = _shares(of_class, f_model)
        w = np.where(positive, 1.0, f)
        e_model = work(lambda: _logistic(of_chance, w, s, self.C))
        e = _shares(of_chance, e_model)

        def both(w: Array, e_model: Array, f_model: Array) -> tuple[Array, Array]:
            e_model = _logistic(of_chance, w, s, self.C, e_model)
            return e_model, _logistic(of_class, np.ones(len(w)), w, self.C, f_model)

        rounds, change = 0, np.inf
        while rounds < self.max_rounds and change >= TOLERANCE:
            w = np.where(positive, 1.0, f * (1 - e) / np.maximum(1 - f * e, 1e-12))
            e_model, f_model = work(partial(both, w, e_model, f_model))
            before, e, f = e, _shares(of_chance, e_model), _shares(of_class, f_model)
            rounds, change = rounds + 1, np.abs(e - before).mean()
        return e_model, rounds

    def _columns(self) -> NDArray[np.int64]:
        """The positions of the named features."""
        given, names = self.propensity_features, getattr(self, "feature_names_in_", None)
        if isinstance(given, str) or not hasattr(given, "__iter__"):
            raise InputError(f"propensity_features must be a list of columns, got {short(given)}. Pass a list.")
        known = {} if names is None else {name: i for i, name in enumerate(names)}
        width, found = self.n_features_in_, []
        for item in given:
            place = known.get(item) if isinstance(item, str) else item
            if isinstance(place, bool) or not isinstance(place, int | np.integer) or not -width <= place < width:
                raise InputError(
                    f"propensity_features must be names or positions of the {width} columns, got {short(item)}. Names "
                    "need a data frame."
                )
            found.append(int(place) % width)
        if self.separate and len(set(found)) == width:
            raise InputError("propensity_features names all columns, so none is left for the class. Name fewer.")
        return np.unique(np.array(found, dtype=np.int64))


def _inverse(propensity: Any, y: Any) -> Array | None:
    """One over the propensity of each labelled row, 1 for the others."""
    if propensity is None:
        return None
    given = np.asarray(plain(propensity))
    if given.dtype.kind not in "biuf" or given.ndim != 1:
        raise InputError(
            f"propensity must have one number for each row, got an array of {given.dtype} with shape {given.shape}."
        )
    positive = check_labels(y, len(given)).positive
    of_labelled = given[positive]
    wrong = of_labelled[~((of_labelled > 0) & (of_labelled <= 1))]
    if len(wrong):
        raise InputError(
            f"propensity must be above 0 and at most 1 for every labelled row, got {wrong[0]:g}. A labelled row had a "
            "chance to be labelled."
        )
    return np.where(positive, 1 / np.where(positive, given, 1.0).astype(np.float64), 1.0)


def _odds_of(chance: Array, scenario: str) -> Array:
    """What 1/weight is proportional to: e, or e/(1 − e) if e is the share of P among the positives of P and U."""
    relative = chance if scenario == "single-sample" else chance / np.maximum(1 - chance, 1e-9)
    return np.asarray(np.maximum(relative / relative.max(), LEAST))


def weighted_calibrator(scores: Array, positive: Marks, weight: Array, prior: float, scenario: str) -> PUCalibrator:
    """A calibrator whose labelled rows have weights, so that they stand for all positives."""
    # As case-control data in both scenarios: the weights are for the labelled rows, not for the population.
    population = scores if scenario == "single-sample" else scores[~positive]
    labelled = _weighted_quantiles(scores[positive], weight)
    marks = np.repeat([1, 0], [len(labelled), len(population)])
    return PUCalibrator(prior).fit(np.concatenate([labelled, population]), marks)


def _weighted_quantiles(values: Array, weight: Array) -> Array:
    """As many values of equal weight."""
    order = np.argsort(values, kind="stable")
    share = np.cumsum(weight[order]) / weight.sum()
    place = np.searchsorted(share, (np.arange(len(values)) + 0.5) / len(values))
    return np.asarray(values[order][np.minimum(place, len(values) - 1)])


def _shares(Z: Any, model: Array) -> Array:
    return np.asarray(expit(Z @ model[:-1] + model[-1]))


def _logistic(Z: Any, total: Array, of_positives: Array, C: float, start: Array | None = None) -> Array:
    """Coefficients and intercept that minimise Σ total·log(1 + eᵍ) − of_positives·g + |coefficients|²/(2C).

    A row counts as a positive by its second number, and as a negative by the rest of the first, which may be below 0.
    """

    def price(model: Array) -> tuple[float, Array]:
        g = Z @ model[:-1] + model[-1]
        slope = total * expit(g) - of_positives
        value = (total * np.logaddexp(0, g) - of_positives * g).sum() + model[:-1] @ model[:-1] / (2 * C)
        return float(value), np.append(Z.T @ slope + model[:-1] / C, slope.sum())

    begin = np.zeros(Z.shape[1] + 1) if start is None else start
    return np.asarray(minimize(price, begin, jac=True, method="L-BFGS-B", options={"maxiter": 2000, "ftol": 1e-12}).x)
