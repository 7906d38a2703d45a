"""Random numbers that are a function of seed, step and call.

All models of a device share torch's generator, so a model would draw other numbers in a fleet than alone. Here every
number is a hash: a model draws the same alone, in a fleet, in a CUDA graph and after a resume.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

# Constants of the 64-bit finaliser of MurmurHash3 and the step of SplitMix64, signed; multiplication wraps around.
_MIX1, _MIX2, STRIDE = -0xAE502812AA7333, -0x3B314601E57A13AD, -0x61C8864680B583EB
_TRIES = 8  # of the rejection sampler; one try is accepted with probability 0.95 or more


def scramble(key: Tensor, place: Tensor) -> Tensor:
    """Random 64 bits for each pair of key and place. The high bits are the best ones."""
    h = key ^ (place * _MIX2)
    for factor in (_MIX1, _MIX2):
        h = (h ^ ((h >> 33) & 0x7FFFFFFF)) * factor
    return h


class RandomSource:
    """Random numbers for the steps of a training. Results have a line per model: shape ``(models, *shape)``.

    ``dtype`` is the type of the floating-point results. Two calls in one step give different numbers.
    """

    def __init__(self, seeds: Sequence[int], device: torch.device, dtype: torch.dtype) -> None:
        self._seeds = torch.tensor(list(seeds), dtype=torch.int64, device=device)
        self.steps = torch.zeros((), dtype=torch.int64, device=device)  # a tensor: a recorded step must see it change
        self._calls = 0
        self._dtype = dtype

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> Tensor:
        """Numbers between ``low`` and ``high``."""
        unit = (((self._bits(*shape) >> 41) & 0x7FFFFF).to(self._dtype) + 0.5) / 2**23
        return unit if (low, high) == (0.0, 1.0) else low + (high - low) * unit

    def normal(self, *shape: int) -> Tensor:
        """Standard normal numbers (Box and Muller)."""
        return (-2 * self.uniform(*shape).log()).sqrt() * (2 * math.pi * self.uniform(*shape)).cos()

    def bernoulli(self, p: float, *shape: int) -> Tensor:
        """True with probability ``p``."""
        return self.uniform(*shape) < p

    def integers(self, high: int, *shape: int) -> Tensor:
        """Whole numbers from 0 to ``high - 1``."""
        return ((self._bits(*shape) >> 1) & 0x7FFFFFFFFFFFFFFF) % high

    def permutation(self, n: int) -> Tensor:
        """The numbers from 0 to ``n - 1`` in random order."""
        return self._bits(n).argsort(dim=1)

    def beta(self, a: float | Tensor, b: float | Tensor, *shape: int) -> Tensor:
        """Beta-distributed numbers. ``a`` and ``b`` may have a value per model."""
        return torch.sigmoid(self._log_gamma(a, *shape) - self._log_gamma(b, *shape))

    def _log_gamma(self, a: float | Tensor, *shape: int) -> Tensor:
        """Logarithms of Gamma(a) numbers (Marsaglia and Tsang 2000): the first accepted of a fixed number of tries."""
        if not isinstance(a, Tensor):  # filled on the device: a recording cannot copy from the host
            a = torch.full((1,), a, dtype=self._dtype, device=self._seeds.device)
        a = a.to(self._dtype).reshape(-1, *(1,) * len(shape))
        d = a[:, None] + 2 / 3
        z = self.normal(_TRIES, *shape)
        v = (1 + z / (9 * d).sqrt()) ** 3
        log_v = v.clamp_min(1e-30).log()
        accepted = (v > 0) & (self.uniform(_TRIES, *shape).log() < z**2 / 2 + d - d * v + d * log_v)
        first = accepted.to(torch.uint8).argmax(dim=1, keepdim=True)
        chosen = log_v.gather(1, first).squeeze(1) + d.squeeze(1).log()
        return chosen + self.uniform(*shape).log() / a

    def _bits(self, *shape: int) -> Tensor:
        self._calls += 1
        keys = scramble(self._seeds + self.steps * STRIDE, torch.full_like(self._seeds, self._calls))
        place = torch.arange(math.prod(shape), device=keys.device)
        return scramble(keys[:, None], place).view(len(keys), *shape)

    # For the loop -------------------------------------------------------------------------------------------------

    def begin_step(self) -> None:
        """Count calls from zero."""
        self._calls = 0

    def end_step(self) -> None:
        """The next step draws other numbers."""
        self.steps += 1

    def go_to(self, steps: int) -> None:
        """Continue after this many steps."""
        self.steps.fill_(steps)
