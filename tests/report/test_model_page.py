"""The page of a fitted table model."""

import json
import math
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from html import unescape
from html.parser import HTMLParser
from itertools import cycle
from pathlib import Path
from typing import Any, get_args, get_type_hints, is_typeddict

import pytest

from pulab.report.model import model_page
from pulab.report.plots import Scale, line, round_up
from pulab.summary import Summary, check_summary
from tests.report.browser import Browser, program

COLUMNS = {
    "months as customer": 0.061,
    "support calls": 0.048,
    "monthly charge": 0.031,
    "contract": 0.024,
    "last login": 0.019,
    "payment": 0.012,
    "age": 0.008,
    "data used, GB": 0.006,
    "region": 0.002,
    "last note": 0.001,
    "newsletter": -0.0004,
}
KS = [10, 14, 20, 29, 41, 58, 83, 100, 140, 200, 290, 410, 580, 830, 1000, 1400, 2000, 2900, 4100, 5800, 8300, 10000]
KS += [14000, 20000, 29000, 41000, 48210]


def review_point(k: int) -> dict[str, Any]:
    """Precision falls from nearly one to the share of positives among all; recall is what it comes to."""
    hidden = 0.206
    precision = hidden + 0.78 * math.exp(-((k / 9500) ** 1.2))
    recall = precision * k / (hidden * 48210)
    band = [0.82 * precision, min(1.0, 1.2 * precision)]
    return {
        "k": k,
        "precision": precision,
        "precision_low": band[0],
        "precision_high": band[1],
        "recall": recall,
        "recall_low": 0.9 * recall,
        "recall_high": min(1.0, 1.12 * recall),
        "lift": precision / hidden,
        "lift_low": 0.9 * precision / hidden,
        "lift_high": 1.12 * precision / hidden,
    }


def humps(*places: tuple[float, float, float]) -> list[float]:
    """The shares of fifty bins: a sum of bells (weight, middle, width)."""
    heights = [
        sum(w / d * math.exp(-((i / 50 + 0.01 - m) ** 2) / (2 * d * d)) for w, m, d in places) for i in range(50)
    ]
    return [height / sum(heights) for height in heights]


def candidate(rank: int) -> dict[str, Any]:
    return {
        "rank": rank,
        "id": f"c-{10000 + 7919 * rank % 48211}",
        "probability": 0.994 - 0.0017 * rank,
        "probability_low": 0.8 - 0.0017 * rank,
        "probability_high": 1.0,
        "score": 5.1 - 0.041 * rank,
        "decision": True,
        "reasons": [f"support calls = {9 - rank % 6}: strongly for", "contract = one year: against"],
        "stability": max(0.55, 1.0 - 0.05 * (rank // 6)),
        "values": {
            "months as customer": str(2 + rank * 5 % 9),
            "support calls": str(9 - rank % 6),
            "monthly charge": f"{71 + rank * 13 % 40}.90",
            "contract": ("month to month", "month to month", "one year")[rank % 3],
            "last login": f"2026-0{1 + rank % 8}-1{rank % 10}",
        },
    }


def column(name: str, kind: str, missing: float = 0.0, note: str = "") -> dict[str, Any]:
    return {"name": name, "kind": kind, "missing": missing, "note": note}


def metric(name: str, value: float | None, low: float, high: float, more_is_better: bool = True) -> dict[str, Any]:
    return {"name": name, "value": value, "low": low, "high": high, "more_is_better": more_is_better}


SUMMARY: dict[str, Any] = {
    "pulab": "0.1.0",
    "created": "2026-11-15",
    "table": {
        "name": "customers.parquet",
        "rows": 48522,
        "labelled": 312,
        "unlabeled": 48210,
        "label": "churned",
        "positive": "1",
        "id": "customer_id",
        "weight": None,
        "columns": [
            column("customer_id", "left out", 0.0, "names the rows"),
            column("months as customer", "number"),
            column("support calls", "number"),
            column("monthly charge", "number", 0.031),
            column("contract", "category", 0.0, "3 values"),
            column("last login", "date", 0.12),
            column("payment", "category", 0.004, "5 values"),
            column("age", "number", 0.03),
            column("data used, GB", "number", 0.2),
            column("region", "category", 0.0, "27 values"),
            column("last note", "text", 0.71, "words, as 30 numbers"),
            column("newsletter", "category", 0.0, "2 values"),
            column("country", "left out", 0.0, "the same value in every row"),
        ],
    },
    "scenario": "single-sample",
    "labelling": {
        "by": ["region"],
        "strata": [{"name": "region = north", "rows": 900, "labelled": 70, "low": 70.0, "high": 240.0}],
        "what_if": {"column": "age", "times": 3.0, "k": 500, "low": 0.31, "high": 0.62},
    },
    "prior": {
        "low": 0.17,
        "high": 0.26,
        "evident": True,
        "value": 0.21,
        "used": 0.212,
        "source": "estimated",
        "methods": {"dedpul": 0.203, "bbe": 0.221, "tice": 0.194},
        "warnings": [],
        "agree": True,
    },
    "method": {
        "key": "nnpu-boosting",
        "class": "NNPUBoostingClassifier",
        "asked": "auto",
        "why": "nnpu-boosting was chosen: its held-out ranking has the known positives in the first 5.1 %.",
        "compared": [
            {"method": "nnpu-boosting", "depth": 0.0512, "ratio": 1.0, "interval": [1.0, 1.0], "seconds": 3.2},
            {"method": "joint", "depth": 0.0543, "ratio": 1.0605, "interval": [0.912, 1.2341], "seconds": 21.7},
            {"method": "elkan-noto", "depth": 0.0777, "ratio": 1.517, "interval": [1.21, 1.904], "seconds": 0.9},
        ],
        "settings": {
            "learning_rate": 0.1,
            "max_iter": 200,
            "max_leaf_nodes": 31,
            "prior": 0.21,
            "early_stopping": True,
        },
    },
    "decision": {
        "rule": "probability",
        "at": 0.5,
        "why": "A row is called positive if its probability exceeds one half.",
    },
    "folds": 5,
    "metrics": [
        metric("separation", 0.86, 0.83, 0.89),
        metric("roc_auc", 0.931, 0.905, 0.962),
        metric("average_precision", 0.802, 0.7, 0.88),
        metric("precision", 0.71, 0.58, 0.84),
        metric("recall", 0.78, 0.73, 0.82),
        metric("f1", 0.743, 0.65, 0.8),
        metric("accuracy", 0.887, 0.86, 0.9),
        metric("nnpu_risk", 0.104, 0.08, 0.13, more_is_better=False),
    ],
    "distributions": {
        "edges": [i / 50 for i in range(51)],
        "labelled": humps((0.75, 0.95, 0.08), (0.2, 0.6, 0.2), (0.05, 0.1, 0.05)),
        "unlabeled": humps((0.74, 0.02, 0.03), (0.12, 0.25, 0.15), (0.14, 0.93, 0.09)),
    },
    "review": [review_point(k) for k in KS],
    "curves": [
        {
            "name": "held-out PU risk",
            "unit": "trees",
            "values": [0.104 + 0.17 * math.exp(-i / 14) + 9e-7 * max(0, i - 57) ** 2 for i in range(120)],
            "best": 58,
        },
        {
            "name": "training loss",
            "unit": "trees",
            "values": [0.05 + 0.3 * math.exp(-i / 22) for i in range(120)],
            "best": 58,
        },
    ],
    "features": [{"name": n, "importance": v, "std": 0.0006 + abs(v) / 14} for n, v in COLUMNS.items()],
    "wide": "The model learned from 400 columns. Only 11 of them were shuffled one by one.",
    "stability": {"k": 100, "mean": 0.87},
    "candidates": [candidate(rank) for rank in range(1, 51)],
    "warnings": [
        "The labelled rows are 0.6 % of the table. With so few, other folds can move precision by some points.",
        "“last note” is empty in 71 % of the rows; the model hardly uses it.",
    ],
    "seconds": 12.3,
    "random_state": 0,
    "measured": {
        "answers": 120,
        "yes": 31,
        "no": 89,
        "skipped": 4,
        "prior": {"value": 0.19, "low": 0.152, "high": 0.241},
        "prior_if_random": {"value": 0.201, "low": 0.171, "high": 0.233},
        "prior_by_design": {"value": 0.183, "low": 0.112, "high": 0.347},
        "review": [
            {
                "k": 500,
                "precision": 0.91,
                "precision_low": 0.82,
                "precision_high": 0.97,
                "recall": 0.05,
                "recall_low": 0.04,
                "recall_high": 0.06,
            }
        ],
        "calibration": [
            {"first": 101, "last": 500, "answered": 23, "yes": 19, "low": 0.62, "high": 0.95, "expected": 0.9}
        ],
        "random_labelling": {"p_value": 0.31, "rejected": False, "text": "The answers do not speak against it."},
        "before": [0.0064, 0.26],
        "settled": True,
        "enough": True,
        "warnings": ["4 rows were skipped."],
    },
    "reviewed": {"positive": 31, "negative": 69},
}

HOSTILE = [
    "<script>window.pwned = 1</script>",
    "\"><img src=x onerror='window.pwned = 1'>",
    "'><svg onload=window.pwned=1>",
    "</style></title></script><script>window.pwned = 1</script>",
    "{{ 7 * 7 }}{% raw %}",
    "fox 🦊 & 'friends' \"quoted\"",
    "שלום עולם",
    "\N{RIGHT-TO-LEFT OVERRIDE}gpj.exe",
    "half a character: \ud83e",
    "x" * 5000,
    "many words " * 450,
    "",
    "\n\t ",
]


def spoiled(value: Any, texts: Iterator[str], keys: bool = False) -> Any:
    """The same with hostile text wherever there is text, and for the names that the user's columns have."""
    if isinstance(value, dict):
        return {
            f"{key} {next(texts)}" if keys else key: spoiled(item, texts, key in ("methods", "settings", "values"))
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [spoiled(item, texts) for item in value]
    return next(texts) if isinstance(value, str) else value


HOSTILE_SUMMARY = spoiled(SUMMARY, cycle(HOSTILE))
ONE_OF_EACH = {
    key: value[:1] if isinstance(value, list) and key != "metrics" else value for key, value in SUMMARY.items()
} | {
    "scenario": "case-control",
    "prior": {
        "low": 0.004,
        "high": 0.004,
        "evident": False,
        "value": 0.004,
        "used": 0.004,
        "source": "given",
        "methods": {},
        "warnings": ["It was given."],
        "agree": None,
    },
    "distributions": {"edges": [0, 1], "labelled": [1.0], "unlabeled": [1.0]},
    "curves": [{"name": "held-out PU risk", "unit": "epochs", "values": [0.3], "best": 1}],
    "warnings": [],
}


# The same table where the share of positives is not known.
OPEN = SUMMARY | {
    "prior": SUMMARY["prior"] | {"low": 0.0064, "value": None, "evident": False},
    "decision": {"rule": None, "at": None, "why": "No row is called positive: how many there are is not known."},
    "metrics": [
        item | {"value": item["value"] if item["name"] == "separation" else None} for item in SUMMARY["metrics"][:3]
    ]
    + [item | dict.fromkeys(("value", "low", "high")) for item in SUMMARY["metrics"][3:]],
    "review": [point | {"precision": None, "precision_low": 0.0} for point in SUMMARY["review"]],
    "candidates": [
        row | {"probability": None, "probability_low": 0.01, "decision": None} for row in SUMMARY["candidates"]
    ],
}


def test_the_headline_where_the_share_is_known() -> None:
    page = text(model_page(SUMMARY))
    assert "From 312 known positives and 48,210 unlabeled rows: about 21 % of all rows are positive." in page
    # 0.17 and 0.26 of 48,522 rows are 8,249 and 12,616; 312 of them are known.
    assert "Positive means churned = 1. 7,900 to 12,000 positives are still hidden" in page
    assert "About 98 of the first 100 candidates are positive (81 to 100)." in page
    assert "Nobody has checked that." in text(model_page(SUMMARY | {"measured": None}))
    assert "Calling every row negative gives 74 to 83 %." in page
    for heading in ("How many positives", "How far down", "first candidates", "How good", "Which columns matter"):
        assert heading in page
    assert "joint5.4 %1.060.912 to 1.2322" in page.replace("\N{NO-BREAK SPACE}", " ")  # depth, ratio, interval, seconds


def test_the_headline_where_only_a_range_is_known() -> None:
    """No figure that rests on the share of positives stands there as a number."""
    page = text(model_page(OPEN))
    point = next(point for point in OPEN["review"] if point["recall"] >= 0.45)
    share = f"{100 * point['recall']:.0f} %" if abs(point["recall"] - 0.5) > 0.05 else "half"
    assert f"The first {point['k']:,} of 48,210 unlabeled rows hold about {share} of the hidden positives" in page
    assert f"{point['lift']:.1f} times as many as chance." in page
    assert "at most 26 % of all rows, and at least 0.64 %" in page
    assert "Positives among the first 100not known0 to 100 %" in page
    assert "At most 26 % of all rows are positive, and at least 0.64 %. The data cannot narrow this range" in page
    assert "0.905 to 0.962" in page
    assert "called" not in re.sub(r"(is|are) called", "", page[: page.index("How good is the model")])
    assert not drawn_nowhere(model_page(OPEN))


def test_whether_estimators_agree_is_read_from_a_field() -> None:
    """Not from the words of a warning, and nothing is said of a single estimator."""
    for agree, shown in ((True, ""), (False, "The estimators do not agree"), (None, "")):
        page = model_page(SUMMARY | {"prior": SUMMARY["prior"] | {"agree": agree, "warnings": ["they disagree"]}})
        assert ("estimators" in text(page)) == bool(shown)
        assert shown in page


def test_the_share_is_of_the_unlabeled_rows_where_they_are_the_population() -> None:
    page = text(model_page(SUMMARY | {"scenario": "case-control"}))
    assert "about 21 % of the unlabeled rows are positive" in page
    assert "8,200 to 13,000 positives are still hidden" in page  # of 48,210 rows, none of them known


def text(page: str) -> str:
    """What is read of a page, without its marks."""
    body = page[page.index("<body>") :]
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", body)))


def test_one_of_each_makes_a_page() -> None:
    page = model_page(check_summary(ONE_OF_EACH))
    assert "0.4 % of the unlabeled rows are positive, as you said." in text(page)
    assert not drawn_nowhere(page)


def test_losses_without_a_value_are_gaps() -> None:
    """A loss that is not finite is None in the summary."""
    curve = SUMMARY["curves"][0] | {"values": [0.5, None, 0.25], "best": 3}
    lost = SUMMARY["curves"][0] | {"values": [None, None], "best": None}
    page = model_page(SUMMARY | {"curves": [curve, lost]})
    assert "over 3 trees, from 0.500 to 0.250" in page
    assert not drawn_nowhere(page)


def paths_of(kind: Any) -> Iterator[tuple[str, ...]]:
    """The way to every key of the summary, through the types that define it."""
    for key, inner in get_type_hints(kind).items():
        yield (key,)
        for part in (inner, *get_args(inner)):
            if is_typeddict(part):
                yield from ((key, *path) for path in paths_of(part))


def changed(value: Any, path: tuple[str, ...], change: Callable[[Any], Any]) -> Any:
    """The same with another value of a key; in a list, in every item."""
    if isinstance(value, list):
        return [changed(item, path, change) for item in value]
    key, *rest = path
    return value | {key: changed(value[key], tuple(rest), change) if rest else change(value[key])}


def other(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, dict):
        return {f"other {key}": item for key, item in value.items()}
    if isinstance(value, list):
        return [other(item) for item in value] if isinstance(value[0], float) else value[:-1]
    if value is None:
        return 0.5
    return value and (2 * value / 3 if isinstance(value, float) else f"other {value}")


GIVEN = SUMMARY | {"prior": SUMMARY["prior"] | {"source": "given"}}
UNNAMED = SUMMARY | {"measured": None, "labelling": SUMMARY["labelling"] | {"by": []}}
MEASURED = [("measured",), *(("measured", key) for key in ("prior", "prior_if_random", "prior_by_design"))]
# Their keys are changed one by one.
WHOLE = [("table",), ("prior",), ("method",), ("decision",), ("distributions",), ("stability",), *MEASURED]
WHOLE += [("reviewed",), ("labelling",), ("labelling", "what_if")]
WHOLE += [("measured", "random_labelling")]
FOR_PROGRAMS = {("prior", "warnings")}  # the page shows them among all warnings
# True only of random labelling, which a page cannot know.
FOR_PROGRAMS |= {("measured", "prior_if_random", key) for key in ("value", "low", "high")}


@pytest.mark.parametrize("path", sorted(set(paths_of(Summary)) - {*FOR_PROGRAMS, *WHOLE}), ids=".".join)
def test_every_key_of_the_summary_reaches_the_page(path: tuple[str, ...]) -> None:
    """A key that is renamed in the definition but not in the page, or the other way round, fails here."""
    wholes = (SUMMARY, GIVEN, OPEN, UNNAMED)
    assert any(model_page(changed(whole, path, other)) != model_page(whole) for whole in wholes)


OPTIONAL = {("table", "id"), ("table", "weight"), ("prior", "agree"), ("curves", "best"), *MEASURED} - {
    ("measured", "prior")
}
OPTIONAL |= {("metrics", key) for key in ("value", "low", "high")} | {("prior", "value"), ("review", "precision")}
OPTIONAL |= {("wide",), ("reviewed",), ("labelling",), ("labelling", "what_if")}
OPTIONAL |= {("decision", "rule"), ("decision", "at"), ("candidates", "probability"), ("candidates", "decision")}


@pytest.mark.parametrize("path", sorted(paths_of(Summary)), ids=".".join)
@pytest.mark.parametrize("value", [None, math.nan, {1, 2}])
def test_a_wrong_value_in_a_file_is_refused(path: tuple[str, ...], value: Any) -> None:
    wrong = changed(SUMMARY, path, lambda _: value)
    if value is None and path in OPTIONAL:
        assert check_summary(wrong) == wrong
    else:
        with pytest.raises(ValueError, match="summary." + ".".join(path)):
            check_summary(wrong)


def test_a_summary_from_a_file_has_the_keys_of_the_definition() -> None:
    assert check_summary(SUMMARY | {"unknown": 1}) == SUMMARY
    with pytest.raises(ValueError, match=r"summary\.folds is missing"):
        check_summary({key: value for key, value in SUMMARY.items() if key != "folds"})


def test_a_summary_survives_json() -> None:
    assert model_page(json.loads(json.dumps(SUMMARY))) == model_page(SUMMARY)


def drawn_nowhere(page: str) -> list[str]:
    """Places in charts that are no numbers."""
    places = re.findall(r'style="([^"]*)"|\bd="([^"]*)"|\bc[xy]="([^"]*)"', page)
    return [place for place in map("".join, places) if re.search("nan|inf|None|e[+-]?[0-9]", place, re.IGNORECASE)]


class Marks(HTMLParser):
    """The tags of a page with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes |= {name for name, _ in attrs}


def test_the_users_text_stays_text() -> None:
    page = model_page(HOSTILE_SUMMARY)
    found, ours = Marks(page), Marks(model_page(SUMMARY))
    assert found.tags.keys() == ours.tags.keys()
    assert found.attributes - ours.attributes <= {"title"}
    assert (found.tags["script"], found.tags["style"]) == (1, 2)
    assert "{{ 7 * 7 }}" in page
    assert page.encode("utf-8")


def test_the_page_loads_nothing() -> None:
    for page in (model_page(SUMMARY), model_page(HOSTILE_SUMMARY)):
        assert not re.findall(r"https?://|@import|url\(|fetch\(|import\(|\ssrc=(?!x onerror)", unescape(page))
        assert set(re.findall(r'\shref="([^"#]*)', page)) == {"", "data:,"}
        assert "default-src 'none'" in page


def test_the_page_needs_neither_torch_nor_matplotlib() -> None:
    code = "import sys, json; from pulab.report.model import model_page; model_page(json.load(sys.stdin)); "
    words = [sys.executable, "-c", f"{code}print(*sys.modules)"]
    done = subprocess.run(words, input=json.dumps(SUMMARY), capture_output=True, text=True, check=True)
    assert not {"torch", "matplotlib", "numpy", "pulab.bench"} & set(done.stdout.split())


def test_scales() -> None:
    assert [Scale(0, 2).at(v) for v in (-1, 0, 0.5, 2, 9)] == [0, 0, 25, 100, 100]
    assert [Scale(1, 100, log=True).at(v) for v in (1, 10, 100)] == [0, 50, 100]
    assert [Scale(0, 1, root=True).at(v) for v in (0, 0.25, 1)] == [0, 50, 100]
    assert Scale(3, 3).at(3) == 50
    assert Scale(0, 1).ticks("{:g}".format, most=4) == [(0, "0"), (25, "0.25"), (50, "0.5"), (75, "0.75"), (100, "1")]
    assert Scale(10, 48210, log=True).ticks("{:g}".format)[-1][1] == "10000"
    assert [label for _, label in Scale(3, 20, log=True).ticks("{:g}".format)] == ["5", "10", "20"]
    assert [round_up(v) for v in (0.28, 0.12, 7)] == [pytest.approx(0.3), pytest.approx(0.15), 8]


def test_a_line_stops_where_there_is_no_value() -> None:
    points = [(0, 0.0), (1, 1.0), (2, None), (3, 0.5)]
    assert line("risk", points, Scale(0, 4), Scale(0, 1)).path == "M0.0,100.0h0L25.0,0.0M75.0,50.0h0"


# In a browser ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    found = program()
    if found is None:
        pytest.skip("there is no Chromium here")
    with Browser(found, tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.mark.parametrize(
    "summary", [SUMMARY, OPEN, HOSTILE_SUMMARY, ONE_OF_EACH], ids=["known", "open", "hostile", "one of each"]
)
def test_in_a_browser(browser: Browser, summary: dict[str, Any], tmp_path: Path) -> None:
    """It fits any screen, asks for nothing but itself, and the console stays silent."""
    page = tmp_path / "model.html"
    page.write_text(model_page(summary), encoding="utf-8")
    browser.requests.clear()
    browser.complaints.clear()
    for width in (320, 390, 768, 1200):
        browser.open(page, width)
        browser.js("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
        # Where a page is too wide for a phone, the phone zooms out: then innerWidth is not what was asked for.
        assert browser.js("[innerWidth, document.documentElement.scrollWidth <= innerWidth]") == [width, True]
        # A table may be wider than its box, and scrolls in it; a box may not be wider than the page.
        assert browser.js("[...document.querySelectorAll('.box')].every((box) => box.clientWidth < innerWidth)")
    assert browser.js("typeof pwned") == "undefined"
    assert set(browser.requests) <= {page.as_uri(), "data:,"}
    assert not browser.complaints


def test_values_under_the_pointer_and_the_arrow_keys(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "model.html"
    page.write_text(model_page(SUMMARY), encoding="utf-8")
    browser.open(page, 390)
    place = "const plot = document.querySelector('#review .plot'); plot.scrollIntoView({block: 'center'});"
    x, y = browser.js(f"{{ {place} const r = plot.getBoundingClientRect(); [r.left + 1, r.top + 9] }}")
    tip = "document.querySelector('#review .tip')"
    browser.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    assert browser.js(f"{tip}.innerText").startswith("the first 10\nrecall 0.1\N{NO-BREAK SPACE}%")
    browser.js("document.querySelector('#review .plot').focus()")
    browser.ask("Input.dispatchKeyEvent", type="keyDown", key="ArrowRight")
    assert browser.js(f"{tip}.innerText").startswith("the first 14\n")
    browser.ask("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)
    assert browser.js(f"{tip}.hidden")


def test_light_and_dark(browser: Browser, tmp_path: Path) -> None:
    """Text stands out from its ground as WCAG asks of text this size, 4.5 to 1."""
    page = tmp_path / "model.html"
    page.write_text(model_page(SUMMARY), encoding="utf-8")
    grounds = set()
    for dark in (False, True):
        browser.open(page, 1200, dark=dark)
        style = "getComputedStyle(document.documentElement).getPropertyValue"
        names = ("ground", "panel", "mark", "warn-ground", "ink", "soft", "warn")
        colours = {
            name: browser.js(f"{style}.call(getComputedStyle(document.documentElement), '--{name}')") for name in names
        }
        for ground in ("ground", "panel", "mark", "warn-ground"):
            assert contrast(colours[ground], colours["ink"]) > 4.5
            assert contrast(colours[ground], colours["soft"]) > 4.5
        assert contrast(colours["warn-ground"], colours["warn"]) > 4.5
        grounds.add(colours["ground"])
    assert len(grounds) == 2


def contrast(one: str, other: str) -> float:
    """The ratio of relative luminances (WCAG 2.2)."""

    def luminance(colour: str) -> float:
        digits = colour.strip().lstrip("#")
        digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
        parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)
