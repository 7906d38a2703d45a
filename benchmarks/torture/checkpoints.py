"""Kill trainings with checkpoints and compare how they end: python benchmarks/torture/checkpoints.py 400 [KIND…].

A training is killed with SIGKILL, at a random moment or inside a save, and run again, up to five times. Then it runs to
its end. Weights, pseudo-labels, history, held-out scores and predictions must have the bits of a training that was
never touched. Every method is tried, and modules, optimisers and views with states of their own. The kind "tables"
stands for all methods without a network. The counts are printed and added to results/reliability/checkpoints.jsonl.
"""

import hashlib
import json
import os
import random
import shutil
import signal
import stat
import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from pulab import (
    BaggingPUClassifier,
    ElkanNotoClassifier,
    JointPUClassifier,
    JointViewsPUClassifier,
    PositiveKindsClassifier,
    TwoStepPUClassifier,
    _files,
)
from pulab.bench import append_row
from pulab.bench.runner import commit
from pulab.methods import METHODS
from pulab.training import checkpoint

ROWS = Path(os.environ.get("TORTURE_ROWS", Path(__file__).parents[2] / "results" / "reliability"))
IN_SAVE = 0.4  # share of kills inside a save
AT_MOST = 5  # kills of one training
KINDS = "several kinds"
BODIES = ".bodies"  # at the end of the name of a folder for self-supervised networks
Fit = Callable[[str | None], Any]  # from the path of a checkpoint, or none, to a fitted estimator


def norm_net() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 1))


class Draws(nn.Linear):
    """A module that draws random numbers by itself, in evaluation, too."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(nn.functional.dropout(x, 0.3))


def drawing_net() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 16), nn.ReLU(), Draws(16, 1))


def cases() -> dict[str, Fit]:
    """A fit of every network method, and fits of one method with other states to keep."""
    rng = np.random.default_rng(0)
    y = np.arange(300) < 120
    X = rng.normal(size=(300, 5)) + 2.0 * y[:, None]
    s = (y & (rng.random(300) < 0.5)).astype(int)
    images = rng.normal(size=(120, 1, 8, 8)) + y[60:180, None, None, None]
    shared = {"epochs": 6, "batch_size_u": 32, "random_state": 0}

    def fit(cls: Any, X: Any, s: Any, more: dict[str, Any], **params: Any) -> Fit:
        return lambda place: cls(**shared, **params, checkpoint=place).fit(X, s, **more)

    def of_method(key: str) -> Fit:
        method = METHODS[key]
        params = {"prior": 0.4} if method.needs_prior else {}
        negatives = {"X_negative": X[~y][:40]} if method.needs_negatives else {}
        params |= {"rho": 0.2} if method.needs_negatives else {}
        return fit(method.load(), X, y.astype(int) if method.learns_from_truth else s, negatives, **params)

    joint = {"prior": 0.4, "e_start": 2, "r": 3}
    views = {"pretrain_epochs": 2, "pretrain_batch_size": 32, "augment": "digits"}

    def with_bodies(place: str | None) -> Any:
        """A checkpoint of the second training, and a folder of half-trained networks of the first one."""
        bodies = None if place is None else Path(f"{place}{BODIES}")
        if bodies is not None:
            bodies.mkdir(exist_ok=True)
        clf = JointViewsPUClassifier(**shared, **joint, **views, checkpoint=place, pretrain_cache=bodies)
        return clf.set_params(epochs=2).fit(images, s[60:180])

    return (
        tables(X, s)
        | {key: of_method(key) for key, method in METHODS.items() if method.is_network}
        | {
            "BatchNorm": fit(JointPUClassifier, X, s, {}, module=norm_net, **joint),
            "own draws": fit(JointPUClassifier, X, s, {}, module=drawing_net, **joint),
            "SGD, cosine": fit(
                JointPUClassifier, X, s, {}, optimizer="sgd", lr_schedule="cosine", lr_warmup=1, **joint
            ),
            "AdamW": fit(JointPUClassifier, X, s, {}, optimizer="adamw", **joint),
            "images, augmented": fit(JointPUClassifier, images, s[60:180], {}, augment="digits", **joint),
            "self-supervised": fit(JointViewsPUClassifier, X, s, {}, **joint, **views | {"augment": "noise"}),
            "self-supervised, cached": with_bodies,
        }
    )


def tables(X: Any, s: Any) -> dict[str, Fit]:
    """A fit of every method without a network, and fits with other pieces."""

    def fit(cls: Any, y: Any = s, **params: Any) -> Fit:
        return lambda place: cls(**params, random_state=0, checkpoint=place).fit(X, y)

    def of_method(key: str) -> Fit:
        few = {"n_estimators": 10} if hasattr(METHODS[key].load(), "n_estimators") else {}
        few |= {"propensity_features": [0], "max_rounds": 10} if key == "sar-em" else {}
        return fit(METHODS[key].load(), prior=0.4, **few)

    steps = make_pipeline(StandardScaler(), TwoStepPUClassifier())
    return {key: of_method(key) for key, method in METHODS.items() if not method.is_network} | {
        "bags in threads": fit(BaggingPUClassifier, prior=0.4, n_estimators=20, n_jobs=2),
        "weights of Elkan and Noto": fit(ElkanNotoClassifier, prior=0.4, form="weights", estimator=GaussianNB()),
        KINDS: fit(PositiveKindsClassifier, s * (1 + np.arange(len(s)) % 2), estimator=steps, priors={1: 0.2, 2: 0.2}),
    }


def bits(clf: Any) -> str:
    """A checksum of all that a fit leaves."""
    digest = hashlib.sha256()
    for name in ("sigma_module_", "module_"):
        for tensor in getattr(clf, name).state_dict().values() if hasattr(clf, name) else ():
            digest.update(tensor.contiguous().numpy().tobytes())
    rows = np.random.default_rng(1).normal(size=(50, *getattr(clf, "row_shape_", (5,))))
    torch.manual_seed(0)  # a module may draw random numbers when it predicts
    kept = [getattr(clf, name, np.empty(0)) for name in ("pseudo_labels_", "scores_")]
    for array in (clf.predict_proba(rows), *kept):
        digest.update(np.ascontiguousarray(array).tobytes())
    histories = [getattr(clf, name, None) for name in ("history_", "sigma_history_", "pretrain_history_")]
    histories.append(getattr(clf, "best_epoch_", None))
    digest.update(json.dumps(histories, sort_keys=True).encode())
    return digest.hexdigest()


def child(fit: Fit, place: str | None, pipe: int, seed: int | None) -> int:
    """Fit in another process, which tells the bits of the result. With a seed it may kill itself inside a save."""
    number = os.fork()
    if number == 0:
        try:
            rng = random.Random(seed)
            checkpoint.SECONDS, checkpoint.SHARE, checkpoint.LEAST = rng.choice([0, 0, 0.02, 0.1]), 1e9, 0
            if seed is not None:
                die_in_save(rng)
            os.write(pipe, bits(fit(place)).encode())
            os._exit(0)
        finally:
            os._exit(1)
    return number


def die_in_save(rng: random.Random) -> None:
    """Die in one of the next saves: when a part of the file is written, or beside its flush or its rename."""
    to_bytes, replace, fsync = checkpoint._to_bytes, Path.replace, os.fsync
    left, where = iter(range(rng.randrange(25))), rng.choice(["begin", "part", "flush", "before", "after"])

    def die(at: str, last: Callable[[], None] = lambda: None) -> None:
        if at == where and next(left, None) is None:
            last()
            os.kill(os.getpid(), signal.SIGKILL)

    def packed(*content: Any) -> bytes:
        die("begin")
        return to_bytes(*content)

    def flushed(file: int) -> None:
        if stat.S_ISREG(os.fstat(file).st_mode):  # not the folder: the disk has a part of the file
            die("part", lambda: os.ftruncate(file, rng.randrange(os.fstat(file).st_size + 1)))
        fsync(file)
        die("flush")

    def renamed(path: Path, target: Path) -> Path:
        die("before")
        moved = replace(path, target)
        die("after")
        return moved

    checkpoint._to_bytes, Path.replace, _files.os.fsync = packed, renamed, flushed  # type: ignore[method-assign]


def torture(name: str, fit: Fit, folder: Path, rng: random.Random, kills: int) -> Counter[str]:
    """Kill trainings of one kind this many times. Every one of them is brought to its end."""
    inbox, pipe = os.pipe()

    def ended(number: int) -> str:
        status = os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
        return os.read(inbox, 64).decode() if status == 0 else f"exit {status}"

    untouched = bits(fit(None))  # the first one also loads what torch loads late, so that children need not
    start = time.monotonic()
    again = bits(fit(None))
    seconds = 6 * (time.monotonic() - start)  # saves take time
    counts: Counter[str] = Counter(different=int(again != untouched))
    place = folder / "a.checkpoint"
    while counts["kills"] < kills:
        for _ in range(rng.randint(1, AT_MOST)):
            in_save = rng.random() < IN_SAVE
            number = child(fit, str(place), pipe, rng.getrandbits(32) if in_save else None)
            if not in_save:
                time.sleep(rng.uniform(0, seconds))
                os.kill(number, signal.SIGKILL)
            result = ended(number)
            if result != "exit -9":  # it was faster
                counts.update(trainings=1, different=int(result != untouched))
                break
            position = _position(place)
            counts.update(
                kills=1,
                in_save=int(in_save),
                mid_epoch=int("step" in position),
                with_file=int(bool(position)),
            )
        else:
            result = ended(child(fit, str(place), pipe, None))
            counts.update(trainings=1, different=int(result != untouched))
        counts.update(leftovers=sum(not path.name.endswith(BODIES) for path in folder.iterdir()))
        for path in folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    os.close(inbox)
    os.close(pipe)
    print(f"{name}: " + "  ".join(f"{key}={value}" for key, value in counts.items()), flush=True)
    return counts


def _position(place: Path) -> str:
    """Where the training stands that a file holds: its newest network's."""
    bodies = Path(f"{place}{BODIES}").glob("*.checkpoint")
    files = [path for path in (Path(f"{place}.2"), place, *bodies, *place.glob("*.checkpoint")) if path.is_file()]
    return str(checkpoint._from_bytes(files[0].read_bytes())[0]["position"]) if files else ""


def main(kills: int, names: list[str]) -> int:
    torch.set_num_threads(1)
    start, counts = time.perf_counter(), Counter[str]()
    kinds, rng = cases(), random.Random(0)
    whole = {"tables": [name for name in kinds if name in tables(None, np.zeros(9, dtype=int))]}
    whole["networks"] = [name for name in kinds if name not in whole["tables"]]
    kinds = {kind: kinds[kind] for name in names or kinds for kind in whole.get(name, [name])}
    for name, fit in kinds.items():
        with TemporaryDirectory() as folder:
            counts.update(torture(name, fit, Path(folder), rng, -(-kills // len(kinds))))
    seconds = round(time.perf_counter() - start)
    topic = {"topic": "killed fits of methods for tables"} if names == ["tables"] else {}
    row = {**topic, "torture": "checkpoints", "kinds": len(kinds), **counts, "seconds": seconds, "commit": commit()}
    print("  ".join(f"{name}={value}" for name, value in row.items()), flush=True)
    append_row(ROWS / "checkpoints.jsonl", {**row, "time": datetime.now(UTC).isoformat(timespec="seconds")})
    return int(counts["different"] + counts["leftovers"] > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
