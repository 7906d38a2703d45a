"""Losses against numbers worked out by hand, against each other, and at the ends of the scale."""

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from pulab import losses
from pulab.losses import (
    LOSSES,
    auc_risk,
    bernoulli_entropy,
    bernoulli_kl,
    cvir_risk,
    fixmatch_risk,
    imbalanced_nnpu_risk,
    label_distribution_risk,
    labelling_risk,
    lee_liu_risk,
    logistic_loss,
    margin_loss,
    nnpu_risk,
    pair_risk,
    pn_risk,
    posterior_of_unlabeled,
    prior_kl,
    pubn_negative,
    pubn_positive,
    pubn_sigma_risk,
    pubn_unlabeled,
    sigmoid_loss,
    smooth_distance,
    trend_term,
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


def test_imbalanced_nnpu_risk() -> None:
    g_p, g_u = t(LN3), t(LN3, -LN3)
    # positive part 0.6·1/4; negative part (0.4 / 0.8) · (1/2 − 0.2·3/4)
    risk = imbalanced_nnpu_risk(g_p, g_u, prior=0.2, balanced_prior=0.6)
    assert risk.value.item() == risk.objective.item() == pytest.approx(0.15 + 0.5 * 0.35)
    # At the true prior nothing is weighted, and where the clamp acts it acts on the weighted part.
    assert imbalanced_nnpu_risk(g_p, g_u, 0.2, 0.2).value.item() == nnpu_risk(g_p, g_u, 0.2).value.item()
    risk = imbalanced_nnpu_risk(g_p, t(-LN3), prior=0.5, balanced_prior=0.8, beta=0.01, gamma=0.3)
    assert risk.value.item() == pytest.approx(0.8 * 0.25 - 0.01)  # the negative part: 0.4 · (1/4 − 3/8) = −0.05
    assert risk.objective.item() == pytest.approx(0.3 * 0.05)
    # It is the supervised risk of the other population: U of equal parts of P and of negatives at LN3 / 2.
    same = imbalanced_nnpu_risk(g_p, torch.cat([g_p, t(LN3 / 2)]), prior=0.5, balanced_prior=0.7)
    assert same.value.item() == pytest.approx(pn_risk(g_p, t(LN3 / 2), 0.7).value.item())


def test_pair_and_auc_risk() -> None:
    # Differences LN3, 0 | 0, −LN3: losses 1/4, 1/2, 1/2, 3/4; with a third row of U at 2·LN3: σ(LN3), σ(2·LN3) = 9/10.
    assert pair_risk(t(LN3, 0.0), t(0.0, LN3, 2 * LN3)).item() == pytest.approx(
        (0.25 + 0.5 + 0.75 + 0.5 + 0.75 + 0.9) / 6
    )
    assert pair_risk(t(LN3), t(0.0, LN3), logistic_loss).item() == pytest.approx((math.log(4 / 3) + math.log(2)) / 2)
    # Pairs in the wrong order: 5 > 2, and half of 2 = 2; none for 7.
    assert auc_risk(t(7.0, 2.0), t(1.0, 5.0, 2.0)).item() == pytest.approx((1 + 0.5) / 6)
    lines = auc_risk(torch.stack([t(7.0, 2.0), t(0.0, 0.5)]), torch.stack([t(1.0, 5.0, 2.0), t(-1.0, -2.0, -3.0)]))
    assert lines.tolist() == pytest.approx([0.25, 0.0])
    assert auc_risk(t(1.0, math.nan), t(0.0)).isnan()
    assert auc_risk(t(1.0), t(0.0, -math.inf)).isnan()


@pytest.mark.parametrize("risk", [pair_risk, auc_risk])
def test_the_risk_of_pairs_with_u_is_affine_in_that_of_pairs_with_negatives(risk: Callable[..., Tensor]) -> None:
    """π/2 + (1 − π)·risk(P, N), exactly if U is P and as many negatives as make the prior (here 5 of 20)."""
    generator = torch.Generator().manual_seed(0)
    g_p, g_n = torch.randn(5, generator=generator).double() + 1, torch.randn(15, generator=generator).double()
    assert risk(g_p, torch.cat([g_p, g_n])).item() == pytest.approx(0.125 + 0.75 * risk(g_p, g_n).item())


def test_label_distribution_risk() -> None:
    # P: 1 − 3/4. U: mean(3/4, 1/4) = 1/2 is 0.3 from the prior 0.2, and 0.3 from 0.8.
    assert label_distribution_risk(t(LN3), t(LN3, -LN3), 0.2).item() == pytest.approx(0.25 + 0.3 / 0.4)
    assert label_distribution_risk(t(LN3), t(LN3, -LN3), 0.8).item() == pytest.approx(0.25 + 0.3 / 1.6)
    # Where U has more than the prior it is the unbiased risk, divided by 2π.
    g_p, g_u = t(0.4, -1.0), t(2.0, -0.3, 1.0)
    expected = upu_risk(g_p, g_u, 0.3).value.item() / 0.6
    assert label_distribution_risk(g_p, g_u, 0.3).item() == pytest.approx(expected)


def test_smooth_distance_and_margin_loss() -> None:
    # β·d = LN3 and 0: log(1 + 3) + log(1 + 1/3), and 2·log 2, divided by β.
    assert smooth_distance(t(LN3), t(0.0), 1.0).item() == pytest.approx(math.log(16 / 3))
    found = smooth_distance(t(0.2 + LN3 / 4, 0.2), 0.2, 4.0)
    assert found.tolist() == pytest.approx([math.log(16 / 3) / 4, math.log(4) / 4])
    assert smooth_distance(t(3.0), t(1.0), 100.0).item() == pytest.approx(2.0)  # the plain distance
    # σ(LN3)·σ(0), σ(0)·σ(LN3), and far off the margin almost nothing, on both sides.
    assert margin_loss(t(LN3, 0.0, 40.0, -40.0), LN3).tolist() == pytest.approx([0.375, 0.375, 0.0, 0.0])
    # Highest in the middle of the margin.
    assert margin_loss(torch.linspace(-2, 3, 51).double(), 0.6).argmax() == 23  # at 0.3


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


def test_cvir_risk() -> None:
    g_u, kept = t(LN3, -LN3, 0.0), t(0.0, 1.0, 1.0)
    # P: log 4/3. The kept rows: −log σ(LN3) = log 4/3 and log 2.
    expected = (math.log(4 / 3) + (math.log(4 / 3) + math.log(2)) / 2) / 2
    assert cvir_risk(t(LN3), g_u, kept).item() == pytest.approx(expected)
    assert cvir_risk(t(LN3), g_u, t(0.0, 0.0, 0.0)).item() == 0


def test_lee_liu_risk() -> None:
    # recall 5/8, share (3/4 + 1/2 + 1/4) / 3 = 1/2
    assert lee_liu_risk(t(LN3, 0.0), t(LN3, 0.0, -LN3)).item() == pytest.approx(-math.log((5 / 8) ** 2 / 0.5))


def test_trend_term() -> None:
    assert trend_term(t(0.0, 1.0, -1.0)).tolist() == pytest.approx([0.0, math.log(2.5), -math.log(2)])


def test_fixmatch_risk() -> None:
    # σ: 3/4, 1/2, 1/4. At 0.7 the first row is a sure positive, the last one a sure negative.
    weak, strong = t(LN3, 0.0, -LN3), t(0.0, LN3, LN3)
    assert fixmatch_risk(weak, strong, 0.7).item() == pytest.approx((math.log(2) + math.log(4)) / 3)
    assert fixmatch_risk(weak, strong, 0.8).item() == 0
    per_model = fixmatch_risk(weak[None].expand(2, 3), strong[None].expand(2, 3), t(0.7, 0.8))
    assert per_model.tolist() == pytest.approx([(math.log(2) + math.log(4)) / 3, 0])


def test_posterior_of_unlabeled() -> None:
    # h = 3/4 and η = 1/2: 3/8 of 5/8. η = 1/4: 9/16 of 13/16.
    assert posterior_of_unlabeled(t(LN3, LN3), t(0.0, -LN3)).tolist() == pytest.approx([3 / 5, 9 / 13])


def test_labelling_risk() -> None:
    # P: 3/4 · 1/2. U: 1 − 1/4 · 3/4 = 13/16.
    expected = -0.3 * math.log(3 / 8) - 0.7 * math.log(13 / 16)
    assert labelling_risk(t(LN3), t(0.0), t(-LN3), t(LN3), 0.3).item() == pytest.approx(expected)


def _scalar_functions() -> dict[str, object]:
    sigma = t(0.9, 0.1, 0.6)
    functions: dict[str, object] = {
        "kl": lambda g: bernoulli_kl(t(0.2, 0.0, 1.0), g).mean(),
        "prior_kl": lambda g: prior_kl(0.3, g),
        "entropy": lambda g: bernoulli_entropy(g).mean(),
        "label_distribution-p": lambda g: label_distribution_risk(g, t(0.3, -0.4).to(g.dtype), 0.3),
        "label_distribution-u": lambda g: label_distribution_risk(t(0.3, -0.4).to(g.dtype), g, 0.3),
        "smooth_distance": lambda g: smooth_distance(g, 0.3, 3.5).mean(),
        "margin": lambda g: margin_loss(g, 0.6).mean(),
        "pubn_positive": lambda g: pubn_positive(g, sigma, 0.5).mean(),
        "pubn_unlabeled": lambda g: pubn_unlabeled(g, sigma, 0.5).mean(),
        "pubn_negative": lambda g: pubn_negative(g, sigma, 0.5).mean(),
    }
    other = t(0.3, -0.4)
    functions["fixmatch"] = lambda g: fixmatch_risk(t(0.3, -4.0, 2.0), g, 0.7)
    functions["labelling"] = lambda g: labelling_risk(g, -g, g + 1, 2 * g, 0.3)
    functions["posterior"] = lambda g: posterior_of_unlabeled(g, 2 * g).mean()
    functions["cvir"] = lambda g: cvir_risk(other, g, t(1.0, 0.0, 1.0)) + cvir_risk(g, other, t(1.0, 0.0))
    functions["lee-liu"] = lambda g: lee_liu_risk(other, g) + lee_liu_risk(g, other)
    for name, loss in LOSSES.items():
        functions[f"loss-{name}"] = lambda g, loss=loss: loss(g).mean()
        for risk in (pn_risk, upu_risk, nnpu_risk, imbalanced_nnpu_risk):
            bound = partial(risk, prior=0.4, loss=loss)
            functions[f"{risk.__name__}-{name}-p"] = lambda g, bound=bound: bound(g, other).objective
            functions[f"{risk.__name__}-{name}-u"] = lambda g, bound=bound: bound(other, g).objective
        functions[f"pairs-{name}-p"] = lambda g, loss=loss: pair_risk(g, other.to(g.dtype), loss)
        functions[f"pairs-{name}-u"] = lambda g, loss=loss: pair_risk(other.to(g.dtype), g, loss)
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
