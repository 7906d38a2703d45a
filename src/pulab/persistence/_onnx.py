"""Networks as ONNX files, to be used without pulab and torch."""

import copy
import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from pulab._files import whole_file
from pulab.errors import InputError, in_one_line

TOLERANCE = 1e-5


def export_onnx(model: Any, path: str | Path) -> Path:
    """Write a fitted network classifier as an ONNX file, for programs without pulab or torch.

    The input ``X`` has any number of rows. They are as ``predict`` takes them, in float64 for a table and in float32
    for images; the scaling of the features is a part of the file. The outputs, one number per row, are ``score``, that
    of ``decision_function``, and ``probability``, that of the positive class. They agree with the classifier to
    1e-5, and this is checked on some rows before the file is written. The file checks no input: NaN gives NaN.

    Parameters
    ----------
    model : network classifier of pulab, fitted
        A ``module`` of your own must compute the same for any number of rows. Trees and texts cannot be exported.
    path : path
        The file. One that is there is replaced, all or nothing.

    Examples
    --------
    >>> import pulab
    >>> clf = pulab.NNPUClassifier(prior=0.5, random_state=0).fit(X, s)  # doctest: +SKIP
    >>> pulab.export_onnx(clf, "model.onnx")  # doctest: +SKIP
    >>> session = onnxruntime.InferenceSession("model.onnx")  # doctest: +SKIP
    >>> score, probability = session.run(None, {"X": X})  # doctest: +SKIP
    """
    try:
        import onnx as onnx
        import onnxruntime as onnxruntime
    except ImportError as error:
        raise InputError(
            f"export_onnx needs onnx and onnxruntime, and {error.name} is missing. Run: pip install 'pulab[onnx]'."
        ) from None
    from sklearn.utils.validation import check_is_fitted

    from pulab.estimators._base import BasePUClassifier

    if not isinstance(model, BasePUClassifier):
        raise InputError(
            f"only a network classifier of pulab can be written as ONNX, got a {type(model).__name__}. "
            "Trees, pipelines and texts cannot: use pulab.save."
        )
    check_is_fitted(model, "module_")
    place = Path(path)
    if not place.parent.is_dir() or place.is_dir():
        raise InputError(f"the path must be a file in an existing folder, got {place}. Name another, or create it.")
    refusal = f"the module of this {type(model).__name__} cannot be written as ONNX"
    try:
        raw = _exported(model)
        difference = _difference(model, raw)
    except Exception as error:  # torch and onnxruntime raise many kinds
        raise InputError(f"{refusal}: {in_one_line(error)}. Use pulab.save.") from error
    if not difference <= TOLERANCE:
        raise InputError(f"{refusal}: the file's probabilities would differ by {difference:.2g}. Use pulab.save.")
    with whole_file(place) as file:
        file.write(raw)
    return place


def _exported(model: Any) -> bytes:
    import torch

    is_table = len(model.row_shape_) == 1
    module = copy.deepcopy(model.module_).cpu().eval()
    if model.scaler_ is not None:  # ours: tables are scored in float64, and runtimes have float64 for dense layers only
        module = module.double() if is_table else module.float()
    rows = torch.zeros(2, *model.row_shape_, dtype=torch.float64 if is_table else torch.float32)
    outputs = ["score", "probability"]
    file = io.BytesIO()
    with torch.no_grad(), warnings.catch_warnings():
        # This exporter is the older one: the newer needs two more packages, and both give the same for these nets.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            _scored(module, model.scaler_, model.calibration_, getattr(model, "threshold_", 0.0)),
            (rows,),
            file,  # type: ignore[arg-type]  # this exporter takes an open file
            dynamo=False,
            input_names=["X"],
            output_names=outputs,
            dynamic_axes={name: {0: "rows"} for name in ("X", *outputs)},
        )
    return file.getvalue()


def _scored(module: Any, scaler: Any, calibration: tuple[float, float] | None, threshold: float) -> Any:
    """The module behind its scaling, with both outputs. A score is calibrated, or the logit above a threshold."""
    import torch
    from torch import Tensor, nn

    dtype = next(module.parameters()).dtype

    class Scored(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            if scaler is not None:
                unit, center, scale = map(torch.from_numpy, (scaler.unit, scaler.center, scaler.scale))
                x = ((x.double() / unit - center) / scale).clamp(-scaler.LIMIT, scaler.LIMIT)
            score = self.module(x.to(dtype)).reshape(-1) - threshold
            if calibration is not None:
                slope, offset = calibration
                # asinh, which runtimes have for float32 alone.
                score = slope * score.sign() * (score.abs() + (score * score + 1).sqrt()).log() + offset
            return score, torch.sigmoid(score)

    return Scored().eval()


def _difference(model: Any, raw: bytes) -> float:
    """The largest difference between the probabilities of the classifier and of the file, for batches of two sizes.

    A module that branches on its rows, or fixes their number, is written as it ran for one batch.
    """
    import onnxruntime

    session = onnxruntime.InferenceSession(raw, providers=["CPUExecutionProvider"])
    dtype = np.float64 if len(model.row_shape_) == 1 else np.float32
    rng = np.random.default_rng(0)
    found = []
    for n in (1, 7):
        rows = rng.integers(0, 2, size=(n, *model.row_shape_)).astype(dtype)
        _, probability = session.run(None, {"X": rows})
        found.append(np.abs(probability - model.predict_proba(rows)[:, 1]).max())
    return float(np.max(found))
