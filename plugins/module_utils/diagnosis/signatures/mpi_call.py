# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MPI refused a call, or it failed, as error stacks of MPICH and Intel MPI show. Their start: rendezvous_failure."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    WEAK,
    Signature,
    says,
)

SIGNATURE = Signature(
    family="mpi_call",
    what="the MPI call {call} failed: {why}",
    remedy=(
        "The lines below are its error stack: the first shows the arguments of the call, the last one the reason. What "
        "names arguments (buffer, count, rank, communicator, truncated) is a mistake in the program; what names the "
        "transport (OFI, UCX, a connection) follows from a process or a network that went away."
    ),
    look="Read the last line of the error stack below that line, and the last words of the other ranks before it.",
    matches=(
        says(
            r"Fatal error in (?P<call>(?:P?MPI|internal)_(?!Init)\w+): (?P<why>[^,]{1,120}?)(?:, error stack:?)?$",
            "Fatal error in ",
            strength=WEAK + 4,
        ),
    ),
    examples=(
        "Fatal error in PMPI_Bcast: Message truncated, error stack:",
        "Abort(42) on node 1 (rank 1 in comm 0): Fatal error in internal_Recv: Other MPI error, error stack:",
    ),
)
