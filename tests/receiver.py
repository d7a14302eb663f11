# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A receiver of webhooks on this machine: it keeps what is posted, and can refuse, hang or redirect like real ones."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Receiver:
    """`posts`: (path, headers, JSON body) of every post that was answered with `code`, or is being held."""

    def __init__(self, address: str = "127.0.0.1") -> None:
        self.posts: list[tuple[str, dict[str, str], Any]] = []
        self.code = 200
        #: Set: an answer is sent. Cleared: posts are taken, and their senders wait.
        self.answers = threading.Event()
        self.answers.set()
        self.address, self.url = address, ""

    @contextmanager
    def running(self) -> Iterator[Receiver]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_arguments: object) -> None:
                pass

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.posts.append((self.path, dict(self.headers), json.loads(body)))
                receiver.answers.wait(30)
                self.send_response(receiver.code)
                if receiver.code in (301, 302, 307):
                    self.send_header("Location", f"{receiver.url}/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

        server = ThreadingHTTPServer((self.address, 0), Handler)
        self.url = f"http://{self.address}:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.answers.set()
            server.shutdown()
            server.server_close()
            thread.join()

    def events(self) -> list[str]:
        """The events of what was posted in the format json, in its order."""
        return [body["event"] for _path, _headers, body in self.posts]

    def wait_for(self, count: int, seconds: float = 60.0) -> None:
        """Wait until this many posts are there."""
        until = time.monotonic() + seconds
        while len(self.posts) < count:
            assert time.monotonic() < until, f"{len(self.posts)} posts of {count}: {self.posts}"
            time.sleep(0.02)


def private(path: Path, text: str) -> Path:
    """A file that only its owner may read."""
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
    return path
