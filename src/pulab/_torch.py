"""Device, number type and seeds: every global setting of torch that pulab changes, and restores."""

import os
import pickle
import random
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any, NamedTuple, Self

import numpy as np
import torch

from pulab.errors import InputError, short

DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.float32}
AUTOCAST = {"bfloat16": torch.bfloat16}  # weights stay in float32, the network computes in this


def resolve_device(device: str | torch.device) -> torch.device:
    """``"auto"`` is CUDA if there is a device, else the CPU. Any other value goes to torch."""
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
    except (RuntimeError, TypeError, ValueError) as error:
        raise InputError(f"device must be 'auto', 'cpu' or 'cuda', got {short(device)}.") from error
    if resolved.type not in ("cpu", "cuda"):
        raise InputError(f"device must be 'auto', 'cpu' or 'cuda', got {device!r}.")
    if resolved.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"device {device!r} was asked for, but torch sees no CUDA device here. Use device='auto'.")
    return resolved


def resolve_dtype(dtype: str | torch.dtype, device: torch.device) -> tuple[torch.dtype, torch.dtype | None]:
    """The number type of weights and data, and the type of the network's arithmetic if it is another one.

    A processor without bfloat16 instructions would be slower in bfloat16 than in float32, so it stays in float32.
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


_LOCK = RLock()  # all threads share torch's generator and flags
_one_thread = {"fits": 0, "before": 0}


@contextmanager
def cpu_threads(work: int) -> Iterator[None]:
    """One thread for steps of little work (rows × weights), torch's own number for others. Restored afterwards.

    Small steps gain nothing from a second thread. On a busy machine with two cores a table's fit took 10 s with one
    thread and up to 70 s with two.
    """
    if work >= 10**8:
        yield
        return
    # Each Python thread has its own number, but a new thread starts with the last one set: the first fit reads it.
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
    """Arithmetic in this number type. None switches autocast off, also if the caller has switched it on.

    The cache of cast weights is off: only the outermost autocast empties it, and ours lasts for the whole training.
    Every step would see the weights of the first one.
    """
    return torch.autocast(device.type, dtype, enabled=dtype is not None, cache_enabled=False)


@contextmanager
def fast_convolutions(device: torch.device) -> Iterator[None]:
    """Let cuDNN try all its kernels and keep the fastest, unless torch must be deterministic."""
    if device.type != "cuda":
        yield
        return
    cudnn: Any = torch.backends.cudnn  # `cudnn.flags` fails if a user has set the precision of convolutions only
    before = cudnn.benchmark, cudnn.benchmark_limit, cudnn.deterministic
    strict = torch.are_deterministic_algorithms_enabled()
    try:
        # All kernels, not the first ten: 1.04 × on the ResNet.
        cudnn.benchmark, cudnn.benchmark_limit, cudnn.deterministic = not strict, 0, strict
        yield
    finally:
        cudnn.benchmark, cudnn.benchmark_limit, cudnn.deterministic = before


class Settings(NamedTuple):
    """A process's settings of torch, determinism and default type, to be used in another process."""

    deterministic: bool
    warn_only: bool
    dtype: torch.dtype

    @classmethod
    def here(cls) -> Self:
        """The settings of this process."""
        return cls(
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
            torch.get_default_dtype(),
        )

    def use(self) -> None:
        """Apply the settings in this process."""
        torch.use_deterministic_algorithms(self.deterministic, warn_only=self.warn_only)
        torch.set_default_dtype(self.dtype)


def be_deterministic() -> None:
    """Make torch deterministic for the rest of the process, with the workspace setting that cuBLAS needs."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)


class Seeds:
    """Independent seeds from one number, by purpose. A seed does not depend on the other purposes."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def __getitem__(self, purpose: str) -> int:
        sequence = np.random.SeedSequence([self._seed, *purpose.encode()])
        return int(sequence.generate_state(1, np.uint64)[0] >> 1)


def seed_global(seed: int, device: torch.device) -> None:
    """Seed the global generators: torch's for the CPU and for this GPU only, numpy's and Python's."""
    torch.default_generator.manual_seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002  # a user's module may draw from it
    random.seed(seed)
    if device.type == "cuda":
        cuda_generator(device).manual_seed(seed)


def cuda_generator(device: torch.device) -> torch.Generator:
    """The default generator of this GPU."""
    index = torch.cuda.current_device() if device.index is None else device.index
    generator: torch.Generator = torch.cuda.default_generators[index]
    return generator


def host_generators() -> list[Any]:
    """The states of the global generators of the CPU."""
    numpys = pickle.dumps(np.random.get_state(legacy=False))  # noqa: NPY002
    return [torch.default_generator.get_state().tolist(), random.getstate(), numpys]


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Inside, global random numbers come from this seed. Afterwards the caller's state is restored."""
    with _LOCK, torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        pythons, numpys = random.getstate(), np.random.get_state(legacy=False)  # noqa: NPY002
        try:
            seed_global(seed, device)
            yield
        finally:
            random.setstate(pythons)
            np.random.set_state(numpys)  # noqa: NPY002
