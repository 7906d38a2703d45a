"""Bad inputs, drawn at random, for every estimator, metric, loader and command.

``python benchmarks/torture/inputs.py N`` tries N of them. A case ends well if it is refused by a ``PulabError`` in one
line, or if it works where the input may be right. Anything else is a failure: another exception, a message of several
lines, a bad input that is taken. The counts go as a row to results/reliability/inputs.jsonl.

The short form is ``tests/test_inputs.py``.
"""

import argparse
import contextlib
import gzip
import io
import json
import os
import random
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import polars as pl
import torch
from scipy import sparse

import pulab
from pulab import datasets, metrics
from pulab.bench.runner import commit
from pulab.cli import main
from pulab.datasets import _image, _text, make_pu
from pulab.errors import PulabError
from pulab.methods import METHODS
from pulab.model_selection import PUScorer, PUStratifiedKFold
from pulab.priors import estimate_prior
from pulab.tables import fit_table
from pulab.text import TfidfEncoder

ROWS = Path(__file__).parents[2] / "results" / "reliability" / "inputs.jsonl"
LONGEST = 600  # letters of a message

Call = Callable[[], Any]


class Case(NamedTuple):
    """A call with a bad input, or, if it is not ``bad`` for sure, with one that may be right."""

    what: str
    call: Call
    bad: bool = True


# Values ---------------------------------------------------------------------------------------------------------------

_rng = np.random.default_rng(0)
X = _rng.normal(size=(60, 3))
X[:20] += 2
S = (np.arange(60) < 15).astype(int)
TABLE = pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "w": [["red", "green"][i % 2] for i in range(60)], "label": S})


def changed(value: Any) -> Any:
    array = X.copy()
    array[7, 1] = value
    return array


def odd_values(rng: random.Random) -> Any:
    """A value that few parameters take."""
    return rng.choice(
        [
            None, True, -1, 0, 1, -(10**9), 2**63, 10**400, 0.5, -0.5, 1.5, float("nan"), float("inf"), 5e-324, 1e308,
            1j, "", "x", "auto", "a\nb", b"x", [], [1], ["x"], {}, {"a": 1}, (), (1, 2), {1}, object(), object, len,
            np.array([1, 2]), np.array("x"), np.float32("nan"), np.int8(3), np.int8(100), np.datetime64("2020"),
            torch.tensor(1.0), torch.tensor([1.0, 2.0]), range(3), Ellipsis, rng.randrange(-100, 100),
            rng.uniform(-2, 2), Path("x"),
        ]
    )  # fmt: skip


BAD_X: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "a word": lambda: "x",
    "a number": lambda: 3,
    "1-D": lambda: X[:, 0],
    "no rows": lambda: X[:0],
    "no columns": lambda: X[:, :0],
    "inf": lambda: changed(np.inf),
    "-inf": lambda: changed(-np.inf),
    "complex": lambda: X + 1j,
    "sparse complex": lambda: sparse.csr_matrix(X + 1j),
    "sparse inf": lambda: sparse.csr_matrix(changed(np.inf)),
    "words": lambda: np.full((60, 3), "a"),
    "bytes": lambda: np.full((60, 3), b"a"),
    "objects": lambda: np.array([["a", 1, object()]] * 60, dtype=object),
    "objects alone": lambda: np.array([[object()]] * 60, dtype=object),
    "ragged": lambda: [[1], [1, 2]] * 30,
    "dates": lambda: np.full((60, 3), np.datetime64("2020")),
    "fields": lambda: np.zeros(60, dtype=[("a", float)]),
    "a matrix": lambda: np.matrix(X),
    "a set": lambda: {1, 2},
    "a dict": lambda: {"a": [1]},
    "a generator": lambda: (row for row in X),
    "no memory": lambda: torch.empty(60, 3, device="meta"),
    "a class": lambda: np.ndarray,
    "an object": object,
    "text columns": lambda: TABLE.select("w", "a").to_pandas(),
}
BAD_Y: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "a word": lambda: "x",
    "a number": lambda: 1,
    "too short": lambda: S[:10],
    "nothing": lambda: [],
    "two columns": lambda: np.c_[S, S],
    "three kinds": lambda: np.arange(60) % 3,
    "all positive": lambda: np.ones(60, int),
    "no positive": lambda: np.zeros(60, int),
    "all missing": lambda: np.full(60, np.nan),
    "inf": lambda: np.where(S, np.inf, 0),
    "objects": lambda: np.array([object() for _ in range(60)]),
    "words and numbers": lambda: np.array(["a", 1] * 30, dtype=object),
    "one date": lambda: np.full(60, np.datetime64("2020")),
    "complex": lambda: S + 1j,
    "sparse": lambda: sparse.csr_matrix(S),
    "a dict": lambda: {"a": 1},
    "a set": lambda: {0, 1},
    "ragged": lambda: [[1], [1, 2]] * 30,
    "fields": lambda: np.zeros(60, dtype=[("a", float)]),
    "sorts wrongly": lambda: np.where(S, "labelled", "unlabeled"),
}
BAD_PRIORS: list[Any] = [0, 1, -0.1, 1.2, 0.0, 1.0, float("nan"), float("inf"), -float("inf"), "x", "", "0.3", 1j, True]
BAD_PRIORS += [[0.3], (0.2, 0.3), {}, object(), np.array([0.3, 0.4]), 10**400, "Estimate", b"estimate", "nan"]


# Estimators -----------------------------------------------------------------------------------------------------------

_fitted: dict[str, Any] = {}


def make(key: str, **parameters: Any) -> Any:
    kind = getattr(pulab, METHODS[key].class_name)
    names = kind().get_params()
    few = {"epochs": 1, "n_estimators": 2, "prior": 0.4, "random_state": 0}
    return kind(**{name: value for name, value in few.items() if name in names} | parameters)


def fitted(key: str) -> Any:
    if key not in _fitted:
        labels = np.r_[S[:50], [-1] * 10] if key == "pubn" else S
        _fitted[key] = make(key).fit(X, labels)
    return _fitted[key]


def parameter(rng: random.Random) -> Case:
    key = rng.choice(list(METHODS))
    name = rng.choice(list(make(key).get_params(deep=False)))
    value = odd_values(rng)
    if name in ("epochs", "n_estimators") and isinstance(value, int) and value > 1000:
        value = -value  # a fit that takes for ever is what was asked for
    return Case(f"{key} {name}={value!r:.60}", lambda: make(key, **{name: value}).fit(X, S), bad=False)


def prior(rng: random.Random) -> Case:
    key = rng.choice([key for key in METHODS if METHODS[key].needs_prior])
    value = rng.choice(BAD_PRIORS)
    return Case(f"{key} prior={value!r:.60}", lambda: make(key, prior=value).fit(X, S))


def rows(rng: random.Random) -> Case:
    key, name = rng.choice(list(METHODS)), rng.choice(list(BAD_X))
    return Case(f"{key} X: {name}", lambda: make(key).fit(BAD_X[name](), S))


def labels(rng: random.Random) -> Case:
    key, name = rng.choice(list(METHODS)), rng.choice(list(BAD_Y))
    bad = not (key == "pubn" and name == "three kinds")
    return Case(f"{key} y: {name}", lambda: make(key).fit(X, BAD_Y[name]()), bad)


def predict(rng: random.Random) -> Case:
    key = rng.choice(list(METHODS))
    method = rng.choice(["predict", "predict_proba", "decision_function", "score"])
    wider = {"wider": lambda: np.c_[X, X], "narrower": lambda: X[:, :2], "deeper": lambda: X[:, :, None]}
    name, make_x = rng.choice(list((BAD_X | wider).items()))
    more = (S,) if method == "score" else ()
    if rng.random() < 0.1:
        return Case(f"{key}.{method} unfitted", lambda: getattr(make(key), method)(X, *more))
    if rng.random() < 0.1:
        bad_y = BAD_Y[rng.choice(["None", "a word", "too short", "two columns", "complex", "a dict", "ragged"])]
        return Case(f"{key}.score y", lambda: fitted(key).score(X, bad_y()))
    return Case(f"{key}.{method} X: {name}", lambda: getattr(fitted(key), method)(make_x(), *more))


# Functions ------------------------------------------------------------------------------------------------------------


def metric(rng: random.Random) -> Case:
    name = rng.choice(list(metrics.METRICS))
    known = metrics.METRICS[name]
    values = S if known.of == "decisions" else X[:, 0]
    given: dict[str, Any] = {"s": S, "values": values, "prior": 0.4, "scenario": "case-control"}
    what = rng.choice(["s", "values", "prior", "scenario", "n_bootstrap", "prior_interval", "metric"])
    if what == "s":
        key = rng.choice(list(BAD_Y))
        given["s"] = BAD_Y[key]()
    elif what == "values":
        key = rng.choice([key for key in BAD_X if key != "1-D"])
        given["values"] = BAD_X[key]()
    elif what == "prior":
        key = given["prior"] = rng.choice(BAD_PRIORS)
    else:
        key = odd_values(rng)
        if what == "metric":
            name = key
        else:
            given[what] = key
    bad = what in ("s", "values") or (what == "prior" and known.needs_prior)
    if what in ("s", "values", "prior", "scenario") and rng.random() < 0.2:
        curve = rng.choice([metrics.roc_curve, metrics.precision_recall_curve])
        arguments = (given.pop("s"), given.pop("values"))
        return Case(f"{curve.__name__} {what}={key!r:.60}", lambda: curve(*arguments, **given), bad or what == "prior")
    if rng.random() < 0.5 and what not in ("n_bootstrap", "prior_interval", "metric"):
        arguments = (given.pop("s"), given.pop("values"))
        return Case(f"{name} {what}={key!r:.60}", lambda: known.function(*arguments, **given), bad)
    given.setdefault("n_bootstrap", 2)
    if isinstance(given["n_bootstrap"], int) and given["n_bootstrap"] > 100:
        given["n_bootstrap"] = -1
    return Case(f"estimate {name!r:.60} {what}={key!r:.60}", lambda: metrics.estimate(name, **given), bad)


FINE = ("1-D", "None")  # as scores


def function(rng: random.Random) -> Case:
    """Priors, folds, scorers and samplings."""
    value, x, y = odd_values(rng), rng.choice(list(BAD_X)), rng.choice(list(BAD_Y))
    name = rng.choice(["method", "scenario", "random_state"])
    sample = rng.choice(["n_labeled", "n_unlabeled", "prior", "scenario", "random_state"])
    options: dict[str, Any] = {"scores": X[:, 0], name: value}
    return rng.choice(
        [
            Case(f"estimate_prior X: {x}", lambda: estimate_prior(BAD_X[x](), S)),
            Case(f"estimate_prior s: {y}", lambda: estimate_prior(X, BAD_Y[y]())),
            Case(f"estimate_prior scores: {x}", lambda: estimate_prior(X, S, scores=BAD_X[x]()), x not in FINE),
            Case(f"estimate_prior {name}={value!r:.60}", lambda: estimate_prior(X, S, **options), False),
            Case(f"folds y: {y}", lambda: list(PUStratifiedKFold(3).split(X, BAD_Y[y]())), y != "too short"),
            Case(f"folds {value!r:.60}", lambda: list(PUStratifiedKFold(value, random_state=value).split(X, S)), False),
            Case(f"PUScorer {value!r:.60}", lambda: PUScorer(value, prior=value, scenario=value)),
            Case(f"make_pu X: {x}", lambda: make_pu(BAD_X[x](), S, n_labeled=3), False),
            Case(f"make_pu y: {y}", lambda: make_pu(X, BAD_Y[y](), n_labeled=3), y != "all positive"),
            Case(f"make_pu {sample}={value!r:.60}", lambda: make_pu(X, S, **{"n_labeled": 3, sample: value}), False),
        ]
    )  # fmt: skip


# Data sets and texts --------------------------------------------------------------------------------------------------

LOADERS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "load_digits": (datasets.load_digits, ()),
    "load_mnist": (datasets.load_mnist, tuple(f"mnist/{name}" for name in _image.MNIST)),
    "load_cifar10": (datasets.load_cifar10, _image.CIFAR_PLACES),
    "load_20news": (datasets.load_20news, _text.NEWS_PLACES),
    "load_adult": (datasets.load_adult, ("uci/adult.data", "uci/adult.test")),
    "load_mushroom": (datasets.load_mushroom, ("uci/agaricus-lepiota.data",)),
    "load_spambase": (datasets.load_spambase, ("uci/spambase.data",)),
}


def offline(*given: Any) -> None:
    raise OSError("there is no network here")


def loader(rng: random.Random) -> Case:
    """Data files that are missing, damaged or something else, and odd parameters."""
    name = rng.choice(list(LOADERS))
    load, places = LOADERS[name]
    content = rng.choice([b"", b"\0\0\x08\x01", rng.randbytes(rng.randrange(1, 300)), gzip.compress(rng.randbytes(99))])
    kinds = [rng.choice(["missing", "file", "folder", "link", "pipe"]) for _ in places]
    given = {} if places else {"positive": odd_values(rng), "images": rng.choice([True, False])}

    def call() -> None:
        with tempfile.TemporaryDirectory() as folder:
            for kind, place in zip(kinds, places, strict=True):
                path = Path(folder) / place
                path.parent.mkdir(exist_ok=True)
                if kind == "file":
                    path.write_bytes(content)
                elif kind == "folder":
                    path.mkdir()
                elif kind == "link":
                    path.symlink_to(path)
                elif kind == "pipe":
                    os.mkfifo(path)
            where = mock.patch.dict(os.environ, {"PULAB_DATA": folder, "XDG_CACHE_HOME": f"{folder}/cache"})
            with where, mock.patch("pulab.datasets._fetch.download_file", offline):
                load(**given)

    return Case(f"{name} {kinds} {given}", call, bool(places))


BAD_TEXTS: dict[str, Callable[[], Any]] = {
    "one text": lambda: "a word",
    "bytes": lambda: [b"a", b"b"],
    "numbers": lambda: [1, 2],
    "gaps": lambda: ["a", None],
    "nothing": list,
    "2-D": lambda: np.array([["a", "b"]]),
    "mixed": lambda: ["a", 1.5],
    "objects": lambda: [object()],
    "a dict": lambda: {"a": "b"},
    "a number": lambda: 3,
    "half a character": lambda: ["a\ud800", "b"],
    "empty texts": lambda: ["", " "],
}
FINE_TEXTS = ("half a character", "empty texts", "a dict")


def texts(rng: random.Random) -> Case:
    name = rng.choice(list(BAD_TEXTS))
    parameter = rng.choice(list(TfidfEncoder().get_params()))
    value = odd_values(rng)
    words = ["red apple", "green apple", "blue sky"]
    return rng.choice(
        [
            Case(f"TfidfEncoder: {name}", lambda: TfidfEncoder().fit(BAD_TEXTS[name]()), name not in FINE_TEXTS),
            Case(
                f"TfidfEncoder.transform: {name}",
                lambda: TfidfEncoder().fit(words).transform(BAD_TEXTS[name]()),
                name not in FINE_TEXTS,
            ),
            Case(
                f"TfidfEncoder {parameter}={value!r:.60}",
                lambda: TfidfEncoder(**{parameter: value}).fit_transform(words),
                False,
            ),
        ]
    )


# Tables and commands --------------------------------------------------------------------------------------------------


def broken_file(rng: random.Random, folder: Path) -> tuple[str, Path]:
    """A file that is no table with labels in a column ``label``."""
    kind = rng.choice(
        ["cut", "flip", "bytes", "empty", "line", "quote", "no label", "all empty", "one kind", "header", "nul",
         "utf-16", "missing", "folder", "json", "one row", "constant", "three", "nested", "twins", "infinite"]
    )  # fmt: skip
    path = folder / rng.choice(["t.csv", "t.parquet", "t.jsonl", "t.arrow", "t", "t.xlsx", "t.db"])
    text = TABLE.write_csv().encode()
    lines = text.decode().splitlines()
    if kind in ("cut", "flip"):
        packed = io.BytesIO()
        rng.choice([TABLE.write_parquet, TABLE.write_ipc, TABLE.write_ndjson])(packed)
        raw = bytearray(packed.getvalue())
        if kind == "cut":
            raw = raw[: rng.randrange(len(raw))].rstrip(b"}\n")  # lines of JSON that end well are a table
        else:
            raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
        path.write_bytes(raw)
        return kind, path
    at = rng.randrange(1, len(lines))
    contents: dict[str, bytes] = {
        "bytes": rng.randbytes(rng.randrange(1, 300)),
        "empty": b"",
        "line": "\n".join([*lines[:at], lines[at] + ",1,2", *lines[at + 1 :]]).encode(),
        "quote": "\n".join([*lines[:at], '"' + lines[at], *lines[at + 1 :]]).encode(),
        "no label": text.replace(b"label", b"lable", 1),
        "all empty": "\n".join([lines[0], *(line[:-1] for line in lines[1:])]).encode(),
        "one kind": "\n".join([lines[0], *(line[:-1] + "1" for line in lines[1:])]).encode(),
        "header": lines[0].encode(),
        "nul": text.replace(b"red", b"r\0d"),
        "utf-16": text.decode().encode("utf-16"),
        "json": b'[{"label": 1}]',
        "one row": "\n".join(lines[:2]).encode(),
        "constant": ("a,label\n" + "1,1\n1,0\n" * 20).encode(),
        "three": ("a,label\n" + "1,x\n2,y\n3,z\n" * 20).encode(),
        "nested": b'{"label": [1]}\n' * 20,
        "twins": text.replace(b"b,", b"a,", 1),
        "infinite": ("a,label\n" + "inf,1\n-inf,0\n" * 20).encode(),
    }
    if kind == "folder":
        path.mkdir()
    elif kind != "missing":
        path.write_bytes(contents[kind])
    return kind, path


MAY_BE_RIGHT = ("flip", "nul", "infinite")  # a changed bit may make another number; infinite ones count as missing


def table(rng: random.Random) -> Case:
    if rng.random() < 0.5:
        name = rng.choice(
            ["label", "id", "positive", "negative", "reviewed", "drop", "method", "prior", "scenario", "labelled_by",
             "weight", "top", "budget", "costs", "random_state"]
        )  # fmt: skip
        value = odd_values(rng)
        given = {"label": "label", "method": "elkan-noto", name: value}
        return Case(f"fit_table {name}={value!r:.60}", lambda: fit_table(TABLE, **given), bad=False)
    if rng.random() < 0.2:
        value = odd_values(rng)
        return Case(f"fit_table of {value!r:.60}", lambda: fit_table(value, "label"))

    def call() -> None:
        with tempfile.TemporaryDirectory() as place:
            fit_table(path(Path(place)), "label", method="elkan-noto")

    seed = rng.random()
    path = lambda place: broken_file(random.Random(seed), place)[1]  # noqa: E731
    with tempfile.TemporaryDirectory() as place:
        kind, file = broken_file(random.Random(seed), Path(place))
    return Case(f"fit_table {file.name}: {kind}", call, kind not in MAY_BE_RIGHT)


class CommandError(PulabError):
    """The one line of a command that was refused."""


def run(*words: str) -> None:
    """Run a command in this process. Raises its error line; anything but one line is another error."""
    out, err = io.StringIO(), io.StringIO()
    handlers = mock.patch("signal.signal")  # the command's handlers are not for this process
    to = (contextlib.redirect_stdout(out), contextlib.redirect_stderr(err))
    code = 0
    with mock.patch.object(sys, "argv", ["pulab", *words]), to[0], to[1], handlers, warnings.catch_warnings():
        try:
            main()
        except SystemExit as error:
            code = int(error.code or 0)
    lines = [line for line in err.getvalue().splitlines() if not line.startswith("pulab: warning")]
    if code:
        if len(lines) != 1 or not lines[0].startswith("pulab: "):
            raise AssertionError(f"exit code {code}, and on stderr: {' | '.join(lines)[:300]}")
        raise CommandError(lines[0])


def command(rng: random.Random) -> Case:
    seed = rng.random()
    words = rng.choice(
        [
            ["fit", "FILE", "--label", "label", "--out", "OUT", "--method", "elkan-noto"],
            ["prior", "FILE", "--label", "label"],
            ["score", "FILE", "FILE", "--out", "OUT.csv"],
            ["rank", "FILE", "FILE"],
            ["report", "FILE"],
            ["review", "FILE", "--show"],
            ["bench", "show", "demo", "--rows", "FILE"],
            ["bench", "run", rng.choice(["", "x", "dem"])],
            ["bench", "show", "demo", "--format", "x"],
            ["demo", "--out", "GOOD/x.html"],
            ["demo", "--trials", rng.choice(["0", "-1", "x"])],
            ["fit", "GOOD", "--label", rng.choice(["", "lable", "a"]), "--out", "OUT"],
            ["fit", "GOOD", "--label", "label", "--out", "GOOD/x"],
            ["fit", "GOOD", "--label", "label", "--out", "OUT", "--prior", rng.choice(["0", "1", "x", "", "0.9:0.1"])],
            ["fit", "GOOD", "--label", "label", "--out", "OUT", rng.choice(["--top", "--budget", "--costs"]), "-1"],
            ["fit", "GOOD", "--label", "label", "--out", "OUT", rng.choice(["--id", "--drop", "--weight"]), "label"],
            ["fit", "GOOD", "--label", "label", "--out", "OUT", "--seed", rng.choice(["-1", "x", "1e9"])],
            ["fit", "GOOD", "--label", "label", "--out", "OUT", "--method", rng.choice(["pn", "", "x", "pubn"])],
            ["score", "OUT", "GOOD", "--out", rng.choice(["OUT.txt", "GOOD/x.csv", "OUT.csv"])],
            [rng.choice(["fitt", "--x", "fit", "score"])],
        ]
    )  # fmt: skip

    def call() -> None:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            (folder / "bad").mkdir()
            _, file = broken_file(random.Random(seed), folder / "bad")
            TABLE.write_csv(folder / "good.csv")
            names = {"FILE": str(file), "OUT": str(folder / "out"), "GOOD": str(folder / "good.csv")}
            filled = []
            for word in words:
                for name, path in names.items():
                    word = word.replace(name, path)
                filled.append(word)
            run(*filled)
            assert words[0] in ("fit", "prior"), "it was taken"

    with tempfile.TemporaryDirectory() as place:
        kind, file = broken_file(random.Random(seed), Path(place))
    surely = "FILE" not in words[1:2] or words[0] not in ("fit", "prior") or kind not in MAY_BE_RIGHT
    return Case(f"pulab {' '.join(words)} ({file.name}: {kind})", call, surely)


KINDS = (
    parameter,
    parameter,
    prior,
    rows,
    labels,
    predict,
    predict,
    metric,
    metric,
    function,
    function,
    loader,
    texts,
    table,
    command,
)


# The count ------------------------------------------------------------------------------------------------------------


def outcome(case: Case) -> str:
    """``refused``, ``works``, or what went wrong."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            case.call()
        except PulabError as error:
            text = str(error)
            return "refused" if text and "\n" not in text and len(text) < LONGEST else f"a long message: {text!r}"
        except BaseException as error:
            return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return "taken, but bad" if case.bad else "works"


def draw(rng: random.Random) -> Case:
    """A case of any kind."""
    return rng.choice(KINDS)(rng)


def torture(n: int, seed: int) -> dict[str, Any]:
    """Count how n cases end."""
    counts: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    start = time.perf_counter()
    for number in range(n):
        rng = random.Random(f"{seed}-{number}")
        kind = rng.choice(KINDS)
        case = kind(rng)
        end = outcome(case)
        kinds[kind.__name__] += 1
        counts[end if end in ("refused", "works") else "other"] += 1
        if end not in ("refused", "works"):
            print(f"{number}: {case.what}: {end}", flush=True)
    return {
        "topic": "bad inputs",
        "cases": n,
        "refused": counts["refused"],
        "works": counts["works"],
        "other": counts["other"],
        "kinds": dict(sorted(kinds.items())),
        "seed": seed,
        "seconds": round(time.perf_counter() - start),
        "commit": commit(),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("n", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dry", action="store_true", help="print the counts, write no row")
    arguments = parser.parse_args()
    os.environ.pop("PULAB_DEBUG", None)
    torch.set_num_threads(1)
    row = torture(arguments.n, arguments.seed)
    print(json.dumps(row))
    if not arguments.dry:
        with ROWS.open("a") as file:
            file.write(json.dumps(row) + "\n")
    sys.exit(row["other"] > 0)
