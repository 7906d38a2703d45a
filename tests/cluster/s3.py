"""A small S3 server on a loopback address: buckets, objects, lists and uploads in parts, as pyarrow asks for them.

It is not a package such as moto, because that needs an older python-dateutil, and gives a finished upload another name
than S3 does.
"""

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

KEY = "a-key"  # the one that may do everything


class S3(ThreadingHTTPServer):
    """The server, and what lies in it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, dict[str, bytes]] = {"bucket": {}}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.numbers = count(1)
        self.written: list[str] = []  # the names of all objects, as they were finished

    @property
    def address(self) -> str:
        """Its endpoint."""
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def running() -> Iterator[S3]:
    """A server for the time of a test."""
    with S3() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: S3

    def log_message(self, format: str, *args: Any) -> None:
        """Stay silent."""

    def do_HEAD(self) -> None:
        self._answer()

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD

    def _answer(self) -> None:
        url, body = urlsplit(self.path), self._body()
        self.query = {name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        bucket, _, self.key = unquote(url.path).lstrip("/").partition("/")
        if f"Credential={KEY}/" not in self.headers.get("Authorization", ""):
            self._error(403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.")
        elif bucket not in self.server.objects:
            self._error(404, "NoSuchBucket", "The specified bucket does not exist")
        else:
            self.bucket, self.objects = bucket, self.server.objects[bucket]
            getattr(self, f"_{self.command.lower()}")(body)

    def _body(self) -> bytes:
        """The content of a request; of pieces with signatures, the content of the pieces."""
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            raw = self._pieces(self.rfile)
        else:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "aws-chunked" not in self.headers.get("Content-Encoding", ""):
            return raw
        return self._pieces(io.BytesIO(raw))

    @staticmethod
    def _pieces(stream: Any) -> bytes:
        content = b""
        while size := int(stream.readline().split(b";")[0], 16):
            content += stream.read(size)
            stream.readline()
        while stream.readline().strip():  # checksums
            pass
        return content

    def _send(self, status: int, content: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _xml(self, name: str, inside: str, status: int = 200) -> None:
        text = f'<?xml version="1.0" encoding="UTF-8"?><{name}>{inside}</{name}>'
        self._send(status, text.encode(), Content_Type="application/xml")

    def _error(self, status: int, code: str, message: str) -> None:
        self._xml("Error", f"<Code>{code}</Code><Message>{message}</Message>", status)

    def _head(self, _: bytes) -> None:
        if self.key and self.key not in self.objects:
            self._send(404)
            return
        size = len(self.objects[self.key]) if self.key else 0
        self._send(200, Content_Length=str(size), ETag='"1"', Last_Modified="Thu, 01 Jan 2026 00:00:00 GMT")

    def _get(self, _: bytes) -> None:
        if not self.key:
            self._list()
        elif self.key not in self.objects:
            self._error(404, "NoSuchKey", "The specified key does not exist.")
        else:
            content = self.objects[self.key]
            first, _, last = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
            part = content[int(first) : int(last or len(content)) + 1]
            self._send(206 if "Range" in self.headers else 200, part, ETag='"1"')

    def _list(self) -> None:
        prefix, delimiter = self.query.get("prefix", ""), self.query.get("delimiter", "")
        files, folders = [], {}
        for key in sorted(key for key in self.objects if key.startswith(prefix)):
            head, mark, _ = key[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
            if mark:
                folders[prefix + head + mark] = None
            else:
                files.append(key)
        date = "<LastModified>2026-01-01T00:00:00.000Z</LastModified>"
        inside = f"<IsTruncated>false</IsTruncated><KeyCount>{len(files) + len(folders)}</KeyCount>"
        for key in files:
            inside += f"<Contents><Key>{escape(key)}</Key>{date}<Size>{len(self.objects[key])}</Size></Contents>"
        for folder in folders:
            inside += f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>"
        self._xml("ListBucketResult", inside)

    def _put(self, body: bytes) -> None:
        if "uploadId" in self.query:
            self.server.uploads[self.query["uploadId"]][int(self.query["partNumber"])] = body
        else:
            self._finish(body)
        self._send(200, ETag='"1"')

    def _post(self, body: bytes) -> None:
        if "uploads" in self.query:
            number = str(next(self.server.numbers))
            self.server.uploads[number] = {}
            self._xml("InitiateMultipartUploadResult", f"<UploadId>{number}</UploadId>")
            return
        parts = self.server.uploads.pop(self.query["uploadId"])
        wanted = [int(one.text or "") for one in ElementTree.fromstring(body).iter() if one.tag.endswith("PartNumber")]
        self._finish(b"".join(parts[number] for number in wanted))
        self._xml("CompleteMultipartUploadResult", '<ETag>"1"</ETag>')

    def _finish(self, content: bytes) -> None:
        self.objects[self.key] = content
        self.server.written.append(self.key)

    def _delete(self, _: bytes) -> None:
        if "uploadId" in self.query:
            self.server.uploads.pop(self.query["uploadId"], None)
        else:
            self.objects.pop(self.key, None)
        self._send(204)
