"""Boosted trees of XGBoost: their JSON is checked in full, and written anew for the library in its binary form.

XGBoost follows the numbers in a model file unchecked, as LightGBM does. As objects of Python, JSON takes up to twenty
times its size, and more within XGBoost. So each tree is turned into arrays, checked, and turned into bytes as soon as
it is read.
"""

import json
import re
import struct
from json.decoder import JSONArray  # type: ignore[attr-defined]  # typeshed does not know it
from json.scanner import py_make_scanner  # type: ignore[attr-defined]
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pulab._packing._json import check_lists
from pulab.errors import ModelFileError

# How the numbers of a tree are written: their kind in JSON, and in UBJSON as XGBoost writes it.
_PER_NODE = {
    "base_weights": (float, b"d"),
    "default_left": (bool, b"U"),
    "left_children": (int, b"l"),
    "loss_changes": (float, b"d"),
    "parents": (int, b"l"),
    "right_children": (int, b"l"),
    "split_conditions": (float, b"d"),
    "split_indices": (int, b"l"),
    "split_type": (bool, b"U"),
    "sum_hessian": (float, b"d"),
}
_CATEGORIES = {
    "categories": b"l",
    "categories_nodes": b"l",
    "categories_segments": b"L",
    "categories_sizes": b"L",
}
_EMPTY = _CATEGORIES | {"feature_segments": b"l", "sorted_idx": b"l"}
_DTYPES = {b"d": ">f4", b"U": ">u1", b"l": ">i4", b"L": ">i8"}
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
_FLAT = re.compile(r"\[[^][{}\"]*\]")
_SHORT = 64  # a shorter list stays a list


class _Tree(NamedTuple):
    """A checked tree. Only its features are checked later: their number comes after the trees in the file."""

    id: int
    n_features: str
    features_used: int
    raw: bytearray


class _Decoder(json.JSONDecoder):
    """Reads JSON. Long lists of numbers become arrays, and trees what XGBoost reads, as soon as each ends."""

    def __init__(self) -> None:
        super().__init__(object_hook=lambda value: _checked_tree(value) if "tree_param" in value else value)
        self.parse_array = self._array
        self.scan_once = py_make_scanner(self)

    @staticmethod
    def _array(place: tuple[str, int], scan_once: Any) -> tuple[Any, int]:
        text, start = place
        flat = _FLAT.match(text, start - 1)
        if flat is None or flat.end() - start < _SHORT:
            value, end = JSONArray(place, scan_once)
            return value, end
        return _as_array(json.loads(flat[0])), flat.end()


def _as_array(values: list[Any]) -> Any:
    """Numbers as an array, if they are all of one kind."""
    kinds = set(map(type, values))
    if kinds <= {int}:
        array = np.array(values, dtype=np.int64)
        return array.astype(np.int32) if (np.abs(array) < 2**31).all() else array
    if kinds <= {int, float}:
        with np.errstate(over="ignore"):  # becomes infinite, and is refused
            return np.array(values, dtype=np.float32)
    return np.array(values, dtype=np.bool_) if kinds <= {bool} else values


def checked_xgboost(text: str) -> bytearray:
    """The same model in UBJSON, written anew from what was checked: XGBoost's own parser sees nothing else."""
    check_lists(text)
    model = _Decoder().decode(text)
    del text  # before the trees are there a second time
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
    out = bytearray()
    _write(out, model)
    return out


def _check_forest(forest: Any, n_features: int) -> None:
    trees, n_trees = forest["trees"], len(forest["trees"])
    parts = {key: np.asarray(forest[key]) for key in ("tree_info", "iteration_indptr") if key in forest}
    _must(
        set(forest) <= {"cats", "gbtree_model_param", "iteration_indptr", "tree_info", "trees"}
        and forest["gbtree_model_param"] == {"num_parallel_tree": "1", "num_trees": str(n_trees)}
        and not any(forest.get("cats", {}).values())
        and isinstance(trees, list)
        and all(isinstance(tree, _Tree) for tree in trees),
        "trees",
    )
    for key, expected in (("tree_info", np.zeros(n_trees)), ("iteration_indptr", np.arange(n_trees + 1))):
        if key == "tree_info" or key in parts:
            whole = n_trees == 0 or parts[key].dtype.kind == "i"
            _must(whole and np.array_equal(parts[key], expected), key)
    for i, tree in enumerate(trees):
        _must(tree.id == i, "id")
        _must(tree.n_features == str(n_features), "tree_param")
        _must(tree.features_used <= n_features, "split_indices")


def _checked_tree(tree: dict[str, Any]) -> _Tree:
    _keys(tree, "id", "tree_param", *_PER_NODE, *_CATEGORIES)
    n = len(tree["left_children"])
    n_features = tree["tree_param"]["num_feature"]
    sizes = {"num_deleted": "0", "num_feature": n_features, "num_nodes": str(n), "size_leaf_vector": "1"}
    _must(type(tree["id"]) is int and isinstance(n_features, str), "id")
    _must(tree["tree_param"] in (sizes, sizes | {"size_leaf_vector": "0"}), "tree_param")
    _must(n > 0 and not any(len(tree[key]) for key in _CATEGORIES), "categories")
    for key, (kind, mark) in _PER_NODE.items():
        tree[key] = _numbers(tree[key], kind, n).astype(_DTYPES[mark])
    left, right, parents = (tree[key].astype(np.int64) for key in ("left_children", "right_children", "parents"))
    inner = np.flatnonzero(left != -1)
    children = np.concatenate([left[inner], right[inner]])
    _must(np.array_equal(left == -1, right == -1) and np.array_equal(np.sort(children), np.arange(1, n)), "children")
    _must((children > np.tile(inner, 2)).all() and parents[0] == _NO_PARENT, "children")
    _must(np.array_equal(parents[children], np.tile(inner, 2)), "parents")
    feature = tree["split_indices"]
    _must((feature >= 0).all() and not tree["split_type"].any(), "split_indices")
    out = bytearray()
    _write(out, tree)
    return _Tree(tree["id"], n_features, int(feature.max()) + 1, out)


def _numbers(values: Any, kind: type, n: int) -> NDArray[Any]:
    """n finite numbers of this kind. Booleans are written as 0 and 1."""
    array = _as_array(values) if isinstance(values, list) else values
    _must(isinstance(array, np.ndarray) and array.shape == (n,), "numbers")
    _must(array.dtype.kind in {int: "i", float: "if", bool: "ib"}[kind], "numbers")
    limit = 2 if kind is bool else 2**31 if kind is int else float(np.finfo(np.float32).max)
    low = 0 if kind is bool else -limit
    _must(np.isfinite(array).all() and ((array >= low) & (array < limit)).all(), "numbers")
    return np.asarray(array)


# UBJSON ---------------------------------------------------------------------------------------------------------------


def _write(out: bytearray, value: Any, key: str = "") -> None:
    """Add a value in UBJSON. Trees are taken out of their list: each is needed once."""
    if isinstance(value, dict):
        out += b"{"
        for name, item in value.items():
            _write_text(out, name)
            _write(out, item, name)
        out += b"}"
    elif isinstance(value, str):
        out += b"S"
        _write_text(out, value)
    elif isinstance(value, int):
        out += b"L" + struct.pack(">q", value)
    elif isinstance(value, _Tree):
        out += value.raw
    elif key in _EMPTY or key in _PER_NODE:
        mark = _EMPTY[key] if key in _EMPTY else _PER_NODE[key][1]
        array = np.asarray(value, dtype=_DTYPES[mark])
        out += b"[$" + mark + b"#L" + struct.pack(">q", len(array)) + array.tobytes()
    else:
        items = value.tolist() if isinstance(value, np.ndarray) else value
        out += b"[#L" + struct.pack(">q", len(items))
        items.reverse()
        while items:
            _write(out, items.pop())


def _write_text(out: bytearray, text: str) -> None:
    raw = text.encode()
    out += b"L" + struct.pack(">q", len(raw)) + raw


def _is_text(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


def _keys(value: Any, *keys: str) -> dict[str, Any]:
    _must(isinstance(value, dict) and set(value) == set(keys), "keys")
    return dict(value)


def _must(holds: Any, what: str) -> None:
    if not holds:
        raise ModelFileError(f"its XGBoost model is invalid: {what}")
