"""Base of all text encoders: validation of texts, cache, progress."""

import math
import sys
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import TransformerMixin
from torch import Tensor

from pulab._parameters import DeclaredParameters
from pulab._validation import check_number
from pulab.datasets import cache_folder
from pulab.errors import DataFormatError, InputError
from pulab.text._cache import VectorCache, Vectors

POOLINGS = ("mean", "min", "max")
PATIENCE = 2.0  # seconds before a progress bar appears on a terminal


class Advance(Protocol):
    """Called with the number of further tokens done, and once with their total."""

    def __call__(self, done: int, total: int | None = None) -> None: ...


def check_texts(X: Any) -> list[str]:
    """Texts as a list of strings. A missing text (None, NaN) counts as empty."""
    values = np.asarray(X, dtype=object)
    values = values[:, 0] if values.shape[1:] == (1,) else values  # a table of one column
    if values.ndim != 1:  # a single text, a set or a generator has no dimension
        got = f"an array of shape {values.shape}" if values.ndim else type(X).__name__
        raise InputError(f"texts must be a sequence of strings, got {got}. Pass a list, such as ['one', 'two'].")
    texts = []
    for position, value in enumerate(values):
        if value is None or (isinstance(value, float) and math.isnan(value)) or type(value).__name__ == "NAType":
            texts.append("")
        elif isinstance(value, str):
            texts.append(value.encode("utf-8", "replace").decode())  # tokenizers fail on half a surrogate pair
        else:
            raise InputError(
                f"texts must be strings, got {type(value).__name__} at position {position}. Convert it with str()."
            )
    return texts


class TextEncoder(TransformerMixin, DeclaredParameters):  # type: ignore[misc]  # scikit-learn is untyped
    """A scikit-learn transformer from texts to vectors. It computes no text twice."""

    cache: bool | str | Path = True
    verbose: int = 0

    @property
    @abstractmethod
    def _n_features_out(self) -> int:
        """The length of a vector; scikit-learn derives feature names from it."""

    @abstractmethod
    def _identity(self) -> str:
        """A name of the model and its settings. The name and a text determine the vector."""

    @abstractmethod
    def _encode(self, texts: Sequence[str], advance: Advance) -> Iterator[tuple[list[int], Vectors]]:
        """Positions and vectors of the texts, in batches, in any order."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the texts and the model. There is nothing to learn."""
        self._check(X)
        self._identity()
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """The vectors of the texts, one row each."""
        texts = self._check(X)
        known = self._vectors(list(dict.fromkeys(texts)))
        out = np.empty((len(texts), self._n_features_out), dtype=np.float32)
        for i, text in enumerate(texts):
            out[i] = known[text]
        return out

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the features, for scikit-learn's pipelines."""
        stem = type(self).__name__.removesuffix("Encoder").lower()
        return np.array([f"{stem}_{i}" for i in range(self._n_features_out)], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.requires_fit = False
        return tags

    def _check(self, X: Any) -> list[str]:
        """The texts as strings, after a check of the settings that all encoders share."""
        check_number("verbose", self.verbose, low=-1, whole=True)
        if not isinstance(self.cache, bool | np.bool_ | str | Path):
            raise InputError(f"cache must be True, False or a folder, got {self.cache!r}.")
        return check_texts(X)

    def _vectors(self, texts: Sequence[str]) -> dict[str, Vectors]:
        store = None
        known: dict[str, Vectors] = {}
        if self.cache:
            folder = Path(self.cache) if isinstance(self.cache, str | Path) else cache_folder() / "vectors"
            store = VectorCache(folder.expanduser(), self._identity())
            known = store.find(texts, self._n_features_out)
        left = [text for text in texts if text not in known]
        with self._progress(bool(left)) as advance:
            for positions, vectors in self._encode(left, advance):
                if not np.isfinite(vectors).all():
                    raise DataFormatError(
                        f"{' '.join(repr(self).split())} gives values that are no numbers: the model's weights are "
                        "damaged. Download them again."
                    )
                batch = [left[i] for i in positions]
                known |= dict(zip(batch, vectors, strict=True))
                if store is not None:
                    store.keep(batch, vectors)
        return known

    @contextmanager
    def _progress(self, any_left: bool) -> Iterator[Advance]:
        """A bar on stderr: at once if ``verbose`` is 1, else after a while, on a terminal."""
        if not any_left or not (self.verbose > 0 or (self.verbose == 0 and sys.stderr.isatty())):
            yield lambda done, total=None: None
            return
        from rich.console import Console
        from rich.progress import Progress

        bars = Progress(console=Console(stderr=True), transient=True)
        bar = bars.add_task("encoding", total=None)
        # By time, not by count: the time per text differs a hundredfold between encoders and texts.
        timer = Timer(PATIENCE, bars.start)
        timer.start()
        if self.verbose > 0:
            bars.start()
        try:
            yield lambda done, total=None: bars.update(bar, advance=done, total=total)
        finally:
            timer.cancel()
            timer.join()
            if bars.live.is_started:
                bars.stop()


class Pool:
    """Mean, minimum and maximum over the tokens of texts, which may arrive in several parts."""

    def __init__(self) -> None:
        self._parts: tuple[Tensor, Tensor, Tensor, Tensor] | None = None

    def add(self, values: Tensor, mask: Tensor) -> None:
        """Include the values (texts, tokens, layers, features) where the mask (texts, tokens) is true."""
        there = mask[..., None, None]
        total = values.masked_fill(~there, 0).sum(1, dtype=torch.float64)  # not times 0: infinity would become NaN
        low = values.masked_fill(~there, torch.inf).amin(1)
        high = values.masked_fill(~there, -torch.inf).amax(1)
        count = mask.sum(1)[:, None, None]
        if self._parts is not None:
            total, count = total + self._parts[0], count + self._parts[3]
            low, high = torch.minimum(low, self._parts[1]), torch.maximum(high, self._parts[2])
        self._parts = total, low, high, count

    def result(self) -> Tensor:
        """(texts, statistics, layers, features), in the order of POOLINGS; zeros for a text without tokens."""
        if self._parts is None:
            raise ValueError("nothing has been added")
        total, low, high, count = self._parts
        out = torch.stack([(total / count.clamp_min(1)).to(low.dtype), low, high], dim=1)
        return torch.where(count[:, None] > 0, out, 0.0)
