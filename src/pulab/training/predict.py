"""Logits of many rows, a bounded number at a time."""

import math

import torch
from torch import Tensor, nn

from pulab._torch import autocast
from pulab.training.model import Model
from pulab.training.streams import Rows, Stream


def predict_stream(model: Model, stream: Stream, dtype: torch.dtype | None = None, teacher: bool = False) -> Tensor:
    """Logits of a whole stream, a line per model, a bounded number of rows at a time. The model's mode is kept."""
    device = stream.index.device
    if not len(stream):  # of a rank without such rows
        return torch.zeros((len(model), 0), dtype=stream.rows.dtype, device=device)
    numbers = 2**22 if device.type == "cuda" else 2**20  # of input; a GPU is slow on many small pieces
    at_once = min(max(64, numbers // max(1, len(model) * math.prod(stream.rows.shape[1:]))), 16384)
    # Not inference_mode: a tensor that a module keeps from such a pass could not be used in training.
    with torch.no_grad(), autocast(device, dtype):
        parts = [model.forward(stream[part], teacher) for part in torch.split(stream.positions(), at_once, dim=1)]
        return torch.cat(parts, dim=1).to(stream.rows.dtype)


def predict_logits(module: nn.Module, rows: Rows, index: Tensor | None = None) -> Tensor:
    """Logits of these rows (of all, without an index) in evaluation mode."""
    if index is None:
        index = torch.arange(len(rows), device=rows.device)
    was_training = module.training
    module.eval()
    out = predict_stream(Model([module]), Stream(rows, index[None]))[0]
    module.train(was_training)
    return out
