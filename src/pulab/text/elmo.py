"""ELMo (Peters et al. 2018): a bidirectional language model over characters, in plain PyTorch.

The weights are those that AllenNLP published, in its HDF5 layout. They come from TensorFlow, which explains the order
of the gates and the forget bias.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pulab._torch import resolve_device
from pulab._validation import check_number
from pulab.datasets import Source, digest_of_file, fetch_all
from pulab.errors import DataFormatError, InputError, in_one_line
from pulab.text._base import Advance, Pool, TextEncoder
from pulab.text._cache import Vectors
from pulab.text._words import word_tokenize

# A token is its UTF-8 bytes between two marks, padded. All numbers are shifted by one, so that 0 means "no token".
BEGIN_WORD, END_WORD, PADDING, N_CHARACTERS = 258, 259, 260, 262
BEGIN_TEXT, END_TEXT = "<S>", "</S>"  # tokens around a text, each with a character of its own
MARKS = {BEGIN_TEXT: 256, END_TEXT: 257}

State = list[tuple[Tensor, Tensor]]  # hidden state and cell of each layer, of one direction
_PLACE = "elmo_2x4096_512_2048cnn_2xhighway_5.5B"
_URL = f"https://allennlp.s3.amazonaws.com/models/elmo/2x4096_512_2048cnn_2xhighway_5.5B/{_PLACE}"
ORIGINAL = {  # no checksums are published; shapes and values are checked when the files are read
    "options": Source(f"elmo/{_PLACE}_options.json", f"{_URL}_options.json", None),
    "weights": Source(f"elmo/{_PLACE}_weights.hdf5", f"{_URL}_weights.hdf5", None),
}


def character_ids(token: str, length: int = 50) -> list[int]:
    """The character numbers of a token."""
    inner = [MARKS[token]] if token in MARKS else list(token.encode("utf-8", "replace")[: length - 2])
    ids = [BEGIN_WORD, *inner, END_WORD]
    return [number + 1 for number in ids + [PADDING] * (length - len(ids))]


class CharacterCNN(nn.Module):
    """A token's vector from its characters: convolutions, maximum over places, highway layers, projection."""

    def __init__(self, options: dict[str, Any], n_out: int) -> None:
        super().__init__()
        dim, n_highway = _size("dim", options["embedding"]["dim"]), _size("n_highway", options["n_highway"], 0, 100)
        self.n_places = _size("max_characters_per_token", options["max_characters_per_token"], 3, 256)
        filters = [(_size("a filter's width", w, 1, self.n_places), _size("filters", n)) for w, n in options["filters"]]
        self.embedding = nn.Embedding(N_CHARACTERS, dim)
        self.convolutions = nn.ModuleList(nn.Conv1d(dim, n, width) for width, n in filters)
        n_filters = sum(n for _, n in filters)
        self.transforms = nn.ModuleList(nn.Linear(n_filters, n_filters) for _ in range(n_highway))
        self.carries = nn.ModuleList(nn.Linear(n_filters, n_filters) for _ in range(n_highway))
        self.projection = nn.Linear(n_filters, n_out)
        self._activation = {"relu": torch.relu, "tanh": torch.tanh}[options["activation"]]

    def forward(self, characters: Tensor) -> Tensor:
        """(n, characters) to (n, features)."""
        x = self.embedding(characters).transpose(1, 2)
        x = torch.cat([self._activation(convolve(x).amax(2)) for convolve in self.convolutions], dim=1)
        for transform, carry in zip(self.transforms, self.carries, strict=True):
            gate = torch.sigmoid(carry(x))
            x = gate * torch.relu(transform(x)) + (1 - gate) * x
        out: Tensor = self.projection(x)
        return out


class ProjectedLSTM(nn.Module):
    """An LSTM layer. Its output is a projection of its cell; both are clipped."""

    def __init__(self, n_in: int, n_cell: int, n_out: int, cell_clip: float, projection_clip: float) -> None:
        super().__init__()
        self.from_input = nn.Linear(n_in, 4 * n_cell)
        self.from_state = nn.Linear(n_out, 4 * n_cell, bias=False)
        self.projection = nn.Linear(n_cell, n_out, bias=False)
        self._cell_clip, self._projection_clip = cell_clip, projection_clip

    def start(self, n: int) -> tuple[Tensor, Tensor]:
        """The initial state of a text."""
        weight = self.projection.weight
        return weight.new_zeros(n, weight.shape[0]), weight.new_zeros(n, weight.shape[1])

    def forward(self, x: Tensor, lengths: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """(n, steps, features) and a state to outputs and a state. After its end a text's state stays unchanged."""
        hidden, cell = state
        from_input = self.from_input(x)
        outputs = []
        for step in range(x.shape[1]):
            write, new, forget, read = (from_input[:, step] + self.from_state(hidden)).chunk(4, dim=1)
            fresh = torch.sigmoid(write) * torch.tanh(new) + torch.sigmoid(forget) * cell
            fresh = fresh.clamp(-self._cell_clip, self._cell_clip)
            out = self.projection(torch.sigmoid(read) * torch.tanh(fresh))
            out = out.clamp(-self._projection_clip, self._projection_clip)
            there = (step < lengths)[:, None]
            hidden, cell = torch.where(there, out, hidden), torch.where(there, fresh, cell)
            outputs.append(out)
        return torch.stack(outputs, dim=1), (hidden, cell)


class BiLM(nn.Module):
    """The whole model: token vectors from characters, then a stack of layers for each direction.

    A layer of ELMo is the concatenation of the two directions.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__()
        cnn, lstm = options["char_cnn"], options["lstm"]
        width, n_cell = _size("projection_dim", lstm["projection_dim"]), _size("dim", lstm["dim"])
        self.n_out = width
        self.tokens = CharacterCNN(cnn, width)
        self.n_places = self.tokens.n_places
        clips = lstm["cell_clip"], lstm["proj_clip"]
        for name in ("cell_clip", "proj_clip"):
            check_number(name, lstm[name], low=0, ends="(]")
        n_layers = _size("n_layers", lstm["n_layers"], 1, 100)
        self.n_layers = 1 + n_layers  # with that of the tokens
        self.directions = nn.ModuleList(
            nn.ModuleList(ProjectedLSTM(width, n_cell, width, *clips) for _ in range(n_layers)) for _ in range(2)
        )
        self._skip = lstm["use_skip_connections"]
        if not isinstance(self._skip, bool):
            raise InputError(f"use_skip_connections must be true or false, got {self._skip!r}.")

    def run(self, direction: int, x: Tensor, lengths: Tensor, state: State | None = None) -> tuple[list[Tensor], State]:
        """Run token vectors through the layers of one direction, in the given order."""
        layers: Any = self.directions[direction]
        state = state or [layer.start(len(x)) for layer in layers]
        outputs: list[Tensor] = []
        after: State = []
        for i, layer in enumerate(layers):
            out, kept = layer(x, lengths, state[i])
            x = out + x if self._skip and i > 0 else out
            outputs.append(x)
            after.append(kept)
        return outputs, after


def _size(name: str, value: Any, low: int = 1, high: int = 1_000_000) -> int:
    """A whole number among the options. The bounds keep wrong values from filling the memory."""
    check_number(name, value, low=low, high=high, whole=True)
    return int(value)


@lru_cache(maxsize=1)
def load_bilm(options: Path, weights: Path, digests: tuple[str, ...] = (), device: str | torch.device = "cpu") -> BiLM:
    """The model of these files. If they do not fit together, one error says where.

    The last model is cached until its files' digests change: a caller may transform text by text.
    """
    try:
        with torch.device("meta"):  # no memory is allocated before the weights are known to fit
            model = BiLM(json.loads(options.read_text(encoding="utf-8")))
    except (OSError, LookupError, TypeError, ValueError, RuntimeError) as error:
        reason = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        raise DataFormatError(
            f"{options} does not describe an ELMo ({reason.rstrip('.')}). Pass the options that came with the weights."
        ) from error
    try:
        import h5py
    except ImportError as error:
        raise InputError("ElmoEncoder needs the package h5py. Run: pip install 'pulab[text]'.") from error
    cnn: Any = model.tokens
    beyond = [
        f"RNN_0/RNN/MultiRNNCell/Cell{model.n_layers - 1}",
        f"CNN_high_{len(cnn.transforms)}",
        f"CNN/W_cnn_{len(cnn.convolutions)}",
    ]
    try:
        with h5py.File(weights, "r") as file:
            if more := [name for name in beyond if name in file]:
                raise DataFormatError(
                    f"the options do not fit the weights: {weights} has {more[0]}, {options} does not ask for it."
                )
            for name, layer, parameter, value in _assignments(model, file):
                wanted = tuple(getattr(layer, parameter).shape)
                if value.shape != wanted:
                    raise DataFormatError(
                        f"the options do not fit the weights: {name} in {weights} gives {value.shape}, {options} asks "
                        f"for {wanted}."
                    )
                if not np.isfinite(value).all():
                    raise DataFormatError(f"{weights} is damaged: {name} holds values that are no numbers.")
                tensor = torch.from_numpy(np.array(value, order="C"))
                setattr(layer, parameter, nn.Parameter(tensor))
    except DataFormatError:
        raise
    except Exception as error:  # a damaged file can raise anything
        reason = in_one_line(error)
        raise DataFormatError(f"{weights} cannot be read as ELMo's weights ({reason}). Download them again.") from error
    return model.eval().to(device)


def _assignments(model: Any, file: Any) -> Iterator[tuple[str, Any, str, Any]]:
    """The parameter for each array. TensorFlow's matrices are input × output, ours output × input."""

    def array(name: str) -> Any:
        if name not in file:
            raise DataFormatError(f"the options do not fit the weights: there is no {name} in {file.filename}.")
        return np.asarray(file[name], dtype=np.float32)

    cnn = model.tokens
    no_token = np.zeros((1, cnn.embedding.embedding_dim), dtype=np.float32)
    characters = array("char_embed")
    fits = characters.shape[1:] == no_token.shape[1:]
    yield "char_embed", cnn.embedding, "weight", np.concatenate([no_token, characters]) if fits else characters
    for i, convolution in enumerate(cnn.convolutions):
        yield f"CNN/W_cnn_{i}", convolution, "weight", array(f"CNN/W_cnn_{i}")[0].transpose(2, 1, 0)
        yield f"CNN/b_cnn_{i}", convolution, "bias", array(f"CNN/b_cnn_{i}")
    dense = {f"CNN_high_{i}/{{}}_transform": layer for i, layer in enumerate(cnn.transforms)}
    dense |= {f"CNN_high_{i}/{{}}_carry": layer for i, layer in enumerate(cnn.carries)}
    dense |= {"CNN_proj/{}_proj": cnn.projection}
    for pattern, layer in dense.items():
        yield pattern.format("W"), layer, "weight", array(pattern.format("W")).T
        yield pattern.format("b"), layer, "bias", array(pattern.format("b"))
    for direction, layers in enumerate(model.directions):
        for i, layer in enumerate(layers):
            at = f"RNN_{direction}/RNN/MultiRNNCell/Cell{i}/LSTMCell"
            n_in, n_cell = layer.from_input.in_features, layer.projection.in_features
            matrix, forget_bias = array(f"{at}/W_0").T, np.zeros(4 * n_cell, dtype=np.float32)
            forget_bias[2 * n_cell : 3 * n_cell] = 1  # TensorFlow adds it at run time
            yield f"{at}/W_0", layer.from_input, "weight", matrix[:, :n_in]
            yield f"{at}/W_0", layer.from_state, "weight", matrix[:, n_in:]
            yield f"{at}/B", layer.from_input, "bias", array(f"{at}/B") + forget_bias
            yield f"{at}/W_P_0", layer.projection, "weight", array(f"{at}/W_P_0").T


def _file(name: str, path: str | Path) -> Path:
    if not isinstance(path, str | Path):
        raise InputError(f"{name} must be a path, got {path!r}.")
    path = Path(path).expanduser()
    if not path.is_file():
        raise InputError(f"{name} must be a file, got {path}, which is {'a folder' if path.is_dir() else 'not there'}.")
    return path


class ElmoEncoder(TextEncoder):
    """Document vectors by ELMo, as in the paper's experiment on texts.

    A document is split into words almost exactly like nltk's ``word_tokenize`` (``_words.py``) and read from a fresh
    state. Its vector holds the mean of each layer over the tokens, then the minimum, then the maximum: 9,216 numbers
    with the original model. Use a GPU: one CPU core reads about 200 tokens a second, which means hours for a corpus
    such as 20 Newsgroups.

    Parameters
    ----------
    options, weights : path or None
        The model's files, as AllenNLP published them. None: the original model of 5.5 billion tokens,
        ``elmo/elmo_2x4096_512_2048cnn_2xhighway_5.5B_{options.json,weights.hdf5}`` below ``$PULAB_DATA`` or the
        user's cache. Missing files are downloaded. A downloaded file must not change.
    tokens_at_once : int
        Number of tokens in memory at a time, over all texts of a batch. It limits the memory for documents of any
        length.
    device, cache, verbose
        As for :class:`SentenceEncoder`.

    Examples
    --------
    >>> from pulab.text import ElmoEncoder
    >>> ElmoEncoder().transform(["find tickets like this one"]).shape  # doctest: +SKIP
    (1, 9216)
    """

    options: str | Path | None = field(default=None, kw_only=False)
    weights: str | Path | None = field(default=None, kw_only=False)
    tokens_at_once: int = 2048
    device: str = "auto"

    @property
    def _n_features_out(self) -> int:
        model = self._model()
        return 3 * model.n_layers * 2 * model.n_out

    def _identity(self) -> str:
        self._model()
        return hashlib.sha256(json.dumps(["elmo", "words 1", *self._digests()]).encode()).hexdigest()[:24]

    def _digests(self) -> tuple[str, ...]:
        return tuple(map(digest_of_file, self._files()))

    def _files(self) -> tuple[Path, Path]:
        if (self.options is None) != (self.weights is None):
            raise InputError("options and weights must be passed together, got only one of them.")
        if self.options is None or self.weights is None:
            options, weights = fetch_all([ORIGINAL["options"], ORIGINAL["weights"]])
            return options, weights
        return _file("options", self.options), _file("weights", self.weights)

    def _model(self) -> BiLM:
        check_number("tokens_at_once", self.tokens_at_once, low=1, whole=True)
        return load_bilm(*self._files(), self._digests(), resolve_device(self.device))

    def _encode(self, texts: Sequence[str], advance: Advance) -> Iterator[tuple[list[int], Vectors]]:
        if not texts:
            return
        device = resolve_device(self.device)
        model = self._model()
        words = [word_tokenize(text) for text in texts]
        order = sorted(range(len(texts)), key=lambda i: -len(words[i]))  # similar lengths together: little padding
        advance(0, sum(2 * (len(line) + 2) for line in words))  # two directions, and marks at both ends
        while order:
            # Steps run one after another, so many texts at once are fast. A long text may form a batch alone.
            size = max(1, min(64, self.tokens_at_once // 8, 64 * self.tokens_at_once // (len(words[order[0]]) + 2)))
            batch, order = order[:size], order[size:]
            with torch.inference_mode():
                vectors = self._pooled(model, [words[i] for i in batch], device, advance)
            yield batch, vectors.float().cpu().numpy()

    def _pooled(self, model: BiLM, batch: Sequence[Sequence[str]], device: torch.device, advance: Advance) -> Tensor:
        """Vectors of some documents. Parts of the steps go through all layers, one direction after the other."""
        stretch = max(1, self.tokens_at_once // len(batch))
        pools: list[Pool] = []
        for direction in (0, 1):
            tokens = [[BEGIN_TEXT, *words, END_TEXT][:: 1 - 2 * direction] for words in batch]
            ends = torch.tensor([len(line) for line in tokens], device=device)
            pool, state = Pool(), None
            for start in range(0, max(map(len, tokens)), stretch):
                lines = [line[start : start + stretch] for line in tokens]
                x = _token_vectors(model, lines, device)
                layers, state = model.run(direction, x, ends - start, state)
                places = torch.arange(start, start + x.shape[1], device=device)
                pool.add(torch.stack([x, *layers], dim=2), (places >= 1) & (places < ends[:, None] - 1))
                advance(sum(map(len, lines)))
            pools.append(pool)
        # Ordered by statistic, then by layer, then by direction.
        return torch.stack([pool.result() for pool in pools], dim=3).flatten(1)


def _token_vectors(model: BiLM, lines: Sequence[Sequence[str]], device: torch.device) -> Tensor:
    """Context-free vectors of lines of tokens, zeros after the end of a line. Each token is computed once."""
    distinct: dict[str, int] = {}
    longest = max(map(len, lines))
    where = [[distinct.setdefault(token, len(distinct)) + 1 for token in line] for line in lines]
    index = torch.tensor([line + [0] * (longest - len(line)) for line in where], device=device)
    ids = torch.tensor([character_ids(token, model.n_places) for token in distinct], device=device)
    vectors: Tensor = model.tokens(ids)
    return torch.cat([vectors.new_zeros(1, vectors.shape[1]), vectors])[index]
