"""Clusters that cannot be used: one clear error each."""

import socket
import sys

import pytest

from pulab.cli.tables import with_ray_address
from pulab.cluster import connected
from pulab.errors import ClusterError, InputError


def test_without_ray_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install 'pulab\[ray\]'"), connected():
        pass


def test_an_address_where_nobody_answers_is_refused_at_once() -> None:
    pytest.importorskip("ray", reason="ray is not installed: pip install 'pulab[ray]'")
    with socket.socket() as taken:  # bound, but it does not listen
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        for address in (f"127.0.0.1:{port}", f"ray://127.0.0.1:{port}"):
            with (
                pytest.raises(ClusterError, match=f"no Ray cluster answers at {address}: .*refused"),
                connected(address),
            ):
                pass
    for address in ("here", "127.0.0.1", "host:port", ""):
        with pytest.raises(ClusterError, match="must be host:port"), connected(address):
            pass


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("bench run demo --ray", "bench run demo --ray auto"),
        ("bench run --ray demo", "bench run --ray auto demo"),
        ("bench run demo --ray --trials 3", "bench run demo --ray auto --trials 3"),
        ("bench run demo --ray host:6379", "bench run demo --ray host:6379"),
        ("score --ray ray://10.0.0.1:10001 m t", "score --ray ray://10.0.0.1:10001 m t"),
        ("score --ray local m t", "score --ray local m t"),
        ("score --ray m s3://bucket/table", "score --ray auto m s3://bucket/table"),
        ("score m s3://bucket/table --ray", "score m s3://bucket/table --ray auto"),
    ],
)
def test_the_address_is_optional(given: str, wanted: str) -> None:
    assert with_ray_address(given.split()) == wanted.split()
