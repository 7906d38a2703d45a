"""The plain alternative: a simple, eager implementation of the paper's Algorithm 1, one trial at a time."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

from pulab.datasets import PUSample


def plain_training(
    net: nn.Module,
    train: PUSample,
    validation: PUSample,
    *,
    hyper: dict[str, Any],
    epochs: int,
    device: str = "cpu",
    autocast: torch.dtype | None = None,
    on_epoch: Callable[[], None] = lambda: None,
) -> None:
    """Train with validation after every epoch, with torch's Adam and the whole matrix of predictions."""
    prior = train.prior
    x_p, x_u = (torch.from_numpy(train.X[train.s == s]).to(device) for s in (1, 0))
    v_p, v_u = (torch.from_numpy(validation.X[validation.s == s]).to(device) for s in (1, 0))
    if autocast is not None:  # the usual layout on a GPU
        net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        x_p, x_u, v_p, v_u = (x.contiguous(memory_format=torch.channels_last) for x in (x_p, x_u, v_p, v_u))
    net = net.to(device)
    mixed = torch.autocast(device, autocast, enabled=autocast is not None)
    optimizer = torch.optim.Adam(net.parameters(), lr=hyper["lr"], weight_decay=1e-4, amsgrad=True)
    y = torch.full((len(x_u),), prior, device=device)
    Z = torch.zeros(len(x_u), epochs, device=device)
    last = len(x_p) / len(x_u)
    for epoch in range(epochs):
        lam = (epochs - 1 - epoch) / (epochs - 1) * (hyper["lambda_init"] - last) + last
        net.train()
        order_p, order_u = torch.randperm(len(x_p)).to(device), torch.randperm(len(x_u)).to(device)
        for rows_p, rows_u in zip(order_p.split(10), order_u.split(hyper["batch_size_u"]), strict=True):
            with mixed:
                g = net(torch.cat([x_p[rows_p], x_u[rows_u]])).squeeze(1)
            g_p, g_u = g.float()[:10], g.float()[10:]
            p = torch.sigmoid(g_u)
            loss = lam * torch.sigmoid(-g_p).mean() + cross_entropy(g_u, y[rows_u]) + hyper["beta"] * entropy(p)
            loss = loss - hyper["alpha"] * (prior * p.mean().log() + (1 - prior) * (1 - p.mean()).log())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            Z[rows_u, epoch] = p.detach()
        if epoch + 1 >= hyper["e_start"]:
            y = Z[:, max(0, epoch + 1 - hyper["r"]) : epoch + 1].mean(dim=1)
        net.eval()
        with torch.no_grad(), mixed:
            on_p, on_u = torch.sigmoid(net(v_p).float()), torch.sigmoid(net(v_u).float())
        float(prior * (1 - on_p).mean() + (on_u.mean() - prior * on_p.mean()).clamp_min(0))
        on_epoch()


def entropy(p: Tensor) -> Tensor:
    q = p.clamp(1e-7, 1 - 1e-7)
    return -(q * q.log() + (1 - q) * (1 - q).log()).mean()
