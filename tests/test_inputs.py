"""Bad inputs get one clear error, and what looks odd but is right works. See also benchmarks/torture/inputs.py."""

import random
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import NotFittedError

from pulab import BaggingPUClassifier, BoostingPUClassifier, ElkanNotoClassifier, NNPUBoostingClassifier, NNPUClassifier
from pulab.errors import InputError, OutOfMemoryError, PulabError
from pulab.methods import METHODS

from .conftest import random_state

FILE = Path(__file__).parents[1] / "benchmarks" / "torture" / "inputs.py"
spec = spec_from_file_location("torture_inputs", FILE)
assert spec is not None
assert spec.loader is not None
inputs = module_from_spec(spec)
sys.modules[spec.name] = inputs
spec.loader.exec_module(inputs)


@pytest.mark.parametrize("kind", dict.fromkeys(inputs.KINDS), ids=lambda kind: kind.__name__)
@pytest.mark.filterwarnings("ignore")
@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
@given(st.randoms(use_true_random=False))
def test_bad_input_is_one_clear_error(kind: Any, rng: random.Random) -> None:
    case = kind(rng)
    assert inputs.outcome(case) in ("refused", "works"), case.what


def test_the_errors_are_those_that_callers_of_scikit_learn_expect() -> None:
    clf = ElkanNotoClassifier(prior=0.4)
    with pytest.raises(NotFittedError) as unfitted:
        clf.predict(inputs.X)
    assert isinstance(unfitted.value, PulabError)
    with pytest.raises(TypeError, match=r"^Sparse data was passed for y") as wrong:
        clf.fit(inputs.X, sparse.csr_matrix(inputs.S))
    assert isinstance(wrong.value, InputError)
    with pytest.raises(ValueError, match=r"^Expected 2D array, got 1D array instead: Reshape your data[^\n]*\.$"):
        clf.fit(inputs.X[:, 0], inputs.S)


def test_a_fault_is_seen() -> None:
    """The count is worth something only if a foreign error, a long message and a bad input that is taken are seen."""

    def foreign() -> None:
        raise KeyError("x")

    def long() -> None:
        raise InputError("word " * 200)

    assert inputs.outcome(inputs.Case("", foreign)).startswith("KeyError")
    assert inputs.outcome(inputs.Case("", long)).startswith("a long message")
    assert inputs.outcome(inputs.Case("", lambda: None)) == "taken, but bad"
    assert inputs.outcome(inputs.Case("", lambda: None, bad=False)) == "works"


RIGHT: dict[str, Any] = {
    "a tensor with a gradient": lambda: torch.tensor(inputs.X, requires_grad=True),
    "bfloat16": lambda: torch.tensor(inputs.X).bfloat16(),
    "denormal": lambda: inputs.X * 1e-310,
    "one feature": lambda: inputs.X[:, :1],
    "constant": lambda: np.ones((60, 3)),
    "float16": lambda: inputs.X.astype(np.float16),
    "negative strides": lambda: inputs.X[::-1, ::-1][::-1],
    "64-bit indices": lambda: _long_indices(sparse.csr_array(inputs.X)),
    "read-only": lambda: _read_only(inputs.X.copy()),
}


def _long_indices(matrix: Any) -> Any:
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    return matrix


def _read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("what", RIGHT)
@pytest.mark.parametrize("key", METHODS)
@pytest.mark.filterwarnings("ignore")
def test_what_looks_odd_but_is_right_works(key: str, what: str) -> None:
    X = RIGHT[what]()
    before = random_state()
    probabilities = inputs.make(key).fit(X, inputs.S).predict_proba(X)
    assert probabilities.shape == (60, 2)
    assert np.isfinite(probabilities).all()
    assert random_state() == before  # with the fixture on all tests: nothing global is changed


def test_a_batch_larger_than_n_needs_no_more_memory() -> None:
    """A batch of all rows is the largest. 10**9 positions would be 8 GB."""
    huge, all_rows = (
        NNPUClassifier(prior=0.4, epochs=2, batch_size_p=n, batch_size_u=n, random_state=0).fit(inputs.X, inputs.S)
        for n in (10**9, 60)
    )
    assert (huge.decision_function(inputs.X) == all_rows.decision_function(inputs.X)).all()


@pytest.mark.parametrize("key", [key for key in METHODS if METHODS[key].is_network])
@pytest.mark.filterwarnings("ignore")
def test_small_integers_of_numpy_are_numbers_like_others(key: str) -> None:
    """Products of int8 wrap at 127. A warm-up without end leaves the weights nearly as they were."""
    X, S = np.tile(inputs.X, (4, 1)), np.tile(inputs.S, 4)
    one, other = (
        inputs.make(key, epochs=kind(2), batch_size_u=kind(100), batch_size_p=kind(100)).fit(X, S)
        for kind in (int, np.int8)
    )
    assert (one.decision_function(X) == other.decision_function(X)).all()
    assert np.isfinite(inputs.make(key, lr_warmup=1e308).fit(X, S).decision_function(X)).all()


class Hungry(torch.nn.Module):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 1)
        self.error = error

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        if self.training or isinstance(self.error, MemoryError):
            raise self.error
        return self.layer(rows)


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: 9 bytes")])
def test_too_little_memory_is_not_blamed_on_the_model(error: Exception) -> None:
    with pytest.raises(OutOfMemoryError, match=r"^there is too little memory"):
        NNPUClassifier(prior=0.4, module=Hungry(error), random_state=0).fit(inputs.X, inputs.S)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ElkanNotoClassifier("x", prior=0.4), "estimator must be a scikit-learn classifier"),
        (lambda: BaggingPUClassifier(object, prior=0.4), "estimator must be a scikit-learn classifier"),
        (lambda: BaggingPUClassifier(prior=0.4, n_jobs="x"), "n_jobs must be a whole number"),
        (lambda: BaggingPUClassifier(prior=0.4, n_jobs=0), "n_jobs must be a number of threads"),
        (lambda: NNPUBoostingClassifier(prior=0.4, n_jobs=2.5), "n_jobs must be a whole number"),
        (lambda: NNPUBoostingClassifier(prior=0.4, num_leaves=10**6), "num_leaves must be a whole number"),
        (lambda: BoostingPUClassifier(prior=0.4, learning_rate=1e308), "learning_rate must be a number in"),
    ],
)
def test_parameters_that_the_backends_would_refuse_in_their_own_words(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=f"^{message}"):
        make().fit(inputs.X, inputs.S)
