"""The most memory that loading a model takes: python benchmarks/torture/memory.py [KIND …].

For each kind of file a process of its own makes a large model and a tiny one. A fresh process loads the tiny one, which
imports all libraries, and then the large one. The peak is the highest resident memory during the second load, minus the
resident memory before it. Each kind gets a row in results/reliability/memory.jsonl. Linux only.
"""

import argparse
import ctypes
import gc
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pulab.bench.runner import commit
from pulab.bench.store import append_row

ROWS = Path(__file__).parents[2] / "results" / "reliability" / "memory.jsonl"
MIB = 2**20
# The limit: RATIO times the files plus SPARE MiB. SPARE is for what the heap of a process keeps, for read buffers, and
# for code and tables of libraries that only a large model needs.
RATIO, SPARE = 2, 8


# Models ---------------------------------------------------------------------------------------------------------------


def data(rows: int, columns: int) -> tuple[Any, Any]:
    """Noise: nothing stops trees from growing."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(rows, columns)).astype(np.float32), (rng.random(rows) < 0.3).astype(int)


def network(size: float) -> Any:
    from pulab import NNPUClassifier

    X, s = data(20, int(size * 873) + 1)  # 300 weights of 4 bytes for each column
    return NNPUClassifier(prior=0.5, epochs=1, random_state=0).fit(X, s)


def own_module(size: float) -> Any:
    from pulab import NNPUClassifier

    X, s = data(20, int(size * 873) + 1)
    return NNPUClassifier(prior=0.5, module=own_net(X.shape[1]), epochs=1, random_state=0).fit(X, s)


def own_net(columns: int) -> Any:
    from torch import nn

    return nn.Sequential(nn.Linear(columns, 300), nn.ReLU(), nn.Linear(300, 1))


def pu_forest(size: float) -> Any:
    from pulab import PUForestClassifier

    X, s = data(4000, 5)
    return PUForestClassifier(prior=0.5, n_estimators=int(size * 15) + 1, random_state=0).fit(X, s)


def bagged_forest(size: float) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    from pulab import BaggingPUClassifier

    X, s = data(3000, 5)
    forest = RandomForestClassifier(int(size * 6) + 1)
    return BaggingPUClassifier(forest, n_estimators=2, prior=0.3, random_state=0).fit(X, s)


def one_forest(size: float) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    from pulab import ElkanNotoClassifier

    X, s = data(4000, 5)
    return ElkanNotoClassifier(RandomForestClassifier(int(size * 5) + 1), prior=0.5, random_state=0).fit(X, s)


def bagged_trees(size: float) -> Any:
    from pulab import BaggingPUClassifier

    X, s = data(1000, 5)
    return BaggingPUClassifier(n_estimators=int(size * 25) + 1, prior=0.3, random_state=0).fit(X, s)


def isolation_forest(size: float) -> Any:
    from pulab.methods import METHODS

    X, s = data(3000, 5)
    return METHODS["isolation-forest"].load()(prior=0.3, n_estimators=int(size * 30) + 1, random_state=0).fit(X, s)


def hist_boosting(size: float) -> Any:
    from pulab import BoostingPUClassifier

    X, s = data(4000, 5)
    return BoostingPUClassifier(
        backend="scikit-learn",
        prior=0.5,
        n_estimators=int(size * 30) + 1,
        num_leaves=1000,
        min_child_samples=1,
        random_state=0,
    ).fit(X, s)


def boosting(backend: str, trees_per_mib: float) -> Callable[[float], Any]:
    def make(size: float) -> Any:
        from pulab import BoostingPUClassifier

        X, s = data(4000, 5)
        return BoostingPUClassifier(
            backend=backend,
            prior=0.5,
            n_estimators=int(size * trees_per_mib) + 1,
            num_leaves=1000,
            min_child_samples=1,
            random_state=0,
        ).fit(X, s)

    return make


def table(size: float) -> Any:
    """Texts of high cardinality, whose parts of words are the vocabulary of an encoder."""
    import polars as pl

    from pulab.tables import fit_table

    rng = np.random.default_rng(0)
    rows = int(size * 1000) + 100
    words = ["".join(word) for word in rng.choice(list("abcdefghijklmnopqrstuvwxyz"), (rows, 8))]
    frame = {"a": rng.normal(size=rows), "w": words, "s": rng.random(rows) < 0.3}
    return fit_table(pl.DataFrame(frame), "s", method="elkan-noto")


KINDS: dict[str, tuple[float, Callable[[float], Any]]] = {
    "network": (100, network),
    "network, own module": (100, own_module),
    "pu-forest": (25, pu_forest),
    "bagging of random forests": (25, bagged_forest),
    "random forest": (25, one_forest),
    "bagging of trees": (25, bagged_trees),
    "isolation forest": (25, isolation_forest),
    "histogram boosting": (20, hist_boosting),
    "LightGBM": (20, boosting("lightgbm", 25)),
    "XGBoost": (20, boosting("xgboost", 20)),
    "table model": (20, table),
}


def save(kind: str, size: float, folder: Path) -> None:
    """Save a model of about so many MiB."""
    from pulab.persistence import save_model

    warnings.simplefilter("ignore")
    model = KINDS[kind][1](size)
    if hasattr(model, "summary"):
        model.save(folder)
    else:
        save_model(model, folder)


# Measure --------------------------------------------------------------------------------------------------------------


def load(folder: Path, module: Any = None) -> Any:
    from pulab.persistence import load_model
    from pulab.tables import TableModel

    is_table = json.loads((folder / "model.json").read_bytes())["kind"] == "table model"
    return TableModel.load(folder) if is_table else load_model(folder, module=module)


def module_for(folder: Path) -> Any:
    """The module that a user passes, if the model needs one. It is there before the model is loaded."""
    state = json.loads((folder / "model.json").read_bytes()).get("model", {}).get("object", {}).get("state", {})
    return own_net(state["row_shape_"]["tuple"][0]) if state.get("module") else None


def memory(name: str) -> int:
    """The resident memory of this process in bytes: VmRSS now, VmHWM at its highest."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) * 1024


def peak_of_load(tiny: Path, large: Path) -> float:
    """MiB at the peak of loading the large model beyond what the process had before."""
    load(tiny, module_for(tiny))
    module = module_for(large)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # memory that is free already must not be used for the load
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the highest value is counted from here
    model = load(large, module)
    assert model is not None
    return (memory("VmHWM") - before) / MIB


def measured(kind: str, size: float | None = None) -> dict[str, Any]:
    """Make and measure a model of this kind in processes of their own."""
    with tempfile.TemporaryDirectory() as place:
        tiny, large = Path(place, "tiny"), Path(place, "large")
        run("--save", kind, "0.01", str(tiny))
        run("--save", kind, str(size or KINDS[kind][0]), str(large))
        of_files = sum(path.stat().st_size for path in large.iterdir()) / MIB
        peak = float(run("--peak", str(tiny), str(large)))
    numbers = {"MiB of the files": of_files, "MiB at the peak": peak, "ratio": peak / of_files}
    return {"kind": kind, **{name: float(f"{value:.5g}") for name, value in numbers.items()}, "commit": commit()}


def run(*arguments: str) -> str:
    # Every thread of malloc may keep a heap of its own: with one thread and one heap the number is the same each time.
    one = os.environ | {"OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
    done = subprocess.run(
        [sys.executable, __file__, *arguments], env=one, text=True, stdout=subprocess.PIPE, check=True
    )
    return done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("kinds", nargs="*", default=[], help=f"of {', '.join(KINDS)}")
    parser.add_argument("--no-row", action="store_true", help="print only")
    parser.add_argument("--save", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--peak", nargs="+", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.save:
        save(asked.save[0], float(asked.save[1]), Path(asked.save[2]))
        return 0
    if asked.peak:
        for tiny, large in zip(asked.peak[::2], asked.peak[1::2], strict=True):
            print(peak_of_load(Path(tiny), Path(large)), flush=True)
        return 0
    too_much = False
    for kind in asked.kinds or KINDS:
        row = measured(kind)
        print(json.dumps(row), flush=True)
        too_much |= row["MiB at the peak"] > RATIO * row["MiB of the files"] + SPARE
        if not asked.no_row:
            append_row(ROWS, row)
    return int(too_much)


if __name__ == "__main__":
    sys.exit(main())
