"""Many fits at once."""

import copy
import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from inspect import signature
from pickle import PicklingError
from typing import Any, NamedTuple

import numpy as np
import torch
from joblib import Parallel, delayed
from joblib.externals.loky.backend.reduction import dumps
from sklearn.utils import check_random_state
from torch import nn

from pulab._torch import Settings, resolve_device
from pulab._validation import check_choice, check_number, draw_seed
from pulab.errors import ClusterError, InputError, TrainingError, warn
from pulab.estimators._base import BasePUClassifier, fit_tasks, owned
from pulab.estimators._work import check_checkpoint
from pulab.training import Record, has_gradient_hooks

LOAD = 2**30  # numbers in the rows of fits that are trained together; batched rows are on the device twice


def fit_many(
    estimators: Sequence[BasePUClassifier],
    datasets: Sequence[Mapping[str, Any]],
    *,
    n_jobs: int | None = -1,
    side_by_side: int = 4,
    on_error: str = "raise",
    backend: str = "processes",
    ray_options: Mapping[str, Any] | None = None,
) -> list[Any]:
    """Fit many estimators, each to the result it has alone, in less time than one after another.

    On a GPU small networks are trained as one batched network if they are ``nn.Sequential`` of common layers and differ
    in numbers only: samples, seeds, priors, weights of a loss, learning rates, weight decay. All others are trained
    side by side: your own ``nn.Module`` classes, networks with BatchNorm or with 5 million parameters, and everything
    under ``torch.use_deterministic_algorithms``. On a CPU fits are spread over processes of one thread each.

    A batched network rounds float32 differently, and a long training makes that visible. In float64 results are equal
    to 1e-9.

    Parameters
    ----------
    estimators : sequence of pulab classifiers
        They are not changed. Fitted copies are returned.
    datasets : sequence of dict
        The arguments of each ``fit``: ``{"X": …, "y": …}``, and ``X_val``, ``y_val`` if there are any.
    n_jobs : int or None
        Processes on a CPU, as in scikit-learn; -1 is one per core. Modules with hooks on gradients, or that
        cannot be pickled, need 1.
    side_by_side : int
        Number of networks that a GPU trains at a time. A batched network counts as one.
    on_error : {"raise", "return"}
        If the numbers of a training are no longer finite: raise its ``TrainingError``, or go on and return the error in
        the place of the estimator.
    backend : {"processes", "ray"}
        Where fits are spread over. With "ray": over the machines of the Ray cluster that this process is connected to
        by ``ray.init(address=…)``, or that $RAY_ADDRESS names, or that runs on this machine. ``n_jobs`` has no effect
        there. A fit whose machine dies is made again on another.
    ray_options : dict or None
        What a task gets on the cluster: ``{"num_cpus": 1, "num_gpus": 0.25}`` lets four tasks share a GPU. With GPUs
        a task trains several networks at once; otherwise a task is one fit.

    Examples
    --------
    >>> from pulab import JointPUClassifier, fit_many
    >>> from pulab.datasets import load_digits, make_pu
    >>> digits = load_digits(positive=(0,))
    >>> trials = [make_pu(digits.X_train, digits.y_train, n_labeled=50, random_state=seed) for seed in range(2)]
    >>> estimators = [JointPUClassifier(prior=pu.prior, epochs=5, random_state=0) for pu in trials]
    >>> fitted = fit_many(estimators, [{"X": pu.X, "y": pu.s} for pu in trials], n_jobs=1)
    >>> [clf.best_epoch_ <= 5 for clf in fitted]
    [True, True]
    """
    if isinstance(estimators, BasePUClassifier) or isinstance(datasets, Mapping):
        raise InputError("fit_many needs a list of estimators and a list of data sets. For one of each, call its fit.")
    estimators, datasets = list(estimators), list(datasets)
    if len(estimators) != len(datasets):
        raise InputError(f"fit_many needs a data set per estimator, got {len(estimators)} and {len(datasets)}.")
    for estimator, data in zip(estimators, datasets, strict=True):
        if not isinstance(estimator, BasePUClassifier) or not isinstance(data, Mapping) or not {"X", "y"} <= set(data):
            raise InputError("fit_many needs pulab's network classifiers, and for each a dict with X and y.")
        if estimator.checkpoint is not None:
            check_checkpoint(estimator.checkpoint, estimator.random_state)
        unknown = set(data) - set(signature(estimator.fit).parameters)
        if unknown:
            raise InputError(
                f"{type(estimator).__name__}.fit does not take {sorted(unknown)}, got data sets with them."
            )
    check_choice("on_error", on_error, ("raise", "return"))
    check_choice("backend", backend, ("processes", "ray"))
    if ray_options is not None and backend != "ray":
        raise InputError("ray_options need backend='ray', got backend='processes'. Leave one of them out.")
    check_number("side_by_side", side_by_side, low=1, whole=True)
    if n_jobs == 0 or not (n_jobs is None or isinstance(n_jobs, int | np.integer)):
        raise InputError(
            f"n_jobs must be a whole number other than 0, or None, got {n_jobs!r}. Use -1 for one per core."
        )
    if not estimators:
        return []
    if backend == "ray":
        fitted = _fit_on_ray(estimators, datasets, side_by_side, on_error, {"num_cpus": 1, **(ray_options or {})})
    elif all(resolve_device(estimator.device).type == "cuda" for estimator in estimators):
        fitted = fit_in_step(estimators, datasets, side_by_side=side_by_side)
        _raise_first(fitted, on_error)
    else:
        fitted = _fit_in_processes(estimators, datasets, n_jobs, on_error)
    for result, estimator in zip(fitted, estimators, strict=True):
        if estimator.random_state is None and not isinstance(result, TrainingError):
            result.random_state = None
    return fitted


def fit_in_step(
    estimators: Sequence[BasePUClassifier],
    datasets: Sequence[Mapping[str, Any]],
    *,
    side_by_side: int = 4,
    on_progress: Callable[[float], None] = lambda fits: None,
) -> list[Any]:
    """Fit copies of the estimators in this process, all at once. A failed training gives its error as its result.

    ``on_progress`` gets the finished part of a fit after every epoch of every estimator. A fit may have one training or
    two; all epochs count the same.
    """
    an_epoch = len(estimators) / sum(estimator._n_trainings for estimator in estimators)
    fitted: list[Any] = _copies(estimators)

    def on_epoch(record: Record, epochs: int) -> None:
        on_progress(an_epoch / epochs)

    for together in _loads(datasets):
        chosen = [fitted[i] for i in together]
        with torch.inference_mode(False), torch.enable_grad():
            owners = [_owner(i) for i in together]
            tasks = []
            for owner, estimator, i in zip(owners, chosen, together, strict=True):
                with owned(owner):
                    tasks.append(estimator._prepare(**datasets[i]))
            # The last bits of batched arithmetic depend on the number of models.
            batched = tasks[0].device.type == "cuda" and not torch.are_deterministic_algorithms_enabled()
            failures = fit_tasks(
                chosen, tasks, batched=batched, side_by_side=side_by_side, on_epoch=on_epoch, owners=owners
            )
        for i, failure in zip(together, failures, strict=True):
            fitted[i] = failure or fitted[i]
    return fitted


def _copies(estimators: Sequence[BasePUClassifier]) -> list[BasePUClassifier]:
    """Fresh copies. A shared RandomState, or numpy's own for None, gives each copy the numbers it would get alone.

    The copies hold the state, because a worker process would draw from its own generator.
    """
    copies = []
    for estimator in estimators:
        # Not scikit-learn's clone: it copies a module without its hooks, which `fit` keeps.
        copied, state = type(estimator)(**estimator.get_params(deep=False)), estimator.random_state
        if state is None or isinstance(state, np.random.RandomState):
            copied.random_state = copy.deepcopy(check_random_state(state))
            draw_seed(state)
        copies.append(copied)
    return copies


def _loads(datasets: Sequence[Mapping[str, Any]]) -> Iterator[list[int]]:
    """Groups of fits, in their order, whose rows a device can hold at once."""
    load: list[int] = []
    numbers = 0
    for i, data in enumerate(datasets):
        size = sum(
            math.prod(np.shape(rows)) for name, rows in data.items() if name.startswith("X") and rows is not None
        )
        if load and numbers + size > LOAD:
            yield load
            load, numbers = [], 0
        load, numbers = [*load, i], numbers + size
    yield load


def _fit_in_processes(
    estimators: Sequence[BasePUClassifier], datasets: Sequence[Mapping[str, Any]], n_jobs: int | None, on_error: str
) -> list[Any]:
    copies, caller = _copies(estimators), _Caller(os.getpid(), Settings.here())
    hooked = [isinstance(c.module, nn.Module) and has_gradient_hooks(c.module) for c in copies]
    jobs = enumerate(zip(copies, datasets, hooked, strict=True))
    fitted = []
    try:
        for result, messages in Parallel(n_jobs)(delayed(_fit)(i, *job, on_error, caller) for i, job in jobs):
            fitted.append(result)
            for message in messages:
                warn(message)
    except PicklingError:
        for i, estimator in enumerate(copies):
            _check_picklable(estimator, i)
        raise
    return fitted


def _raise_first(fitted: Sequence[Any], on_error: str) -> None:
    for i, error in enumerate(fitted):
        if isinstance(error, TrainingError) and on_error == "raise":
            raise TrainingError(f"{_owner(i)}{error}")


def _fit_on_ray(
    estimators: Sequence[BasePUClassifier],
    datasets: Sequence[Mapping[str, Any]],
    side_by_side: int,
    on_error: str,
    options: Mapping[str, Any],
) -> list[Any]:
    """A task per fit. On GPUs a task per group of fits, as many groups as the cluster can run at a time."""
    from pulab.cluster import connected, slots, spread

    copies, caller = _copies(estimators), _Caller(ELSEWHERE, Settings.here())
    hooked = [isinstance(c.module, nn.Module) and has_gradient_hooks(c.module) for c in copies]
    for i, copied in enumerate(copies):
        if hooked[i]:
            raise InputError(f"{_owner(i)}hooks on gradients do not go to another process. Pass backend='processes'.")
        _check_picklable(copied, i)
    fitted: list[Any] = [None] * len(copies)
    with connected() as ray:
        size = 1
        if options.get("num_gpus", 0):
            size = math.ceil(len(copies) / max(1, slots(ray, options)))
        groups = [range(start, min(start + size, len(copies))) for start in range(0, len(copies), size)]
        sent = {id(data): ray.put(dict(data)) for data in datasets}  # fits of one dict share it, once per machine

        def calls() -> Iterator[tuple[range, tuple[Any, ...]]]:
            for group in groups:
                chosen = [copies[i] for i in group]
                data = [sent[id(datasets[i])] for i in group]
                if size == 1:
                    yield group, (group[0], chosen[0], data[0], False, "return", caller)
                else:
                    yield group, (side_by_side, chosen, *data)

        for group, results in spread(ray, _fit if size == 1 else _fit_group, calls(), options=options):
            if isinstance(results, ClusterError):
                raise ClusterError(f"{_owner(group[0])}{results}") from results
            if size == 1:
                result, messages = results
                results = [result]
                for message in messages:
                    warn(message)
            for i, result in zip(group, results, strict=True):
                fitted[i] = result
    _raise_first(fitted, on_error)
    return fitted


def _fit_group(side_by_side: int, estimators: Sequence[BasePUClassifier], *datasets: Mapping[str, Any]) -> list[Any]:
    return fit_in_step(estimators, datasets, side_by_side=side_by_side)


ELSEWHERE = -1  # the number of no process: every worker of a cluster is another one


class _Caller(NamedTuple):
    process: int
    settings: Settings


def _check_picklable(estimator: BasePUClassifier, i: int) -> None:
    try:
        dumps(estimator)  # as joblib does it
    except Exception as error:
        raise InputError(
            f"{_owner(i)}the estimator cannot go to another process and back: {error}. Pass n_jobs=1."
        ) from error


def _fit(
    i: int, estimator: BasePUClassifier, data: Mapping[str, Any], hooked: bool, on_error: str, caller: _Caller
) -> tuple[Any, list[str]]:
    """Fit one estimator on one thread. Another process also returns pulab's warnings, for the caller to repeat."""
    in_worker = os.getpid() != caller.process
    if in_worker and hooked:  # a pickle loses them without a word
        raise InputError(f"{_owner(i)}hooks on gradients do not go to another process. Pass n_jobs=1.")
    threads, before = torch.get_num_threads(), Settings.here()
    torch.set_num_threads(1)
    caller.settings.use()
    try:
        with ExitStack() as stack:
            caught = stack.enter_context(warnings.catch_warnings(record=True, action="default")) if in_worker else []
            stack.enter_context(owned(_owner(i)))
            estimator.fit(**data)
        if in_worker:
            _check_picklable(estimator, i)
        result: Any = estimator
    except TrainingError as error:
        if on_error == "raise":
            raise TrainingError(f"{_owner(i)}{error}") from error
        result = error
    finally:
        torch.set_num_threads(threads)
        before.use()
    return result, [str(warning.message) for warning in caught]


def _owner(i: int) -> str:
    return f"estimators[{i}]: "
