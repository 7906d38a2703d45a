"""From specs to rows."""

import math
import os
import platform
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from datetime import UTC, datetime
from functools import lru_cache, partial
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from joblib import cpu_count  # knows of affinity and of containers

from pulab import __version__
from pulab._validation import check_choice
from pulab.bench.features import FEATURES, encoded
from pulab.bench.spec import RunSpec
from pulab.bench.store import Row, rounded
from pulab.datasets import DATASETS, PUSample, Split, Trial
from pulab.errors import InputError, TrainingError
from pulab.methods import METHODS, Method

if TYPE_CHECKING:
    from pulab._torch import Settings

OnProgress = Callable[[float], None]  # told how many more runs are done, in fractions too
SMALL_AT_ONCE, LARGE_AT_ONCE = 120, 5  # runs of a fleet: one batched network, or networks side by side
FLEET_BYTES = 4 * 2**30  # of the samples of a fleet, which a device holds twice


def ignore(runs: float) -> None:
    """Nobody waits."""


def run_all(
    specs: Iterable[RunSpec], *, device: str = "auto", jobs: int | None = None, on_progress: OnProgress = ignore
) -> Iterator[Row]:
    """Rows of these runs as they get done: one process of one thread a core, or fleets of runs on a GPU.

    A training that fails does not stop the others; what failed is raised at the end.
    """
    specs = list(specs)
    failures = []
    for outcome in _outcomes(specs, device, min(jobs or cpu_count(), len(specs)), on_progress):
        if isinstance(outcome, TrainingError):
            failures.append(outcome)
        else:
            yield outcome
    if failures:
        raise TrainingError(f"{len(failures)} of {len(specs)} runs failed, and have no row. The first, {failures[0]}")


def _outcomes(
    specs: Sequence[RunSpec], device: str, jobs: int, on_progress: OnProgress
) -> Iterator[Row | TrainingError]:
    prepare(specs, device)  # of several processes, every one would encode the texts
    if _is_cuda(device) or jobs <= 1:
        for fleet in _fleets(specs, device) if _is_cuda(device) else [[spec] for spec in specs]:
            yield from run_fleet(fleet, device, on_progress)
        return
    _load.cache_clear()  # processes have memory of their own
    context = get_context("spawn")  # a forked torch may hang
    others = set(active_children())  # the caller's own
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin_worker, initargs=(_settings(),)) as pool:
        running = [pool.submit(run_fleet, [spec], device) for spec in specs]
        try:
            for done in as_completed(running):
                outcomes = done.result()
                on_progress(1)
                yield from outcomes
        except BrokenProcessPool as error:
            raise InputError(
                "the processes that train ended early. If this is a script, call run_all below "
                "`if __name__ == '__main__':`; if memory is short, pass fewer jobs, or jobs=1. What is done is kept."
            ) from error
        except BaseException:  # an error or Ctrl-C: nobody waits for what the others are at
            for worker in set(active_children()) - others:
                worker.terminate()
            raise


def prepare(specs: Iterable[RunSpec], device: str = "auto") -> None:
    """Look for the data of these runs before the first begins, and encode their texts, with a progress bar."""
    for dataset, features in dict.fromkeys((spec.dataset, spec.features) for spec in specs):
        _find(dataset, features, device)


@lru_cache
def _find(dataset: str, features: str | None, device: str) -> None:
    _load(dataset, features, device)


def run(spec: RunSpec, device: str = "auto") -> Row:
    """Train once and measure: error on the test rows, and on the unlabeled rows that were trained on."""
    (outcome,) = run_fleet([spec], device)
    if isinstance(outcome, TrainingError):
        raise outcome
    return outcome


def _fleets(specs: Sequence[RunSpec], device: str) -> Iterator[list[RunSpec]]:
    """Runs to train at once, in their order but for those of other networks, which have fleets of their own."""
    from pulab.training import can_stack

    by_net: dict[str | None, list[RunSpec]] = {}
    for spec in specs:
        by_net.setdefault(spec.net, []).append(spec)
    for net, mine in by_net.items():
        size = SMALL_AT_ONCE if net is None or can_stack(_net(mine[0])()) else LARGE_AT_ONCE
        rows = max(spec.sampling.n_labeled + spec.sampling.n_unlabeled for spec in mine)
        samples = (_load(*which, device).X_train for which in {(spec.dataset, spec.features) for spec in mine})
        size = max(1, min(size, FLEET_BYTES // (rows * max(X.nbytes // len(X) for X in samples))))
        yield from (mine[start : start + size] for start in range(0, len(mine), size))


def run_fleet(
    specs: Sequence[RunSpec], device: str = "auto", on_progress: OnProgress = ignore
) -> list[Row | TrainingError]:
    """Train many at once, each to the result it has alone. Their seconds are shares of the time of all.

    A training that fails leaves its error, with the run's name, in the place of a row.
    """
    trials = []
    for spec in specs:
        check_choice("method", spec.method, METHODS)
        data = _load(spec.dataset, spec.features, device)
        trials.append(spec.sampling.draw(data.X_train, data.y_train, spec.seed))
    estimators = [make_estimator(spec, t.train.prior, device) for spec, t in zip(specs, trials, strict=True)]
    given = [_fit_arguments(METHODS[spec.method], trial) for spec, trial in zip(specs, trials, strict=True)]
    start = time.perf_counter()
    fitted = _fit(specs, estimators, given, on_progress)
    seconds = (time.perf_counter() - start) / len(specs)
    return [
        TrainingError(f"{spec.method} on {spec.dataset}, seed {spec.seed}, {spec.params}: {clf}")
        if isinstance(clf, TrainingError)
        else _row(spec, trial.train, clf, seconds, device)
        for spec, trial, clf in zip(specs, trials, fitted, strict=True)
    ]


def _fit(
    specs: Sequence[RunSpec], estimators: Sequence[Any], given: Sequence[dict[str, Any]], on_progress: OnProgress
) -> list[Any]:
    """Networks all at once, the others one by one."""
    from pulab.estimators import fit_in_step

    networks = [i for i, spec in enumerate(specs) if METHODS[spec.method].is_network]
    chosen = [estimators[i] for i in networks], [given[i] for i in networks]
    together = fit_in_step(*chosen, side_by_side=LARGE_AT_ONCE, on_progress=on_progress) if networks else []
    fitted = dict(zip(networks, together, strict=True))
    for i, estimator in enumerate(estimators):
        if i not in fitted:
            fitted[i] = estimator.fit(given[i]["X"], given[i]["y"])
            on_progress(1)
    return [fitted[i] for i in range(len(estimators))]


def _fit_arguments(method: Method, trial: Trial) -> dict[str, Any]:
    train, validation = trial
    given = {"X": train.X, "y": train.y_true if method.learns_from_truth else train.s}
    if validation is not None:
        given |= {"X_val": validation.X, "y_val": validation.y_true if method.learns_from_truth else validation.s}
    return given


def _columns(history: Sequence[Row]) -> dict[str, list[Any]]:
    """A list of records as a record of lists, which takes a third of the room; without the histograms."""
    names = [name for name in (history[0] if history else {}) if name not in ("epoch", "label_histogram")]
    return {name: [_finite(record[name]) for record in history] for name in names}


def _finite(value: Any) -> Any:
    """None for what JSON cannot hold: the validation risk of an epoch that was not kept, say."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _row(spec: RunSpec, train: PUSample, estimator: Any, seconds: float, device: str) -> Row:
    data = _load(spec.dataset, spec.features, device)
    history = getattr(estimator, "history_", [])
    best_epoch = getattr(estimator, "best_epoch_", None)
    return {
        **spec.as_row(),
        "settings": settings(estimator),
        "test_error": 100 * float((estimator.predict(data.X_test) != data.y_test).mean()),
        "recovery_error": 100 * float((estimator.predict(train.X_unlabeled) != train.y_unlabeled).mean()),
        "val_risk": history[best_epoch - 1]["val_risk"] if best_epoch else None,
        "best_epoch": best_epoch,
        "history": _columns(history),
        "sigma_history": _columns(getattr(estimator, "sigma_history_", [])),
        "label_histogram": [record["label_histogram"] for record in history if "label_histogram" in record],
        "seconds": seconds,
        **_circumstances(str(getattr(estimator, "device_", "cpu"))),
    }


def make_estimator(spec: RunSpec, prior: float, device: str = "auto") -> Any:
    """The estimator that a spec asks for, told the prior if it needs it."""
    method = METHODS[spec.method]
    if method.needs_negatives:
        raise InputError(f"{spec.method} needs known negatives, which no sampling draws. Use {spec.method}-n.")
    told = {"prior": prior} if method.needs_prior else {}
    where = {"module": _net(spec), "device": device} if method.is_network else {}
    return method.load()(**{**told, **spec.params}, **where, random_state=spec.seed)


def _net(spec: RunSpec) -> Any:
    """What makes the network that a spec names; None for the default one."""
    from pulab.nets import NETS

    if spec.net is None:
        return None
    check_choice("net", spec.net, NETS)
    make = NETS[spec.net]
    return partial(make, FEATURES[spec.features].n_features) if spec.features else make


def settings(estimator: Any) -> Row:
    """All that was set or left at its default, but for where it ran."""
    told_elsewhere = ("module", "device", "random_state", "verbose", "prior", "n_jobs", "estimator")
    return {name: value for name, value in estimator.get_params().items() if name not in told_elsewhere}


def is_current(spec: RunSpec, row: Row) -> bool:
    """Whether a row was made with today's defaults of what its spec leaves open; the digest does not know them."""
    today = settings(make_estimator(spec, prior=0.5))
    return bool(row["settings"] == rounded(today))


@lru_cache(maxsize=2)
def _load(dataset: str, features: str | None, device: str) -> Split:
    check_choice("dataset", dataset, DATASETS)
    data = DATASETS[dataset].load()
    if features is None:
        return data
    check_choice("features", features, FEATURES)
    return encoded(data, features, device)


def _circumstances(device: str) -> Row:
    import torch

    name = torch.cuda.get_device_name() if device.startswith("cuda") else platform.machine()
    return {
        "device": f"{device} ({name})",
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "versions": {"pulab": __version__, "torch": torch.__version__, "python": platform.python_version()},
        "commit": commit(),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


@lru_cache(maxsize=1)
def commit() -> str | None:
    """The commit that the code runs from: of its checkout, or as the environment has it where there is no git."""
    if "PULAB_COMMIT" in os.environ:
        return os.environ["PULAB_COMMIT"]
    if not (Path(__file__).parents[3] / ".git").exists():  # installed, perhaps inside of another project's repository
        return None
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() or None


def _is_cuda(device: str) -> bool:
    from pulab._torch import resolve_device

    return resolve_device(device).type == "cuda"


def _settings() -> "Settings":
    from pulab._torch import Settings

    return Settings.here()


def _begin_worker(same: "Settings") -> None:
    """One thread; Ctrl-C is the parent's to answer; and no life after the parent's."""
    import torch

    torch.set_num_threads(1)
    same.use()
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def follow() -> None:
        parent = parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    Thread(target=follow, daemon=True).start()
