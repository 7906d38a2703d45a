"""What a second worker of a Ray cluster brings, and the cost of rows: trials, scoring, training.

    python benchmarks/scaling.py workers                                # 1 and 2 workers take turns, three rounds
    python benchmarks/scaling.py workers --rounds 1 --trials 2 --rows 100000
    python benchmarks/scaling.py score [rows …]                         # 10⁵, 10⁶ and 10⁷ without numbers
    python benchmarks/scaling.py train [rows …]                         # 10⁵ and 10⁶ without numbers

The workers are two machines of one CPU each. Both are groups of processes on this computer, and each is bound to a core
of its own. The driver and the daemons of Ray's head share the first core with the first worker, in every measurement.
``plain`` is the control: the same trials in one process, and in two at once, without Ray. It shows how much slower the
computer itself is when both cores work.

Each measurement goes to results/performance/scaling.jsonl as soon as it is there. The same command, at the same commit,
measures what is missing.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import numpy as np
import polars as pl
import pyarrow.parquet
import torch
from _common import ROWS, report

from pulab.bench import OnRay, RunSpec, read_rows, run_all
from pulab.bench.runner import commit
from pulab.datasets import PlainSampling
from pulab.tables import fit_table, score_on_ray

FEATURES, PIECE = 28, 200_000
LOOPBACK = "127.0.0.2"
MACHINE = {"num_cpus": 1, "object_store_memory": 200 * 2**20, "node_ip_address": LOOPBACK}


def frame(n: int, seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, FEATURES)).astype(np.float32)
    y = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * np.abs(X[:, 3]) > 1.5
    s = y & (rng.random(n) < 0.2)
    return pl.DataFrame({f"f{i}": X[:, i] for i in range(FEATURES)}).with_columns(s=pl.Series(s.astype(np.int8)))


def write(path: Path, rows: int) -> None:
    writer = None
    for start in range(0, rows, PIECE):
        table = frame(min(PIECE, rows - start), start).to_arrow()
        writer = writer or pyarrow.parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def model_of(place: Path) -> Path:
    return fit_table(frame(20_000, 1), "s", method="nnpu-boosting", prior=0.15).save(place / "model")


def at_commit() -> str:
    """The commit, without the mark that new rows leave."""
    return (commit() or "").removesuffix("-dirty")


def missing(measurements: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that have no row of this commit."""
    file = ROWS / "scaling.jsonl"
    rows = read_rows([file]) if file.exists() else []
    found = [row for row in rows if (row["commit"] or "").removesuffix("-dirty") == at_commit()]
    return [one for one in measurements if not any(one.items() <= row.items() for row in found)]


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)


@contextmanager
def on_core(core: int) -> Iterator[None]:
    """Processes that begin inside stay on this core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


# A process of the control. It prints how long its runs took, without the imports.
PLAIN = """
import sys, time
from scaling import some_trials
from pulab.bench import run_all
list(run_all(some_trials(1), device="cpu", jobs=1))
print("ready", flush=True)
sys.stdin.readline()
start = time.perf_counter()
list(run_all(some_trials(int(sys.argv[1])), device="cpu", jobs=1))
print(time.perf_counter() - start)
"""


def some_trials(n: int) -> list[RunSpec]:
    spec = RunSpec("digits", PlainSampling(50, 1000), "joint", seed=0, params={"epochs": 100})
    return [replace(spec, seed=seed) for seed in range(n)]


def plain(n: int, trials: int, cores: list[int]) -> float:
    """Seconds of n processes that each make these trials at the same time, each on its core."""
    going = []
    for core in cores[:n]:
        with on_core(core):
            words = [sys.executable, "-c", PLAIN, str(trials)]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            going.append(subprocess.Popen(words, cwd=Path(__file__).parent, **pipes))
    for one in going:
        assert one.stdout.readline() == "ready\n"
    for one in going:
        one.stdin.write("\n")
        one.stdin.flush()
    return max(float(one.communicate()[0]) for one in going)


def workers(rounds: int, trials: int, rows: int) -> None:
    sizes = {"plain": trials, "trials": trials, "score": rows}
    wanted = [
        {"what": what, "size": size, "workers": n, "round": i}
        for i in range(rounds)
        for n in (1, 2)
        for what, size in sizes.items()
    ]
    left = missing(wanted)
    # CPU seconds: with a warm-up, so twice the work. The control has no warm-up, and each of its processes does all.
    cost = {"plain": 4.0 * trials, "trials": 2 * 4.0 * trials, "score": 2 * 4e-6 * rows}
    guess = sum(10 + cost[one["what"]] / (1 if one["what"] == "plain" else one["workers"]) for one in left)
    say(f"{len(left)} of {len(wanted)} measurements are missing: about {guess / 60:.1f} minutes on quiet cores")
    if not left:
        return
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise SystemExit("two workers need two cores, got one.")
    if os.getloadavg()[0] > 0.5:
        say(f"other programs use the cores: the load average is {os.getloadavg()[0]:.2f}")
    with tempfile.TemporaryDirectory() as folder, on_core(cores[0]):
        _workers(Path(folder), left, rounds, trials, rows, cores)


def _workers(place: Path, left: list[dict[str, Any]], rounds: int, trials: int, rows: int, cores: list[int]) -> None:
    import ray
    from ray.cluster_utils import Cluster

    model = model_of(place)
    write(place / "all.parquet", rows)
    cluster = Cluster(initialize_head=True, head_node_args={**MACHINE, "include_dashboard": False})
    turn = count()

    def run_trials() -> None:
        list(run_all(some_trials(trials), device="cpu", ray=OnRay()))

    def score() -> None:
        score_on_ray(model, str(place / "all.parquet"), str(place / f"out-{next(turn)}"))

    works = {"trials": run_trials, "score": score}
    warm: set[str] = set()
    start, total = time.perf_counter(), len(left)
    try:
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        for i in range(rounds):
            for n in (1, 2):
                due = [one for one in left if (one["round"], one["workers"]) == (i, n)]
                if not due:
                    continue
                if n == 2:
                    with on_core(cores[1]):
                        second = cluster.add_node(**MACHINE)
                for one in due:
                    what, load = one["what"], os.getloadavg()[0]
                    if what == "plain":
                        took = plain(n, trials, cores)
                    else:
                        if n == 2 or what not in warm:
                            works[what]()  # workers start, load the model and the data
                            warm.add(what)
                        took = seconds(works[what])
                    report("scaling", **one, seconds=took, load=load, cores=os.cpu_count())
                    left.remove(one)
                    minutes = (time.perf_counter() - start) / (total - len(left)) * len(left) / 60
                    say(f"{total - len(left)} of {total} measured, about {minutes:.1f} minutes left")
                if n == 2:
                    cluster.remove_node(second)
    finally:
        ray.shutdown()
        cluster.shutdown()


def in_process(words: list[str]) -> tuple[float, float]:
    """CPU seconds and peak GiB of a process of its own. Other programs change the CPU seconds only a little."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return took, after.ru_maxrss / 2**20


TRAIN = """
import sys, time, torch
from pulab import JointPUClassifier, fit_parquet
torch.set_num_threads(1)
model = JointPUClassifier(prior=0.15, epochs=int(sys.argv[2]), e_start=1, batch_size_u=4096, random_state=0)
fit_parquet(model, sys.argv[1], "s", scratch=sys.argv[3])
"""


def score_rows(place: Path, n: int) -> None:
    model = model_of(place)
    write(place / "one.parquet", 1000)
    score = ["-m", "pulab", "score", str(model), "--out", str(place / "scores.parquet")]
    start, _ = in_process([*score, str(place / "one.parquet")])
    took, peak = in_process([*score, str(place / "t.parquet")])
    report("scaling", what="score rows", size=n, cpu_seconds=took - start, start=start, peak_gib=peak)


def train_rows(place: Path, n: int) -> None:
    table = place / "t.parquet"
    one, _ = in_process(["-c", TRAIN, str(table), "1", str(place)])
    say(f"{n:,} rows, one epoch: {one:.0f} s of the processor. Five come next.")
    several, peak = in_process(["-c", TRAIN, str(table), "5", str(place)])
    report(
        "scaling",
        what="train rows",
        size=n,
        epoch_cpu_seconds=(several - one) / 4,
        start_cpu_seconds=one - (several - one) / 4,
        batch=4096,
        peak_gib=peak,
        file_bytes_per_row=table.stat().st_size / n,
    )


# Work, the sizes without numbers, and about how many seconds a row takes, with the writing of the table.
BY_ROWS = {
    "score": (score_rows, (10**5, 10**6, 10**7), 4e-6),
    "train": (train_rows, (10**5, 10**6), 7e-5),
}


def by_rows(name: str, sizes: list[int]) -> None:
    """Scoring or training by the number of rows, a row of results for each."""
    torch.set_num_threads(1)
    work, usual, per_row = BY_ROWS[name]
    left = [one["size"] for one in missing([{"what": f"{name} rows", "size": n} for n in sizes or usual])]
    for i, n in enumerate(left):
        rest = sum(15 + per_row * size for size in left[i:]) / 60
        say(f"{n:,} rows come next. All that is missing: about {rest:.1f} minutes")
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder) / "t.parquet", n)
            work(Path(folder), n)
    say("nothing is missing")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    of_workers = commands.add_parser("workers")
    for option, value in (("rounds", 3), ("trials", 8), ("rows", 4 * 2**20)):
        of_workers.add_argument(f"--{option}", type=int, default=value)
    for command in BY_ROWS:
        commands.add_parser(command).add_argument("sizes", type=int, nargs="*", metavar="rows")
    given = vars(parser.parse_args())
    command = given.pop("command")
    if command == "workers":
        workers(**given)
    else:
        by_rows(command, given["sizes"])
