"""Many fits at once."""

import copy
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from inspect import signature
from pickle import PicklingError, loads
from typing import Any, NamedTuple

import numpy as np
import torch
from joblib import Parallel, delayed
from joblib.externals.loky.backend.reduction import dumps
from sklearn.utils import check_random_state
from torch import nn

from pulab._torch import Settings, resolve_device
from pulab._validation import check_choice, check_number
from pulab.errors import InputError, PulabWarning, TrainingError, warn
from pulab.estimators._base import BasePUClassifier, draw_seed, fit_tasks, owned
from pulab.training import Record, has_gradient_hooks

LOAD = 2**30  # numbers in the rows of fits that are trained together; batched, they are on the device twice


def fit_many(
    estimators: Sequence[BasePUClassifier],
    datasets: Sequence[Mapping[str, Any]],
    *,
    n_jobs: int | None = -1,
    side_by_side: int = 4,
    on_error: str = "raise",
) -> list[Any]:
    """Fit many estimators, each to the result it has alone, in less time than one after another.

    On a GPU small networks that differ in their numbers only (samples, seeds, priors, weights of a loss, learning
    rates, weight decay) are trained as one batched network; the others side by side: larger networks, those with
    buffers (BatchNorm) or random numbers of their own other than ``nn.Dropout``'s, and all under
    ``torch.use_deterministic_algorithms``. Another loss, batch size or number of epochs or rows makes another network.
    On a CPU fits are spread over processes of one thread each.

    In a batched network float32 is rounded in another way, which a long training makes visible; in float64 the
    results are equal to 1e-9.

    Parameters
    ----------
    estimators : sequence of pulab classifiers
        They are not changed; fitted copies are returned.
    datasets : sequence of dict
        What to pass to each ``fit``: ``{"X": …, "y": …}``, and ``X_val``, ``y_val`` where there are any.
    n_jobs : int or None
        Processes on a CPU, as for scikit-learn; -1 is one a core. Modules with hooks on gradients, or that cannot be
        pickled, need 1.
    side_by_side : int
        How many networks a GPU trains at a time, those that are batched counting as one.
    on_error : {"raise", "return"}
        What to do about a training whose numbers are no longer finite: raise its ``TrainingError``, or go on and return
        the error in the place of the estimator.

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
        unknown = set(data) - set(signature(estimator.fit).parameters)
        if unknown:
            raise InputError(
                f"{type(estimator).__name__}.fit does not take {sorted(unknown)}, got data sets with them."
            )
    check_choice("on_error", on_error, ("raise", "return"))
    check_number("side_by_side", side_by_side, low=1, whole=True)
    if n_jobs == 0 or not (n_jobs is None or isinstance(n_jobs, int | np.integer)):
        raise InputError(f"n_jobs must be a whole number other than 0, or None, got {n_jobs!r}. Use -1 for one a core.")
    if not estimators:
        return []
    if all(resolve_device(estimator.device).type == "cuda" for estimator in estimators):
        fitted = fit_in_step(estimators, datasets, side_by_side=side_by_side)
        for i, error in enumerate(fitted):
            if isinstance(error, TrainingError) and on_error == "raise":
                raise TrainingError(f"{_owner(i)}{error}")
    else:
        fitted = _fit_in_processes(estimators, datasets, n_jobs, on_error)
    for made, estimator in zip(fitted, estimators, strict=True):
        if estimator.random_state is None and not isinstance(made, TrainingError):
            made.random_state = None
    return fitted


def fit_in_step(
    estimators: Sequence[BasePUClassifier],
    datasets: Sequence[Mapping[str, Any]],
    *,
    side_by_side: int = 4,
    on_progress: Callable[[float], None] = lambda fits: None,
) -> list[Any]:
    """Fit copies of these in this process, all at once; a training that fails leaves its error in its place.

    ``on_progress`` is told after every epoch of every one of them which part of a fit that was, on average: of fits
    that are made of two trainings and fits that are made of one, all epochs count the same.
    """
    an_epoch = len(estimators) / sum(estimator._n_trainings for estimator in estimators)
    fitted: list[Any] = _copies(estimators)

    def on_epoch(record: Record, epochs: int) -> None:
        on_progress(an_epoch / epochs)

    for together in _loads(datasets):
        mine = [fitted[i] for i in together]
        with torch.inference_mode(False), torch.enable_grad():
            owners = [_owner(i) for i in together]
            tasks = []
            for owner, estimator, i in zip(owners, mine, together, strict=True):
                with owned(owner):
                    tasks.append(estimator._prepare(**datasets[i]))
            # Batched arithmetic depends on the company in its last bits.
            batched = tasks[0].device.type == "cuda" and not torch.are_deterministic_algorithms_enabled()
            failures = fit_tasks(
                mine, tasks, batched=batched, side_by_side=side_by_side, on_epoch=on_epoch, owners=owners
            )
        for i, failure in zip(together, failures, strict=True):
            fitted[i] = failure or fitted[i]
    return fitted


def _copies(estimators: Sequence[BasePUClassifier]) -> list[BasePUClassifier]:
    """Fresh copies. A RandomState that several of them share, numpy's own for None, gives each what it gives it alone.

    They hold its state, since a worker would draw from a generator of its own.
    """
    copies = []
    for estimator in estimators:
        # Not scikit-learn's clone, which copies a module without its hooks; fit copies it with them.
        made, state = type(estimator)(**estimator.get_params(deep=False)), estimator.random_state
        if state is None or isinstance(state, np.random.RandomState):
            made.random_state = copy.deepcopy(check_random_state(state))
            draw_seed(state)
        copies.append(made)
    return copies


def _loads(datasets: Sequence[Mapping[str, Any]]) -> Iterator[list[int]]:
    """Fits, in their order, whose rows a device holds at once."""
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
    hooked = [isinstance(made.module, nn.Module) and has_gradient_hooks(made.module) for made in copies]
    todo = enumerate(zip(copies, datasets, hooked, strict=True))
    fitted, said = [], dict[Any, Any]()
    try:
        for made, told in Parallel(n_jobs)(delayed(_fit)(i, *job, on_error, caller) for i, job in todo):
            fitted.append(made)
            for message, filename, line in told:
                if isinstance(message, PulabWarning):
                    warn(str(message))
                else:
                    warnings.warn_explicit(message, type(message), filename, line, _name_of(filename), said)
    except PicklingError:
        for i, made in enumerate(copies):
            _check_travels(made, i)
        raise
    return fitted


class _Caller(NamedTuple):
    process: int
    settings: Settings


def _check_travels(estimator: BasePUClassifier, i: int) -> None:
    """Refuse what is stuck between processes."""
    try:
        dumps(estimator)  # as joblib does it
    except Exception as error:
        raise InputError(
            f"{_owner(i)}the estimator cannot go to another process and back: {error}. Pass n_jobs=1."
        ) from error


def _told(warning: warnings.WarningMessage) -> tuple[Warning, str, int]:
    """What is needed to say it once more elsewhere, but for what cannot go there."""
    try:
        message = loads(dumps(warning.message))
    except Exception:
        message = UserWarning(str(warning.message))
    return message, warning.filename, warning.lineno


def _name_of(filename: str) -> str | None:
    """The module of a file, which filters of warnings may go by."""
    return next((name for name, m in list(sys.modules.items()) if getattr(m, "__file__", None) == filename), None)


def _fit(
    i: int, estimator: BasePUClassifier, data: Mapping[str, Any], hooked: bool, on_error: str, caller: _Caller
) -> tuple[Any, list[tuple[Warning, str, int]]]:
    """Fit one, on one thread; in another process also collect the warnings, for the caller to hear them."""
    away = os.getpid() != caller.process
    if away and hooked:
        raise InputError(f"{_owner(i)}hooks on gradients do not go to another process. Pass n_jobs=1.")
    threads, before = torch.get_num_threads(), Settings.here()
    torch.set_num_threads(1)
    caller.settings.use()
    try:
        with ExitStack() as stack:
            heard = stack.enter_context(warnings.catch_warnings(record=True, action="default")) if away else []
            stack.enter_context(owned(_owner(i)))
            estimator.fit(**data)
        if away:
            _check_travels(estimator, i)
        return estimator, [*map(_told, heard)]
    except TrainingError as error:
        if on_error == "raise":
            raise TrainingError(f"{_owner(i)}{error}") from error
        return error, [*map(_told, heard)]
    finally:
        torch.set_num_threads(threads)
        before.use()


def _owner(i: int) -> str:
    return f"estimators[{i}]: "
