"""Forged model files end in ModelFileError before a library sees them, and a model is replaced in one step."""

import ast
import fcntl
import io
import json
import os
import pickle
import re
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
)
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC, OneClassSVM
from sklearn.tree import DecisionTreeClassifier
from sklearn.tree._tree import Tree

import pulab
from pulab import ElkanNotoClassifier, _files
from pulab._packing._parts import part_of, read_skops
from pulab._packing._skops import dumped
from pulab._packing._skops import loaded as loaded_parts
from pulab.cli._console import write_whole
from pulab.errors import InputError, ModelFileError
from pulab.methods import METHODS
from pulab.persistence import _folder, load_model, save_model
from pulab.tables import TableModel, fit_table

from .conftest import Blobs
from .test_persistence import copied, fitted, signed

ROOT = Path(__file__).parents[1]
BLOBS = Blobs("single-sample")
X, S = BLOBS.X, BLOBS.s


# Parts ----------------------------------------------------------------------------------------------------------------


def loaded(raw: bytes) -> Any:
    return loaded_parts(read_skops(part_of(raw)))


def wider(tree: Tree, feature: int) -> Tree:
    """The same tree, which says that it knows 10,000 features and uses one of them."""
    state = tree.__getstate__()
    state["nodes"]["feature"][0] = feature
    other = Tree(10_000, np.array([tree.n_classes[0]], dtype=np.intp), 1)
    other.__setstate__(state)
    return other


def lie_in_tree(model: Any) -> None:
    model.tree_ = wider(model.tree_, 9_999)


def lie_in_forest(model: Any) -> None:
    tree = model.estimators_[0]
    tree.tree_, tree.n_features_in_ = wider(tree.tree_, 9_999), 10_000


def fewer_columns(model: Any) -> None:
    model._max_features -= 1


def lie_in_stages(model: Any) -> None:
    model.estimators_ = np.repeat(model.estimators_, 3, axis=1)


def lie_in_hist(name: str, value: int) -> Callable[[Any], None]:
    def lie(model: Any) -> None:
        model._predictors[0][0].nodes[name][0] = value

    return lie


def lie_in_svc(model: Any) -> None:
    model._n_support = model._n_support * 1000


def lie_in_random_state(model: Any) -> None:
    state = model._random_state.get_state(legacy=False)
    state["state"]["pos"] = 10**6
    model._random_state.set_state(state)


def many_jobs(model: Any) -> None:
    model.n_jobs = 10**6


@pytest.mark.parametrize(
    ("model", "lie"),
    [
        (DecisionTreeClassifier(max_depth=3), lie_in_tree),
        (RandomForestClassifier(n_estimators=2), lie_in_forest),
        (RandomForestClassifier(n_estimators=2), many_jobs),
        (GradientBoostingClassifier(n_estimators=2), lie_in_stages),
        (HistGradientBoostingClassifier(max_iter=2), lie_in_hist("feature_idx", 10**6)),
        (HistGradientBoostingClassifier(max_iter=2), lie_in_hist("is_categorical", 1)),
        (HistGradientBoostingClassifier(max_iter=2), lie_in_hist("left", 10**6)),
        (SVC(), lie_in_svc),
        (OneClassSVM(), lie_in_svc),
        (IsolationForest(n_estimators=2), lie_in_forest),
        (IsolationForest(n_estimators=2), fewer_columns),
        (MLPClassifier(max_iter=2, random_state=0), lie_in_random_state),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_numbers_that_compiled_code_would_follow_are_checked(model: Any, lie: Callable[[Any], None]) -> None:
    model.fit(X, S)
    np.testing.assert_array_equal(loaded(dumped(model)).predict(X), model.predict(X))
    lie(model)
    with pytest.raises(ModelFileError):
        loaded(dumped(model))


def changed(raw: bytes, how: int = zipfile.ZIP_STORED, **members: bytes) -> bytes:
    """A skops file with other members."""
    with zipfile.ZipFile(io.BytesIO(raw)) as file:
        content = {name: file.read(name) for name in file.namelist()} | members
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", how) as file:
        for name, part in content.items():
            file.writestr(name, part)
    return out.getvalue()


def test_sizes_and_types_of_a_skops_file_are_checked_first() -> None:
    raw = dumped(DecisionTreeClassifier(max_depth=2).fit(X, S))
    with zipfile.ZipFile(io.BytesIO(raw)) as file:
        schema = file.read("schema.json").decode()
        name = next(name for name in file.namelist() if name.endswith(".npy"))
        header = file.read(name)[:128]
    bomb = changed(raw, zipfile.ZIP_DEFLATED, **{"0.npy": bytes(2**26)})
    assert len(bomb) < 2**17
    with pytest.raises(ModelFileError, match="is compressed, and could grow"):
        loaded(bomb)
    at = 18  # the sizes of the first member
    with pytest.raises(ModelFileError, match="larger than the file"):
        loaded(raw[:at] + (2**30).to_bytes(4, "little") * 2 + raw[at + 8 :])
    with pytest.raises(ModelFileError, match="another size than its header"):
        loaded(changed(raw, **{name: re.sub(rb"\(\d+,", b"(99999999,", header).ljust(128) + bytes(64)}))
    objects = io.BytesIO()
    np.lib.format.write_array_header_1_0(objects, {"descr": "|O", "fortran_order": False, "shape": (1,)})
    with pytest.raises(ModelFileError, match="has objects"):  # eight bytes would be followed as an address
        loaded(changed(raw, **{name: objects.getvalue() + bytes(8)}))
    for lie_at_end in (raw[: raw.index(b"PK\1\2")], raw[:100], b"", raw.replace(b"PK\1\2", b"PK\3\2")):
        with pytest.raises(ModelFileError):
            loaded(lie_at_end)
    number = re.search(r'"__id__": (\d+)', schema)
    assert number
    for lie in (
        schema.replace("DecisionTreeClassifier", "IsolationForest"),
        schema.replace("ObjectNode", "ConstructorFromReduceNode"),
        schema.replace(f'"__id__": {number[1]}', '"__id__": 0'),
        schema.replace('"protocol": 2', '"protocol": 3'),
        re.sub(r'"file": "\d+\.npy"', f'"file": "{name}"', schema),
    ):
        with pytest.raises(ModelFileError):
            loaded(changed(raw, **{"schema.json": lie.encode()}))


SCHEMA = b'{"protocol": 2, "content": [%s]}'
TEXTS = {
    "lists": SCHEMA % (b"[]," * 170_000 + b"[]"),
    "dicts": SCHEMA % (b'{"abcdef":"ab"},' * 32_000 + b"{}"),
    "words": SCHEMA % (b'"ab",' * 100_000 + b"0"),
    "numbers": SCHEMA % (b"1.5," * 125_000 + b"0"),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_a_text_cannot_fill_the_memory(kind: str, tmp_path: Path) -> None:
    """In a skops file and in the document, 500 KB each. Python counts the memory that it gives."""
    text = TEXTS[kind]
    save_model(fitted("elkan-noto"), tmp_path / "model")
    path = tmp_path / "model" / "model.json"
    document = json.loads(path.read_bytes())
    signed(tmp_path / "model", {**document, "more": json.loads(text)})
    path.write_text(json.dumps(json.loads(path.read_bytes()), separators=(",", ":")))
    skops = changed(dumped(DecisionTreeClassifier(max_depth=2).fit(X, S)), **{"schema.json": text})
    for load, size in ((lambda: loaded(skops), len(skops)), (lambda: load_model(path.parent), path.stat().st_size)):
        if kind in ("lists", "dicts"):
            with pytest.raises(ModelFileError, match="more lists than pulab writes"):
                load()
        peak_of(load)  # imports
        assert peak_of(load) < 18 * size + 2**22


def peak_of(load: Callable[[], Any]) -> int:
    """The most memory that a load takes which is refused, or that loads what nobody reads."""
    tracemalloc.start()
    try:
        with suppress(Exception):  # of any kind: another test has that
            load()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# Folders --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(ElkanNotoClassifier(prior=0.4).fit(X, S), tmp_path_factory.mktemp("saved") / "model")


@pytest.mark.parametrize("odd", ["pipe", "endless", "link", "folder"])
def test_a_part_must_be_a_regular_file_of_the_folder(odd: str, folder: Path, tmp_path: Path) -> None:
    """A pipe would hang, /dev/zero fill the memory, and a link may lead to any file."""
    broken = copied(folder, tmp_path / "model")
    part = broken / "part-0.skops"
    raw = part.read_bytes()
    part.unlink()
    if odd == "pipe":
        os.mkfifo(part)
    elif odd == "endless":
        part.symlink_to("/dev/zero")
    elif odd == "link":
        (tmp_path / "elsewhere").write_bytes(raw)
        part.symlink_to(tmp_path / "elsewhere")
    else:
        part.mkdir()
    with pytest.raises(ModelFileError):
        load_model(broken)


def test_ctrl_c_while_a_part_is_read_is_not_called_damage(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may come when bytes were read and are not in the checksum yet."""

    def interrupted(part: Any) -> None:
        part._file.read(10)
        raise KeyboardInterrupt

    monkeypatch.setitem(_folder.READERS, ".skops", interrupted)
    with pytest.raises(KeyboardInterrupt):
        load_model(folder)


def test_a_part_that_cannot_be_read_is_called_damaged_if_its_checksum_is_wrong(folder: Path, tmp_path: Path) -> None:
    broken = copied(folder, tmp_path / "model")
    part = broken / "part-0.skops"
    part.write_bytes(b"x" * part.stat().st_size)
    with pytest.raises(ModelFileError, match=r"part-0\.skops is cut off or has been changed since it was written"):
        load_model(broken)


def test_a_killed_save_loses_no_model_and_a_reader_beside_it_always_finds_one() -> None:
    """``python benchmarks/torture/models.py --kills 2000`` is the long form."""
    command = [sys.executable, str(ROOT / "benchmarks" / "torture" / "models.py"), "--kills", "20", "--no-row"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    row = json.loads(done.stdout)
    assert (row["kills"], row["failed"], row["leftovers"]) == (20, 0, 0)


def test_a_folder_that_was_replaced_twice_is_not_taken_for_the_first_one(tmp_path: Path) -> None:
    """File systems give the number of a removed folder to a new one, so a reader holds the folder open."""
    (tmp_path / "a").mkdir()
    with _folder._held(tmp_path / "a") as before:
        (tmp_path / "a").rmdir()
        for name in "bcdefgh":
            (tmp_path / name).mkdir()
            assert _folder._identity(tmp_path / name) != before


def test_leftovers_of_killed_saves_are_removed_and_those_of_living_ones_stay(tmp_path: Path) -> None:
    model = fitted("elkan-noto")
    dead, alive = (tmp_path / f".model.writing-{digit * 16}" for digit in "0a")
    for leftover in (dead, alive):
        (leftover / "new").mkdir(parents=True)
    descriptor = os.open(alive, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    save_model(model, tmp_path / "model")
    assert sorted(path.name for path in tmp_path.iterdir()) == [alive.name, "model"]
    os.close(descriptor)
    save_model(model, tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_without_an_exchange_there_are_two_renames_and_the_next_save_mends_a_kill_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = fitted("elkan-noto")
    monkeypatch.setattr(_files, "_exchange", lambda one, other: False)
    for _ in range(2):
        save_model(model, tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    killed = tmp_path / f".model.writing-{'0' * 16}"
    killed.mkdir()
    (tmp_path / "model").rename(killed / "old")
    _files.remove_leftovers(tmp_path / "model")
    assert load_model(tmp_path / "model")
    assert not killed.exists()


def test_a_written_file_follows_no_planted_link(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "report.html.part").symlink_to(victim)
    write_whole(tmp_path / "report.html", "page")
    assert (victim.read_text(), (tmp_path / "report.html").read_text()) == ("mine", "page")
    capsys.readouterr()


def test_threads_that_no_machine_has_are_refused(tmp_path: Path) -> None:
    """OpenMP ends the process if it cannot start them."""
    model = fitted("boosting")
    model.n_jobs = 10**6
    save_model(model, tmp_path / "model")
    with pytest.raises(ModelFileError, match="n_jobs"):
        load_model(tmp_path / "model")


# Tables ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    frame = pl.DataFrame({f"x{i}": X[:, i] for i in range(3)} | {"s": S.astype(int)})
    return fit_table(frame, "s", method="elkan-noto").save(tmp_path_factory.mktemp("table") / "model")


def column(document: dict[str, Any], frame: str, name: str) -> list[Any]:
    columns = document[frame][0] if frame == "draw" else document[frame]
    return next(column for column in columns if column[0] == name)


TABLE_LIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a score is missing": lambda d: column(d, "held_out", "score")[3].append(0),
    "held-out rows are gone": lambda d: d["held_out"].pop(),
    "the table has other rows": lambda d: d["summary"]["table"].update(rows=7),
    "more are labelled": lambda d: d["summary"]["table"].update(labelled=3),
    "a row to review is text": lambda d: column(d, "draw", "row").__setitem__(slice(1, 4), ["text", ["x"] * 3]),
    "bands that fall": lambda d: d["draw"][2].reverse(),
    "bands of words": lambda d: d["draw"].__setitem__(2, ["1", "2"]),
    "bands of too few rows": lambda d: d["draw"][2].__setitem__(-1, d["draw"][2][-1] - 1),
    "a band that is not there": lambda d: d["draw"][1].__setitem__(0, 99),
    "a negative band": lambda d: d["draw"][1].__setitem__(0, -1),
    "more labelled rows than rows": lambda d: d["draw"][3].__setitem__(0, 10**400),
    "no reasons": lambda d: d["draw"].__setitem__(0, [c for c in d["draw"][0] if c[0] != "reason_1"]),
    "a profile of other columns": lambda d: d["profile"]["columns"][0].update(name="y"),
    "a profile that is short": lambda d: d["profile"]["columns"].pop(),
    "no points of review": lambda d: d["summary"].update(review=[]),
    "no histogram": lambda d: d["summary"]["distributions"].update(edges=[]),
    "a decision without a prior": lambda d: d["summary"]["decision"].update(rule="probability", at=0.5),
    "a prior above one": lambda d: d["summary"]["prior"].update(high=3.0),
    "an unknown scenario": lambda d: d["summary"].update(scenario="both"),
    "a column of an unknown kind": lambda d: d["columns"][0].__setitem__(1, "picture"),
    "a label without a name": lambda d: d["label"].__setitem__(0, 3),
}


@pytest.mark.parametrize("lie", TABLE_LIES)
def test_a_forged_table_model_fails_when_it_is_loaded(lie: str, table_folder: Path, tmp_path: Path) -> None:
    assert TableModel.load(table_folder)
    forged = copied(table_folder, tmp_path / "model")
    document = json.loads((forged / "model.json").read_text())
    TABLE_LIES[lie](document)
    signed(forged, document)
    with pytest.raises(ModelFileError):
        TableModel.load(forged)


# No code --------------------------------------------------------------------------------------------------------------

RUN: list[str] = []
WATCHED = ("pickle.find_class", "os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "marshal.loads")
watching = False


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    if watching and event in WATCHED:
        RUN.append(event)


class Canary:
    def __reduce__(self) -> Any:
        return (os.system, ("touch exploded",))


def test_pickles_in_the_place_of_parts_are_never_read(
    folder: Path, table_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python itself reports each name that a pickle looks up. A pickle read on purpose shows that the watch works."""
    monkeypatch.chdir(tmp_path)
    canary = pickle.dumps(Canary())
    array = io.BytesIO()
    np.save(array, np.array([Canary()], dtype=object), allow_pickle=True)
    sys.addaudithook(watch)
    cases: list[tuple[Path, Callable[[Path], Any], str, bytes]] = []
    for origin, load in ((folder, load_model), (table_folder, TableModel.load)):
        load(origin)  # imports
        document = json.loads((origin / "model.json").read_text())
        for name in document["files"]:
            cases.append((origin, load, name, canary))
            if name.endswith(".skops"):
                raw = (origin / name).read_bytes()
                with zipfile.ZipFile(io.BytesIO(raw)) as file:
                    arrays = [member for member in file.namelist() if member.endswith(".npy")]
                cases += [(origin, load, name, changed(raw, **{member: array.getvalue()})) for member in arrays[:3]]
    monkeypatch.setitem(globals(), "watching", True)
    for i, (origin, load, name, raw) in enumerate(cases):
        forged = copied(origin, tmp_path / f"forged-{i}")
        (forged / name).write_bytes(raw)
        signed(forged, json.loads((forged / "model.json").read_text()))
        with pytest.raises(ModelFileError):
            load(forged)
    load_model(folder)
    TableModel.load(table_folder)
    assert RUN == []
    pickle.loads(pickle.dumps(Path("x")))
    assert RUN
    assert not (tmp_path / "exploded").exists()


READERS = r"(_?pickle|cloudpickle|dill|marshal|shelve|joblib|torch|np|numpy)"
READS_PICKLES = re.compile(
    rf"\b{READERS}\.(loads?|open|Unpickler)\b|from {READERS}\S* import .*\b(loads?|Unpickler)\b|allow_pickle=True"
    r"|(?<![.\w])(eval|exec)\("
)


def imported(module: Path) -> set[str]:
    """The names that a file imports, also within functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def test_no_module_that_loading_uses_reads_pickles() -> None:
    left = {"pulab.persistence", "pulab.tables._model"}
    left |= {method.class_path.rpartition(".")[0] for method in METHODS.values()}
    seen: set[str] = set()
    while left:
        name = left.pop()
        path = (ROOT / "src").joinpath(*name.split("."))
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if name in seen or not path.is_file():
            continue
        seen.add(name)
        assert not READS_PICKLES.search(path.read_text()), path
        left |= {one for one in imported(path) if one.startswith("pulab.")}
    assert {"pulab._packing._skops", "pulab.persistence._folder", "pulab.tables._features"} <= seen
    assert READS_PICKLES.search("value = pickle.loads(raw)")


# Short names ----------------------------------------------------------------------------------------------------------


def test_save_and_load_have_short_names_and_load_no_torch_before_they_are_used(folder: Path, tmp_path: Path) -> None:
    assert (pulab.save, pulab.load) == (save_model, load_model)
    model = pulab.load(folder)
    again = pulab.load(pulab.save(model, tmp_path / "model"))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    code = "import sys, pulab; assert 'save' in dir(pulab); assert not {'torch', 'sklearn', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_learner_that_cannot_be_checked_is_not_saved(tmp_path: Path) -> None:
    from sklearn.neighbors import KNeighborsClassifier

    with pytest.raises(InputError, match=r"KNeighborsClassifier.* cannot be saved"):
        save_model(ElkanNotoClassifier(KNeighborsClassifier(), prior=0.4).fit(X, S), tmp_path / "model")
