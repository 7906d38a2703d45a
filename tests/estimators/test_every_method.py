"""What holds for every registered method: the same bits everywhere, predictions from many threads, and no leaks."""

import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

import pulab
from pulab.methods import METHODS

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "torture"))
import soak  # noqa: E402

sys.path.pop(0)

X, S = soak.data()


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    return {key: soak.fitted(key, X, S) for key in METHODS}


def digests(models: dict[str, Any]) -> dict[str, list[str]]:
    """Checksums of what each model predicts, and of its files."""
    found = {}
    for key, model in models.items():
        with TemporaryDirectory() as folder:
            files = sorted(pulab.save(model, Path(folder) / "model").iterdir())
            parts = [model.predict_proba(X).tobytes(), *(path.read_bytes() for path in files)]
        names = ["predictions", *(path.name for path in files)]
        # skops names parts by their place in memory, and the document holds their checksums.
        kept = [(n, p) for n, p in zip(names, parts, strict=True) if n in ("predictions", "arrays.safetensors")]
        found[key] = [f"{name} {hashlib.sha256(part).hexdigest()}" for name, part in kept]
    return found


def test_other_processes_and_hash_seeds_get_the_same_bits(models: dict[str, Any]) -> None:
    """A process per hash seed fits all methods. The arrays in their files are the same, too."""
    expected = digests(models)
    code = (
        "import json; from tests.estimators.test_every_method import METHODS, S, X, digests, soak; "
        "print(json.dumps(digests({key: soak.fitted(key, X, S) for key in METHODS})))"
    )
    for seed in ("1", "2"):
        settings = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code], env=settings, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout.splitlines()[-1]) == expected
    other = {key: soak.fitted(key, X, S, seed=1) for key in ("nnpu", "bagging")}
    assert all(digests(other)[key] != expected[key] for key in other)  # the checksums can tell


def test_the_number_of_jobs_changes_no_bit(models: dict[str, Any]) -> None:
    with_jobs = [key for key in METHODS if "n_jobs" in models[key].get_params()]
    assert {"bagging", "boosting", "plain-boosting", "nnpu-boosting"} <= set(with_jobs)
    for key in with_jobs:
        for n_jobs in (1, 2):
            model = soak.fitted(key, X, S, n_jobs=n_jobs)
            np.testing.assert_array_equal(model.predict_proba(X), models[key].predict_proba(X), err_msg=key)
    alone = [key for key, method in METHODS.items() if method.is_network and not method.needs_negatives]
    unfitted = [soak.unfitted(key) for key in alone]
    for n_jobs in (1, 2):
        for key, model in zip(
            alone, pulab.fit_many(unfitted, [{"X": X, "y": S}] * len(alone), n_jobs=n_jobs), strict=True
        ):
            np.testing.assert_array_equal(model.predict_proba(X), models[key].predict_proba(X), err_msg=key)


@pytest.mark.parametrize("key", METHODS)
def test_eight_threads_predict_what_one_does(key: str, models: dict[str, Any]) -> None:
    parts = np.array_split(X, 32)
    model = models[key]
    expected = [(model.predict_proba(part), model.predict(part)) for part in parts]
    with ThreadPoolExecutor(8) as pool:
        shares, decisions = pool.map(model.predict_proba, parts), pool.map(model.predict, parts)
        for (share, decision), (got_share, got_decision) in zip(
            expected, zip(shares, decisions, strict=True), strict=True
        ):
            np.testing.assert_array_equal(got_share, share)
            np.testing.assert_array_equal(got_decision, decision)


def test_fits_leave_nothing_behind() -> None:
    """``python benchmarks/torture/soak.py 1000`` is the long form. In a process of its own: others use memory here."""
    command = [sys.executable, str(ROOT / "benchmarks" / "torture" / "soak.py"), "56", "--no-row"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    row = json.loads(done.stdout)
    assert (row["fits"], row["descriptors grown"], row["threads grown"]) == (56, 0, 0)


@pytest.mark.parametrize(
    ("leak", "name"),
    [
        (lambda kept: kept.append(bytearray(os.urandom(2**22))), "MiB grown"),
        (lambda kept: kept.append(open(os.devnull)), "descriptors grown"),  # noqa: PTH123, SIM115
    ],
)
def test_a_planted_leak_is_seen(leak: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Any] = []
    monkeypatch.setattr(soak, "fit_and_use", lambda key, X, S, seed: leak(kept))
    row = soak.soak(56)
    for item in kept:
        if hasattr(item, "close"):
            item.close()
    assert row[name] > soak.ALLOWED[name]
