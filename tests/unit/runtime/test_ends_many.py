# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a step at the very moment of a signal, many times: no child is lost there."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import RUNTIME
from tests.unit.runtime.many_ends import CASES, run

#: Ends that follow one another, and how many such rows run beside each other: more than there are cores.
ENDS, ROWS = 30, 4


@pytest.mark.parametrize("case", CASES)
def test_no_end_is_lost_at_the_moment_of_a_signal(tmp_path: Path, case: str) -> None:
    found = run(RUNTIME, tmp_path, CASES[case], ENDS, ROWS, bound=40)
    assert found.lost == 0, "an end was lost, and waited for"
    assert len(found.ends) == ENDS * ROWS
    assert set(found.ends) <= CASES[case].expected
