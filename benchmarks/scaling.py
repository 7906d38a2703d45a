"""What a second worker of a Ray cluster brings, and the cost of rows: trials, scoring, training.

    python benchmarks/scaling.py workers          # 1 and 2 workers, one after the other, three times
    python benchmarks/scaling.py rows [rows …]    # scoring and training by the number of rows

The workers are two machines of one CPU each, both of them processes here. Each measurement is repeated, and 1 and 2
workers take turns, so that other work on the machine slows both. Rows go to results/performance/scaling.jsonl.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import numpy as np
import polars as pl
import pyarrow.parquet
import torch
from _common import report

from pulab.bench import OnRay, RunSpec, run_all
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


def workers(rounds: int = 3, trials: int = 8, rows: int = 4 * 2**20) -> None:
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={**MACHINE, "include_dashboard": False})
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    spec = RunSpec("digits", PlainSampling(50, 1000), "joint", seed=0, params={"epochs": 100})
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        model = model_of(place)
        write(place / "all.parquet", rows)
        turn = iter(range(1000))

        def run_trials() -> None:
            list(run_all([replace(spec, seed=seed) for seed in range(trials)], device="cpu", ray=OnRay()))

        def score() -> None:
            score_on_ray(model, str(place / "all.parquet"), str(place / f"out-{next(turn)}"))

        found: dict[tuple[str, int], list[float]] = {}
        second = None
        for _ in range(rounds):
            for n in (1, 2):
                if n == 2:
                    second = cluster.add_node(**MACHINE)
                for name, work in (("trials", run_trials), ("score", score)):
                    if n == 2 or (name, 1) not in found:
                        work()  # workers start, load the model and the data
                    found.setdefault((name, n), []).append(seconds(work))
            cluster.remove_node(second)
    for name, size in (("trials", trials), ("score", rows)):
        one, two = (statistics.median(found[name, n]) for n in (1, 2))
        report(
            "scaling",
            what=name,
            size=size,
            seconds_1=one,
            seconds_2=two,
            efficiency=one / two / 2,
            rounds=rounds,
            load=os.getloadavg()[0],
            cores=os.cpu_count(),
        )
    ray.shutdown()
    cluster.shutdown()


def in_process(words: list[str]) -> tuple[float, float]:
    """Seconds of a processor and peak GiB of a process of its own. Other work changes the first little."""
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


def rows_of(*sizes: int) -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        model = model_of(place)
        write(place / "one.parquet", 1000)
        for n in sizes or (10**5, 10**6, 10**7):
            table = place / "t.parquet"
            write(table, n)
            score = ["-m", "pulab", "score", str(model), "--out", str(place / "scores.parquet")]
            start, _ = in_process([*score, str(place / "one.parquet")])
            took, peak = in_process([*score, str(table)])
            report("scaling", what="score rows", size=n, cpu_seconds=took - start, start=start, peak_gib=peak)
            one, _ = in_process(["-c", TRAIN, str(table), "1", folder])
            several, peak = in_process(["-c", TRAIN, str(table), "5", folder])
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


if __name__ == "__main__":
    if sys.argv[1] == "workers":
        workers(*map(int, sys.argv[2:]))
    else:
        rows_of(*map(int, sys.argv[2:]))
