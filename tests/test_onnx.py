"""ONNX files give what the classifier gives, for every network and batch size. What cannot be written is told."""

import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import pulab
from pulab.errors import InputError
from pulab.methods import METHODS
from pulab.nets import NETS

from .conftest import Blobs

onnxruntime = pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
pytest.importorskip("onnx", reason="the extra onnx is not installed")

BLOBS = Blobs("case-control")
NETWORKS = [key for key, method in METHODS.items() if method.is_network]


def fitted(key: str, X: Any = BLOBS.X, s: Any = BLOBS.s, **params: Any) -> Any:
    method = METHODS[key]
    params = {"epochs": 2, "random_state": 0} | ({"prior": BLOBS.prior} if method.needs_prior else {}) | params
    params |= {"rho": 0.2} if method.needs_negatives else {}
    given = {"X_negative": X[s == 0][:40]} if method.needs_negatives else {}
    return method.load()(**params).fit(X, s, **given)


def agrees(model: Any, X: Any, path: Path, batches: tuple[int, ...] = (1, 7, 1000)) -> None:
    assert pulab.export_onnx(model, path) == path
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for n in batches:
        rows = np.resize(X, (n, *X.shape[1:]))
        score, probability = session.run(None, {"X": rows})
        np.testing.assert_allclose(score, model.decision_function(rows), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(probability, model.predict_proba(rows)[:, 1], rtol=0, atol=1e-5)


@pytest.mark.parametrize("key", NETWORKS)
def test_every_method(key: str, tmp_path: Path) -> None:
    """On features of very different sizes: the scaling is a part of the file, with its cut of outliers."""
    X = BLOBS.X * [1e-9, 1, 1e9, 1e3, 1] + [0, 1e6, 0, 0, -5]
    model = fitted(key, X)
    far = np.vstack([X, X * 1e3])
    agrees(model, far, tmp_path / "model.onnx")


SHAPES = {"mlp": (6,), "preact-resnet-18": (3, 8, 8), "preact-resnet-18-bare": (3, 8, 8)}


@pytest.mark.parametrize("name", [*NETS, None])
def test_every_net(name: str | None, tmp_path: Path) -> None:
    """None: the default net for images, which are scaled."""
    shape = SHAPES.get(name or "", (1, 28, 28))
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(60, *shape)) * 50 + 100 if name is None else rng.normal(size=(60, *shape))).astype(np.float32)
    X = X.astype(np.float64) if len(shape) == 1 else X
    net = partial(NETS[name], *shape) if name == "mlp" else NETS.get(name or "")
    model = fitted("nnpu", X, (np.arange(60) < 20).astype(int), module=net, epochs=1)
    agrees(model, X, tmp_path / "model.onnx", (1, 7, 100 if "resnet" in str(name) else 1000))


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_other_number_types(dtype: str, tmp_path: Path) -> None:
    agrees(fitted("joint", dtype=dtype), BLOBS.X, tmp_path / "table.onnx")
    images = np.random.default_rng(0).normal(size=(60, 1, 8, 8)).astype(np.float32)
    s = (np.arange(60) < 20).astype(int)
    agrees(fitted("nnpu", images, s, dtype=dtype), images, tmp_path / "images.onnx")


class FixedRows(nn.Module):
    """Right in torch; but a recording keeps the number of rows, here as a factor."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(5, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dense(x) * float(len(x) > 1)


class Unknown(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(5, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dense(x) + torch.linalg.svdvals(x[:, :, None]).detach()


def test_what_cannot_be_written_is_told_and_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_text("old")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trees = pulab.ElkanNotoClassifier(prior=0.4).fit(BLOBS.X, BLOBS.s)
    for model, message in (
        (trees, "only a network classifier of pulab can be written as ONNX, got a ElkanNotoClassifier"),
        (fitted("nnpu", module=FixedRows), "probabilities would differ by"),
        (fitted("nnpu", module=Unknown), "cannot be written as ONNX"),
    ):
        with pytest.raises(InputError, match=message) as caught:
            pulab.export_onnx(model, path)
        assert "\n" not in str(caught.value)
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]
    assert path.read_text() == "old"
    with pytest.raises(InputError, match="a file in an existing folder"):
        pulab.export_onnx(fitted("nnpu"), tmp_path / "no" / "model.onnx")
    with pytest.raises(ValueError, match="not fitted"):
        pulab.export_onnx(pulab.NNPUClassifier(), path)


def test_without_the_extra_the_error_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(InputError, match=r"onnx is missing\. Run: pip install .pulab\[onnx\]"):
        pulab.export_onnx(fitted("nnpu"), tmp_path / "model.onnx")
