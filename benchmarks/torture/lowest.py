"""Run tests with the lowest versions that pyproject.toml allows: python benchmarks/torture/lowest.py FOLDER [PACKAGE…]

FOLDER gets a virtual environment, about 6 GB. The packages that are named keep their pin of constraints.txt. Two rows
per call go to results/reliability/lowest.jsonl, one per group of tests.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
import venv
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROWS = Path(os.environ.get("BENCHMARK_ROWS", ROOT / "results" / "reliability"))
TESTS = {
    # What other libraries do for pulab: downloads, models, tables, the commands, pages, texts.
    "libraries": (
        "tests/datasets",
        "tests/test_persistence.py",
        "tests/tables/test_frame.py",
        "tests/tables/test_files.py",
        "tests/cli",
        "tests/report",
        "tests/text",
    ),
    # What torch, safetensors and onnx do for it.
    "networks": (
        "tests/training",
        "tests/test_losses.py",
        "tests/test_nets.py",
        "tests/test_onnx.py",
        "tests/test_augment.py",
        "tests/estimators/test_joint.py",
        "tests/estimators/test_joint_views.py",
        "tests/estimators/test_modules.py",
    ),
}


def lowest(kept: set[str]) -> list[str]:
    """One pin for each dependency of the package and of its tests: the lower bound, or that of constraints.txt."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    wanted = {*project["project"]["dependencies"], *extras["boost"], *project["dependency-groups"]["test"]}
    pins = dict(
        line.split("==") for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").split() if "==" in line
    )
    bounds = dict(requirement.split(">=") for requirement in wanted)
    if unknown := kept - set(bounds):
        raise SystemExit(f"pyproject.toml has no lower bound for {', '.join(sorted(unknown))}.")
    return sorted(f"{name}=={pins[name] if name in kept else bound}" for name, bound in bounds.items())


def main() -> None:
    """Make the environment, run each group of tests, store and print the counts."""
    folder, kept = Path(sys.argv[1]), set(sys.argv[2:])
    versions = lowest(kept)
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    for wanted in (versions, ["--no-deps", "--editable", str(ROOT)]):
        subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], check=True)
    codes = [run(python, topic, versions, kept) for topic in TESTS]
    raise SystemExit(max(codes))


def run(python: Path, topic: str, versions: list[str], kept: set[str]) -> int:
    """Run a group of tests. Returns the exit code."""
    # Old libraries warn about each other, so a warning is no fault here.
    tests = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", "--durations=0", *TESTS[topic]]
    settings = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(tests, cwd=ROOT, env=settings, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout)
    counts = {kind: int(n) for n, kind in re.findall(r"(\d+) (passed|failed|skipped|errors?)", done.stdout[-200:])}
    row = {
        "topic": topic,
        "versions": versions,
        "kept": sorted(kept),
        **counts,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }
    ROWS.mkdir(parents=True, exist_ok=True)
    with (ROWS / "lowest.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    return done.returncode


if __name__ == "__main__":
    main()
