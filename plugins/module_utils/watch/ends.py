# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a watched job ended, and since when else something holds: as exactly as the cluster says it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import states
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import JobRecord

# How long (seconds) something is looked at from when it is first seen, however long ago it began.
LEAST = 10.0


@dataclass
class Since:
    """Since when something holds. Times are seconds of the caller's monotonic clock.

    `before`: the last look at which it did not hold. `seen`: the first at which it did. `at`: when it began.
    """

    before: float | None = None
    seen: float | None = None
    at: float | None = None

    def hear_whether(self, holds: bool, now: float, ago: float | None) -> None:
        """Take in one look. `ago`: for how long (seconds) it holds by a time from the cluster; None where it has none.

        Both times of the difference are the cluster's, never the controller's. Where its clocks are wrong, too, the
        beginning still lies between the last look without it and this one.
        """
        if not holds:
            self.before, self.seen, self.at = now, None, None
        elif self.seen is None:
            self.seen = now
            began = now - max(0.0, ago or 0.0)
            self.at = began if self.before is None else max(self.before, began)

    def lasts(self, now: float, seconds: float) -> bool:
        """Whether it holds for so long, and was looked at for a while."""
        return self.at is not None and self.seen is not None and now >= wait_until(self.at, self.seen, seconds)


class End(Since):
    """What Slurm's answers say of the end of a job."""

    def hear(self, record: JobRecord | None, now: float, clock: float) -> None:
        """Take in one answer of squeue. `record`: None if the job is missing. `clock`: epoch seconds on the cluster."""
        if record is None:
            return
        final = states.is_final(record.state)
        if not final or record.end is not None:
            alive = self.before
            self.hear_whether(final, now, clock - (record.end or clock))
            # Slurm counts a job that completes as ended.
            self.before = alive if record.state == "COMPLETING" else self.before


def wait_until(at: float | None, seen: float, seconds: float) -> float:
    """Until when something is waited for that began `at` (None: not known) and was first `seen` then."""
    return max((seen if at is None else at) + seconds, seen + min(seconds, LEAST))


def never_ran(record: JobRecord | None, claimed: bool) -> bool:
    """Whether no script ran, so that no outcome will appear: the job ended while it was pending, or its node could not
    open its log. `claimed`: a script of the launch has begun.
    """
    if record is None:
        return False
    if record.start in (None, record.end) and record.state in ("CANCELLED", "DEADLINE"):
        return True
    return not claimed and states.log_not_opened(record.state, record.signal)
