"""Text data: 20 Newsgroups, as it was published ("bydate"), headers and all."""

import os
import tarfile
import zlib
from collections.abc import Collection, Iterable
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from pulab.datasets._fetch import Source, download, find
from pulab.datasets._split import Split
from pulab.errors import DataFormatError, InputError

# In alphabetical order; the paper's positive class is the first eleven (alt, comp, misc, rec).
NEWSGROUPS = (
    "alt.atheism",
    "comp.graphics",
    "comp.os.ms-windows.misc",
    "comp.sys.ibm.pc.hardware",
    "comp.sys.mac.hardware",
    "comp.windows.x",
    "misc.forsale",
    "rec.autos",
    "rec.motorcycles",
    "rec.sport.baseball",
    "rec.sport.hockey",
    "sci.crypt",
    "sci.electronics",
    "sci.med",
    "sci.space",
    "soc.religion.christian",
    "talk.politics.guns",
    "talk.politics.mideast",
    "talk.politics.misc",
    "talk.religion.misc",
)
NEWS_ARCHIVE = Source(
    "20news-bydate.tar.gz",
    "https://ndownloader.figshare.com/files/5975967",
    "sha256:8f1b2514ca22a5ade8fbb9cfa5727df95fa587f4c87b786e15c759fa66d95610",
)
NEWS_PLACES = ("20news-bydate", NEWS_ARCHIVE.path)
NEWS_COUNTS = {"train": 11_314, "test": 7_532}

Documents = dict[str, list[tuple[str, str, str]]]  # by part: group, name of the file, text


def load_20news(positive: Collection[int | str] = range(11)) -> Split:
    """20 Newsgroups, split by date: 11,314 documents to train on and 7,532 to test on, as strings, headers kept.

    Files: the folder ``20news-bydate`` (with ``20news-bydate-train`` and ``-test`` in it) or the archive
    ``20news-bydate.tar.gz`` below ``$PULAB_DATA`` or the user's cache, else scikit-learn's own cache; downloaded if
    they are nowhere.

    Parameters
    ----------
    positive : collection of int or str
        Newsgroups that are positive, by number in alphabetical order or by name. The paper's are the first eleven.
    """
    chosen = _positive_groups(positive)
    place = find(NEWS_PLACES)
    documents = _read(place) if place else _from_scikit_learn() or _read(download(NEWS_ARCHIVE, NEWS_PLACES))
    parts: list[Any] = []
    for part in ("train", "test"):
        rows = sorted(documents[part])
        parts.append(np.array([text for _, _, text in rows], dtype=object))
        parts.append(np.array([int(group in chosen) for group, _, _ in rows], dtype=np.int64))
    return Split(*parts)


def _positive_groups(positive: Collection[int | str]) -> set[str]:
    if isinstance(positive, str) or not isinstance(positive, Collection):
        raise InputError(f"positive must be a collection such as (0, 1) or ['sci.med'], got {positive!r}.")
    names: dict[Any, str] = dict(enumerate(NEWSGROUPS)) | {name: name for name in NEWSGROUPS}
    if unknown := [group for group in positive if not isinstance(group, Integral | str) or group not in names]:
        raise InputError(f"positive must name newsgroups by 0 to 19 or by name, got {unknown[0]!r}.")
    chosen = {names[group] for group in positive}
    if not 0 < len(chosen) < len(NEWSGROUPS):
        raise InputError(f"positive must name some, not all, of the {len(NEWSGROUPS)} newsgroups, got {len(chosen)}.")
    return chosen


def _read(place: Path) -> Documents:
    """From a folder or an archive; what it holds is counted."""
    try:
        found = _sorted_in(_files(place) if place.is_dir() else _members(place))
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise DataFormatError(f"{place} cannot be read ({error}). Delete it and fetch it anew.") from error
    return _counted(found, place)


def _files(place: Path) -> Iterable[tuple[Path, bytes]]:
    return ((path, path.read_bytes()) for path in place.glob("20news-bydate-*/*/*") if path.is_file())


def _members(place: Path) -> Iterable[tuple[Path, bytes]]:
    with tarfile.open(place) as tar:
        for item in tar:
            file = tar.extractfile(item) if item.isfile() else None
            if file is not None:
                yield Path(item.name), file.read()


def _sorted_in(files: Iterable[tuple[Path, bytes]]) -> Documents:
    found: Documents = {part: [] for part in NEWS_COUNTS}
    for path, content in files:
        part = path.parent.parent.name.removeprefix("20news-bydate-")
        if part in found and path.parent.name in NEWSGROUPS:
            found[part].append((path.parent.name, path.name, content.decode("latin-1")))
    return found


def _from_scikit_learn() -> Documents | None:
    """What scikit-learn has downloaded before, if it has."""
    folder = Path(os.environ.get("SCIKIT_LEARN_DATA", "~/scikit_learn_data")).expanduser()
    if not (folder / "20news-bydate_py3.pkz").is_file():
        return None
    from sklearn.datasets import fetch_20newsgroups

    found: Documents = {}
    for part in NEWS_COUNTS:
        bunch = fetch_20newsgroups(data_home=folder, subset=part, shuffle=False, download_if_missing=False)
        names = [Path(name).name for name in bunch.filenames]
        groups = [bunch.target_names[target] for target in bunch.target]
        found[part] = list(zip(groups, names, bunch.data, strict=True))
    return _counted(found, "scikit-learn's cache")


def _counted(found: Documents, place: Path | str) -> Documents:
    counts = {part: len(rows) for part, rows in found.items()}
    if counts != NEWS_COUNTS:
        raise DataFormatError(f"{place} must hold {NEWS_COUNTS} documents, got {counts}. Fetch it anew.")
    return found
