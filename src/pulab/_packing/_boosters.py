"""Boosted trees of LightGBM and XGBoost: their texts are checked in full before their library sees them.

Both libraries follow the numbers in a model file unchecked. A wrong one ends the process, which no exception handler
can prevent. So every line and every number is checked here, and nothing is accepted that a fit does not write.
"""

import json
import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulab._packing._json import read_json
from pulab.errors import ModelFileError

# LightGBM -------------------------------------------------------------------------------------------------------------

_INT = r"-?[0-9]{1,18}"
_FLOAT = r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]{1,3})?"
_HEAD = re.compile(
    r"tree\nversion=v[34]\nnum_class=1\nnum_tree_per_iteration=1\nlabel_index=0\nmax_feature_idx=([0-9]{1,9})\n"
    rf"(?:objective=(?:custom|cross_entropy|binary sigmoid:{_FLOAT})\n)?"
    rf"feature_names=(.*)\n(?:monotone_constraints=.*\n)?feature_infos=(.*)\ntree_sizes=({_INT}(?: {_INT})*)?\n\n"
)
_END = "end of trees\n"
_TAIL = re.compile(
    rf"{_END}(?:\nfeature_importances:\n(?:[^\n=]*=[0-9.e+-]+\n)*)?"
    r"(?:\nparameters:\n(?:\[\w+:[^\[\]\n]*\]\n)*\nend of parameters\n)?(?:\npandas_categorical:(?:null|\[\])\n)?\n*"
)
_FEATURE = re.compile(rf"none|\[{_FLOAT}:{_FLOAT}\]|{_INT}(?::{_INT})*")
# How many numbers a tree with n leaves has under each key: n, one for each inner node, or one.
_LEAF, _NODE, _ONE = "leaf", "node", "one"
_KEYS = {
    "num_leaves": (_ONE, _INT),
    "num_cat": (_ONE, "0"),
    "split_feature": (_NODE, _INT),
    "split_gain": (_NODE, rf"{_FLOAT}|-?inf"),
    "threshold": (_NODE, _FLOAT),
    "decision_type": (_NODE, "0|2|4|6|8|10"),
    "left_child": (_NODE, _INT),
    "right_child": (_NODE, _INT),
    "leaf_value": (_LEAF, _FLOAT),
    "leaf_weight": (_LEAF, _FLOAT),
    "leaf_count": (_LEAF, _INT),
    "internal_value": (_NODE, _FLOAT),
    "internal_weight": (_NODE, _FLOAT),
    "internal_count": (_NODE, _INT),
    "is_linear": (_ONE, "0"),
    "shrinkage": (_ONE, _FLOAT),
}
_PATTERNS = {key: re.compile(pattern) for key, (_, pattern) in _KEYS.items()}
_LEAVES = re.compile("[0-9]{1,6}")
MOST_LEAVES = 2**17  # that LightGBM grows
_OF_ONE_LEAF = ("leaf_weight", "leaf_count")  # empty in a tree without splits


def check_lightgbm(text: str) -> int:
    """Refuse a text that a fit does not write. Returns where its trees end.

    Trees with categories or linear leaves, which pulab never fits, are refused, too.
    """
    head = _HEAD.match(text)
    if head is None:
        raise ModelFileError("its LightGBM model has an unknown header")
    n_features = int(head[1]) + 1
    infos = head[3].split(" ")
    if len(head[2].split(" ")) != n_features or len(infos) != n_features or not all(map(_FEATURE.fullmatch, infos)):
        raise ModelFileError("its LightGBM model has features that do not fit its header")
    raw = text.encode()  # sizes are of bytes
    at = len(text[: head.end()].encode())
    for i, size in enumerate(map(int, (head[4] or "").split())):
        if not 0 < size <= len(raw) - at:
            raise ModelFileError("its trees are cut off")
        _check_tree(raw[at : at + size].decode(), i, n_features)
        at += size
    tail = raw[at:].decode()
    if _TAIL.fullmatch(tail) is None:
        raise ModelFileError("its LightGBM model has an unknown end")
    return len(text) - len(tail) + len(_END)


def _check_tree(text: str, i: int, n_features: int) -> None:
    first, *lines = text.rstrip("\n").split("\n")
    pairs = [line.partition("=")[::2] for line in lines]
    texts = dict(pairs)
    if first != f"Tree={i}" or len(pairs) != len(texts) or not texts.keys() <= _KEYS.keys():
        raise ModelFileError("a tree in it has unknown lines")
    n_leaves = int(texts["num_leaves"]) if _LEAVES.fullmatch(texts.get("num_leaves", "")) else 0
    lengths = {_LEAF: n_leaves, _NODE: n_leaves - 1, _ONE: 1}
    for key, (per, _) in _KEYS.items():  # before they are split: a split text takes twenty times its size
        n = texts[key].count(" ") + 1 if texts.get(key) else 0
        if n_leaves > MOST_LEAVES or (n != lengths[per] and not (n_leaves == 1 and n == 0 and key in _OF_ONE_LEAF)):
            raise ModelFileError(f"a tree in it is invalid: {n} numbers of {key}")
    values = {key: value.split(" ") if value else [] for key, value in texts.items()}
    for key, tokens in values.items():
        if not all(map(_PATTERNS[key].fullmatch, tokens)) or not np.isfinite(_floats(tokens, key)).all():
            raise ModelFileError(f"a tree in it has {key} that are not finite numbers")
    _check_children(np.array(values["left_child"], dtype=np.int64), np.array(values["right_child"], dtype=np.int64))
    feature = np.array(values["split_feature"], dtype=np.int64)
    if not ((feature >= 0) & (feature < n_features)).all():
        raise ModelFileError("a tree in it uses features that do not exist")


def _floats(tokens: list[str], key: str) -> NDArray[np.float64]:
    return np.array([token for token in tokens if not (key == "split_gain" and "inf" in token)], dtype=np.float64)


def _check_children(left: NDArray[np.int64], right: NDArray[np.int64]) -> None:
    """Each inner node but the first, and each leaf (as −1 − leaf), is the child of exactly one node before it."""
    n = len(left)
    children = np.concatenate([left, right])
    rises = children > np.tile(np.arange(n), 2)
    expected = np.concatenate([np.arange(-n - 1, 0), np.arange(1, n)]) if n else np.array([])
    if not np.array_equal(np.sort(children), expected) or not rises[children >= 0].all():
        raise ModelFileError("a tree in it is invalid")


# XGBoost --------------------------------------------------------------------------------------------------------------

_PER_NODE = {
    "base_weights": float,
    "default_left": bool,
    "left_children": int,
    "loss_changes": float,
    "parents": int,
    "right_children": int,
    "split_conditions": float,
    "split_indices": int,
    "split_type": bool,
    "sum_hessian": float,
}
_CATEGORIES = ("categories", "categories_nodes", "categories_segments", "categories_sizes")
_NO_PARENT = 2**31 - 1
_OBJECTIVES = ("binary:logistic", "binary:logitraw", "reg:squarederror")
_NUMBER = r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?"
_PARAMETERS = {
    "base_score": rf"\[?{_NUMBER}\]?",
    "boost_from_average": "[01]",
    "num_class": "0",
    "num_feature": "[0-9]{1,9}",
    "num_target": "1",
}


def checked_xgboost(raw: bytes) -> bytes:
    """The same model in JSON, written anew from what was checked: XGBoost's own parser sees nothing else."""
    model = read_json(raw)
    learner = _keys(model, "learner", "version")["learner"]
    _keys(
        learner, "attributes", "feature_names", "feature_types", "gradient_booster", "learner_model_param", "objective"
    )
    parameters = _keys(learner["learner_model_param"], *_PARAMETERS)
    for key, pattern in _PARAMETERS.items():
        _must(isinstance(parameters[key], str) and re.fullmatch(pattern, parameters[key]) is not None, key)
    n_features = int(parameters["num_feature"])
    objective = learner["objective"]
    _must(objective["name"] in _OBJECTIVES and _is_text(objective.get("reg_loss_param", {})), "objective")
    _must(set(objective) <= {"name", "reg_loss_param"} and _is_text(learner["attributes"]), "objective")
    for key in ("feature_names", "feature_types"):
        names = learner[key]
        _must(isinstance(names, list) and all(isinstance(n, str) for n in names) and len(names) in (0, n_features), key)
    _must(_numbers(model["version"], int, 3).min() >= 0, "version")
    booster = _keys(learner["gradient_booster"], "model", "name")
    _must(booster["name"] == "gbtree", "gradient_booster")
    _check_forest(booster["model"], n_features)
    return json.dumps(model, allow_nan=False).encode()


def _check_forest(forest: Any, n_features: int) -> None:
    trees, n_trees = forest["trees"], len(forest["trees"])
    _must(
        set(forest) <= {"cats", "gbtree_model_param", "iteration_indptr", "tree_info", "trees"}
        and forest["gbtree_model_param"] == {"num_parallel_tree": "1", "num_trees": str(n_trees)}
        and forest["tree_info"] == [0] * n_trees
        and forest.get("iteration_indptr", list(range(n_trees + 1))) == list(range(n_trees + 1))
        and not any(forest.get("cats", {}).values())
        and isinstance(trees, list),
        "trees",
    )
    for i, tree in enumerate(trees):
        _keys(tree, "id", "tree_param", *_PER_NODE, *_CATEGORIES)
        n = len(tree["left_children"])
        sizes = {"num_deleted": "0", "num_feature": str(n_features), "num_nodes": str(n), "size_leaf_vector": "1"}
        _must(type(tree["id"]) is int and tree["id"] == i, "id")
        _must(tree["tree_param"] in (sizes, sizes | {"size_leaf_vector": "0"}), "tree_param")
        _must(n > 0 and not any(tree[key] for key in _CATEGORIES), "categories")
        numbers = {key: _numbers(tree[key], kind, n) for key, kind in _PER_NODE.items()}
        left, right, parents = (numbers[key].astype(np.int64) for key in ("left_children", "right_children", "parents"))
        inner = np.flatnonzero(left != -1)
        children = np.concatenate([left[inner], right[inner]])
        _must(
            np.array_equal(left == -1, right == -1) and np.array_equal(np.sort(children), np.arange(1, n)), "children"
        )
        _must((children > np.tile(inner, 2)).all() and parents[0] == _NO_PARENT, "children")
        _must(np.array_equal(parents[children], np.tile(inner, 2)), "parents")
        feature = numbers["split_indices"]
        _must(((feature >= 0) & (feature < n_features)).all() and not numbers["split_type"].any(), "split_indices")


def _numbers(values: Any, kind: type, n: int) -> NDArray[Any]:
    """A list of n finite numbers of this kind. Booleans are written as 0 and 1."""
    kinds = {int: (int,), float: (int, float), bool: (int, bool)}[kind]
    _must(isinstance(values, list) and len(values) == n and all(type(v) in kinds for v in values), "numbers")
    _must(
        all(math.isfinite(v) and abs(v) < (2 if kind is bool else 2**31 if kind is int else 1e39) for v in values), "n"
    )
    return np.array(values)


def _is_text(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


def _keys(value: Any, *keys: str) -> dict[str, Any]:
    _must(isinstance(value, dict) and set(value) == set(keys), "keys")
    return dict(value)


def _must(holds: Any, what: str) -> None:
    if not holds:
        raise ModelFileError(f"its XGBoost model is invalid: {what}")
