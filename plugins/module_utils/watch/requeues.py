# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Notice that Slurm put a job back into the queue, also where no query of the queue saw it wait there. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import JobRecord


@dataclass
class Requeues:
    """`count`: how often the job has been put back, as far as it is known."""

    count: int = 0

    def news(self, record: JobRecord, before: JobRecord | None, *, attempt_told: bool) -> bool:
        """Whether the job was put back since `before`, the answer of the last query.

        `attempt_told`: the attempt that runs now has been reported, so its requeue is no news.
        Slurm's count of restarts tells where the queue was not asked in time. Slurm does not count a job that it holds
        at once: there the states tell.
        """
        known, self.count = self.count, max(self.count, record.restarts or 0)
        seen = record.pending and before is not None and before.running
        if seen:
            self.count = max(self.count, known + 1)
        counted = self.count > known and (record.pending or (before is not None and not attempt_told))
        return seen or counted
