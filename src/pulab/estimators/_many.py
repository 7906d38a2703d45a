"""Many fits at once."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from joblib import Parallel, delayed
from sklearn.base import clone

from pulab._torch import resolve_device
from pulab.errors import InputError
from pulab.estimators._base import BasePUClassifier, fit_tasks
from pulab.training import Record


def fit_many(
    estimators: Sequence[BasePUClassifier],
    datasets: Sequence[Mapping[str, Any]],
    *,
    n_jobs: int | None = -1,
    side_by_side: int = 4,
) -> list[Any]:
    """Fit many estimators, each to the result it has alone, in less time than one after another.

    On a GPU small networks that differ in their numbers only (samples, seeds, hyper-parameters) are trained as one
    batched network, larger ones side by side. On a CPU they are spread over processes of one thread each.

    Parameters
    ----------
    estimators : sequence of pulab classifiers
        They are not changed; fitted copies are returned.
    datasets : sequence of dict
        What to pass to each ``fit``: ``{"X": …, "y": …}``, and ``X_val``, ``y_val`` where there are any.
    n_jobs : int or None
        Processes on a CPU, as for scikit-learn; -1 is one a core.
    side_by_side : int
        How many larger networks a GPU trains at a time.

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
    if len(estimators) != len(datasets):
        raise InputError(f"fit_many needs a data set per estimator, got {len(estimators)} and {len(datasets)}.")
    for estimator, data in zip(estimators, datasets, strict=True):
        if not isinstance(estimator, BasePUClassifier) or not isinstance(data, Mapping) or not {"X", "y"} <= set(data):
            raise InputError("fit_many needs pulab's network classifiers, and for each a dict with X and y.")
    if not estimators:
        return []
    if all(resolve_device(estimator.device).type == "cuda" for estimator in estimators):
        return fit_in_step(estimators, datasets, side_by_side=side_by_side)
    fresh = [clone(estimator) for estimator in estimators]
    fitted: list[Any] = Parallel(n_jobs)(delayed(_fit)(e, data) for e, data in zip(fresh, datasets, strict=True))
    return fitted


def fit_in_step(
    estimators: Sequence[BasePUClassifier],
    datasets: Sequence[Mapping[str, Any]],
    *,
    side_by_side: int = 4,
    on_progress: Callable[[float], None] = lambda fits: None,
) -> list[Any]:
    """Fit copies of these in this process, all at once.

    ``on_progress`` is told after every epoch of every one of them which part of a fit that was, on average: of fits
    that are made of two trainings and fits that are made of one, all epochs count the same.
    """
    an_epoch = len(estimators) / sum(estimator._n_trainings for estimator in estimators)
    fresh = [clone(estimator) for estimator in estimators]
    with torch.inference_mode(False), torch.enable_grad():
        tasks = [estimator._prepare(**data) for estimator, data in zip(fresh, datasets, strict=True)]

        def on_epoch(record: Record, epochs: int) -> None:
            on_progress(an_epoch / epochs)

        batched = all(task.device.type == "cuda" for task in tasks)
        fit_tasks(fresh, tasks, batched=batched, side_by_side=side_by_side, on_epoch=on_epoch)
    return fresh


def _fit(estimator: BasePUClassifier, data: Mapping[str, Any]) -> BasePUClassifier:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return estimator.fit(**data)
    finally:
        torch.set_num_threads(threads)
