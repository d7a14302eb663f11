# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A class that has handed in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.course.semester import Semester


@pytest.fixture
def semester(tmp_path: Path) -> Semester:
    """ada has handed in two good runs; ben nothing yet."""
    made = Semester(tmp_path)
    made.hand_in("ada", 3, 11)
    made.hand_in("ada", 5, 12, epoch=0.03)
    return made
