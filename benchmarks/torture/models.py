"""Model files under attack: mutated files, and processes killed while they save.

``python benchmarks/torture/models.py N`` mutates N model folders, with their checksums made anew for most of them, and
loads each in a process whose memory is limited. A case ends well if the model loads and predicts, if loading raises
ModelFileError, or if a forged number gives infinite scores and ``predict`` says so. Anything else is a failure: another
exception, a crash, a hang.

``python benchmarks/torture/models.py --kills N`` kills a saving process N times and loads the model each time, while
another process loads it again and again.

Each prints its counts, and adds them as a row to results/reliability/models.jsonl.
"""

import argparse
import faulthandler
import io
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from pulab.bench.runner import commit
from pulab.errors import InputError, ModelFileError
from pulab.persistence import load_model, save_model
from pulab.persistence._folder import _canonical, _checksum

ROWS = Path(__file__).parents[2] / "results" / "reliability" / "models.jsonl"
MEMORY = 2**28  # that a load may take beyond what the process has
SECONDS = 60  # for one case
WELL = ("loaded and predicts", "scores refused", "ModelFileError")
TABLES = ("table", "strata")
LIES: list[Any] = [
    -1,
    0,
    1,
    -2,
    3,
    2**31 - 1,
    2**31,
    2**63,
    10**12,
    10**400,
    1e308,
    -1e308,
    0.5,
    True,
    None,
    "",
    "x",
    [],
    {},
]
LIES += [[0], [[[[]]]], {"float": "nan"}, {"array": "array-0"}, {"tuple": [10**9]}, "a" * 10**5]
NUMBERS = [
    "-1",
    "0",
    "-2",
    "7",
    "1000000",
    "2147483647",
    "4294967296",
    "99999999999999999999",
    "1e308",
    "1e999",
    "nan",
    "inf",
]


# Models ---------------------------------------------------------------------------------------------------------------


def data() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    return X, ((X[:, 0] > 0) & (rng.random(400) < 0.5)).astype(int)


def make_models(folder: Path) -> None:
    """One model of each kind of file."""
    import polars as pl
    from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.svm import SVC

    from pulab import BaggingPUClassifier, ElkanNotoClassifier, NNPUClassifier
    from pulab.tables import fit_table

    X, s = data()
    learners: dict[str, Any] = {
        "hist": HistGradientBoostingClassifier(max_iter=3, random_state=0),
        "boosting": GradientBoostingClassifier(n_estimators=3, random_state=0),
        "forest": RandomForestClassifier(n_estimators=3, random_state=0),
        "svc": SVC(),
        "linear": None,
    }
    for name, learner in learners.items():
        save_model(ElkanNotoClassifier(learner, prior=0.5, random_state=0).fit(X, s), folder / name)
    save_model(BaggingPUClassifier(n_estimators=2, prior=0.5, random_state=0).fit(X, s), folder / "bagging")
    save_model(NNPUClassifier(prior=0.5, epochs=1, random_state=0).fit(X, s), folder / "network")
    try:
        import lightgbm

        from pulab import NNPUBoostingClassifier

        save_model(
            NNPUBoostingClassifier(backend="lightgbm", prior=0.5, n_estimators=5, random_state=0).fit(X, s),
            folder / "lightgbm",
        )
        learner = lightgbm.LGBMClassifier(n_estimators=3, verbose=-1)
        save_model(
            BaggingPUClassifier(learner, n_estimators=2, prior=0.5, random_state=0).fit(X, s), folder / "lightgbm-skops"
        )
    except ImportError:
        print("lightgbm is not installed: its files are left out")
    try:
        import xgboost as xgboost

        model = NNPUBoostingClassifier(backend="xgboost", prior=0.5, n_estimators=5, random_state=0).fit(X, s)
        save_model(model, folder / "xgboost")
    except ImportError:
        print("xgboost is not installed: its files are left out")
    words = ["red", "green", "blue"]
    table = pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "w": [words[i % 3] for i in range(400)], "s": s})
    fit_table(table, "s", method="elkan-noto").save(folder / "table")
    fit_table(table, "s", method="elkan-noto", prior=0.4, labelled_by=["w"]).save(folder / "strata")


# Mutations ------------------------------------------------------------------------------------------------------------


def bits(raw: bytes, rng: random.Random) -> bytes:
    """Some bits, bytes or a piece changed; or the end cut off."""
    if not raw:
        return b"\0"
    changed = bytearray(raw)
    at = rng.randrange(len(raw))
    kind = rng.randrange(5)
    if kind == 0:
        return raw[:at]
    if kind == 1:
        for _ in range(rng.choice([1, 1, 8])):
            changed[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
    elif kind == 2:
        changed[at : at + rng.choice([1, 4, 8])] = rng.choice([b"\xff" * 8, b"\0" * 8, b"\x7f\xff\xff\xff"])
    elif kind == 3:
        piece = changed[at : at + rng.randrange(1, 200)]
        changed[rng.randrange(len(raw)) : 0] = piece
    else:
        del changed[at : at + rng.randrange(1, 50)]
    return bytes(changed)


def number(raw: bytes, rng: random.Random) -> bytes:
    """Another number in a text."""
    found = list(re.finditer(rb"-?\d+(\.\d+)?(e[+-]?\d+)?", raw))
    if not found:
        return bits(raw, rng)
    place = rng.choice(found)
    return raw[: place.start()] + rng.choice(NUMBERS).encode() + raw[place.end() :]


def leaf(value: Any, rng: random.Random) -> Any:
    """A JSON value in which one place, at any depth, holds a lie, or is gone, or is there twice."""
    if isinstance(value, dict | list) and value and rng.random() < 0.9:
        key = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
        copy: Any = value.copy()
        how = rng.random()
        if how < 0.05:
            del copy[key]
        elif how < 0.1 and isinstance(copy, list):
            copy.append(copy[key])
        else:
            copy[key] = leaf(value[key], rng)
        return copy
    return rng.choice(LIES)


def arrays(raw: bytes, rng: random.Random) -> bytes:
    """A safetensors file whose header lies about shapes, types, or offsets."""
    n = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + n])
    names = [name for name in header if name != "__metadata__"]
    entry = header[rng.choice(names)] if names else {}
    kind = rng.choice(["shape", "dtype", "data_offsets", "other", "size"])
    if kind == "shape":
        entry[kind] = rng.choice([[], [0], [10**12], [2**63], entry.get("shape", []) * 2, [-1]])
    elif kind == "dtype":
        entry[kind] = rng.choice(["F32", "F64", "I64", "U8", "BOOL", "BF16", "X"])
    elif kind == "data_offsets":
        entry[kind] = rng.choice([[0, 8], [0, 2**62], [8, 0], header[names[0]]["data_offsets"]])
    else:
        header = leaf(header, rng)
    text = json.dumps(header).encode()
    size = rng.choice([2**63, 2**40, 0, len(text) + 8]) if kind == "size" else len(text)
    return size.to_bytes(8, "little") + text + raw[8 + n :]


def skops(raw: bytes, rng: random.Random) -> bytes:
    """A skops file with a lie in its schema or in one of its arrays; or a bomb."""
    with zipfile.ZipFile(io.BytesIO(raw)) as file:
        members = {name: file.read(name) for name in file.namelist()}
    name = rng.choice(["schema.json", "schema.json", *members])
    kind = rng.randrange(7)
    out = io.BytesIO()
    if kind == 0:
        bombed = rng.choice(["bomb.npy", "schema.json", min(members)])
        members.pop(bombed, None)
        out = io.BytesIO(bomb(bombed))
    elif name == "schema.json":
        text = members[name]
        if kind < 4:
            members[name] = number(text, rng)
        elif kind == 4:
            members[name] = json.dumps(leaf(json.loads(text), rng)).encode()
        else:  # another type, or another way to make it
            words = list(re.finditer(rb'"__(class|module|loader)__": "([^"]*)"', text))
            one, other = rng.choice(words), rng.choice(words)
            members[name] = text[: one.start(2)] + other[2] + text[one.end(2) :]
    elif kind < 3:
        members[name] = number(members[name][:128], rng) + members[name][128:]  # the header
    else:
        members[name] = members[name][:128] + bits(members[name][128:], rng)
    with zipfile.ZipFile(out, "a", zipfile.ZIP_STORED if rng.random() < 0.9 else zipfile.ZIP_DEFLATED) as file:
        for key, content in members.items():
            file.writestr(key, content)
    return out.getvalue()


@cache
def bomb(name: str) -> bytes:
    """A zip file whose only member grows to the memory that a load may take. It is made once: this takes a second."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(name, bytes(MEMORY))
    return out.getvalue()


def mutate(folder: Path, rng: random.Random) -> str:
    """Change one model folder. Returns what was done."""
    document = json.loads((folder / "model.json").read_bytes())
    kind = rng.choice(["bits", "part", "part", "part", "part", "document", "document", "names", "odd", "deep"])
    part = folder / rng.choice(sorted(document["files"]))
    sign = kind != "bits"
    if kind == "bits":
        path = rng.choice(sorted(folder.iterdir()))
        path.write_bytes(bits(path.read_bytes(), rng))
        sign = path.name != "model.json" and rng.random() < 0.7
    elif kind == "part":
        raw = part.read_bytes()
        how = {".safetensors": arrays, ".skops": skops}.get(part.suffix, number)
        part.write_bytes(rng.choice([how, how, how, bits])(raw, rng))
    elif kind == "document":
        files = document["files"]
        document = leaf({key: value for key, value in document.items() if key != "checksum"}, rng)
        document = {**document, "files": files} if isinstance(document, dict) else {"files": files}
    elif kind == "names":
        name = rng.choice(
            ["../../../etc/passwd", "/etc/passwd", "part-0.skops/../model.json", "..", "", "\0", "a" * 300]
        )
        document["files"] = {**document["files"], name: "0"}
        document.pop("checksum")
        document["checksum"] = _checksum(_canonical(document))
        (folder / "model.json").write_text(json.dumps(document))
        sign = False
    elif kind == "odd":
        part.unlink()
        how = rng.choice(["pipe", "zero", "folder", "pickle"])
        if how == "pipe":
            os.mkfifo(part)
        elif how == "zero":
            part.symlink_to("/dev/zero")
        elif how == "folder":
            part.mkdir()
        else:
            part.write_bytes(b"cos\nsystem\n(S'touch exploded'\ntR.")
        sign = how == "pickle"
    else:
        text = rng.choice(["[" * 10**6, '{"a":' * 10**5, "[" + "[]," * 10**7])
        (folder / "model.json").write_text('{"format": 3, "kind": ' + text)
        sign = False
    if sign:
        signed(folder, document)
    return f"{kind} {part.suffix}" if kind == "part" else kind


def signed(folder: Path, document: dict[str, Any]) -> None:
    """Make the checksums anew, as an attacker would."""
    document.pop("checksum", None)
    document["files"] = {name: _checksum((folder / name).read_bytes()) for name in document["files"]}
    document["checksum"] = _checksum(_canonical(document))
    (folder / "model.json").write_text(json.dumps(document))


# Cases ----------------------------------------------------------------------------------------------------------------


def use(folder: Path, is_table: bool) -> None:
    """Load a model and do all that the commands do with it."""
    X, _ = data()
    X = np.vstack([X, X * 1e6])
    if not is_table:
        shares = np.asarray(load_model(folder).predict_proba(X))
        assert shares.shape == (len(X), 2)
        return
    import polars as pl

    from pulab.review import Answers, measured
    from pulab.tables import TableModel

    model = TableModel.load(folder)
    watch = model.watch()
    table = pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "w": ["red"] * len(X)})
    assert sum(piece.height for piece in model.score_batches(table, watch)) == len(X)
    watch.lines()
    model.report()
    if model.draw is not None:
        measured(Answers(model.draw, [(place, "yes") for place in range(3)]), model.summary)


def worker(models: Path, first: int, last: int, seed: int) -> None:
    """Run cases in a process of limited memory. Prints a line before and after each."""
    warnings.simplefilter("ignore")
    faulthandler.register(signal.SIGALRM, chain=True)  # says where a case hangs
    for path in models.iterdir():  # imports all that is needed: torch alone would not fit into the limit
        use(path, path.name in TABLES)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    limits = {True: (used + MEMORY, resource.RLIM_INFINITY), False: (resource.RLIM_INFINITY, resource.RLIM_INFINITY)}
    names = sorted(path.name for path in models.iterdir())
    names = [name for name in names for _ in range(1 if name in TABLES else 4)]  # a table takes ten times as long
    for case in range(first, last):
        rng = random.Random(f"{seed}-{case}")
        name = rng.choice(names)
        with tempfile.TemporaryDirectory(dir=models.parent) as place:
            folder = Path(place) / "model"
            shutil.copytree(models / name, folder)
            what = f"{name} {mutate(folder, rng)}"
            print(json.dumps([case, what]), flush=True)
            signal.alarm(SECONDS)
            resource.setrlimit(resource.RLIMIT_AS, limits[True])
            try:
                use(folder, name in TABLES)
                outcome = "loaded and predicts"
            except ModelFileError:
                outcome = "ModelFileError"
            except InputError as error:  # by predict
                outcome = "scores refused" if "scores must be finite" in str(error) else f"InputError: {error}"
            except BaseException as error:
                outcome = f"{type(error).__name__}: {' '.join(str(error).split())[:150]}"
            signal.alarm(0)
            resource.setrlimit(resource.RLIMIT_AS, limits[False])
            print(json.dumps([case, what, outcome]), flush=True)


def outcomes(models: Path, first: int, last: int, seed: int) -> Counter[str]:
    """Count how these cases end. A process that dies in one is followed by another, which begins with the next."""
    counts: Counter[str] = Counter()
    case, what = first, "start"
    while case < last:
        command = [sys.executable, str(Path(__file__).resolve()), "--seed", str(seed)]
        command += ["--worker", str(models), str(case), str(last)]
        one_arena = os.environ | {"MALLOC_ARENA_MAX": "1"}  # each takes 64 MiB of addresses, which are limited
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=models.parent, env=one_arena)
        assert process.stdout is not None
        for line in process.stdout:
            case, what, *outcome = json.loads(line)
            if outcome:
                well = outcome[0] in WELL
                counts[outcome[0] if well else "other"] += 1
                if not well:
                    print([case, what, outcome[0]], flush=True)
                case += 1
        if process.wait() != 0:
            counts["other"] += 1
            print([case, what, f"the process ended with {process.returncode}"], flush=True)
            case += 1
    return counts


def mutations(n: int, seed: int, jobs: int) -> dict[str, Any]:
    """Count how n mutated models end. Each of the jobs has an equal part of them."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(jobs) as pool:
        models = Path(place) / "models"
        models.mkdir()
        make_models(models)
        ends = [n * i // jobs for i in range(jobs + 1)]
        counts = sum(pool.map(lambda part: outcomes(models, *part, seed), pairwise(ends)), Counter[str]())
        exploded = (Path(place) / "exploded").exists()
    return {
        "topic": "mutated model files",
        "cases": n,
        "seed": seed,
        **{key: counts[key] for key in (*WELL, "other")},
        "code run": exploded,
        "memory": MEMORY,
        "seconds": round(time.perf_counter() - start),
        "commit": commit(),
    }


# Kills ----------------------------------------------------------------------------------------------------------------


def kills(n: int, seed: int) -> dict[str, Any]:
    """Kill a process that replaces a model again and again. The model must always be there and whole."""
    from pulab import ElkanNotoClassifier

    X, s = data()
    rng = random.Random(seed)
    model = ElkanNotoClassifier(prior=0.5, random_state=0).fit(X, s)
    lost = reads = 0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "model"
        expected = load_model(save_model(model, folder)).predict_proba(X)
        for _ in range(n):
            child = os.fork()
            if child == 0:
                while True:
                    save_model(model, folder)
            end = time.monotonic() + rng.uniform(0.02, 0.15)
            while time.monotonic() < end:  # reads beside the writer
                lost += not _is_whole(folder, X, expected)
                reads += 1
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            lost += not _is_whole(folder, X, expected)
            reads += 1
        save_model(model, folder)
        left = sorted(path.name for path in Path(place).iterdir() if path != folder)
    return {"topic": "killed saves", "kills": n, "seed": seed, "reads": reads, "failed": lost, "leftovers": len(left)}


def _is_whole(folder: Path, X: Any, expected: Any) -> bool:
    try:
        return bool((load_model(folder).predict_proba(X) == expected).all())
    except ModelFileError as error:
        print(error, flush=True)
        return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("n", nargs="?", type=int, default=0, help="mutated models")
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes that load models at the same time")
    parser.add_argument("--no-row", action="store_true", help="print only")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.worker:
        worker(Path(asked.worker[0]), int(asked.worker[1]), int(asked.worker[2]), asked.seed)
        return 0
    rows = [mutations(asked.n, asked.seed, asked.jobs)] if asked.n else []
    rows += [kills(asked.kills, asked.seed)] if asked.kills else []
    for row in rows:
        print(json.dumps(row))
        if not asked.no_row:
            ROWS.parent.mkdir(parents=True, exist_ok=True)
            with ROWS.open("a") as file:
                file.write(json.dumps(row) + "\n")
    return int(
        any(row.get("other") or row.get("code run") or row.get("failed") or row.get("leftovers") for row in rows)
    )


if __name__ == "__main__":
    sys.exit(main())
