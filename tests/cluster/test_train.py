"""Ray Train: two workers give the result of one process."""

import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pulab import JointPUClassifier, fit_parquet_on_ray
from pulab.errors import InputError
from tests.cluster.conftest import TwoMachines
from tests.conftest import Blobs

pytestmark = pytest.mark.skipif("PULAB_LONG" not in os.environ, reason="takes a minute: set PULAB_LONG=1")


def test_two_workers_train_what_one_process_trains(machines: TwoMachines, blobs: Blobs, tmp_path: Path) -> None:
    frame = pl.DataFrame({**{f"x{i}": blobs.X[:, i] for i in range(5)}, "s": blobs.s})
    frame.write_parquet(tmp_path / "rows.parquet", row_group_size=100)
    model = JointPUClassifier(prior=0.4, epochs=4, e_start=2, dtype="float64", random_state=0)
    fitted = fit_parquet_on_ray(model, tmp_path, "s", workers=2)
    assert fitted is model
    alone = JointPUClassifier(prior=0.4, epochs=4, e_start=2, dtype="float64", random_state=0).fit(blobs.X, blobs.s)
    np.testing.assert_allclose(fitted.pseudo_labels_, alone.pseudo_labels_, rtol=1e-9, atol=1e-9)
    assert fitted.best_epoch_ == alone.best_epoch_
    assert fitted.score(frame.drop("s"), blobs.y_true) == alone.score(blobs.X, blobs.y_true)
    gaps = frame.with_columns(x1=pl.lit(float("nan")))
    gaps.write_parquet(tmp_path / "gaps.parquet")
    with pytest.raises(InputError, match="'x1' has missing or infinite values"):
        fit_parquet_on_ray(JointPUClassifier(prior=0.4), tmp_path / "gaps.parquet", "s", workers=2)
