"""Several kinds of positives: one PU classifier per kind, and what is of no kind."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.validation import _num_samples

from pulab._validation import AnyArray, check_fitted, check_kinds, check_prior, draw_seed, one_error, plain
from pulab.errors import InputError, PriorError, PulabError, PulabWarning, short, warn
from pulab.estimators._classical import ElkanNotoClassifier
from pulab.estimators._contract import PUClassifier
from pulab.estimators._table import is_classifier_like
from pulab.estimators._work import check_checkpoint


class PositiveKindsClassifier(PUClassifier):
    """Which kind of positive is a row, if any? One PU classifier for each kind against everything else.

    For known positives of several kinds, such as three kinds of fraud, and unlabeled rows that may be of any kind or of
    none. It assumes that a row is of one kind at most, and that the labelled rows of a kind are a random part of that
    kind. How often rows of the different kinds are labelled may differ.

    Each kind has its own prior, the share of the population that is of this kind. Together they are below 1: the rest
    is of none of these kinds. In a single sample the labelled rows of the other kinds are part of the population, so
    they are among the unlabeled rows of a kind. For case-control data they are left out.

    Parameters
    ----------
    estimator : PU classifier, pipeline that ends in one, or None
        It is copied for each kind, and its ``scenario`` holds for all. None: :class:`~pulab.ElkanNotoClassifier`.
    priors : dict, "estimate" or None
        The share of each kind in the population, such as ``{"theft": 0.1, "fraud": 0.02}``. "estimate": each kind's
        share is estimated by its rows. None: equal shares for the kinds and for none of these, with a warning. For an
        estimator that has no ``prior``: None.
    unlabeled : value
        What marks an unlabeled row in y, beside None and NaN.
    none : value or None
        The class of rows that are of none of these kinds. None: ``unlabeled`` where kinds are numbers, "none" where
        they are words.
    random_state : int, RandomState or None
        If it is not None, every copy of the estimator gets a seed by it.
    checkpoint : path or None
        A folder for the checkpoints of the fits, one for each kind. If the fit makes the folder, it removes it when all
        kinds are fitted. In a folder that you made, the files stay. The estimator must have the parameters
        ``checkpoint`` and ``random_state``.

    Attributes
    ----------
    classes_ : array
        The kinds and the class of none of these, sorted.
    kinds_ : array
        The kinds, sorted.
    estimators_ : list of the fitted classifiers, one for each of ``kinds_``
    none_ : the class of rows that are of none of these kinds
    priors_ : array
        The shares of ``kinds_``; NaN for an estimator without a prior.
    none_share_ : float
        The share of none of these: 1 minus the sum of ``priors_``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from pulab import ElkanNotoClassifier, PositiveKindsClassifier
    >>> X, species = load_iris(return_X_y=True)
    >>> y = np.zeros(150, dtype=int)
    >>> y[:20], y[100:120] = 1, 2  # 20 of the first species are known, and 20 of the third; none of the second
    >>> clf = PositiveKindsClassifier(
    ...     ElkanNotoClassifier(scenario="single-sample"), priors={1: 1 / 3, 2: 1 / 3}, random_state=0
    ... ).fit(X, y)
    >>> clf.predict(X[[30, 80, 140]]).tolist()
    [1, 0, 2]
    """

    estimator: Any = field(default=None, kw_only=False)
    priors: Mapping[Any, float] | str | None = None
    unlabeled: Any = 0
    none: Any = None
    random_state: Any = None
    checkpoint: str | PathLike[str] | None = None

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from positives of several kinds and unlabeled rows.

        Parameters
        ----------
        X : what ``estimator`` takes
        y : array of shape (n,)
            The kind of a known positive; ``unlabeled``, None or NaN for an unlabeled row.
        """
        self._forget()
        estimator = ElkanNotoClassifier() if self.estimator is None else self.estimator
        if isinstance(estimator, type) or not is_classifier_like(estimator):
            raise InputError(f"estimator must be a PU classifier such as NNPUClassifier(), got {short(estimator)}.")
        with one_error():
            X = X.tocsr() if sparse.issparse(X) else plain(X)
            n = _num_samples(X)
        kind_of, kinds = check_kinds(y, n, self.unlabeled)
        priors = self._given_priors(kinds, estimator)
        none = self._none(kinds)
        every_row = _parameter(estimator, "scenario", "case-control") == "single-sample"
        inner = _parameter(estimator, "checkpoint", None)
        if inner is not None and self.checkpoint is None and not Path(inner).is_dir():
            raise InputError(
                f"the checkpoint {inner} of the estimator could hold one kind alone. Pass checkpoint to "
                "PositiveKindsClassifier instead."
            )
        seed = None if self.random_state is None else draw_seed(self.random_state)
        place = self._folder(estimator, X, kind_of, seed)
        fitted = []
        for i, kind in enumerate(kinds.tolist()):
            rows = np.arange(n) if every_row else np.flatnonzero((kind_of == i) | (kind_of < 0))
            model = clone(estimator)
            settings = {"prior": None if priors is None else priors[i], "random_state": seed, "checkpoint": place}
            names = {key: _name_of(model, key) for key, value in settings.items() if value is not None}
            model.set_params(**{name: settings[key] for key, name in names.items() if name})
            with _named(f"the kind {kind!r}: "):
                fitted.append(model.fit(X if every_row else _safe_indexing(X, rows), (kind_of[rows] == i).astype(int)))
        shares = np.array([getattr(_last(model), "prior_", np.nan) for model in fitted], dtype=np.float64)
        if shares.sum() >= 1:  # of estimates
            raise PriorError(
                f"the estimated shares of the kinds add up to {shares.sum():.3g}, but a row is of one kind at most. "
                "Pass priors={kind: share, …}."
            )
        self.kinds_, self.none_, self.priors_, self.none_share_ = kinds, none, shares, float(1 - shares.sum())
        self.classes_, self.estimators_ = np.unique(np.append(kinds, none)), fitted
        for name in ("n_features_in_", "feature_names_in_", "row_shape_"):
            if hasattr(fitted[0], name):
                setattr(self, name, getattr(fitted[0], name))
        if place is not None:
            from pulab.training.checkpoint import is_begun, remove_folder

            if is_begun(place):
                remove_folder(place)
        return self

    def kind_scores(self, X: Any) -> AnyArray:
        """The probability of each kind by its own classifier, in the order of ``kinds_``: their sum may exceed 1."""
        check_fitted(self, "estimators_")
        return np.stack([np.asarray(model.predict_proba(X))[:, 1] for model in self.estimators_], axis=1)

    def predict_proba(self, X: Any) -> AnyArray:
        """The probabilities of the classes, in the order of ``classes_``.

        What the kinds leave of 1 is the probability of none of these. Where they add up to more than 1, they are
        divided by their sum, and nothing is left.
        """
        scores = self.kind_scores(X)
        rest = np.clip(1 - scores.sum(axis=1, keepdims=True), 0, None)
        shares = np.concatenate([scores, rest], axis=1)
        order = np.searchsorted(self.classes_, np.append(self.kinds_, self.none_))
        probabilities = np.empty_like(shares)
        probabilities[:, order] = shares / shares.sum(axis=1, keepdims=True)
        return probabilities

    def predict(self, X: Any) -> AnyArray:
        """The most likely class of each row: a kind, or none of these."""
        most_likely = self.predict_proba(X).argmax(axis=1)
        chosen: AnyArray = self.classes_[most_likely]
        return chosen

    def _given_priors(self, kinds: AnyArray, estimator: Any) -> list[Any] | None:
        """The parameter ``prior`` for each kind; None for an estimator that has none."""
        names = kinds.tolist()
        if _name_of(estimator, "prior") is None:
            if self.priors is not None:
                raise InputError(f"{type(_last(estimator)).__name__} takes no prior. Leave priors out.")
            return None
        if isinstance(self.priors, str) and self.priors == "estimate":
            return ["estimate"] * len(names)
        if self.priors is None:
            warn("no priors were given: taking equal shares. Pass priors={kind: share, …}, or priors='estimate'.")
            return [1 / (len(names) + 1)] * len(names)
        if not isinstance(self.priors, Mapping) or set(self.priors) != set(names):
            raise PriorError(
                f"priors must be a dict with the share of each kind, for {short(names)}, got {short(self.priors)}."
            )
        shares = [check_prior(self.priors[name]) for name in names]
        if sum(shares) >= 1:
            raise PriorError(
                f"priors must add up to less than 1, since a row is of one kind at most, got {sum(shares):.3g}."
            )
        return shares

    def _folder(self, estimator: Any, X: Any, kind_of: AnyArray, seed: int | None) -> Path | None:
        """The folder for the checkpoints of the kinds."""
        if self.checkpoint is None:
            return None
        if _name_of(estimator, "checkpoint") is None:
            raise InputError(f"{type(_last(estimator)).__name__} takes no checkpoint. Leave checkpoint out.")
        check_checkpoint(self.checkpoint, _parameter(estimator, "random_state", None) if seed is None else seed)
        from pulab.estimators._identity import identity_of_fit
        from pulab.training.checkpoint import begin_folder, is_begun

        place = Path(self.checkpoint)
        if is_begun(place) or not place.is_dir():
            begin_folder(place, identity_of_fit(self, {"X": X, "y": kind_of}, seed))
        return place

    def _none(self, kinds: AnyArray) -> Any:
        if self.none is not None:
            none = self.none
        else:
            none = "none" if kinds.dtype.kind == "U" else kinds.dtype.type(self.unlabeled)
        if none in kinds.tolist():
            raise InputError(f"{none!r} is a kind in y, so it cannot be the class of none. Pass none=….")
        return none

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = True
        if self.estimator is not None and not isinstance(self.estimator, type):
            tags.input_tags = get_tags(self.estimator).input_tags
        return tags


@contextmanager
def _named(kind: str) -> Iterator[None]:
    """Inside, pulab's errors and warnings begin with the kind."""
    with warnings.catch_warnings(record=True) as caught:
        try:
            yield
        except PulabError as error:
            raise type(error)(f"{kind}{error}") from error
    for warning in caught:
        own = issubclass(warning.category, PulabWarning)
        warnings.warn(f"{kind if own else ''}{warning.message}", warning.category, stacklevel=4)


def _last(estimator: Any) -> Any:
    return estimator[-1] if hasattr(estimator, "steps") else estimator


def _name_of(estimator: Any, name: str) -> str | None:
    """The parameter of this name, of the estimator itself or of the last step of a pipeline."""
    last = estimator.steps[-1][0] + "__" + name if hasattr(estimator, "steps") else name
    return last if last in estimator.get_params() else None


def _parameter(estimator: Any, name: str, default: Any) -> Any:
    found = _name_of(estimator, name)
    return default if found is None else estimator.get_params()[found]
