"""Encoders: vectors, bad texts, the cache, pipelines. The Hugging Face model is a tiny random one."""

import io
import json
import multiprocessing
import shutil
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from pulab import JointPUClassifier, NNPUClassifier, PulabWarning
from pulab.errors import DataFormatError, DataNotFoundError, InputError
from pulab.text import ElmoEncoder, SentenceEncoder, TfidfEncoder
from pulab.text._cache import VectorCache

pytest.importorskip("transformers")
pytest.importorskip("h5py")
REFERENCE = Path(__file__).parent / "elmo_reference"
WORDS = ["the", "disk", "is", "full", "slow", "a", "game", "of", "chess", "king", "queen", "printer", "driver"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of two layers and 8 features, with a vocabulary of single words."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("model")
    vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    ).save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    BertModel(BertConfig(vocab_size=len(vocabulary), max_position_embeddings=32, **sizes)).save_pretrained(folder)
    return folder


def encoders(model: Path, **shared: Any) -> list[Any]:
    return [
        ElmoEncoder(REFERENCE / "options.json", REFERENCE / "lm_weights.hdf5", **shared),
        SentenceEncoder(model, layers=(-2, -1), **shared),
        TfidfEncoder(4, min_df=1, **shared),
    ]


def test_a_vector_is_the_layers_of_its_own_tokens_pooled(model: Path) -> None:
    """The reference is transformers itself, text by text, without padding."""
    from transformers import AutoModel, AutoTokenizer

    texts = ["the disk is full", "chess", "", "a game of chess " * 20]
    vectors = SentenceEncoder(model, layers=(-1, 0), tokens_at_once=40, cache=False).transform(texts)
    tokenizer, bert = AutoTokenizer.from_pretrained(model), AutoModel.from_pretrained(model).eval()
    for text, vector in zip(texts, vectors, strict=True):
        tokens = tokenizer(text, truncation=True, max_length=32, return_tensors="pt")
        with torch.inference_mode():
            hidden = bert(**tokens, output_hidden_states=True).hidden_states
        tokens = torch.cat([hidden[-1][0], hidden[0][0]], dim=1).numpy()
        assert np.allclose(vector, np.concatenate([tokens.mean(0), tokens.min(0), tokens.max(0)]), atol=1e-6)


ODD = [
    "the disk is full",
    "",
    None,
    float("nan"),
    "\x00\x07",
    "\ud800 lone",
    "king " * 1500,
    "\U0001f600",
    "the disk is full",
]


def test_odd_texts_give_numbers_and_the_same_text_the_same_vector(model: Path) -> None:
    for encoder in encoders(model, cache=False):
        vectors = encoder.fit_transform(ODD)
        assert vectors.dtype == np.float32
        assert vectors.shape == (len(ODD), len(encoder.get_feature_names_out()))
        assert np.isfinite(vectors).all()
        assert (vectors[0] == vectors[-1]).all()
        assert (vectors[1] == vectors[2]).all()
        assert encoder.transform([]).shape == (0, vectors.shape[1])
        for same in (pd.Series(ODD[:2]), np.array(ODD[:2]), pd.DataFrame({"text": ODD[:2]}), tuple(ODD[:2])):
            assert np.allclose(encoder.transform(same), vectors[:2], atol=1e-5)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("one text", "got str. Pass a list"),
        (["a", 3], "got int at position 1"),
        ([b"bytes"], "got bytes at position 0"),
        (np.array([["a", "b"]], dtype=object), r"got an array of shape \(1, 2\)"),
        (7, "a sequence of strings"),
        (None, "got NoneType. Pass a list"),
        ((text for text in "ab"), "got generator. Pass a list"),
        ({"a"}, "got set. Pass a list"),
    ],
)
def test_other_inputs_than_texts_are_refused(texts: Any, message: str, model: Path) -> None:
    for encoder in encoders(model, cache=False):
        with pytest.raises(InputError, match=message):
            encoder.fit(texts)


def _record(monkeypatch: pytest.MonkeyPatch, encoder: Any, computed: list[str]) -> None:
    encode = encoder._encode

    def spied(texts: list[str], advance: Any) -> Any:
        computed.extend(texts)
        return encode(texts, advance)

    monkeypatch.setattr(encoder, "_encode", spied)


def test_no_text_is_computed_twice(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["the disk is full", "a game of chess", "slow printer driver", "king queen"]
    for encoder in encoders(model, cache=tmp_path / "vectors"):
        first = encoder.fit_transform(texts[:3])
        computed: list[str] = []
        _record(monkeypatch, encoder, computed)
        assert (encoder.transform(texts)[:3] == first).all()
        assert computed == texts[3:]
    assert len(list((tmp_path / "vectors").glob("*.sqlite"))) == 3
    other = SentenceEncoder(model, layers=(-1,), cache=tmp_path / "vectors")
    assert other.transform(texts).shape == (4, 24)  # other settings, other vectors


def test_a_model_in_bfloat16_gives_nearly_the_same_vectors(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["the disk is full", "a game of chess"]
    exact = SentenceEncoder(model, cache=tmp_path).transform(texts)
    monkeypatch.setattr("pulab._torch._cpu_has_bfloat16", lambda: True)
    half = SentenceEncoder(model, dtype="bfloat16", cache=tmp_path).transform(texts)
    assert half.dtype == np.float32
    assert 0 < np.linalg.norm(half - exact) / np.linalg.norm(exact) < 0.03
    assert len(list(tmp_path.glob("*.sqlite"))) == 2  # never mixed in a cache
    monkeypatch.setattr("pulab._torch._cpu_has_bfloat16", lambda: False)
    assert (SentenceEncoder(model, dtype="bfloat16", cache=tmp_path).transform(texts) == exact).all()
    with pytest.raises(InputError, match="dtype must be one of"):
        SentenceEncoder(model, dtype="int8").fit(["a"])


def _write(folder: Path, start: int) -> None:
    for i in range(40):
        VectorCache(folder, "shared").keep([f"text {start + i}"], np.full((1, 3), start + i, dtype=np.float32))


def test_processes_share_a_cache(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_write, args=(tmp_path, start)) for start in (0, 20)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    cached = VectorCache(tmp_path, "shared").find([f"text {i}" for i in range(60)], length=3)
    assert not VectorCache(tmp_path, "shared").find(["text 1"], length=4)  # of another length: computed again
    VectorCache(tmp_path, "shared").keep(["no numbers"], np.full((1, 3), np.nan, dtype=np.float32))
    assert not VectorCache(tmp_path, "shared").find(["no numbers"], length=3)  # not finite: computed again
    assert [cached[f"text {i}"][0] for i in range(60)] == list(range(60))


def test_a_damaged_cache_is_not_used(model: Path, tmp_path: Path) -> None:
    encoder = SentenceEncoder(model, cache=tmp_path)
    fresh = encoder.transform(["chess"])
    (path,) = tmp_path.glob("*.sqlite")
    path.write_bytes(b"this is no database" * 100)
    with pytest.warns(PulabWarning, match="cannot be used"):
        assert (encoder.transform(["chess"]) == fresh).all()
    with pytest.raises(sqlite3.DatabaseError):
        sqlite3.connect(path).execute("SELECT 1 FROM vectors")


def test_in_a_pipeline_before_a_classifier(model: Path) -> None:
    rng = np.random.default_rng(0)
    topics = [WORDS[:5], WORDS[5:10]]
    truth = rng.integers(0, 2, 200)
    texts = [" ".join(rng.choice(topics[y], 6)) for y in truth]
    s = truth * (rng.random(200) < 0.5)
    for encoder in encoders(model, cache=False):
        classifier = NNPUClassifier(prior=0.5, epochs=20, device="cpu", random_state=0, scenario="single-sample")
        fitted = clone(make_pipeline(encoder, classifier)).fit(texts, s)
        assert fitted.score(texts, truth) > 0.9


def test_bad_models_are_one_clear_error(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="layers must name"):
        SentenceEncoder(model, layers=(7,)).fit(["a"])
    with pytest.raises(InputError, match="pooling must be one of"):
        SentenceEncoder(model, pooling=("median",)).fit(["a"])
    with pytest.raises(DataFormatError, match="holds no model"):
        SentenceEncoder(tmp_path).fit(["a"])
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((model / name).read_bytes())
    (tmp_path / "model.safetensors").write_bytes((model / "model.safetensors").read_bytes()[:300])
    with pytest.raises(DataFormatError, match="cannot be used"):
        SentenceEncoder(tmp_path, cache=False).fit(["a"])
    weights = load_file(model / "model.safetensors")
    name = next(name for name in weights if "layer.1" in name)
    for damaged, message in (
        ({k: v for k, v in weights.items() if k != name}, "the weights lack encoder.layer.1"),
        (weights | {name: weights[name] * torch.nan}, "the model's weights are damaged"),
    ):
        save_file(damaged, tmp_path / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(DataFormatError, match=message):
            SentenceEncoder(tmp_path, cache=False).transform(["a"])
    for layers in (-1, None, (1.5,), "ab"):
        with pytest.raises(InputError, match="layers must be"):
            SentenceEncoder(model, layers=layers).fit(["a"])
    for pooling in ("mean", None):
        with pytest.raises(InputError, match="pooling must be a sequence"):
            SentenceEncoder(model, pooling=pooling).fit(["a"])
    with pytest.raises(InputError, match="device must be"):
        SentenceEncoder(model, device="tpu").fit(["a"])
    numpys = SentenceEncoder(model, layers=np.array([-1]), max_tokens=np.int64(8), cache=False)
    assert numpys.fit_transform(["chess"]).shape == (1, 24)
    (tmp_path / "config.json").write_text(json.dumps({"hidden_size": "many"}))
    with pytest.raises(DataFormatError, match="holds no model"):
        SentenceEncoder(tmp_path).fit(["a"])
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(DataNotFoundError, match="is not on this machine"):
        SentenceEncoder("no-such-model").fit(["a"])


def _copy(model: Path, to: Path) -> Path:
    return Path(shutil.copytree(model, to))


def test_a_model_whose_parts_do_not_fit_is_refused(model: Path, tmp_path: Path) -> None:
    config = json.loads((model / "config.json").read_text())
    for change, message in (({"num_hidden_layers": 1}, "it has 1 layers, they have"), ({"vocab_size": 3}, r"\(3, 8\)")):
        folder = _copy(model, tmp_path / "-".join(change))
        (folder / "config.json").write_text(json.dumps(config | change))
        with pytest.raises(DataFormatError, match=f"config.json does not fit the weights: .*{message}"):
            SentenceEncoder(folder, layers=(-1,), cache=False).fit(["a"])
    binary = _copy(model, tmp_path / "binary")
    (binary / "model.safetensors").rename(binary / "pytorch_model.bin")
    with pytest.raises(DataFormatError, match=r"holds no \*\.safetensors, and weights in other formats are not read"):
        SentenceEncoder(binary, cache=False).fit(["a"])


def test_a_folder_without_its_tokenizer_is_refused(model: Path, tmp_path: Path) -> None:
    """Without files transformers makes a tokenizer of five words."""
    from transformers import BertConfig, BertModel

    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    BertModel(BertConfig(vocab_size=100, **sizes)).save_pretrained(tmp_path)
    with pytest.raises(DataFormatError, match="its tokenizer has 5 words of 100"):
        SentenceEncoder(tmp_path, cache=False).fit(["a"])
    wide = _copy(model, tmp_path / "other")  # a tokenizer with words that the model does not know
    for name in ("config.json", "model.safetensors"):
        shutil.copy(tmp_path / name, wide)
    tokenizer = json.loads((wide / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"] |= {f"word{i}": 100 + i for i in range(50)}
    (wide / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(DataFormatError, match="is another model's"):
        SentenceEncoder(wide, layers=(-1,), cache=False).transform(["word7"])


def test_weights_that_overflow_give_an_error_and_no_vectors(model: Path, tmp_path: Path) -> None:
    folder = _copy(model, tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    weights["encoder.layer.0.output.dense.weight"] = torch.full((8, 16), 3e38)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    for _ in range(2):
        with pytest.raises(DataFormatError, match=r"SentenceEncoder\(.*gives values that are no numbers"):
            SentenceEncoder(folder, layers=(-1,), cache=tmp_path / "vectors").transform(["chess"])


def test_control_tokens_in_a_text_are_words_like_others(model: Path) -> None:
    """None of their pieces is in this vocabulary, so each is an unknown word."""
    encoder = SentenceEncoder(model, cache=False)
    marked, plain = encoder.transform(["[SEP] king", "x y z king"])  # "[", "SEP", "]"
    assert np.allclose(marked, plain, atol=1e-6)


def test_bad_settings_are_refused(model: Path) -> None:
    for encoder in encoders(model):
        for name, bad in (("cache", 5), ("cache", None), ("verbose", "x")):
            with pytest.raises(InputError, match=f"{name} must be"):
                clone(encoder).set_params(**{name: bad}).fit(["some words"])
    for bad in (None, ""):
        with pytest.raises(InputError, match="model must be a name or a folder"):
            SentenceEncoder(bad).fit(["a"])


def test_a_cache_in_the_home_folder(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    SentenceEncoder(model, cache="~/kept").transform(["a"])
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_the_bar_appears_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for verbose, patience, shown in ((0, 0.01, True), (0, 60, False), (1, 60, True), (-1, 0.01, False)):
        monkeypatch.setattr("pulab.text._base.PATIENCE", patience)
        monkeypatch.setattr(sys, "stderr", Terminal())
        with TfidfEncoder(verbose=verbose)._progress(True) as advance:
            advance(0, 4)
            time.sleep(0.2)
            advance(4)
        assert ("encoding" in sys.stderr.getvalue()) == shown


def test_tfidf_needs_words_and_a_fit() -> None:
    with pytest.raises(InputError, match="no words to learn from"):
        TfidfEncoder().fit(["", "", None])
    with pytest.raises(InputError, match=r"two words or more .* got 'hello' alone"):
        TfidfEncoder().fit(["hello a", "hello b"])
    with pytest.raises(ValueError, match=r"'random_state' parameter .* must be an int"):
        TfidfEncoder(min_df=1, random_state="x").fit(["one text", "two texts"])
    for alike in (["one text"], ["one text of many"] * 5):
        assert np.isfinite(TfidfEncoder().fit_transform(alike)).all()
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        TfidfEncoder().transform(["a"])
    assert TfidfEncoder(300, min_df=1, cache=False).fit_transform(["one text", "two texts"]).shape == (2, 1)


def test_joint_learns_from_words() -> None:
    rng = np.random.default_rng(1)
    topics = [WORDS[:5], WORDS[5:10]]
    truth = rng.integers(0, 2, 300)
    texts = [" ".join(rng.choice(topics[y], 8)) for y in truth]
    s = truth * (rng.random(300) < 0.3)
    pipeline = make_pipeline(
        TfidfEncoder(10, cache=False),
        JointPUClassifier(prior=0.5, scenario="single-sample", random_state=0, device="cpu"),
    )
    assert pipeline.fit(texts, s).score(texts, truth) > 0.95


@pytest.mark.parametrize("kind", ["roberta", "gpt2"])
def test_other_kinds_of_models(kind: str, model: Path, tmp_path: Path) -> None:
    """RoBERTa's positions start after the padding token's. A decoder may have no padding and add no marks."""
    from tokenizers import Tokenizer, processors
    from transformers import GPT2Config, GPT2Model, PreTrainedTokenizerFast, RobertaConfig, RobertaModel

    words = Tokenizer.from_file(str(model / "tokenizer.json"))
    words.post_processor = processors.Sequence([])
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]").save_pretrained(tmp_path)
    if kind == "roberta":
        sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
        net: Any = RobertaModel(RobertaConfig(vocab_size=20, max_position_embeddings=12, pad_token_id=1, **sizes))
    else:
        net = GPT2Model(GPT2Config(vocab_size=20, n_positions=12, n_embd=8, n_layer=1, n_head=2))
    net.half().save_pretrained(tmp_path)
    encoder = SentenceEncoder(tmp_path, layers=(-1,), cache=False)
    vectors = encoder.transform(["", "king", "king queen " * 50])
    assert vectors.shape == (3, 24)
    assert vectors.dtype == np.float32
    assert np.isfinite(vectors).all()
    assert (vectors[0] == 0).all()
    assert encoder._length(PreTrainedTokenizerFast.from_pretrained(tmp_path)) == (10 if kind == "roberta" else 12)


@pytest.mark.gpu
def test_a_gpu_gives_the_same_vectors(model: Path) -> None:
    for on_gpu, on_cpu in zip(encoders(model, cache=False)[:2], encoders(model, cache=False)[:2], strict=True):
        on_gpu.set_params(device="cuda")
        on_cpu.set_params(device="cpu")
        assert np.allclose(on_gpu.transform(ODD), on_cpu.transform(ODD), atol=1e-4)
