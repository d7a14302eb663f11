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

_RANK_0 = (
    "Read the log of rank 0: it ended, or was still busy alone, while the others waited for it. Often it exports, "
    "downloads or saves what no other rank does: put that in a step of its own, or stage it before (`data`, role "
    "tokenizer), or give the process group a longer timeout (an argument of the program in `command`). If rank 0 only "
    "waits, the network is the cause: `fabric`."
)

SIGNATURE = Signature(
    family="collective_timeout",
    what="ranks waited in a collective for others that did not come",
    remedy=(
        "The cause is the rank or node that is missing here, or is in another collective: read its log "
        "and the step that it was in. `debug: true` records each collective. A slow rank 0 (export, "
        "download) needs a longer process group timeout."
    ),
    look=(
        "Find the rank that is missing in these messages, or names another collective, and read its log from "
        "that step on."
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
            r"Ranks? \S+ failed to pass monitoredBarrier|wait timeout after \d+ms, keys: (?!/default_pg/0//\w+//\d)",
            "mismatch between collectives",
            "onitoredBarrier",
            "onitored barrier",
            "wait timeout after",
            strength=WEAK + 3,
        ),
        says(
            r"Timed out waiting \d+ms for (?:recv|send) operation",
            "Timed out waiting",
            strength=WEAK + 3,
            what="Gloo waited for a rank that sent nothing: it did not come, or its interface is not reached",
            remedy=(
                "A rank that ended or is elsewhere has its reason in its own log. If all wait, and from the first "
                "exchange on, Gloo took an interface that the nodes do not share: `env.GLOO_SOCKET_IFNAME`, the same "
                "as for NCCL, or `fabric: auto`. Asynchronous checkpoints use Gloo as well."
            ),
        ),
        # A terminal may have wrapped this line anywhere.
        says(
            r"[Ww]atchdog (?:thread )?got stuck|got stuck for \d+|making progress in monitoring|"
            "Heartbeat monitor timed out",
            "got stuck",
            "making progress in monitoring",
            "Heartbeat monitor",
            strength=WEAK + 1,
        ),
        # Ascend's HCCL.
        says(
            r"Getting socket times out|Remote Rank did not send the data in time|notify wait timeout",
            "socket times out",
            "did not send the data in time",
            "notify wait timeout",
            strength=CAUSE + 1,
        ),
        says("Detected mismatch between collectives", "Detected mismatch between collectives"),
        raises(r"monitoredBarrier", strength=CAUSE),
        # JAX: all tasks wait for each other before they end.
        says(
            r"DEADLINE_EXCEEDED: Barrier timed out.*[Ss]hutdown|[Ss]hutdown [Bb]arrier .*(?:fail|timed out)",
            "Barrier timed out",
            "hutdown barrier",
            "hutdown Barrier",
            strength=WEAK + 3,
        ),
        # The others ask rank 0 for NCCL's id when they first communicate: rank 0 ended before, or is busy elsewhere.
        says(
            r"retrieving ncclUniqueId from|wait timeout after \d+ ?ms(?!, keys)|possible application crash on rank 0",
            "ncclUniqueId",
            "wait timeout after",
            "application crash on rank 0",
            strength=WEAK + 3,
            remedy=_RANK_0,
        ),
    ),
    examples=(
        "EI0006: [PID: 7] Getting socket times out. Reason: Remote Rank did not send the data in time.",
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
        "[rank8] is setting up NCCL communicator and retrieving ncclUniqueId from [0]",
    ),
    retry=True,
)
