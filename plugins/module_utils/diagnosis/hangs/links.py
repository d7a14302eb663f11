# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nodes whose connections hold a job up, from what the nodes have recorded of them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.hangs.standstill import NAMED, WIDTH


def slow_nodes(documents: Sequence[Mapping[str, object]]) -> list[str]:
    """The nodes in most of whose connections data waits; several where two links are slow, or both ends of one.

    Empty where as many nodes stand out as do not. A node names its addresses.
    """
    ends: Counter[str] = Counter()
    addresses = _addresses(documents)
    for document in documents:
        rows = document.get("network")
        for row in rows if isinstance(rows, list) else []:
            if isinstance(row, dict):
                named = {str(row.get(end))[:WIDTH] for end in ("from", "to")}
                ends.update({addresses.get(name, name) for name in named})
    most = max(ends.values(), default=0)
    top = sorted(node for node, count in ends.items() if count == most)
    known = {str(document.get("node", "")) for document in documents} | set(ends)
    if not top or len(top) > min(NAMED, max(1, len(known) // 2)):
        return []
    return [printable(node, WIDTH) for node in top]


def _addresses(documents: Sequence[Mapping[str, object]]) -> dict[str, str]:
    """Address -> node. An address that several nodes give (127.0.0.1) belongs to none."""
    owners: dict[str, set[str]] = {}
    for document in documents:
        rows = document.get("addresses")
        for address in rows if isinstance(rows, list) else []:
            owners.setdefault(str(address)[:WIDTH], set()).add(str(document.get("node", "")))
    return {address: min(nodes) for address, nodes in owners.items() if len(nodes) == 1}
