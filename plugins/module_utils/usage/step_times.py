# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When the steps of an attempt were made, from the log of one rank, in bounded time and memory. Reads only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.names import by_rank, log_names
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.from_logs import (
    CLOCK_SLACK,
    MOST_ZONES,
    PART,
    Span,
    clock_shift,
    parts,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.progress import is_saved, parse_metrics
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.values import time_in

# At most this many bytes of all attempts of a launch are read, and for sums over many launches. Of each attempt at
# least two parts are read.
MOST_BYTES, FEW_BYTES = 4 << 20, 1 << 20


@dataclass(frozen=True)
class StepTimes:
    """The steps of an attempt in the order of its log, and when (epoch seconds) its checkpoints were complete.

    `steps`: the number, when it was logged, and whether the log was read completely since the step before.
    """

    steps: Sequence[tuple[int, float, bool]] = ()
    saves: Sequence[float] = ()


def read_step_times(root: Beneath, span: Span, most: int = MOST_BYTES) -> StepTimes:
    """The steps in the log of the first rank, else in that of the last rank. `root`: the logs of this attempt.

    `most`: the limit for the bytes that are read.
    """
    logs = list(by_rank(log_names(root.names)).items())
    for rank, name in dict.fromkeys([*logs[:1], *logs[-1:]]):
        times = _read(parts(root, name, max(2 * PART, most), rank), span)
        if times.steps:
            return times
    return StepTimes()


def _read(lines: Iterable[tuple[str, bool]], span: Span) -> StepTimes:
    steps: list[tuple[int, float, bool]] = []
    saves: list[float] = []
    shift: float | None = None
    newest, whole = 0.0, True
    for line, follows in lines:
        whole = whole and follows
        metrics = parse_metrics(line)
        step = metrics.step if metrics is not None else None
        saved = is_saved(line)
        if step is None and not saved:
            continue
        stamp = time_in(line)
        if stamp is None:
            continue
        if shift is None:
            change = clock_shift(stamp, span)
            shift = change if abs(change) <= MOST_ZONES else None
        if shift is None or not _within(stamp + shift, span):
            # A date in the text of the line, or a clock that is days apart.
            continue
        # A clock that is set back makes no step that ends before it began.
        newest = max(newest, stamp + shift)
        if saved:
            saves.append(newest)
        # "saving checkpoint at iteration 10" is no step; "step 10 loss 2.3, checkpoint saved" is one.
        if step is not None and not (saved and metrics is not None and metrics.loss is None):
            steps.append((step, newest, whole))
            whole = True
    return StepTimes(steps, saves)


def _within(moment: float, span: Span) -> bool:
    late = span.ended is not None and moment > span.ended + CLOCK_SLACK
    return not late and (span.began is None or moment >= span.began - CLOCK_SLACK)
