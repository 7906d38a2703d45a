"""Tables and pages from rows."""

import re
from typing import Any

import pytest

from pulab.report.html import demo_page
from pulab.report.tables import by_dataset, cells


def rows() -> list[dict[str, Any]]:
    made = []
    for method, errors in (("joint", (1.0, 2.0, 6.0)), ("nnpu", (4.0, 4.0, 4.0))):
        for error in errors:
            epochs = range(1, 6)
            made.append(
                {
                    "dataset": "digits",
                    "method": method,
                    "test_error": error,
                    "recovery_error": 2 * error,
                    "history": {"loss": [1 / epoch for epoch in epochs], "val_risk": [0.2] * 5},
                    "label_histogram": [[10 - epoch] + [0] * 18 + [epoch] for epoch in epochs],
                    "best_epoch": 3,
                    "sampling": {"n_labeled": 50, "n_unlabeled": 1000},
                }
            )
    return made


def test_cells() -> None:
    joint, recovery, *_ = cells(rows())
    assert (joint.mean, joint.n, recovery.mean) == (3.0, 3, 6.0)
    assert joint.std == pytest.approx(7**0.5)  # ((−2)² + (−1)² + 3²) / (3 − 1)
    assert str(joint) == "3.00 ± 2.65"
    assert str(cells(rows()[:1])[0]) == "1.00"


def test_markdown_table() -> None:
    assert by_dataset(rows()).splitlines() == [
        "|  | `joint` | `nnpu` | n |",
        "| --- | --- | --- | --- |",
        "| digits | 3.00 ± 2.65 | 4.00 ± 0.00 | 3 |",
    ]


def test_the_page_stands_alone() -> None:
    page = demo_page(rows())
    assert "3.00 ± 2.65" in page
    assert page.count("<svg") == 4
    fetched = re.findall(r"""(?:src|href)=["'](?!#|data:)([^"']*)|url\((?!['"]?#)([^)]*)|<script|@import|<link""", page)
    assert not fetched
    assert demo_page([row for row in rows() if row["method"] == "nnpu"]).count("<svg") == 2
