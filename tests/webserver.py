# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A web server of the tests' machine that counts what it sends, and can be as bad as real ones are."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BLOCK = 1 << 16


class WebServer:
    """Serves `files` by path. `sent` counts the bytes of each that left in answers."""

    def __init__(self, files: dict[str, bytes], *, ranges: bool = True, etags: bool = True, head: bool = True) -> None:
        self.files = files
        self.ranges, self.etags, self.head = ranges, etags, head
        self.sent: dict[str, int] = {}
        self.asked: list[str] = []
        #: Path -> bytes after which one answer breaks off; each is used once.
        self.breaks: dict[str, list[int]] = {}
        #: Path -> seconds between two blocks.
        self.slow: dict[str, float] = {}
        #: What a login must be, as the header Authorization.
        self.login: str | None = None
        self.url = ""
        self._over = threading.Event()

    @contextmanager
    def running(self) -> Iterator[WebServer]:
        served = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_arguments: object) -> None:
                pass

            def do_HEAD(self) -> None:
                served.answer(self, body=False)

            def do_GET(self) -> None:
                served.answer(self, body=True)

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{server.server_address[1]}/"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._over.set()
            server.shutdown()
            server.server_close()
            thread.join()

    def answer(self, request: BaseHTTPRequestHandler, *, body: bool) -> None:
        path = request.path.partition("?")[0].lstrip("/")
        self.asked.append(f"{request.command} {path} {request.headers.get('Range', '')}".strip())
        if not body and not self.head:
            self._empty(request, 405)
        elif self.login and request.headers.get("Authorization") != self.login:
            self._empty(request, 401)
        elif path not in self.files:
            self._empty(request, 404)
        else:
            self._file(request, path, self.files[path], body=body)

    @staticmethod
    def _empty(request: BaseHTTPRequestHandler, code: int) -> None:
        request.send_response(code)
        request.send_header("Content-Length", "0")
        request.end_headers()

    def _file(self, request: BaseHTTPRequestHandler, path: str, content: bytes, *, body: bool) -> None:
        etag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
        begins = 0
        asked = re.fullmatch(r"bytes=([0-9]+)-", request.headers.get("Range", ""))
        if asked and self.ranges and request.headers.get("If-Range") in (None, etag):
            begins = int(asked[1])
        if begins >= len(content) > 0:
            self._empty(request, 416)
            return
        request.send_response(206 if begins else 200)
        if self.etags:
            request.send_header("ETag", etag)
        if begins:
            request.send_header("Content-Range", f"bytes {begins}-{len(content) - 1}/{len(content)}")
        request.send_header("Content-Length", str(len(content) - begins))
        request.end_headers()
        if body:
            breaks = self.breaks.get(path, [])
            self._send(request, path, content[begins : begins + breaks.pop(0) if breaks else None])

    def _send(self, request: BaseHTTPRequestHandler, path: str, content: bytes) -> None:
        try:
            for start in range(0, len(content), BLOCK):
                block = content[start : start + BLOCK]
                request.wfile.write(block)
                self.sent[path] = self.sent.get(path, 0) + len(block)
                if path in self.slow and self._over.wait(self.slow[path]):
                    return
        except OSError:  # whoever asked has gone
            pass
        request.close_connection = True
