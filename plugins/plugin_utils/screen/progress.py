# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a wait shows on the screen: one line an event, each with its host and job; step lines at a readable pace."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.launch import Event

#: At most one step line in this many seconds: people read them, logs keep them all.
PACE = 1.0
COLORS = {"stuck": "yellow", "silent": "yellow", "requeued": "yellow", "followed": "yellow"}
BAR_WIDTH = 24


class Progress:
    """Shows events through `show(line, color)`. `clock` gives seconds that only grow.

    `pace`: seconds between two step lines. `bar(text)`: writes at the beginning of the terminal's current line, without
    ending it; where it is given, steps of which the end is known are a bar there.
    """

    def __init__(
        self,
        show: Callable[[str, str | None], None],
        host: str,
        clock: Callable[[], float],
        *,
        pace: float = PACE,
        bar: Callable[[str], None] | None = None,
        width: int = 80,
    ) -> None:
        self._show = show
        self._host = host
        self._clock = clock
        self._pace = pace
        self._bar = bar
        self._width = width
        self._drawn = 0
        self._held: Event | None = None
        self._shown_at: float | None = None
        self.job_id = ""
        #: What the lines are about, where that is no job.
        self.subject = ""

    def say(self, text: str, color: str | None = None) -> None:
        """One line: "host: job 7: text", or with the subject that was given."""
        if self._bar and self._drawn:
            self._bar(" " * self._drawn)
            self._bar("")
            self._drawn = 0
        self._show(printable(f"{self._host}: {self._subject()}{text}"), color)

    def events(self, events: Iterable[Event]) -> None:
        """Show what a poll brought. Of step lines that come too fast the newest is held back, never lost."""
        for event in events:
            if event.kind == "metrics":
                self._held = event
            else:
                self.flush()
                self.say(event.text, COLORS.get(event.kind))
        if self._held and (self._shown_at is None or self._clock() - self._shown_at >= self._pace):
            self._step()

    def flush(self) -> None:
        """Show the step line that is held back: the last one is always seen."""
        if self._held:
            self.say(self._held.text)
            self._held, self._shown_at = None, self._clock()

    def _subject(self) -> str:
        subject = self.subject or (f"job {self.job_id}" if self.job_id else "")
        return f"{subject}: " if subject else ""

    def _step(self) -> None:
        """The held step, as a bar where that can be. It stays held then: a line of its own ends it."""
        if self._bar is None or self._held is None or self._held.fraction is None:
            self.flush()
            return
        filled = round(self._held.fraction * BAR_WIDTH)
        drawn = f"[{'#' * filled}{'.' * (BAR_WIDTH - filled)}] {self._held.fraction:4.0%}"
        line = f"{self._host}: {self._subject()}{drawn} {self._held.text}"[: max(20, self._width - 1)]
        self._bar(line.ljust(self._drawn))
        self._drawn, self._shown_at = len(line), self._clock()
