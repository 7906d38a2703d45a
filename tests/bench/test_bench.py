"""Specs, rows and runs."""

import json
import time
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pulab import NNPUClassifier, PulabWarning
from pulab.bench import (
    RECIPES,
    Claims,
    RunSpec,
    append_row,
    is_current,
    read_rows,
    rows_of,
    run,
    run_all,
    runner,
    shortened,
)
from pulab.bench.runner import run_fleet
from pulab.bench.store import rounded
from pulab.datasets import DATASETS, PaperSampling, PlainSampling, load_digits, make_pu
from pulab.errors import DataNotFoundError, TrainingError
from pulab.methods import METHODS

SPEC = RunSpec("digits", PlainSampling(20, 100), "nnpu", seed=1, params={"epochs": 2})


def test_the_digest_changes_with_everything_that_matters() -> None:
    others = [
        replace(SPEC, dataset="moons"),
        replace(SPEC, method="joint"),
        replace(SPEC, seed=2),
        replace(SPEC, params={"epochs": 3}),
        replace(SPEC, sampling=PlainSampling(20, 101)),
        replace(SPEC, sampling=PaperSampling(1000, 20, 100, 0.5)),
    ]
    assert len({spec.digest for spec in (SPEC, *others)}) == 1 + len(others)
    assert SPEC.digest == "f9d722192e0b8216"  # rows are found by it, so it must never change


def test_a_run_gives_one_flat_row_that_can_be_stored(tmp_path: Path) -> None:
    row = run(SPEC, device="cpu")
    assert row["spec"] == SPEC.digest
    digits = load_digits()
    pu = make_pu(digits.X_train, digits.y_train, n_labeled=20, n_unlabeled=100, random_state=1)
    clf = NNPUClassifier(prior=pu.prior, epochs=2, device="cpu", random_state=1).fit(pu.X, pu.s)
    assert row["test_error"] == pytest.approx(100 - 100 * clf.score(digits.X_test, digits.y_test))
    assert row["recovery_error"] == pytest.approx(100 - 100 * clf.score(pu.X_unlabeled, pu.y_unlabeled))
    assert row["history"]["loss"] == [record["loss"] for record in clf.history_]
    append_row(tmp_path / "runs" / "a.jsonl", row)
    (stored,) = read_rows([tmp_path / "runs" / "a.jsonl"])
    assert stored["test_error"] == pytest.approx(row["test_error"], rel=1e-4)
    assert set(row) - set(stored) == {"label_histogram"}


def test_methods_without_a_network_are_run_beside_those_with_one(tmp_path: Path) -> None:
    specs = [replace(SPEC, method="elkan-noto", params={}), SPEC]
    for row in run_fleet(specs, device="cpu"):
        append_row(tmp_path / "a.jsonl", row)
    elkan_noto, nnpu = rows_of(specs, tmp_path)
    assert (elkan_noto["method"], elkan_noto["history"], elkan_noto["best_epoch"]) == ("elkan-noto", {}, None)
    assert nnpu["history"] == rounded(run(SPEC, device="cpu")["history"])


TABLE_METHODS = [key for key, method in METHODS.items() if not method.is_network and not method.needs_negatives]


@pytest.mark.parametrize("method", TABLE_METHODS)
def test_the_row_of_every_method_without_a_network_can_be_shortened_and_stored(method: str, tmp_path: Path) -> None:
    row = run(replace(SPEC, method=method, params={}), device="cpu")
    append_row(tmp_path / "a.jsonl", shortened(row, drawn=False))
    (stored,) = read_rows([tmp_path / "a.jsonl"])
    assert 0 <= stored["test_error"] <= 100
    if method == "nnpu-boosting":  # its history counts trees, and has no loss
        assert stored["history"]["epoch"][-1] == len(row["history"]["val_risk"]) > 0


def test_all_methods_of_a_trial_see_the_same_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every method is fitted to the rows that make_pu draws with the seed, and only the oracle to the truth."""
    fitted: list[dict[str, Any]] = []

    def record(specs: Any, estimators: Any, arguments: Any, on_progress: Any) -> list[TrainingError]:
        fitted.extend(arguments)
        return [TrainingError("not trained") for _ in specs]

    monkeypatch.setattr(runner, "_fit", record)
    run_fleet([SPEC, replace(SPEC, method="pn"), replace(SPEC, method="elkan-noto", params={})], device="cpu")
    digits = load_digits()
    pu = make_pu(digits.X_train, digits.y_train, n_labeled=20, n_unlabeled=100, random_state=SPEC.seed)
    assert len(fitted) == 3
    for arguments, labels in zip(fitted, (pu.s, pu.y_true, pu.s), strict=True):
        np.testing.assert_array_equal(arguments["X"], pu.X)
        np.testing.assert_array_equal(arguments["y"], labels)


def test_only_methods_that_need_the_prior_get_it() -> None:
    for key, method in METHODS.items():
        if not method.needs_negatives:
            estimator = runner.make_estimator(replace(SPEC, method=key, params={}), prior=0.123, device="cpu")
            assert (estimator.get_params().get("prior") == 0.123) == method.needs_prior


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "pubn"}, "known negatives"),
        ({"method": "x"}, "one of"),
        ({"dataset": "x"}, "one of"),
        ({"net": "x"}, "one of"),
    ],
)
def test_specs_that_cannot_be_run_are_refused(change: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(replace(SPEC, **change), device="cpu")


def test_processes_give_what_one_process_gives() -> None:
    specs = [replace(SPEC, seed=seed) for seed in range(2)]
    alone = {row["spec"]: row["test_error"] for row in run_all(specs, device="cpu", jobs=1)}
    together = list(run_all(specs, device="cpu", jobs=2))
    assert alone == {row["spec"]: row["test_error"] for row in together}
    assert not any(row["deterministic"] for row in together)


def test_a_row_says_whether_it_was_made_by_deterministic_algorithms() -> None:
    torch.use_deterministic_algorithms(True)
    try:
        rows = list(run_all([SPEC, replace(SPEC, seed=2)], device="cpu", jobs=2))
    finally:
        torch.use_deterministic_algorithms(False)
    assert [row["deterministic"] for row in rows] == [True, True]


def test_data_are_found_before_the_first_training(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PULAB_DATA", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(runner, "run_fleet", lambda *arguments: pytest.fail("a training has begun"))
    runner._find.cache_clear()
    runner._load.cache_clear()
    progress: list[float] = []
    for jobs in (1, 2):
        with pytest.raises(DataNotFoundError, match="not on this machine"):
            next(run_all([SPEC, replace(SPEC, dataset="mnist")], device="cpu", jobs=jobs, on_progress=progress.append))
    assert progress == []


def test_processes_of_the_callers_are_left_alone() -> None:
    callers = get_context("spawn").Process(target=time.sleep, args=(60,))
    callers.start()
    try:
        for _ in run_all([replace(SPEC, seed=seed) for seed in range(3)], device="cpu", jobs=2):
            break
        assert callers.is_alive()
    finally:
        callers.kill()
        callers.join()


def test_a_torn_line_loses_its_own_row_only(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    append_row(path, {"a": 1})
    with path.open("a") as file:
        file.write('{"a": {"b": 2}')  # killed while writing
    with pytest.warns(PulabWarning, match="line 2 is no row"):
        assert read_rows([path]) == [{"a": 1}]
    append_row(path, {"a": 3})  # removes the torn line
    path.write_text(path.read_text().rstrip("\n"))  # killed before the last byte
    append_row(path, {"a": 4})
    assert read_rows([path]) == [{"a": 1}, {"a": 3}, {"a": 4}]


def test_a_row_without_a_result_counts_as_not_done(tmp_path: Path) -> None:
    row = run(SPEC, device="cpu")
    (tmp_path / "folder.jsonl").mkdir()
    for broken in (
        {"test_error": None},
        {"recovery_error": "abc"},
        {"settings": None},
        {"history": [1.0]},
        {"sigma_history": None},
        {"seed": 7},
        {"test_error": 500.0},
    ):
        (tmp_path / "a.jsonl").write_text(json.dumps(row | broken) + "\n")
        with pytest.warns(PulabWarning, match="line 1 holds no result"):
            assert rows_of([SPEC], tmp_path) == []
    (tmp_path / "a.jsonl").write_text('{"spec": "another"}\n{"big": ' + "9" * 5000 + "}\n")
    with (tmp_path / "a.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(row | {"device": "\u2028"}, ensure_ascii=False) + "\nneither\nnor\n")
    with pytest.warns(PulabWarning, match=r"line 2 \(and 2 more\) is no row"):
        (stored,) = rows_of([SPEC], tmp_path)
    assert stored["device"] == "\u2028"  # which some programs take for the end of a line
    (tmp_path / "a.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8-sig")
    assert len(rows_of([SPEC], tmp_path)) == 1


def test_rows_of_other_defaults_are_not_mixed_in(tmp_path: Path) -> None:
    row = run(SPEC, device="cpu")
    other = replace(SPEC, seed=2)
    old = {"settings": row["settings"] | {"lr": 0.5}, "time": "2020-01-01T00:00:00+00:00"}
    append_row(tmp_path / "z.jsonl", row | old)  # an older row, though in the last file
    append_row(tmp_path / "a.jsonl", row | {"spec": other.digest, "seed": 2})
    with pytest.warns(PulabWarning, match="1 rows in .* other defaults"):
        assert [stored["seed"] for stored in rows_of([SPEC, other], tmp_path)] == [2]
    assert rows_of([SPEC], tmp_path)[0]["settings"]["lr"] == 0.5  # shown, though it must be run again
    before = {name: value for name, value in row["settings"].items() if name not in ("augment", "optimizer")}
    append_row(tmp_path / "b.jsonl", row | {"settings": before})  # a row from before these parameters
    assert is_current(SPEC, rows_of([SPEC], tmp_path)[0])
    append_row(tmp_path / "c.jsonl", row | {"settings": before | {"optimizer": "sgd"}})
    assert not is_current(SPEC, rows_of([SPEC], tmp_path)[0])
    odd = replace(SPEC, params={"epochs": 1, "lr": 1 / 300})
    append_row(tmp_path / "odd.jsonl", run(odd, device="cpu"))
    (stored,) = rows_of([odd], tmp_path)
    assert is_current(odd, stored)  # though its rate is rounded
    assert not is_current(odd, stored | {"settings": stored["settings"] | {"weight_decay": 0.5}})


def test_a_run_that_fails_does_not_stop_the_others() -> None:
    specs = [replace(SPEC, params={"epochs": 1, "lr": lr}) for lr in (1e38, 1e-3)]
    done = []
    with pytest.raises(TrainingError, match=r"1 of 2 runs failed, .* nnpu on digits, seed 1, .*no longer finite"):
        done.extend(run_all(specs, device="cpu", jobs=1))  # rows before the error stay
    assert [row["spec"] for row in done] == [specs[1].digest]


def test_a_row_never_names_the_commit_of_another_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PULAB_COMMIT", raising=False)
    monkeypatch.setattr(runner, "__file__", str(tmp_path / "lib" / "python" / "pulab" / "bench" / "runner.py"))
    (tmp_path / ".git").mkdir()
    assert runner.commit.__wrapped__() is None


def test_rows_are_rounded_and_never_hold_nan(tmp_path: Path) -> None:
    append_row(
        tmp_path / "r.jsonl", {"x": 1 / 3, "n": 123456789, "deep": [{"y": 2e-9 / 3}], "flag": True, "none": None}
    )
    assert json.loads((tmp_path / "r.jsonl").read_text()) == {
        "x": 0.33333, "n": 123456789, "deep": [{"y": 6.6667e-10}], "flag": True, "none": None,
    }  # fmt: skip
    with pytest.raises(ValueError, match="JSON compliant"):
        append_row(tmp_path / "r.jsonl", {"x": float("nan")})


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_name_methods_and_data_sets_that_exist(name: str) -> None:
    specs = RECIPES[name](trials=2)
    assert len({spec.digest for spec in specs}) == len(specs)
    for spec in specs:
        assert spec.method in METHODS
        assert spec.dataset in DATASETS


def test_no_seed_of_the_first_runs_is_used_again() -> None:
    """The confirmation and the search on MNIST have seeds of their own."""
    seeds = {name: {spec.seed for spec in RECIPES[name]()} for name in ("paper", "paper-confirm", "mnist-base")}
    assert seeds == {"paper": set(range(10)), "paper-confirm": set(range(10, 30)), "mnist-base": set(range(30, 40))}
    confirmed = RECIPES["paper-confirm"]()
    assert {spec.net for spec in confirmed} == {"mnist-cnn", "preact-resnet-18-bare", "mlp"}
    assert max(spec.seed for spec in confirmed if spec.dataset.startswith("cifar10")) == 19
    assert {spec.net for spec in RECIPES["paper"]()} == {"mnist-cnn", "preact-resnet-18", "mlp"}


def test_rows_keep_as_much_of_a_history_as_is_read() -> None:
    row = {"history": {"lr": [0.1] * 50, "loss": list(range(1, 51)), "kl": [0.0] * 50}, "sigma_history": {}}
    assert shortened(row, drawn=True) == {"history": {"loss": list(range(1, 51))}, "sigma_history": {}}
    thinned = {"epoch": [20, 40, 50], "loss": [20, 40, 50], "kl": [0.0] * 3}
    assert shortened(row, drawn=False) == {"history": thinned, "sigma_history": {}}


@pytest.mark.realdata("20news-bydate")
def test_texts_are_run_by_their_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    params = {"epochs": 3, "batch_size_u": 120, "lr": 5e-3}
    spec = RunSpec("20news", PaperSampling(8000, 500, 6000, 0.56), "nnpu", 0, "mlp", params, "tfidf")
    row = run(spec, device="cpu")
    assert row["features"] == "tfidf"
    assert row["test_error"] < 30
    assert replace(spec, features="elmo").digest != spec.digest


def test_runs_of_a_seed_share_their_self_supervised_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run of a seed trains it, the others take it. When all runs are done, it is removed."""
    monkeypatch.setattr("pulab.training.checkpoint.LEAST", 0.0)
    params = {"epochs": 2, "e_start": 1, "pretrain_epochs": 2, "pretrain_batch_size": 100}
    sampling = PlainSampling(n_labeled=20, n_unlabeled=100)
    specs = [
        RunSpec("digits-images", sampling, "joint-views", 0, params=params | change)
        for change in ({}, {"align": False}, {"pretrain_epochs": 0})
    ]
    with Claims(specs, tmp_path) as claims:
        for row in run_all(specs[:2], jobs=1, claim=claims.claim, checkpoints=claims.checkpoints):
            claims.add(tmp_path / "rows.jsonl", row)
    assert len([*(claims.checkpoints / "bodies").iterdir()]) == 1
    with Claims(specs, tmp_path) as claims:
        for row in run_all(claims.left, jobs=1, claim=claims.claim, checkpoints=claims.checkpoints):
            claims.add(tmp_path / "rows.jsonl", row)
    assert not (claims.checkpoints / "bodies").exists()
    bodies = {row["spec"]: row.get("body") for row in rows_of(specs, tmp_path)}
    assert [bodies[spec.digest] for spec in specs] == [None, "of another run", None]
