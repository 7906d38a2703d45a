"""Loading a model takes at most twice the size of its files, and 8 MiB. benchmarks/torture/memory.py has more kinds."""

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from pulab import ElkanNotoClassifier, NNPUClassifier, PUForestClassifier
from pulab._packing._objects import Maker
from pulab._packing._parts import part_of, read_arrays
from pulab._packing._skops import LOADERS
from pulab._packing._xgboost import checked_xgboost
from pulab.errors import ModelFileError
from pulab.estimators._pu_trees import LEAF
from pulab.persistence import save_model

from .test_model_files import ROOT, peak_of

MIB = 2**20


def data(rows: int, columns: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(rows, columns)).astype(np.float32), (rng.random(rows) < 0.3).astype(int)


def network(size: float) -> Any:
    X, s = data(20, int(size * 873) + 1)  # the first layer has 300 weights of 4 bytes for each column
    return NNPUClassifier(prior=0.5, epochs=1, random_state=0).fit(X, s)


def pu_forest(size: float) -> Any:
    """The trees of a small forest, many times."""
    model = PUForestClassifier(prior=0.5, n_estimators=2, random_state=0).fit(*data(1000, 5))
    trees = model.trees_
    n, times = len(trees.share), int(size * MIB / 29 / len(trees.share)) + 1  # 29 bytes a node
    moves = n * np.arange(times)[:, None]
    for name in ("left", "right"):
        children = getattr(trees, name)
        setattr(trees, name, np.where(children == LEAF, LEAF, children + moves).ravel().astype(np.int32))
    trees.roots = (trees.roots + moves).ravel()
    for name in ("feature", "threshold", "gaps_left", "share"):
        setattr(trees, name, np.tile(getattr(trees, name), times))
    return model


def random_forest(size: float) -> Any:
    model = ElkanNotoClassifier(RandomForestClassifier(2, random_state=0), prior=0.5, random_state=0).fit(
        *data(4000, 5)
    )
    forest = model.model_
    forest.estimators_ = [copy.deepcopy(tree) for tree in forest.estimators_ * (int(size * 3.7) + 1)]
    return model


KINDS = {"network": network, "pu-forest": pu_forest, "random forest": random_forest}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_loading_takes_at_most_twice_the_files(tmp_path: Path) -> None:
    folders = []
    for kind, make in KINDS.items():
        for size in (0.01, 15):
            folders.append(save_model(make(size), tmp_path / f"{kind} {size}"))
    command = [sys.executable, str(ROOT / "benchmarks" / "torture" / "memory.py"), "--peak", *map(str, folders)]
    one = os.environ | {"OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=one)
    assert done.returncode == 0, done.stderr
    sizes = [sum(path.stat().st_size for path in folder.iterdir()) / MIB for folder in folders[1::2]]
    for kind, size, peak in zip(KINDS, sizes, map(float, done.stdout.split()), strict=True):
        assert size > 10
        # Twice is promised. One more copy of the file would still keep that here, so less is asked for.
        assert size / 2 < peak < 1.25 * size + 5, (kind, size, peak)


def test_the_text_of_xgboost_never_becomes_objects_of_python() -> None:
    text = (ROOT / "tests" / "data" / "xgboost.json").read_text()
    model = json.loads(text)
    forest, n = model["learner"]["gradient_booster"]["model"], 1001
    left = np.where(np.arange(n) < n // 2, 2 * np.arange(n) + 1, -1)
    rng, trees = np.random.default_rng(0), []
    for i in range(50):
        tree = forest["trees"][0] | {key: [0] * n for key in ("default_left", "split_indices", "split_type")}
        tree |= {key: rng.random(n).round(7).tolist() for key in ("base_weights", "loss_changes", "split_conditions")}
        tree |= {"left_children": left.tolist(), "right_children": np.where(left < 0, -1, left + 1).tolist()}
        tree |= {"parents": [2**31 - 1, *((np.arange(1, n) - 1) // 2).tolist()], "sum_hessian": [1.5] * n, "id": i}
        tree["tree_param"] = tree["tree_param"] | {"num_nodes": str(n)}
        trees.append(tree)
    forest |= {"trees": trees, "tree_info": [0] * 50, "iteration_indptr": list(range(51))}
    forest["gbtree_model_param"]["num_trees"] = "50"
    text = json.dumps(model, separators=(",", ":"))
    assert len(checked_xgboost(text)) < len(text)
    assert peak_of(lambda: checked_xgboost(text)) < len(text)  # beside the text


# Forged files ---------------------------------------------------------------------------------------------------------


def arrays_file(header: Any, numbers: bytes = bytes(8)) -> bytes:
    raw = json.dumps(header).encode()
    return len(raw).to_bytes(8, "little") + raw + numbers


ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def test_a_header_of_arrays_must_tell_where_each_byte_is() -> None:
    assert read_arrays(part_of(arrays_file({"a": ENTRY})))["a"].tolist() == [0, 0]
    lies: list[Any] = [
        {"a": ENTRY | {"shape": [3]}},
        {"a": ENTRY | {"shape": [-1, -2]}},
        {"a": ENTRY | {"shape": [2**40], "data_offsets": [0, 2**42]}},
        {"a": ENTRY | {"data_offsets": [8, 16]}},
        {"a": ENTRY, "b": ENTRY},
        {"a": ENTRY | {"shape": [1], "data_offsets": [0, 4]}},
        {},
    ]
    for lie in lies:
        with pytest.raises(ModelFileError):
            read_arrays(part_of(arrays_file(lie)))
    with pytest.raises(ModelFileError, match="not of booleans"):
        read_arrays(part_of(arrays_file({"a": ENTRY | {"dtype": "BOOL", "shape": [8]}}, bytes(range(8)))))
    raw = arrays_file({"a": ENTRY})
    for cut in (raw[:-1], raw[:20], raw[:4], b"", raw + b"x", (2**63).to_bytes(8, "little") + raw[8:]):
        with pytest.raises(ModelFileError):
            read_arrays(part_of(cut))


def test_every_kind_of_node_can_be_made() -> None:
    assert all(callable(getattr(Maker, f"_{loader}")) for loader in LOADERS)


def test_a_checksum_is_of_the_whole_file_and_of_one_byte_more() -> None:
    """A file may grow while it is read: then the checksum is another one."""
    raw = os.urandom(3 * MIB)
    whole = part_of(raw)
    whole.read(100)
    other = part_of(raw + b"x")
    other.left -= 1
    same = part_of(raw)
    assert whole.checksum() == same.checksum() != other.checksum()
