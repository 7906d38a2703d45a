"""Ways to turn a data set of texts into vectors, by name; run specs and rows carry the name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sklearn.preprocessing import StandardScaler

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


def encoded(texts: Split, features: str, device: str) -> Split:
    """The same split as vectors, standardised by the training documents."""
    encoder = FEATURES[features].make()
    if "device" in encoder.get_params():
        encoder.set_params(device=device)
    train = encoder.fit(texts.X_train).transform(texts.X_train)
    test = encoder.transform(texts.X_test)
    scaler = StandardScaler(copy=False).fit(train)
    return Split(scaler.transform(train), texts.y_train, scaler.transform(test), texts.y_test)
