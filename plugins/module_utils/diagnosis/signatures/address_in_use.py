# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The port of the rendezvous is taken."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    Signature,
    raises,
    says,
)

SIGNATURE = Signature(
    family="address_in_use",
    what="a port is taken",
    remedy=(
        "Leave `launcher.port` on auto, or choose another one; an earlier run may still hold it on that node. If every "
        "task of the node starts torchrun itself, name the program in `command` and set `launcher.kind: torchrun`: it "
        "starts one torchrun a node. The port of a server of the program itself is an argument in `command`; "
        "RANKZERO_PORTS has ports that are free on the first node."
    ),
    look=(
        "See which process holds the port on that node (`ss -ltnp`): an earlier run, or a second launcher of this job."
    ),
    matches=(
        says(
            "(?:Error|errno|error|EADDRINUSE|failed to|bind|Errno 98).*[Aa]ddress already in use|"
            r"EADDRINUSE|\[Errno 98\]",
            "ddress already in use",
            "EADDRINUSE",
            "Errno 98",
        ),
        raises(
            "another process is utilizing it|[Pp]ort \\d+ is (?:already )?(?:in use|occupied|"
            "not available|unavailable)|port is already in use|"
            "\\b[Pp]ort\\w*.{0,60} is (?:already )?(?:used|taken|occupied) by"
        ),
    ),
    examples=(
        (
            "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network"
            " address. port: 16001, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in"
            " use"
        ),
        "OSError: [Errno 98] Address already in use",
    ),
    retry=True,
)
