# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a running job makes no step, and whether one is silent of which no step is expected. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.checklist import RankFacts, Stall


def find_stall(ranks: Mapping[int, RankFacts], now: float, factor: float, floor: float) -> Stall | None:
    """The stall, if no rank made a step for `factor` median step times and at least `floor` seconds; else None.

    Where no line gives a time, the average since the start counts: it is longer than a step. After the last step of all
    none is missing: the model may be saved for long (find_silence).
    Ranks are behind whose newest step is older; if there are none, those that log no steps and wrote nothing since.
    """
    steps = {rank: facts.progress for rank, facts in ranks.items() if facts.progress}
    known = [progress.seconds for progress in steps.values() if progress.seconds]
    usual = known or [progress.average for progress in steps.values() if progress.average]
    if not usual:
        return None
    median, newest = statistics.median(usual), max(steps.values(), key=lambda progress: (progress.step, progress.at))
    age = now - max(progress.at for progress in steps.values())
    if all(progress.last for progress in steps.values()) or age < max(floor, factor * median):
        return None
    behind = tuple(rank for rank, progress in sorted(steps.items()) if progress.step < newest.step)
    if not behind and len(steps) < len(ranks):
        # A rank that wrote after this moment was still alive around the newest step.
        quiet = newest.at - max(factor * median, floor)
        behind = tuple(rank for rank, log in sorted(ranks.items()) if rank not in steps and 0 < log.modified < quiet)
        behind = behind if len(behind) <= len(ranks) / 2 else ()
    return Stall(age, median if known else None, newest.step, behind)


def find_silence(ranks: Mapping[int, RankFacts], begun: float | None, now: float, floor: float) -> Stall | None:
    """The silence of a job that has shown no time of a step to come: no line in any log for `floor` seconds; else None.

    It may as well compute. `begun`: when its ranks were started (epoch seconds).
    """
    steps = [facts.progress for facts in ranks.values() if facts.progress]
    if begun is None or any(progress.seconds for progress in steps if not progress.last):
        return None
    age = now - max([begun, *(facts.modified for facts in ranks.values())])
    return Stall(age, None, max((progress.step for progress in steps), default=None)) if age >= floor else None
