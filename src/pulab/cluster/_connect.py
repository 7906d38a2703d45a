"""Connect to a cluster that is there, reachable and of our version; otherwise one clear error."""

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pulab import __version__
from pulab.errors import ClusterError, InputError, in_one_line

AUTO = "auto"  # the cluster that $RAY_ADDRESS names, or the one that runs on this machine
LOCAL = "local"  # a cluster of this machine alone, which ends with the command
SECONDS = 5.0  # to wait for an answer from an address
CHECK_SECONDS = 120.0  # to wait for the first task of each machine


def import_ray() -> Any:
    """Ray, or an error that says how to install it."""
    try:
        import ray
    except ImportError:
        raise InputError("a Ray cluster needs the package ray. Run: pip install 'pulab[ray]'.") from None
    return ray


@contextmanager
def connected(address: str = AUTO) -> Iterator[Any]:
    """Ray, connected to this cluster until the end. A connection that is there already is used, and stays.

    Parameters
    ----------
    address : str
        ``host:port`` or ``ray://host:port``. ``"auto"``: the cluster that $RAY_ADDRESS names, or else the one that runs
        on this machine. ``"local"``: a new one on this machine.
    """
    ray = import_ray()
    if ray.is_initialized():
        _check_versions(ray)
        yield ray
        return
    _connect(ray, address)
    try:
        _check_versions(ray)
        yield ray
    finally:
        ray.shutdown()


def _connect(ray: Any, address: str) -> None:
    if address == AUTO:
        address = os.environ.get("RAY_ADDRESS") or AUTO
    if address == LOCAL:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    _check_answers(address)
    try:
        with _handlers_kept():
            own = {"include_dashboard": False} if address == LOCAL else {}
            ray.init(address=address, log_to_driver=True, logging_level=logging.WARNING, **own)
    except Exception as error:  # of many kinds: no cluster, another version of Ray or Python
        start = " Start one with `ray start --head`, or pass its address." if address == AUTO else ""
        where = "on this machine" if address == AUTO else f"at {address}"
        raise ClusterError(f"there is no Ray cluster to use {where}: {in_one_line(error)}.{start}") from error


def _check_answers(address: str) -> None:
    """Refuse an address where nobody answers. Ray itself would wait for a minute, and then end the process."""
    if address in (AUTO, LOCAL):
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise ClusterError(
            f"the address of a Ray cluster must be host:port or ray://host:port, or auto or local, got {address!r}."
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ClusterError(
            f"no Ray cluster answers at {address}: {in_one_line(error)}. Check the address, and the head node."
        ) from error


@contextmanager
def _handlers_kept() -> Iterator[None]:
    """Ray replaces what SIGTERM does. The command's own message and exit code must stay."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


_versions: dict[str, str] = {}  # the pulab of each machine that was asked


def _check_versions(ray: Any) -> None:
    """Refuse a cluster that has a machine without pulab, or with another version."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    def version() -> str:  # a function inside a function travels whole: it needs no pulab over there
        try:
            import pulab
        except ImportError:
            return "none"
        return pulab.__version__

    ask = ray.remote(num_cpus=0)(version)
    working = {node["NodeID"]: node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")}
    asked = {
        ask.options(scheduling_strategy=NodeAffinitySchedulingStrategy(name, soft=False)).remote(): name
        for name in working.keys() - _versions.keys()
    }
    ready, _ = ray.wait(list(asked), num_returns=len(asked), timeout=CHECK_SECONDS) if asked else ([], [])
    for answer in ready:
        with suppress(ray.exceptions.RayError):  # the machine has left since; tasks check their own version
            _versions[asked[answer]] = ray.get(answer)
    for name, node in working.items():
        if (found := _versions.get(name, __version__)) != __version__:
            raise ClusterError(other_version(found, node["NodeManagerAddress"]))


def other_version(found: str, where: str) -> str:
    """The message about a machine with another pulab."""
    has = "no pulab" if found == "none" else f"pulab {found}"
    return f"the cluster must have pulab {__version__}, as this machine, but {where} has {has}. Install the same."
