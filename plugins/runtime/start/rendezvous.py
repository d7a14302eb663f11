# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the ranks meet: an address that every node reaches. Standard library only."""

from __future__ import annotations

import re
from collections.abc import Sequence

from core import slurm
from core.state import Job


def _ipv4(job: Job, name: str) -> str:
    text = slurm.query(job, "getent", "ahostsv4", name, seconds=30)[1]
    return text.split()[0] if text.split() else ""


def master_address(job: Job, nodes: Sequence[str]) -> str:
    """The first host of the allocation. Its address where the name does not resolve, or where it resolves to a
    loop-back address (Debian's /etc/hosts) that the other nodes would look for on themselves. Empty: it has none.
    """
    first = nodes[0]
    if slurm.query(job, "getent", "hosts", first, seconds=30)[0] != 0:
        return slurm.field(slurm.query(job, "scontrol", "show", "node", first)[1], "NodeAddr")
    if len(nodes) > 1 and _ipv4(job, first).startswith("127."):
        text = slurm.query(job, "ip", "-o", "-4", "route", "get", _ipv4(job, nodes[1]), seconds=30)[1]
        match = re.search(r" src (\S+)", text)
        if match:
            return match[1]
    return first
