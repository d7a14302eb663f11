# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The job's log, and files that appear whole. Standard library only."""

from __future__ import annotations

import contextlib
import json
import os
import time

# Bytes of a file that is read whole. A log may be of any size; what the runtime looks for stands at its end.
MOST_BYTES = 4 << 20


def log_line(text: str) -> None:
    """One line of the job's log. Unbuffered: what is started afterwards writes into the same file."""
    line = os.fsencode(f"[rankzero] {text}\n")
    with contextlib.suppress(OSError):
        while line:
            line = line[os.write(1, line) :]


def time_of_day() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


def publish(path: str, text: str) -> None:
    """Make the file hold `text`, whole or not at all. Raises OSError."""
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(temporary, "w", encoding="utf-8", errors="surrogateescape") as stream:
        stream.write(text)
    os.replace(temporary, path)


def publish_json(path: str, document: object) -> None:
    publish(path, json.dumps(document) + "\n")


def ending(path: str, start: int = 0, most: int = MOST_BYTES) -> str:
    """The text of a file from byte `start` on; of more than `most` bytes the last ones. Raises OSError."""
    with open(path, "rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(start, size - most))
        return stream.read(most).decode("utf-8", "replace")


def first_line(path: str) -> str:
    """The first line of a file, stripped; empty where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.readline(4096).strip()
    except OSError:
        return ""
