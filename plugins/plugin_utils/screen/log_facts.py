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
from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.writer import Place

LOSSES_SHOWN = 5
# The ranks at the beginning and at the end whose losses are read.
FIRST_AND_LAST = 8


def newest(logs: Beneath) -> list[Beneath]:
    """The folders of the newest attempt, if there is one, and of the whole launch."""
    numbers = {number: name for name in logs.names("") if (number := whole_number(name)) is not None}
    return [*(logs.below(numbers[number]) for number in sorted(numbers)[-1:]), logs]


def rank_logs(logs: Beneath) -> dict[int, str]:
    """Rank -> path of its log in the newest attempt, ordered by rank, for any style of file names."""
    for folder in newest(logs)[:-1]:
        names = by_rank(log_names(folder.names))
        return {rank: os.path.join(folder.path, name) for rank, name in names.items()}
    return {}


def evidence(logs_dir: str) -> list[tuple[str, str]]:
    """Rows for the card, only for facts that the logs contain. A row with an empty title continues the row above."""
    with Place.of_logs(logs_dir).files() as logs:
        return _evidence(logs)


def _evidence(logs: Beneath) -> list[tuple[str, str]]:
    paths = rank_logs(logs)
    ranks = checklist.all_facts(paths, opener=logs.at).values()
    started, silent = checklist.started(ranks)
    rows = [("ranks", checklist.ranks_in_words(started, silent))] if started else []
    chosen = checklist.networks(ranks)
    rows += [("network", checklist.network_in_words(chosen))] if chosen else []
    ordered = list(paths.items())
    few = dict([*ordered[:FIRST_AND_LAST], *ordered[-FIRST_AND_LAST:]])
    return rows + _losses([log.tail for _rank, log in checklist.ends_by_rank(few, opener=logs.at)])


def _losses(tails: Sequence[str]) -> list[tuple[str, str]]:
    """The last losses of the rank that prints most of them: rank 0 in most frameworks, the last rank in some."""
    best: list[str] = []
    for tail in tails:
        lines = [line for line in tail.splitlines() if (metrics := parse_metrics(line)) and metrics.loss is not None]
        if len(lines) > len(best):
            best = lines
    shown = [printable(line.strip(), 120) for line in best[-LOSSES_SHOWN:]]
    return [("" if index else "losses", line) for index, line in enumerate(shown)]
