"""AMSGrad for models that are trained as one, each at a rate of its own; torch's optimisers have one for all."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

BETA1, BETA2, EPS = 0.9, 0.999, 1e-8


class StackedAMSGrad:
    """What ``torch.optim.Adam(amsgrad=True)`` does, to parameters with a line per model.

    ``lr`` and ``weight_decay`` have a value per model; ``lr`` is changed in place, so that a recorded step sees it.
    """

    def __init__(self, parameters: Sequence[Tensor], lr: Tensor, weight_decay: Tensor) -> None:
        self.lr = lr
        self._weight_decay = weight_decay
        self._parameters = list(parameters)
        # Of each parameter: as torch does, only those steps count that had a gradient for it.
        self._steps = torch.zeros(len(self._parameters), dtype=torch.float64, device=lr.device)
        # The means of the gradient and of its square, and the largest of the latter so far.
        self._memory = [[torch.zeros_like(parameter) for _ in range(3)] for parameter in self._parameters]

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self._parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Move every parameter that has a gradient."""
        moved = [i for i, parameter in enumerate(self._parameters) if parameter.grad is not None]
        for i in moved:
            self._steps[i] += 1
        rates = self.lr / (1 - BETA1 ** self._steps[:, None])
        roots = (1 - BETA2**self._steps).sqrt()
        for i in moved:
            parameter, rate, root, (mean, square, largest) = self._parameters[i], rates[i], roots[i], self._memory[i]
            each = (-1, *(1,) * (parameter.ndim - 1))
            gradient = self._weight_decay.to(parameter.dtype).view(each) * parameter
            gradient += parameter.grad  # type: ignore[arg-type]
            mean.lerp_(gradient, 1 - BETA1)
            square.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
            torch.maximum(largest, square, out=largest)
            scale = largest.sqrt() / root.to(parameter.dtype) + EPS
            parameter.sub_(rate.to(parameter.dtype).view(each) * mean / scale)

    def state_dict(self) -> dict[str, Any]:
        """All that must be kept to go on exactly."""
        return {"steps": self._steps, "memory": self._memory}

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a kept state."""
        self._steps.copy_(state["steps"])
        for mine, kept in zip(self._memory, state["memory"], strict=True):
            for tensor, value in zip(mine, kept, strict=True):
                tensor.copy_(value)
