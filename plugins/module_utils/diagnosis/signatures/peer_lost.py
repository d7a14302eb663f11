# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A connection to another rank broke: that rank ended first, and its own log shows why."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    ECHO,
    WEAK,
    Signature,
    says,
)

SIGNATURE = Signature(
    family="peer_lost",
    what="another rank went away; its own cause is not in these logs",
    remedy=(
        "Read the log of the rank or node at the other end: it ended first. Without it only the network is "
        "left to blame."
    ),
    look="Read the log of the rank or node at the other end: it ended first.",
    matches=(
        says(
            "Connection closed by peer|Connection closed by remote peer|ncclRemoteError|"
            "remote process exited or there was a network error|Connection reset by peer|Broken pipe|"
            r"failed to (?:recv|send), got \d+ bytes|peer process has unexpectedly disconnected|"
            # The coordination service of JAX and TensorFlow.
            r"coordination[ _]service.*heartbeat|heartbeat timeout.*remote task|"
            r"mca_btl_tcp_\w+: .*(?:failed|error)|"
            r"[Tt]asks? \S+ (?:stopped sending|missed) heartbeat|"
            r"coordination[ _]service.*(?:another task|detected (?:fatal )?error|polled an error|"
            r"[Aa]gent (?:is )?in ERROR)|"
            r"[Pp]olled an error from (?:the )?coordination service",
            "Connection closed by",
            "mca_btl_tcp",
            "ncclRemoteError",
            "remote process exited",
            "Connection reset by peer",
            "Broken pipe",
            "got 0 bytes",
            "unexpectedly disconnected",
            "heartbeat",
            "oordination",
            strength=ECHO + 4,
        ),
        # JAX aborts the process with it.
        says(r"JAX distributed service detected fatal errors", "JAX distributed service", strength=WEAK + 4),
    ),
    examples=(
        "[n1:7] mca_btl_tcp_frag_recv: readv error (0x7, 8) Bad address(1)",
        (
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [1"
            "0.0.0.2]:1234"
        ),
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
    ),
    retry=True,
)
