# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a page on the controller: written by rename, and only where their content differs."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from collections.abc import Mapping

from ansible_collections.rankzero.slurm.plugins.module_utils.core.edges import ModuleResult
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError

HTML = ".html"


def place(files: Mapping[str, str], *, pretend: bool) -> list[ModuleResult]:
    """Make the files have these contents, and return a difference for each file that had another one.

    `files`: path -> content. `pretend` writes nothing. Raises RankzeroError.
    """
    differences = []
    for path, content in files.items():
        try:
            before = content_of(path)
            if before == content:
                continue
            if not pretend:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                replace(path, content)
        except OSError as error:
            raise RankzeroError(f"dest: {path} cannot be written: {error.strerror or error}") from error
        differences.append(
            {
                "before_header": path,
                "after_header": path,
                "before": shown(path, before),
                "after": shown(path, content),
            }
        )
    return differences


def content_of(path: str) -> str | None:
    """A file's text; None if there is no such file."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as stream:
            return stream.read()
    except FileNotFoundError:
        return None


def replace(path: str, content: str) -> None:
    """Write a file by rename: readers see the old one or the new one, and its permissions remain. Raises OSError."""
    target = os.path.realpath(path)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{os.path.basename(target)}.", dir=os.path.dirname(target))
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape", newline="") as stream:
            stream.write(content)
            os.fchmod(stream.fileno(), _mode(target))
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def shown(path: str, content: str | None) -> str:
    """A file's content for a diff. A page is long, so its size and digest stand for it."""
    if content is None:
        return ""
    if not path.endswith(HTML):
        return content
    data = content.encode("utf-8", "surrogateescape")
    return f"a page of {len(data)} bytes, SHA-256 {hashlib.sha256(data).hexdigest()}\n"


def _mode(path: str) -> int:
    """The permissions of the file at that path, or those of a new file."""
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except FileNotFoundError:
        mask = os.umask(0o022)
        os.umask(mask)
        return 0o666 & ~mask
