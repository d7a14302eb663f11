# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rank's log of 5 GB in one line: each look at it takes little memory, and finds what stands at its end."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics import checklist
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.from_logs import (
    MOST_OF_A_LOG,
    MetricSet,
    Span,
    read_metrics,
    read_rank,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.poll import Request, Target
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.remote_poll import answer

SIZE, LOG = 5_000_000_000, "logs/0/rank-0000.log"


def polled(run: Path, **more: Any) -> bool:
    (view,) = answer(Request((Target(str(run), "7", **more),))).views
    # A wait for a line begins at the front, and goes on from there.
    return view.log is not None and ("step 9 loss 2.5" in view.log.content) is not more.get("whole", False)


def answered(run: Path) -> bool:
    (facts,) = checklist.all_facts({0: str(run / LOG)}).values()
    return facts.progress is not None and facts.progress.step == 9


def paced(run: Path) -> bool:
    return read_rank(Beneath(str(run)), LOG, 0, MOST_OF_A_LOG).last == 9


def drawn(run: Path) -> bool:
    found = MetricSet()
    read_metrics(found, Beneath(str(run)), LOG, Span(0, 0.0, 1.0))
    return "loss" in found.series


@pytest.mark.parametrize(
    "look", [polled, lambda run: polled(run, whole=True), answered, paced, drawn],
    ids=["wait", "wait for a line", "checklist", "pace", "metrics"],
)  # fmt: skip
def test_a_log_of_any_size_in_one_line_takes_little_memory(tmp_path: Path, look: Callable[[Path], bool]) -> None:
    (tmp_path / LOG).parent.mkdir(parents=True)
    with (tmp_path / LOG).open("wb") as stream:
        stream.truncate(SIZE)
        stream.seek(0, 2)
        stream.write(b"\nstep 9 loss 2.5\n")
    tracemalloc.start()
    try:
        assert look(tmp_path)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 32 << 20, f"{most >> 20} MB"
