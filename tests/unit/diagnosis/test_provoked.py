# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Failures that were provoked for real on a lab, each diagnosed whole: family and root line.

`python -m benchmarks.diagnosis.provoke` provokes them again; the labels were written before the logs were diagnosed.
"""

from __future__ import annotations

import pytest

from benchmarks.diagnosis.provoke.case import HEALTHY
from benchmarks.diagnosis.provoke.kept import Kept, diagnosed, kept

CASES = list(kept())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_provoked_failure_is_understood(case: Kept) -> None:
    family, root, text = diagnosed(case)
    assert case.accepts(family), f"{family} at {root}: {text}"
    assert root in case.roots if case.family != HEALTHY else root is None, f"{root}: {text}"


def test_there_are_many_and_of_many_kinds() -> None:
    families = {case.family for case in CASES}
    assert len(families) >= 30 and len(CASES) >= 180
    assert sum(case.family == HEALTHY for case in CASES) >= 10
    assert all(path.stat().st_size <= 40_000 for case in CASES for path in case.logs)
