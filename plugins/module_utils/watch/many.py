# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Watch many launches at once, with one squeue call for all of them and a limited number of file reads. Pure.

A poll costs the same for a hundred launches as for a thousand: one squeue call for the jobs that are not over, and the
run directories of at most BATCH launches. Launches that may be over come first, then running ones in turn. Pending
launches write nothing, so their folders are read about once a minute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import RUNNING, WAITING
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.event import Event
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.launch import Watch
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.poll import Poll, Target

# Run directories of one poll: the shell text stays well below the limit of one argument of a command (128 KiB).
BATCH = 48
# At most this many launches: the cluster waits for a change in one of their run directories. For more, the controller
# waits between polls.
HELD = 8
# How often (seconds) the folder of a pending launch is read.
IDLE = 60.0


class Waits:
    """Several watches that are polled together. Times are seconds of the caller's monotonic clock.

    `first`: the number of watches whose end is enough; None: all.
    """

    def __init__(self, watches: Sequence[Watch], first: int | None = None) -> None:
        self.watches = list(watches)
        self._enough = len(self.watches) if first is None else first
        self._looked: dict[int, float] = {}
        self._batch: list[int] = []

    @property
    def left(self) -> list[int]:
        """The indices of the watches that are not done."""
        return [index for index, watch in enumerate(self.watches) if not watch.done]

    @property
    def done(self) -> bool:
        """Whether all jobs have ended, or the `first` ones that were asked for."""
        return len(self.watches) - len(self.left) >= self._enough

    def targets(self, now: float) -> list[Target]:
        """What the next poll should read; its views come in this order."""
        left = self.left

        def due(index: int) -> bool:
            looked = self._looked.get(index)
            return looked is None or len(left) == 1 or self.watches[index].rank < 2 or now - looked >= IDLE

        order = sorted(filter(due, left), key=lambda index: (self.watches[index].rank, self._looked.get(index, -1.0)))
        self._batch = order[:BATCH]
        for index in self._batch:
            self._looked[index] = now
        return [self.watches[index].target() for index in self._batch]

    def jobs(self) -> list[str]:
        """The jobs to pass to squeue."""
        return [self.watches[index].job_id for index in self.left]

    def ask_queue(self, when: float) -> bool:
        """True if squeue is due by then for any launch; it is then called for all."""
        return any(self.watches[index].ask_queue(when) for index in self.left)

    def feed(self, poll: Poll, now: float, wall: float | None = None) -> list[tuple[int, Event]]:
        """Process one poll of `targets`. Returns (index of the watch, event) in the order of the watches."""
        places = {index: place for place, index in enumerate(self._batch)}
        # They were read at the end of the poll, which may have waited.
        self._looked.update(dict.fromkeys(self._batch, now))
        events = []
        for index in self.left:
            if index in places or poll.asked or poll.spent:
                own_events = self.watches[index].feed(poll, now, places.get(index), wall)
                events += [(index, event) for event in own_events]
        return events

    def delay(self, round_trip: float = 0.0) -> float:
        """Seconds until the next poll: the shortest delay of all watches. A single launch is looked at when it has
        stood still for long enough: a look more for each of many would be too much.
        """
        left = [self.watches[index] for index in self.left]
        usual = min((watch.delay(round_trip) for watch in left), default=0.0)
        return min(usual, left[0].silent_in) if len(left) == 1 else usual

    def holds(self) -> bool:
        """Whether the cluster can wait for the next change, because only a few launches are left and none of them seems
        to be over.
        """
        left = self.left
        return len(left) <= HELD and all(self.watches[index].rank for index in left)

    def summary(self) -> str:
        """ "3 of 10 over, 5 running, 2 waiting", for a line among the events of single launches."""
        counts = Counter(self._kind(watch) for watch in self.watches)
        parts = [f"{counts['over']} of {len(self.watches)} over"]
        parts += [f"{counts[kind]} {kind}" for kind in (RUNNING, WAITING) if counts[kind]]
        return ", ".join(parts)

    def _kind(self, watch: Watch) -> str:
        if watch.done:
            return "over"
        return WAITING if watch.record is not None and watch.record.pending else RUNNING
