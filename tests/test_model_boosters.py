"""Texts of boosted trees are checked in full before LightGBM or XGBoost sees them."""

import json
import re
import struct
import zipfile
from io import BytesIO
from typing import Any

import numpy as np
import pytest

from pulab._packing._lightgbm import check_lightgbm
from pulab._packing._skops import dumped
from pulab._packing._xgboost import checked_xgboost
from pulab.errors import ModelFileError

from .test_model_files import ROOT, S, X, changed, loaded, peak_of
from .test_persistence import fitted


def test_a_tree_of_lightgbm_cannot_fill_the_memory() -> None:
    text = fitted("nnpu-boosting").model_.model_to_string()
    lying = re.sub(r"leaf_value=\S+", "leaf_value=" + "12 " * 10**6, text, count=1)
    sizes = [len("Tree=" + tree) for tree in re.split(r"(?m)^Tree=", lying.split("end of trees")[0])[1:]]
    lying = re.sub(r"tree_sizes=.*", f"tree_sizes={' '.join(map(str, sizes))}", lying)
    assert peak_of(lambda: check_lightgbm(lying.encode())) < 2 * len(lying)
    with pytest.raises(ModelFileError, match="numbers of leaf_value"):
        check_lightgbm(lying.encode())


LIGHTGBM = (
    (r"num_leaves=\d+", "num_leaves=100000"),
    (r"num_leaves=\d+", "num_leaves=-1"),
    (r"num_cat=0", "num_cat=5"),
    (r"decision_type=\S+", "decision_type=1"),
    (r"threshold=\S+", "threshold=1e999"),
    (r"left_child=\S+", "left_child=0"),
    (r"right_child=\S+", "right_child=9999999"),
    (r"split_feature=\S+", "split_feature=9999"),
    (r"leaf_value=\S+ ", "leaf_value="),
    (r"leaf_value=\S+", "leaf_value=nan"),
    (r"is_linear=0", "is_linear=1"),
    (r"shrinkage=", "shrinkage=1\nshrinkage="),
    (r"max_feature_idx=\d+", "max_feature_idx=100000000"),
    (r"num_class=1", "num_class=3"),
    (r"(?=feature_names)", "objective=multiclass num_class:3\n"),
    (r"\[boosting: gbdt\]", "[boosting"),
    (r"end of parameters", "end"),  # refused at once: the check must not try every way to read the lines before
)


@pytest.mark.parametrize(("pattern", "lie"), LIGHTGBM)
def test_a_text_of_lightgbm_is_checked_line_by_line(pattern: str, lie: str) -> None:
    pytest.importorskip("lightgbm")
    text = fitted("nnpu-boosting").model_.model_to_string()
    check_lightgbm(text.encode())
    lying = re.sub(pattern, lie, text, count=1)
    assert lying != text
    sizes = [len("Tree=" + tree) for tree in re.split(r"(?m)^Tree=", lying.split("end of trees")[0])[1:]]
    lying = re.sub(r"tree_sizes=.*", f"tree_sizes={' '.join(map(str, sizes))}", lying)  # a liar who counts
    with pytest.raises(ModelFileError):
        check_lightgbm(lying.encode())


def test_a_text_of_lightgbm_within_skops_is_checked_too() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    raw = dumped(lightgbm.LGBMClassifier(n_estimators=2, verbose=-1).fit(X, S))
    assert len(loaded(raw).predict(X)) == len(X)
    with zipfile.ZipFile(BytesIO(raw)) as file:
        schema = file.read("schema.json").decode()
    lying = re.sub(r"(right_child=)\d+", r"\g<1>9", schema, count=1)
    assert lying != schema
    with pytest.raises(ModelFileError):
        loaded(changed(raw, **{"schema.json": lying.encode()}))


def from_ubjson(raw: bytes) -> Any:
    """The value of the part of UBJSON that XGBoost uses: https://ubjson.org. Numbers in arrays are single."""
    value, rest = _value(bytes(raw))
    assert rest == b""
    return value


def _value(raw: bytes) -> tuple[Any, bytes]:
    mark, raw = raw[:1], raw[1:]
    if mark == b"L":
        return struct.unpack(">q", raw[:8])[0], raw[8:]
    if mark == b"S":
        return _text(raw)
    if mark == b"{":
        found: dict[str, Any] = {}
        while not raw.startswith(b"}"):
            key, raw = _text(raw)
            found[key], raw = _value(raw)
        return found, raw[1:]
    assert mark == b"["
    if raw.startswith(b"$"):
        dtype = np.dtype({b"d": ">f4", b"U": "u1", b"l": ">i4", b"L": ">i8"}[raw[1:2]])
        n = struct.unpack(">q", raw[4:12])[0]
        end = 12 + n * dtype.itemsize
        return np.frombuffer(raw[12:end], dtype).tolist(), raw[end:]
    n, raw = struct.unpack(">q", raw[2:10])[0], raw[10:]
    items = []
    for _ in range(n):
        item, raw = _value(raw)
        items.append(item)
    return items, raw


def _text(raw: bytes) -> tuple[str, bytes]:
    end = 9 + struct.unpack(">q", raw[1:9])[0]
    return raw[9:end].decode(), raw[end:]


def single(value: Any) -> Any:
    """The same with numbers of single precision, as XGBoost reads them."""
    if isinstance(value, dict):
        return {key: single(item) for key, item in value.items()}
    if isinstance(value, list):
        return [single(item) for item in value]
    return float(np.float32(value)) if isinstance(value, float) else value


def test_a_model_of_xgboost_is_checked_and_written_anew() -> None:
    """XGBoost need not be installed: the fixture is what its version 3.2 writes."""
    text = (ROOT / "tests" / "data" / "xgboost.json").read_text()
    assert from_ubjson(checked_xgboost(text)) == single(json.loads(text))
    for pattern, lie in (
        (r'"left_children":\[1', '"left_children":[9'),
        (r'"left_children":\[1', '"left_children":[0'),
        (r'"right_children":\[2', '"right_children":[-1'),
        (r'"split_indices":\[0', '"split_indices":[99'),
        (r'"split_conditions":\[[^,]*', '"split_conditions":[1e999'),
        (r'"num_nodes":"3"', '"num_nodes":"300"'),
        (r'"num_trees":"2"', '"num_trees":"20"'),
        (r'"num_feature":"5"', '"num_feature":"500"'),
        (r'"num_class":"0"', '"num_class":"7"'),
        (r'"tree_info":\[0', '"tree_info":[5'),
        (r'"name":"gbtree"', '"name":"dart"'),
        (r'"categories":\[\]', '"categories":[1]'),
        (r'"split_type":\[0', '"split_type":[1'),
        (r'"parents":\[2147483647', '"parents":[1'),
        (r'"sum_hessian":\[[^]]*\]', '"sum_hessian":[]'),
        (r'"name":"binary:logistic"', '"name":"multi:softprob"'),
    ):
        lying = re.sub(pattern, lie, text, count=1)
        assert lying != text
        with pytest.raises((ModelFileError, ValueError)):
            checked_xgboost(lying)
