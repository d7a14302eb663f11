# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The time limit of the job, or of one step, is reached."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    LIMIT,
    Signature,
    says,
)

SIGNATURE = Signature(
    family="time_limit",
    what="the job reached its time limit",
    remedy=(
        "More time (`resources.time`), or let it continue: `checkpoint.signal_before_end` and "
        "`checkpoint.requeue: true`. A job that made no step before the end hung: look at the rank that is "
        "behind."
    ),
    look="See how long the steps took and whether they went on until the end.",
    matches=(
        says(
            r"CANCELLED .*DUE TO TIME LIMIT|"
            r"\b(?:[Jj]ob|JOB|[Ss]tep|STEP|[Aa]llocation)\b.{0,40} exceeded (?:its )?time limit|"
            "Reached (?:job|wall ?)time limit",
            "TIME LIMIT",
            "time limit",
            "walltime limit",
            strength=LIMIT,
        ),
        says(
            r"job killed: (?:walltime|cput) \S+ exceeded|TERM_RUNLIMIT|"
            r"[Rr]eached (?:the )?(?:max(?:imum)? )?(?:wall ?clock|wall) ?time",
            "PBS: job killed",
            "TERM_RUNLIMIT",
            strength=LIMIT,
        ),
    ),
    examples=(
        "=>> PBS: job killed: walltime 61 exceeded limit 60",
        "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***",
        "slurmstepd: error: *** STEP 12.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***",
    ),
)
