"""One module behind the few calls that the loop needs. What it gives has a line per model, here one."""

import copy
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from pulab.nets import outputs
from pulab.training.dropout import CountedDropout, counted_dropout

_TORCHS_OWN = {*vars(nn.Module()), "training"}
_CONTAINERS = (dict, list, set, deque)


class Model:
    """One module: x of shape (1, n, …) to logits of shape (1, n). May have a mean teacher.

    With a ``width`` the module gives a vector per row, shape (1, n, width).
    """

    def __init__(self, modules: Sequence[nn.Module], width: int | None = None) -> None:
        self.modules, self.width = list(modules), width
        self.compiled: nn.Module | None = None  # replaces the module in training passes; or trains it with others
        self.teacher: dict[str, Tensor] = {}  # floating-point weights and buffers of the mean teacher, if there is one
        self._best: dict[str, Tensor] = {}
        self._dropouts: list[CountedDropout] = []  # of the module whose code runs
        self._channels_last = any(map(_is_channels_last, self.modules[0].parameters()))

    def __len__(self) -> int:
        return len(self.modules)

    def parameters(self) -> list[Tensor]:
        """The tensors that the optimiser changes."""
        return [p for p in self.modules[0].parameters() if p.requires_grad]

    def forward(self, x: Tensor, teacher: bool = False) -> Tensor:
        """Logits of each model, or of its teacher, for its own rows."""
        batch = x[0]
        if batch.ndim == 4 and self._channels_last:
            batch = batch.contiguous(memory_format=torch.channels_last)
        if teacher:
            return outputs(self._pass_teacher, batch, self.width)[None]
        module = self.modules[0]
        if self.compiled is not None and module.training:
            module = self.compiled
        return outputs(module, batch, self.width)[None]

    def _pass_teacher(self, batch: Tensor) -> Tensor:
        """Buffers are copies: the teacher's are the mean of the model's, and a pass must not change them."""
        buffers = {name: value.clone() for name, value in self.modules[0].named_buffers()}
        buffers |= {name: self.teacher[name].clone() for name in buffers if name in self.teacher}
        out: Tensor = functional_call(self.modules[0], self.teacher | buffers, (batch,))
        return out

    def compile(self) -> None:
        """Let torch fuse what it can of a training pass. The first pass then takes half a minute."""
        compiled: Any = torch.compile(self.modules[0], dynamic=False)
        self.compiled = compiled

    def train(self, mode: bool) -> None:
        """Training or evaluation mode."""
        for module in self.modules:
            module.train(mode)

    # Weights: as they stand, of the teacher, of the best epoch ----------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        """Weights and buffers as they stand, by name; also buffers that a module's own state_dict leaves out."""
        module = self.modules[0]
        return {name: value.detach() for name, value in (*module.named_parameters(), *module.named_buffers())}

    def start_teacher(self) -> None:
        """Keep a mean teacher from now on. It begins as a copy of the model."""
        self.teacher = {name: value.clone() for name, value in self.state().items() if value.is_floating_point()}

    @torch.no_grad()
    def move_teacher(self, share: Tensor) -> None:
        """Move the mean of weights and buffers by this share towards the model."""
        learned = {name for name, parameter in self.modules[0].named_parameters() if parameter.requires_grad}
        for name, current in self.state().items():
            mean = self.teacher.get(name)
            if not current.is_floating_point():
                continue
            if mean is None or mean.shape != current.shape:  # a buffer that the module makes or enlarges as it goes
                self.teacher[name] = current.clone()
            elif name in learned:
                mean.lerp_(current, share.to(mean.dtype))
            else:  # a mask may be infinite, and the difference of two infinities is not a number
                moved = mean.lerp(current, share.to(mean.dtype))
                mean.copy_(torch.where(mean == current, current, moved))

    def state_dict(self) -> dict[str, Any]:
        """Weights as they stand, those of the teacher and those of the best epoch."""
        return {"weights": self.state(), "teacher": self.teacher, "best": self._best}

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Any], steps: int) -> None:
        """Continue from a kept state, after this many steps."""
        self._put(state["weights"])
        device = self.parameters()[0].device
        self.teacher = {name: value.to(device) for name, value in state["teacher"].items()}
        self._best = {name: value.to(device) for name, value in state["best"].items()}
        for passes in self._passes():
            passes.fill_(steps)

    def keep(self, improved: Sequence[bool]) -> None:
        """Remember the weights of those models that have improved: the teacher's, where there is one."""
        if improved[0]:
            self._best = copy.deepcopy(self.state() | self.teacher)

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

    # Dropout ------------------------------------------------------------------------------------------------------

    @contextmanager
    def counted_dropout(self, seeds: Sequence[int]) -> Iterator[None]:
        """Within, dropout is a function of these seeds and the number of steps."""
        with ExitStack() as stack:
            pairs = zip(self.modules, seeds, strict=True)
            self._dropouts, *_ = [stack.enter_context(counted_dropout(module, seed)) for module, seed in pairs]
            yield

    def begin_step(self) -> None:
        """Nothing has been dropped yet in this step."""
        for layer in self._dropouts:
            layer.calls, layer.again = 0, False

    def begin_backward(self) -> None:
        """From here on checkpoints compute passes again. They must drop the same units as before."""
        for layer in self._dropouts:
            layer.again = True

    def end_step(self) -> None:
        """The next step drops other units."""
        for passes in self._passes():
            passes += 1

    def _passes(self) -> list[Tensor]:
        return [layer.passes for layer in self._dropouts]

    # For recordings: a module must keep nothing from pass to pass but in buffers, in place -------------------------

    def held(self) -> dict[str, Any]:
        """Everything that the module holds, by name; of containers a copy, to compare their content later."""
        return {
            f"{prefix}.{name}".removeprefix("."): copy.copy(value) if isinstance(value, _CONTAINERS) else value
            for prefix, layer in self.modules[0].named_modules()
            for name, value in (_attributes(layer) | layer._parameters | layer._buffers).items()
        }

    def changed_since(self, before: dict[str, Any]) -> list[str]:
        """The names of attributes, parameters and buffers that are not the objects they were."""

        def is_kept(old: Any, new: Any) -> bool:
            return new is old or (isinstance(new, _CONTAINERS) and _same(old, new))

        return [name for name, value in self.held().items() if not is_kept(before.get(name), value)]


def _attributes(layer: nn.Module) -> dict[str, Any]:
    """What a layer holds beside parameters, buffers and children: a rate, a stride, a function."""
    counts = {"calls", "again"} if isinstance(layer, CountedDropout) else set()
    return {name: value for name, value in vars(layer).items() if name not in _TORCHS_OWN | counts}


def _same(a: Any, b: Any) -> bool:
    try:
        return bool(a == b)
    except Exception:  # arrays, for example, do not compare to one value
        return False


def has_gradient_hooks(module: nn.Module) -> bool:
    """Whether somebody's hook sees a gradient before it is used."""
    return any(p._backward_hooks or p._post_accumulate_grad_hooks for p in module.parameters())


def use_channels_last(module: nn.Module, rows: Tensor) -> None:
    """Order a module's weights so that convolutions are 1.2 × faster on a CPU (more on a GPU), if the module can.

    A module that reshapes its rows by ``view`` cannot.
    """
    in_default_order = {p: p.data.contiguous() for p in module.parameters() if p.ndim == 4}
    for parameter in in_default_order:
        parameter.data = parameter.data.to(memory_format=torch.channels_last)  # `contiguous` ignores a single channel
    try:
        module(rows.contiguous(memory_format=torch.channels_last))
    except Exception:  # of any kind: in the default order the module has just run
        for parameter, values in in_default_order.items():
            parameter.data = values


def _is_channels_last(weights: Tensor) -> bool:
    """With one channel, or pixel, both orders are the same."""
    in_order = weights.ndim == 4 and weights.is_contiguous(memory_format=torch.channels_last)
    return in_order and not weights.is_contiguous()
