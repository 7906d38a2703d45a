"""Downloads: over HTTPS only, whole or not at all, and nothing is left behind. From servers on this machine."""

import hashlib
import http.server
import os
import signal
import ssl
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from pulab.datasets import Source, fetch, fetch_all
from pulab.datasets import _download as downloading
from pulab.datasets import _fetch as fetching
from pulab.errors import DataFormatError, DataNotFoundError, PulabWarning

CERTIFICATE = Path(__file__).parent / "localhost.pem"
CONTENT = b"content" * 1000
RIGHT = f"md5:{hashlib.md5(CONTENT).hexdigest()}"


class Answers(http.server.BaseHTTPRequestHandler):
    """One answer per address. ``insecure`` is the address of the server that speaks plain HTTP."""

    insecure = ""

    def do_GET(self) -> None:
        status = {"/missing": 404, "/away": 302, "/home": 302}.get(self.path, 200)
        self.send_response(status)
        if status == 302:
            self.send_header("Location", f"{self.insecure}/whole" if self.path == "/away" else "/whole")
        if self.path in ("/whole", "/cut", "/hangs"):
            self.send_header("Content-Length", str(len(CONTENT)))
        if self.path == "/packed":  # as some servers announce archives; what is stored must not be unpacked
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        if status == 200:
            self.wfile.write(CONTENT[:-9] if self.path in ("/cut", "/cut-without-length", "/hangs") else CONTENT)
        if self.path == "/hangs":
            self.server.released.wait(30)  # type: ignore[attr-defined]

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def serving(secure: bool) -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as running:
        running.released = threading.Event()  # type: ignore[attr-defined]
        if secure:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTIFICATE)
            running.socket = context.wrap_socket(running.socket, server_side=True)
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"{'https' if secure else 'http'}://127.0.0.1:{running.server_port}"
        running.released.set()  # type: ignore[attr-defined]
        running.shutdown()
        thread.join()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server that speaks HTTPS, with a certificate that is trusted."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(CERTIFICATE))
    with ExitStack() as stack:
        monkeypatch.setattr(Answers, "insecure", stack.enter_context(serving(secure=False)))
        yield stack.enter_context(serving(secure=True))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no $PULAB_DATA."""
    monkeypatch.delenv("PULAB_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "pulab"


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("page", ["whole", "home", "packed"])
def test_a_file_is_downloaded_once(cache: Path, server: str, page: str) -> None:
    path = fetch(Source("some/file.bin", f"{server}/{page}", RIGHT))
    assert files(cache) == [path] == [cache / "some" / "file.bin"]
    assert path.read_bytes() == CONTENT
    assert fetch(Source("some/file.bin", "https://127.0.0.1:9/", RIGHT)) == path  # no second download


@pytest.mark.parametrize(
    ("page", "checksum", "reason"),
    [
        ("whole", "md5:" + "0" * 32, "its checksum does not match"),
        ("missing", RIGHT, "404 Client Error: Not Found"),
        ("cut", RIGHT, r"the connection broke off|only .* came"),
        ("cut", None, r"the connection broke off|only .* came"),
        ("cut-without-length", RIGHT, "its checksum does not match"),
        ("cut-without-length", None, "no checksum is known and the server tells no length, so a part may be missing"),
        ("away", RIGHT, "the address, or one that it leads to, is not HTTPS"),
    ],
)
def test_what_is_not_whole_and_right_leaves_nothing(
    cache: Path, server: str, page: str, checksum: str | None, reason: str
) -> None:
    with pytest.raises(DataNotFoundError, match=rf"from {server}/{page} \(({reason})\)\. Put the file"):
        fetch(Source("some/file.bin", f"{server}/{page}", checksum))
    assert not files(cache)


def test_plain_http_and_unknown_certificates_are_refused(
    cache: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataNotFoundError, match="is not HTTPS"):
        fetch(Source("some/file.bin", f"{Answers.insecure}/whole", RIGHT))
    monkeypatch.delenv("REQUESTS_CA_BUNDLE")
    with pytest.raises(DataNotFoundError, match="the server's certificate is not valid"):
        fetch(Source("some/file.bin", f"{server}/whole", RIGHT))
    assert not files(cache)


def test_a_server_that_never_ends_does_not_fill_the_disk(
    cache: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloading, "MOST_BYTES", 5000)
    with pytest.raises(DataNotFoundError, match="more than 5,000 bytes came"):
        fetch(Source("some/file.bin", f"{server}/packed", RIGHT))
    assert not files(cache)


def test_a_download_without_a_known_checksum_says_so_and_must_not_change(
    cache: Path, server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source = Source("some/file.bin", f"{server}/whole", None)
    with pytest.warns(PulabWarning, match=r"no checksum of file\.bin is known"):
        path = fetch(source)
    assert capsys.readouterr() == ("", "")
    note = path.with_name("file.bin.sha256")
    assert note.read_text() == f"{hashlib.sha256(CONTENT).hexdigest()}  file.bin\n"
    assert fetch(source) == path
    path.write_bytes(b"another")
    with pytest.raises(DataFormatError, match=r"has changed since it was downloaded\. Delete it and file\.bin\.sha256"):
        fetch(source)
    path.unlink()
    with pytest.warns(PulabWarning):
        assert fetch(source).read_bytes() == CONTENT


def test_of_several_files_one_error_names_all_that_are_missing(cache: Path) -> None:
    sources = [Source(f"some/{name}", f"https://127.0.0.1:9/{name}", None) for name in ("a", "b", "c")]
    (cache / "some").mkdir(parents=True)
    (cache / "some" / "b").touch()
    with pytest.raises(
        DataNotFoundError, match=r"^a and c are not on .* Put the files .* that holds some/a and some/c\.$"
    ):
        fetch_all(sources)


def test_a_file_is_on_the_disk_before_it_has_its_name(
    cache: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = []
    replace, fsync = Path.replace, os.fsync

    def noted_fsync(descriptor: int) -> None:
        steps.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def noted_replace(path: Path, target: Path) -> Path:
        steps.append("name")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(Path, "replace", noted_replace)
    fetch(Source("some/file.bin", f"{server}/whole", RIGHT))
    assert steps == ["file", "name", "folder"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL and no modes of files")
def test_what_a_killed_download_left_is_removed_and_a_living_one_is_not_disturbed(
    cache: Path, server: str, tmp_path: Path
) -> None:
    code = "import sys; from pulab.datasets import Source, fetch; fetch(Source('some/file.bin', sys.argv[1], 'md5:0'))"
    downloading_process = subprocess.Popen([sys.executable, "-c", code, f"{server}/hangs"])
    try:
        deadline = time.monotonic() + 30
        while not (parts := files(cache)) and time.monotonic() < deadline:
            time.sleep(0.02)
        (part,) = parts
        assert stat.S_IMODE(part.stat().st_mode) == 0o600
        time.sleep(0.1)  # a file is locked right after it is made
        os.utime(part, (0, 0))
        fetch(Source("other.bin", f"{server}/whole", RIGHT))
        assert part.exists()  # the lock of a living process
    finally:
        downloading_process.send_signal(signal.SIGKILL)
        downloading_process.wait()
    os.utime(part, (0, 0))
    fetch(Source("another.bin", f"{server}/whole", RIGHT))
    assert {path.name for path in files(cache)} == {"other.bin", "another.bin"}


def test_a_young_leftover_may_belong_to_a_living_process(tmp_path: Path) -> None:
    young = tmp_path / ".file.bin.x.part"
    young.touch()
    fetching.remove_leftovers(tmp_path)
    assert young.exists()
