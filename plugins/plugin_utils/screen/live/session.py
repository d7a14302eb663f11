# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The screen of one run of ansible-playbook: receives rows from the tasks' processes and draws them as time passes."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TextIO

from ansible_collections.rankzero.slurm.plugins.module_utils.core.process import start_thread
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.channel import close_channel, open_channel
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.painter import Painter
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.rows import Row, settings

#: Seconds between two updates of the screen.
TICK = 0.5


class _Above:
    """Replaces sys.stdout or sys.stderr while rows are drawn, so that other output appears above them."""

    def __init__(self, stream: TextIO, painter: Painter) -> None:
        self._stream = stream
        self._painter = painter

    def write(self, text: str) -> int:
        """Write to the original stream, above the rows."""

        def through(shown: str) -> None:
            self._stream.write(shown)
            self._stream.flush()

        self._painter.above(text, through)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Session:
    """Created in Ansible's main process before the first task. `colour`: None if Ansible's settings leave it open.

    `write`: takes the lines in place of standard output. It is called by the thread that adds rows, and by no other.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        colour: bool | None = None,
        kept: Callable[[str], None] = lambda line: None,
        write: Callable[[str], None] | None = None,
    ) -> None:
        terminal = write is None and sys.stdout is not None and sys.stdout.isatty()
        live, able = settings(environment, terminal)
        self.painter = Painter(
            write or _written,
            time.monotonic,
            _size,
            live=live,
            colour=able if colour is None else colour,
            kept=kept,
        )
        self._channel = open_channel()
        self._reading = threading.Lock()
        self._over = threading.Event()
        # Ends the thread's wait for rows at once.
        self._wake, self._woken = os.pipe()
        self._streams: tuple[TextIO, TextIO] | None = None
        self._process = os.getpid()
        self._hosts: Sequence[str] = ()
        if live:
            self._streams = sys.stdout, sys.stderr
            sys.stdout = _Above(sys.stdout, self.painter)
            if sys.stderr.isatty():
                sys.stderr = _Above(sys.stderr, self.painter)
        elif write is None:
            _by_lines(sys.stdout)
        self._thread = (
            start_thread(threading.Thread(target=self._loop, name="rankzero-screen", daemon=True))
            if write is None
            else None
        )

    def of_hosts(self, names: Sequence[str]) -> None:
        """Set the hosts of the play that begins. With several hosts, rows begin with the host's name."""
        self._hosts = names
        self.painter.hosts = max(map(len, names)) if len(names) > 1 else 0

    def add(self, row: Row) -> None:
        """Show a row of this process, after all rows that tasks have sent."""
        self.drain()
        self.painter.add(row)

    def drain(self) -> None:
        """Show the rows that tasks have sent."""
        with self._reading:
            for row in self._channel.receive():
                self.painter.add(self._with_host(row))

    def _with_host(self, row: Row) -> Row:
        """Take the host from the beginning of a line of text."""
        host, colon, text = row.text.partition(": ")
        if row.host or not colon or host not in self._hosts:
            return row
        return replace(row, host=host, text=text)

    def close(self, mark: str = "") -> None:
        """Stop. `mark`: the outcome printed for rows that still run."""
        if self._over.is_set() or os.getpid() != self._process:
            return
        self.drain()
        self._over.set()
        os.write(self._woken, b".")
        if self._thread:
            self._thread.join(2 * TICK)
        self.painter.close(mark)
        if self._streams:
            sys.stdout, sys.stderr = self._streams
        with self._reading:
            close_channel()
        if self._thread is None or not self._thread.is_alive():
            os.close(self._wake)
            os.close(self._woken)

    def _loop(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(OSError, ValueError):
                ready, _none, _nothing = select.select([self._channel.source, self._wake], [], [], TICK)
                if self._over.is_set():
                    return
                if ready:
                    self.drain()
                self.painter.tick()


def _by_lines(stream: TextIO | None) -> None:
    """Make a pipe or file line buffered, so that each line is written at once."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(line_buffering=True)


def _size() -> tuple[int, int]:
    try:
        size = os.get_terminal_size(1)
        return (size.columns, size.lines) if size.columns > 0 else (80, 24)
    except OSError:
        size = shutil.get_terminal_size()
        return size.columns, size.lines


def _written(text: str) -> None:
    """Write straight to standard output: Ansible may fork while the lock of one of Python's buffers is held."""
    left = text.encode("utf-8", "replace")
    while left:
        try:
            left = left[os.write(1, left) :]
        except InterruptedError:
            continue
        except BlockingIOError:
            select.select([], [1], [])
        except OSError:
            # The reader has gone, as with `| head`.
            return
