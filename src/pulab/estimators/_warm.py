"""Modules that a fit begins from: a copy of the caller's, or what a warm start takes over from the fit before."""

import copy
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import nn

from pulab._scaling import Scaler
from pulab._validation import AnyArray
from pulab.errors import InputError, in_one_line

MODULES = {"": "module_", "σ": "sigma_module_", "labelling": "labelling_module_"}  # by the stage of the training


@dataclass(frozen=True)
class FitBefore:
    """The networks of the last fit, by stage, and how it read its rows."""

    modules: dict[str, nn.Module]
    scaler: Scaler | None
    row_shape: tuple[int, ...]
    classes: AnyArray

    @classmethod
    def of(cls, estimator: Any) -> Self | None:
        """The last fit of an estimator that is to go on from it; None if it begins anew."""
        if not estimator.warm_start or not hasattr(estimator, "module_"):
            return None
        modules = {stage: getattr(estimator, name) for stage, name in MODULES.items() if hasattr(estimator, name)}
        return cls(modules, estimator.scaler_, estimator.row_shape_, estimator.classes_)

    def check(self, row_shape: tuple[int, ...], classes: AnyArray) -> None:
        """Refuse data of another kind."""
        for what, now, before in (
            ("rows of shape", tuple(row_shape), tuple(self.row_shape)),
            ("classes", classes.tolist(), self.classes.tolist()),
        ):
            if now != before:
                raise InputError(
                    f"warm_start goes on from the last fit, which had {what} {before}, but got {now}. "
                    "Pass data of the same kind, or warm_start=False."
                )

    def load(self, module: nn.Module, stage: str) -> None:
        """Give a new module the weights and buffers of the one before."""
        if stage not in self.modules:
            return
        try:
            module.load_state_dict(self.modules[stage].state_dict())
        except RuntimeError as error:
            raise InputError(
                f"warm_start needs the same network as in the last fit, but: {in_one_line(error)}. Pass the same "
                "module, or warm_start=False."
            ) from error


def copy_module(module: nn.Module) -> nn.Module:
    """A copy with the hooks on gradients, which ``deepcopy`` loses."""
    with torch.no_grad():  # otherwise the copied parameters of a scripted module belong to a graph
        copy_ = copy.deepcopy(module)
    for original, copied in zip(module.parameters(), copy_.parameters(), strict=True):
        for hook in (original._backward_hooks or {}).values():
            copied.requires_grad_().register_hook(hook)  # type: ignore[no-untyped-call]
        for hook in (original._post_accumulate_grad_hooks or {}).values():
            copied.requires_grad_().register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]
        if copied.requires_grad != original.requires_grad:
            copied.requires_grad_(original.requires_grad)
    return copy_
