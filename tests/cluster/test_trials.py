"""Runs and fits on a cluster: the results of one machine, whatever dies."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

from pulab import JointPUClassifier, NNPUClassifier, fit_many
from pulab.bench import Claims, OnRay, RunSpec, read_rows, run_all
from pulab.cli import main
from pulab.cluster import connected
from pulab.datasets import PlainSampling
from pulab.errors import ClusterError, InputError, TrainingError
from tests.cluster.conftest import TwoMachines, wait_for
from tests.conftest import Blobs

SPEC = RunSpec("digits", PlainSampling(20, 100), "nnpu", seed=1, params={"epochs": 2})


def results(rows: Any) -> dict[str, Any]:
    """Rows by run, without what differs between two runs on one machine."""
    differ = ("seconds", "memory_mib", "time", "resumed")
    kept = [{name: value for name, value in row.items() if name not in differ} for row in rows]
    assert len({row["spec"] for row in kept}) == len(kept)  # nothing is there twice
    return {row["spec"]: row for row in kept}


def test_a_worker_and_a_machine_die_and_the_rows_are_those_of_one_machine(
    machines: TwoMachines, tmp_path: Path
) -> None:
    specs = [replace(SPEC, seed=seed, params={"epochs": 40}) for seed in range(6)]
    alone = results(run_all(specs, device="cpu", jobs=1))
    killer = Thread(target=lambda: (machines.kill_worker(), machines.kill_machine()))
    killer.start()
    given: dict[str, Any] = {"device": "cpu", "ray": OnRay()}
    try:
        with Claims(specs, tmp_path) as claims:
            done = []
            for row in run_all(claims.left, claim=claims.claim, checkpoints=claims.checkpoints, **given):
                claims.add(tmp_path / "rows.jsonl", row)
                done.append(row)
    finally:
        killer.join()
        machines.repair()
    assert results(done) == alone
    assert len(read_rows([tmp_path / "rows.jsonl"])) == len(specs)


def test_a_fleet_shares_a_gpu_and_a_failed_run_does_not_stop_the_others(machines: TwoMachines) -> None:
    """The GPU is only claimed to be there, so the fleets train on the CPU."""
    specs = [replace(SPEC, seed=seed) for seed in range(4)]
    bad = replace(SPEC, params={"epochs": 1, "lr": 1e38})
    done = []
    progress: list[float] = []
    with pytest.raises(TrainingError, match=r"1 of 5 runs failed, .*no longer finite"):
        done.extend(run_all([*specs, bad], ray=OnRay(cpus=0.5, gpus=0.5), on_progress=progress.append))
    assert results(done) == results(run_all(specs, device="cpu", jobs=1))
    assert sum(progress) == 5
    assert max(progress) == 3  # two tasks share the GPU; the larger fleet has three of five runs


def test_fits_on_a_cluster_are_those_of_one_machine(machines: TwoMachines, blobs: Blobs) -> None:
    data = {"X": blobs.X, "y": blobs.s}
    models = [JointPUClassifier(prior=0.4, epochs=3, random_state=0), NNPUClassifier(prior=0.4, epochs=2, lr=1e38)]
    models[1].random_state = np.random.RandomState(3)
    alone = JointPUClassifier(prior=0.4, epochs=3, random_state=0).fit(blobs.X, blobs.s)
    for options in (None, {"num_cpus": 0.5, "num_gpus": 0.5}):
        given: dict[str, Any] = {"backend": "ray", "ray_options": options}
        fitted, failed = fit_many(models, [data, data], on_error="return", **given)
        assert fitted.history_ == alone.history_
        assert np.array_equal(fitted.pseudo_labels_, alone.pseudo_labels_)
        assert isinstance(failed, TrainingError)
    with pytest.raises(TrainingError, match=r"^estimators\[0\]: .*no longer finite"):  # on the CPU: workers are there
        fit_many(models[1:], [data], backend="ray")


def test_errors_of_input_come_back_as_one_line(machines: TwoMachines, blobs: Blobs) -> None:
    model = NNPUClassifier(prior=0.4, epochs=1)
    with pytest.raises(InputError, match=r"^estimators\[0\]: .*NaN") as caught:
        fit_many([model], [{"X": blobs.X * np.nan, "y": blobs.s}], backend="ray")
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="ray_options need backend='ray'"):
        fit_many([model], [{"X": blobs.X, "y": blobs.s}], ray_options={})


def test_ctrl_c_cancels_and_the_next_command_goes_on(
    machines: TwoMachines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One run a task: on the claimed GPU a fleet of runs would bring its rows at once, before the signal or after it.
    fixed = ["bench", "run", "demo", "--methods", "nnpu", "--device", "cpu", "--out", str(tmp_path), "--ray"]
    rows = tmp_path / "demo.jsonl"
    many = 1000  # more than can be done before the signal arrives, however late this busy machine delivers it
    command = [sys.executable, "-m", "pulab", *fixed, "--trials", str(many)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ) as first:
        wait_for(lambda: rows.exists() and rows.read_text().count("\n") >= 1)
        first.send_signal(signal.SIGINT)
        _, said = first.communicate(timeout=120)
    assert first.returncode == 130
    assert said.endswith("pulab: interrupted\n")
    wait_for(lambda: not machines.busy(machines.second) and not machines.busy(machines.cluster.head_node))
    kept = read_rows([rows])
    assert 1 <= len(kept) < many
    trials = max(row["seed"] for row in kept) + 2  # at least one that is not there yet
    monkeypatch.setattr(sys, "argv", ["pulab", *fixed, "--trials", str(trials)])
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    with pytest.raises(SystemExit, match="0"):
        main()
    assert read_rows([rows])[: len(kept)] == kept
    assert len(results(read_rows([rows]))) == trials


def test_a_machine_with_another_pulab_is_one_clear_error(
    machines: TwoMachines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pulab.cluster._connect.__version__", "9.9")
    with (
        pytest.raises(ClusterError, match=r"must have pulab 9.9, as this machine, but 127.0.0.2 has pulab"),
        connected(),
    ):
        pass
    monkeypatch.undo()
    monkeypatch.setattr("pulab.cluster._spread.__version__", "9.9")  # a machine that joins later
    with pytest.raises(ClusterError, match=r"must have pulab .*, as this machine, but .* has pulab"):
        list(run_all([SPEC], device="cpu", ray=OnRay()))
