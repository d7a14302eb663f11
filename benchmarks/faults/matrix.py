# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The matrix of all faults. Each breaks one part of a launch in progress and leaves the rest to `Case.settle`."""

from __future__ import annotations

from benchmarks.faults import submission, surroundings
from benchmarks.faults.rows import FAULTS, Fault

__all__ = ["FAULTS", "Fault", "submission", "surroundings"]
