"""ELMo against AllenNLP's results with the same weights, and against itself."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pulab.errors import DataFormatError, DataNotFoundError, InputError
from pulab.text import ElmoEncoder
from pulab.text._words import word_tokenize
from pulab.text.elmo import BEGIN_TEXT, END_TEXT, ORIGINAL, BiLM, _token_vectors, character_ids, load_bilm

h5py = pytest.importorskip("h5py")
REFERENCE = Path(__file__).parent / "elmo_reference"
OPTIONS, WEIGHTS = REFERENCE / "options.json", REFERENCE / "lm_weights.hdf5"


@pytest.fixture(scope="module")
def bilm() -> BiLM:
    return load_bilm(OPTIONS, WEIGHTS)


@torch.inference_mode()
def token_layers(bilm: BiLM, sentences: list[list[str]], states: list[Any]) -> list[torch.Tensor]:
    """(tokens, layers, features) of each sentence. The states of both directions are read and replaced."""
    sides = []
    for direction, step in ((0, 1), (1, -1)):
        lines = [[BEGIN_TEXT, *sentence, END_TEXT][::step] for sentence in sentences]
        x = _token_vectors(bilm, lines, torch.device("cpu"))
        layers, states[direction] = bilm.run(direction, x, torch.tensor(list(map(len, lines))), states[direction])
        ordered = [torch.stack([x, *layers], dim=2)[k, : len(line)] for k, line in enumerate(lines)]
        sides.append([vectors.flip(0) if direction else vectors for vectors in ordered])
    return [torch.cat(both, dim=2)[1:-1] for both in zip(*sides, strict=True)]


def test_token_vectors_are_allennlps(bilm: BiLM) -> None:
    words = (REFERENCE / "vocab_test.txt").read_text(encoding="utf-8").split("\n")
    with h5py.File(REFERENCE / "elmo_token_embeddings.hdf5") as file:
        expected = np.asarray(file["embedding"])
    with torch.inference_mode():
        vectors = bilm.tokens(torch.tensor([character_ids(word) for word in words])).numpy()
    assert vectors.shape == expected.shape
    assert np.abs(vectors - expected).max() < 2e-6


def test_layers_are_allennlps_with_states_carried_on(bilm: BiLM) -> None:
    lists = json.loads((REFERENCE / "sentences.json").read_text(encoding="utf-8"))
    files = [h5py.File(REFERENCE / f"lm_embeddings_{k}.hdf5") for k in range(3)]
    states, worst = [None, None], 0.0
    for i in range(10):
        sentences = [lists[k][i].split(" ") for k in range(3)]
        for k, vectors in enumerate(token_layers(bilm, sentences, states)):
            assert vectors.shape == (len(sentences[k]), 3, 32)
            expected = np.concatenate(list(np.asarray(files[k][str(i)])), axis=1)
            worst = max(worst, np.abs(vectors[:, 2].numpy() - expected).max())
    assert worst < 2e-6


TEXTS = [
    'From: someone@some.where\n\nDoesn\'t the U.S. like "ELMo"? It costs $3.88, they said.',
    "short",
    "",
    " ".join(f"word{i}" for i in range(300)),
    "\x00\x01 control \ud800 characters \U0001f600",
]


def test_a_documents_vector_is_the_mean_min_and_max_of_its_tokens_layers(bilm: BiLM) -> None:
    """The encoder works in parts and batches; the reference runs the module on one text at a time."""
    vectors = ElmoEncoder(OPTIONS, WEIGHTS, tokens_at_once=40, cache=False).fit_transform(TEXTS)
    assert vectors.shape == (5, 3 * 3 * 32)
    assert np.isfinite(vectors).all()
    for text, vector in zip(TEXTS, vectors, strict=True):
        words = word_tokenize(text)
        if not words:
            assert (vector == 0).all()
            continue
        tokens = token_layers(bilm, [words], [None, None])[0].flatten(1).numpy()
        expected = np.concatenate([tokens.mean(0), tokens.min(0), tokens.max(0)])
        assert np.abs(vector - expected).max() < 1e-5


def test_the_original_model_gives_9216_features() -> None:
    filters = [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]]
    options = json.loads(OPTIONS.read_text())
    options["char_cnn"] |= {"embedding": {"dim": 16}, "filters": filters}
    options["lstm"] |= {"dim": 4096, "projection_dim": 512}
    with torch.device("meta"):
        model = BiLM(options)
    assert 3 * model.n_layers * 2 * model.n_out == 9216
    assert round(sum(p.numel() for p in model.parameters()) / 1e6, 1) == 93.6  # as published


def test_one_huge_word_and_one_huge_text() -> None:
    encoder = ElmoEncoder(OPTIONS, WEIGHTS, cache=False)
    vectors = encoder.transform(["x" * 10**6, "a b " * 2000])
    assert np.isfinite(vectors).all()


def test_damaged_files_are_one_clear_error(tmp_path: Path) -> None:
    cut = tmp_path / "cut.hdf5"
    cut.write_bytes(WEIGHTS.read_bytes()[:200_000])
    with pytest.raises(DataFormatError, match="cannot be read as ELMo's weights"):
        ElmoEncoder(OPTIONS, cut).fit(["a"])
    other = tmp_path / "options.json"
    options = json.loads(OPTIONS.read_text())
    options["lstm"]["dim"] = 32
    other.write_text(json.dumps(options))
    with pytest.raises(DataFormatError, match="the options do not fit the weights: RNN_0"):
        ElmoEncoder(other, WEIGHTS).fit(["a"])
    other.write_text("{}")
    with pytest.raises(DataFormatError, match="does not describe an ELMo"):
        ElmoEncoder(other, WEIGHTS).fit(["a"])
    lacking = tmp_path / "lacking.hdf5"
    shutil.copy(WEIGHTS, lacking)
    with h5py.File(lacking, "a") as file:
        del file["CNN_proj/W_proj"]
    with pytest.raises(DataFormatError, match="W_proj"):
        ElmoEncoder(OPTIONS, lacking).fit(["a"])
    with h5py.File(lacking, "a") as file:
        file["CNN_proj/W_proj"] = np.full((124, 16), np.nan, dtype=np.float32)
    with pytest.raises(DataFormatError, match="no numbers"):
        ElmoEncoder(OPTIONS, lacking).fit(["a"])
    with pytest.raises(InputError, match="not there"):
        ElmoEncoder(OPTIONS, tmp_path / "nothing.hdf5").fit(["a"])
    with pytest.raises(InputError, match=r"weights must be a file, got .* a folder"):
        ElmoEncoder(OPTIONS, tmp_path).fit(["a"])
    with pytest.raises(InputError, match="options must be a path, got 3"):
        ElmoEncoder(3, 4).fit(["a"])
    with pytest.raises(InputError, match="together"):
        ElmoEncoder(OPTIONS).fit(["a"])


FILTERS = json.loads(OPTIONS.read_text())["char_cnn"]["filters"]


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("lstm", {"n_layers": 1}, r"has RNN_0/.*Cell1"),
        ("lstm", {"n_layers": 0}, "n_layers must be"),
        ("lstm", {"dim": 10**12}, "dim must be"),
        ("lstm", {"cell_clip": float("nan")}, "cell_clip must be"),
        ("lstm", {"proj_clip": -3}, "proj_clip must be"),
        ("lstm", {"use_skip_connections": "false"}, "use_skip_connections must be"),
        ("char_cnn", {"n_highway": 0}, "has CNN_high_0"),
        ("char_cnn", {"n_highway": 1}, "has CNN_high_1"),
        ("char_cnn", {"n_highway": -1}, "n_highway must be"),
        ("char_cnn", {"n_highway": 3}, "there is no CNN_high_2/W_transform"),
        ("char_cnn", {"filters": FILTERS[:-1]}, "has CNN/W_cnn_4"),
        ("char_cnn", {"max_characters_per_token": 3}, "a filter's width must be"),
        ("char_cnn", {"max_characters_per_token": 10**9}, "max_characters_per_token must be"),
    ],
)
def test_options_that_do_not_fit_are_refused(part: str, change: dict[str, Any], message: str, tmp_path: Path) -> None:
    options = json.loads(OPTIONS.read_text())
    options[part] |= change
    (tmp_path / "options.json").write_text(json.dumps(options))
    with pytest.raises(DataFormatError, match=f"(do not fit the weights|does not describe an ELMo).*{message}"):
        ElmoEncoder(tmp_path / "options.json", WEIGHTS).fit(["a"])


def test_weights_that_overflow_give_an_error_and_no_vectors(tmp_path: Path) -> None:
    """The weights are finite, but the vectors are not."""
    shutil.copyfile(WEIGHTS, tmp_path / "huge.hdf5")
    with h5py.File(tmp_path / "huge.hdf5", "a") as file:
        values = file["RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_0"]
        values[...] = 3e38 * np.sign(values[...])
    for _ in range(2):  # nothing was cached the first time
        with pytest.raises(DataFormatError, match="gives values that are no numbers"):
            ElmoEncoder(OPTIONS, tmp_path / "huge.hdf5", cache=tmp_path).transform(["some words", "a"])


def test_a_single_long_text_moves_the_bar() -> None:
    steps: list[int] = []
    totals: list[int] = []

    def advance(done: int, total: int | None = None) -> None:
        steps.append(done)
        totals.extend([] if total is None else [total])

    encoder = ElmoEncoder(OPTIONS, WEIGHTS, tokens_at_once=50, cache=False)
    list(encoder._encode(["word " * 300], advance))
    assert len(steps) > 10
    assert [sum(steps)] == totals == [2 * 302]


def test_files_in_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(REFERENCE))
    encoder = ElmoEncoder("~/options.json", "~/lm_weights.hdf5", cache=False)
    assert (encoder.transform(["a"]) == ElmoEncoder(OPTIONS, WEIGHTS, cache=False).transform(["a"])).all()


def test_without_the_original_weights_the_error_says_where_to_put_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PULAB_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name, source in ORIGINAL.items():
        monkeypatch.setitem(ORIGINAL, name, type(source)(source.path, "https://127.0.0.1:9/" + name, None))
    with pytest.raises(
        DataNotFoundError, match=r"looked in .*data/elmo, .*\(no connection\)\. Put the files"
    ) as caught:
        ElmoEncoder().fit(["a"])
    for source in ORIGINAL.values():
        assert str(caught.value).count(Path(source.path).name) == 2  # as a missing file, and as a file for PULAB_DATA
