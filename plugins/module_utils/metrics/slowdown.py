# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the steps of a running job take longer than before, or those of a rank longer than the others'.

From the step times that the ranks log, at both ends of their logs. Pure.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.checklist import RankLog
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.progress import SLOWER
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.values import step_times

# The first steps compile and fill caches; so many are compared.
WARM_UP, FEWEST, NEWEST = 2, 5, 10
# Of thousands of ranks, only parts of the logs are parsed: characters of the first ranks' logs, and of each log's end.
FIRST_RANKS, EARLY_CHARS, LATE_CHARS = 16, 32_000, 8_000
# A rank is slow from this many times the step of most others on, if so many ranks log their own.
APART, RANKS = 1.5, 3


@dataclass(frozen=True)
class Slowdown:
    """`usual`, `now`: the median step in seconds; `ranks`: those whose own steps take longer than the others'."""

    usual: float
    now: float
    ranks: tuple[int, ...] = ()

    @property
    def sentence(self) -> str:
        """For people: how long the steps take, and how long they took."""
        if self.now < APART * self.usual:
            return f"steps take {self.now:.3g} s"
        return f"steps take {self.now:.3g} s, {self.now / self.usual:.1f} times as long as before ({self.usual:.3g} s)"


def find_slowdown(logs: Iterable[tuple[int, RankLog]]) -> Slowdown | None:
    """The slowdown of a job; None if its steps take as long as before and no rank takes longer than the others.

    `logs`: (rank, its log) in the order of the ranks, read once.
    """
    early: list[list[float]] = []
    late: dict[int, list[float]] = {}
    for rank, log in logs:
        if len(early) < FIRST_RANKS:
            early.append(step_times(log.head[:EARLY_CHARS])[WARM_UP:])
        late[rank] = step_times(log.tail[-LATE_CHARS:])
    early = [times for times in early if len(times) >= FEWEST]
    late = {rank: times for rank, times in late.items() if len(times) >= FEWEST}
    if not late:
        return None
    usual = statistics.median([time for times in (early or late.values()) for time in times[:NEWEST]])
    own = {rank: statistics.median(times[-NEWEST:]) for rank, times in late.items()}
    now = statistics.median(own.values())
    apart = tuple(rank for rank, time in sorted(own.items()) if time >= APART * now)
    apart = apart if len(own) >= RANKS and len(apart) < len(own) / 2 else ()
    return Slowdown(usual, now, apart) if apart or now >= SLOWER * usual > 0 else None
