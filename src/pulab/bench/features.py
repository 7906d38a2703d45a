"""Encodings of text data sets, by name. Run specs and result rows carry the name."""

from dataclasses import dataclass, field
from typing import Any

from sklearn.preprocessing import StandardScaler

from pulab.datasets import Split


@dataclass(frozen=True)
class TextEncoding:
    """A class of :mod:`pulab.text` with its parameters, and the length of its vectors."""

    encoder: str
    n_features: int
    summary: str
    params: dict[str, Any] = field(default_factory=dict)

    def make(self) -> Any:
        """The encoder. Its module loads torch, so it is imported here."""
        from pulab import text

        return getattr(text, self.encoder)(**self.params)


FEATURES = {
    "elmo": TextEncoding(
        "ElmoEncoder", 9216, "the paper's: ELMo 5.5B, three layers, mean, min and max over the tokens"
    ),
    "minilm": TextEncoding(
        "SentenceEncoder",
        3456,
        "all-MiniLM-L6-v2, its last three layers, mean, min and max over the tokens",
        {"layers": (-3, -2, -1), "pooling": ("mean", "min", "max")},
    ),
    "minilm-mean": TextEncoding(
        "SentenceEncoder",
        384,
        "all-MiniLM-L6-v2, its last layer, mean over the tokens",
        {"layers": (-1,), "pooling": ("mean",)},
    ),
    "mpnet": TextEncoding(
        "SentenceEncoder",
        768,
        "all-mpnet-base-v2 in bfloat16, its last layer, mean over the tokens",
        {"model": "all-mpnet-base-v2", "layers": (-1,), "pooling": ("mean",), "dtype": "bfloat16"},
    ),
    "tfidf": TextEncoding(
        "TfidfEncoder", 300, "TF-IDF, reduced by singular value decomposition", {"n_components": 300}
    ),
}


def encoded(texts: Split, features: str, device: str) -> Split:
    """The split as vectors, standardised by the training documents."""
    encoder = FEATURES[features].make()
    if "device" in encoder.get_params():
        encoder.set_params(device=device)
    train = encoder.fit(texts.X_train).transform(texts.X_train)
    test = encoder.transform(texts.X_test)
    scaler = StandardScaler(copy=False).fit(train)
    return Split(scaler.transform(train), texts.y_train, scaler.transform(test), texts.y_test)
