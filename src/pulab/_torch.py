"""Device, number type and seeds: the little that pulab asks of torch's global state, and gives back."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from pulab.errors import InputError

DTYPES = {"float32": torch.float32, "float64": torch.float64}


def resolve_device(device: str | torch.device) -> torch.device:
    """``"auto"`` is CUDA where there is one, else the CPU; anything else is what torch makes of it."""
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise InputError(f"device must be 'auto', 'cpu' or 'cuda', got {device!r}.") from error
    if resolved.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"device {device!r} was asked for, but torch sees no CUDA device here. Use device='auto'.")
    return resolved


def resolve_dtype(dtype: str | torch.dtype) -> torch.dtype:
    """The number type of weights and data."""
    by_name = DTYPES.get(str(dtype).removeprefix("torch."))
    if by_name is None:
        raise InputError(f"dtype must be one of {', '.join(map(repr, DTYPES))}, got {dtype!r}.")
    return by_name


class Seeds:
    """Independent seeds, by purpose, from one number; a purpose's seed does not depend on what else is asked for."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def __getitem__(self, purpose: str) -> int:
        sequence = np.random.SeedSequence([self._seed, *purpose.encode()])
        return int(sequence.generate_state(1, np.uint64)[0] >> 1)


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Global random numbers (initial weights, dropout) from this seed, and the caller's state put back afterwards."""
    on_gpu = device.type == "cuda"
    with torch.random.fork_rng(devices=[device] if on_gpu else []):
        torch.default_generator.manual_seed(seed)  # not torch.manual_seed: that reseeds every GPU as well
        if on_gpu:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield
