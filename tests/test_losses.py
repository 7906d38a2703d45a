"""Losses against numbers worked out by hand, against each other, and at the ends of the scale."""

import math
from functools import partial

import pytest
import torch
from torch import Tensor

from pulab import losses
from pulab.losses import (
    LOSSES,
    bernoulli_entropy,
    bernoulli_kl,
    logistic_loss,
    nnpu_risk,
    pn_risk,
    prior_kl,
    pubn_negative,
    pubn_positive,
    pubn_sigma_risk,
    pubn_unlabeled,
    sigmoid_loss,
    upu_risk,
)

LN3 = math.log(3)  # σ(LN3) = 3/4, σ(−LN3) = 1/4


def t(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_losses_of_single_logits() -> None:
    assert sigmoid_loss(t(LN3)).tolist() == pytest.approx([0.25])
    assert logistic_loss(t(LN3, -LN3, 0.0)).tolist() == pytest.approx([math.log(4 / 3), math.log(4), math.log(2)])


def test_logistic_loss_where_softplus_turns_linear() -> None:
    """log(1 + e²¹) = 21 + e⁻²¹ and a bit; torch's softplus drops all but the 21."""
    assert logistic_loss(t(-21.0)).item() - 21 == pytest.approx(math.exp(-21), rel=1e-5)


def test_pn_risk() -> None:
    # P: losses 1/4, 1/2, mean 3/8. N: σ(−LN3) = 1/4.
    assert pn_risk(t(LN3, 0.0), t(-LN3), prior=0.4).value.item() == pytest.approx(0.4 * 0.375 + 0.6 * 0.25)


def test_upu_and_nnpu_risk_where_the_clamp_rests() -> None:
    g_p, g_u = t(LN3), t(LN3, -LN3)
    # 0.5·1/4 + mean(3/4, 1/4) − 0.5·3/4
    for risk in (upu_risk(g_p, g_u, prior=0.5), nnpu_risk(g_p, g_u, prior=0.5)):
        assert risk.value.item() == pytest.approx(0.25)
        assert risk.objective.item() == pytest.approx(0.25)


def test_nnpu_risk_where_the_clamp_acts() -> None:
    g_p, g_u = t(LN3), t(-LN3)
    # positive part 0.5·1/4; negative part 1/4 − 0.5·3/4 = −1/8
    risk = nnpu_risk(g_p, g_u, prior=0.5, gamma=0.3)
    assert risk.value.item() == pytest.approx(0.125)
    assert risk.objective.item() == pytest.approx(0.3 * 0.125)
    forgiving = nnpu_risk(g_p, g_u, prior=0.5, beta=0.2)
    assert forgiving.value.item() == forgiving.objective.item() == pytest.approx(0.125 - 0.125)
    # Below −beta the value is clamped there.
    assert nnpu_risk(g_p, g_u, prior=0.5, beta=0.05).value.item() == pytest.approx(0.125 - 0.05)


def test_bernoulli_kl() -> None:
    y = t(0.0, 1.0, 0.5, 0.75)
    expected = [math.log(4), math.log(4 / 3), 0.5 * math.log(0.5 / 0.75) + 0.5 * math.log(0.5 / 0.25), 0.0]
    assert bernoulli_kl(y, t(LN3, LN3, LN3, LN3)).tolist() == pytest.approx(expected)


def test_prior_kl() -> None:
    g = t(LN3, 0.0)  # mean σ = 5/8
    expected = 0.4 * math.log(0.4 / 0.625) + 0.6 * math.log(0.6 / 0.375)
    assert prior_kl(0.4, g).item() == pytest.approx(expected)
    assert prior_kl(0.625, g).item() == pytest.approx(0.0, abs=1e-12)
    assert prior_kl(1 - 1e-9, g.float()).isfinite()  # which is 1 in float32
    assert prior_kl(1e-46, g.float()).isfinite()


def test_bernoulli_entropy() -> None:
    expected = [math.log(2), -0.75 * math.log(0.75) - 0.25 * math.log(0.25)]
    assert bernoulli_entropy(t(0.0, LN3)).tolist() == pytest.approx(expected)


def test_pubn_prices() -> None:
    g, sigma = t(0.0, 0.0), t(0.8, 0.2)
    ln2 = math.log(2)
    assert pubn_positive(g, sigma, eta=0.5).tolist() == pytest.approx([ln2 * (1 + 0.2 / 0.8), ln2])
    assert pubn_unlabeled(g, sigma, eta=0.5).tolist() == pytest.approx([0.0, 0.8 * ln2])
    assert pubn_negative(g, sigma, eta=0.5).tolist() == pytest.approx([ln2 / 0.8, ln2])


def test_pubn_sigma_risk_without_negatives_is_nnpu() -> None:
    g_p, g_u, g_n = t(1.0, -2.0), t(0.5, -0.3, 2.0), t(0.7)
    with_none = pubn_sigma_risk(g_p, g_u, g_n, prior=0.3, rho=0.0)
    assert with_none.value.item() == pytest.approx(nnpu_risk(g_p, g_u, 0.3, logistic_loss).value.item())
    # 0.3·mean ℓ(g_p) + 0.2·ℓ(g_n), and what is left of U, which is positive here
    ell = [logistic_loss(t(v)).item() for v in (1.0, -2.0, 0.7, -0.5, 0.3, -2.0, -1.0, 2.0, -0.7)]
    labelled = 0.3 * (ell[0] + ell[1]) / 2 + 0.2 * ell[2]
    rest = (ell[3] + ell[4] + ell[5]) / 3 - 0.3 * (ell[6] + ell[7]) / 2 - 0.2 * ell[8]
    assert rest > 0
    assert pubn_sigma_risk(g_p, g_u, g_n, prior=0.3, rho=0.2).value.item() == pytest.approx(labelled + rest)


def _scalar_functions() -> dict[str, object]:
    sigma = t(0.9, 0.1, 0.6)
    functions: dict[str, object] = {
        "kl": lambda g: bernoulli_kl(t(0.2, 0.0, 1.0), g).mean(),
        "prior_kl": lambda g: prior_kl(0.3, g),
        "entropy": lambda g: bernoulli_entropy(g).mean(),
        "pubn_positive": lambda g: pubn_positive(g, sigma, 0.5).mean(),
        "pubn_unlabeled": lambda g: pubn_unlabeled(g, sigma, 0.5).mean(),
        "pubn_negative": lambda g: pubn_negative(g, sigma, 0.5).mean(),
    }
    other = t(0.3, -0.4)
    for name, loss in LOSSES.items():
        functions[f"loss-{name}"] = lambda g, loss=loss: loss(g).mean()
        for risk in (pn_risk, upu_risk, nnpu_risk):
            bound = partial(risk, prior=0.4, loss=loss)
            functions[f"{risk.__name__}-{name}-p"] = lambda g, bound=bound: bound(g, other).objective
            functions[f"{risk.__name__}-{name}-u"] = lambda g, bound=bound: bound(other, g).objective
    functions["sigma-risk"] = lambda g: pubn_sigma_risk(g, other, other, 0.3, 0.1).objective
    return functions


@pytest.mark.parametrize("name", _scalar_functions())
def test_gradients(name: str) -> None:
    function = _scalar_functions()[name]
    for logits in ((0.5, -1.2, 2.0), (-3.0, -4.0, -5.0), (3.0, 4.0, 5.0)):  # the clamp rests, and acts
        assert torch.autograd.gradcheck(function, t(*logits).requires_grad_())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", _scalar_functions())
def test_finite_at_extreme_logits(name: str, dtype: torch.dtype) -> None:
    function = _scalar_functions()[name]
    for logits in ((1e4, 1e4, 1e4), (-1e4, -1e4, -1e4), (1e4, -1e4, 0.0), (1e-40, 1e-45, -1e-40)):
        g = torch.tensor(logits, dtype=dtype, requires_grad=True)
        value = function(g)
        value.backward()
        assert torch.isfinite(value)
        assert torch.isfinite(g.grad).all()


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_upu_risk_is_unbiased(loss: losses.Loss) -> None:
    """The mean of uPU risk over small samples meets the PN risk of a large labelled sample, within its noise."""
    generator = torch.Generator().manual_seed(0)
    prior, n = 0.3, 20

    def draw(positive: Tensor) -> Tensor:  # logits of some classifier: N(1, 1) where positive, N(−1, 1) where not
        noise = torch.randn(positive.shape, generator=generator, dtype=torch.float64)
        return noise + 2 * positive.double() - 1

    def draw_u(size: int) -> Tensor:
        return draw(torch.rand(size, generator=generator) < prior)

    truth = pn_risk(draw(torch.ones(10**6)), draw(torch.zeros(10**6)), prior, loss).value
    estimates = torch.stack([upu_risk(draw(torch.ones(n)), draw_u(n), prior, loss).value for _ in range(4000)])
    standard_error = estimates.std() / len(estimates) ** 0.5
    assert abs(estimates.mean() - truth) < 4 * standard_error
    # The clamp makes nnPU's mean too large: unbiasedness is a property that a risk can fail to have.
    clamped = torch.stack([nnpu_risk(draw(torch.ones(2)), draw_u(2), prior, loss).value for _ in range(4000)])
    assert clamped.mean() - truth > 4 * clamped.std() / len(clamped) ** 0.5
