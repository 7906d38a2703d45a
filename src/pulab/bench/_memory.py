"""The most memory that this process has held since a moment."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

MIB = 2**20


def watch_memory(device: str) -> Callable[[], float | None]:
    """Start to watch. The function that comes back says how many MiB have come on top; None where nobody can tell."""
    if device.startswith("cuda"):
        import torch

        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        return lambda: (torch.cuda.max_memory_allocated() - before) / MIB
    if sys.platform != "linux" or not _forget_peak():
        return lambda: None
    at_start = _peak()
    return lambda: (_peak() - at_start) / MIB


def _forget_peak() -> bool:
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the peak of this process is from now on
    except OSError:  # a kernel without it
        return False
    return True


def _peak() -> int:
    (kib,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(kib) * 1024
