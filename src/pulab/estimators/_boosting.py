"""Boosted trees: of labelled against unlabeled rows, or with the non-negative PU risk as their objective."""

import importlib.util
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit

from pulab._validation import check_choice, check_number, hold_out
from pulab.errors import InputError
from pulab.estimators._table import (
    SHARED_DOCS,
    Marks,
    TablePUClassifier,
    WeightedPUClassifier,
    check_jobs,
    folds,
    out_of_fold,
    rows_of,
)
from pulab.estimators._work import Work
from pulab.metrics import Array, nnpu_risk

BACKENDS = ("lightgbm", "xgboost")
SCIKIT = "scikit-learn"
# What keeps trees of few labelled rows from memorising them: each tree sees a part of the rows and columns, and leaves
# are shrunk. On eight tables with 40 to 500 labelled rows the first hundred candidates hold 13 % more positives than
# without, and a balanced weight of the classes 1 %. scikit-learn draws columns per node, and no rows.
REGULARISED: dict[str, dict[str, Any]] = {
    "lightgbm": {"bagging_fraction": 0.7, "bagging_freq": 1, "feature_fraction": 0.5, "lambda_l2": 5.0},
    "xgboost": {"subsample": 0.7, "colsample_bytree": 0.5, "reg_lambda": 5.0},
    SCIKIT: {"max_features": 0.5, "l2_regularization": 5.0},
}
MOST_LEAVES = 2**17  # of LightGBM
TINY = 1e-35  # smaller numbers are zero for LightGBM
LEAVES = (4, 31)  # nnpu-boosting compares trees of so many; chosen on development data (docs/log.md)
SMALL = 20_000  # with fewer rows, five folds cost little and a fifth of the rows is too few
Risk = Callable[[Array], float]
Single = NDArray[np.float32]


class NNPUGradients:
    """Gradient and curvature of the non-negative PU risk with the logistic loss ℓ, for each row, times their number.

    The risk is π·mean_P ℓ(g) + R⁻, with R⁻ = mean_pop ℓ(−g) − π·mean_P ℓ(−g). Since ℓ(g) − ℓ(−g) = −g, it is linear in
    the score of a labelled row. Its second derivative there is zero, and a Newton step divides by it. Boosting needs a
    positive curvature. So each row gets the largest curvature that its terms can have, a quarter of their weight
    (ℓ'' ≤ 1/4). The quadratic with this curvature is an upper bound of the risk that touches it at g. So a step to its
    minimum never raises the risk. If R⁻ is below −β, the labelled rows are overfitted: the step then follows −γ·R⁻,
    which raises R⁻.
    """

    def __init__(self, positive: Marks, prior: float, scenario: str, beta: float, gamma: float) -> None:
        n = len(positive)
        in_population = np.ones(n) if scenario == "single-sample" else (~positive).astype(np.float64)
        # float32, as in the backends: with float64 LightGBM took twice as long for a tree (300,000 × 28).
        self._on_p = np.where(positive, prior * n / positive.sum(), 0.0).astype(np.float32)
        self._on_population = (in_population * n / in_population.sum()).astype(np.float32)
        self._on_negative = self._on_population - self._on_p
        self._beta, self._gamma, self._n = beta, gamma, n
        self._curvature = (self._on_p + self._on_population) / 4

    def __call__(self, g: Array) -> tuple[Single, Single]:
        """Gradient and curvature of all rows at these scores."""
        odds = np.exp(np.clip(g, -60, 60).astype(np.float32))
        share = odds / (1 + odds)
        price = np.log1p(odds)  # ℓ(−g)
        negative_part = float(self._on_negative @ price) / self._n
        if negative_part < -self._beta:
            return -self._gamma * self._on_negative * share, self._curvature
        return self._on_population * share - self._on_p, self._curvature


# Parts of the docstrings of the two methods of labelled against unlabeled rows.
DOCS = {
    "trees": """\
    backend : {"auto", "lightgbm", "xgboost", "scikit-learn"}
        "auto": LightGBM if it is installed, else XGBoost, else scikit-learn.
    n_estimators : int
        Number of trees.
    learning_rate : float
    num_leaves : int
        Number of leaves of a tree.
    min_child_samples : int
        Minimal number of rows in a leaf; fewer in a table of less than 400 rows. XGBoost has no such number.
    n_jobs : int
        Number of threads; -1: all, or one for a small table, where more are slower. scikit-learn takes all.
    {shared}
""",
    "grown": """\
    backend_ : str
        The library that grew the trees.
    model_ : the booster; None if no feature varies
    best_iteration_ : int
        Number of trees.
    {attributes}

    References
    ----------
    Elkan and Noto: Learning Classifiers from Only Positive and Unlabeled Data. KDD 2008.
""",
}


class BoostedTrees(TablePUClassifier):
    """Base of the methods that grow trees with LightGBM, XGBoost or scikit-learn."""

    _docs = DOCS | SHARED_DOCS  # in this order: the first ones hold {shared} and {attributes}

    backend: str = "auto"
    n_estimators: int = 100
    learning_rate: float = 0.1
    num_leaves: int = 31
    min_child_samples: int = 20
    n_jobs: int = -1

    def _takes_gaps(self) -> bool:
        return True

    def _threads(self, X: Any) -> int:
        """The number of threads, where 0 means all; one for a small table, where more are slower."""
        return int(X.shape[0] * X.shape[1] < 2**20) if self.n_jobs in (None, -1) else self.n_jobs

    def _check_params(self, allowed: tuple[str, ...]) -> None:
        check_choice("backend", self.backend, ("auto", *allowed))
        for name in ("n_estimators", "min_child_samples"):
            check_number(name, getattr(self, name), low=1, whole=True)
        for leaves in self._leaves():
            check_number("num_leaves", leaves, low=2, high=MOST_LEAVES, whole=True)
        check_number("learning_rate", self.learning_rate, low=0, high=1000, ends="(]")
        check_jobs(self.n_jobs)

    def _leaves(self) -> Sequence[int]:
        """The numbers of leaves to compare, here one."""
        return (self.num_leaves,)

    def _lightgbm(self, X: Any, leaves: int, rows_in_leaf: int, seed: int) -> dict[str, Any]:
        """The parameters that all objectives share."""
        return {
            "learning_rate": self.learning_rate,
            "num_leaves": leaves,
            "min_data_in_leaf": rows_in_leaf,
            "min_data_in_bin": min(3, rows_in_leaf),
            "feature_pre_filter": False,
            "min_sum_hessian_in_leaf": 1e-3,
            "num_threads": self._threads(X),
            "seed": seed,
            "force_col_wise": True,  # otherwise LightGBM chooses by timing, and sums differ from fit to fit
            "verbose": -1,
        }

    def _xgboost(self, X: Any, leaves: int, seed: int) -> dict[str, Any]:
        return {
            "learning_rate": self.learning_rate,
            "max_leaves": leaves,
            "grow_policy": "lossguide",
            "max_depth": 0,
            "nthread": self._threads(X),
            "seed": seed,
        }

    def _score(self, X: Any) -> Array:
        return self._margins(self.model_, X, self.best_iteration_)

    def _margins(self, model: Any, X: Any, n_trees: int) -> Array:
        """The sum of the first trees; zero if there are none."""
        if model is None:
            return np.zeros(X.shape[0])
        X = _plain(X)
        if self.backend_ == "lightgbm":
            threads = self._threads(X)
            return np.asarray(model.predict(X, num_iteration=n_trees, raw_score=True, num_threads=threads))
        if self.backend_ == "scikit-learn":
            return np.asarray(model.decision_function(_dense(X)))
        import xgboost

        margins = model.predict(xgboost.DMatrix(X), output_margin=True, iteration_range=(0, n_trees))
        return np.asarray(margins, dtype=np.float64)


class BoostingPUClassifier(BoostedTrees, WeightedPUClassifier):
    """Gradient-boosted trees of labelled against unlabeled rows; the prior turns their scores into probabilities.

    Under random labelling the chance of being labelled ranks rows as the chance of being positive does. So the ranking
    needs no prior. For small and large tables: no scaling is needed, and NaN may stand for missing values. It is
    :class:`ElkanNotoClassifier` with trees whose settings suit few labelled rows.

    Parameters
    ----------
    {trees}

    Attributes
    ----------
    {grown}

    Examples
    --------
    >>> from pulab import BoostingPUClassifier
    >>> from pulab.datasets import load_digits, make_pu
    >>> digits = load_digits(positive=(0,))
    >>> pu = make_pu(digits.X_train, digits.y_train, n_labeled=80, random_state=0)
    >>> clf = BoostingPUClassifier(prior=pu.prior, random_state=0).fit(pu.X, pu.s)
    >>> clf.score(digits.X_test, digits.y_test) > 0.9
    True
    """

    learning_rate: float = 0.05
    num_leaves: int = 8

    def _learn(self, X: Any, positive: Marks, work: Work, held_out: bool, weight: Array | None = None) -> Array | None:
        self._check_params((*BACKENDS, SCIKIT))
        self.backend_ = (*backends(), SCIKIT)[0] if self.backend == "auto" else self.backend
        if self.backend_ != SCIKIT:
            _installed(self.backend_)
        self.best_iteration_ = self.n_estimators
        X, seed = _plain(X), int(work.rng.integers(2**31))
        self.model_ = work(lambda: self._grown(X, positive, seed, weight))
        if not held_out:
            return None

        def scores(train: Any, test: Any) -> Array:
            grown = self._grown(X[train], positive[train], seed, rows_of(weight, train))
            return self._margins(grown, X[test], self.n_estimators)

        return out_of_fold(scores, positive, work)

    def _regularised(self, backend: str) -> dict[str, Any]:
        return REGULARISED[backend]

    def _grown(self, X: Any, positive: Marks, seed: int, weight: Array | None = None) -> Any:
        """The trees; None if no feature varies."""
        if not _varies(X):
            return None
        label, in_leaf = positive.astype(np.float64), min(self.min_child_samples, max(1, X.shape[0] // 20))
        if self.backend_ == "lightgbm":
            import lightgbm

            params = (
                self._lightgbm(X, self.num_leaves, in_leaf, seed)
                | {"objective": "binary"}
                | self._regularised("lightgbm")
            )
            return lightgbm.train(params, lightgbm.Dataset(X, label=label, weight=weight), self.n_estimators)
        if self.backend_ == "xgboost":
            import xgboost

            # A row's curvature is small, since few rows are labelled: it cannot limit the leaves.
            params = self._xgboost(X, self.num_leaves, seed) | {
                "objective": "binary:logistic",
                "min_child_weight": 1e-3,
            }
            rows = xgboost.DMatrix(X, label=label, weight=weight)
            return xgboost.train(params | self._regularised("xgboost"), rows, self.n_estimators)
        from sklearn.ensemble import HistGradientBoostingClassifier

        return HistGradientBoostingClassifier(
            learning_rate=self.learning_rate,
            max_iter=self.n_estimators,
            max_leaf_nodes=self.num_leaves,
            min_samples_leaf=in_leaf,
            early_stopping=False,
            random_state=seed,
            **self._regularised(SCIKIT),
        ).fit(_dense(X), label, sample_weight=weight)


class PlainBoostingPUClassifier(BoostingPUClassifier):
    """Gradient-boosted trees of labelled against unlabeled rows, with LightGBM's default settings.

    It is :class:`BoostingPUClassifier` with larger trees, without subsampling and without a penalty. With few labelled
    rows it mostly ranks worse. It ranks better where small groups of rows hold many positives.

    Parameters
    ----------
    {trees}

    Attributes
    ----------
    {grown}
    """

    learning_rate: float = 0.1
    num_leaves: int = 31

    def _regularised(self, backend: str) -> dict[str, Any]:
        return {"reg_lambda": 0.0} if backend == "xgboost" else {}


class Tried(NamedTuple):
    """Trees of one size, judged by rows that they have not seen."""

    leaves: int
    risk: float  # on these rows
    scores: Array  # NaN for rows that no split held out
    lengths: list[int]  # by split, the best number of trees
    model: Any  # of the last split
    history: list[dict[str, float]]


class NNPUBoostingClassifier(BoostedTrees):
    """Gradient-boosted trees with the non-negative PU risk as their objective.

    For small and large tables. No scaling is needed, and NaN may stand for missing values. Held-out rows decide the
    number of trees and of their leaves, and calibrate probabilities. Up to 20,000 rows, these are all rows, in five
    folds. In larger tables they are a part of the rows, and the trees do not learn from it.

    Parameters
    ----------
    backend : {"auto", "lightgbm", "xgboost"}
        "auto": LightGBM if it is installed, else XGBoost.
    n_estimators : int
        Maximal number of trees.
    learning_rate : float
    num_leaves : int or None
        Number of leaves of a tree. None: 4, or 31 if their held-out PU risk is lower by more than a standard error;
        that takes twice as long. Few suit smooth classes, many suit classes that only several columns together tell
        apart.
    min_child_samples : int
        Minimal number of rows in a leaf; fewer with few labelled rows.
    early_stopping : int or None
        Stop when the held-out PU risk (sigmoid loss) has not fallen for so many trees; None: grow all trees.
    beta, gamma : float
        Threshold and strength of the correction of the risk.
    validation_fraction : float
        Share of P and of U that is held out in a large table.
    n_jobs : int
        Number of threads; -1: all, or one for a small table, where more are slower.
    {shared}

    Attributes
    ----------
    backend_ : str
        The library that grew the trees.
    model_ : the booster; None if no feature varies
    best_iteration_, num_leaves_ : int
        Number of trees, and of leaves of each.
    history_ : list of dict
        The held-out PU risk after each tree, of the last fold.
    {attributes}

    References
    ----------
    Kiryo et al.: Positive-Unlabeled Learning with Non-Negative Risk Estimator. NeurIPS 2017; for the risk.

    Examples
    --------
    >>> from pulab import NNPUBoostingClassifier
    >>> from pulab.datasets import load_digits, make_pu
    >>> digits = load_digits(positive=(0,))
    >>> pu = make_pu(digits.X_train, digits.y_train, n_labeled=80, random_state=0)
    >>> clf = NNPUBoostingClassifier(prior=pu.prior, random_state=0)
    >>> clf.fit(pu.X, pu.s).score(digits.X_test, digits.y_test) > 0.9  # doctest: +SKIP
    True
    """

    n_estimators: int = 200
    num_leaves: int | None = None  # type: ignore[assignment]
    early_stopping: int | None = 30
    beta: float = 0.0
    gamma: float = 1.0
    validation_fraction: float = 0.2

    def _learn(self, X: Any, positive: Marks, work: Work, held_out: bool) -> Array:
        self._check_params(BACKENDS)
        self.backend_ = _installed(self.backend)
        seed, X = int(work.rng.integers(2**31)), _plain(X)
        splits = list(self._splits(positive, work.rng))
        splits = splits if held_out else splits[:1]
        tried = [self._try(X, positive, splits, leaves, seed, work) for leaves in self._leaves()]
        best, *larger = tried
        for other in larger:
            if other.risk < best.risk - self._error_of_difference(positive, best.scores, other.scores):
                best = other
        self.num_leaves_, self.history_ = best.leaves, best.history
        if len(splits) > 1:  # once more on all rows, with the mean of the best numbers of trees
            everything = np.arange(len(positive))
            n_trees = round(np.mean(best.lengths))
            self.model_, self.best_iteration_, _ = work(
                lambda: self._grow(X, positive, everything, None, best.leaves, seed, n_trees)
            )
        else:
            self.model_, self.best_iteration_ = best.model, best.lengths[0]
        return best.scores

    def _leaves(self) -> Sequence[int]:
        return LEAVES if self.num_leaves is None else (self.num_leaves,)

    def _try(
        self, X: Any, positive: Marks, splits: Sequence[tuple[Any, Any]], leaves: int, seed: int, work: Work
    ) -> "Tried":
        """Trees with so many leaves, grown on the one part of each split and scored on the other."""
        scores, lengths = np.full(len(positive), np.nan), []
        model, history = None, list[dict[str, float]]()

        def grown(train: Any, held: Any) -> tuple[Any, int, list[dict[str, float]], Array]:
            model, length, risks = self._grow(X, positive, train, held, leaves, seed)
            # The trees of folds are not needed.
            return model if len(splits) == 1 else None, length, risks, self._margins(model, X[held], length)

        for train, held in splits:
            model, length, risks, scores[held] = work(partial(grown, train, held))
            lengths.append(length)
            history = risks or history
        seen = np.isfinite(scores)
        risk = nnpu_risk(positive[seen], scores[seen], prior=self.prior_, scenario=self.scenario)
        return Tried(leaves, risk, scores, lengths, model, history)

    def _error_of_difference(self, positive: Marks, one: Array, other: Array) -> float:
        """The standard error of the difference of two held-out risks, with the sigmoid loss and without the clamp."""
        seen = np.isfinite(one)
        moved = expit(other[seen]) - expit(one[seen])
        on_p = 2 * self.prior_ * moved[positive[seen]]
        on_population = moved if self.scenario == "single-sample" else moved[~positive[seen]]
        return float(np.sqrt(on_p.var() / len(on_p) + on_population.var() / len(on_population)))

    def _splits(self, positive: Marks, rng: np.random.Generator) -> Iterable[tuple[Any, Any]]:
        """Five folds of a small table, or one held-out part of a large one."""
        if len(positive) < SMALL:
            return folds(positive, rng)
        parts = [hold_out(np.flatnonzero(marks), self.validation_fraction, rng) for marks in (positive, ~positive)]
        return [(np.concatenate([kept for kept, _ in parts]), np.concatenate([held for _, held in parts]))]

    def _grow(
        self, X: Any, positive: Marks, train: Any, held: Any | None, leaves: int, seed: int, n_trees: int | None = None
    ) -> tuple[Any, int, list[dict[str, float]]]:
        """Trees fitted to some rows. Their number is given, or chosen by the risk on held-out rows. Also that risk."""
        if not _varies(X[train]):
            return None, 0, []
        gradients = NNPUGradients(positive[train], self.prior_, self.scenario, self.beta, self.gamma)
        n_p = int(positive[train].sum())
        shape = leaves, min(self.min_child_samples, max(1, n_p // 4))

        risks: list[dict[str, float]] = []

        def risk(g: Array) -> float:
            value = nnpu_risk(positive[held], g, prior=self.prior_, scenario=self.scenario)
            risks.append({"val_risk": value})
            return value

        grow = {"lightgbm": self._grow_lightgbm, "xgboost": self._grow_xgboost}[self.backend_]
        X_held = None if held is None or self.early_stopping is None else X[held]
        model, length = grow(X[train], X_held, gradients, risk, shape, seed, max(1, n_trees or self.n_estimators))
        return model, length, risks

    def _check_params(self, allowed: tuple[str, ...]) -> None:
        super()._check_params(allowed)
        if self.early_stopping is not None:
            check_number("early_stopping", self.early_stopping, low=1, whole=True)
        check_number("beta", self.beta, low=0)
        check_number("gamma", self.gamma, low=0)
        check_number("validation_fraction", self.validation_fraction, low=0, high=1, ends="()")

    def _grow_lightgbm(
        self, X: Any, X_held: Any, gradients: Any, risk: Risk, shape: tuple[int, int], seed: int, n_trees: int
    ) -> tuple[Any, int]:
        import lightgbm

        params = self._lightgbm(X, *shape, seed) | {"objective": lambda g, data: gradients(g)}
        train = lightgbm.Dataset(X, label=np.zeros(X.shape[0]))
        if X_held is None:
            return lightgbm.train(params, train, n_trees), n_trees
        held = lightgbm.Dataset(X_held, label=np.zeros(X_held.shape[0]), reference=train)
        model = lightgbm.train(
            params,
            train,
            n_trees,
            valid_sets=[held],
            feval=lambda g, data: ("pu_risk", risk(g), False),
            callbacks=[lightgbm.early_stopping(int(self.early_stopping or 1), verbose=False)],
        )
        return model, model.best_iteration

    def _grow_xgboost(
        self, X: Any, X_held: Any, gradients: Any, risk: Risk, shape: tuple[int, int], seed: int, n_trees: int
    ) -> tuple[Any, int]:
        import xgboost

        params = self._xgboost(X, shape[0], seed) | {
            "min_child_weight": shape[1] / 4,  # a row's curvature is a quarter of its weight
            "base_score": 0.0,
            "disable_default_eval_metric": True,
        }
        train = xgboost.DMatrix(X, label=np.zeros(X.shape[0]))
        watched = (
            {}
            if X_held is None
            else {
                "evals": [(xgboost.DMatrix(X_held, label=np.zeros(X_held.shape[0])), "held_out")],
                "custom_metric": lambda g, data: ("pu_risk", risk(np.asarray(g))),
                "early_stopping_rounds": self.early_stopping,
            }
        )
        model = xgboost.train(
            params,
            train,
            n_trees,
            obj=lambda g, data: gradients(np.asarray(g, dtype=np.float64)),
            verbose_eval=False,
            **watched,
        )
        return model, n_trees if X_held is None else model.best_iteration + 1


def _plain(X: Any) -> Any:
    """Rows as the backends take them: not as scipy's sparse arrays."""
    return sparse.csr_matrix(X) if sparse.issparse(X) else X


def _dense(X: Any) -> Any:
    return X.toarray() if sparse.issparse(X) else X


def _varies(X: Any) -> bool:
    """Whether any feature has two values, of which one may be a gap. LightGBM fails if none has."""
    if sparse.issparse(X):
        return bool((abs((X.max(axis=0) - X.min(axis=0)).toarray()) > TINY).any())
    low, high = np.fmin.reduce(X, axis=0), np.fmax.reduce(X, axis=0)
    differs = (high > low) & (np.maximum(abs(high), abs(low)) > TINY)
    return bool((differs | (np.isnan(X).any(axis=0) & ~np.isnan(low))).any())


def backends() -> list[str]:
    """The installed backends."""
    return [name for name in BACKENDS if importlib.util.find_spec(name) is not None]


def _installed(backend: str) -> str:
    wanted = BACKENDS if backend == "auto" else (backend,)
    for name in wanted:
        if name in backends():
            return name
    raise InputError(f"this method needs {' or '.join(wanted)}. Run: pip install 'pulab[boost]'.")
