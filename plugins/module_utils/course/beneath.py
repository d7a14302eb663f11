# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading what belongs to somebody who may want the reader to read something else.

A student's folder is the student's: any name in it may be a link to a file that only the teacher may read, a pipe that
nobody writes to, or a file without an end. Nothing here follows a link, waits, or reads more than it was told to.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# More names than this in one folder were put there to keep the reader busy.
MOST_NAMES = 20000


@dataclass(frozen=True)
class File:
    """A regular file. `changed`: when its content, owner or mode last changed (ctime), in epoch seconds of the file
    system; no user can set it. `data`: its beginning, as far as it was asked for.
    """

    path: str
    size: int
    changed: float
    data: bytes = b""
    sha256: str = ""

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


class Beneath:
    """What lies beneath one folder. What cannot be read is not there."""

    def __init__(self, root: str) -> None:
        self.root = root

    @contextlib.contextmanager
    def _folder(self, relative: str) -> Iterator[int]:
        descriptor = os.open(self.root, _FOLDER)
        try:
            for part in relative.split("/"):
                if part in ("", "."):
                    continue
                inner = os.open(part, _FOLDER, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
            yield descriptor
        finally:
            os.close(descriptor)

    def names(self, relative: str) -> list[str]:
        """The names in a folder, sorted; none where it cannot be read."""
        try:
            with self._folder(relative) as folder, os.scandir(folder) as entries:
                found = []
                for entry in entries:
                    found.append(entry.name)
                    if len(found) >= MOST_NAMES:
                        break
                return sorted(found)
        except OSError:
            return []

    def folders(self, relative: str) -> list[str]:
        """The names of the folders in a folder that are not hidden; links are none."""
        found = []
        with contextlib.suppress(OSError), self._folder(relative) as folder:
            for name in self.names(relative):
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode) and not name.startswith("."):
                    found.append(name)
        return found

    def file(self, relative: str, most: int) -> File | None:
        """A regular file with its first `most` bytes, and their digest where that is all of it."""
        parent, name = os.path.split(relative)
        try:
            with self._folder(parent) as folder:
                descriptor = os.open(name, _FILE, dir_fd=folder)
        except OSError:
            return None
        with os.fdopen(descriptor, "rb") as stream:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return None
            try:
                data = stream.read(most)
            except OSError:
                return None
        digest = hashlib.sha256(data).hexdigest() if status.st_size <= most else ""
        return File(relative, status.st_size, status.st_ctime, data, digest)

    def text(self, relative: str, most: int) -> str:
        found = self.file(relative, most)
        return found.text if found else ""
