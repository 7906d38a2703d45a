"""A step as a CUDA graph: recorded once, then launched as one piece of work instead of hundreds."""

import gc
import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from pulab.errors import PulabWarning

Positions = dict[str, Tensor]
WARM_UP = 3  # libraries choose their kernels, and the optimiser makes its state, in the first steps


def warn_of_fallback(what: str, error: Exception) -> None:
    """Say that the slow way is taken, and why."""
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    warnings.warn(f"{what}: {reason}", PulabWarning, stacklevel=3)


class CapturedStep:
    """Calls a step function; from the fourth call with batches of a size on, replays a recording of it.

    The first calls are real steps too, so that nothing has to be undone. A step that cannot be recorded (a module that
    reads values back, say) goes on being called, with one warning.
    """

    def __init__(self, step: Callable[[Positions], Tensor]) -> None:
        self._step = step
        self._calls: dict[tuple[int, ...], int] = {}
        self._recordings: dict[tuple[int, ...], tuple[torch.cuda.CUDAGraph, Positions, Tensor]] = {}
        self._refused = False

    def __call__(self, positions: Positions) -> Tensor:
        key = tuple(rows.shape[1] for rows in positions.values())
        if key in self._recordings:
            graph, inputs, output = self._recordings[key]
            for name, rows in positions.items():
                inputs[name].copy_(rows)
            graph.replay()
            return output
        self._calls[key] = self._calls.get(key, 0) + 1
        if self._calls[key] > WARM_UP and not self._refused and self._record(key, positions):
            return self(positions)
        return self._step(positions)

    def _record(self, key: tuple[int, ...], positions: Positions) -> bool:
        inputs = {name: rows.clone() for name, rows in positions.items()}
        graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.current_stream()
        stream.synchronize()
        gc.collect()
        gc.disable()  # what the collector frees while a recording runs, a graph for one, spoils it
        try:
            with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
                output = self._step(inputs)
        except Exception as error:
            self._refused = True
            warn_of_fallback("steps are launched one by one, not as a CUDA graph", error)
            return False
        finally:
            gc.enable()
        self._recordings[key] = (graph, inputs, output)
        return True
