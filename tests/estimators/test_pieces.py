"""Checkpoints of the methods for tables: a fit that was stopped after any piece ends as an untouched one."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder, StandardScaler

import pulab
from pulab import ElkanNotoClassifier, NNPUClassifier, PositiveKindsClassifier, TwoStepPUClassifier
from pulab.errors import CheckpointError, InputError, PulabWarning
from pulab.estimators._work import Live, Work, _as_state, _of_state, _packed
from pulab.methods import METHODS
from pulab.tables import fit_table
from pulab.training import checkpoint as module
from pulab.training.checkpoint import Checkpoint

TABLES = [key for key, method in METHODS.items() if not method.is_network]


class Stopped(BaseException):
    """As if the process were killed: nothing is saved on the way out."""


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save after every piece."""
    monkeypatch.setattr(module, "SECONDS", 0.0)
    monkeypatch.setattr(module, "SHARE", 1e9)
    monkeypatch.setattr(module, "LEAST", 0.0)


@pytest.fixture
def saves(monkeypatch: pytest.MonkeyPatch) -> Callable[[int | None], list[str]]:
    """Stop a fit when this many saves are done. Gives the positions of the saves since."""
    save_one, seen, left = Checkpoint.save, list[str](), [10**9]

    def save_and_stop(self: Checkpoint, state: Any, position: str) -> bool:
        if left[0] == 0:
            raise Stopped
        left[0] -= 1
        written = save_one(self, state, position)
        seen.append(position)
        return written

    def allow(n: int | None) -> list[str]:
        left[0] = 10**9 if n is None else n
        seen.clear()
        return seen

    monkeypatch.setattr(Checkpoint, "save", save_and_stop)
    return allow


RNG = np.random.default_rng(0)
Y = np.arange(200) < 80
X = RNG.normal(size=(200, 4)) + 1.5 * Y[:, None]
S = (Y & (RNG.random(200) < 0.5)).astype(int)
W = RNG.uniform(0.5, 2, size=200)


def unfitted(key: str, **more: Any) -> Any:
    cls = METHODS[key].load()
    few = {"n_estimators": 4} if hasattr(cls, "n_estimators") else {}
    few |= {"n_jobs": 1} if key == "bagging" else {}  # one piece after the other
    few |= {"propensity_features": [1], "max_rounds": 4} if key == "sar-em" else {}
    return cls(**{"prior": 0.4, "random_state": 0, **few, **more})


CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {key: (key, {}, {}) for key in TABLES} | {
    "estimated prior": ("logistic", {"prior": "estimate"}, {}),
    "weights": ("elkan-noto", {"form": "weights", "scenario": "single-sample"}, {"sample_weight": W}),
    "another classifier": (
        "rank-pruning",
        {"estimator": HistGradientBoostingClassifier(max_iter=3, random_state=0)},
        {},
    ),
    "a pipeline in bags": ("bagging", {"estimator": make_pipeline(StandardScaler(), LogisticRegression())}, {}),
    "bags in threads": ("bagging", {"n_jobs": 2, "n_estimators": 30}, {}),
    "scikit-learn's trees": ("boosting", {"backend": "scikit-learn"}, {}),
    "one held-out part": ("nnpu-boosting", {"num_leaves": None}, {}),
    "told propensities": ("sar-em", {}, {"propensity": W / 2}),
    "ranking": ("sar-em", {"form": "ranking"}, {}),
}


def same(one: Any, other: Any) -> bool:
    arrays = [(one.scores_, other.scores_), (one.predict_proba(X), other.predict_proba(X))]
    arrays.append((one.raw_scores(X), other.raw_scores(X)))
    return all(np.array_equal(a, b, equal_nan=True) for a, b in arrays) and one.prior_ == other.prior_


@pytest.mark.filterwarnings("ignore:class prior")
@pytest.mark.parametrize("case", CASES)
def test_a_fit_that_is_stopped_again_and_again_ends_as_an_untouched_one(
    case: str, tmp_path: Path, saves: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After every piece the process is gone, and another one makes the next piece."""
    key, params, given = CASES[case]
    if case == "one held-out part":
        monkeypatch.setattr("pulab.estimators._boosting.SMALL", 10)
    whole = unfitted(key, **params).fit(X, S, **given)
    stops = 0
    while True:
        seen = saves(1)
        try:
            clf = unfitted(key, **params, checkpoint=tmp_path / "a").fit(X, S, **given)
            break
        except Stopped:
            stops += 1
            assert len(seen) == 1  # every process gets a piece further
            assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert stops >= (1 if case == "one held-out part" else 2)
    assert same(clf, whole)
    if hasattr(whole, "history_"):
        assert clf.history_ == whole.history_
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("key", TABLES)
def test_a_ranking_is_kept_and_is_another_fit(key: str, tmp_path: Path, saves: Any) -> None:
    whole, clf = unfitted(key).fit_ranking(X, S), unfitted(key, checkpoint=tmp_path / "a")
    saves(1)
    try:
        clf.fit_ranking(X, S)
    except Stopped:
        with pytest.raises(CheckpointError, match="whether held-out scores are wanted was False and is True"):
            clf.fit(X, S)
        saves(None)
        clf.fit_ranking(X, S)
    np.testing.assert_array_equal(clf.raw_scores(X), whole.raw_scores(X))
    assert not any(tmp_path.iterdir())


def test_a_piece_is_the_same_after_the_disk() -> None:
    """Its value, and the random numbers after it."""
    for value in ([1.5, None, float("nan")], (np.arange(6.0).reshape(2, 3), "text", True, {"c": 2}), np.float64(0.1)):
        rng = np.random.default_rng(3)
        packed = _packed(Live(value, rng.bit_generator.state))
        tensors: dict[str, Any] = {}
        document = json.loads(json.dumps(module._pack(_as_state(packed), tensors)))
        back = _of_state(module._unpack(document, tensors))
        np.testing.assert_equal(back.content.unpack(back.value), value)
        other = np.random.default_rng(4)
        other.bit_generator.state = back.random
        assert other.random() == rng.random()


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of rows of each fit of Elkan and Noto's classifier."""
    seen: list[int] = []
    fitted = ElkanNotoClassifier._fitted

    def count(self: Any, X: Any, *content: Any) -> Any:
        seen.append(len(X))
        return fitted(self, X, *content)

    monkeypatch.setattr(ElkanNotoClassifier, "_fitted", count)
    return seen


def test_finished_pieces_are_not_made_again(tmp_path: Path, saves: Any, fits: list[int]) -> None:
    clf = unfitted("elkan-noto", checkpoint=tmp_path / "a")
    saves(3)
    with pytest.raises(Stopped):
        clf.fit(X, S)
    assert len(fits) == 4  # the last one was not saved
    saves(None)
    clf.fit(X, S)
    assert len(fits) == 4 + 3


def _stop(self: Checkpoint) -> None:
    raise Stopped


def test_what_a_killed_save_left_is_removed_where_nothing_is_left_to_save(
    tmp_path: Path, saves: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    saves(None)
    clf = unfitted("logistic", checkpoint=tmp_path / "a")
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "remove", _stop)  # killed after the last save
        with pytest.raises(Stopped):
            clf.fit(X, S)
    (tmp_path / ".a.writing-0123456789abcdef").write_bytes(b"half")
    seen = saves(0)
    clf.fit(X, S)
    assert not seen
    assert not any(tmp_path.iterdir())


def test_a_thread_that_is_late_writes_nothing(tmp_path: Path) -> None:
    """Its bag was being made when the fit was interrupted. The next fit may have begun, or be done."""
    work = Work(np.random.default_rng(0), Checkpoint(tmp_path / "a", []))
    with work.kept():
        (early, late) = work.places(2)
        early(lambda: 1)
        assert (tmp_path / "a").exists()
    assert not (tmp_path / "a").exists()
    assert late(lambda: 2) == 2
    assert not any(tmp_path.iterdir())


# Many fits ------------------------------------------------------------------------------------------------------------


def test_a_folder_serves_a_search(tmp_path: Path, fits: list[int]) -> None:
    grid = {"estimator": [LogisticRegression(C=C) for C in (0.1, 1.0)]}
    first = GridSearchCV(unfitted("elkan-noto", checkpoint=tmp_path), grid, cv=2).fit(X, S)
    assert len(list(tmp_path.iterdir())) == 2 * 2 + 1
    assert len(fits) == (2 * 2 + 1) * 6
    second = GridSearchCV(unfitted("elkan-noto", checkpoint=tmp_path), grid, cv=2).fit(X, S)
    assert len(fits) == (2 * 2 + 1) * 6
    assert same(first.best_estimator_, second.best_estimator_)


def test_short_fits_write_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS", 30.0)
    monkeypatch.setattr(module, "LEAST", 100.0)
    unfitted("elkan-noto", checkpoint=tmp_path).fit(X, S)
    assert not any(tmp_path.iterdir())


KINDS = np.where(S == 1, np.where(np.arange(200) % 2, "theft", "fraud"), "")
PRIORS = {"theft": 0.2, "fraud": 0.2}


def of_kinds(base: Any = None, **more: Any) -> PositiveKindsClassifier:
    base = ElkanNotoClassifier() if base is None else base
    return PositiveKindsClassifier(base, priors=PRIORS, unlabeled="", random_state=0, **more)


def bases() -> list[Any]:
    return [
        ElkanNotoClassifier(),
        make_pipeline(StandardScaler(), TwoStepPUClassifier(scenario="single-sample")),
        NNPUClassifier(epochs=1, batch_size_u=100),
    ]


@pytest.mark.parametrize("base", bases(), ids=["cases", "pipeline", "network"])
def test_kinds_are_fitted_once(base: Any, tmp_path: Path, saves: Any) -> None:
    whole, clf = of_kinds(base).fit(X, KINDS), of_kinds(base, checkpoint=tmp_path / "a")
    stops = 0
    while True:
        saves(1)
        try:
            clf.fit(X, KINDS)
            break
        except Stopped:
            stops += 1
            assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert stops >= 4
    np.testing.assert_array_equal(clf.predict_proba(X), whole.predict_proba(X))
    assert not any(tmp_path.iterdir())


def test_kinds_in_a_folder_stay_there(tmp_path: Path, fits: list[int]) -> None:
    of_kinds(checkpoint=tmp_path).fit(X, KINDS)
    assert len(list(tmp_path.iterdir())) == 2
    of_kinds(checkpoint=tmp_path).fit(X, KINDS)
    assert len(fits) == 2 * 6


def test_rows_of_numbers_and_words_in_a_list_can_be_kept(tmp_path: Path) -> None:
    rows = [[x, "high" if x > 0 else "low"] for x in X[:, 0].tolist()]
    base = make_pipeline(OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), ElkanNotoClassifier())
    clf = of_kinds(base, checkpoint=tmp_path / "a").fit(rows, KINDS)
    np.testing.assert_array_equal(clf.predict_proba(rows), of_kinds(base).fit(rows, KINDS).predict_proba(rows))


def test_other_kinds_are_refused(tmp_path: Path, saves: Any) -> None:
    clf = of_kinds(checkpoint=tmp_path / "a")
    saves(2)
    with pytest.raises(Stopped):
        clf.fit(X, KINDS)
    for other, x, y, named in (
        (clf, X + 1, KINDS, "X is not the same"),
        (clf, X, np.where(np.arange(200) == np.flatnonzero(S)[0], "", KINDS), "y is not the same"),
        (
            of_kinds(ElkanNotoClassifier(form="weights"), checkpoint=tmp_path / "a"),
            X,
            KINDS,
            "estimator__form was scale",
        ),
    ):
        with pytest.raises(CheckpointError, match=named):
            other.fit(x, y)
    with pytest.raises(InputError, match="takes no checkpoint"):
        PositiveKindsClassifier(LogisticRegression(), unlabeled="", checkpoint=tmp_path / "b").fit(X, KINDS)
    with pytest.raises(InputError, match="could hold one kind alone"):
        of_kinds(ElkanNotoClassifier(checkpoint=tmp_path / "b", random_state=0)).fit(X, KINDS)
    with pytest.raises(InputError, match="needs random_state"):
        of_kinds(checkpoint=tmp_path / "b").set_params(random_state=None).fit(X, KINDS)
    assert not (tmp_path / "b").exists()


TABLE = pl.DataFrame(np.round(X, 3)).with_columns(known=pl.Series(S))


def fitted_table(**more: Any) -> Any:
    return fit_table(TABLE, "known", **{"prior": 0.4, **more})


def same_model(one: Any, other: Any) -> bool:
    fresh = pl.DataFrame(RNG.normal(size=(50, 4)))
    return bool(one.candidates.equals(other.candidates) and one.score(fresh).equals(other.score(fresh)))


@pytest.mark.parametrize("method", [key for key in TABLES if key != "sar-em"])
def test_pulab_fit_goes_on_with_every_method(
    method: str, tmp_path: Path, saves: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped at the end of the first fit, and then of a later one."""
    monkeypatch.setattr(module, "SECONDS", 1e9)
    whole = fitted_table(method=method)
    for n in (1, 3):
        saves(n)
        with pytest.raises(Stopped):
            fitted_table(method=method, checkpoint=tmp_path / "a")
    seen = saves(None)
    assert same_model(fitted_table(method=method, checkpoint=tmp_path / "a"), whole)
    n_saves = len(seen)
    assert n_saves > 0
    seen = saves(0)  # all fits are found
    assert same_model(fitted_table(method=method, checkpoint=tmp_path / "a"), whole)
    assert not seen


def test_pulab_fit_goes_on_with_auto(tmp_path: Path, saves: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = fitted_table(prior="estimate")
    monkeypatch.setattr(module, "SECONDS", 1e9)
    stops = 0
    while True:
        saves(7)
        try:
            model = fitted_table(prior="estimate", checkpoint=tmp_path / "a")
            break
        except Stopped:
            stops += 1
    assert stops >= 2
    assert same_model(model, whole)
    with pytest.raises(CheckpointError, match=r"prior was estimate and is 0\.4"):
        fitted_table(checkpoint=tmp_path / "a")
    with pytest.raises(CheckpointError, match="the table is not the same"):
        fit_table(TABLE.with_columns(pl.col("column_0") * 2), "known", checkpoint=tmp_path / "a")


# Refused --------------------------------------------------------------------------------------------------------------


def stopped(clf: Any, saves: Any, n: int = 2, x: Any = X, **given: Any) -> None:
    saves(n)
    with pytest.raises(Stopped):
        clf.fit(x, S, **given)
    saves(None)


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "parameter": ({"form": "weights"}, {}, r"form was scale and is weights\. Name another one, or delete it"),
    "prior": ({"prior": 0.3}, {}, r"prior was 0\.4 and is 0\.3"),
    "seed": ({"random_state": 1}, {}, "the seed by random_state was [0-9]+ and is [0-9]+"),
    "classifier": ({"estimator": LogisticRegression(C=2)}, {}, r"estimator__C was 1\.0 and is 2"),
    "in it": ({"estimator": LogisticRegression(class_weight={0: 1, 1: 2})}, {}, r"class_weight was None and is \[\["),
    "X": ({}, {"X": X + (np.arange(200) == 7)[:, None]}, r"X is not the same\."),
    "sparse": ({}, {"X": sparse.csr_array(X)}, r"X is not the same\."),
    "y": ({}, {"y": np.where(np.arange(200) == 199, 1, S)}, r"y is not the same\."),
    "weight": ({}, {"sample_weight": W}, r"sample_weight is not the same\."),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_another_fit_is_refused(kind: str, tmp_path: Path, saves: Any) -> None:
    other, given, named = REFUSED[kind]
    clf = unfitted("elkan-noto", estimator=LogisticRegression(), checkpoint=tmp_path / "a")
    stopped(clf, saves)
    before = (tmp_path / "a").read_bytes()
    with pytest.raises(CheckpointError, match=f"is of another training: .*{named}"):
        clf.set_params(**other).fit(**{"X": X, "y": S, **given})
    assert (tmp_path / "a").read_bytes() == before


def test_what_does_not_change_the_result_is_not_compared(tmp_path: Path, saves: Any) -> None:
    for estimator in (None, make_pipeline(SimpleImputer(missing_values=np.nan), GaussianNB())):
        stopped(unfitted("bagging", n_jobs=1, estimator=estimator, checkpoint=tmp_path / "a"), saves, 1)
        clf = unfitted("bagging", n_jobs=2, estimator=estimator, checkpoint=tmp_path / "a").fit(X, S)
        assert same(clf, unfitted("bagging", estimator=estimator).fit(X, S))


@pytest.mark.parametrize("key", ["elkan-noto", "bagging", "two-step", "rank-pruning"])
def test_a_classifier_that_cannot_be_kept_is_refused_before_the_fit(key: str, tmp_path: Path, fits: list[int]) -> None:
    clf = unfitted(key, estimator=KNeighborsClassifier(3), checkpoint=tmp_path / "a")
    with pytest.raises(InputError, match=r"cannot keep this estimator: .*KNeighbors.*\. Leave checkpoint out"):
        clf.fit(X, S)
    assert not fits
    assert not any(tmp_path.iterdir())


def forged(raw: bytes, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> bytes:
    """Change the content, with a checksum that is right again."""
    document, tensors = module._from_bytes(raw)
    change(document, tensors)
    return module._to_bytes(document, tensors)


def _piece(document: Any, name: str, value: Any) -> None:
    ((_, pieces),) = document["state"]["items"]
    for item in pieces["items"][0][1]["items"]:
        item[1] = value if item[0] == name else item[1]


FORGED: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda raw: raw[: len(raw) // 2],
    "a flipped bit": lambda raw: raw[:-5] + bytes([raw[-5] ^ 1]) + raw[-4:],
    "a pickle": lambda raw: b"\x80\x04}q\x00.",
    "no pieces": lambda raw: forged(raw, lambda d, t: d.update(state={"items": []})),
    "another kind": lambda raw: forged(raw, lambda d, t: _piece(d, "value", {"items": [["net", "x"]]})),
    "no files": lambda raw: forged(raw, lambda d, t: _piece(d, "blobs", {"items": []})),
    "other random numbers": lambda raw: forged(raw, lambda d, t: _piece(d, "random", {"items": []})),
    "other bytes": lambda raw: forged(raw, lambda d, t: t.update({n: v * 0 for n, v in t.items()})),
}


@pytest.mark.parametrize("kind", FORGED)
def test_a_forged_file_gives_one_clear_error(kind: str, tmp_path: Path, saves: Any) -> None:
    clf, place = unfitted("elkan-noto", checkpoint=tmp_path / "a"), tmp_path / "a"
    stopped(clf, saves)
    place.write_bytes(FORGED[kind](place.read_bytes()))
    with pytest.raises(CheckpointError, match=r"the checkpoint .*[^\n] to begin anew\.$") as caught:
        clf.fit(X, S)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("place", ["", 3, "no such folder/a"])
def test_a_place_that_cannot_be_is_refused_at_once(place: Any, fits: list[int]) -> None:
    with pytest.raises(InputError, match="checkpoint must"):
        unfitted("elkan-noto", checkpoint=place).fit(X, S)
    with pytest.raises(InputError, match="needs random_state"):
        unfitted("elkan-noto", checkpoint="a", random_state=None).fit(X, S)
    assert not fits


def test_a_full_disk_stops_no_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.warns(PulabWarning, match="cannot be written: No space left on device. The training goes on"):
        clf = unfitted("logistic", checkpoint=tmp_path / "a").fit(X, S)
    assert same(clf, unfitted("logistic").fit(X, S))


def test_what_a_full_disk_refused_is_saved_when_the_fit_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    work = Work(np.random.default_rng(0), Checkpoint(tmp_path / "a", []))
    with work.kept():
        with monkeypatch.context() as patch:
            patch.setattr("os.fsync", full)
            with pytest.warns(PulabWarning, match="No space left on device"):
                work(lambda: 1)
        assert not (tmp_path / "a").exists()
        assert work.save_now()  # as a signal does
        raw = (tmp_path / "a").read_bytes()
    assert module._from_bytes(raw)[0]["position"] == "1 pieces"


def test_a_saved_model_does_not_name_the_checkpoint(tmp_path: Path) -> None:
    clf = unfitted("logistic", checkpoint=tmp_path / "a").fit(X, S)
    assert pulab.load(pulab.save(clf, tmp_path / "model")).checkpoint is None
    assert "tmp" not in json.dumps(json.loads((tmp_path / "model" / "model.json").read_text())["model"])


# Signals and kills ----------------------------------------------------------------------------------------------------

PROGRAM = """
import os, signal, sys, numpy as np
from pulab import ElkanNotoClassifier
from pulab.training import checkpoint
signal.signal(signal.SIGINT, signal.default_int_handler)
checkpoint.LEAST, checkpoint.SECONDS, checkpoint.SHARE = 0.0, float(sys.argv[2]), 1e9
fitted, calls = ElkanNotoClassifier._fitted, []
def fit(self, *content):
    calls.append(1)
    if len(calls) == 4:
        os.kill(os.getpid(), getattr(signal, sys.argv[3]))
        for _ in range(10**9):
            pass  # the signal does not wait for the end of the piece
    return fitted(self, *content)
ElkanNotoClassifier._fitted = fit
X = np.random.default_rng(0).normal(size=(60, 2))
ElkanNotoClassifier(prior=0.5, checkpoint=sys.argv[1], random_state=0).fit(X, np.arange(60) < 20)
"""


@pytest.mark.parametrize(("name", "seconds"), [("SIGTERM", "1e9"), ("SIGINT", "1e9"), ("SIGKILL", "0")])
def test_a_signal_in_a_piece_keeps_the_finished_ones(name: str, seconds: str, tmp_path: Path, fits: list[int]) -> None:
    """Before the first 30 seconds are over, a signal that can be heard saves. What is killed was saved before."""
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "a"), seconds, name]
    done = subprocess.run(command, check=False, timeout=60, capture_output=True)
    assert done.returncode == -getattr(signal, name), done.stderr
    document, _ = module._from_bytes((tmp_path / "a").read_bytes())
    assert document["position"] == "3 pieces"
    x, s = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) < 20
    clf = ElkanNotoClassifier(prior=0.5, checkpoint=tmp_path / "a", random_state=0).fit(x, s)
    assert len(fits) == 3
    np.testing.assert_array_equal(clf.scores_, ElkanNotoClassifier(prior=0.5, random_state=0).fit(x, s).scores_)


@pytest.mark.usefixtures("saves")
def test_a_signal_in_a_save_waits_for_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    to_bytes, calls = module._to_bytes, []

    def press(*content: Any) -> bytes:
        calls.append(1)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return to_bytes(*content)

    monkeypatch.setattr(module, "_to_bytes", press)
    try:
        with pytest.raises(KeyboardInterrupt):
            unfitted("logistic", checkpoint=tmp_path / "a").fit(X, S)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(calls) == 2
    assert module._from_bytes((tmp_path / "a").read_bytes())[0]["position"] == "2 pieces"
