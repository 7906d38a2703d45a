"""One module or many of one architecture, behind the same few calls. Logits have a line per model."""

import copy
import math
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from pulab._torch import host_generators
from pulab.nets import logits
from pulab.training.dropout import CountedDropout, counted_dropout


class Model:
    """One module: x of shape (1, n, …) to logits of shape (1, n)."""

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self.modules = list(modules)
        self.compiled: nn.Module | None = None  # stands for the module in training
        self._best: dict[str, Tensor] = {}
        self._dropouts: list[CountedDropout] = []  # of the module whose code runs
        self._channels_last = any(map(_is_channels_last, self.modules[0].parameters()))

    def __len__(self) -> int:
        return len(self.modules)

    def parameters(self) -> list[Tensor]:
        """What the optimiser changes."""
        return [p for p in self.modules[0].parameters() if p.requires_grad]

    def forward(self, x: Tensor) -> Tensor:
        """Logits of each model for its own rows."""
        batch = x[0]
        if batch.ndim == 4 and self._channels_last:
            batch = batch.contiguous(memory_format=torch.channels_last)
        module = self.modules[0]
        if self.compiled is not None and module.training:
            module = self.compiled
        return logits(module, batch)[None]

    def compile(self) -> None:
        """Let torch fuse what it can of a training pass; the first one then takes half a minute."""
        compiled: Any = torch.compile(self.modules[0], dynamic=False)
        self.compiled = compiled

    def held(self) -> dict[str, Any]:
        """Everything that the module holds, by name: the same objects, unless a pass puts others in their place.

        Of containers a copy, to tell what a pass puts into them.
        """
        return {
            f"{prefix}.{name}".removeprefix("."): copy.copy(value) if isinstance(value, _CONTAINERS) else value
            for prefix, layer in self.modules[0].named_modules()
            for name, value in (_attributes(layer) | layer._parameters | layer._buffers).items()
        }

    def changed_since(self, before: dict[str, Any]) -> list[str]:
        """The names of what is not as it was held before."""

        def is_kept(old: Any, new: Any) -> bool:
            return new is old or (isinstance(new, _CONTAINERS) and _same(old, new))

        return [name for name, value in self.held().items() if not is_kept(before.get(name), value)]

    def train(self, mode: bool) -> None:
        """Training or evaluation mode."""
        for module in self.modules:
            module.train(mode)

    def state(self) -> dict[str, Tensor]:
        """Weights and buffers as they stand, by name; also buffers that a module's own state_dict leaves out."""
        module = self.modules[0]
        return {name: value.detach() for name, value in (*module.named_parameters(), *module.named_buffers())}

    def state_dict(self) -> dict[str, Any]:
        """Weights as they stand and as they were at their best."""
        return {"weights": self.state(), "best": self._best}

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Any], steps: int) -> None:
        """Go on from a kept state, after this many steps."""
        self._put(state["weights"])
        device = self.parameters()[0].device
        self._best = {name: value.to(device) for name, value in state["best"].items()}
        self._set_passes(steps)

    def keep(self, improved: Sequence[bool]) -> None:
        """Remember the weights of those models that have improved."""
        if improved[0]:
            self._best = copy.deepcopy(self.state())

    @torch.no_grad()
    def restore_best(self) -> None:
        """Give every module its best weights, where an epoch has ended, and leave it in evaluation mode."""
        self._put(self._best)
        self.train(False)

    def _put(self, values: dict[str, Tensor]) -> None:
        state, parameters = self.state(), dict(self.modules[0].named_parameters())
        for name, value in values.items():
            if name in parameters or (name in state and state[name].shape == value.shape):
                state[name].copy_(value)
            else:  # a buffer that the module makes or enlarges as it goes
                owner, _, own_name = name.rpartition(".")
                self.modules[0].get_submodule(owner)._buffers[own_name] = value.to(self.parameters()[0].device).clone()

    @contextmanager
    def counted_dropout(self, seeds: Sequence[int]) -> Iterator[None]:
        """Within, dropout is a function of these seeds and the number of ticks."""
        with ExitStack() as stack:
            pairs = zip(self.modules, seeds, strict=True)
            self._dropouts, *_ = [stack.enter_context(counted_dropout(module, seed)) for module, seed in pairs]
            yield

    def tick(self) -> None:
        """A step is over: the next pass drops other units."""
        for passes in self._passes():
            passes += 1

    def begin_pass(self) -> None:
        """Nothing has been dropped yet in this pass."""
        for layer in self._dropouts:
            layer.calls, layer.again = 0, False

    def begin_backward(self) -> None:
        """What is computed again from here on, by checkpoints, drops what it dropped before."""
        for layer in self._dropouts:
            layer.again = True

    def _set_passes(self, steps: int) -> None:
        for passes in self._passes():
            passes.fill_(steps)

    def _passes(self) -> list[Tensor]:
        return [layer.passes for layer in self._dropouts]


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
        return {name: value.detach() for name, value in self._parameters.items()}

    def _put(self, values: dict[str, Tensor]) -> None:
        for name, value in self.state().items():
            value.copy_(values[name])

    def keep(self, improved: Sequence[bool]) -> None:
        state = self.state()
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


# Which modules one batched network can stand for. All of them run through the code of the first, so that a difference
# that is overlooked here would train the wrong network: what cannot be compared counts as different.


def are_alike(a: nn.Module, b: nn.Module) -> bool:
    """Whether two modules that can be stacked differ in the values of their parameters only."""
    return _anatomy(a) == _anatomy(b) and _same(*([_attributes(layer) for layer in m.modules()] for m in (a, b)))


def can_stack(module: nn.Module) -> bool:
    """Whether a module is of a kind that can be batched: few parameters, each its own, and no buffers or hooks."""
    parameters = list(module.parameters())
    tied = len(list(module.named_parameters(remove_duplicate=False))) > len(parameters)
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    hooked = has_gradient_hooks(module) or any(getattr(layer, name) for layer in module.modules() for name in hooks)
    padded = any(getattr(layer, "padding_idx", None) is not None for layer in module.modules())  # vmap loses it
    small = sum(p.numel() for p in parameters) < 5_000_000
    return small and not tied and not hooked and not padded and not list(module.buffers())


def has_gradient_hooks(module: nn.Module) -> bool:
    """Whether a gradient passes through somebody's hands before it is used."""
    return any(p._backward_hooks or p._post_accumulate_grad_hooks for p in module.parameters())


def can_batch(module: nn.Module, rows: Tensor) -> bool:
    """Whether copies of a module can be trained and validated as one, tried on these rows, and leave nothing behind.

    It fails for a module that draws random numbers by itself, reads values back or branches on them, and leaves
    something behind where the module counts its passes, say. What comes out must be what each gives alone, and what it
    gives on a part of the rows: how many a validation takes at a time depends on the company.

    It is measured in float64. In float32, and TF32 all the more, rounding can switch a ReLU or what a pool takes, and
    gradients differ as if the network did. But the module's own type is tried, too, and has the last word where a
    module insists on it.
    """
    try:
        as_it_is = _batching_error(module, rows)
    except Exception:  # whatever it is that batching does not allow
        return False
    try:
        return _batching_error(copy.deepcopy(module).double(), rows.double()) < 1e-5 and as_it_is < math.inf
    except Exception:
        return as_it_is < (0.1 if rows.is_cuda else 0.01)


def _batching_error(module: nn.Module, rows: Tensor) -> float:
    """How far two copies of a module get from what they give alone; infinity where a pass leaves something behind."""
    copies = [copy.deepcopy(module) for _ in range(2)]
    with torch.no_grad():
        for parameter in copies[1].parameters():
            parameter.mul_(0.9)
    before, drawn = [copy.deepcopy(_attributes(layer)) for layer in copies[0].modules()], host_generators()
    alone = [_tried(Model([each]), rows[None])[0] for each in copies]
    together = _tried(StackedModel(copies), torch.stack([rows, rows]))
    unchanged = _same(before, [_attributes(layer) for layer in copies[0].modules()]) and host_generators() == drawn
    return float(np.max([*map(_distance, together, alone)])) if unchanged else math.inf


def _tried(model: Model, x: Tensor) -> list[list[Tensor]]:
    """What each model gives in evaluation, for half of the rows and for all, and its gradients."""
    with model.counted_dropout([0] * len(model)):
        model.train(False)
        with torch.no_grad():
            logits = [model.forward(x[:, : x.shape[1] // 2]), model.forward(x)]
        model.train(True)
        weights = torch.linspace(1, 2, x.shape[1], device=x.device, dtype=x.dtype)
        (model.forward(x) * weights).sum().backward()  # type: ignore[no-untyped-call]
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
    values = [*logits, *(gradient.reshape(len(model), -1) for gradient in gradients)]
    return [[value[i] for value in values] for i in range(len(model))]


def _distance(tried: Sequence[Tensor], alone: Sequence[Tensor]) -> float:
    """The largest difference among logits and gradients, each by its own measure, as AMSGrad does.

    Of a gradient that is zero in truth rounding is all there is: it is measured by a hundredth of the largest one.
    """
    half, whole, *gradients = tried
    pairs = [(whole[: len(half)], half), (half, alone[0]), (whole, alone[1]), *zip(gradients, alone[2:], strict=True)]
    least = 0.01 * max(float(gradient.abs().max()) for gradient in alone[2:])
    floors = [1e-30] * 3 + [max(least, 1e-30)] * len(gradients)
    distances = [
        float((a - b).abs().max()) / max(float(b.abs().max()), floor)
        for (a, b), floor in zip(pairs, floors, strict=True)
    ]
    return float(np.max(distances))  # Python's max may lose a NaN


_TORCHS_OWN = {*vars(nn.Module()), "training"}
_CONTAINERS = (dict, list, set, deque)


def _attributes(layer: nn.Module) -> dict[str, Any]:
    """What a layer is told apart by, beside its parameters, buffers and children: a rate, a stride, a function."""
    counts = {"calls", "again"} if isinstance(layer, CountedDropout) else set()
    return {name: value for name, value in vars(layer).items() if name not in _TORCHS_OWN | counts}


def _anatomy(module: nn.Module) -> list[Any]:
    first: dict[nn.Module, str] = {}  # where a layer is used that may be used once more
    named = list(module.named_modules(remove_duplicate=False))
    layers = [(name, type(layer), first.setdefault(layer, name)) for name, layer in named]
    return layers + [(name, p.shape, p.dtype, p.device, p.requires_grad) for name, p in module.named_parameters()]


def _same(a: Any, b: Any) -> bool:
    try:
        return bool(a == b)
    except Exception:  # arrays, say
        return False


def use_channels_last(module: nn.Module, rows: Tensor) -> None:
    """Put a module's weights in the order that makes convolutions 1.2 × faster on a CPU (more on a GPU), if it can.

    One that looks at its rows by ``view`` cannot.
    """
    in_default_order = {p: p.data.contiguous() for p in module.parameters() if p.ndim == 4}
    for parameter in in_default_order:
        parameter.data = parameter.data.to(memory_format=torch.channels_last)  # `contiguous` passes one channel by
    try:
        module(rows.contiguous(memory_format=torch.channels_last))
    except Exception:  # whatever it says: in the default order the module has just run
        for parameter, values in in_default_order.items():
            parameter.data = values


def _is_channels_last(weights: Tensor) -> bool:
    """With one channel, or pixel, both orders are the same."""
    in_order = weights.ndim == 4 and weights.is_contiguous(memory_format=torch.channels_last)
    return in_order and not weights.is_contiguous()
