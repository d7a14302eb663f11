# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Progress of a wait on the screen: one line for each event, with its host and job; step lines are rate limited."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.event import Event

#: Shortest time in seconds between two step lines on the screen. Logs keep all of them.
PACE = 1.0
COLORS = {"stuck": "yellow", "silent": "yellow", "requeued": "yellow", "followed": "yellow"}
BAR_WIDTH = 24


class Progress:
    """Shows events through `show(line, color)`. `clock` returns monotonic seconds.

    `pace`: seconds between two step lines. `bar(text)`: writes at the beginning of the terminal's current line without
    ending it; if given, steps with a known end are shown there as a bar.
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
        #: What the lines are about, if not about a job.
        self.subject = ""

    def show_line(self, text: str, color: str | None = None) -> None:
        """Show one line: "host: job 7: text", or with the given subject instead of the job."""
        if self._bar and self._drawn:
            self._bar(" " * self._drawn)
            self._bar("")
            self._drawn = 0
        self._show(printable(f"{self._host}: {self._subject()}{text}"), color)

    def events(self, events: Iterable[Event]) -> None:
        """Show the events of a poll. If step lines come too fast, the newest is kept and shown later."""
        for event in events:
            if event.kind == "metrics":
                self._held = event
            else:
                self.flush()
                self.show_line(event.text, COLORS.get(event.kind))
        if self._held and (self._shown_at is None or self._clock() - self._shown_at >= self._pace):
            self._step()

    def flush(self) -> None:
        """Show the step line that was kept, so that the last one is always shown."""
        if self._held:
            self.show_line(self._held.text)
            self._held, self._shown_at = None, self._clock()

    def _subject(self) -> str:
        subject = self.subject or (f"job {self.job_id}" if self.job_id else "")
        return f"{subject}: " if subject else ""

    def _step(self) -> None:
        """Show the kept step as a bar if possible. It is kept, so that it also gets a line at the end."""
        if self._bar is None or self._held is None or self._held.fraction is None:
            self.flush()
            return
        filled = round(self._held.fraction * BAR_WIDTH)
        drawn = f"[{'#' * filled}{'.' * (BAR_WIDTH - filled)}] {self._held.fraction:4.0%}"
        line = f"{self._host}: {self._subject()}{drawn} {self._held.text}"[: max(20, self._width - 1)]
        self._bar(line.ljust(self._drawn))
        self._drawn, self._shown_at = len(line), self._clock()
