"""Spread calls over a cluster: a bounded number at a time, again after the death of a worker or of a machine."""

import math
import os
import socket
import sys
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pulab import __version__
from pulab.cluster._connect import other_version
from pulab.errors import ClusterError, PulabWarning, in_one_line, warn

if TYPE_CHECKING:
    from pulab._torch import Settings

Key = TypeVar("Key", bound=Hashable)
RETRIES = 3  # after the death of a worker or of a machine
# Environment that a machine gets from the caller, where it has none of its own. No secrets: tasks are not encrypted.
CARRIED = ("PULAB_DATA", "PULAB_COMMIT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")


class Caller(NamedTuple):
    """What a worker takes over from the process that started the work."""

    version: str
    settings: "Settings"
    environment: dict[str, str]

    @classmethod
    def here(cls) -> "Caller":
        """This process."""
        from pulab._torch import Settings

        return cls(__version__, Settings.here(), {name: os.environ[name] for name in CARRIED if name in os.environ})


def slots(ray: Any, options: Mapping[str, Any]) -> int:
    """How many such tasks the machines of the cluster can run at a time."""
    wanted = {"CPU": options.get("num_cpus", 1), "GPU": options.get("num_gpus", 0), **options.get("resources", {})}
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    fits = [
        min((has.get(name, 0) / amount for name, amount in wanted.items() if amount), default=1) for has in machines
    ]
    return sum(math.floor(n + 1e-9) for n in fits)


def spread(
    ray: Any,
    function: Callable[..., Any],
    calls: Iterable[tuple[Key, tuple[Any, ...]]],
    *,
    options: Mapping[str, Any],
) -> Iterator[tuple[Key, Any]]:
    """The results of these calls, each with its key, as they come.

    ``calls`` are taken as places become free, so that work which is claimed is about to start. A call whose worker or
    machine dies is made again. If it dies too often, the result is a :class:`ClusterError`. An error that the function
    raises is raised here. At the end, and on Ctrl-C, calls that still run are cancelled.

    ``options`` are Ray's: ``num_cpus``, ``num_gpus``, which may be fractions, and ``resources``.
    """
    task = ray.remote(max_retries=RETRIES, **options)(perform)
    caller, shared = Caller.here(), ray.put(function)
    waiting = iter(calls)
    running: dict[Any, Key] = {}
    if not slots(ray, options):
        warn(f"no machine of the cluster has what a task needs, {dict(options)}. The work waits until one joins.")
    try:
        while True:
            # Twice as many as can run, so that no machine waits for us, and a cluster that can grow sees the need.
            free = 2 * max(1, slots(ray, options)) - len(running)
            for key, arguments in islice(waiting, max(0, free)):
                running[task.remote(caller, shared, *arguments)] = key
            if not running:
                return
            ended, _ = ray.wait(list(running), num_returns=1, timeout=1.0)
            for reference in ended:
                yield running.pop(reference), _result(ray, reference)
    finally:
        for reference in running:
            ray.cancel(reference, force=True)


def _result(ray: Any, reference: Any) -> Any:
    try:
        result, messages = ray.get(reference)
    except ray.exceptions.RayTaskError as error:  # raised by the function; its own text is a traceback of many lines
        raise error.cause if isinstance(error.cause, Exception) else ClusterError(in_one_line(error)) from None
    except ray.exceptions.RayError as error:  # the worker or the machine died, or had no memory left
        return ClusterError(
            f"the worker died {RETRIES + 1} times ({in_one_line(error)}). If memory is short, give a task more CPUs."
        )
    for message in messages:
        warn(message)
    return result


def perform(caller: Caller, function: Callable[..., Any], *arguments: Any) -> tuple[Any, list[str]]:
    """On the worker: call the function with the caller's settings of torch. Returns pulab's warnings, too."""
    import torch

    from pulab._torch import Settings

    if caller.version != __version__:
        raise ClusterError(other_version(__version__, socket.gethostname()))
    for name, value in caller.environment.items():
        os.environ.setdefault(name, value)
    before, threads = Settings.here(), torch.get_num_threads()
    torch.set_num_threads(1)
    caller.settings.use()
    try:
        with warnings.catch_warnings(record=True, action="default") as caught:
            result = function(*arguments)
    finally:
        before.use()
        torch.set_num_threads(threads)
    for one in caught:
        if not issubclass(one.category, PulabWarning):
            sys.stderr.write(warnings.formatwarning(one.message, one.category, one.filename, one.lineno))
    return result, [str(one.message) for one in caught if issubclass(one.category, PulabWarning)]
