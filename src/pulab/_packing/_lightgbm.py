"""Boosted trees of LightGBM: their text is checked in full before the library sees it.

LightGBM follows the numbers in a model file unchecked. A wrong one ends the process, which no exception handler can
prevent. So every line and every number is checked here, and nothing is accepted that a fit does not write.
"""

import re

import numpy as np
from numpy.typing import NDArray

from pulab.errors import ModelFileError


def _bytes(pattern: str) -> re.Pattern[bytes]:
    return re.compile(pattern.encode())


_INT = r"-?[0-9]{1,18}"
_FLOAT = r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]{1,3})?"
_HEAD = _bytes(
    r"tree\nversion=v[34]\nnum_class=1\nnum_tree_per_iteration=1\nlabel_index=0\nmax_feature_idx=([0-9]{1,9})\n"
    rf"(?:objective=(?:custom|cross_entropy|binary sigmoid:{_FLOAT})\n)?"
    rf"feature_names=(.*)\n(?:monotone_constraints=.*\n)?feature_infos=(.*)\ntree_sizes=({_INT}(?: {_INT})*)?\n\n"
)
_END = b"end of trees\n"
_TAIL = _bytes(
    r"end of trees\n(?:\nfeature_importances:\n(?:[^\n=]*=[0-9.e+-]+\n)*)?"
    r"(?:\nparameters:\n(?:\[\w+:[^\[\]\n]*\]\n)*\nend of parameters\n)?(?:\npandas_categorical:(?:null|\[\])\n)?\n*"
)
_FEATURE = _bytes(rf"none|\[{_FLOAT}:{_FLOAT}\]|{_INT}(?::{_INT})*")
# How many numbers a tree with n leaves has under each key: n, one for each inner node, or one.
_LEAF, _NODE, _ONE = "leaf", "node", "one"
_KEYS = {
    "num_leaves": (_ONE, _INT),
    "num_cat": (_ONE, "0"),
    "split_feature": (_NODE, _INT),
    "split_gain": (_NODE, rf"{_FLOAT}|-?inf"),
    "threshold": (_NODE, rf"{_FLOAT}|-?inf"),  # infinite: gaps go to one side, all numbers to the other
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
_PATTERNS = {key: _bytes(pattern) for key, (_, pattern) in _KEYS.items()}
_LEAVES = _bytes("[0-9]{1,6}")
MOST_LEAVES = 2**17  # that LightGBM grows
_INDICES = ("left_child", "right_child", "split_feature")
_OF_ONE_LEAF = ("leaf_weight", "leaf_count")  # empty in a tree without splits


class Checked(str):
    """A checked text for ``lightgbm.Booster``. LightGBM would encode a plain str, and have the text in memory twice.

    Its Python code looks only at the last line, which is the content of this str. Its compiled code gets ``raw``.
    """

    raw: bytes

    @classmethod
    def of(cls, raw: bytes) -> "Checked":
        text = cls(_END.decode())
        text.raw = raw
        return text

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        return self.raw


def check_lightgbm(raw: bytes) -> int:
    """Refuse a text that a fit does not write. Returns where its trees end.

    Trees with categories or linear leaves, which pulab never fits, are refused, too.
    """
    head = _HEAD.match(raw)
    if head is None:
        raise ModelFileError("its LightGBM model has an unknown header")
    head[0].decode()  # names are UTF-8
    n_features = int(head[1]) + 1
    infos = head[3].split(b" ")
    if len(head[2].split(b" ")) != n_features or len(infos) != n_features or not all(map(_FEATURE.fullmatch, infos)):
        raise ModelFileError("its LightGBM model has features that do not fit its header")
    at = head.end()
    for i, size in enumerate(map(int, (head[4] or b"").split())):
        if not 0 < size <= len(raw) - at:
            raise ModelFileError("its trees are cut off")
        _check_tree(raw, at, at + size, i, n_features)
        at += size
    tail = _TAIL.fullmatch(raw, at)
    if tail is None:
        raise ModelFileError("its LightGBM model has an unknown end")
    tail[0].decode()
    return at + len(_END)


def _check_tree(raw: bytes, start: int, end: int, i: int, n_features: int) -> None:
    """Check a tree. One line is split at a time: a split text takes ten times its size."""
    values: dict[str, tuple[int, int]] = {}
    while raw.endswith(b"\n", start, end):
        end -= 1
    first, at = f"Tree={i}\n".encode(), start
    known = raw.startswith(first, start, end)
    at = start + len(first)
    while known and at < end:
        stop = raw.find(b"\n", at, end)
        stop = end if stop < 0 else stop
        equals = raw.find(b"=", at, stop)
        key = raw[at : min(equals, at + 99)].decode()
        known = equals > 0 and key in _KEYS and key not in values
        values[key] = equals + 1, stop
        at = stop + 1
    if not known:
        raise ModelFileError("a tree in it has unknown lines")
    leaves = raw[slice(*values.get("num_leaves", (0, 0)))]
    n_leaves = int(leaves) if _LEAVES.fullmatch(leaves) else 0
    lengths = {_LEAF: n_leaves, _NODE: n_leaves - 1, _ONE: 1}
    for key, (per, _) in _KEYS.items():
        begin, stop = values.get(key, (0, 0))
        n = raw.count(b" ", begin, stop) + 1 if begin < stop else 0
        if n_leaves > MOST_LEAVES or (n != lengths[per] and not (n_leaves == 1 and n == 0 and key in _OF_ONE_LEAF)):
            raise ModelFileError(f"a tree in it is invalid: {n} numbers of {key}")
    indices = {}
    for key, (begin, stop) in values.items():
        tokens = raw[begin:stop].split(b" ") if begin < stop else []
        if not all(map(_PATTERNS[key].fullmatch, tokens)) or not np.isfinite(_floats(tokens, key)).all():
            raise ModelFileError(f"a tree in it has numbers of {key} that are not finite")
        if key in _INDICES:
            indices[key] = np.array(tokens, dtype=np.int64)
    _check_children(indices["left_child"], indices["right_child"])
    feature = indices["split_feature"]
    if not ((feature >= 0) & (feature < n_features)).all():
        raise ModelFileError("a tree in it uses features that do not exist")


def _floats(tokens: list[bytes], key: str) -> NDArray[np.float64]:
    """The numbers, without those that may be infinite."""
    may_be = key in ("split_gain", "threshold")
    return np.array([token for token in tokens if not (may_be and b"inf" in token)], dtype=np.float64)


def _check_children(left: NDArray[np.int64], right: NDArray[np.int64]) -> None:
    """Each inner node but the first, and each leaf (as −1 − leaf), is the child of exactly one node before it."""
    n = len(left)
    children = np.concatenate([left, right])
    rises = children > np.tile(np.arange(n), 2)
    expected = np.concatenate([np.arange(-n - 1, 0), np.arange(1, n)]) if n else np.array([])
    if not np.array_equal(np.sort(children), expected) or not rises[children >= 0].all():
        raise ModelFileError("a tree in it is invalid")
