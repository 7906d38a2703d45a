"""Text data: 20 Newsgroups as published ("bydate"), with headers."""

import tarfile
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from pulab.datasets._fetch import Source, checked, contents, download, find
from pulab.datasets._split import Split, positive_classes
from pulab.errors import DataFormatError, in_one_line

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
NEWS_MOST_BYTES = 100_000_000  # the messages have 36 million bytes, and an archive adds about 1,000 for each
NEWS_COUNTS = {"train": 11_314, "test": 7_532}


def load_20news(positive: Collection[int | str] = range(11)) -> Split:
    """20 Newsgroups, split by date: 11,314 training and 7,532 test documents, as strings with headers.

    Files: the folder ``20news-bydate`` (with ``20news-bydate-train`` and ``-test`` in it) or the archive
    ``20news-bydate.tar.gz`` below ``$PULAB_DATA`` or the user's cache. Missing files are downloaded.

    Parameters
    ----------
    positive : collection of int or str
        The positive newsgroups, by number in alphabetical order or by name. The paper's are the first eleven.
    """
    chosen = positive_classes(positive, NEWSGROUPS)
    place = find(NEWS_PLACES) or download(NEWS_ARCHIVE, NEWS_PLACES)
    documents = _read(place if place.is_dir() else checked(place, NEWS_ARCHIVE))
    parts: list[Any] = []
    for part in ("train", "test"):
        rows = sorted(documents[part])
        parts.append(np.array([text for _, _, text in rows], dtype=object))
        parts.append(np.array([int(group in chosen) for group, _, _ in rows], dtype=np.int64))
    return Split(*parts)


def _read(place: Path) -> dict[str, list[tuple[str, str, str]]]:
    """Newsgroup, file name and text of the documents of each part, from a folder or an archive."""
    documents: dict[str, list[tuple[str, str, str]]] = {part: [] for part in NEWS_COUNTS}
    try:
        for path, raw in contents(place, lambda path: path.parent.name in NEWSGROUPS, NEWS_MOST_BYTES):
            part = path.parent.parent.name.removeprefix("20news-bydate-")
            if part in documents:
                documents[part].append((path.parent.name, path.name, raw.decode("latin-1")))
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise DataFormatError(
            f"{place} cannot be read ({in_one_line(error)}). Delete it and download it again."
        ) from error
    counts = {part: len(rows) for part, rows in documents.items()}
    if counts != NEWS_COUNTS:
        raise DataFormatError(f"{place} must hold {NEWS_COUNTS} documents, got {counts}. Download it again.")
    return documents
