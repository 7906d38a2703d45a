"""Ways to turn a data set of texts into vectors, by name; run specs and rows carry the name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pulab.datasets import Split


@dataclass(frozen=True)
class Features:
    """An encoder by name: how to make it, and how long its vectors are."""

    make: Callable[[], Any]
    n_features: int
    summary: str


def _elmo() -> Any:
    from pulab.text import ElmoEncoder

    return ElmoEncoder()


def _minilm() -> Any:
    from pulab.text import SentenceEncoder

    return SentenceEncoder("all-MiniLM-L6-v2", layers=(-3, -2, -1), pooling=("mean", "min", "max"))


def _minilm_mean() -> Any:
    from pulab.text import SentenceEncoder

    return SentenceEncoder("all-MiniLM-L6-v2", layers=(-1,), pooling=("mean",))


def _tfidf() -> Any:
    from pulab.text import TfidfEncoder

    return TfidfEncoder(300)


FEATURES = {
    "elmo": Features(_elmo, 9216, "the paper's: ELMo 5.5B, three layers, mean, min and max over the tokens"),
    "minilm": Features(_minilm, 3456, "all-MiniLM-L6-v2, its last three layers, mean, min and max over the tokens"),
    "minilm-mean": Features(_minilm_mean, 384, "all-MiniLM-L6-v2, its last layer, mean over the tokens"),
    "tfidf": Features(_tfidf, 300, "TF-IDF, reduced by singular value decomposition"),
}


def encoded(texts: Split, features: str) -> Split:
    """The same split as vectors, standardised by the training documents."""
    encoder = FEATURES[features].make().fit(texts.X_train)
    train, test = encoder.transform(texts.X_train), encoder.transform(texts.X_test)
    center = train.mean(axis=0, dtype=np.float64)
    scale = train.std(axis=0, dtype=np.float64)
    scale[scale == 0] = 1
    standard = [((X - center) / scale).astype(np.float32) for X in (train, test)]
    return Split(standard[0], texts.y_train, standard[1], texts.y_test)
