# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a watched job ended, as exactly as Slurm says it and no clock can spoil. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import states
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import JobRecord

# How long (seconds) an outcome is looked for from when the end is seen, however long ago it was.
LEAST = 10.0


@dataclass
class End:
    """What Slurm's answers say of the end of a job. Times are seconds of the caller's monotonic clock.

    `alive`: the last answer that showed the job and no end of it. `at`: when it ended; None where no end is known.
    """

    alive: float | None = None
    at: float | None = None

    def hear(self, record: JobRecord | None, now: float, clock: float) -> None:
        """Take in one answer of squeue. `record`: None if the job is missing. `clock`: epoch seconds on the cluster.

        Slurm's end is compared with the clock of the host that was asked, never with the controller's. Where that one
        is wrong, too, the end still lies between the last answer without it and this one.
        """
        if record is None:
            return
        if not states.is_final(record.state):
            self.at = None
            # Slurm counts a job that completes as ended.
            self.alive = self.alive if record.state == "COMPLETING" else now
        elif self.at is None and record.end is not None:
            ago = max(0.0, clock - record.end)
            self.at = now - ago if self.alive is None else max(self.alive, now - ago)

    def wait_until(self, seen: float, grace: float) -> float:
        """Until when an outcome may still appear. `seen`: since when the end is known. `grace`: seconds for that."""
        return max((seen if self.at is None else self.at) + grace, seen + min(grace, LEAST))


def never_ran(record: JobRecord | None, claimed: bool) -> bool:
    """Whether no script ran, so that no outcome will appear: the job ended while it was pending, or its node could not
    open its log. `claimed`: a script of the launch has begun.
    """
    if record is None:
        return False
    if record.start in (None, record.end) and record.state in ("CANCELLED", "DEADLINE"):
        return True
    return not claimed and states.log_not_opened(record.state, record.signal)
