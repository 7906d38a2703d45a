"""Lower bounds: none allows a version with a known flaw that concerns pulab."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FIRST_SAFE = {
    "skops": "0.13",  # CVE-2025-54412, -54413 and -54886: loading runs code
    "transformers": "5.3",  # CVE-2026-4372: a model's configuration runs code
    "lightgbm": "4.6",  # CVE-2024-43598: distributed training runs code of others
    "jinja2": "3.1.6",  # CVE-2024-22195, -34064 and CVE-2025-27516: pages and sandbox
    "requests": "2.32.4",  # CVE-2024-35195, -47081: certificates and passwords
    "pyarrow": "14.0.1",  # CVE-2023-47248: reading a table runs code
}


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def test_no_bound_allows_a_version_with_a_known_flaw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks" / "torture")
    import lowest

    bounds = dict(pin.split("==") for pin in lowest.lowest(set()))
    for name, safe in FIRST_SAFE.items():
        assert numbers(bounds[name]) >= numbers(safe), name
    kept = dict(pin.split("==") for pin in lowest.lowest({"torch"}))
    assert f"torch=={kept['torch']}" in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert {name for name in bounds if bounds[name] != kept[name]} == {"torch"}
    sys.modules.pop("lowest")
