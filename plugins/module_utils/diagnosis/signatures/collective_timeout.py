# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ranks waited for others until the watchdog ended them; the logs of the others show why they did not arrive."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    CAUSE,
    WEAK,
    Signature,
    raises,
    says,
)

SIGNATURE = Signature(
    family="collective_timeout",
    what="ranks waited in a collective for others that did not come",
    remedy=(
        "The cause is the rank or node that is missing here, or is in another collective: read its log "
        "and the step that it was in. `debug: true` records each collective. A slow rank 0 (export, "
        "download) needs a longer process group timeout."
    ),
    matches=(
        says(
            "Watchdog caught collective operation timeout|[Cc]ollective operation timeout: Work|"
            "Some NCCL operations have failed or timed out|terminating? (?:the entire process|"
            "watchdog thread).*(?:timeout|timed out)",
            "ollective operation timeout",
            "NCCL operations have failed",
            strength=WEAK + 3,
        ),
        says(
            "[Dd]etected mismatch between collectives on ranks|[Mm]onitored ?[Bb]arrier.*timeout|"
            r"Ranks? \S+ failed to pass monitoredBarrier|Timed out waiting \d+ms for (?:recv|"
            r"send) operation|wait timeout after \d+ms, keys: (?!/default_pg/0//\w+//\d)",
            "mismatch between collectives",
            "onitoredBarrier",
            "onitored barrier",
            "Timed out waiting",
            "wait timeout after",
            strength=WEAK + 3,
        ),
        says("Detected mismatch between collectives", "Detected mismatch between collectives"),
        raises(r"monitoredBarrier", strength=CAUSE),
    ),
    examples=(
        (
            "[E101 00:00:00.1 ProcessGroupNCCL.cpp:683] [Rank 1] Watchdog caught collective operation timeou"
            "t: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 6000"
            "03 milliseconds before timing out."
        ),
        (
            "RuntimeError: [x/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv "
            "operation to complete"
        ),
        (
            "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: A, "
            "but Rank 1 is running collective: B."
        ),
    ),
    retry=True,
)
