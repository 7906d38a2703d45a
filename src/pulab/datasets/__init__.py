"""Data sets, and functions that make PU data of them. Needs numpy and scikit-learn, not torch."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pulab.datasets._fetch import Source, cache_folder, data_folders, digest_of_file, fetch, fetch_all, find
from pulab.datasets._image import (
    CIFAR_PLACES,
    FASHION,
    MNIST,
    load_cifar10,
    load_digits,
    load_fashion_mnist,
    load_mnist,
)
from pulab.datasets._labelling import PUSample, make_pu
from pulab.datasets._samplings import HeldOutSampling, PaperSampling, PlainSampling, Sampling, Trial, error_of
from pulab.datasets._split import Split
from pulab.datasets._tabular import (
    load_adult,
    load_breast_cancer,
    load_mushroom,
    load_spambase,
    make_clusters,
    make_hundred_thousand,
    make_moons,
)
from pulab.datasets._text import NEWS_PLACES, load_20news

__all__ = [
    "DATASETS",
    "Dataset",
    "HeldOutSampling",
    "PUSample",
    "PaperSampling",
    "PlainSampling",
    "Sampling",
    "Source",
    "Split",
    "Trial",
    "cache_folder",
    "data_folders",
    "digest_of_file",
    "error_of",
    "fetch",
    "fetch_all",
    "load_20news",
    "load_adult",
    "load_breast_cancer",
    "load_cifar10",
    "load_digits",
    "load_fashion_mnist",
    "load_mnist",
    "load_mushroom",
    "load_spambase",
    "make_clusters",
    "make_hundred_thousand",
    "make_moons",
    "make_pu",
]


@dataclass(frozen=True)
class Dataset:
    """A data set: its loader, its positive class, and the files that it needs."""

    load: Callable[[], Split]
    summary: str
    positive: str
    files: tuple[tuple[str, ...], ...] = ()  # one of each inner tuple is needed

    @property
    def on_this_machine(self) -> bool:
        """Whether it loads without a download."""
        return all(find(alternatives) for alternatives in self.files)


_MNIST_FILES = tuple((f"mnist/{name}",) for name in MNIST)
_FASHION_FILES = tuple((f"fashion-mnist/{name}",) for name in FASHION)

DATASETS = {
    "digits": Dataset(load_digits, "1,797 digits, 8 × 8 pixels, from scikit-learn", "even digits"),
    "digits-three": Dataset(partial(load_digits, positive=(3,)), "the same", "the digit 3"),
    "breast-cancer": Dataset(load_breast_cancer, "569 rows × 30, from scikit-learn", "malignant"),
    "moons": Dataset(make_moons, "8,000 rows × 2, synthetic, noisy half-moons", "one moon, a quarter of the rows"),
    "clusters": Dataset(make_clusters, "10,000 rows × 20, synthetic, 16 clusters", "half of them, a third of the rows"),
    "digits-images": Dataset(partial(load_digits, images=True), "the digits as 8 × 8 images", "even digits"),
    "hundred-thousand": Dataset(make_hundred_thousand, "120,000 rows × 20, synthetic", "a tenth of the rows"),
    "adult": Dataset(
        load_adult,
        "48,842 rows × 108, UCI's census of incomes",
        "above 50K",
        (("uci/adult.data",), ("uci/adult.test",)),
    ),
    "mushroom": Dataset(
        load_mushroom, "8,124 rows × 117, UCI's mushrooms", "poisonous", (("uci/agaricus-lepiota.data",),)
    ),
    "spambase": Dataset(load_spambase, "4,601 rows × 57, UCI's messages", "spam", (("uci/spambase.data",),)),
    "mnist": Dataset(load_mnist, "70,000 digits, 28 × 28 pixels", "even digits", _MNIST_FILES),
    "mnist-low": Dataset(partial(load_mnist, positive=(0, 1, 2, 3, 4)), "the same", "the digits 0 to 4", _MNIST_FILES),
    "fashion-mnist": Dataset(
        load_fashion_mnist,
        "70,000 pictures of clothes, 28 × 28 pixels",
        "T-shirts, pullovers, coats, shirts",
        _FASHION_FILES,
    ),
    "cifar10-vehicles": Dataset(load_cifar10, "60,000 photographs, 32 × 32 pixels", "vehicles", (CIFAR_PLACES,)),
    "cifar10-mammals": Dataset(
        partial(load_cifar10, positive=(3, 4, 5, 7)), "60,000 photographs, 32 × 32 pixels", "mammals", (CIFAR_PLACES,)
    ),
    "20news": Dataset(load_20news, "18,846 messages of 20 newsgroups", "alt, comp, misc, rec", (NEWS_PLACES,)),
}
