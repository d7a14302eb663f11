# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of others that are read whole: each up to a limit of its size, and none that is a pipe or a device."""

from __future__ import annotations

import errno
import io
import json
import os
import stat
from typing import IO

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject

# The most bytes of a document and of other text that is read whole; of what lists a million files; and of one value.
MOST_BYTES, MOST_LIST_BYTES, MOST_VALUE_BYTES = 8 << 20, 256 << 20, 128 << 10


def whole(stream: IO[bytes], path: str, most: int = MOST_BYTES) -> bytes:
    """The rest of an open file that others may have written. Raises OSError, also for more than `most` bytes.

    `path`: for that error.
    """
    content = stream.read(most + 1)
    if len(content) > most:
        size = max(len(content), os.fstat(stream.fileno()).st_size)
        raise OSError(errno.EFBIG, f"has {size} bytes, and at most {most} are read", path)
    return content


def content_of(path: str, most: int = MOST_BYTES) -> bytes:
    """All of a regular file, as `whole`; opening it waits for no pipe or device. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "is not a regular file", path)
        return whole(stream, path, most)


def text_of(path: str, most: int = MOST_BYTES, errors: str = "strict") -> str:
    """The text of a file, as `content_of`; each end of a line becomes \\n. Raises OSError and UnicodeDecodeError."""
    return io.StringIO(content_of(path, most).decode("utf-8", errors), newline=None).getvalue()


def last_text(path: str, most: int = MOST_BYTES) -> str:
    """The last lines of a file that may be of any size, together at most `most` bytes. Raises OSError."""
    with open(path, "rb") as stream:
        before = max(0, os.fstat(stream.fileno()).st_size - most)
        stream.seek(before)
        content = stream.read(most)
    # The first of these lines was cut.
    return (content.partition(b"\n")[2] if before else content).decode("utf-8", "replace")


def last_bytes(stream: IO[bytes] | None, most: int = 1 << 16) -> bytes:
    """Read what another program writes to its end, and return the last `most` bytes."""
    last = b""
    for part in iter(lambda: stream.read(most) if stream else b"", b""):
        last = (last + part)[-most:]
    return last


def json_of(path: str, most: int = MOST_BYTES) -> JsonObject:
    """The object in a JSON file. Raises OSError, as `content_of`; ValueError for anything else."""
    document = parsed_json(path, most)
    if not isinstance(document, dict):
        raise ValueError(f"{path} holds no object")
    return document


def parsed_json(path: str, most: int = MOST_BYTES) -> object:
    """The content of a JSON file. Raises OSError, as `content_of`; ValueError for anything but JSON."""
    try:
        return json.loads(content_of(path, most))
    except RecursionError as error:
        raise ValueError(f"{path} is nested too deeply") from error


def read_json(path: str) -> object:
    """Return the content of a JSON file; None if it is missing, unreadable, not valid JSON, or above MOST_BYTES."""
    try:
        return parsed_json(path)
    except (OSError, ValueError):
        return None
