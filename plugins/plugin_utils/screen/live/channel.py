# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pipe from the processes of tasks to the process that owns the screen, opened before Ansible starts its workers.

Ansible forks a worker for every task and host, and workers have no terminal. A callback that shows rows opens the
channel, and the workers inherit it. If no callback has opened it, an action shows lines through Ansible's display.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import asdict

from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.rows import Row, row_of

BLOCK = 65536


class Channel:
    """Carries rows from many processes to one. Each row is one line of JSON, which is never mixed with another row."""

    def __init__(self) -> None:
        self.source, self._sink = os.pipe()
        os.set_blocking(self.source, False)
        # Several workers may write at once, and only short lines are written atomically, so a writer holds this lock.
        self._lock = tempfile.TemporaryFile(prefix="rankzero-")  # noqa: SIM115  # as long as the channel
        self._torn = b""

    def send(self, row: Row) -> None:
        """Write a row. Does nothing if the reader is gone."""
        left = json.dumps({name: value for name, value in asdict(row).items() if value is not None}).encode() + b"\n"
        try:
            fcntl.lockf(self._lock, fcntl.LOCK_EX)
            try:
                while left:
                    left = left[os.write(self._sink, left) :]
            finally:
                fcntl.lockf(self._lock, fcntl.LOCK_UN)
        except OSError:
            return

    def receive(self) -> Iterator[Row]:
        """The rows that have arrived, without waiting for more."""
        while True:
            try:
                block = os.read(self.source, BLOCK)
            except (BlockingIOError, InterruptedError):
                return
            if not block:
                return
            *lines, self._torn = (self._torn + block).split(b"\n")
            for line in lines:
                try:
                    document = json.loads(line)
                except ValueError:
                    # An incomplete line of a worker that was killed while writing.
                    continue
                row = row_of(document) if isinstance(document, dict) else None
                if row is not None:
                    yield row

    def close(self) -> None:
        """Close both ends of the pipe."""
        for descriptor in (self.source, self._sink):
            os.close(descriptor)
        self._lock.close()


_open: Channel | None = None


def open_channel() -> Channel:
    """Open the channel for this process and all workers that it starts from now on."""
    global _open
    if _open is None:
        _open = Channel()
    return _open


def close_channel() -> None:
    """Close the channel: from now on, actions show plain lines."""
    global _open
    if _open is not None:
        _open.close()
    _open = None


def channel() -> Channel | None:
    """The open channel, or None if no callback shows rows."""
    return _open
