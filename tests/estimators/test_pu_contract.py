"""What every registered method promises, beyond scikit-learn's checks."""

import pickle
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from pulab import JointPUClassifier, NNPUClassifier, PNClassifier, PulabWarning
from pulab._scaling import Scaler
from pulab.methods import METHODS
from tests.conftest import Blobs

KEYS = [key for key, method in METHODS.items() if method.is_network and not method.needs_negatives]


def make(key: str, **params: Any) -> Any:
    method = METHODS[key]
    told = {"prior": 0.4} if method.needs_prior else {}
    return method.load()(**{**told, "epochs": 3, "device": "cpu", "random_state": 0, **params})


def labels_for(key: str, data: Blobs) -> Any:
    return data.y_true if METHODS[key].learns_from_truth else data.s


def same_weights(a: Any, b: Any) -> bool:
    pairs = zip(a.module_.state_dict().values(), b.module_.state_dict().values(), strict=True)
    return all(torch.equal(x, y) for x, y in pairs)


@pytest.mark.parametrize("scenario", ["case-control", "single-sample"])
@pytest.mark.parametrize("key", [key for key in KEYS if key not in ("naive", "pn")])
def test_learns_separable_pu_data(key: str, scenario: str) -> None:
    data, unseen = Blobs(scenario), Blobs(scenario, seed=1)
    epochs = None if scenario == "case-control" else 40  # the default number once, which takes a few seconds
    clf = make(key, scenario=scenario, epochs=epochs).fit(data.X, data.s)
    assert clf.score(unseen.X, unseen.y_true) > 0.95


@pytest.mark.parametrize("scenario", ["case-control", "single-sample"])
@pytest.mark.parametrize("key", KEYS)
def test_same_seed_same_bits_however_the_rows_are_interleaved(key: str, scenario: str) -> None:
    blobs = Blobs(scenario)
    y = labels_for(key, blobs)
    mixed = make(key, scenario=scenario).fit(blobs.X, y)
    again = make(key, scenario=scenario).fit(blobs.X, y)
    assert same_weights(mixed, again)
    assert mixed.history_ == again.history_
    p, u = np.flatnonzero(y == 1), np.flatnonzero(y == 0)
    for order in (np.concatenate([p, u]), np.concatenate([u, p])):
        other = make(key, scenario=scenario).fit(blobs.X[order], y[order])
        assert same_weights(mixed, other)
        if hasattr(mixed, "pseudo_labels_"):
            assert np.array_equal(mixed.pseudo_labels_, other.pseudo_labels_)
    assert not same_weights(mixed, make(key, scenario=scenario, random_state=1).fit(blobs.X, y))


@pytest.mark.parametrize("key", KEYS)
def test_outputs_agree_with_each_other(key: str, blobs: Blobs) -> None:
    clf = make(key).fit(blobs.X, labels_for(key, blobs))
    far = np.concatenate([blobs.X, np.full((1, 5), 1e30), np.full((1, 5), -1e30)])
    proba, g = clf.predict_proba(far), clf.decision_function(far)
    assert proba.shape == (len(far), 2)
    assert ((proba >= 0) & (proba <= 1)).all()
    assert np.allclose(proba.sum(axis=1), 1)
    assert np.array_equal(clf.predict(far), clf.classes_[(proba[:, 1] > 0.5).astype(int)])
    assert np.array_equal(g > 0, proba[:, 1] > 0.5)


@pytest.mark.parametrize("key", KEYS)
def test_clone_and_pickle(key: str, blobs: Blobs) -> None:
    clf = make(key, module=lambda_free_module).fit(blobs.X, labels_for(key, blobs))
    assert clone(clf).get_params() == clf.get_params()
    assert np.array_equal(pickle.loads(pickle.dumps(clf)).predict_proba(blobs.X), clf.predict_proba(blobs.X))


def lambda_free_module() -> nn.Module:
    return nn.Linear(5, 1)


def test_threads_get_the_same_bits_and_leave_nothing_behind(blobs: Blobs) -> None:
    torch.set_num_threads(2)
    try:
        with ThreadPoolExecutor(4) as pool:
            others = pool.map(lambda seed: make("joint", random_state=seed % 2).fit(blobs.X, blobs.s), range(8))
            make("nnpu", epochs=1).fit(blobs.X, blobs.s)  # over before the others are
            assert torch.get_num_threads() == 2  # the number is each thread's own
            fitted = list(others)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    alone = [make("joint", random_state=seed).fit(blobs.X, blobs.s) for seed in range(2)]
    assert all(same_weights(clf, alone[i % 2]) for i, clf in enumerate(fitted))


@pytest.mark.parametrize("key", ["joint", "pubn-n"])
def test_the_callers_default_device_changes_nothing(key: str, blobs: Blobs) -> None:
    clf = make(key, module=nn.Sequential(nn.Linear(5, 4), nn.Dropout(0.3), nn.Linear(4, 1)))
    with torch.device("meta"):  # whatever is made without a device would hold no numbers
        there = clone(clf).fit(blobs.X, blobs.s)
    assert same_weights(there, clf.fit(blobs.X, blobs.s))


def test_fit_learns_inside_no_grad_too(blobs: Blobs) -> None:
    with torch.inference_mode():
        clf = make("joint").fit(blobs.X, blobs.s)
    assert same_weights(clf, make("joint").fit(blobs.X, blobs.s))


def test_an_interrupted_fit_is_no_fit(blobs: Blobs) -> None:
    class Interrupted(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.training:
                raise KeyboardInterrupt
            return super().forward(x)

    clf = make("joint", module=Interrupted(5, 1))
    with pytest.raises(KeyboardInterrupt):
        clf.fit(blobs.X, blobs.s)
    assert not [name for name in vars(clf) if name.endswith("_")]


def test_global_state_is_left_alone(blobs: Blobs) -> None:
    net = nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    np.random.seed(5)  # noqa: NPY002
    torch_before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    make("joint", module=net).fit(blobs.X, blobs.s)
    assert torch.equal(torch.get_rng_state(), torch_before)
    assert np.array_equal(np.random.get_state()[1], numpy_before)  # noqa: NPY002


@pytest.mark.filterwarnings("ignore:.*is taken as the label:pulab.PulabWarning")
def test_every_kind_of_label_is_read(blobs: Blobs) -> None:
    pl = pytest.importorskip("polars")
    s = blobs.s
    kinds: dict[str, tuple[Any, Any, Any]] = {
        "bool": (s == 1, False, True),
        "signed": (np.where(s == 1, 1, -1), -1, 1),
        "nan": (np.where(s == 1, 1.0, np.nan), 0.0, 1.0),
        "none": (np.where(s == 1, True, None), False, True),
        "words": (np.where(s == 1, "yes", "no"), "no", "yes"),
        "word or none": (np.where(s == 1, "churned", None), "not churned", "churned"),
        "pandas": (pd.Series(np.where(s == 1, 1, 0)).astype("Int64").replace(0, pd.NA), 0, 1),
        "pandas boolean": (pd.array(s == 1, dtype="boolean"), False, True),
        "polars": (pl.Series(np.where(s == 1, 1, None).tolist()), 0, 1),
        "list": (s.tolist(), 0, 1),
    }
    plain = make("nnpu").fit(blobs.X, s)
    for name, (y, negative, positive) in kinds.items():
        clf = make("nnpu").fit(blobs.X, y)
        assert same_weights(plain, clf), name
        assert clf.classes_.tolist() == [negative, positive], name
        assert set(clf.predict(blobs.X).tolist()) <= {negative, positive}, name


def test_words_that_sort_the_wrong_way_are_pointed_out(blobs: Blobs) -> None:
    with pytest.raises(ValueError, match="known positives, but here that is 'unlabeled '"):
        make("nnpu").fit(blobs.X, np.where(blobs.s == 1, "positive", "unlabeled "))
    with pytest.warns(PulabWarning, match="'ok' is taken as the label of the known positives"):
        make("nnpu").fit(blobs.X, np.where(blobs.s == 1, "fraud", "ok"))
    with pytest.raises(ValueError, match="mixes words and numbers"):
        make("nnpu").fit(blobs.X, mixed(blobs.s))


def mixed(s: Any) -> Any:
    return np.array([1 if i % 2 else "1" for i in range(sum(s == 1))] + [0] * sum(s == 0), dtype=object)


def test_frames_and_sparse_matrices(blobs: Blobs) -> None:
    pl = pytest.importorskip("polars")
    clf = make("joint").fit(blobs.X, blobs.s)
    names = list("abcde")
    for frame in (pd.DataFrame(blobs.X, columns=names), pl.DataFrame(blobs.X, schema=names)):
        framed = make("joint").fit(frame, blobs.s)
        assert np.array_equal(framed.predict_proba(frame), clf.predict_proba(blobs.X))
        assert framed.feature_names_in_.tolist() == names
    holey = np.where(np.abs(blobs.X) < 1, 0, blobs.X)
    own = nn.Linear(5, 1)  # a module of one's own gets X as it is, so that sparse and dense must agree
    dense = make("joint", module=own).fit(holey, blobs.s)
    for kind in (sparse.csr_matrix, sparse.csc_array, sparse.coo_array):
        other = make("joint", module=own).fit(kind(holey), blobs.s)
        assert np.array_equal(other.predict_proba(kind(holey)), dense.predict_proba(holey))
    wide = sparse.csr_array(holey)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    scaled = make("joint", epochs=None).fit(wide, blobs.s)
    assert (scaled.predict(wide) == blobs.y_true).mean() > 0.9
    assert np.allclose(scaled.decision_function(holey), scaled.decision_function(wide))
    on_dense = make("joint").fit(holey, blobs.s)  # fitted dense, scored sparse, and the other way round
    assert np.allclose(on_dense.decision_function(holey), on_dense.decision_function(wide))


def test_a_wide_sparse_matrix_is_never_dense() -> None:
    """2,000 × 200,000 would be 1.6 GB as float32; as CSR it is a few hundred kilobytes."""
    rng = np.random.default_rng(0)
    X = sparse.random_array((2000, 200_000), density=1e-5, rng=rng, format="csr")
    s = (np.arange(2000) < 100).astype(int)
    small = nn.Sequential(nn.Linear(200_000, 1))
    tracemalloc.start()
    make("joint", module=small, epochs=1, e_start=1).fit(X, s)
    Scaler.fit(X, np.arange(2000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200e6


def test_pipeline_and_grid_search(blobs: Blobs) -> None:
    pipeline = make_pipeline(StandardScaler(), make("joint"))
    assert pipeline.fit(blobs.X, blobs.s).predict(blobs.X).shape == blobs.s.shape
    search = GridSearchCV(make("joint"), {"alpha": [1.0, 10.0], "init": ["prior", "negative"]}, cv=2)
    scores = search.fit(blobs.X, blobs.s).cv_results_["mean_test_score"]
    assert scores.shape == (4,)
    assert np.isfinite(scores).all()


def test_scaling_makes_units_irrelevant(blobs: Blobs) -> None:
    """Metres or millimetres, centred or not: the default net sees the same table."""
    a = make("joint", epochs=None).fit(blobs.X, blobs.s)
    stretched = blobs.X * [1e-6, 1, 1e3, 1e9, 1] + [0, 1e3, 0, -1e12, 5]
    for other in (stretched, blobs.X * 1e300, blobs.X * 1e-300):
        b = make("joint", epochs=None).fit(other, blobs.s)
        assert (a.predict(blobs.X) == b.predict(other)).mean() > 0.99


def test_the_oracle_scales_by_all_rows() -> None:
    """A feature that is constant among negatives, and tiny, still tells the classes apart."""
    y = (np.arange(200) < 100).astype(int)
    X = np.where(y == 1, 1e-4, 0.0)[:, None]
    assert PNClassifier(random_state=0, epochs=30).fit(X, y).score(X, y) == 1


class Net(nn.Module):
    """A user's net: BatchNorm, dropout, a buffer, an output of shape (n,)."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x).squeeze(-1)


@pytest.mark.parametrize("key", KEYS)
def test_a_net_of_the_users_own(key: str, blobs: Blobs) -> None:
    net = Net()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    clf = make(key, module=net, epochs=40, lr=0.01, batch_size_u=31).fit(blobs.X, labels_for(key, blobs))
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    assert not clf.module_.training
    if key not in ("naive", "pn"):
        assert clf.score(blobs.X, blobs.y_true) > 0.9
    assert isinstance(make(key, module=Net).fit(blobs.X, labels_for(key, blobs)).module_, Net)


def test_images_of_any_size() -> None:
    rng = np.random.default_rng(0)
    y = np.array([1] * 30 + [0] * 90)
    for shape in ((1, 8, 8), (3, 17, 5), (2, 1, 1)):
        X = rng.integers(0, 255, size=(120, *shape), dtype=np.uint8)
        clf = make("joint").fit(X, y)
        assert clf.predict_proba(X).shape == (120, 2)
        with pytest.raises(ValueError, match="rows of shape"):
            clf.predict(X[..., :-1] if shape[-1] > 1 else np.repeat(X, 2, axis=-1))


def test_an_explicit_validation_set_chooses_the_epoch(blobs: Blobs) -> None:
    other = Blobs("case-control", seed=7)
    clf = make("nnpu", epochs=20, calibration=False).fit(blobs.X, blobs.s, X_val=other.X, y_val=other.s)
    risks = [record["val_risk"] for record in clf.history_]
    assert clf.best_epoch_ == 1 + int(np.argmin(risks))
    # The kept module is the one of that epoch: its risk on the validation set, worked out from probabilities.
    p = clf.predict_proba(other.X)[:, 1]
    on_p, on_u = p[other.s == 1], p[other.s == 0]
    risk = 0.4 * (1 - on_p).mean() + max(0.0, on_u.mean() - 0.4 * on_p.mean())
    assert risk == pytest.approx(min(risks), abs=1e-6)


def test_single_sample_counts_p_into_the_population() -> None:
    """The U stream is P and U together: its mean prediction, not that of U alone, meets the prior."""
    data = Blobs("single-sample")
    clf = make("joint", scenario="single-sample", epochs=None).fit(data.X, data.s)
    p = clf.predict_proba(data.X)[:, 1]
    assert p.mean() == pytest.approx(0.4, abs=0.03)
    assert p[data.s == 0].mean() < 0.33  # (0.4·400 − 60) / 340 = 0.29
    assert len(clf.pseudo_labels_) == (data.s == 0).sum()


def test_last_epoch_is_kept_without_validation(blobs: Blobs) -> None:
    clf = make("joint", validation_fraction=0).fit(blobs.X, blobs.s)
    assert clf.best_epoch_ == 3
    assert clf.history_[-1]["val_risk"] is None


def test_what_looks_odd_but_is_right_works(blobs: Blobs, tmp_path: Any) -> None:
    X, s = blobs.X, blobs.s
    np.save(tmp_path / "X.npy", X.astype(np.float32))
    constant = np.concatenate([X, np.full((len(X), 1), 0.1), np.full((len(X), 1), 1e7)], axis=1)
    odd: dict[str, Any] = {
        "one feature": X[:, :1],
        "constant features": constant,
        "all constant": np.ones((len(X), 2)),
        "float16": X.astype(np.float16),
        "integers": (X * 10).astype(np.int8),
        "read-only memmap": np.load(tmp_path / "X.npy", mmap_mode="r"),
        "negative strides": X[::-1, ::-1][::-1],
        "Fortran order": np.asfortranarray(X),
    }
    for name, rows in odd.items():
        assert np.isfinite(make("joint").fit(rows, s).predict_proba(rows)).all(), name
    assert make("joint", batch_size_u=10**6, batch_size_p=500).fit(X, s).best_epoch_ >= 1
    norm = nn.Sequential(nn.Linear(5, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    assert make("joint", module=norm, batch_size_u=1).fit(X[:41], s[:41])  # a batch of one U and one P
    single = s * (np.cumsum(s) == 1)
    with pytest.warns(PulabWarning, match="only one labelled positive"):
        make("joint").fit(X, single)
    one_unlabeled = np.ones_like(s)
    one_unlabeled[3] = 0
    assert len(make("joint").fit(X, one_unlabeled).pseudo_labels_) == 1


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"s": np.ones(460)}, "every row is labelled positive"),
        ({"s": np.zeros(460)}, "every row is unlabeled"),
        ({"s": np.full(460, np.nan)}, "every row is unlabeled"),
        ({"s": np.arange(460) % 3}, "Only binary classification"),
        ({"s": np.where(np.arange(460) % 3, np.arange(460) % 3 - 1.0, np.nan)}, "missing"),
        ({"s": np.zeros((460, 2))}, "1d array"),
        ({"s": np.zeros(17)}, "inconsistent numbers of samples"),
        ({"X": np.full((460, 5), np.nan)}, "NaN"),
        ({"X": np.full((460, 5), np.inf)}, "infinity"),
        ({"X": np.full((460, 5), 1j)}, "Complex data"),
        ({"X": np.full((460, 5), "a")}, "could not convert|dtype"),
        ({"X": np.zeros((460, 5, 2))}, "no default net"),
        ({"X": np.zeros((0, 5)), "s": np.zeros(0)}, "0 sample"),
        ({"prior": 0.0}, "strictly between 0 and 1, got 0.0"),
        ({"prior": 1.0}, "strictly between 0 and 1"),
        ({"prior": 1.2}, "got 1.2"),
        ({"prior": float("nan")}, "got nan"),
        ({"prior": "some"}, "got 'some'"),
        ({"epochs": 0}, "epochs must be a whole number"),
        ({"epochs": True}, "epochs must be a whole number"),
        ({"epochs": 2.5}, "epochs must be a whole number"),
        ({"lr": 0.0}, "lr must be"),
        ({"lr": float("inf")}, "lr must be"),
        ({"batch_size_u": 0}, "batch_size_u must be"),
        ({"validation_fraction": 1.0}, "validation_fraction must be"),
        ({"scenario": "both"}, "scenario must be one of 'case-control', 'single-sample', got 'both'"),
        ({"dtype": "int8"}, "dtype must be one of"),
        ({"device": "abacus"}, "device must be"),
        ({"module": nn.Linear(5, 2)}, "one logit per row"),
        ({"module": nn.Linear(4, 1)}, "the module fails on rows of shape"),
        ({"module": nn.LSTM(5, 1)}, "got tuple"),
        ({"module": nn.Linear}, "the module fails on rows of shape"),
        ({"module": nn.Linear(5, 1).requires_grad_(False)}, "parameters to learn"),
        ({"X": np.full((460, 5), np.datetime64("2026-01-01"))}, "X must be numbers"),
        ({"lr_milestones": None}, "lr_milestones must be"),
        ({"device": "meta"}, "device must be"),
        ({"module": lambda: 3}, "module must be"),
        ({"module": 3}, "module must be"),
    ],
)
def test_bad_input_gets_one_clear_error(key: str, change: dict[str, Any], message: str, blobs: Blobs) -> None:
    params = {name: value for name, value in change.items() if name not in ("X", "s")}
    has_prior = "prior" in METHODS[key].load()().get_params()  # a method without one refuses the name itself
    kind, message = (
        (TypeError, "unexpected .* 'prior'") if "prior" in params and not has_prior else (ValueError, message)
    )
    with pytest.raises(kind, match=message):
        make(key, **params).fit(change.get("X", blobs.X), change.get("s", labels_for(key, blobs)))


def test_a_failed_fit_leaves_nothing_of_an_old_one(blobs: Blobs) -> None:
    clf = make("nnpu").fit(blobs.X, blobs.s)
    with pytest.raises(ValueError, match="strictly between"):
        clf.set_params(prior=2).fit(blobs.X * 1000, blobs.s)
    with pytest.raises(NotFittedError):
        clf.predict(blobs.X)


def test_without_a_prior_there_is_a_warning_and_an_impossible_one_is_refused() -> None:
    data = Blobs("single-sample")
    fit = JointPUClassifier.fit.__wrapped__  # type: ignore[attr-defined]  # without the guard of tests/conftest.py
    with pytest.warns(PulabWarning, match=r"no prior was given: taking 0\.5") as caught:
        assert fit(JointPUClassifier(epochs=2), data.X, data.s).prior_ == 0.5
    assert caught[0].filename == __file__  # at the caller's line, not at one of ours
    with pytest.raises(ValueError, match=r"0\.15 of them are labelled already"):
        JointPUClassifier(prior=0.1, scenario="single-sample").fit(data.X, data.s)


def test_what_is_set_after_fit_does_not_change_what_was_learned(blobs: Blobs) -> None:
    clf = make("joint", module=nn.Linear(5, 1)).fit(blobs.X, blobs.s)
    before = clf.predict_proba(blobs.X)
    assert np.array_equal(clf.set_params(dtype="float64", module=None).predict_proba(blobs.X), before)


def test_a_function_that_gives_out_one_module_gets_it_back_unchanged(blobs: Blobs) -> None:
    shared = nn.Linear(5, 1)
    weight = shared.weight.detach().clone()
    clf = make("pubn-n", module=lambda: shared).fit(blobs.X, blobs.s)
    assert torch.equal(shared.weight, weight)
    assert clf.sigma_module_ is not clf.module_


def test_weights_that_are_no_numbers_are_refused(blobs: Blobs) -> None:
    for fraction in (0, 0.2):
        with pytest.raises(RuntimeError, match=r"are not finite|no longer finite"):
            make("nnpu", epochs=1, lr=1e38, validation_fraction=fraction).fit(blobs.X, blobs.s)


def test_bad_validation_sets_are_refused(blobs: Blobs) -> None:
    for given, message in (
        ({"X_val": blobs.X}, "passed together"),
        ({"X_val": blobs.X[:, :2], "y_val": blobs.s}, "2 features"),
        ({"X_val": blobs.X, "y_val": blobs.s - 1}, r"y_val holds \[-1\]"),
        ({"X_val": blobs.X, "y_val": blobs.s * 0}, "y_val has one class: every row is unlabeled"),
    ):
        with pytest.raises(ValueError, match=message):
            NNPUClassifier(prior=0.4, epochs=1).fit(blobs.X, blobs.s, **given)


def test_a_loss_that_is_no_number_stops_the_run_and_says_where(blobs: Blobs) -> None:
    class Breaks(nn.Linear):
        calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += self.training
            return super().forward(x) / float(self.calls != 5)

    with pytest.raises(RuntimeError, match="no longer finite at epoch 2, step 2 of 3"):
        JointPUClassifier(
            prior=0.4, module=Breaks(5, 1), epochs=3, batch_size_u=160, validation_fraction=0, random_state=0
        ).fit(blobs.X, blobs.s)


@pytest.mark.gpu
@pytest.mark.parametrize("key", KEYS)
def test_a_gpu_learns_the_same(key: str, blobs: Blobs) -> None:
    y = labels_for(key, blobs)
    on_gpu = make(key, device="cuda", dtype="float64").fit(blobs.X, y)
    on_cpu = make(key, device="cpu", dtype="float64").fit(blobs.X, y)
    assert on_gpu.device_.type == "cuda"
    assert np.allclose(on_gpu.decision_function(blobs.X), on_cpu.decision_function(blobs.X), atol=1e-8)
    assert next(pickle.loads(pickle.dumps(on_gpu)).module_.parameters()).device.type == "cpu"


@pytest.mark.filterwarnings("ignore:class prior")
@pytest.mark.parametrize("scenario", ["case-control", "single-sample"])
def test_the_prior_can_be_estimated(scenario: str) -> None:
    data = Blobs(scenario, n=1500, n_labeled=200)
    clf = NNPUClassifier(prior="estimate", scenario=scenario, epochs=10, random_state=0, device="cpu")
    clf.fit(data.X, data.s)
    assert clf.prior_ == pytest.approx(data.prior, abs=0.08)
    low, high = clf.prior_interval_
    assert low <= clf.prior_ <= high
    assert clf.score(data.X, data.y_true) > 0.9
    shuffled = np.random.default_rng(0).permutation(len(data.X))
    again = NNPUClassifier(prior="estimate", scenario=scenario, epochs=1, random_state=0, device="cpu")
    in_p_and_u = [np.sort(shuffled[data.s[shuffled] == mark]) for mark in (1, 0)]
    order = np.concatenate(in_p_and_u)  # P first, each in its old order
    assert again.fit(data.X[order], data.s[order]).prior_ == clf.prior_
    told = NNPUClassifier(prior=0.3, scenario=scenario, epochs=1, device="cpu").fit(data.X, data.s)
    assert told.prior_interval_ == (0.3, 0.3)
    with pytest.raises(ValueError, match="or prior='estimate'"):
        NNPUClassifier(prior="guess").fit(data.X, data.s)
