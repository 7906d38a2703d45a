"""Fits by several processes, each with a part of the rows of Parquet files: under torchrun or on Ray."""

import atexit
import os
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import distributed

from pulab._torch import Seeds, resolve_device, resolve_dtype
from pulab._validation import check_labels, check_number, check_prior, draw_seed, hold_out
from pulab.errors import ClusterError, InputError, PulabError, in_one_line
from pulab.estimators._base import BasePUClassifier, Task
from pulab.estimators._calibration import check_calibration
from pulab.estimators._shards import Shards, gathered
from pulab.training import Ranks, Rows, Share, Stream

Estimator = TypeVar("Estimator", bound=BasePUClassifier)


def fit_parquet(
    estimator: Estimator, table: Any, label: str, *, drop: Sequence[str] = (), scratch: str | Path | None = None
) -> Estimator:
    """Fit a classifier to Parquet files that need not fit into memory, in one process or in several.

    In a script under ``torchrun`` each process calls this function with the same arguments and gets the same fitted
    classifier. Each holds an equal part of the unlabeled rows with their labels and predictions, and of the labelled
    rows. The steps are those of one process: each has the same batch, and a loss over the whole of it. So the result is
    that of ``estimator.fit``, up to rounding, for any number of processes. Random views (``augment``) and dropout draw
    other numbers in each process, so with them only the distribution is the same. torch's BatchNorm takes the
    statistics of the whole batch.

    A process reads its rows once, into a flat file, and takes each batch from there.

    Parameters
    ----------
    estimator : JointPUClassifier, NNPUClassifier, UPUClassifier or PUbNClassifier
        It is fitted in place. ``prior`` must be a number. ``batch_size_u`` and ``batch_size_p`` count the rows of all
        processes together.
    table : path or list of paths
        A folder of Parquet files, a pattern, or the files in their order. All processes must see them.
    label : str
        The column of the labels: 1 for a known positive, 0 or nothing for an unlabeled row. All other columns must be
        numbers.
    drop : list of str
        Columns not to learn from.
    scratch : path, optional
        A folder on a fast disk with room for the rows of this machine: 12 bytes for each number. Default: the system's
        folder for temporary files.
    """
    _check_can(estimator)
    _join_group(estimator)
    ranks = Ranks.here()
    verbose, estimator.verbose = estimator.verbose, estimator.verbose if ranks.rank == 0 else 0
    try:
        return estimator._fit_task(lambda: _prepared(estimator, Shards(table, label, drop), ranks, scratch))
    finally:
        estimator.verbose = verbose


def _check_can(estimator: BasePUClassifier) -> None:
    if not vars(type(estimator)).get("_takes_shards"):  # not inherited: a subclass may have another objective
        raise InputError(f"fit_parquet takes joint, nnpu, upu and pubn, got {type(estimator).__name__}.")
    if estimator.checkpoint is not None:
        raise InputError("fit_parquet keeps no checkpoint, got one. Leave checkpoint out.")
    if estimator.warm_start:
        raise InputError("fit_parquet begins anew, got warm_start=True. Leave warm_start out.")


def _join_group(estimator: BasePUClassifier) -> None:
    """Join the group that torchrun asks for, until the process ends. torch makes no second one in a process."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or distributed.is_initialized():
        return
    on_gpu = resolve_device(estimator.device).type == "cuda"
    if on_gpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    distributed.init_process_group("nccl" if on_gpu else "gloo")
    atexit.register(distributed.destroy_process_group)


def _prepared(estimator: BasePUClassifier, shards: Shards, ranks: Ranks, scratch: str | Path | None) -> Task:
    """What ``BasePUClassifier._prepare`` makes of arrays: the same split and streams, of which this is a part."""
    estimator._forget()
    estimator._check_shared_params()
    estimator._check_params()
    check_calibration(estimator, held_out=estimator.validation_fraction > 0)
    device = resolve_device(estimator.device)
    if device.type == "cuda":
        device = torch.device("cuda", torch.cuda.current_device())
    dtype, _ = resolve_dtype(estimator.dtype, device)
    labels = check_labels(shards.labels(), shards.n_rows)
    estimator.classes_, estimator.device_ = labels.classes, device
    estimator.n_features_in_, estimator.row_shape_ = len(shards.names), (len(shards.names),)
    estimator.feature_names_in_ = np.array(shards.names, dtype=object)
    seeds = Seeds(ranks.of_first(draw_seed(estimator.random_state)))
    prior = check_prior(getattr(estimator, "prior", None), hint="")
    estimator.prior_, estimator.prior_interval_ = prior, (prior, prior)

    p, u = np.flatnonzero(labels.positive), np.flatnonzero(~labels.positive)
    held_out = {}
    if estimator.validation_fraction > 0:
        rng = np.random.default_rng(seeds["split"])
        p, p_val = hold_out(p, estimator.validation_fraction, rng)
        u, u_val = hold_out(u, estimator.validation_fraction, rng)
        held_out = estimator._stream_rows(p_val, u_val)
    streams = estimator._stream_rows(p, u)
    everything = {("training", name): rows for name, rows in streams.items()}
    everything |= {("validation", name): rows for name, rows in held_out.items()}
    shares = {key: Share.even(ranks.rank, ranks.size, len(rows)) for key, rows in everything.items()}
    own = {key: rows[shares[key].own] for key, rows in everything.items()}
    wanted = np.unique(np.concatenate(list(own.values())))
    wanted = wanted if len(wanted) > 1 else np.arange(2)  # a new module passes two rows
    folder = None if scratch is None else Path(scratch)
    population = own["training", "u"]
    X, estimator.scaler_ = gathered(shards, wanted, population, ranks, estimator.module is None, dtype, folder)
    rows = Rows(X, dtype, device)

    def stream(part: str, name: str) -> Stream:
        index = torch.from_numpy(np.searchsorted(wanted, own[part, name])).to(device)[None]
        return Stream(rows, index, share=shares[part, name] if ranks.size > 1 else None)

    return Task(
        prior=prior,
        streams={name: stream("training", name) for name in streams},
        validation={name: stream("validation", name) for name in held_out} or None,
        positive=labels.positive,
        u_rows=streams["u"],
        rows=rows,
        seeds=seeds,
        device=device,
        dtype=dtype,
    )


# On Ray ---------------------------------------------------------------------------------------------------------------


def fit_parquet_on_ray(
    estimator: Estimator,
    table: Any,
    label: str,
    *,
    workers: int,
    address: str = "auto",
    cpus: float = 1.0,
    gpus: float = 0.0,
    drop: Sequence[str] = (),
    scratch: str | Path | None = None,
) -> Estimator:
    """The same by Ray Train, on the machines of a Ray cluster. The fitted classifier comes back to this process.

    Progress (``verbose``) comes back, too. If a worker or a machine dies, the training begins again, up to three times.

    Parameters
    ----------
    estimator, table, label, drop, scratch
        As for :func:`fit_parquet`.
    workers : int
        The number of processes.
    address : str
        ``host:port`` of the cluster, ``"auto"`` or ``"local"``: see :func:`pulab.cluster.connected`.
    cpus, gpus : float
        Of each process.
    """
    from pulab.cluster import RETRIES, Caller, connected

    check_number("workers", workers, low=1, whole=True)
    _check_can(estimator)
    paths = [str(path.absolute()) for path in Shards(table, label, drop).paths]  # workers have other working folders
    given = {"label": label, "drop": list(drop), "scratch": None if scratch is None else str(scratch)}
    with connected(address) as ray, tempfile.TemporaryDirectory() as storage, _quiet():
        from ray.train import FailureConfig, RunConfig, ScalingConfig
        from ray.train.torch import TorchConfig, TorchTrainer

        mailbox = ray.remote(num_cpus=0)(_Mailbox).remote()
        trainer = TorchTrainer(
            _train,
            train_loop_config={
                "caller": Caller.here(),
                "estimator": estimator,
                "table": paths,
                "given": given,
                "mailbox": mailbox,
            },
            torch_config=TorchConfig(backend="nccl" if gpus else "gloo"),
            scaling_config=ScalingConfig(
                num_workers=workers,
                use_gpu=gpus > 0,
                resources_per_worker={"CPU": cpus, **({"GPU": gpus} if gpus else {})},
            ),
            run_config=RunConfig(storage_path=storage, failure_config=FailureConfig(max_failures=RETRIES)),
        )
        try:
            trainer.fit()
        except Exception as error:
            if (told := ray.get(mailbox.error.remote())) is not None:
                raise told from None
            raise ClusterError(f"the training on the cluster failed: {in_one_line(error)}.") from error
        fitted = ray.get(mailbox.result.remote())
    estimator.__dict__.update(vars(fitted))
    return estimator


class _Mailbox:
    """What the first worker has to say: the fitted classifier, or an error of ours."""

    def __init__(self) -> None:
        self._result: Any = None
        self._error: Any = None

    def put(self, result: Any, error: Any) -> None:
        self._result, self._error = result, error

    def result(self) -> Any:
        return self._result

    def error(self) -> Any:
        return self._error


def _train(config: dict[str, Any]) -> None:
    """On each worker."""
    import ray

    from pulab.cluster import perform

    estimator, mailbox, table = config["estimator"], config["mailbox"], config["table"]
    try:
        fitted, _ = perform(config["caller"], partial(fit_parquet, estimator, table, **config["given"]))
    except PulabError as error:
        ray.get(mailbox.put.remote(None, error))
        raise
    if Ranks.here().rank == 0:
        ray.get(mailbox.put.remote(fitted, None))


@contextmanager
def _quiet() -> Iterator[None]:
    """Ray Train warns of its own future."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"ray\..*")
        yield
