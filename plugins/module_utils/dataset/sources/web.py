# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A dataset from a web server: one file, or files below a folder. Resumes with Range where possible (RFC 9110)."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import urllib.error
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit, urlunsplit

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.partial import Item
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.sources.base import (
    Changed,
    Failed,
    Streams,
    read_blocks,
    together,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.store.http import login_of, open_url
from ansible_collections.rankzero.slurm.plugins.module_utils.store.manifest import plain

_ADVICE = {
    401: "it requires a login: add one to ~/.netrc of this host's user, or give token_file",
    403: "this login may not read it: check ~/.netrc of this host's user, or token_file",
    404: "there is no such file: correct src or files",
    410: "it is no longer there: correct src or files",
}


class Web(Streams):
    """`src`: a URL. That of a folder ends in /, with `files` below it or those that the list of checksums `sums` names.

    `token`: sent as a Bearer token to that host.
    """

    def __init__(
        self,
        src: str,
        files: Sequence[str],
        sums: str | None = None,
        *,
        token: str | None = None,
    ) -> None:
        parts = urlsplit(src)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise RankzeroError(f"src: {src!r} is not a URL; give http://HOST/... or https://HOST/...")
        if parts.password is not None:
            raise RankzeroError("src: the URL contains a password, which logs would show; put it into ~/.netrc")
        self.src, self.label = src, urlunsplit(parts._replace(query="", fragment=""))
        self.folder = parts.path.endswith("/") or not parts.path
        if sums and not self.folder:
            raise RankzeroError(
                f"checksums: requires a folder, but {self.label} does not end in /; give sha256 for a single file"
            )
        if self.folder and not files and not sums:
            raise RankzeroError(
                f"src: {self.label} is a folder, but a web server does not list the files of a folder; give "
                f"files or checksums"
            )
        self.names = [plain(name) for name in files] if self.folder else [plain(_last(parts.path))]
        self.sums = plain(sums) if sums else None
        self.host = parts.netloc
        self.environment = os.environ
        self.token = token

    def expect(self, names: Iterable[str]) -> None:
        """Set the files below a folder, as HTTP cannot list them."""
        self.names = self.names or [plain(name) for name in names]

    def url(self, path: str) -> str:
        """The URL of one file."""
        return urljoin(self.src, quote(path)) if self.folder else self.src

    def listing(self, wanted: Callable[[str], bool]) -> list[Item]:
        """Request size and validator of each wanted file, several at a time."""
        offered = [*self.names, *([self.sums] if self.sums else [])]
        return together(self.item, filter(wanted, offered), max(8, self.parallel))

    def item(self, path: str) -> Item:
        """The server's data about a file, without its content. Raises RankzeroError."""
        for method in ("HEAD", "GET"):
            try:
                with self._asked(path, {}, method) as answer:
                    return _item(path, answer)
            except urllib.error.HTTPError as error:
                # Some servers do not support HEAD, and neither do URLs that were signed for GET.
                if method == "HEAD" and error.code in (400, 403, 405, 501):
                    continue
                raise self._refused(path, error) from error
            except (OSError, http.client.HTTPException) as error:
                raise RankzeroError(
                    f"src: {self._named(path)} cannot be reached: {getattr(error, 'reason', error)}. The part that "
                    "was transferred is kept; run again, or use source: controller if the server is out of reach here."
                ) from error
        raise RankzeroError(f"src: {self._named(path)} gave no answer")

    @contextmanager
    def open(self, item: Item, offset: int) -> Iterator[tuple[int, Iterable[bytes]]]:
        """The file from `offset` on. Raises Changed if the server's file is another one, OSError to try again."""
        headers = {"Range": f"bytes={offset}-"} if offset else {}
        validator = _validator(item.stamp)
        if offset and validator:
            headers["If-Range"] = validator
        with contextlib.ExitStack() as stack:
            try:
                answer = stack.enter_context(self._asked(item.path, headers))
            except urllib.error.HTTPError as error:
                if error.code == 416:
                    raise Changed(self.item(item.path)) from error
                if error.code < 500 and error.code not in (408, 429):
                    raise self._refused(item.path, error) from error
                raise
            begins, now = offset, _item(item.path, answer)
            if answer.status == 206:
                given = re.fullmatch(r"bytes ([0-9]+)-[0-9]+/([0-9]+|\*)", answer.headers.get("Content-Range") or "")
                begins = int(given[1]) if given else 0
                now = replace(now, size=int(given[2]) if given and given[2].isdigit() else item.size)
            else:
                begins = 0
            now = replace(now, sha256=item.sha256, size=item.size if now.size is None else now.size)
            if item.stamp and (now.stamp, now.size) != (item.stamp, item.size if item.size is not None else now.size):
                raise Changed(now)
            yield begins, read_blocks(answer)

    def _asked(self, path: str, headers: Mapping[str, str], method: str = "GET") -> Any:
        own = {"Accept-Encoding": "identity", **headers}
        if self.token:
            own["Authorization"] = f"Bearer {self.token}"
        login = None if self.token else login_of(urlsplit(self.src).hostname or "", self.environment)
        return open_url(self.url(path), self.environment, headers=own, login=login, method=method)

    def _named(self, path: str) -> str:
        parts = urlsplit(self.url(path))
        return urlunsplit(parts._replace(query="", fragment=""))

    def _refused(self, path: str, error: urllib.error.HTTPError) -> Failed:
        advice = _ADVICE.get(error.code, "run again later; what has come is kept")
        return Failed(f"src: {self._named(path)}: the server answered {error.code} {error.reason}; {advice}")


def _item(path: str, answer: Any) -> Item:
    headers = answer.headers
    length = headers.get("Content-Length", "")
    stamp = headers.get("ETag") or headers.get("Last-Modified") or ""
    return Item(path, int(length) if length.isdigit() else None, None, stamp)


def _validator(stamp: str) -> str | None:
    """The value for If-Range: a strong ETag or a time, else None."""
    return None if not stamp or stamp.startswith("W/") else stamp


def _last(path: str) -> str:
    return unquote(path.rsplit("/", 1)[-1])
