"""scikit-learn's own checks over every registered estimator, with no exception declared."""

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from pulab.methods import METHODS, Method

CLASSES = {method.class_name: method for method in METHODS.values()}


def small(method: Method) -> Any:
    """Of each class one that fits in no time."""
    few = {"BaggingPUClassifier": {"n_estimators": 10}}.get(method.class_name, {})
    return method.load()(**({"epochs": 2} if method.is_network else few))


@parametrize_with_checks([small(method) for method in CLASSES.values()])
@pytest.mark.filterwarnings("ignore::pulab.PulabWarning", "ignore::sklearn.exceptions.DataConversionWarning")
def test_scikit_learn_check(estimator: Any, check: Any) -> None:
    check(estimator)
