"""Image data: scikit-learn's digits, MNIST, Fashion-MNIST and CIFAR-10, read without torchvision."""

import gzip
import io
import math
import pickle
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulab.datasets._fetch import Source, checked, contents, download, fetch_all, find
from pulab.datasets._split import Split, positive_classes, shuffled_split
from pulab.errors import DataFormatError, in_one_line

Pixels = NDArray[np.uint8]


def load_digits(positive: Collection[int] = (0, 2, 4, 6, 8), images: bool = False) -> Split:
    """scikit-learn's 1,797 digits of 8 × 8 pixels: 1,297 training and 500 test rows.

    Either a table, (n, 64), or images, (n, 1, 8, 8).

    Examples
    --------
    >>> load_digits(positive=(0,)).X_train.shape
    (1297, 64)
    """
    from sklearn.datasets import load_digits as load

    bunch = load()
    X = (bunch.data / 16).astype(np.float32)
    X = X.reshape(-1, 1, 8, 8) if images else X
    y = _is_positive(bunch.target, positive, "scikit-learn's digits")
    return shuffled_split(X, y, n_test=500)  # the file is sorted by writer


MNIST_URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
MNIST = {
    "train-images-idx3-ubyte.gz": "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte.gz": "md5:d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte.gz": "md5:9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte.gz": "md5:ec29112dd5afa0611ce80d1b7f02629c",
}
FASHION_URL = "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/"
FASHION = {
    "train-images-idx3-ubyte.gz": "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte.gz": "md5:25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte.gz": "md5:bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte.gz": "md5:bb300cfdad3c16e7a12a480ee83cd310",
}
FASHION_OF_DEBIAN = {  # its package dataset-fashion-mnist has the same bytes, compressed anew
    "train-images-idx3-ubyte.gz": "md5:cf8536b0aa1a6ac5fa3f23001093305c",
    "train-labels-idx1-ubyte.gz": "md5:10bea18fdb374794d4bb42e356e600c9",
    "t10k-images-idx3-ubyte.gz": "md5:f78720b4224f21cce2f2ccf2d7a94c9a",
    "t10k-labels-idx1-ubyte.gz": "md5:0d30e22e447f3c33dab9ed536400ac01",
}
MNIST_MOST_BYTES = 60_000 * 28 * 28


def load_mnist(positive: Collection[int] = (0, 2, 4, 6, 8)) -> Split:
    """MNIST, (n, 1, 28, 28), standardised: 60,000 training and 10,000 test rows. Even digits are positive.

    Files: ``mnist/*-ubyte.gz`` below ``$PULAB_DATA`` or the user's cache. Missing files are downloaded.
    """
    sources = [Source(f"mnist/{name}", MNIST_URL + name, checksum) for name, checksum in MNIST.items()]
    return _load_idx("MNIST", sources, positive, mean=0.1307, std=0.3081)


def load_fashion_mnist(positive: Collection[int] = (0, 2, 4, 6)) -> Split:
    """Fashion-MNIST, (n, 1, 28, 28), standardised: 60,000 training and 10,000 test rows.

    T-shirts, pullovers, coats and shirts are positive.

    Files: ``fashion-mnist/*-ubyte.gz`` below ``$PULAB_DATA`` or the user's cache, or from Debian's package
    ``dataset-fashion-mnist``. Missing files are downloaded.
    """
    sources = [
        Source(f"fashion-mnist/{name}", FASHION_URL + name, checksum, FASHION_OF_DEBIAN[name])
        for name, checksum in FASHION.items()
    ]
    return _load_idx("Fashion-MNIST", sources, positive, mean=0.2860, std=0.3530)


def _load_idx(name: str, sources: Sequence[Source], positive: Collection[int], mean: float, std: float) -> Split:
    """A data set in MNIST's format: images and labels for training, then for the test."""
    paths = fetch_all(sources)
    arrays = [_read_idx(path) for path in paths]
    parts: list[Any] = []
    for images, labels in (arrays[:2], arrays[2:]):
        if images.shape != (*labels.shape, 28, 28):
            raise DataFormatError(
                f"{name}'s files in {paths[0].parent} do not fit together: images {images.shape}, labels "
                f"{labels.shape}. Download them again."
            )
        X = (images[:, None].astype(np.float32) / 255 - mean) / std
        parts += [X.astype(np.float32), _is_positive(labels, positive, paths[0].parent)]
    return Split(*parts)


def _read_idx(path: Path) -> Pixels:
    """Read an idx file: two zero bytes, type (8: unsigned byte), number of dimensions, sizes, values."""
    try:
        with gzip.open(path) as file:
            n_dimensions = file.read(4)[3]
            shape = np.frombuffer(file.read(4 * n_dimensions), dtype=">u4", count=n_dimensions).tolist()
            size = math.prod(shape)
            if size > MNIST_MOST_BYTES:
                raise ValueError(f"the sizes {shape} are more than MNIST's")
            values = file.read(size + 1)  # one more: a longer file is refused, and the end of the gzip is checked
        return np.frombuffer(values, dtype=np.uint8).reshape(shape)
    except Exception as error:  # unpacking damaged bytes can raise anything
        raise DataFormatError(
            f"{path} cannot be read ({in_one_line(error)}). Delete it and download it again."
        ) from error


CIFAR_URL = "https://www.cs.toronto.edu/~kriz/"
CIFAR_BINARY = Source(
    "cifar-10-binary.tar.gz", CIFAR_URL + "cifar-10-binary.tar.gz", "md5:c32a1d4ab5d03f1284b67883e8d87530"
)
CIFAR_PYTHON = Source(
    "cifar-10-python.tar.gz", CIFAR_URL + "cifar-10-python.tar.gz", "md5:c58f30108f718f92721af3b95e74349a"
)
CIFAR_MOST_BYTES = 200_000_000  # the archives unpack to 185 million bytes
CIFAR_TRAIN = [f"data_batch_{i}" for i in range(1, 6)]
CIFAR_PLACES = ("cifar-10-batches-bin", "cifar-10-batches-py", "cifar-10-binary.tar.gz", "cifar-10-python.tar.gz")
CIFAR_MEAN = np.array([0.4914, 0.4822, 0.4465], dtype=np.float32)[:, None, None]
CIFAR_STD = np.array([0.2023, 0.1994, 0.2010], dtype=np.float32)[:, None, None]


def load_cifar10(positive: Collection[int] = (0, 1, 8, 9)) -> Split:
    """CIFAR-10, (n, 3, 32, 32), standardised: 50,000 training and 10,000 test rows. Vehicles are positive.

    Files below ``$PULAB_DATA`` or the user's cache: the binary or the python version, as a folder
    (``cifar-10-batches-bin``, ``cifar-10-batches-py``) or as its archive. Missing files are downloaded.
    """
    place = find(CIFAR_PLACES) or download(CIFAR_BINARY, CIFAR_PLACES)
    if not place.is_dir():
        checked(place, CIFAR_BINARY if place.name == CIFAR_BINARY.path else CIFAR_PYTHON)
    try:
        batches = _read_cifar(place)
    except Exception as error:  # unpickling and unpacking damaged bytes can raise anything
        raise DataFormatError(
            f"{place} cannot be read ({in_one_line(error)}). Delete it and download it again."
        ) from error
    parts: list[Any] = []
    for names in (CIFAR_TRAIN, ["test_batch"]):
        pixels = np.concatenate([batches[name][0] for name in names]).reshape(-1, 3, 32, 32)
        labels = np.concatenate([batches[name][1] for name in names])
        X = (pixels.astype(np.float32) / 255 - CIFAR_MEAN) / CIFAR_STD
        parts += [X, _is_positive(labels, positive, place)]
    return Split(*parts)


def _read_cifar(place: Path) -> dict[str, tuple[Pixels, Pixels]]:
    """Pixels and labels of every batch of either version."""
    python = place.name.endswith(("-py", "-python.tar.gz"))
    parse, ending = (_parse_python_batch, "") if python else (_parse_binary_batch, ".bin")
    members = {f"{name}{ending}": name for name in (*CIFAR_TRAIN, "test_batch")}
    found = contents(place, lambda path: path.name in members, CIFAR_MOST_BYTES)
    batches = {members[path.name]: parse(raw) for path, raw in found}
    if missing := set(members.values()) - set(batches):
        raise KeyError(f"no {', '.join(sorted(missing))} in it")
    return batches


def _parse_binary_batch(content: bytes) -> tuple[Pixels, Pixels]:
    """Records of one label byte and 3 × 32 × 32 pixels."""
    records = np.frombuffer(content, dtype=np.uint8).reshape(-1, 1 + 3072)
    return records[:, 1:], records[:, 0]


class _Inert:
    """Stands for anything of numpy in a pickle. It keeps what it is given and does nothing."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _ArraysOnly(pickle.Unpickler):
    """An unpickler that imports nothing: reading data must not run code. The three names are all that was published."""

    NAMES = frozenset({("numpy.core.multiarray", "_reconstruct"), ("numpy", "ndarray"), ("numpy", "dtype")})

    def find_class(self, module: str, name: str) -> type[_Inert]:
        if (module, name) in self.NAMES:
            return _Inert
        raise pickle.UnpicklingError(f"{module}.{name} has no place in a data file")


def _parse_python_batch(content: bytes) -> tuple[Pixels, Pixels]:
    """A pickled dictionary with an array of bytes and a list of labels."""
    batch = _ArraysOnly(io.BytesIO(content), encoding="bytes").load()
    _version, shape, dtype, by_columns, raw = batch[b"data"].state
    labels = np.array(batch[b"labels"], dtype=np.uint8)
    if dtype.arguments[0] not in ("u1", b"u1") or by_columns or shape != (len(labels), 3072):
        raise ValueError(f"pixels {shape} do not fit {len(labels)} labels")
    return np.frombuffer(raw, dtype=np.uint8).reshape(shape), labels


def _is_positive(labels: Any, positive: Collection[int], place: Path | str) -> NDArray[np.int64]:
    if not len(labels) or labels.max() > 9:
        raise DataFormatError(f"{place} must hold labels, all from 0 to 9. Delete it and download it again.")
    return np.isin(labels, positive_classes(positive, range(10))).astype(np.int64)
