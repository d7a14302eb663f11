# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The values of a job's secrets on the cluster: read where they were sent or lie, and written for its user alone."""

from __future__ import annotations

import base64
import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import MOST_VALUE_BYTES, content_of


@contextlib.contextmanager
def forgetting(secrets_file: str | None) -> Iterator[None]:
    """Remove the file of secrets in the end: it was sent for this call only, and the sender may be gone by now."""
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.unlink(secrets_file or "")


def lines_of(sent: str | None, files: Mapping[str, str]) -> bytes:
    """Return lines NAME=base64. `sent`: the file with those that the controller sent; `files`: name -> a file on the
    cluster with the value.

    Raises RankzeroError if a value cannot be read, and OSError for the file that was sent.
    """
    lines = content_of(sent) if sent else b""
    for name, path in sorted(files.items()):
        try:
            value = content_of(os.path.expanduser(path), MOST_VALUE_BYTES).rstrip(b"\r\n")
        except OSError as error:
            raise RankzeroError(
                f"secrets.{name}: the file {path} cannot be read on the cluster: {error.strerror}"
            ) from error
        if not value or b"\0" in value:
            what = "contains a NUL character, which an environment variable cannot" if value else "is empty"
            raise RankzeroError(f"secrets.{name}: the file {path} on the cluster {what}")
        lines += name.encode() + b"=" + base64.b64encode(value) + b"\n"
    return lines


def write(path: str, content: bytes) -> None:
    """Create the file PATH with mode 0600. Raises OSError, also if there is one."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)


def write_new(folder: str, content: bytes) -> str:
    """Write a file of a name of its own into FOLDER, which nobody else enters; it appears whole. Return its path.

    Raises OSError.
    """
    os.makedirs(folder, 0o700, exist_ok=True)
    os.chmod(folder, 0o700)
    descriptor, made = tempfile.mkstemp(dir=folder)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
    os.rename(made, f"{made}.env")
    return f"{made}.env"
