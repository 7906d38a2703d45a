"""Checks of objects from a file, before any of them is used: the numbers that compiled code would follow."""

from collections.abc import Mapping
from types import FunctionType
from typing import Any

import numpy as np

from pulab._validation import AnyArray
from pulab.errors import ModelFileError

TOO_LARGE = 1e100  # sums of such numbers may be infinite


def check_contents(value: Any) -> None:
    """Check every object that can be reached from a value."""
    seen: dict[int, Any] = {}
    left = [value]
    while left:
        item = left.pop()
        if id(item) in seen or isinstance(item, str | int | float | type(None)):
            continue
        seen[id(item)] = item
        for kind, check in CHECKS.items():
            if any(cls.__name__ == kind for cls in type(item).__mro__):
                check(item)
        if isinstance(item, dict):
            check_jobs(item)
            left += item.values()
        elif isinstance(item, list | tuple | set) or (isinstance(item, np.ndarray) and item.dtype == object):
            left += list(item)
        elif hasattr(item, "__dict__") and not isinstance(item, type | FunctionType):
            left.append(vars(item))


def check_jobs(settings: Mapping[Any, Any]) -> None:
    """Refuse numbers of threads and processes that no machine has: OpenMP would end the process."""
    for name in ("n_jobs", "num_threads", "num_thread", "nthread", "nthreads"):
        jobs = settings.get(name)
        if jobs is not None and not (type(jobs) is int and abs(jobs) <= 1024):
            raise ModelFileError(f"{name} in it is {str(jobs)[:20]}")


def must(holds: Any, what: str) -> None:
    """Refuse a file for which a condition does not hold. ``what`` says what is wrong with it."""
    if not holds:
        raise ModelFileError(what)


def _check_tree_owner(owner: Any) -> None:
    """A tree reads the columns of its rows unchecked: it must know as many as its owner lets through."""
    if hasattr(owner, "tree_"):
        _check_width([owner.tree_], owner.n_features_in_)


def _check_forest(forest: Any) -> None:
    """A forest passes its rows to its trees unchecked."""
    if hasattr(forest, "estimators_"):
        _check_width([tree.tree_ for tree in forest.estimators_], forest.n_features_in_)


def _check_isolation(model: Any) -> None:
    """Its trees get its rows unchecked. pulab gives each of them all columns."""
    if hasattr(model, "estimators_"):
        must(model._max_features == model.n_features_in_, "a tree in it uses other columns")
        _check_width([tree.tree_ for tree in model.estimators_], model.n_features_in_)


def _check_stages(model: Any) -> None:
    """Boosting reads its trees itself, and writes one number for each row and column of trees."""
    if hasattr(model, "estimators_"):
        trees = model.estimators_
        one = isinstance(trees, np.ndarray) and trees.shape == (len(trees), 1) and len(model.classes_) == 2
        must(one and model.n_trees_per_iteration_ == 1, "its trees do not fit its classes")
        _check_width([tree.tree_ for tree in trees.ravel()], model.n_features_in_)


def _check_width(trees: list[Any], n_features: int) -> None:
    for tree in trees:
        must(type(tree).__name__ == "Tree", "a tree in it is invalid")
        must(tree.n_features == n_features, "a tree in it uses features that do not exist")


def _check_tree(tree: Any) -> None:
    left, right, feature = tree.children_left, tree.children_right, tree.feature
    must(len(left) == tree.node_count > 0, "a tree in it is invalid")
    must((np.abs(tree.value) < TOO_LARGE).all(), "a tree in it has values that are no numbers")
    _check_nodes(left, right, feature, left == -1, tree.n_features)


def _check_hist(model: Any) -> None:
    """The trees of histogram boosting read columns and the bitsets of categories unchecked."""
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE

    if not hasattr(model, "_predictors"):
        return
    n = model.n_features_in_
    must(len(model._bin_mapper.is_categorical_) == n, "a tree in it uses features that do not exist")
    for predictor in (one for some in model._predictors for one in some):
        must(type(predictor).__name__ == "TreePredictor", "a tree in it is invalid")
        nodes = predictor.nodes
        must(nodes.dtype == PREDICTOR_RECORD_DTYPE and nodes.ndim == 1 and len(nodes) > 0, "a tree in it is invalid")
        must((np.abs(nodes["value"]) < TOO_LARGE).all(), "a tree in it has values that are no numbers")
        is_leaf = nodes["is_leaf"] == 1
        must((nodes["is_leaf"] <= 1).all(), "a tree in it is invalid")
        _check_nodes(nodes["left"], nodes["right"], nodes["feature_idx"], is_leaf, n)
        # pulab passes numbers alone. Categories would need more checks, of the bitsets of the bins.
        must(not nodes["is_categorical"].any() and not np.any(model._bin_mapper.is_categorical_), "it has categories")


def _check_nodes(left: AnyArray, right: AnyArray, feature: AnyArray, is_leaf: AnyArray, n_features: int) -> None:
    """Refuse trees whose nodes point outside the tree or back: scikit-learn would follow them."""
    inner = np.flatnonzero(~is_leaf)
    for child in (left[inner].astype(np.int64), right[inner].astype(np.int64)):
        must(((child > inner) & (child < len(left))).all(), "a tree in it is invalid")
    used = feature[inner].astype(np.int64)
    must(((used >= 0) & (used < n_features)).all(), "a tree in it uses features that do not exist")


def _check_svm(model: Any) -> None:
    """libsvm reads its arrays by the counts in ``_n_support``."""
    if not hasattr(model, "support_vectors_"):
        return
    one_class = type(model).__name__ == "OneClassSVM"  # which has a count of all vectors, twice
    n, n_classes = len(model.support_), 2 if one_class else len(model.classes_)
    counts, pairs = model._n_support, n_classes * (n_classes - 1) // 2
    arrays = {
        "support_": (np.int32, (n,)),
        "_n_support": (np.int32, (n_classes,)),
        "support_vectors_": (np.float64, (n, model.n_features_in_)),
        "_dual_coef_": (np.float64, (n_classes - 1, n)),
        "_intercept_": (np.float64, (pairs,)),
    }
    for name, (dtype, shape) in arrays.items():
        array = vars(model).get(name)
        must(isinstance(array, np.ndarray) and array.dtype == dtype and array.shape == shape, f"its {name} do not fit")
    for name in ("_probA", "_probB"):
        array = vars(model).get(name)
        must(isinstance(array, np.ndarray) and array.dtype == np.float64 and array.shape in ((0,), (pairs,)), name)
    whole = counts.tolist() == [n, n] if one_class else counts.min() >= 0 and counts.sum() == n
    must(whole and n_classes > 1, "its _n_support do not fit")
    must(model._sparse is False and model.kernel in ("linear", "poly", "rbf", "sigmoid"), "its kernel is unknown")


def _check_random(state: Any) -> None:
    """A place outside the state would be read at the next random number."""
    found = state.get_state(legacy=False)
    must(found["bit_generator"] == "MT19937" and 0 <= found["state"]["pos"] <= 624, "a random state in it is invalid")


def _check_generator(generator: Any) -> None:
    must(type(generator.bit_generator).__name__ == "PCG64", "a random generator in it is invalid")


CHECKS = {
    "Tree": _check_tree,
    "BaseDecisionTree": _check_tree_owner,
    "BaseForest": _check_forest,
    "IsolationForest": _check_isolation,
    "BaseGradientBoosting": _check_stages,
    "BaseHistGradientBoosting": _check_hist,
    "BaseLibSVM": _check_svm,
    "RandomState": _check_random,
    "Generator": _check_generator,
}
