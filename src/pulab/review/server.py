"""The page for a reviewer, served to this machine alone."""

import hmac
import json
import re
import secrets
import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any

from pulab.review.answers import ANSWERS, Answers, Log
from pulab.review.result import PLANNED, measured, population
from pulab.summary import Summary

PAGE = {
    "": ("page.html", "text/html; charset=utf-8"),
    "page.css": ("page.css", "text/css; charset=utf-8"),
    "page.js": ("page.js", "text/javascript; charset=utf-8"),
}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
LONGEST = 10_000  # bytes of a request
REASON = re.compile(r"reason_\d")
SHOWN = 200  # values of a row: those of the columns that matter most


class ReviewServer(ThreadingHTTPServer):
    """Serves one review on 127.0.0.1. Its address holds a random token, and other requests are refused."""

    daemon_threads = True  # an open connection of a browser must not keep the command from ending

    def __init__(self, log: Log, summary: Summary, port: int = 0) -> None:
        self.log, self.summary = log, summary
        self.token = secrets.token_urlsafe(16)
        self.turn = threading.Lock()
        super().__init__(("127.0.0.1", port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print an error, except that the page was closed before it had its answer."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    @property
    def address(self) -> str:
        """The page to open."""
        return f"http://127.0.0.1:{self.server_port}/{self.token}/"

    def state(self) -> dict[str, Any]:
        """What the page shows: the next row, and how far the review is."""
        table, given = self.summary["table"], list(self.log.latest.values())
        return {
            "table": table["name"],
            "of": population(self.summary),
            "question": f"{table['label']} = {table['positive']}",
            "answered": sum(answer != "skip" for answer in given),
            "skipped": given.count("skip"),
            "planned": min(PLANNED, len(self.log.draw.stratum)),
            "can_undo": bool(self.log.given),
            "row": self._row(),
        }

    def answer(self, number: int, answer: str) -> None:
        """Save an answer. One to another row than the present one is a second click, and is left out."""
        place = self.log.next
        if place is not None and place + 1 == number:
            self.log.add([(place, answer)])

    def estimate(self) -> dict[str, Any] | None:
        """The measured share of positives so far."""
        with self.turn:
            answers = Answers(self.log.draw, self.log.given)
        result = measured(answers, self.summary)
        return None if result is None else {**result["prior"], "enough": result["enough"]}

    def _row(self) -> dict[str, Any] | None:
        place = self.log.next
        if place is None:
            return None
        table = self.summary["table"]
        values = self.log.draw.frame.row(place, named=True)
        name = f"row {values.pop('row'):,}"
        if table["id"] is not None:
            name = f"{table['id']} {shown(values.pop(table['id']))}"
        rank = {item["name"]: at for at, item in enumerate(self.summary["features"])}
        reasons = [shown(value) for column, value in values.items() if REASON.fullmatch(column) and value is not None]
        columns = sorted((c for c in values if not REASON.fullmatch(c)), key=lambda c: rank.get(c, len(rank)))
        more = [] if len(columns) <= SHOWN else [["…", f"{len(columns) - SHOWN:,} more columns"]]
        return {
            "number": place + 1,
            "name": name,
            "reasons": reasons,
            "columns": [[c.removesuffix(" (in the table)"), shown(values[c])] for c in columns[:SHOWN]] + more,
        }


def shown(value: Any) -> str:
    """A value as a reviewer reads it; a dash for a missing one."""
    if value is None or value == "":
        return "–"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 5000 else text[:4999] + "…"


class _Handler(BaseHTTPRequestHandler):
    server: ReviewServer
    timeout = 30

    def do_GET(self) -> None:
        match self._path():
            case "state":
                with self.server.turn:
                    self._send_json(self.server.state())
            case "estimate":
                self._send_json(self.server.estimate())
            case str(name) if name in PAGE:
                file, kind = PAGE[name]
                self._send((files("pulab.review") / file).read_bytes(), kind)
            case _:
                self._refuse(HTTPStatus.NOT_FOUND)

    def do_POST(self) -> None:
        path, body = self._path(), self._body()
        with self.server.turn:
            match path, body:
                case "answer", {"number": int(number), "answer": str(answer)} if answer in ANSWERS:
                    self.server.answer(number, answer)
                case "undo", {}:
                    self.server.log.undo()
                case _:
                    self._refuse(HTTPStatus.NOT_FOUND if path is None else HTTPStatus.BAD_REQUEST)
                    return
            self._send_json(self.server.state())

    def _path(self) -> str | None:
        """The path after the token; None if the token or the host is not ours."""
        token, slash, rest = self.path.removeprefix("/").partition("/")
        hosts = [f"{name}:{self.server.server_port}" for name in ("127.0.0.1", "localhost")]
        # Another host: a page elsewhere has pointed its own name to this machine.
        if self.headers.get("Host") not in hosts or not hmac.compare_digest(token.encode(), self.server.token.encode()):
            return None
        return rest if slash else None

    def _body(self) -> Any:
        try:
            length = int(self.headers.get("Content-Length", ""))
            return json.loads(self.rfile.read(length)) if 0 <= length <= LONGEST else None
        except (ValueError, RecursionError):
            return None

    def _send_json(self, value: Any) -> None:
        self._send(json.dumps(value).encode(), "application/json")

    def _refuse(self, status: HTTPStatus) -> None:
        self.close_connection = True
        self._send(status.phrase.encode(), "text/plain", status)

    def _send(self, raw: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Type": kind, "Content-Length": str(len(raw))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *values: Any) -> None:
        """Print nothing: the terminal is the reviewer's."""
