"""Several processes train one model from Parquet files: to the result of one process."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from torch import nn

from pulab import JointPUClassifier, JointViewsPUClassifier, NNPUClassifier, PUbNClassifier, VPUClassifier, fit_parquet
from pulab.errors import DataFormatError, DataNotFoundError, InputError, PriorError
from pulab.training import Share
from pulab.training.ranks import WholeBatchNorm
from tests.conftest import Blobs

COMMON: dict[str, Any] = {"prior": 0.4, "epochs": 4, "dtype": "float64", "random_state": 0, "batch_size_u": 48}


def models() -> list[Any]:

    def small() -> nn.Module:
        return nn.Sequential(nn.Linear(5, 3), nn.Tanh(), nn.Linear(3, 1))

    def normed() -> nn.Module:
        """The second layer has a cumulative mean, and neither weight nor bias."""
        plain = nn.BatchNorm1d(4, momentum=None, affine=False)
        return nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.ReLU(), plain, nn.Linear(4, 1))

    def picture() -> nn.Module:
        """Rows as pictures of one line."""
        convolution = nn.Conv2d(1, 3, (1, 2), bias=False)
        return nn.Sequential(
            nn.Unflatten(1, (1, 1, 5)), convolution, nn.BatchNorm2d(3, momentum=0.3), nn.Flatten(), nn.Linear(12, 1)
        )

    return [
        JointPUClassifier(**COMMON, e_start=2, init="random", r=2),
        JointPUClassifier(**COMMON, e_start=2, scenario="single-sample", batch_size_p=7, lr_warmup=1.0),
        NNPUClassifier(**COMMON, beta=0.0, lr=0.02),  # the clamp acts
        PUbNClassifier(**COMMON),
        # A batch has three rows, so a process often has none of them.
        NNPUClassifier(**{**COMMON, "epochs": 1, "batch_size_u": 2, "batch_size_p": 1}, module=normed),
        JointPUClassifier(**COMMON, e_start=2, batch_size_p=7, module=picture),
        PUbNClassifier(**COMMON, module=normed),
        NNPUClassifier(**COMMON, validation_fraction=0.0, module=small),
    ]


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Blobs]:
    """Four files of unequal lengths, in small row groups. All labelled rows but one lie in the first two files."""
    blobs = Blobs("case-control", n=500)
    order = np.argsort(-blobs.s, kind="stable")
    order = np.r_[order[1:], order[:1]]
    blobs.X, blobs.s, blobs.y_true = blobs.X[order], blobs.s[order], blobs.y_true[order]
    place = tmp_path_factory.mktemp("shards")
    frame = pl.DataFrame({**{f"x{i}": blobs.X[:, i] for i in range(5)}, "s": blobs.s, "id": np.arange(len(blobs.s))})
    for i, rows in enumerate(np.split(np.arange(len(frame)), [50, 70, 300])):
        frame[rows].write_parquet(place / f"{i}.parquet", row_group_size=33)
    return place, blobs


def summary(model: Any) -> dict[str, Any]:
    """Everything that a fit learns."""
    numbers = {name: getattr(model, name) for name in ("pseudo_labels_", "eta_", "best_epoch_") if hasattr(model, name)}
    history = {f"history {name}": [record[name] for record in model.history_] for name in model.history_[0]}
    weights = {f"weights {name}": value.numpy() for name, value in model.module_.state_dict().items()}
    return {name: np.asarray(value, dtype=np.float64) for name, value in (numbers | history | weights).items()}


def alone(i: int, blobs: Blobs) -> dict[str, Any]:
    torch.manual_seed(0)
    return summary(models()[i].fit(blobs.X, blobs.s))


def test_one_process_gives_the_bits_of_fit(shards: tuple[Path, Blobs], tmp_path: Path) -> None:
    place, blobs = shards
    for i in range(len(models())):
        torch.manual_seed(0)
        fitted = fit_parquet(models()[i], place, "s", drop=["id"], scratch=tmp_path)
        for name, value in alone(i, blobs).items():
            assert np.array_equal(summary(fitted)[name], value, equal_nan=True), (i, name)
    assert not list(tmp_path.iterdir())
    frame = pl.DataFrame(blobs.X, schema=[f"x{i}" for i in range(5)])
    torch.manual_seed(0)
    np.testing.assert_array_equal(fitted.predict(frame), models()[-1].fit(blobs.X, blobs.s).predict(blobs.X))


PROGRAM = """
import sys, pickle, torch
from pulab import fit_parquet
from tests.estimators.test_parallel import models, summary
found = []
for model in models():
    torch.manual_seed(0)
    found.append(summary(fit_parquet(model, sys.argv[1], "s", drop=["id"])))
    assert not any("forward" in vars(layer) for layer in model.module_.modules())  # plain nn.BatchNorm again
import os
with open(f"{sys.argv[2]}/{os.environ['RANK']}.pickle", "wb") as file:
    pickle.dump(found, file)
"""


def test_two_processes_give_the_result_of_one(shards: tuple[Path, Blobs], tmp_path: Path) -> None:
    """Weights, labels and histories, to 1e-9 in float64. Both processes end with the same bits."""
    import pickle

    place, blobs = shards
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--master-addr=127.0.0.1"]
    command += ["--master-port=0", "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", "--local-addr=127.0.0.1"]
    import pulab

    paths = os.pathsep.join(map(str, (Path(pulab.__file__).parents[1], Path(__file__).parents[2])))
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run(
        [*command, str(tmp_path / "program.py"), str(place), str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    first, second = (pickle.loads((tmp_path / f"{rank}.pickle").read_bytes()) for rank in range(2))
    for i, (one, other) in enumerate(zip(first, second, strict=True)):
        wanted = alone(i, blobs)
        assert one.keys() == wanted.keys()
        for name, value in wanted.items():
            assert np.array_equal(one[name], other[name], equal_nan=True), (i, name)
            np.testing.assert_allclose(one[name], value, rtol=1e-9, atol=1e-9, err_msg=f"{i} {name}")


def test_a_batch_norm_that_cannot_be_repeated_is_refused() -> None:
    class Own(nn.BatchNorm1d):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    for layer, message in (
        (Own(3), "but '1' is a Own with a forward of its own"),
        (nn.BatchNorm1d(3, track_running_stats=False), "'1' has track_running_stats=False"),
    ):
        module = nn.Sequential(nn.BatchNorm1d(3), layer)
        with pytest.raises(InputError, match=message), WholeBatchNorm().inside(module):
            pass
    plain = nn.BatchNorm1d(3)
    before = {**vars(plain)}
    with WholeBatchNorm().inside(plain):
        x = torch.randn(4, 3)
        assert torch.equal(plain.eval()(x), nn.BatchNorm1d(3).eval()(x))
    assert {**vars(plain.train())} == before


def test_a_share_knows_its_own() -> None:
    share = Share.even(1, 3, 8)
    assert share.sizes == (3, 2, 3)
    own, counts = share.split(torch.tensor([[7, 3, 0, 4, 2]]))
    assert own.tolist() == [[0, 1]]
    assert counts == (2, 2, 1)
    assert [Share.even(rank, 3, 8).own for rank in range(3)] == [slice(0, 3), slice(3, 5), slice(5, 8)]
    assert Share.even(0, 4, 2).sizes == (0, 1, 0, 1) or sum(Share.even(0, 4, 2).sizes) == 2


def test_rows_larger_than_memory_stay_on_the_disk(tmp_path: Path) -> None:
    """A process that may hold 200 MB more than it has after its imports fits 240 MB of rows."""
    program = f"""
import resource, numpy as np, pyarrow as pa, pyarrow.parquet as pq, torch
from pulab import NNPUClassifier, fit_parquet
torch.set_num_threads(1)
rng = np.random.default_rng(0)
n, d = 20_000, 500
writer = None
for part in range(3):
    x = rng.normal(size=(n, d)).astype(np.float32)
    table = pa.table({{**{{f"x{{i}}": x[:, i] for i in range(d)}}, "s": (x[:, 0] > 1.5).astype(int)}})
    writer = writer or pq.ParquetWriter("{tmp_path}/t.parquet", table.schema)
    writer.write_table(table, row_group_size=5000)
writer.close()
del x, table, writer
small = NNPUClassifier(prior=0.3, epochs=1, batch_size_u=512, random_state=0, dtype="float64")
pages = [int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmData")][0] * 1024
resource.setrlimit(resource.RLIMIT_DATA, (pages + 200 * 2**20,) * 2)
fit_parquet(small, "{tmp_path}/t.parquet", "s", scratch="{tmp_path}")
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=200)


def test_what_cannot_be_fitted_is_told(shards: tuple[Path, Blobs], tmp_path: Path) -> None:
    place, _ = shards
    nnpu = NNPUClassifier(**COMMON)
    frame = pl.read_parquet(place / "2.parquet").with_columns(s=pl.int_range(pl.len()) % 2)
    frame.with_columns(word=pl.lit("a")).write_parquet(tmp_path / "word.parquet")
    frame.with_columns(x1=pl.lit(None, pl.Float64)).write_parquet(tmp_path / "gap.parquet")
    frame.drop("x1").write_parquet(tmp_path / "less.parquet")
    (tmp_path / "no.parquet").write_text("no")
    for given, error, message in (
        ({"estimator": VPUClassifier()}, InputError, "takes joint, nnpu, upu and pubn, got VPU"),
        ({"estimator": JointViewsPUClassifier(prior=0.4)}, InputError, "got JointViews"),
        ({"estimator": NNPUClassifier(prior="estimate")}, PriorError, "prior must be a number"),
        ({"estimator": NNPUClassifier(**COMMON, checkpoint=tmp_path)}, InputError, "keeps no checkpoint"),
        ({"table": tmp_path / "nothing*"}, DataNotFoundError, "no Parquet files"),
        ({"table": tmp_path / "no.parquet"}, DataFormatError, "cannot be read as a Parquet file"),
        ({"table": tmp_path / "word.parquet"}, InputError, "must be numbers, but 'word' is large_string"),
        ({"table": tmp_path / "gap.parquet"}, InputError, "'x1' has missing"),
        ({"table": [place / "0.parquet", tmp_path / "less.parquet"]}, DataFormatError, "has no column 'x1'"),
        ({"label": "t"}, InputError, "has no column 't'"),
    ):
        with pytest.raises(error, match=message):
            fit_parquet(**{"estimator": nnpu, "table": place, "label": "s", **given})  # type: ignore[arg-type]
