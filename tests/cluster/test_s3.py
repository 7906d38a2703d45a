"""Tables and scores at addresses, against a server: read, write, go on, and one clear error for all that fails."""

import json
import shutil
import socket
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pulab.errors import DataNotFoundError, InputError
from pulab.tables import TableModel, batches, check_target, fit_table, score_on_ray
from pulab.tables._parts import parts_of
from pulab.tables._places import Place, files_of
from tests.cluster.conftest import TwoMachines
from tests.cluster.s3 import S3

KEYS = ["t/day=2024-01-01%2009%3A00/a b.parquet", "t/day=2/a.parquet", "t/day=10/a#1.parquet"]


def rows(n: int, seed: int) -> pl.DataFrame:
    x = np.random.default_rng(seed).normal(size=(n, 2))
    return pl.DataFrame({"name": [f"{seed}-{i}" for i in range(n)], "x0": x[:, 0], "x1": x[:, 1]})


def store(s3: S3, place: Path) -> None:
    """The same table on this machine and at s3://bucket/t. One file has a name that needs escapes in an address."""
    for i, key in enumerate(KEYS):
        (place / key).parent.mkdir(parents=True)
        rows(100 + i, i).write_parquet(place / key)
        s3.objects["bucket"][key] = (place / key).read_bytes()
    for key in ("t/_SUCCESS", "t/.x.parquet", "t/_delta/y.parquet", "t/notes.txt", "other.parquet"):
        s3.objects["bucket"][key] = b"no table"


def test_a_table_at_an_address_is_that_of_this_machine(s3: S3, tmp_path: Path) -> None:
    store(s3, tmp_path)
    whole = list(batches(tmp_path / "t", ["x1", "day"]))
    for address in ("s3://bucket/t", "s3://bucket/t/", "s3://bucket/t/**/*.parquet", "s3://bucket/t/day=*/a*.parquet"):
        files, root = files_of(address)
        assert sorted(file.path for file in files) == sorted(f"s3://bucket/{key}" for key in KEYS)
        pieces = [piece for part in parts_of("t", files, root, ["x1", "day"]) for piece in part.pieces(["x1", "day"])]
        assert len(pieces) == len(whole)
        assert all(piece.equals(other) for piece, other in zip(pieces, whole, strict=True))
    for key in KEYS:
        files, root = files_of(f"s3://bucket/{key}")
        assert ([file.path for file in files], root) == ([f"s3://bucket/{key}"], "")
        assert next(iter(parts_of("t", files, root, ["x0"])[0].pieces(["x0"]))).height == 100 + KEYS.index(key)
    assert [file.path for file in files_of("s3://bucket/t/day=1?/*")[0]] == [f"s3://bucket/{KEYS[2]}"]
    with pytest.raises(DataNotFoundError, match="no Parquet files"):  # a star does not reach into folders
        files_of("s3://bucket/t/*.parquet")


def test_a_place_at_an_address_holds_what_was_written(s3: S3) -> None:
    place = Place.of("s3://bucket/out 1%20/")
    assert place.names() == set()
    assert place.read("part") is None
    large = np.random.default_rng(0).bytes(11 * 2**20)  # more than one upload
    for name, content in (("part", large), ("_SUCCESS", b"")):
        place.write(name, content)
        assert place.read(name) == content == s3.objects["bucket"][f"out 1%20/{name}"]
    assert place.names() == {"part", "_SUCCESS"}
    assert not s3.uploads


def test_what_a_store_refuses_is_one_line_with_what_helps(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    s3.objects["bucket"]["t/a.parquet"] = b"no table"
    files, out = files_of("s3://bucket/t")[0], Place("s3://bucket/out")
    for address, message in (
        ("s3://nothing/t", "bucket does not exist. Check the name of the bucket"),
        ("s3://bucket/nowhere", "nowhere"),
        ("s3://bucket/nowhere/*.parquet", "nowhere"),
    ):
        with pytest.raises(DataNotFoundError, match=message) as caught:
            files_of(address)
        assert "Request ID" not in str(caught.value)
    with pytest.raises(InputError, match=r"must be a folder that can be written to: .*Check the name of the bucket"):
        Place("s3://nothing/out").write("a", b"1")
    for address in ("s3://key:secret@bucket/t", "s3://key:secret@bucket/*.parquet"):
        with pytest.raises(InputError, match=r"must have no credentials\. Set AWS_ACCESS_KEY_ID") as refused:
            files_of(address)
        assert "secret@" not in str(refused.value)
    with pytest.raises(InputError, match=r"no options, got endpoint_override\. Set AWS_ENDPOINT_URL"):
        files_of("s3://bucket/t?endpoint_override=localhost:9000")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "another")
    for what in (
        lambda: files_of("s3://bucket/t"),
        lambda: files_of("s3://bucket/t/*.parquet"),
        lambda: parts_of("t", files, "", ["x0"]),
        out.names,
        lambda: out.read("_job.json"),
        lambda: out.write("_job.json", b"1"),
    ):
        with pytest.raises((InputError, DataNotFoundError), match="Check the credentials"):
            what()  # type: ignore[operator]
    with socket.socket() as taken:  # bound, but it does not listen
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(DataNotFoundError, match="Check the network, and AWS_ENDPOINT_URL"):  # after six seconds
            files_of("s3://bucket/t")


def test_without_a_cluster_an_address_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^s3://bucket/t is an address, not a file.*--ray local"):
        next(batches("s3://bucket/t"))
    with pytest.raises(InputError, match="--out is an address"):
        check_target(Path("s3://bucket/scores.parquet"))


def test_a_cluster_scores_from_a_store_to_a_store(machines: TwoMachines, s3: S3, tmp_path: Path) -> None:
    """The machines have the credentials. The endpoint comes with the work."""
    store(s3, tmp_path)
    frame = rows(300, 9)
    labelled = frame.with_columns(s=((pl.col("x0") > 0.5) & (pl.int_range(pl.len()) % 3 > 0)).cast(pl.Int8))
    for prior in (0.3, 0.25):
        fitted = fit_table(labelled, "s", id="name", method="nnpu", prior=prior)
        fitted.save(tmp_path / f"model-{prior}")
    model, out = tmp_path / "model-0.3", "s3://bucket/scores"
    TableModel.load(model).score_file(tmp_path / "t", tmp_path / "alone.parquet")
    assert score_on_ray(model, "s3://bucket/t", out).found == 0

    found = s3.objects["bucket"]
    parts = [f"scores/part-0000{i}.parquet" for i in range(3)]
    assert {key for key in found if key.startswith("scores/")} == {*parts, "scores/_job.json", "scores/_SUCCESS"}
    assert s3.written[0] == "scores/_job.json"
    assert s3.written[-1] == "scores/_SUCCESS"
    scores = pl.concat([pl.read_parquet(found[part]) for part in parts])
    assert scores.equals(pl.read_parquet(tmp_path / "alone.parquet"))
    assert len(json.loads(found["scores/_job.json"])["table"]) == 3

    del found[parts[1]], found["scores/_SUCCESS"]
    s3.written.clear()
    shutil.rmtree(tmp_path / "t")
    assert score_on_ray(model, "s3://bucket/t", out).found == 2
    assert s3.written == [parts[1], "scores/_SUCCESS"]
    assert pl.concat([pl.read_parquet(found[part]) for part in parts]).equals(scores)
    with pytest.raises(InputError, match="has scores of another model or table"):
        score_on_ray(tmp_path / "model-0.25", "s3://bucket/t", out)
    with pytest.raises(InputError, match="lies within the input"):
        score_on_ray(model, "s3://bucket/t", "s3://bucket/t/scores")
