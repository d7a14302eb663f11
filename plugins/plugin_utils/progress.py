# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a wait shows on the screen: one line an event, each with its host and job; step lines at a readable pace."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.watch import Event

#: At most one step line in this many seconds: people read them, logs keep them all.
PACE = 1.0
COLORS = {"stuck": "yellow", "silent": "yellow", "requeued": "yellow", "followed": "yellow"}


class Progress:
    """Shows events through `show(line, color)`. `clock` gives seconds that only grow."""

    def __init__(self, show: Callable[[str, str | None], None], host: str, clock: Callable[[], float]) -> None:
        self._show = show
        self._host = host
        self._clock = clock
        self._held = ""
        self._shown_at: float | None = None
        self.job_id = ""

    def say(self, text: str, color: str | None = None) -> None:
        """One line: "host: job 7: text"."""
        job = f"job {self.job_id}: " if self.job_id else ""
        self._show(f"{self._host}: {job}{text}", color)

    def events(self, events: Iterable[Event]) -> None:
        """Show what a poll brought. Of step lines that come too fast the newest is held back, never lost."""
        for event in events:
            if event.kind == "metrics":
                self._held = event.text
            else:
                self.flush()
                self.say(event.text, COLORS.get(event.kind))
        if self._held and (self._shown_at is None or self._clock() - self._shown_at >= PACE):
            self.flush()

    def flush(self) -> None:
        """Show the step line that is held back: the last one is always seen."""
        if self._held:
            self.say(self._held)
            self._held, self._shown_at = "", self._clock()
