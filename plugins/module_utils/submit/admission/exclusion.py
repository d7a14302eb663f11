# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of a node that launches exclude for a time. Data only: the controller reads it, too."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone


@dataclass(frozen=True)
class Exclusion:
    """An excluded node: the reason, the job that found it (empty: a person), and start and end in epoch seconds."""

    node: str
    reason: str
    job_id: str
    time: float
    expires: float

    def words(self) -> str:
        """Return node, end (UTC), job and reason as text for people."""
        until = datetime.fromtimestamp(self.expires, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        return f"{self.node} until {until} ({'job ' + self.job_id + ': ' if self.job_id else ''}{self.reason})"
