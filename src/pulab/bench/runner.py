"""From specs to rows."""

import math
import os
import platform
import shutil
import signal
import subprocess
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache, partial
from itertools import islice
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from joblib import cpu_count  # respects affinity and the limits of containers
from sklearn.metrics import roc_auc_score

from pulab import __version__
from pulab._validation import check_choice
from pulab.bench._memory import watch_memory
from pulab.bench._ray import OnRay, outcomes_on_ray
from pulab.bench.features import FEATURES, encoded
from pulab.bench.learners import LEARNERS
from pulab.bench.spec import RunSpec
from pulab.bench.store import Row, RunLocks, append_row, rounded, rows_of
from pulab.datasets import DATASETS, HeldOutSampling, PUSample, Sampling, Split, Trial, error_of
from pulab.errors import InputError, PulabWarning, TrainingError
from pulab.methods import METHODS, Method
from pulab.metrics import centred_risk, zero_one_risk

if TYPE_CHECKING:
    from pulab._torch import Settings

OnProgress = Callable[[float], None]  # called with the number of further runs done, which may be a fraction
Claim = Callable[[Sequence[RunSpec]], list[RunSpec]]  # called with runs to start, returns those to start here
SMALL_AT_ONCE, LARGE_AT_ONCE = 120, 5  # runs in a fleet: as one batched network, or as networks side by side
FLEET_BYTES = 4 * 2**30  # limit on the samples of a fleet, which a device holds twice


def run_all(
    specs: Iterable[RunSpec],
    *,
    device: str = "auto",
    jobs: int | None = None,
    on_progress: OnProgress = lambda runs: None,
    claim: Claim = list,
    checkpoints: Path | None = None,
    ray: OnRay | None = None,
) -> Iterator[Row]:
    """The rows of these runs, each as soon as it is done: one process per core, or fleets of runs on a GPU.

    With ``ray``, the same on the machines of a Ray cluster.

    A training that fails does not stop the others. Its error is raised at the end. Runs that ``claim`` leaves out when
    they are about to start have no row. With ``checkpoints``, a folder, networks are kept there while they are trained,
    a folder per run: delete it when you have the row.
    """
    specs = list(specs)
    failures = []
    if ray is None:
        outcomes = _outcomes(specs, device, min(jobs or cpu_count(), len(specs)), on_progress, claim, checkpoints)
    else:
        prepare(specs, "cpu")  # here, so that missing data are told before any task starts
        outcomes = outcomes_on_ray(specs, device, on_progress, claim, checkpoints, ray)
    for outcome in outcomes:
        if isinstance(outcome, TrainingError):
            failures.append(outcome)
        else:
            yield outcome
    if failures:
        raise TrainingError(f"{len(failures)} of {len(specs)} runs failed, and have no row. The first: {failures[0]}")


def _outcomes(
    specs: Sequence[RunSpec],
    device: str,
    jobs: int,
    on_progress: OnProgress,
    claim: Claim,
    checkpoints: Path | None,
) -> Iterator[Row | TrainingError]:
    from pulab._torch import Settings

    prepare(specs, device)  # once, before the processes start: each would encode the texts
    if _is_cuda(device) or jobs <= 1:
        for fleet in fleets(specs, device) if _is_cuda(device) else [[spec] for spec in specs]:
            claimed = claim(fleet)
            on_progress(len(fleet) - len(claimed))
            if claimed:
                yield from run_fleet(claimed, device, on_progress, checkpoints)
        return
    waiting = iter(specs)
    _load.cache_clear()  # the processes load the data themselves
    context = get_context("spawn")  # a forked torch may hang
    others = set(active_children())  # processes of the caller
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin_worker, initargs=(Settings.here(),)) as pool:
        running: set[Future[list[Row | TrainingError]]] = set()
        try:
            while True:
                while len(running) < jobs and (following := list(islice(waiting, jobs - len(running)))):
                    claimed = claim(following)
                    on_progress(len(following) - len(claimed))
                    with _interrupts_wait():
                        running |= {pool.submit(run_fleet, [spec], device, checkpoints=checkpoints) for spec in claimed}
                if not running:
                    return
                ended, running = wait(running, return_when=FIRST_COMPLETED)
                for done in ended:
                    outcomes = done.result()
                    on_progress(1)
                    yield from outcomes
        except BrokenProcessPool as error:
            raise InputError(
                "the training processes ended early. In a script, call run_all below `if __name__ == '__main__':`. "
                "If memory is short, pass fewer jobs. Rows already returned stay valid."
            ) from error
        except BaseException:  # an error or Ctrl-C: stop the other processes at once
            for worker in set(active_children()) - others:
                worker.terminate()
            raise


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """A process that starts in here does not see Ctrl-C. Before it runs our code, it would end with a traceback."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Claims:
    """Shares the runs of a folder among the processes that work on it: each run is started by one of them."""

    def __init__(self, specs: Iterable[RunSpec], folder: Path) -> None:
        self._specs, self._folder = {spec.digest: spec for spec in specs}, folder
        self._begun: set[str] = set()
        self.done: set[str] = set()
        self._read()
        self._locks = RunLocks(folder)
        self.checkpoints = folder / ".checkpoints"
        for digest in self.done:  # of a process that was killed after it had written the row
            self._forget(digest)

    def __enter__(self) -> "Claims":
        return self

    def __exit__(self, *error: object) -> None:
        if self._specs.keys() <= self.done:
            self._forget(BODIES)
        self._locks.close()

    @property
    def left(self) -> list[RunSpec]:
        """The runs that had no row when rows were last read, and that were not begun here."""
        return [spec for digest, spec in self._specs.items() if digest not in self.done | self._begun]

    def claim(self, specs: Sequence[RunSpec]) -> list[RunSpec]:
        """Those of these runs that no process has begun. They are this process's until :meth:`add` or its end."""
        locked = [spec for spec in specs if spec.digest not in self.done and self._locks.take(spec.digest)]
        if locked:  # a row is written before its lock is released, so it is seen here
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PulabWarning)  # said when the rows were first read
                self._read()
        for spec in locked:
            if spec.digest in self.done:
                self._locks.release(spec.digest)
        claimed = [spec for spec in locked if spec.digest not in self.done]
        self._begun |= {spec.digest for spec in claimed}
        return claimed

    def add(self, path: Path, row: Row) -> None:
        """Store the row of a claimed run."""
        append_row(path, row)
        self._forget(row["spec"])
        self.done.add(row["spec"])
        self._locks.release(row["spec"])

    def _forget(self, digest: str) -> None:
        shutil.rmtree(self.checkpoints / digest, ignore_errors=True)

    def take_over(self, on_wait: Callable[[int], None], pause: float = 1.0) -> list[RunSpec]:
        """Wait until the other processes have done their runs. Return the runs of one that ended before."""
        if claimed := self.claim(self.left):
            return claimed
        if self.left:
            on_wait(len(self.left))
        while self.left:
            time.sleep(pause)
            if claimed := self.claim(self.left):
                return claimed
        return []

    def _read(self) -> None:
        new = (row for row in rows_of(self._specs.values(), self._folder) if row["spec"] not in self.done)
        self.done |= {row["spec"] for row in new if is_current(self._specs[row["spec"]], row)}


def prepare(specs: Iterable[RunSpec], device: str = "auto") -> None:
    """Find the data of these runs before the first one starts, and encode their texts, with a progress bar."""
    for dataset, features in dict.fromkeys((spec.dataset, spec.features) for spec in specs):
        _find(dataset, features, device)


@lru_cache
def _find(dataset: str, features: str | None, device: str) -> None:
    _load(dataset, features, device)


def run(spec: RunSpec, device: str = "auto") -> Row:
    """Train once and measure the error on the test rows and on the unlabeled rows of the training sample."""
    (outcome,) = run_fleet([spec], device)
    if isinstance(outcome, TrainingError):
        raise outcome
    return outcome


def fleets(specs: Sequence[RunSpec], device: str) -> Iterator[list[RunSpec]]:
    """Runs to train at once. A fleet has runs of one network, in their order."""
    from pulab.training import can_stack

    by_net: dict[str | None, list[RunSpec]] = {}
    for spec in specs:
        by_net.setdefault(spec.net, []).append(spec)
    for net, group in by_net.items():
        size = SMALL_AT_ONCE if net is None or can_stack(_net(group[0])()) else LARGE_AT_ONCE
        rows = max(spec.sampling.n_labeled + spec.sampling.n_unlabeled for spec in group)
        samples = (_load(*which, device).X_train for which in {(spec.dataset, spec.features) for spec in group})
        size = max(1, min(size, FLEET_BYTES // (rows * max(X.nbytes // len(X) for X in samples))))
        yield from (group[start : start + size] for start in range(0, len(group), size))


def run_fleet(
    specs: Sequence[RunSpec],
    device: str = "auto",
    on_progress: OnProgress = lambda runs: None,
    checkpoints: Path | None = None,
) -> list[Row | TrainingError]:
    """Train many runs at once. Each gives the same result as alone. The total time is divided evenly among rows.

    A training that fails is returned as an error that names the run.
    """
    trials = []
    for spec in specs:
        check_choice("method", spec.method, METHODS)
        data = _load(spec.dataset, spec.features, device)
        trials.append(spec.sampling.draw(data.X_train, data.y_train, spec.seed))
    estimators = [make_estimator(spec, t.train.prior, device) for spec, t in zip(specs, trials, strict=True)]
    arguments = [_fit_arguments(METHODS[spec.method], trial) for spec, trial in zip(specs, trials, strict=True)]
    resumed = [checkpoints is not None and _keep_in(checkpoints, *pair) for pair in zip(specs, estimators, strict=True)]
    bodies = _bodies(checkpoints)
    memory = watch_memory(device if device != "auto" else "cuda" if _is_cuda(device) else "cpu")
    start = time.perf_counter()
    fitted = _fit(specs, estimators, arguments, on_progress)
    seconds = (time.perf_counter() - start) / len(specs)
    mib = memory()
    new_bodies = len(_bodies(checkpoints) - bodies)
    return [
        TrainingError(f"{spec.method} on {spec.dataset}, seed {spec.seed}, {spec.params}: {clf}")
        if isinstance(clf, TrainingError)
        else _row(spec, trial, clf, seconds, device)
        | ({} if mib is None else {"memory_mib": mib / len(specs)})
        | ({"resumed": True} if again else {})
        | ({"body": "of another run"} if getattr(clf, "pretrain_history_", []) and bodies and not new_bodies else {})
        for spec, trial, clf, again in zip(specs, trials, fitted, resumed, strict=True)
    ]


BODIES = "bodies"  # the folder of self-supervised networks, which runs of one seed share


def _keep_in(checkpoints: Path, spec: RunSpec, estimator: Any) -> bool:
    """Keep a network in the folder of its run while it is trained. Whether an earlier process has left something."""
    if not METHODS[spec.method].is_network:
        return False
    folder = checkpoints / spec.digest
    folder.mkdir(parents=True, exist_ok=True)
    estimator.set_params(checkpoint=folder)
    if "pretrain_cache" in estimator.get_params():
        (checkpoints / BODIES).mkdir(exist_ok=True)
        estimator.set_params(pretrain_cache=checkpoints / BODIES)
    return any(folder.iterdir())


def _bodies(checkpoints: Path | None) -> set[str]:
    place = checkpoints and checkpoints / BODIES
    return {path.name for path in place.iterdir()} if place and place.is_dir() else set()


def _fit(
    specs: Sequence[RunSpec], estimators: Sequence[Any], arguments: Sequence[dict[str, Any]], on_progress: OnProgress
) -> list[Any]:
    """Fit the networks all at once, the others one by one."""
    from pulab.estimators import fit_in_step

    networks = [i for i, spec in enumerate(specs) if METHODS[spec.method].is_network]
    chosen = [estimators[i] for i in networks], [arguments[i] for i in networks]
    together = fit_in_step(*chosen, side_by_side=LARGE_AT_ONCE, on_progress=on_progress) if networks else []
    fitted = dict(zip(networks, together, strict=True))
    for i, estimator in enumerate(estimators):
        if i not in fitted:
            fitted[i] = estimator.fit(arguments[i]["X"], arguments[i]["y"])
            on_progress(1)
    return [fitted[i] for i in range(len(estimators))]


def _fit_arguments(method: Method, trial: Trial) -> dict[str, Any]:
    train, validation = trial
    labels = "y_true" if method.learns_from_truth else "s"
    arguments = {"X": train.X, "y": getattr(train, labels)}
    if validation is not None:
        arguments |= {"X_val": validation.X, "y_val": getattr(validation, labels)}
    return arguments


def _columns(history: Sequence[Row]) -> dict[str, list[Any]]:
    """Turn the records into one list per name, without the histograms: a third of the size."""
    names = [name for name in (history[0] if history else {}) if name not in ("epoch", "label_histogram")]
    return {name: [_finite(record[name]) for record in history] for name in names}


def _finite(value: Any) -> Any:
    """The value, or None for NaN and infinity, which JSON does not have."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _row(spec: RunSpec, trial: Trial, estimator: Any, seconds: float, device: str) -> Row:
    data, train = _load(spec.dataset, spec.features, device), trial.train
    called = estimator.predict(data.X_test)
    history = getattr(estimator, "history_", [])
    best_epoch = getattr(estimator, "best_epoch_", None)
    return {
        **spec.as_row(),
        "settings": settings(estimator),
        "test_error": 100 * error_of(spec.sampling, data.y_test, called),
        "test_auc": roc_auc_score(data.y_test, estimator.decision_function(data.X_test)),
        "recovery_error": 100 * float((estimator.predict(train.X_unlabeled) != train.y_unlabeled).mean()),
        "val_risk": history[best_epoch - 1]["val_risk"] if best_epoch else None,
        **_criterion(spec.sampling, trial.validation, estimator),
        "best_epoch": best_epoch,
        "history": _columns(history),
        "sigma_history": _columns(getattr(estimator, "sigma_history_", [])),
        "label_histogram": [record["label_histogram"] for record in history if "label_histogram" in record],
        "seconds": seconds,
        **_circumstances(str(getattr(estimator, "device_", "cpu"))),
    }


def _criterion(sampling: Sampling, validation: PUSample | None, estimator: Any) -> Row:
    """What settings of a method can be compared by, from held-out P and U."""
    if validation is None:
        return {}
    told: Row = {"prior": validation.prior, "scenario": sampling.scenario}
    g = estimator.decision_function(validation.X)
    is_positive = estimator.predict(validation.X) == estimator.classes_[-1]
    return {
        "centred_risk": centred_risk(validation.s, g, **told),
        "zero_one_risk": zero_one_risk(validation.s, is_positive, **told),
    }


def make_estimator(spec: RunSpec, prior: float, device: str = "auto") -> Any:
    """The estimator that a spec asks for. The prior is passed only to methods that need it."""
    method = METHODS[spec.method]
    if method.needs_negatives:
        raise InputError(f"{spec.method} needs known negatives, but samplings have none. Use {spec.method}-n.")
    params = {"prior": prior, **spec.params} if method.needs_prior else dict(spec.params)
    if "estimator" in params:
        check_choice("estimator", params["estimator"], LEARNERS)
        params["estimator"] = LEARNERS[params["estimator"]]()
    network = {"module": _net(spec), "device": device} if method.is_network else {}
    if method.is_network and not isinstance(spec.sampling, HeldOutSampling):
        params = {"calibration": False, **params}  # published protocols decide by the sign of the logit
    return method.load()(**params, **network, random_state=spec.seed)


def _net(spec: RunSpec) -> Any:
    """A function that makes the network of a spec, or None for the default network."""
    from pulab.nets import NETS

    if spec.net is None:
        return None
    check_choice("net", spec.net, NETS)
    make = NETS[spec.net]
    return partial(make, FEATURES[spec.features].n_features) if spec.features else make


def settings(estimator: Any) -> Row:
    """All parameters, except those that other columns of the row hold or that do not change the result."""
    left_out = (
        "module",
        "device",
        "checkpoint",
        "pretrain_cache",
        "random_state",
        "verbose",
        "warm_start",
        "prior",
        "n_jobs",
        "estimator",
    )
    return {name: value for name, value in estimator.get_params().items() if name not in left_out}


def is_current(spec: RunSpec, row: Row) -> bool:
    """Whether a row was made with today's defaults. The digest of a spec does not cover them."""
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
    """The commit of the checkout that the code runs from; $PULAB_COMMIT where there is no git."""
    if "PULAB_COMMIT" in os.environ:
        return os.environ["PULAB_COMMIT"]
    if not (Path(__file__).parents[3] / ".git").exists():  # installed, perhaps inside another project's repository
        return None
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    try:
        described = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return described.stdout.strip() or None


def _is_cuda(device: str) -> bool:
    from pulab._torch import resolve_device

    return resolve_device(device).type == "cuda"


def _begin_worker(settings: "Settings") -> None:
    """Use one thread and the parent's settings of torch, leave Ctrl-C to the parent, and end when it ends."""
    import torch

    torch.set_num_threads(1)
    settings.use()
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def follow() -> None:
        parent = parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    Thread(target=follow, daemon=True).start()
