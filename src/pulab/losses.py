"""Losses and risks: pure functions on logits, finite at any finite logit, free of branches on data.

Samples lie along the last dimension; other dimensions, such as a line per model, stay. A *loss* ``loss(g)`` is the
loss of the logit ``g`` of a positive; ``loss(-g)`` is the loss of a negative. A *risk* is a mean loss over samples.
`docs/paper.md` says how each formula of the paper is read.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

Loss = Callable[[Tensor], Tensor]
Number = float | Tensor  # one for all, or one per line


class Risk(NamedTuple):
    """``value`` is reported, ``objective`` is differentiated. They differ where nnPU's clamp acts."""

    value: Tensor
    objective: Tensor


def sigmoid_loss(g: Tensor) -> Tensor:
    """1 − σ(g), the loss of Kiryo et al. (2017) and of the paper's equations."""
    return torch.sigmoid(-g)


def logistic_loss(g: Tensor) -> Tensor:
    """−log σ(g). From ``logsigmoid``: torch's softplus turns linear at 20, wrong by 2e-9 there."""
    return -logsigmoid(g)


LOSSES: dict[str, Loss] = {"sigmoid": sigmoid_loss, "logistic": logistic_loss}


def pn_risk(g_p: Tensor, g_n: Tensor, prior: Number, loss: Loss = sigmoid_loss) -> Risk:
    """Supervised risk, eq. (1): positives and negatives are both known."""
    value = prior * loss(g_p).mean(-1) + (1 - prior) * loss(-g_n).mean(-1)
    return Risk(value, value)


def upu_risk(g_p: Tensor, g_u: Tensor, prior: Number, loss: Loss = sigmoid_loss) -> Risk:
    """Unbiased PU risk, eq. (2) (du Plessis et al. 2014, 2015). Its negative part may fall below zero."""
    value = prior * loss(g_p).mean(-1) + loss(-g_u).mean(-1) - prior * loss(-g_p).mean(-1)
    return Risk(value, value)


def nnpu_risk(
    g_p: Tensor, g_u: Tensor, prior: Number, loss: Loss = sigmoid_loss, beta: Number = 0.0, gamma: Number = 1.0
) -> Risk:
    """Non-negative PU risk, eq. (3) (Kiryo et al. 2017)."""
    positive = prior * loss(g_p).mean(-1)
    negative = loss(-g_u).mean(-1) - prior * loss(-g_p).mean(-1)
    return _non_negative(positive, negative, beta, gamma)


def imbalanced_nnpu_risk(
    g_p: Tensor,
    g_u: Tensor,
    prior: Number,
    balanced_prior: Number = 0.5,
    loss: Loss = sigmoid_loss,
    beta: Number = 0.0,
    gamma: Number = 1.0,
) -> Risk:
    """The nnPU risk of a population whose prior is ``balanced_prior``, from samples of another (Su et al. 2021)."""
    positive = balanced_prior * loss(g_p).mean(-1)
    negative = loss(-g_u).mean(-1) - prior * loss(-g_p).mean(-1)
    return _non_negative(positive, (1 - balanced_prior) / (1 - prior) * negative, beta, gamma)


def _non_negative(positive: Tensor, negative: Tensor, beta: Number, gamma: Number) -> Risk:
    # Below -beta the model has overfitted P: go back along -negative alone. `where`, not `if`: steps are recorded.
    overfitted = negative < -beta
    return Risk(
        value=positive + negative.clamp_min(-beta),
        objective=torch.where(overfitted, -gamma * negative, positive + negative),
    )


def label_distribution_risk(g_p: Tensor, g_u: Tensor, prior: Number) -> Tensor:
    """(1 − mean_P σ) + ``|mean_U σ − π|`` / 2π: predicted labels have the means of the true ones (Zhao et al. 2022).

    Without the bars this is the unbiased risk with the sigmoid loss, divided by 2π.
    """
    return 1 - torch.sigmoid(g_p).mean(-1) + (torch.sigmoid(g_u).mean(-1) - prior).abs() / (2 * prior)


def smooth_distance(a: Tensor, b: Number, sharpness: Number) -> Tensor:
    """log(1 + e^βd) / β + log(1 + e^−βd) / β with d = a − b: the distance, with a round tip."""
    scaled = sharpness * (a - b)
    return -(logsigmoid(scaled) + logsigmoid(-scaled)) / sharpness


def margin_loss(g: Tensor, margin: Number) -> Tensor:
    """σ(g) · σ(margin − g), a hill between 0 and the margin: it pushes a positive's logit off the border."""
    return torch.sigmoid(g) * torch.sigmoid(margin - g)


def bernoulli_kl(y: Tensor, g: Tensor) -> Tensor:
    """KL([y, 1−y] ‖ [σ(g), 1−σ(g)]) of each sample: how far the prediction is from its pseudo-label."""
    negative_entropy = torch.xlogy(y, y) + torch.xlogy(1 - y, 1 - y)
    return negative_entropy - y * logsigmoid(g) - (1 - y) * logsigmoid(-g)


def prior_kl(prior: Number, g: Tensor) -> Tensor:
    """KL([π, 1−π] ‖ [mean σ(g), 1 − mean σ(g)]): keeps the share of predicted positives at the prior (L_reg1)."""
    pi = prior if isinstance(prior, Tensor) else g.new_tensor(prior)
    return torch.xlogy(pi, pi) - pi * _log_share(g) + torch.xlogy(1 - pi, 1 - pi) - (1 - pi) * _log_share(-g)


def _log_share(g: Tensor) -> Tensor:
    """The log of a mean of sigmoids, computed from the logits: finite even if every sigmoid underflows to zero."""
    return torch.logsumexp(logsigmoid(g), dim=-1) - math.log(g.shape[-1])


def bernoulli_entropy(g: Tensor) -> Tensor:
    """H(σ(g)) of each sample, in nats. Minimising it pushes predictions to 0 and 1 (L_reg2, sign corrected)."""
    p = torch.sigmoid(g)
    return -p * logsigmoid(g) - (1 - p) * logsigmoid(-g)


class JointTerms(NamedTuple):
    """The terms of the joint loss: means over the batch, without weights."""

    positive: Tensor
    kl: Tensor
    prior_kl: Tensor
    entropy: Tensor


def joint_terms(g_p: Tensor, g_u: Tensor, y_u: Tensor, prior: Number, positive_loss: Loss = sigmoid_loss) -> JointTerms:
    """The terms of the joint loss λ·positive + kl + α·prior_kl + β·entropy."""
    return JointTerms(
        positive=positive_loss(g_p).mean(-1),
        kl=bernoulli_kl(y_u, g_u).mean(-1),
        prior_kl=prior_kl(prior, g_u),
        entropy=bernoulli_entropy(g_u).mean(-1),
    )


def pubn_sigma_risk(
    g_p: Tensor, g_u: Tensor, g_n: Tensor, prior: Number, rho: Number, loss: Loss = logistic_loss
) -> Risk:
    """nnPU risk of "is this row of the labelled kind?": P (weight π) and the biased negatives (weight ρ) are."""
    labelled = prior * loss(g_p).mean(-1) + rho * loss(g_n).mean(-1)
    rest = loss(-g_u).mean(-1) - prior * loss(-g_p).mean(-1) - rho * loss(-g_n).mean(-1)
    return _non_negative(labelled, rest, beta=0.0, gamma=1.0)


SIGMA_MIN = 1e-6  # limits weights to a million where σ has collapsed


def pubn_positive(g_p: Tensor, sigma_p: Tensor, eta: Number, loss: Loss = logistic_loss) -> Tensor:
    """PUbN's loss of each labelled positive: as a positive, and as a stand-in for negatives with σ above η."""
    return loss(g_p) + loss(-g_p) * pubn_stand_ins(sigma_p, eta)


def pubn_stand_ins(sigma_p: Tensor, eta: Number) -> Tensor:
    """The number of negatives that each labelled positive stands in for."""
    return torch.where(sigma_p > eta, (1 - sigma_p) / sigma_p.clamp_min(SIGMA_MIN), 0.0)


def pubn_unlabeled(g_u: Tensor, sigma_u: Tensor, eta: Number, loss: Loss = logistic_loss) -> Tensor:
    """PUbN's loss of each unlabeled row: as a negative, weighted by 1 − σ below η, else not at all."""
    return loss(-g_u) * torch.where(sigma_u > eta, 0.0, 1 - sigma_u)


def pubn_negative(g_n: Tensor, sigma_n: Tensor, eta: Number, loss: Loss = logistic_loss) -> Tensor:
    """PUbN's loss of each biased negative: weighted up where σ is above η, because U is not used there."""
    return loss(-g_n) * torch.where(sigma_n > eta, 1 / sigma_n.clamp_min(SIGMA_MIN), 1.0)


def vpu_risk(g_p: Tensor, g_u: Tensor) -> Tensor:
    """log mean_U φ − mean_P log φ with φ = σ(g) (Chen et al. 2020, eq. 7). Needs no prior."""
    return _log_share(g_u) - logsigmoid(g_p).mean(-1)


def lee_liu_risk(g_p: Tensor, g_u: Tensor) -> Tensor:
    """log mean_U σ − 2 log mean_P σ: minus the log of recall² / predicted share (Lee and Liu 2003). Needs no prior.

    To compare the epochs of a training. Where the classes can be told apart, the truth has the lowest value.
    """
    return _log_share(g_u) - 2 * _log_share(g_p)


def cvir_risk(g_p: Tensor, g_u: Tensor, kept: Tensor) -> Tensor:
    """½ mean_P −log σ(g) + ½ mean −log σ(−g) over the kept rows of U (Garg et al. 2021); 0 if none is kept."""
    n = kept.sum(-1)
    rest = (kept * logistic_loss(-g_u)).sum(-1) / n.clamp_min(1)
    return torch.where(n > 0, (logistic_loss(g_p).mean(-1) + rest) / 2, 0.0)


def pair_risk(g_p: Tensor, g_u: Tensor, loss: Loss = sigmoid_loss) -> Tensor:
    """The mean loss of g_p − g_u over all pairs of a positive and an unlabeled row. Needs no prior.

    With the sigmoid loss it is π/2 + (1 − π) times the same risk of positives against negatives, since a pair of two
    positives costs one half on average (Sakai et al. 2018, Xie and Li 2018).
    """
    return loss(g_p[..., :, None] - g_u[..., None, :]).mean((-2, -1))


def auc_risk(g_p: Tensor, g_u: Tensor) -> Tensor:
    """The share of pairs in which the unlabeled row is above the positive; ties are halves. It has no gradient."""
    ordered, g_p = g_u.sort(dim=-1).values.contiguous(), g_p.contiguous()
    below = torch.searchsorted(ordered, g_p) + torch.searchsorted(ordered, g_p, right=True)
    risk = 1 - below.to(g_p.dtype).mean(-1) / (2 * g_u.shape[-1])
    whole = torch.isfinite(g_p).all(-1) & torch.isfinite(g_u).all(-1)
    return torch.where(whole, risk, torch.nan)


def contrastive_risk(a: Tensor, b: Tensor, temperature: float) -> Tensor:
    """How well each row's other view is told from all other rows (NT-Xent, Chen et al. 2020).

    ``a`` and ``b`` are vectors of two views of the same rows, of shape (…, rows, width). Needs no labels.
    """
    n = a.shape[-2]
    z = torch.nn.functional.normalize(torch.cat([a, b], dim=-2), dim=-1)
    alike = z @ z.transpose(-1, -2) / temperature
    itself = torch.eye(2 * n, dtype=torch.bool, device=z.device)
    alike = alike.masked_fill(itself, -torch.inf)
    other_view = torch.cat([alike.diagonal(n, -2, -1), alike.diagonal(-n, -2, -1)], dim=-1)
    return (torch.logsumexp(alike, dim=-1) - other_view).mean(-1)


def trend_term(difference: Tensor) -> Tensor:
    """log(1 + d + d²/2) of the difference d of two successive predictions (Wang et al. 2023)."""
    return torch.log1p(difference + difference.square() / 2)


def fixmatch_risk(g_weak: Tensor, g_strong: Tensor, sure: Number) -> Tensor:
    """Cross-entropy of strong views to the classes that weak views are given, where these are sure (Sohn et al. 2020).

    ``sure`` is the least probability of the more likely class. Rows below it count as zeros of the mean.
    """
    g = g_weak.detach()
    least = sure[:, None] if isinstance(sure, Tensor) else sure
    likely = torch.sigmoid(g.abs()) >= least
    return torch.where(likely, logistic_loss(torch.where(g > 0, g_strong, -g_strong)), 0.0).mean(-1)


def posterior_of_unlabeled(g: Tensor, g_labelled: Tensor) -> Tensor:
    """The chance that an unlabeled row is positive, h (1 − η) / (1 − h η), from the logits of h and η (Gong 2021)."""
    return torch.sigmoid(g + logsigmoid(-g_labelled))


def labelling_risk(g_p: Tensor, eta_p: Tensor, g_u: Tensor, eta_u: Tensor, share: Number) -> Tensor:
    """Cross-entropy of who is labelled, P(s = 1 | x) = h(x) η(x), from the logits of h and η.

    ``share`` is the share of labelled rows among all rows.
    """
    unlabeled = torch.logaddexp(logsigmoid(-g_u), logsigmoid(g_u) + logsigmoid(-eta_u))
    return share * (logistic_loss(g_p) + logistic_loss(eta_p)).mean(-1) - (1 - share) * unlabeled.mean(-1)
