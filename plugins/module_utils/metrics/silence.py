# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a running job is silent that has not shown yet how long its steps take, or has made the last one. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.checklist import RankFacts, Stall


def find_silence(ranks: Mapping[int, RankFacts], begun: float | None, now: float, floor: float) -> Stall | None:
    """The silence of a job that has shown no time of a step to come: no line in any log for `floor` seconds; else None.

    It may as well compute. `begun`: when its ranks were started (epoch seconds).
    """
    steps = [facts.progress for facts in ranks.values() if facts.progress]
    if begun is None or any(progress.seconds for progress in steps if not progress.last):
        return None
    age = now - max([begun, *(facts.modified for facts in ranks.values())])
    return Stall(age, None, max((progress.step for progress in steps), default=None)) if age >= floor else None
