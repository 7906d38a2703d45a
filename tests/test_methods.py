"""The registry of methods, and what is derived from it."""

import inspect
import subprocess
import sys

import pytest
from sklearn.utils.validation import has_fit_parameter

import pulab
from pulab import estimators
from pulab.methods import FAMILIES, METHODS


@pytest.mark.parametrize("key", METHODS)
def test_an_entry_is_true_of_its_class(key: str) -> None:
    method = METHODS[key]
    cls = method.load()
    assert cls.__name__ == method.class_name
    assert cls is getattr(pulab, method.class_name) is getattr(estimators, method.class_name)
    assert method.class_name in pulab.__all__
    assert method.family in FAMILIES
    parameters = inspect.signature(cls).parameters
    assert "prior" in parameters or not method.needs_prior
    assert ("module" in parameters) == method.is_network
    assert has_fit_parameter(cls, "sample_weight") == method.takes_weights
    assert ("X_negative" in inspect.signature(cls.fit).parameters) or not method.needs_negatives


def test_tables_do_not_load_the_laboratory() -> None:
    code = "import sys, pulab.tables; print(*(name for name in sys.modules if name.startswith('pulab.bench')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
