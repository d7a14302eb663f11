# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draws rows. On a terminal, running rows stay below the others and are updated in place; otherwise each is printed
once.

The cursor is never hidden, and rows drawn in place are erased before anything else is written. So the terminal is left
usable even if the program is killed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.layout import Layout, columns
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.rows import OK, WARNING, Board, Row


@dataclass
class Painter:
    """`write`: writes text at once. `size`: current (columns, lines) of the terminal. `live`: rows change in place."""

    write: Callable[[str], None]
    clock: Callable[[], float]
    size: Callable[[], tuple[int, int]] = lambda: (80, 24)
    live: bool = False
    colour: bool = False
    hosts: int = 0
    board: Board = field(default_factory=Board)
    kept: Callable[[str], None] = lambda line: None
    _drawn: list[int] = field(default_factory=list)
    _picture: str = ""
    _held: bool = False
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        # A worker that is forked while the screen is drawn would otherwise wait forever for the lock.
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        self._lock = threading.RLock()
        self.live, self._drawn, self._picture = False, [], ""

    def add(self, row: Row) -> None:
        """Show a row."""
        with self._lock:
            ended = self.board.add(row, self.clock())
            if ended is not None:
                self._print([ended])
            self._draw()

    def begin_task(self, row: Row) -> None:
        """A task has started on a host."""
        with self._lock:
            self.board.begin_task(row, self.clock())

    def end_task(self, host: str) -> float | None:
        """A task has ended on a host. Returns its duration in seconds."""
        with self._lock:
            return self.board.end_task(host, self.clock())

    def end_item(self, host: str) -> float | None:
        """An item of a task's loop has ended on a host. Returns its duration in seconds."""
        with self._lock:
            return self.board.end_item(host, self.clock())

    def tick(self) -> None:
        """Redraw after some time has passed."""
        with self._lock:
            self._draw()

    def above(self, text: str, write: Callable[[str], object]) -> None:
        """Let other code write to the terminal, above the running rows. They are drawn again after a complete line."""
        with self._lock:
            self._wipe()
            write(text)
            self._held = not text.endswith("\n") if text else self._held

    def close(self, mark: str) -> None:
        """Stop drawing. Rows that still run are printed with `mark` as their outcome."""
        with self._lock:
            rest = [row for row in self.board.rest() if row.name]
            self._print([replace(row, state=WARNING, detail=mark) if mark else replace(row, state=OK) for row in rest])
            self._wipe()
            self.live = False

    def _layout(self) -> Layout:
        return Layout(self.size()[0] if self.live else None, self.colour, self.hosts)

    def _print(self, rows: list[Row]) -> None:
        layout = self._layout()
        plain = replace(layout, width=None, colour=False)
        lines = [line for row in rows for line in layout.lines(row)]
        if lines:
            # A single write, so that the running rows never disappear.
            wiped = self._wiping()
            self._drawn, self._picture = [], ""
            self.write(wiped + "".join(f"{line}\n" for line in lines))
            self._held = False
        for row in rows:
            for line in plain.lines(row):
                self.kept(line)

    def _draw(self) -> None:
        now = self.clock()
        layout = self._layout()
        if not self.live:
            for running in self.board.due(now):
                line = layout.running(running.row, now - running.began, now)
                self.write(f"{line}\n")
            return
        if self._held:
            return
        height = self.size()[1]
        rows = self.board.running(now)
        most = max(1, height - 2)
        more = [f"    and {len(rows) - most + 1} more"] if len(rows) > most else []
        rows = rows[: most - 1] if more else rows
        drawn, plain = (
            [kind.running(row.row, now - row.began, now) for row in rows] + more
            for kind in (layout, replace(layout, colour=False))
        )
        picture = "\n".join(drawn)
        if picture == self._picture:
            return
        self.write(self._wiping() + picture)
        self._drawn, self._picture = [columns(line) for line in plain], picture

    def _wipe(self) -> None:
        text = self._wiping()
        self._drawn, self._picture = [], ""
        if text:
            self.write(text)

    def _wiping(self) -> str:
        """The text that erases the drawn rows. A terminal that became narrower has wrapped them onto more lines."""
        if not self._drawn:
            return ""
        width = max(1, self.size()[0])
        lines = sum(max(1, -(-length // width)) for length in self._drawn)
        return "\r" + (f"\x1b[{lines - 1}A" if lines > 1 else "") + "\x1b[J"
