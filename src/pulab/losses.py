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


def _non_negative(positive: Tensor, negative: Tensor, beta: Number, gamma: Number) -> Risk:
    # Below -beta the model has overfitted P: go back along -negative alone. `where`, not `if`: steps are recorded.
    overfitted = negative < -beta
    return Risk(
        value=positive + negative.clamp_min(-beta),
        objective=torch.where(overfitted, -gamma * negative, positive + negative),
    )


def bernoulli_kl(y: Tensor, g: Tensor) -> Tensor:
    """KL([y, 1−y] ‖ [σ(g), 1−σ(g)]) of each sample: how far the prediction is from its pseudo-label."""
    negative_entropy = torch.xlogy(y, y) + torch.xlogy(1 - y, 1 - y)
    return negative_entropy - y * logsigmoid(g) - (1 - y) * logsigmoid(-g)


def prior_kl(prior: Number, g: Tensor) -> Tensor:
    """KL([π, 1−π] ‖ [mean σ(g), 1 − mean σ(g)]): keeps the share of predicted positives at the prior (L_reg1)."""
    # The log of a mean of sigmoids, computed from the logits: finite even if every sigmoid underflows to zero.
    log_share = torch.logsumexp(logsigmoid(g), dim=-1) - math.log(g.shape[-1])
    log_rest = torch.logsumexp(logsigmoid(-g), dim=-1) - math.log(g.shape[-1])
    pi = prior if isinstance(prior, Tensor) else g.new_tensor(prior)
    return torch.xlogy(pi, pi) - pi * log_share + torch.xlogy(1 - pi, 1 - pi) - (1 - pi) * log_rest


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
    log_mean = torch.logsumexp(logsigmoid(g_u), dim=-1) - math.log(g_u.shape[-1])
    return log_mean - logsigmoid(g_p).mean(-1)
