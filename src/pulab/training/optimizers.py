"""Optimisers: torch's own for one model, and the same rules for stacked models that each have their own rates."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

BETA1, BETA2, EPS, MOMENTUM = 0.9, 0.999, 1e-8, 0.9

_TORCHS_OWN: dict[str, Any] = {
    "amsgrad": partial(torch.optim.Adam, amsgrad=True),
    "adamw": torch.optim.AdamW,
    "sgd": partial(torch.optim.SGD, momentum=MOMENTUM, nesterov=True),
}
OPTIMIZERS = tuple(_TORCHS_OWN)


class Optimizer(Protocol):
    """The part of an optimiser that the loop uses. Rates are a float64 tensor with a value per model."""

    def zero_grad(self) -> None: ...

    def step(self) -> Any: ...

    def set_rates(self, rates: Tensor) -> None: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class SharedOptimizer:
    """An optimiser of torch: one learning rate and one weight decay for all parameters."""

    def __init__(self, name: str, parameters: Sequence[Tensor], weight_decay: float) -> None:
        self._on_gpu = parameters[0].is_cuda
        self._device = parameters[0].device
        options = {"capturable": self._on_gpu} if name != "sgd" else {}
        self._inner: torch.optim.Optimizer = _TORCHS_OWN[name](
            parameters, lr=self._rate(0.0), weight_decay=weight_decay, fused=True, **options
        )

    def _rate(self, value: float) -> float | Tensor:
        """On a GPU a tensor: a recorded step must see it change."""
        return torch.tensor(value, dtype=torch.float32, device=self._device) if self._on_gpu else value

    def zero_grad(self) -> None:
        self._inner.zero_grad()

    def step(self) -> None:
        self._inner.step()

    def set_rates(self, rates: Tensor) -> None:
        for group in self._inner.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].copy_(rates[0])
            else:
                group["lr"] = rates[0].item()

    def state_dict(self) -> dict[str, Any]:
        return {"state": self._inner.state_dict()["state"]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        own = self._inner.state_dict()["param_groups"]  # rates, and the way this device steps
        self._inner.load_state_dict({"state": state["state"], "param_groups": own})


class StackedOptimizer:
    """The same rules for parameters with a line per model. Each model has its own learning rate and weight decay."""

    def __init__(self, name: str, parameters: Sequence[Tensor], weight_decay: Tensor) -> None:
        self._name = name
        n_memories = {"amsgrad": 3, "adamw": 2, "sgd": 1}[name]
        self._parameters = list(parameters)
        self._weight_decay = weight_decay
        self._lr = torch.zeros_like(weight_decay)
        self._steps = torch.zeros((), dtype=torch.float64, device=self._lr.device)
        self._memory = [[torch.zeros_like(parameter) for _ in range(n_memories)] for parameter in self._parameters]

    def zero_grad(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None

    def set_rates(self, rates: Tensor) -> None:
        # torch keeps its rate in float32 on a GPU. Round alike, so that a model learns the same alone and in a fleet.
        self._lr.copy_(rates.float() if rates.is_cuda else rates)

    @torch.no_grad()
    def step(self) -> None:
        self._steps += 1
        corrected = self._lr / (1 - BETA1**self._steps)
        root = (1 - BETA2**self._steps).sqrt()
        for parameter, memory in zip(self._parameters, self._memory, strict=True):
            self._move(parameter, memory, corrected, root)

    def _move(self, parameter: Tensor, memory: list[Tensor], corrected: Tensor, root: Tensor) -> None:
        shape = (-1, *(1,) * (parameter.ndim - 1))
        decay, lr, rate = (t.to(parameter.dtype).view(shape) for t in (self._weight_decay, self._lr, corrected))
        gradient: Tensor = parameter.grad  # type: ignore[assignment]
        if self._name == "adamw":
            parameter.mul_(1 - lr * decay)
        else:
            gradient = decay * parameter + gradient
        if self._name == "sgd":
            velocity = memory[0].mul_(MOMENTUM).add_(gradient)
            parameter.sub_(lr * (gradient + MOMENTUM * velocity))
            return
        mean, square, *largest = memory
        mean.lerp_(gradient, 1 - BETA1)
        square.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
        if largest:
            square = torch.maximum(largest[0], square, out=largest[0])
        parameter.sub_(rate * mean / (square.sqrt() / root.to(parameter.dtype) + EPS))

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self._steps, "memory": self._memory}

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._steps.copy_(state["steps"])
        for own, kept in zip(self._memory, state["memory"], strict=True):
            for tensor, value in zip(own, kept, strict=True):
                tensor.copy_(value)
