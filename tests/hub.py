# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for the hub: the few answers that its own library, which is real in these tests, asks for.

The tests' machine reaches no hub. What stands in is the outermost thing, the server.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

from tests.repository import CACHE, run

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_only-a-test"  # noqa: S105


class Hub:
    """Repository `org/small` at `main` and at COMMIT; `org/gated` wants TOKEN; all others are not there."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.commit = COMMIT
        self.asked: list[str] = []
        #: Bytes of a file after which each answer with it breaks off.
        self.breaks: dict[str, int] = {}
        self.url = ""

    @contextmanager
    def running(self) -> Iterator[Hub]:
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_arguments: object) -> None:
                pass

            def do_HEAD(self) -> None:
                hub.answer(self, body=False)

            def do_GET(self) -> None:
                hub.answer(self, body=True)

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def answer(self, request: BaseHTTPRequestHandler, *, body: bool) -> None:
        # Datasets have the same names here as models.
        path = unquote(request.path.split("?")[0]).replace("/api/datasets/", "/api/models/").removeprefix("/datasets")
        self.asked.append(f"{request.command} {path}")
        name = "/".join(path.removeprefix("/api/models").strip("/").split("/")[:2])
        if name == "org/gated" and request.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.send(request, 403, b"{}", {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access is restricted"})
        elif name not in ("org/small", "org/gated"):
            self.send(request, 404, b"{}", {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"})
        elif path.startswith("/api/"):
            if path.rsplit("/", 1)[-1] not in ("main", self.commit):
                self.send(request, 404, b"{}", {"X-Error-Code": "RevisionNotFound", "X-Error-Message": "No revision"})
                return
            siblings = [{"rfilename": file} for file in sorted(self.files)]
            document: object = {"id": name, "modelId": name, "sha": self.commit, "siblings": siblings, "tags": []}
            if "/tree/" in path:
                document = [{"type": "file", "path": f, "size": len(c), "oid": "0" * 40} for f, c in self.files.items()]
            self.send(request, 200, json.dumps(document).encode(), {"Content-Type": "application/json"})
        else:
            self.file(request, path.split("/resolve/")[1].partition("/")[2], body=body)

    def file(self, request: BaseHTTPRequestHandler, name: str, *, body: bool) -> None:
        content = self.files.get(name)
        if content is None:
            self.send(request, 404, b"", {"X-Error-Code": "EntryNotFound"})
            return
        headers = {"ETag": f'"{hashlib.sha256(content).hexdigest()}"', "X-Repo-Commit": self.commit}
        cut = self.breaks.get(name) if body else None
        self.send(request, 200, content[:cut] if body else b"", headers, length=len(content))

    @staticmethod
    def send(
        request: BaseHTTPRequestHandler, status: int, body: bytes, headers: dict[str, str], length: int | None = None
    ) -> None:
        request.send_response(status)
        for header, value in headers.items():
            request.send_header(header, value)
        request.send_header("Content-Length", str(len(body) if length is None else length))
        request.end_headers()
        request.wfile.write(body)


#: What a site has in the Python that asks the hub, trains and loads.
PACKAGES = ("huggingface_hub>=0.34", "tokenizers>=0.21", "transformers>=4.56")


def python() -> Path:
    """A Python with PACKAGES, kept between runs and complete whenever it exists."""
    recipe = hashlib.sha256("\n".join([sys.version, *PACKAGES]).encode()).hexdigest()[:12]
    kept = CACHE / "hub" / recipe
    if not kept.exists():
        unfinished = kept.with_name(f"{recipe}.{os.getpid()}")
        run("uv", "venv", "--quiet", "--relocatable", "--python", "/usr/bin/python3", unfinished)
        run("uv", "pip", "install", "--quiet", "--python", unfinished / "bin" / "python", *PACKAGES)
        with contextlib.suppress(OSError):  # another worker was faster
            unfinished.rename(kept)
        shutil.rmtree(unfinished, ignore_errors=True)
    return kept / "bin" / "python"
