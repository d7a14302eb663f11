# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The states of a launch. run/status.py decides them; the controller only reads them."""

from __future__ import annotations

# The job waits, runs or may be requeued:
ACTIVE = "active"
# The artifact is proven. This is final, regardless of what Slurm does with the job afterwards.
SUCCEEDED = "succeeded"
FAILED = "failed"
# An intent to submit is recorded, and no source knows a job for it, so it may be submitted again.
LOST = "unknown"
# Only Slurm can tell, and it was not asked or did not answer.
UNDECIDED = "undecided"
