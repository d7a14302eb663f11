# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a watch looks at the files of its job, and calls squeue, next. Pure.

The files are read when the job has written one that decides something, else at intervals that grow. squeue is called
with such a look, at growing intervals while the files show progress (a site allows about four queries a minute over
long periods). A look costs the login node the start of a Python.
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.watch.poll import Poll

# The longest time (seconds) between two looks: in the first minute of a wait (YOUNG), when somebody is likely to watch,
# or while Slurm closes the job; later; and when the job seems to be over.
LOOK, LATER_LOOK, LAST_LOOKS = 5.0, 10.0, 1.0
YOUNG = 60.0
# The delay (seconds) before the next try when this minute's queries are used up.
SPENT = 5.0
#: How a job stands: it waits or runs, Slurm closes it, it seems to be over.
RUNS, ENDS, LAST = "runs", "ends", "last"


@dataclass
class Schedule:
    """`delay`: seconds until the next look. `queue_at`: when squeue is due, in seconds of the caller's monotonic clock;
    None: at once.
    """

    delay: float = 0.0
    queue_at: float | None = None
    _queue_delay: float = 0.0
    _begun: float | None = None

    def plan(self, poll: Poll, now: float, bounds: tuple[float, float], standing: str) -> None:
        """Choose the next times after a poll. `bounds`: the least and the longest delay that the user wants.

        `standing`: RUNS, ENDS or LAST. At a sign of the end, look and call squeue soon.
        """
        least, longest = bounds
        self._begun = now if self._begun is None else self._begun
        later = standing == RUNS and now - self._begun >= YOUNG
        look = min(longest, LAST_LOOKS if standing == LAST else LATER_LOOK if later else LOOK)
        self.delay = min(max(self.delay * 2, least), look)
        if poll.asked:
            self._queue_delay = min(max(self._queue_delay * 1.5, least), longest if standing == RUNS else look)
            self.queue_at = now + self._queue_delay
        elif poll.spent:
            self.queue_at = now + SPENT
        elif standing == LAST and self.queue_at is not None:
            self.queue_at = min(self.queue_at, now)
