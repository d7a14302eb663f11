# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts from the fetched logs of the newest attempt, whether it succeeded or not: ranks, network, losses."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import whole_number
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.names import by_rank, log_names
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics import checklist
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.progress import parse_metrics

LOSSES_SHOWN = 5
# The ranks at the beginning and at the end whose losses are read.
FIRST_AND_LAST = 8


def attempts(logs_dir: str) -> list[str]:
    """The folders of the attempts, newest first."""
    names = os.listdir(logs_dir) if os.path.isdir(logs_dir) else []
    numbers = {number: name for name in names if (number := whole_number(name)) is not None}
    return [os.path.join(logs_dir, numbers[number]) for number in sorted(numbers, reverse=True)]


def rank_logs(logs_dir: str) -> dict[int, str]:
    """Rank -> path of its log in the newest attempt, ordered by rank, for any style of file names."""
    for folder in attempts(logs_dir)[:1]:
        logs = by_rank(log_names(Beneath(folder).names))
        return {rank: os.path.join(folder, name) for rank, name in logs.items()}
    return {}


def evidence(logs_dir: str) -> list[tuple[str, str]]:
    """Rows for the card, only for facts that the logs contain. A row with an empty title continues the row above."""
    paths = rank_logs(logs_dir)
    ranks = checklist.all_facts(paths).values()
    started, silent = checklist.started(ranks)
    rows = [("ranks", checklist.ranks_in_words(started, silent))] if started else []
    chosen = checklist.networks(ranks)
    rows += [("network", checklist.network_in_words(chosen))] if chosen else []
    logs = list(paths.items())
    few = dict([*logs[:FIRST_AND_LAST], *logs[-FIRST_AND_LAST:]])
    return rows + _losses([log.tail for _rank, log in checklist.ends_by_rank(few)])


def _losses(tails: Sequence[str]) -> list[tuple[str, str]]:
    """The last losses of the rank that prints most of them: rank 0 in most frameworks, the last rank in some."""
    best: list[str] = []
    for tail in tails:
        lines = [line for line in tail.splitlines() if (metrics := parse_metrics(line)) and metrics.loss is not None]
        if len(lines) > len(best):
            best = lines
    shown = [printable(line.strip(), 120) for line in best[-LOSSES_SHOWN:]]
    return [("" if index else "losses", line) for index, line in enumerate(shown)]
