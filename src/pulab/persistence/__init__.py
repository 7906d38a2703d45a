"""Models on disk. Loading a model runs no code from its files.

A model is a folder. ``model.json`` describes it and holds the checksum of every other file. Arrays are in
``arrays.safetensors``, and trees in their library's own format. Parts fitted by scikit-learn and skrub are in skops
files, which may hold only types of a fixed list. There is no pickle and no fallback.
"""

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from pulab.errors import ModelFileError
from pulab.persistence._content import Content
from pulab.persistence._folder import DOCUMENT, check_folder, damage_is_told, read_folder, read_regular, write_folder
from pulab.persistence._onnx import export_onnx

__all__ = [
    "DOCUMENT",
    "Content",
    "check_folder",
    "check_scores",
    "damage_is_told",
    "export_onnx",
    "load_model",
    "read_folder",
    "read_regular",
    "save_model",
    "write_folder",
]


def save_model(model: Any, folder: str | Path) -> Path:
    """Save a fitted classifier to a folder. Either all files are written or none.

    Parameters
    ----------
    model : classifier of pulab, fitted
    folder : path
        A new folder, or the folder of a saved model, which is replaced.

    Examples
    --------
    >>> import tempfile
    >>> from pulab import ElkanNotoClassifier
    >>> from pulab.datasets import load_digits, make_pu
    >>> from pulab.persistence import load_model, save_model
    >>> digits = load_digits()
    >>> pu = make_pu(digits.X_train, digits.y_train, n_labeled=100, random_state=0)
    >>> clf = ElkanNotoClassifier(prior=pu.prior, random_state=0).fit(pu.X, pu.s)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     loaded = load_model(save_model(clf, f"{folder}/model"))
    >>> bool((loaded.predict_proba(digits.X_test) == clf.predict_proba(digits.X_test)).all())
    True
    """
    content = Content()
    document = {"kind": "classifier", "model": content.pack(model)}
    return write_folder(Path(folder), document, content)


def load_model(folder: str | Path, *, module: Any = None) -> Any:
    """Load the classifier in a folder. No code from its files is run.

    Parameters
    ----------
    folder : path
    module : nn.Module or function that makes one, optional
        The module of a network that was fitted with ``module=…``: the files hold its weights, not its code.
    """
    document, content = read_folder(Path(folder), "classifier")
    with damage_is_told(Path(folder)):
        model = content.unpack(document["model"], module)
        check_scores(model)
    return model


def check_scores(model: Any) -> None:
    """Refuse a model that cannot score a row of zeros: the contents of its files do not fit together."""
    if math.prod(model.row_shape_) > 2**26:
        raise ModelFileError(f"its rows have the shape {model.row_shape_}")
    rows = np.zeros((2, *model.row_shape_))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # scikit-learn's, of rows without the names of their columns
        shares, classes = np.asarray(model.predict_proba(rows)), model.predict(rows)
    prior = getattr(model, "prior_", None)  # some methods have none
    if len(classes) != 2 or not (prior is None or 0 < prior < 1):
        raise ModelFileError("its classes or its prior are invalid")
    if shares.shape != (2, len(model.classes_)) or not ((shares >= 0) & (shares <= 1)).all():
        raise ModelFileError(f"it gives probabilities such as {shares.ravel()[:2].tolist()}")
