"""Device, number type and seeds: the little that pulab asks of torch's global state, and gives back."""

import os
import pickle
import random
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any, NamedTuple, Self

import numpy as np
import torch

from pulab.errors import InputError

DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.float32}
AUTOCAST = {"bfloat16": torch.bfloat16}  # weights stay in float32, the network computes in this


def resolve_device(device: str | torch.device) -> torch.device:
    """``"auto"`` is CUDA where there is one, else the CPU; anything else is what torch makes of it."""
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise InputError(f"device must be 'auto', 'cpu' or 'cuda', got {device!r}.") from error
    if resolved.type not in ("cpu", "cuda"):
        raise InputError(f"device must be 'auto', 'cpu' or 'cuda', got {device!r}.")
    if resolved.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"device {device!r} was asked for, but torch sees no CUDA device here. Use device='auto'.")
    return resolved


def resolve_dtype(dtype: str | torch.dtype, device: torch.device) -> tuple[torch.dtype, torch.dtype | None]:
    """The number type of weights and data, and that of the network's arithmetic where it is another.

    A processor without instructions for bfloat16 would take longer over it than over float32, which it computes in.
    """
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise InputError(f"dtype must be one of {', '.join(map(repr, DTYPES))}, got {dtype!r}.")
    helps = device.type == "cuda" or _cpu_has_bfloat16()
    return DTYPES[name], AUTOCAST.get(name) if helps else None


def _cpu_has_bfloat16() -> bool:
    if not hasattr(torch.cpu, "get_capabilities"):  # an older torch cannot tell
        return True
    has = torch.cpu.get_capabilities()
    return has.get("architecture") != "x86_64" or bool(has.get("avx512_bf16") or has.get("amx_bf16"))


_LOCK = RLock()  # torch's generator and flags are one for all threads
_one_thread = {"fits": 0, "before": 0}


@contextmanager
def cpu_threads(work: int) -> Iterator[None]:
    """One thread for steps of little work (rows × weights), torch's own number for others; put back afterwards.

    Small steps gain nothing from a second thread, and lose everything to it where the cores are busy: a table's fit
    took 10 s with one thread and up to 70 s with two, on a busy machine with two cores.
    """
    if work >= 10**8:
        yield
        return
    # The number is each Python thread's own, but a new one begins with what was last set: the first fit looks.
    with _LOCK:
        if not _one_thread["fits"]:
            _one_thread["before"] = torch.get_num_threads()
        _one_thread["fits"] += 1
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _LOCK:
            _one_thread["fits"] -= 1
            torch.set_num_threads(_one_thread["before"])


def autocast(device: torch.device, dtype: torch.dtype | None) -> torch.autocast:
    """Arithmetic in this number type, or, without one, as it is: also where the caller has switched autocast on.

    Without torch's memory of weights it has cast: only the outermost autocast empties it, and ours lasts as long as the
    training, so that every step would see the weights of the first.
    """
    return torch.autocast(device.type, dtype, enabled=dtype is not None, cache_enabled=False)


@contextmanager
def fast_convolutions(device: torch.device) -> Iterator[None]:
    """Let cuDNN try all its kernels and keep the fastest, unless torch has been told to be deterministic."""
    if device.type != "cuda":
        yield
        return
    cudnn: Any = torch.backends.cudnn  # its `flags` fails where a user has set the precision of convolutions alone
    before = cudnn.benchmark, cudnn.benchmark_limit, cudnn.deterministic
    strict = torch.are_deterministic_algorithms_enabled()
    try:
        # All kernels, not the first ten: 1.04 × on the ResNet.
        cudnn.benchmark, cudnn.benchmark_limit, cudnn.deterministic = not strict, 0, strict
        yield
    finally:
        cudnn.benchmark, cudnn.benchmark_limit, cudnn.deterministic = before


class Settings(NamedTuple):
    """What a process has told torch about determinism and the default type, for another process to be told as well."""

    deterministic: bool
    warn_only: bool
    dtype: torch.dtype

    @classmethod
    def here(cls) -> Self:
        """Those of this process."""
        return cls(
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
            torch.get_default_dtype(),
        )

    def use(self) -> None:
        """Tell torch here."""
        torch.use_deterministic_algorithms(self.deterministic, warn_only=self.warn_only)
        torch.set_default_dtype(self.dtype)


def be_deterministic() -> None:
    """Torch's own switch, for the rest of the process, and what cuBLAS wants to see with it before it starts."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)


class Seeds:
    """Independent seeds, by purpose, from one number; a purpose's seed does not depend on what else is asked for."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def __getitem__(self, purpose: str) -> int:
        sequence = np.random.SeedSequence([self._seed, *purpose.encode()])
        return int(sequence.generate_state(1, np.uint64)[0] >> 1)


def seed_global(seed: int, device: torch.device) -> None:
    """Global random numbers from this seed: torch's, of the CPU and of this GPU alone, numpy's and Python's."""
    torch.default_generator.manual_seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002  # what a user's module may draw from
    random.seed(seed)
    if device.type == "cuda":
        cuda_generator(device).manual_seed(seed)


def cuda_generator(device: torch.device) -> torch.Generator:
    """The generator that everything on this GPU draws from unless it is told otherwise."""
    index = torch.cuda.current_device() if device.index is None else device.index
    generator: torch.Generator = torch.cuda.default_generators[index]
    return generator


def host_generators() -> list[Any]:
    """The states of the generators that code on the CPU draws from."""
    numpys = pickle.dumps(np.random.get_state(legacy=False))  # noqa: NPY002
    return [torch.default_generator.get_state().tolist(), random.getstate(), numpys]


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Global random numbers (initial weights, dropout) from this seed, and the caller's state put back afterwards."""
    with _LOCK, torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        pythons, numpys = random.getstate(), np.random.get_state(legacy=False)  # noqa: NPY002
        try:
            seed_global(seed, device)
            yield
        finally:
            random.setstate(pythons)
            np.random.set_state(numpys)  # noqa: NPY002
