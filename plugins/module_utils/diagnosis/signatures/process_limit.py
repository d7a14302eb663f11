# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The user or the job may start no further process or thread."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    RAISED,
    Signature,
    raises,
)

SIGNATURE = Signature(
    family="process_limit",
    what="no further process or thread may start on the node",
    remedy=(
        "The user or the job may not start more processes or threads on that node: fewer data loader workers, "
        "`env.OMP_NUM_THREADS: 1`, or a higher limit (`ulimit -u`)."
    ),
    look="Look at `ulimit -u` in the job, and count its threads on that node while it runs (`ps -eL`).",
    matches=(
        raises(
            r"\[Errno 11\] Resource temporarily unavailable|can't start new thread|"
            r"pthread_create failed|Resource temporarily unavailable$",
            strength=RAISED + 2,
        ),
    ),
    examples=(
        "RuntimeError: can't start new thread",
        "BlockingIOError: [Errno 11] Resource temporarily unavailable",
        "RuntimeError: pthread_create failed with error 11",
        "OSError: fork: Resource temporarily unavailable",
    ),
)
