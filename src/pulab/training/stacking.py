"""Many small networks of one architecture as one batched network."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from pulab.training.dropout import is_plain_dropout
from pulab.training.model import Model, has_gradient_hooks

# Layers that compute row by row, draw no random numbers (but dropout's), and whose repr says all that they do.
LAYERS = (
    *(nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.LayerNorm),
    *(nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Softplus, nn.Sigmoid, nn.Tanh, nn.Dropout, nn.Identity),
    *(nn.MaxPool1d, nn.MaxPool2d, nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.Flatten, nn.Unflatten),
)
SMALL = 5_000_000  # parameters; a larger network keeps a GPU busy by itself


def can_stack(module: nn.Module) -> bool:
    """Whether one batched network can stand for such modules: small, made of common layers alone, without hooks."""
    parameters = list(module.parameters())
    tied = len(list(module.named_parameters(remove_duplicate=False))) > len(parameters)
    reused = len(list(module.named_modules(remove_duplicate=False))) > len(list(module.modules()))
    small = sum(p.numel() for p in parameters) < SMALL
    plain = all(map(_is_plain, module.modules())) and not list(module.buffers())
    return small and plain and not tied and not reused and not has_gradient_hooks(module)


def _is_plain(layer: nn.Module) -> bool:
    """Whether torch's own code runs, and the layer's repr says the rest."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    if isinstance(layer, nn.Sequential):  # a subclass may only say what is inside
        own = {name for cls in type(layer).__mro__ if cls not in nn.Sequential.__mro__ for name in vars(cls)}
        known = vars(layer).keys() == vars(nn.Sequential()).keys() and own <= {"__init__", *vars(_Named)}
    else:
        known = type(layer) in LAYERS and (type(layer) is not nn.Dropout or is_plain_dropout(layer))
    return known and "forward" not in vars(layer) and not any(getattr(layer, name) for name in hooks)


class _Named:
    """A class of no code: its attributes are those that every class has."""


def anatomy(module: nn.Module) -> tuple[Any, ...]:
    """What modules that can be stacked must have in common: all but the values of their parameters."""
    return repr(module), *((name, p.shape, p.dtype, p.requires_grad) for name, p in module.named_parameters())


class StackedModel(Model):
    """Many modules of one architecture as one batched network; worth it where a single one leaves the device idle."""

    def __init__(self, modules: Sequence[nn.Module], width: int | None = None) -> None:
        super().__init__(modules, width)
        self._stack()

    def _stack(self) -> None:
        self._parameters, self._buffers = stack_module_state(self.modules)
        for name, parameter in self.modules[0].named_parameters():
            self._parameters[name] = self._parameters[name].detach().requires_grad_(parameter.requires_grad)

    def parameters(self) -> list[Tensor]:
        return [p for p in self._parameters.values() if p.requires_grad]

    def forward(self, x: Tensor, teacher: bool = False) -> Tensor:
        def one(parameters: Any, buffers: Any, rows: Tensor) -> Tensor:
            out: Tensor = functional_call(self.modules[0], (parameters, buffers), (rows,))
            return out.reshape(len(rows)) if self.width is None else out

        out: Tensor = vmap(one)(self.teacher if teacher else self._parameters, self._buffers, x)
        return out

    def state(self) -> dict[str, Tensor]:
        return {name: value.detach() for name, value in self._parameters.items()}

    def _put(self, values: dict[str, Tensor]) -> None:
        for name, value in self.state().items():
            value.copy_(values[name])

    def keep(self, improved: Sequence[bool]) -> None:
        state = self.state() | self.teacher
        if not self._best:
            self._best = {name: value.clone() for name, value in state.items()}
        chosen = torch.tensor(improved, device=next(iter(state.values())).device)
        for name, value in state.items():
            shape = (-1, *(1,) * (value.ndim - 1))
            self._best[name] = torch.where(chosen.view(shape), value, self._best[name])

    @torch.no_grad()
    def restore_best(self) -> None:
        for i, module in enumerate(self.modules):
            for name, parameter in module.named_parameters():
                parameter.copy_(self._best[name][i] if self._best else self._parameters[name][i])
        self.train(False)

    @contextmanager
    def counted_dropout(self, seeds: Sequence[int]) -> Iterator[None]:
        with super().counted_dropout(seeds):
            self._stack()  # counted layers have buffers
            yield

    def _passes(self) -> list[Tensor]:
        return [value for name, value in self._buffers.items() if name.rpartition(".")[2] == "passes"]
