"""What a method adds to the loop: an objective. What it sees of a step: a batch."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from pulab.errors import InputError
from pulab.training.random_source import RandomSource
from pulab.training.ranks import whole

Inputs = Mapping[str, Tensor]


class Step(NamedTuple):
    """The result of a step. Both parts have a value per model.

    ``objective`` is differentiated. ``terms`` go into the history, as means over the rows of the epoch. They must hold
    "loss", the number that people watch, which may differ from ``objective``. All steps must have the same terms. The
    loop adds "positive_share" where the step has passed the stream "u" through the model.
    """

    objective: Tensor
    terms: Mapping[str, Tensor]


class Batch:
    """The rows of one step. Tensors have a line per model, then the rows: inputs ``(models, rows, …)``.

    Attributes
    ----------
    inputs : dict
        By stream ("p", "u", for PUbN also "n"): the rows as the network gets them, changed by ``augment`` if that is
        set.
    originals : dict
        By stream: the rows as they are, to make other views of them.
    positions : dict
        By stream: where these rows lie in their stream, to find what an objective keeps of each row.
    random : RandomSource
        Random numbers that depend on the model and the step alone. Use no others: a model must draw the same numbers
        alone, in a fleet, in a CUDA graph and after a resume.
    """

    def __init__(
        self,
        forward: Callable[[Tensor, bool], Tensor],
        originals: Inputs,
        inputs: Inputs,
        positions: Mapping[str, Tensor],
        random: RandomSource,
        counts: Mapping[str, Sequence[int]] | None = None,
        rank: int = 0,
    ) -> None:
        self._counts, self._rank = counts, rank
        self.originals, self.inputs, self.positions, self.random = originals, inputs, positions, random
        self.positive_share: Tensor | None = None
        self._forward = forward

    def whole(self, name: str, own: Tensor) -> Tensor:
        """Values of all rows of the batch, from those of the rows that ``positions`` names.

        They are the same, except where several processes train a model: there ``positions`` names the rows that are
        here, and logits are those of the whole batch.
        """
        if self._counts is None:
            return own
        if name not in self._counts:
            raise InputError(f"several processes pass streams of rows only, got {name!r}. Train in one process.")
        return whole(own, self._counts[name], self._rank)

    def own(self, name: str, values: Tensor) -> Tensor:
        """Of values of all rows of the batch, those of the rows that ``positions`` names."""
        if self._counts is None:
            return values
        start = sum(self._counts[name][: self._rank])
        return values[:, start : start + self._counts[name][self._rank]]

    def logits(self, inputs: Inputs | None = None, *, grad: bool = True, teacher: bool = False) -> dict[str, Tensor]:
        """Logits by stream, shape ``(models, rows)``, from one pass over all streams together.

        If the objective has a ``width``, vectors of shape ``(models, rows, width)``.

        Parameters
        ----------
        inputs : dict, optional
            Other inputs under names of your own: mixed rows, a second view. Default: the batch's inputs. Every call
            is a pass of its own. BatchNorm sees the rows of one call together. Dropout drops other units each time.
        grad : bool
            Whether the gradient flows back through this pass.
        teacher : bool
            Pass through the mean teacher, which never has a gradient. The objective must set ``teacher_decay``.
        """
        inputs = self.inputs if inputs is None else inputs
        x = torch.cat(list(inputs.values()), dim=1)
        with torch.set_grad_enabled(grad and not teacher):
            out = self._forward(x, teacher)
        parts = torch.split(out.to(x.dtype), [rows.shape[1] for rows in inputs.values()], dim=1)
        logits = {name: self.whole(name, part) for name, part in zip(inputs, parts, strict=True)}
        if self.positive_share is None and "u" in logits and out.ndim == 2 and not teacher:
            self.positive_share = torch.sigmoid(logits["u"].detach()).mean(-1)
        return logits


def pick(x: Tensor, index: Tensor) -> Tensor:
    """The rows of ``x`` at an index per model: from (models, n, …) and (models, m) to (models, m, …)."""
    return x[torch.arange(len(x), device=x.device)[:, None], index]


def mix(a: Tensor, b: Tensor, share: Tensor) -> Tensor:
    """``share · a + (1 − share) · b``, for shares of shape (models, 1) or (models, rows)."""
    share = share.view(*share.shape, *(1,) * (a.ndim - share.ndim))
    return share * a + (1 - share) * b


class Objective(ABC):
    """What a method adds to the loop. A method must write :meth:`step` and :meth:`validation_risk`.

    Models that are trained together go through one objective, so every tensor has a line per model: a batch's tensors,
    the numbers and the memory below, the results. Models whose objectives differ in any other attribute, such as the
    name of a loss, are never trained as one. Such attributes must not change in training.

    Parameters
    ----------
    **numbers : Tensor
        Hyper-parameters and other constants with a line per model, which may differ from model to model:
        ``task.numbers(prior=…)`` makes them, of shape (models,). They are in ``self.numbers``.

    Attributes
    ----------
    memory : dict of str to Tensor
        What the objective keeps from step to step, with a line per model. Put tensors here in ``__init__`` and change
        them in place. The loop gives them the device and the number type of the data, stacks them for fleets and saves
        them with the training.
    teacher_decay : float or None
        If set, the loop keeps a mean teacher: ``teacher = decay · teacher + (1 − decay) · model`` after every step, for
        weights and buffers. In the first steps it is the plain mean of all models so far, so that it does not lag. The
        teacher is the one that is validated and kept. It passes in training mode, as the model does.
    width : int or None
        None: the module gives a logit per row. A number: it gives a vector of this length, for self-supervision or for
        several logits. Steps and validation then get vectors.
    """

    teacher_decay: float | None = None
    width: int | None = None
    _stacked_otherwise: tuple[str, ...] = ()  # attributes that a method's own `stack` and `state_dict` see to

    def __init__(self, **numbers: Tensor) -> None:
        wrong = [name for name, value in numbers.items() if not isinstance(value, Tensor) or value.ndim == 0]
        if wrong:
            raise InputError(f"the number {wrong[0]!r} must be a tensor with a line per model. Use task.numbers(…).")
        self.numbers = numbers
        self.memory: dict[str, Tensor] = {}

    @property
    def kind(self) -> Hashable:
        """What objectives must have in common to be trained as one: all attributes but numbers and memory."""
        others = vars(self).keys() - {"numbers", "memory", *self._stacked_otherwise}
        values = ((name, vars(self)[name]) for name in sorted(others))
        return tuple((name, value if isinstance(value, Hashable) else id(value)) for name, value in values)

    def begin_epoch(self, epoch: int) -> None:  # noqa: B027  # a hook that may stay empty
        """Called before the first step of an epoch, and not again if it is resumed. Epochs count from 1."""

    @abstractmethod
    def step(self, batch: Batch) -> Step:
        """From a batch to its loss.

        On a GPU the step is recorded and replayed: no branch on data, no value read back, no random numbers but
        ``batch.random``'s.
        """

    def end_step(self, batch: Batch) -> None:  # noqa: B027
        """Called after the optimiser has moved the weights, as part of the recorded step."""

    def end_epoch(self, epoch: int) -> Mapping[str, Tensor]:
        """Called after the last step of an epoch. Returns further entries of the history, with a line per model.

        It is not recorded: here you may branch on values. Whole numbers are counts of rows: where several processes
        train a model, they are added up.
        """
        return {}

    @abstractmethod
    def validation_risk(self, g: Mapping[str, Tensor]) -> Tensor:
        """From the logits of the whole validation set, by stream, to a risk per model. The lowest epoch is kept."""

    def stack(self, others: Sequence[Self]) -> Self:
        """This objective and others of its kind as one for many models. None of them has begun to train."""

        def joined(parts: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
            return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}

        stacked = copy.copy(self)
        stacked.numbers = joined([self.numbers, *(other.numbers for other in others)])
        stacked.memory = joined([self.memory, *(other.memory for other in others)])
        return stacked

    def state_dict(self) -> dict[str, Any]:
        """Everything that must be kept to continue exactly."""
        return self.memory

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a kept state."""
        for name, value in self.memory.items():
            value.copy_(state[name])
