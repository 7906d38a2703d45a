"""One module or many of one architecture, behind the same few calls. Logits have a line per model."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from pulab.nets import logits
from pulab.training.dropout import CountedDropout, counted_dropout


class Model:
    """One module: x of shape (1, n, …) to logits of shape (1, n)."""

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self.modules = list(modules)
        self.compiled: nn.Module | None = None  # stands for the module in training
        self._best: dict[str, Tensor] = {}

    def __len__(self) -> int:
        return len(self.modules)

    def parameters(self) -> list[Tensor]:
        """What the optimiser changes."""
        return [p for p in self.modules[0].parameters() if p.requires_grad]

    def forward(self, x: Tensor) -> Tensor:
        """Logits of each model for its own rows."""
        batch = x[0]
        if batch.ndim == 4:  # 1.2 × faster convolutions on a CPU (and more on a GPU) than in torch's default order
            batch = batch.contiguous(memory_format=torch.channels_last)
        module = self.modules[0]
        if self.compiled is not None and module.training:
            module = self.compiled
        return logits(module, batch)[None]

    def compile(self) -> None:
        """Let torch fuse what it can of a training pass; the first one then takes half a minute."""
        compiled: Any = torch.compile(self.modules[0], dynamic=False)
        self.compiled = compiled

    def train(self, mode: bool) -> None:
        """Training or evaluation mode."""
        for module in self.modules:
            module.train(mode)

    def state(self) -> dict[str, Tensor]:
        """Weights and buffers as they stand, by name; changed in place as training goes on."""
        state: dict[str, Tensor] = self.modules[0].state_dict()
        return state

    def state_dict(self) -> dict[str, Any]:
        """Weights as they stand and as they were at their best."""
        return {"weights": self.state(), "best": self._best}

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Any], steps: int) -> None:
        """Go on from a kept state, after this many steps."""
        for name, value in self.state().items():
            value.copy_(state["weights"][name])
        self._best = state["best"]
        self._set_passes(steps)

    def keep(self, improved: Sequence[bool]) -> None:
        """Remember the weights of those models that have improved."""
        if improved[0]:
            self._best = copy.deepcopy(self.state())

    def restore_best(self) -> None:
        """Give every module its best weights and leave it in evaluation mode."""
        self.modules[0].load_state_dict(self._best)
        self.train(False)

    @contextmanager
    def counted_dropout(self, seeds: Sequence[int]) -> Iterator[None]:
        """Within, dropout is a function of these seeds and the number of ticks."""
        with ExitStack() as stack:
            for module, seed in zip(self.modules, seeds, strict=True):
                stack.enter_context(counted_dropout(module, seed))
            yield

    def tick(self) -> None:
        """A step is over: the next pass drops other units."""
        for layer in self._dropouts():
            layer.passes += 1
        self.begin_pass()

    def begin_pass(self) -> None:
        """Nothing has been dropped yet in this pass."""
        for layer in self._dropouts():
            layer.calls = 0

    def _set_passes(self, steps: int) -> None:
        for layer in self._dropouts():
            layer.passes.fill_(steps)

    def _dropouts(self) -> list[CountedDropout]:
        return [layer for module in self.modules for layer in module.modules() if isinstance(layer, CountedDropout)]


class StackedModel(Model):
    """Many modules of one architecture as one batched network; worth it where a single one leaves the device idle."""

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        super().__init__(modules)
        self._stack()

    def _stack(self) -> None:
        self._parameters, self._buffers = stack_module_state(self.modules)
        for name, parameter in self.modules[0].named_parameters():
            self._parameters[name] = self._parameters[name].detach().requires_grad_(parameter.requires_grad)

    def parameters(self) -> list[Tensor]:
        return [p for p in self._parameters.values() if p.requires_grad]

    def forward(self, x: Tensor) -> Tensor:
        def one(parameters: Any, buffers: Any, rows: Tensor) -> Tensor:
            out: Tensor = functional_call(self.modules[0], (parameters, buffers), (rows,))
            return out.reshape(len(rows))

        out: Tensor = vmap(one)(self._parameters, self._buffers, x)
        return out

    def state(self) -> dict[str, Tensor]:
        kept = self.modules[0].state_dict()
        return {name: value.detach() for name, value in (self._parameters | self._buffers).items() if name in kept}

    def keep(self, improved: Sequence[bool]) -> None:
        state = self.state()
        if not self._best:
            self._best = {name: value.clone() for name, value in state.items()}
        chosen = torch.tensor(improved, device=next(iter(state.values())).device)
        for name, value in state.items():
            shape = (-1, *(1,) * (value.ndim - 1))
            self._best[name] = torch.where(chosen.view(shape), value, self._best[name])

    def restore_best(self) -> None:
        for i, module in enumerate(self.modules):
            module.load_state_dict({name: value[i] for name, value in self._best.items()})
        self.train(False)

    @contextmanager
    def counted_dropout(self, seeds: Sequence[int]) -> Iterator[None]:
        with super().counted_dropout(seeds):
            self._stack()  # the layers that came in bring buffers of their own
            yield

    def tick(self) -> None:
        for buffer in self._passes():
            buffer += 1
        self.begin_pass()

    def _set_passes(self, steps: int) -> None:
        for buffer in self._passes():
            buffer.fill_(steps)

    def _passes(self) -> list[Tensor]:
        counted = [name for name, layer in self.modules[0].named_modules() if isinstance(layer, CountedDropout)]
        return [self._buffers[f"{name}.passes"] for name in counted]


def can_stack(modules: Sequence[nn.Module]) -> bool:
    """Whether modules are alike and of a kind that one batched network can stand for: no BatchNorm, few parameters."""
    first = modules[0]
    shapes = [[(name, value.shape) for name, value in module.state_dict().items()] for module in modules]
    alike = all(type(module) is type(first) for module in modules) and all(shape == shapes[0] for shape in shapes)
    normed = any(isinstance(layer, nn.modules.batchnorm._BatchNorm) for layer in first.modules())
    return alike and not normed and sum(p.numel() for p in first.parameters()) < 5_000_000
