"""scikit-learn's own checks over every registered estimator, with no exception declared."""

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from pulab.bench.methods import METHODS

CLASSES = list(dict.fromkeys(method.class_path for method in METHODS.values()))


def small(path: str) -> Any:
    """Of each class one that fits in no time."""
    method = next(m for m in METHODS.values() if m.class_path == path)
    few = {"pulab.BaggingPUClassifier": {"n_estimators": 10}}.get(path, {})
    return method.load()(**({"epochs": 2} if method.is_network else few))


@parametrize_with_checks([small(path) for path in CLASSES])
@pytest.mark.filterwarnings("ignore::pulab.PulabWarning", "ignore::sklearn.exceptions.DataConversionWarning")
def test_scikit_learn_check(estimator: Any, check: Any) -> None:
    check(estimator)
