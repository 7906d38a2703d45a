"""scikit-learn's own checks over every registered estimator, with no exception declared."""

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from pulab.methods import METHODS, Method

CLASSES = {method.class_name: method for method in METHODS.values()}


def small(method: Method) -> Any:
    """Of each class one that fits in no time."""
    few = {"n_estimators": 10} if hasattr(method.load(), "n_estimators") else {}
    return method.load()(**({"epochs": 2} if method.is_network else few))


def not_meant(estimator: Any) -> dict[str, str]:
    """The checks that a class is not meant to pass: here that weights do the same as repeated rows."""
    if not any(method.takes_weights for method in METHODS.values() if method.class_name == type(estimator).__name__):
        return {}
    why = "a network draws rows by weight; in tables, priors, folds and probabilities are about rows."
    return {f"check_sample_weight_equivalence_on_{kind}_data": why for kind in ("dense", "sparse")}


@parametrize_with_checks([small(method) for method in CLASSES.values()], expected_failed_checks=not_meant)
@pytest.mark.filterwarnings("ignore::pulab.PulabWarning", "ignore::sklearn.exceptions.DataConversionWarning")
def test_scikit_learn_check(estimator: Any, check: Any) -> None:
    check(estimator)
