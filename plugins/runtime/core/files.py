# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the programs on the nodes share: documents on shared storage, whole or not there at all, and what is asked of
files and processes that another user may have made.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import stat
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import IO, Any

# The largest document, in bytes: those that the runtime writes are far smaller. And what lists a million files.
MOST_BYTES, MOST_LIST_BYTES = 8 << 20, 256 << 20
POLL_SECONDS = 0.1
LONGEST_PAUSE = 2.0
# The folder of the nodes that may become the first one, which all others wait for. It stays small.
HEADS = "heads"


def publish(path: str, document: Any, mode: int = 0o666) -> None:
    """`mode`: as for open(2), before the umask."""
    temporary = f"{path}.{os.getpid()}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    with open(descriptor, "w", encoding="utf-8") as stream:
        json.dump(document, stream)
    os.replace(temporary, path)


def names_in(folder: str) -> set[str]:
    """The set of names in a folder; empty where it cannot be listed."""
    try:
        return set(os.listdir(folder))
    except OSError:
        return set()


def listed(path: str) -> bool:
    """Whether a file's folder names it. Asked before the file itself: a network file system remembers a miss."""
    return os.path.basename(path) in names_in(os.path.dirname(path))


def read(path: str) -> Any:
    """A published document, or None."""
    return load(path) if listed(path) else None


def load(path: str) -> Any:
    """The same without a listing: of what was published before this process began, and looked for by nobody here."""
    try:
        return document(path)
    except (OSError, ValueError, RecursionError):
        return None


def whole(stream: IO[bytes], path: str, most: int = MOST_BYTES) -> bytes:
    """The rest of an open file that others may have written. Raises OSError for more than `most` bytes."""
    content = stream.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"has more than the {most} bytes that are read", path)
    return content


def content(path: str, most: int = MOST_BYTES) -> bytes:
    """All of a file. Raises OSError, as `whole`."""
    with open(path, "rb") as stream:
        return whole(stream, path, most)


def document(path: str) -> Any:
    """The content of a JSON file. Raises OSError, also for more than MOST_BYTES; ValueError for other text."""
    return json.loads(content(path))


def read_all(folder: str, names: Iterable[str]) -> dict[str, Any]:
    """The published documents of these names, whose folder is listed once; None for each that is not there."""
    there = names_in(folder)
    return {name: load(os.path.join(folder, name)) if name in there else None for name in names}


def await_document(path: str, deadline: float) -> Any:
    """The same once it is there, or None at the deadline (time.monotonic).

    The longer the wait, the longer the pauses, up to LONGEST_PAUSE: thousands of nodes may wait for one file on shared
    storage. The pauses differ from node to node.
    """
    begun = time.monotonic()
    document = read(path)
    while document is None and time.monotonic() < deadline:
        pause = min(max(POLL_SECONDS, (time.monotonic() - begun) / 4), LONGEST_PAUSE) * random.uniform(0.75, 1.25)
        time.sleep(max(0.0, min(pause, deadline - time.monotonic())))
        document = read(path)
    return document


def opened(path: str, flags: int = os.O_RDONLY) -> int:
    """A descriptor of a regular file. Raises OSError for anything else; links are followed.

    Nothing is waited for: a pipe would wait for a writer, a device may never end.
    """
    # Looked at before it is opened: some devices do something when they are.
    if stat.S_ISREG(os.stat(path).st_mode):
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        # The name may have got another file in between.
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
    raise OSError(errno.EINVAL, "it is not a regular file", path)


def own_process(number: int | str) -> bool:
    """Whether all user ids of a process are those of this one: not of one that has got them by a setuid bit."""
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{number}/status", "rb") as stream:
        ids = next((line.split()[1:] for line in stream if line.startswith(b"Uid:")), [])
        return bool(ids) and {int(each) for each in ids} == {os.getuid()}
    return False
