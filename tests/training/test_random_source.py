"""Counted random numbers: their distributions, and what they depend on."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from pulab.training import RandomSource

CPU = torch.device("cpu")
DRAWS: dict[str, Callable[[RandomSource], Tensor]] = {
    "uniform": lambda random: random.uniform(20_000, low=-1, high=3),
    "normal": lambda random: random.normal(20_000),
    "beta .3": lambda random: random.beta(0.3, 0.3, 60_000),
    "beta 6 2": lambda random: random.beta(6.0, 2.0, 60_000),
    "integers": lambda random: random.integers(7, 20_000),
    "bernoulli": lambda random: random.bernoulli(0.3, 20_000),
    "permutation": lambda random: random.permutation(1000),
}
EXPECTED = {
    "uniform": stats.uniform(-1, 4).cdf,
    "normal": stats.norm.cdf,
    "beta .3": stats.beta(0.3, 0.3).cdf,
    "beta 6 2": stats.beta(6, 2).cdf,
}


@pytest.mark.parametrize("name", EXPECTED)
def test_distributions(name: str) -> None:
    values = DRAWS[name](RandomSource([5], CPU, torch.float64))
    assert stats.kstest(values[0].numpy(), EXPECTED[name]).pvalue > 0.01
    rounded = DRAWS[name](RandomSource([5], CPU, torch.float32))
    assert rounded.dtype == torch.float32
    assert torch.allclose(rounded.double(), values, atol=1e-4)  # the same numbers in either type


def test_counts() -> None:
    random = RandomSource([5], CPU, torch.float32)
    counts = np.bincount(random.integers(7, 20_000)[0].numpy(), minlength=7)
    assert stats.chisquare(counts).pvalue > 0.01
    shares = RandomSource(range(100), CPU, torch.float32).bernoulli(0.3, 10_000).double().mean(1).numpy()
    assert stats.kstest((shares - 0.3) / np.sqrt(0.21 / 10_000), "norm").pvalue > 0.01
    order = random.permutation(1000)[0].numpy()
    assert sorted(order) == list(range(1000))
    assert abs(stats.spearmanr(order, np.arange(1000)).statistic) < 0.1


@pytest.mark.parametrize("name", DRAWS)
def test_a_model_draws_alike_alone_and_in_company_and_later_otherwise(name: str) -> None:
    draw = DRAWS[name]
    fleet, alone = RandomSource([3, 9], CPU, torch.float64), RandomSource([9], CPU, torch.float64)
    first = draw(fleet)
    assert torch.equal(first[1:], draw(alone))
    assert not torch.equal(first[0], first[1])  # another model
    assert not torch.equal(first, draw(fleet))  # another call
    fleet.end_step()
    fleet.begin_step()
    later = draw(fleet)
    assert not torch.equal(first, later)  # another step
    resumed = RandomSource([3, 9], CPU, torch.float64)
    resumed.go_to(1)
    assert torch.equal(later, draw(resumed))


def test_calls_steps_and_seeds_are_independent() -> None:
    def lines() -> list[np.ndarray]:
        found = []
        for seed in range(4):
            random = RandomSource([seed], CPU, torch.float64)
            for step in range(4):
                random.go_to(step)
                random.begin_step()
                found += [random.uniform(5000)[0].numpy() for _ in range(4)]
        return found

    correlations = np.corrcoef(lines())
    assert np.abs(correlations - np.eye(64)).max() < 5 / np.sqrt(5000)


def test_beta_takes_a_value_per_model() -> None:
    random = RandomSource([1, 2], CPU, torch.float64)
    values = random.beta(torch.tensor([0.5, 50.0]), torch.tensor([0.5, 50.0]), 20_000)
    assert values.var(dim=1).tolist() == pytest.approx([1 / 8, 0.25 / 101], rel=0.05)
