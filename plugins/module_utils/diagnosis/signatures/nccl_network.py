# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL's network layer itself failed."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    ECHO,
    RAISED,
    WEAK,
    Signature,
    raises,
    says,
)

SIGNATURE = Signature(
    family="nccl_network",
    what="NCCL could not use the network",
    remedy=(
        "Choose the fabric (`fabric`), or set `env.NCCL_SOCKET_IFNAME`, `env.NCCL_IB_HCA`, "
        "`env.NCCL_IB_GID_INDEX` for it; `debug: true` shows which interface each node took. One node "
        "only: `resources.exclude`."
    ),
    look=(
        "Read NCCL's own warnings above that line, on each node: the first one names the interface, the peer "
        "or the call. `debug: true` makes it print more."
    ),
    matches=(
        # XLA quotes NCCL's own last words.
        raises(
            r"NCCL operation .{1,200} failed: (?!unhandled cuda)(?P<reason>[^(.]{1,80}\w)"
            r"(?:.*log entry \(may be unrelated\) '(?P<last>.{1,200}?)'\.?$)?",
            strength=RAISED + 2,
            what="NCCL failed below XLA: {last}",
        ),
        says(
            "NCCL WARN (?:NET/IB|NET/OFI|NET/Socket|NET/Plugin)? ?:?.*(?:failed|error|[Gg]ot completion|"
            "timed? ?out|no route|No interface|unreachable)|"
            "Got completion (?:from peer .*)?with (?:error|status=)|ibv_(?:modify_qp|reg_mr|create_qp|"
            r"open_device|poll_cq)\w* failed|(?:Bootstrap|NET/Socket) : no socket interface found|"
            r"Failed to initialize any NET plugin|(?<!\[Errno 113\] )No route to host|transport retry counter exceeded|"
            r"(?<!\[Errno 101\] )Network is unreachable|Error: network \S+ not found",
            "Error: network",
            "NCCL WARN NET/",
            "NCCL WARN",
            "Got completion",
            "ibv_modify_qp",
            "ibv_reg_mr",
            "ibv_create_qp",
            "ibv_open_device",
            "ibv_poll_cq",
            "no socket interface found",
            "any NET plugin",
            "No route to host",
            "retry counter exceeded",
            "Network is unreachable",
            strength=WEAK + 4,
        ),
        # MPI's transports. A program that finds another one goes on.
        says(
            r"UCX {1,2}ERROR +(?:ibv_\w+\(.*\)|\w+) failed|Failed to modify UD QP to \w+ on \S+: ",
            "UCX  ERROR",
            "UCX ERROR",
            "modify UD QP",
            strength=WEAK + 2,
            what="the network adapter refused a connection or memory",
            remedy=(
                "See in that line what was refused. Memory: let jobs lock as much as they need (`ulimit -l`). A "
                "GPU's memory: take a UCX that was built with CUDA. `env.UCX_TLS: tcp,self,sm` avoids the adapter."
            ),
        ),
        # A local reason: what NCCL adds about a remote process is of family peer_lost.
        says(
            r"^(?!.*(?:ncclRemoteError|remote process|closed by|got 0 bytes|terminate called|invalid usage|"
            "invalid argument)).*"
            r"(?:NCCL error in:|DistBackendError|ncclSystemError|ncclInternalError)",
            "NCCL error in",
            "ncclSystemError",
            "DistBackendError",
            "ncclInternalError",
            strength=ECHO + 4,
        ),
        says(
            r"^(?:socketStartConnect: |Call to connect |Connect to )\S.* failed ?: |"
            r"^Error: (?:no|failed to) .*(?:interface|device)",
            "ailed : ",
            "failed: ",
            "Error: no",
            "Error: failed",
            strength=WEAK + 6,
        ),
        raises(
            r"(?:no socket interface found|Failed to initialize any NET plugin|ibv_\w+ failed|"
            "No interface found)"
        ),
    ),
    examples=(
        (
            "XlaRuntimeError: INTERNAL: NCCL operation ncclGroupEnd() failed: unhandled system error (run with "
            "NCCL_DEBUG=INFO for details). Last NCCL warning(error) log entry (may be unrelated) 'no route to n7'."
        ),
        "[17.1] [n1:77:0] ib_md.c:478 UCX  ERROR ibv_reg_mr(address=0x7, length=8) failed: Bad address",
        (
            "n1:1:2 [0] transport/net_ib.cc:1000 NCCL WARN NET/IB : Got completion from peer 10.0.0.1<4242> "
            "with status=12 opcode=0 len=0 vendor err 129"
        ),
        "n1:1:2 [0] bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface found",
    ),
    retry=True,
)
