"""A real browser for tests: Chromium, spoken to through a pipe, so that no package is needed for it."""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

NAMES = ("chromium", "chromium-browser", "google-chrome")


def program() -> str | None:
    """A Chromium that starts, if there is one."""
    found = next((path for path in map(shutil.which, NAMES) if path), None)
    # Where a package is only a pointer to another shop's, the program is there and does not run.
    runs = found and subprocess.run([found, "--version"], capture_output=True, timeout=60).returncode == 0
    return found if runs else None


class Browser:
    """One tab. ``requests`` and ``complaints`` are what the page asked for and what the console said."""

    def __init__(self, program: str, folder: Path) -> None:
        self.requests: list[str] = []
        self.complaints: list[str] = []
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        flags += ["--remote-debugging-pipe", f"--user-data-dir={folder}", "about:blank"]
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        # Chromium reads its third file and writes its fourth.
        start = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out} >/dev/null 2>&1'
        self._process = subprocess.Popen(["bash", "-c", start, program, *flags], pass_fds=(theirs_in, theirs_out))
        os.close(theirs_in)
        os.close(theirs_out)
        self._buffer, self._sent, self._loaded, self._session = b"", 0, False, ""

    def __enter__(self) -> Self:
        tabs = self.ask("Target.getTargets")["targetInfos"]
        tab = next(tab["targetId"] for tab in tabs if tab["type"] == "page")
        self._session = self.ask("Target.attachToTarget", targetId=tab, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.terminate()
        self._process.wait(timeout=30)
        os.close(self._in)
        os.close(self._out)

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """A command of the DevTools protocol, and its answer."""
        self._sent += 1
        session = {"sessionId": self._session} if self._session else {}
        message = {"id": self._sent, "method": method, "params": params, **session}
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._sent:
            pass
        assert "error" not in answer, f"{method}: {answer['error']}"
        return dict(answer["result"])

    def open(self, page: Path, width: int, dark: bool = False, media: str = "screen") -> None:
        """Show a file at a width, as a phone does where it is narrow."""
        self._loaded = False
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=844, deviceScaleFactor=1, mobile=width < 600)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.ask("Page.navigate", url=page.as_uri())
        while not self._loaded:
            self._next()

    def js(self, expression: str) -> Any:
        """The value of an expression in the page."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def picture(self, to: Path) -> None:
        """All of the page as a PNG."""
        answer = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        to.write_bytes(base64.b64decode(answer["data"]))

    def _next(self, seconds: float = 60) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0, end - time.monotonic()))
            data = os.read(self._in, 1 << 16) if ready else b""
            assert data, "the browser does not answer"
            self._buffer += data
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, event: str, params: dict[str, Any]) -> None:
        if event == "Page.loadEventFired":
            self._loaded = True
        elif event == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif event == "Log.entryAdded":
            self.complaints.append(params["entry"]["text"])
        elif event == "Runtime.exceptionThrown" or event == "Runtime.consoleAPICalled":
            self.complaints.append(json.dumps(params))
