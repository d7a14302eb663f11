# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The events of a wait or of a transfer, which the screen shows. Data only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    """An event to report to the user.

    `kind`: pending, stuck, queued, started, metrics (the text is rank 0's own line and the time left), matched, proven,
    requeued, followed, role (one is ready, or starts again), silent, answered, stalled; without a text, which only a
    look at the ranks can give: quiet, slow.
    `fraction`: for metrics, the part that is done, 0 to 1, where the line gives it. `nodes`: for queued and started.
    `paces`: for slow, the usual and the new time of a step in seconds.
    """

    kind: str
    text: str
    fraction: float | None = None
    nodes: tuple[str, ...] = ()
    paces: tuple[float, ...] = ()
