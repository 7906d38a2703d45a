"""The page: with the keyboard alone, on a phone, and for nobody else."""

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pulab.review import Draw, open_log, read_answers
from pulab.review.server import ReviewServer, shown
from pulab.tables import TableModel

from ..report.browser import Browser, program


@pytest.fixture
def server(tmp_path: Path, model: TableModel, draw: Draw) -> Iterator[ReviewServer]:
    tricky = draw.frame.with_columns(plan=pl.lit("<img src=x onerror=alert(1)>"), reason_1=pl.lit("age is high"))
    with (
        open_log(tmp_path / "answers.csv", draw._replace(frame=tricky)) as log,
        ReviewServer(log, model.summary) as server,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def ask(server: ReviewServer, method: str, path: str, body: Any = None, host: str | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    headers = {"Host": host or f"127.0.0.1:{server.server_port}"}
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    reply = connection.getresponse()
    content = reply.read()
    connection.close()
    return reply.status, content


def test_only_the_token_and_this_host_are_served(server: ReviewServer) -> None:
    base = f"/{server.token}/"
    assert ask(server, "GET", base + "state")[0] == 200
    assert ask(server, "GET", base + "state", host=f"localhost:{server.server_port}")[0] == 200
    for path in ("/", "/state", "/other/state", f"/{server.token}", f"/{server.token}x/state", base + "../answers.csv"):
        status, content = ask(server, "GET", path)
        assert status == 404, path
        assert b"customer" not in content
    right = {"number": 1, "answer": "yes"}
    assert ask(server, "GET", base + "state", host="evil.example")[0] == 404
    assert ask(server, "POST", base + "answer", right, host="evil.example")[0] == 404
    assert ask(server, "POST", "/answer", right)[0] == 404
    for body in (None, [], {"number": 1, "answer": "perhaps"}, {"answer": "yes"}, {"number": "1", "answer": "no"}):
        assert ask(server, "POST", base + "answer", body)[0] == 400
    assert not server.log.given


def test_a_second_click_is_not_an_answer_to_the_next_row(server: ReviewServer) -> None:
    for _ in range(2):
        ask(server, "POST", f"/{server.token}/answer", {"number": 1, "answer": "yes"})
    assert server.log.given == [(0, "yes")]
    state = json.loads(ask(server, "POST", f"/{server.token}/undo", {})[1])
    assert (server.log.given, state["row"]["number"], state["can_undo"]) == ([], 1, False)


def test_the_row_has_what_matters_most_first_and_neither_score_nor_rank(server: ReviewServer) -> None:
    row = server.state()["row"]
    names = [name for name, _ in row["columns"]]
    by_importance = [item["name"] for item in server.summary["features"]]
    assert names[: len(by_importance)] == by_importance
    assert row["name"].startswith("customer c-")
    assert row["reasons"][0] == "age is high"
    assert set(row) == {"number", "name", "reasons", "columns"}
    assert not {"row", "score", "rank", "stratum", "reason_1"} & set(names)
    assert (shown(None), shown(0.123456789), shown("x" * 6000)[-1]) == ("–", "0.123457", "…")


@pytest.mark.skipif(program() is None, reason="there is no Chromium here")
def test_with_keys_alone_on_a_phone(server: ReviewServer, tmp_path: Path, truth: Callable[[int], str]) -> None:
    with Browser(program() or "", tmp_path / "browser") as browser:
        browser.ask("Emulation.setDeviceMetricsOverride", width=360, height=740, deviceScaleFactor=1, mobile=True)
        browser.ask("Page.navigate", url=server.address)
        text = "document.getElementById({!r}).textContent"

        def wait(expression: str, wanted: Any) -> None:
            end = time.monotonic() + 30
            while (found := browser.js(expression)) != wanted:
                assert time.monotonic() < end, f"{expression}: {found!r}, not {wanted!r}"
                time.sleep(0.02)

        def press(key: str) -> None:
            for kind in ("keyDown", "keyUp"):
                browser.ask("Input.dispatchKeyEvent", type=kind, key=key, text=key if kind == "keyDown" else "")

        wait("document.readyState === 'complete' ? document.getElementById('card')?.hidden : null", False)
        wait(text.format("progress"), "0 of 100 answered")
        assert browser.js("document.documentElement.scrollWidth") <= 360
        assert "<img src=x" in browser.js(text.format("columns"))
        assert browser.js("document.images.length") == 0
        assert browser.js("document.getElementById('undo').disabled")
        for place in range(6):
            press(truth(place)[0])
            wait(text.format("progress"), f"{place + 1} of 100 answered")
        press("s")
        wait(text.format("progress"), "6 of 100 answered, 1 skipped")
        press("u")
        press("u")  # at once: the page takes one key at a time
        wait("busy", False)
        assert server.log.latest in ({i: truth(i) for i in range(6)}, {i: truth(i) for i in range(5)})
        wait("document.getElementById('share').textContent.includes('% of all rows are positive')", True)
        assert not browser.js("document.getElementById('estimate').open")  # it would sway the reviewer
        assert browser.complaints == []
        assert all(url.startswith((server.address, "data:")) for url in browser.requests)
    assert read_answers(tmp_path / "answers.csv", server.log.draw).latest == server.log.latest


@pytest.mark.skipif(program() is None, reason="there is no Chromium here")
def test_the_page_says_when_one_may_stop_and_when_all_is_answered(server: ReviewServer, tmp_path: Path) -> None:
    n = len(server.log.draw.stratum)
    server.log.add([(place, "yes" if place % 3 == 0 else "no") for place in range(n)])
    with Browser(program() or "", tmp_path / "browser") as browser:
        browser.ask("Page.navigate", url=server.address)
        end = time.monotonic() + 30
        while not browser.js("document.getElementById('enough')?.checkVisibility()"):
            assert time.monotonic() < end
            time.sleep(0.05)
        assert browser.js("document.getElementById('end').checkVisibility()")
        assert browser.js("['yes', 'no', 'skip'].every((name) => document.getElementById(name).disabled)")
        assert not browser.js("document.getElementById('undo').disabled")
