"""Kill writers of a row store, many at once, and count what is lost: python benchmarks/torture/rows.py 1000 [WRITERS].

Writers share the runs of a folder and store a row for each, through the code that `pulab bench run` uses. They are
killed with SIGKILL, most at a random moment, some in the middle of a write. A row is done once its writer said so. At
the end every row that was done must be in the file once, and no run may have two rows. The counts are printed and added
to results/reliability/rows.jsonl.
"""

import json
import os
import random
import select
import signal
import sys
import time
import warnings
from collections import Counter
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pulab.bench import Claims, RunSpec, rows_of, store
from pulab.bench.runner import commit, make_estimator, settings
from pulab.datasets import PlainSampling
from pulab.errors import PulabWarning

ROWS = Path(os.environ.get("TORTURE_ROWS", Path(__file__).parents[2] / "results" / "reliability"))
KILLS = 50  # per folder
IN_WRITE = 0.5  # share of writers that die inside a write, at a byte drawn at random
SPECS = [RunSpec("digits", PlainSampling(20, 100), "elkan-noto", seed) for seed in range(400)]
SETTINGS = settings(make_estimator(SPECS[0], prior=0.5))


def write_rows(folder: Path, pipe: int, seed: int) -> None:
    """Claim runs and store their rows until killed. Tell of each row after it is stored."""
    rng = random.Random(seed)
    tell = partial(os.write, pipe)
    mend = store._mend

    def mend_and_tell(file: int, may_cut: bool) -> bytes:
        size = os.fstat(file).st_size
        end = mend(file, may_cut)
        if end or os.fstat(file).st_size < size:
            tell(b"mended\n")
        return end

    store._mend = mend_and_tell
    if rng.random() < IN_WRITE:
        die_in_write(rng)
    warnings.simplefilter("ignore", PulabWarning)  # torn lines
    with Claims(SPECS, folder) as claims:
        while next_runs := claims.left[:2]:  # the same ones as the other writers
            for spec in claims.claim(next_runs) or claims.claim(rng.sample(claims.left[:8], 1)):
                time.sleep(rng.uniform(0, 0.01))  # the training
                claims.add(folder / "rows.jsonl", result(spec, rng))
                tell(f"done {spec.digest}\n".encode())


def die_in_write(rng: random.Random) -> None:
    """Make this process die when a part of a row is written, after up to two whole rows."""
    write = store._write
    left = iter(range(rng.randrange(3)))

    def write_and_die(file: int, data: bytes) -> None:
        if next(left, None) is None:
            write(file, data[: rng.randrange(len(data))])
            os.kill(os.getpid(), signal.SIGKILL)
        write(file, data)

    store._write = write_and_die


def result(spec: RunSpec, rng: random.Random) -> dict[str, Any]:
    """A row as of a training, of 1 to 80 KB."""
    loss = [rng.random() for _ in range(int(10 ** rng.uniform(1, 4)))]
    errors = {"test_error": 1.0, "recovery_error": 2.0}
    return {**spec.as_row(), **errors, "settings": SETTINGS, "history": {"loss": loss}, "sigma_history": {}}


def torture(folder: Path, kills: int, writers: int, seed: int) -> Counter[str]:
    """Let this many writers be killed on one folder. The counts, and whether each promise held."""
    rng = random.Random(seed)
    inbox, pipe = os.pipe()
    children: set[int] = set()
    told = b""
    counts: Counter[str] = Counter()
    while counts["kills"] < kills or children:
        while counts["kills"] + len(children) < kills and len(children) < writers:
            children.add(start(folder, pipe, rng.getrandbits(32)))
        told += listen(inbox, rng.expovariate(1 / 0.06))
        for child in list(children):  # those that died inside a write
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                children.remove(child)
                counts.update(kills=1, **{"kills_in_write" if was_killed(status) else "failed_writers": 1})
        if children:
            child = rng.choice(sorted(children))
            os.kill(child, signal.SIGKILL)
            status = os.waitpid(child, 0)[1]
            children.remove(child)
            counts.update(kills=1, failed_writers=int(not was_killed(status)))
    told += listen(inbox, 0)
    os.close(inbox)
    os.close(pipe)
    return counts + check(folder, told.decode().splitlines())


def start(folder: Path, pipe: int, seed: int) -> int:
    child = os.fork()
    if child == 0:
        try:
            write_rows(folder, pipe, seed)
        finally:
            os._exit(1)
    return child


def was_killed(status: int) -> bool:
    return os.waitstatus_to_exitcode(status) == -signal.SIGKILL


def listen(inbox: int, seconds: float) -> bytes:
    """What writers tell in this time."""
    told, end = b"", time.monotonic() + seconds
    while select.select([inbox], [], [], max(0.0, end - time.monotonic()))[0]:
        told += os.read(inbox, 2**16)
    return told


def check(folder: Path, told: list[str]) -> Counter[str]:
    """Compare the file with what writers told. Half a line at its end is what the last writer was killed in."""
    done = [line.split()[1] for line in told if line.startswith("done ")]
    lines = (folder / "rows.jsonl").read_bytes().split(b"\n")
    torn = [not is_json(line) for line in lines[:-1]]
    stored = Counter(json.loads(line)["spec"] for line in lines if is_json(line))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PulabWarning)
        readable = {row["spec"] for row in rows_of(SPECS, folder)}
    return Counter(
        rows_done=len(done),
        rows_stored=len(stored),
        lost=len(set(done) - readable),
        doubled=sum(n - 1 for n in stored.values()),
        torn_lines_left=sum(torn),
        torn_lines_repaired=told.count("mended"),
    )


def is_json(line: bytes) -> bool:
    try:
        return bool(json.loads(line))
    except ValueError:
        return False


def main(kills: int, writers: int) -> int:
    start_time = time.perf_counter()
    names = ("kills", "kills_in_write", "failed_writers", "rows_done", "lost", "doubled", "torn_lines_repaired")
    counts = Counter(dict.fromkeys((*names, "torn_lines_left"), 0))
    for seed, first in enumerate(range(0, kills, KILLS)):
        with TemporaryDirectory() as folder:
            counts.update(torture(Path(folder), min(KILLS, kills - first), writers, seed))
    seconds = round(time.perf_counter() - start_time)
    row = {"torture": "rows", "writers": writers, **counts, "seconds": seconds, "commit": commit()}
    print("  ".join(f"{name}={value}" for name, value in row.items()), flush=True)
    store.append_row(ROWS / "rows.jsonl", {**row, "time": datetime.now(UTC).isoformat(timespec="seconds")})
    broken = counts["lost"] + counts["doubled"] + counts["torn_lines_left"] + counts["failed_writers"]
    return int(broken > 0 or counts["rows_done"] == 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 4))
