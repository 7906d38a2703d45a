"""A step as a CUDA graph: recorded once, then launched as one piece of work instead of hundreds."""

import gc
from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

from pulab._torch import cuda_generator, host_generators
from pulab.errors import warn
from pulab.training.model import Model

Positions = dict[str, Tensor]
WARM_UP = 3  # steps in which libraries choose kernels and the optimiser makes its state

_warned: set[str] = set()


def warn_of_fallback(what: str, why: object) -> None:
    """Warn that a slower way is taken, and why: once per process for each reason."""
    reason = str(why).splitlines()[0] if str(why) else type(why).__name__
    message = f"{what}: {reason}"
    if message not in _warned:
        _warned.add(message)
        warn(message)


class CapturedStep:
    """Calls a step function. From the fourth call per batch size on, it replays a recording.

    The first calls are real steps too. They show whether the step can be recorded. It cannot if the module reads values
    back to the host, or if it keeps a state outside of its buffers: a recording would never see that state change. Such
    a step is called each time, with a warning. The check sees attributes and the content of lists, dicts and sets,
    nothing deeper.
    """

    def __init__(self, step: Callable[[Positions], Tensor], model: Model) -> None:
        self._step, self._model = step, model
        self._calls: dict[tuple[int, ...], int] = {}
        self._recordings: dict[tuple[int, ...], tuple[torch.cuda.CUDAGraph, Positions, Tensor]] = {}
        self._refused = False
        self._draws = False  # whether the step draws from the generator that all models of this GPU share

    _turns: ClassVar[dict[torch.device, torch.cuda.Event]] = {}  # the last replay on each GPU that drew random numbers

    def __call__(self, positions: Positions) -> Tensor:
        key = tuple(rows.shape[1] for rows in positions.values())
        if key in self._recordings:
            return self._replay(key, positions)
        self._calls[key] = self._calls.get(key, 0) + 1
        if self._refused:
            return self._step(positions)
        if self._calls[key] <= WARM_UP:
            return self._watched_step(positions)
        return self._replay(key, positions) if self._record(key, positions) else self._step(positions)

    def _replay(self, key: tuple[int, ...], positions: Positions) -> Tensor:
        graph, inputs, output = self._recordings[key]
        for name, rows in positions.items():
            inputs[name].copy_(rows)
        if not self._draws:
            graph.replay()
            return output
        # Recordings may share the memory of their seed. A replay overwrites it, so replays take turns.
        if output.device not in self._turns:
            self._turns[output.device] = torch.cuda.Event()  # type: ignore[no-untyped-call]
        turn = self._turns[output.device]
        torch.cuda.current_stream().wait_event(turn)
        graph.replay()
        turn.record()
        return output

    def _watched_step(self, positions: Positions) -> Tensor:
        generator = cuda_generator(positions["u"].device)
        drawn, drawn_on_host, before = generator.get_offset(), host_generators(), self._model.held()
        output = self._step(positions)
        self._draws |= generator.get_offset() != drawn
        if host_generators() != drawn_on_host:
            self._refuse("the step draws random numbers on the CPU")
        changed = self._model.changed_since(before)
        if changed:
            self._refuse(f"the module replaces its attribute {changed[0]}; keep a state in buffers, changed in place")
        return output

    def _record(self, key: tuple[int, ...], positions: Positions) -> bool:
        inputs = {name: rows.clone() for name, rows in positions.items()}
        graph = torch.cuda.CUDAGraph()
        collecting = gc.isenabled()
        gc.collect()
        gc.disable()  # memory that the collector frees during a recording, such as a graph, breaks it
        try:
            with torch.cuda.graph(graph, stream=torch.cuda.current_stream(), capture_error_mode="thread_local"):
                output = self._step(inputs)
        except Exception as error:
            self._refuse(error)
            _wake_generator(positions["u"].device)
            return False
        finally:
            if collecting:
                gc.enable()
        self._recordings[key] = (graph, inputs, output)
        return True

    def _refuse(self, why: object) -> None:
        self._refused = True
        warn_of_fallback("steps are launched one by one, not as a CUDA graph", why)


def _wake_generator(device: torch.device) -> None:
    """After a failed recording torch's generator may stay in recording mode. A recording that succeeds ends it."""
    probe, graph = torch.zeros(1, device=device), torch.cuda.CUDAGraph()
    torch.cuda.synchronize(device)
    graph.capture_begin(capture_error_mode="thread_local")  # torch.cuda.graph would empty a cache that is in use
    probe += 1
    graph.capture_end()
