"""A cluster of two machines, both of them processes on this one. It listens on a loopback address alone."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.s3 import KEY, S3, running

# Before ray is imported: no telemetry, and our own sources on the workers.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
LOOPBACK = "127.0.0.2"  # Ray replaces 127.0.0.1 by the address of the machine
CREDENTIALS = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": "secret"}  # machines have them from their start
MACHINE = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "node_ip_address": LOOPBACK}


def wait_for(what: Callable[[], Any], seconds: float = 60.0) -> Any:
    """The first true value of a function that is asked again and again."""
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)
    return found


class TwoMachines:
    """The cluster, and ways to hurt it."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        kept = {"idle_worker_killing_time_threshold_ms": 60_000}  # a new worker would import torch again
        head = {
            **MACHINE,
            "_system_config": kept,
            "include_dashboard": False,
            "dashboard_host": LOOPBACK,
            "num_gpus": 1,
        }  # the GPU is a claim
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.second = self.cluster.add_node(**MACHINE)
        self.address: str = self.cluster.address

    def busy(self, node: Any) -> list[int]:
        """The numbers of the worker processes of a machine that run a task."""
        raylet = node.all_processes["raylet"][0].process.pid
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                name = (folder / "cmdline").read_bytes()
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError, ValueError):
                continue
            if parent == raylet and name.startswith(b"ray::perform"):
                found.append(int(folder.name))
        return found

    def kill_worker(self) -> None:
        """Kill a worker of the first machine in the middle of its task."""
        os.kill(wait_for(lambda: self.busy(self.cluster.head_node))[0], signal.SIGKILL)

    def kill_machine(self) -> None:
        """Kill the second machine in the middle of its task, with all its workers."""
        wait_for(lambda: self.busy(self.second))
        self.cluster.remove_node(self.second, allow_graceful=False)

    def repair(self) -> None:
        """Two machines again."""
        if self.second not in self.cluster.list_all_nodes():
            self.second = self.cluster.add_node(**MACHINE)


@pytest.fixture(scope="session")
def machines() -> Iterator[TwoMachines]:
    ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'pulab[ray]'")
    import pulab

    before = {name: os.environ.get(name) for name in ("PYTHONPATH", "RAY_ADDRESS", *CREDENTIALS)}
    os.environ.update(CREDENTIALS, PYTHONPATH=str(Path(pulab.__file__).parents[1]))
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    two = TwoMachines()
    os.environ["RAY_ADDRESS"] = two.address
    ray.init(address=two.address, log_to_driver=False, logging_level="ERROR")
    try:
        yield two
    finally:
        ray.shutdown()
        two.cluster.shutdown()
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    """A server that knows one key, which this process has."""
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_PROFILE", "AWS_SESSION_TOKEN", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with running() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.address)
        yield server
