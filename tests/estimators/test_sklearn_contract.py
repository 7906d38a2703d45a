"""scikit-learn's own checks over every registered estimator, with no exception declared."""

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from pulab.bench.methods import METHODS

CLASSES = list(dict.fromkeys(method.class_path for method in METHODS.values()))


@parametrize_with_checks(
    [next(m for m in METHODS.values() if m.class_path == path).load()(epochs=2) for path in CLASSES]
)
@pytest.mark.filterwarnings("ignore::pulab.PulabWarning", "ignore::sklearn.exceptions.DataConversionWarning")
def test_scikit_learn_check(estimator: Any, check: Any) -> None:
    check(estimator)
