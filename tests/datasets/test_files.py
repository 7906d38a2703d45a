"""Finding, downloading, checking and reading data files: on small files of the real formats."""

import gzip
import hashlib
import io
import os
import pickle
import re
import shutil
import sys
import tarfile
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pulab.datasets import (
    DATASETS,
    load_20news,
    load_adult,
    load_cifar10,
    load_fashion_mnist,
    load_mnist,
    load_mushroom,
    load_spambase,
)
from pulab.datasets import _fetch as fetching
from pulab.datasets import _image as image
from pulab.datasets import _tabular as tabular
from pulab.datasets import _text as text
from pulab.errors import DataFormatError, DataNotFoundError


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """An empty $PULAB_DATA, an empty cache, no known checksums, and addresses where nothing can be downloaded."""
    data, cache = tmp_path / "data", tmp_path / "cache"
    data.mkdir()
    monkeypatch.setenv("PULAB_DATA", str(data))
    monkeypatch.setattr(fetching, "cache_folder", lambda: cache)
    monkeypatch.setattr(fetching, "SYSTEM_FOLDERS", (tmp_path / "system",))
    monkeypatch.setattr(image, "MNIST_URL", "https://127.0.0.1:9/")
    monkeypatch.setattr(image, "FASHION_URL", "https://127.0.0.1:9/")
    monkeypatch.setattr(image, "MNIST", dict.fromkeys(image.MNIST))
    for module, name in ((image, "CIFAR_BINARY"), (image, "CIFAR_PYTHON"), (text, "NEWS_ARCHIVE")):
        published = getattr(module, name)
        monkeypatch.setattr(module, name, fetching.Source(published.path, "https://127.0.0.1:9/", None))
    monkeypatch.setattr(text, "NEWS_COUNTS", {"train": 3, "test": 2})
    monkeypatch.setattr(tabular, "UCI_URL", "https://127.0.0.1:9/")
    monkeypatch.setattr(tabular, "UCI", {name: (folder, None) for name, (folder, _) in tabular.UCI.items()})
    monkeypatch.setattr(tabular, "UCI_ROWS", {name: content.count("\n") for name, content in UCI_FILES.items()})
    return data, cache


UCI_FILES = {
    "adult.data": "39, Private, 7, 9th, 5, Wed, Sales, Wife, White, Male, 0, 0, 40, Cuba, <=50K\n"
    "50, ?, 8, 9th, 5, Wed, Sales, Wife, White, Male, 0, 0, 13, Cuba, >50K\n",
    "adult.test": "25, Private, 9, 10th, 6, Wed, ?, Wife, White, Male, 0, 0, 40, Cuba, >50K.\n",
    "agaricus-lepiota.data": "".join(f"{c}{',x' * 10},{r}{',x' * 11}\n" for c, r in zip("pepe", "?ab?", strict=True)),
    "spambase.data": "".join(f"0.5{',0' * 55},{i},{i % 2}\n" for i in range(8)),
}


def write_uci(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name, content in UCI_FILES.items():
        (folder / name).write_text(("|remark\n" if name == "adult.test" else "") + content + "\n")


def write_mnist(folder: Path, n: int = 20) -> None:
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for part in ("train", "t10k"):
        labels = np.arange(n, dtype=np.uint8) % 10
        pixels = rng.integers(0, 256, size=(n, 28, 28), dtype=np.uint8)
        pixels[:, 0, 0] = labels
        for name, magic, values in (("images-idx3", b"\0\0\x08\x03", pixels), ("labels-idx1", b"\0\0\x08\x01", labels)):
            sizes = np.array(values.shape, dtype=">u4").tobytes()
            with gzip.open(folder / f"{part}-{name}-ubyte.gz", "wb") as file:
                file.write(magic + sizes + values.tobytes())


def test_mnist_is_read_from_pulab_data_and_from_the_cache(folders: tuple[Path, Path]) -> None:
    data, cache = folders
    write_mnist(cache / "mnist")
    split = load_mnist(positive=(1, 2))
    assert split.X_train.shape == (20, 1, 28, 28)
    assert split.X_train.dtype == np.float32
    assert split.X_train[7, 0, 0, 0] == pytest.approx((7 / 255 - 0.1307) / 0.3081, rel=1e-5)
    assert split.y_test.tolist() == [0, 1, 1, 0, 0, 0, 0, 0, 0, 0] * 2
    write_mnist(data / "mnist", n=30)  # $PULAB_DATA comes before the cache
    assert len(load_mnist().X_train) == 30
    assert DATASETS["mnist"].on_this_machine


def test_fashion_mnist_may_come_from_a_package_of_the_system(
    folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package has the same content, compressed anew. Another content is refused."""
    place = tmp_path / "system" / "fashion-mnist"
    write_mnist(place)
    known = {name: f"md5:{hashlib.md5((place / name).read_bytes()).hexdigest()}" for name in image.FASHION}
    with pytest.raises(DataFormatError, match="is not the published file"):
        load_fashion_mnist()
    monkeypatch.setattr(image, "FASHION_OF_DEBIAN", known)
    assert load_fashion_mnist().y_test.tolist() == [1, 0, 1, 0, 1, 0, 1, 0, 0, 0] * 2
    assert DATASETS["fashion-mnist"].on_this_machine


def test_absent_and_offline_is_one_error_that_says_what_to_do(folders: tuple[Path, Path]) -> None:
    data, cache = folders
    with pytest.raises(DataNotFoundError) as caught:
        load_mnist()
    message = str(caught.value)
    assert "\n" not in message
    for part in ("train-images-idx3-ubyte.gz", str(data / "mnist"), str(cache / "mnist"), "127.0.0.1:9", "PULAB_DATA"):
        assert part in message
    with pytest.raises(DataNotFoundError, match=r"cifar-10-batches-py, .*cifar-10-python\.tar\.gz"):
        load_cifar10()
    assert not DATASETS["cifar10-vehicles"].on_this_machine
    assert not list(cache.rglob("*.gz"))


@pytest.mark.parametrize("damage", ["torn", "not gzip", "wrong sizes", "longer"])
def test_damaged_mnist_is_refused(folders: tuple[Path, Path], damage: str) -> None:
    write_mnist(folders[0] / "mnist")
    path = folders[0] / "mnist" / "train-labels-idx1-ubyte.gz"
    whole = path.read_bytes()
    damaged = {
        "torn": whole[:-9],
        "not gzip": b"hello",
        "wrong sizes": gzip.compress(b"\0\0\x08\x01\0\0"),
        "longer": gzip.compress(gzip.decompress(whole) + b"\0"),
    }
    path.write_bytes(damaged[damage])
    with pytest.raises(DataFormatError, match=r"train-labels-idx1-ubyte.gz .* download it again"):
        load_mnist()


def cifar_batches() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(1)
    names = [*image.CIFAR_TRAIN, "test_batch"]
    return {
        name: (rng.integers(0, 256, size=(4, 3072), dtype=np.uint8), rng.integers(0, 10, 4, dtype=np.uint8))
        for name in names
    }


def write_cifar(folder: Path, kind: str) -> None:
    contents = {}
    for name, (pixels, labels) in cifar_batches().items():
        if "bin" in kind:
            contents[f"{name}.bin"] = np.concatenate([labels[:, None], pixels], axis=1).tobytes()
        else:
            # Like the published files, which Python 2 wrote: numpy was not rearranged yet.
            raw = pickle.dumps({b"data": pixels, b"labels": labels.tolist(), b"batch_label": b"x"}, protocol=3)
            contents[name] = raw.replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n")
    if kind in ("cifar-10-batches-bin", "cifar-10-batches-py"):
        (folder / kind).mkdir()
        for name, content in contents.items():
            (folder / kind / name).write_bytes(content)
        return
    inside = "cifar-10-batches-bin" if "binary" in kind else "cifar-10-batches-py"
    with tarfile.open(folder / kind, "w:gz") as tar:
        for name, content in contents.items():
            member = tarfile.TarInfo(f"{inside}/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


@pytest.mark.parametrize("kind", image.CIFAR_PLACES)
def test_every_version_of_cifar10_reads_the_same(folders: tuple[Path, Path], kind: str) -> None:
    write_cifar(folders[0], kind)
    split = load_cifar10(positive=(0, 1, 2, 3))
    batches = cifar_batches()
    pixels, labels = batches["test_batch"]
    assert split.X_train.shape == (20, 3, 32, 32)
    assert split.X_test[2, 1, 3, 5] == pytest.approx((pixels[2, 1024 + 3 * 32 + 5] / 255 - 0.4822) / 0.1994, rel=1e-4)
    assert split.y_test.tolist() == [int(label < 4) for label in labels]
    assert split.X_train.dtype == np.float32


@pytest.mark.parametrize(
    ("module", "name", "argument"),
    [
        ("os", "system", "touch owned"),
        ("builtins", "eval", "open('owned', 'w')"),
        ("numpy.f2py.__main__", "main", ""),  # the import alone ran it
        ("numpy.f2py.capi_maps", "load_f2cmap_file", "owned"),
        ("numpy", "load", "owned"),
        ("numpy.core.multiarray", "fromfile", "owned"),
        ("numpy.planted", "ndarray", ""),
        ("numpy.core.multiarray", "_reconstruct.__globals__", ""),
        ("_codecs", "encode", "owned"),
    ],
)
def test_a_data_file_cannot_run_code(
    folders: tuple[Path, Path], module: str, name: str, argument: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folders[0])
    (folders[0] / "planted.py").write_text("open('owned', 'w')")
    monkeypatch.setattr("numpy.__path__", [*np.__path__, str(folders[0])])
    attack = b"\x80\x04" + b"".join(  # STACK_GLOBAL takes names with dots, GLOBAL does not
        b"\x8c" + bytes([len(word)]) + word.encode() for word in (module, name)
    )
    attack += b"\x93\x8c" + bytes([len(argument)]) + argument.encode() + b"\x85R."
    before = set(sys.modules)
    write_cifar(folders[0], "cifar-10-batches-py")
    (folders[0] / "cifar-10-batches-py" / "data_batch_1").write_bytes(attack)
    with pytest.raises(DataFormatError, match=rf"{re.escape(f'{module}.{name}')} has no place in a data file"):
        load_cifar10()
    assert not (folders[0] / "owned").exists()
    assert not {loaded for loaded in set(sys.modules) - before if loaded.startswith("numpy")}


def test_scikit_learns_pickled_cache_is_not_read(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    class Attack:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(folders[0] / "owned"),)

    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(folders[0]))
    for folder in (*folders, folders[0] / "20news-bydate"):
        folder.mkdir(exist_ok=True)
        for name in ("20news-bydate_py3.pkz", "20news-bydate.pkz"):
            (folder / name).write_bytes(zlib.compress(pickle.dumps(Attack())))
    with pytest.raises(DataFormatError, match="must hold"):
        load_20news()
    assert not (folders[0] / "owned").exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: raw.replace(b"u1", b"u2"),
        lambda raw: raw.replace(b"\x89B", b"\x88B"),  # stored by columns
        lambda raw: raw[:-9],
        lambda raw: pickle.dumps({b"data": 1, b"labels": [1]}),
        lambda raw: pickle.dumps([1]),
    ],
)
def test_pickles_of_another_shape_are_refused(folders: tuple[Path, Path], change: Any) -> None:
    write_cifar(folders[0], "cifar-10-batches-py")
    path = folders[0] / "cifar-10-batches-py" / "data_batch_2"
    assert change(path.read_bytes()) != path.read_bytes()
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(DataFormatError, match=r"cifar-10-batches-py cannot be read .* download it again"):
        load_cifar10()


def test_files_that_are_there_already_are_checked(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """In the cache and in $PULAB_DATA, at every load; and a file is read again when it has changed."""
    write_mnist(folders[1] / "mnist")
    files = {name: folders[1] / "mnist" / name for name in image.MNIST}
    known = {name: f"md5:{hashlib.md5(path.read_bytes()).hexdigest()}" for name, path in files.items()}
    monkeypatch.setattr(image, "MNIST", known)
    load_mnist()
    labels = files["t10k-labels-idx1-ubyte.gz"]
    other = bytearray(labels.read_bytes())
    other[4] ^= 1  # the time inside a gzip file: what is unpacked is the same
    labels.write_bytes(other)
    with pytest.raises(
        DataFormatError, match=r"t10k-labels-idx1-ubyte\.gz is not the published file: its md5 is"
    ) as no:
        load_mnist()
    assert str(no.value).endswith("Delete it to download it again.")
    for load, name, source in (
        (load_cifar10, "cifar-10-binary.tar.gz", (image, "CIFAR_BINARY")),
        (load_cifar10, "cifar-10-python.tar.gz", (image, "CIFAR_PYTHON")),
        (load_20news, "20news-bydate.tar.gz", (text, "NEWS_ARCHIVE")),
    ):
        monkeypatch.setattr(*source, fetching.Source(name, "https://127.0.0.1:9/", "md5:0"))
        (folders[0] / name).write_bytes(b"not this")
        with pytest.raises(DataFormatError, match=rf"{name} is not the published file"):
            load()
        (folders[0] / name).unlink()


def bomb(path: Path, member: str, size: int) -> None:
    """A tar archive of zeros, packed a thousandfold."""
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        item = tarfile.TarInfo(member)
        item.size = size
        tar.addfile(item, io.BytesIO(bytes(size)))


def long_name(path: Path, size: int) -> None:
    """A tar archive whose member has a name of so many bytes. tarfile reads names before it shows a member."""
    item = tarfile.TarInfo("././@LongLink")
    item.type, item.size = tarfile.GNUTYPE_LONGNAME, size
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(item.tobuf(tarfile.GNU_FORMAT) + bytes(size))


@pytest.mark.parametrize("kind", ["gzip", "wanted member", "unwanted member", "name", "file in a folder"])
def test_bombs_are_refused_in_little_memory(
    folders: tuple[Path, Path], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, size = folders[0], 150 * 2**20
    monkeypatch.setattr(image, "CIFAR_MOST_BYTES", 10**6)
    load, reason = load_cifar10, "it holds more bytes than the published data"
    archive = data / "cifar-10-binary.tar.gz"
    if kind == "gzip":
        write_mnist(data / "mnist")
        header = b"\0\0\x08\x03" + np.array([size // 784, 28, 28], dtype=">u4").tobytes()
        with gzip.open(data / "mnist" / "train-images-idx3-ubyte.gz", "wb", compresslevel=1) as file:
            file.write(header + bytes(size))
        load, reason = load_mnist, "are more than MNIST's"
    elif kind == "file in a folder":
        (data / "cifar-10-batches-bin").mkdir()
        with (data / "cifar-10-batches-bin" / "data_batch_1.bin").open("wb") as file:
            file.truncate(size)  # takes no room on the disk
    elif kind == "name":
        long_name(archive, size)
    else:
        bomb(archive, "data_batch_1.bin" if kind == "wanted member" else "other", size)
    tracemalloc.start()
    try:
        with pytest.raises(DataFormatError, match=reason) as caught:
            load()
        assert tracemalloc.get_traced_memory()[1] < 20 * 2**20
    finally:
        tracemalloc.stop()
    assert "\n" not in str(caught.value)


def test_sparse_members_and_links_are_not_read(folders: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(bytes(3073))
    with tarfile.open(folders[0] / "cifar-10-binary.tar.gz", "w:gz") as tar:
        for name in (*image.CIFAR_TRAIN, "test_batch"):
            item = tarfile.TarInfo(f"{name}.bin")
            item.type, item.linkname = tarfile.SYMTYPE, str(tmp_path / "secret")
            tar.addfile(item)
    with pytest.raises(DataFormatError, match="no data_batch_1, "):
        load_cifar10()
    with tarfile.open(folders[0] / "cifar-10-binary.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as tar:
        item = tarfile.TarInfo("data_batch_1.bin")
        item.pax_headers = {"GNU.sparse.map": "0,0", "GNU.sparse.size": "3073", "GNU.sparse.name": item.name}
        tar.addfile(item)
    with pytest.raises(DataFormatError, match="it holds more bytes"):
        load_cifar10()


def test_labels_above_nine_are_refused(folders: tuple[Path, Path]) -> None:
    write_mnist(folders[0] / "mnist")
    path = folders[0] / "mnist" / "t10k-labels-idx1-ubyte.gz"
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes())[:-1] + b"\x0a"))
    with pytest.raises(DataFormatError, match=r"mnist must hold labels, all from 0 to 9"):
        load_mnist()
    cifar = folders[0] / "cifar-10-batches-bin"
    cifar.mkdir()
    for name in (*image.CIFAR_TRAIN, "test_batch"):
        (cifar / f"{name}.bin").write_bytes(b"\x0a" + bytes(3072))
    with pytest.raises(DataFormatError, match=r"bin must hold labels, all from 0 to 9"):
        load_cifar10()


def test_bad_positive_classes(folders: tuple[Path, Path]) -> None:
    write_mnist(folders[0] / "mnist")
    for bad in ((), range(10), (3, 11), 3):
        with pytest.raises(ValueError, match="positive must name some"):
            load_mnist(positive=bad)


NEWS = {
    "train/sci.med/59000": b"From: a\n\nmedicine \xe9",
    "train/alt.atheism/49960": b"From: b\n\nno gods",
    "train/alt.atheism/51119": b"",
    "test/misc.forsale/70": b"a car",
    "test/talk.religion.misc/84": b"gods",
}


def write_news(folder: Path) -> None:
    for name, content in NEWS.items():
        path = folder / f"20news-bydate-{name}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


@pytest.mark.parametrize("form", ["folder", "archive"])
def test_20news_is_read_from_a_folder_and_from_an_archive(
    form: str, folders: tuple[Path, Path], tmp_path: Path
) -> None:
    write_news(tmp_path / "raw")
    if form == "folder":
        write_news(folders[0] / "20news-bydate")
    else:
        folders[1].mkdir()
        with tarfile.open(folders[1] / "20news-bydate.tar.gz", "w:gz") as tar:
            for part in ("train", "test"):
                tar.add(tmp_path / "raw" / f"20news-bydate-{part}", f"20news-bydate-{part}")
    split = load_20news()
    assert split.X_train.tolist() == ["From: b\n\nno gods", "", "From: a\n\nmedicine é"]  # by group, then by name
    assert split.y_train.tolist() == [1, 1, 0]
    assert split.X_test.tolist() == ["a car", "gods"]
    assert load_20news(positive=["sci.med", 19]).y_test.tolist() == [0, 1]


def test_missing_and_damaged_20news(folders: tuple[Path, Path]) -> None:
    with pytest.raises(DataNotFoundError, match=r"20news-bydate\.tar\.gz is not on this machine"):
        load_20news()
    for bad in ("sci.med", 3, [20], ["sci.fi"], [], range(20), [[1]]):
        with pytest.raises(ValueError, match="positive must"):
            load_20news(positive=bad)
    write_news(folders[0] / "20news-bydate")
    (folders[0] / "20news-bydate" / "20news-bydate-test" / "misc.forsale" / "70").unlink()
    with pytest.raises(DataFormatError, match="must hold"):
        load_20news()
    folders[1].mkdir(exist_ok=True)
    (folders[1] / "20news-bydate.tar.gz").write_bytes(b"no archive")
    shutil.rmtree(folders[0] / "20news-bydate")
    with pytest.raises(DataFormatError, match="cannot be read"):
        load_20news()


@pytest.mark.realdata("20news-bydate")
def test_real_20news() -> None:
    from sklearn.feature_extraction.text import CountVectorizer

    split = load_20news()
    assert (len(split.X_train), len(split.X_test)) == (11_314, 7_532)
    assert split.y_train.mean() == pytest.approx(0.5648, abs=1e-4)
    assert len(CountVectorizer().fit(split.X_train).vocabulary_) == 130_107  # as in scikit-learn's documentation


def test_uci_tables_as_arrays_and_as_frames(folders: tuple[Path, Path]) -> None:
    write_uci(folders[0] / "uci")
    adult = load_adult()
    assert adult.X_train.shape == (2, 6 + 2 + 2 + 2 + 5)  # numbers, workclass, education, occupation, others
    assert adult.X_train[:, :3].tolist() == [[39, 0, 1], [50, 1, 0]]  # age, "?", "Private"
    assert (adult.y_train.tolist(), adult.y_test.tolist()) == ([0, 1], [1])
    frame = load_adult(as_frame=True)
    assert frame["income"].to_list() == ["<=50K", ">50K", ">50K"]
    assert frame["workclass"].to_list() == ["Private", None, "Private"]
    assert frame["age"].to_list() == [39, 50, 25]
    mushroom, letters = load_mushroom(), load_mushroom(as_frame=True)
    assert (mushroom.X_train.shape, mushroom.X_test.shape) == ((3, 21 + 3), (1, 21 + 3))
    assert letters["stalk-root"].to_list() == [None, "a", "b", None]
    assert sum(mushroom.y_train) + sum(mushroom.y_test) == (letters["class"] == "p").sum() == 2
    spambase, counts = load_spambase(), load_spambase(as_frame=True)
    assert (spambase.X_train.shape, spambase.X_test.shape) == ((6, 57), (2, 57))
    assert np.array_equal(spambase.X_train[:, -1] % 2, spambase.y_train)
    assert counts.row(3, named=True)["word_freq_make"] == 0.5
    assert counts.columns[-2:] == ["capital_run_length_total", "spam"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text[: len(text) // 2], "must hold 8 lines of 58 comma-separated values"),
        (lambda text: text.replace(",0,", ",", 1), "must hold 8 lines of 58 comma-separated values"),
        (lambda text: text.replace("0.5", "some", 1), "cannot be read .could not convert"),
        (lambda text: text.replace("0.5", "nan", 1), "cannot be read .NaN or infinity"),
        (lambda text: text.replace("7,1", "7,2"), "spam must be one of 0, 1, got 2"),
        (lambda text: text.encode() + b"\xff", "cannot be read"),
    ],
)
def test_damaged_uci_files_are_refused(folders: tuple[Path, Path], damage: Any, message: str) -> None:
    write_uci(folders[0] / "uci")
    damaged = damage(UCI_FILES["spambase.data"])
    path = folders[0] / "uci" / "spambase.data"
    path.write_bytes(damaged if isinstance(damaged, bytes) else damaged.encode())
    with pytest.raises(DataFormatError, match=message) as caught:
        load_spambase()
    assert "\n" not in str(caught.value)
    path.unlink()
    with pytest.raises(DataNotFoundError, match=r"spambase\.data is not on this machine"):
        load_spambase()


@pytest.mark.realdata("uci")
def test_real_uci() -> None:
    adult, frame = load_adult(), load_adult(as_frame=True)
    assert (adult.X_train.shape, adult.X_test.shape) == ((32_561, 108), (16_281, 108))
    assert (adult.y_train.sum(), adult.y_test.sum()) == (7_841, 3_846)  # as the publisher counts them
    assert frame.height == 48_842
    assert frame["occupation"].null_count() == 2_809
    mushroom, spambase = load_mushroom(), load_spambase()
    assert (len(mushroom.X_train), len(mushroom.X_test)) == (6_093, 2_031)
    assert mushroom.y_train.sum() + mushroom.y_test.sum() == 3_916
    assert (len(spambase.X_train), len(spambase.X_test)) == (3_451, 1_150)
    assert spambase.y_train.sum() + spambase.y_test.sum() == 1_813


@pytest.mark.parametrize("key", [key for key, dataset in DATASETS.items() if not dataset.files])
def test_data_sets_that_come_with_the_package(key: str) -> None:
    split = DATASETS[key].load()
    assert len(split.X_train) == len(split.y_train)
    assert set(split.y_train) == set(split.y_test) == {0, 1}
    assert np.isfinite(split.X_train).all()


@pytest.mark.realdata("mnist")
def test_real_mnist() -> None:
    split = load_mnist()
    assert (split.X_train.shape, split.X_test.shape) == ((60000, 1, 28, 28), (10000, 1, 28, 28))
    assert split.y_train.mean() == pytest.approx(0.4915, abs=1e-4)
    assert abs(split.X_train.mean()) < 1e-3
    assert split.X_train.std() == pytest.approx(1, abs=1e-3)


@pytest.mark.realdata("fashion-mnist")
def test_real_fashion_mnist() -> None:
    split = load_fashion_mnist()
    assert (split.X_train.shape, split.X_test.shape) == ((60000, 1, 28, 28), (10000, 1, 28, 28))
    assert split.y_train.mean() == pytest.approx(0.4)
    assert abs(split.X_train.mean()) < 1e-3
    assert split.X_train.std() == pytest.approx(1, abs=1e-3)
