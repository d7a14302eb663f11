# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults at random times that hit every launch of a batch: each at its time, one at a time on the same part."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ansible_collections.rankzero.slurm.plugins.module_utils.lab.faults import Faults
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.layout import Lab
from benchmarks.faults.instants import Injection
from benchmarks.faults.kinds import KINDS, MEND_DAEMONS, MEND_LAB, MEND_NODE, Hits, accounted
from benchmarks.faults.switches import Switches


class Breaker:
    """Breaks shared parts of one lab, each by one injection at a time."""

    def __init__(self, lab: Lab, switches: Callable[[], Faults]) -> None:
        self.lab = lab
        self._faults = switches
        self.locks = {kind: threading.Lock() for kind in (*KINDS, *lab.node_names)}
        #: When each fault began and was mended, in epoch seconds.
        self.spans: list[tuple[float, float]] = []

    @property
    def switches(self) -> Switches:
        return Switches(self.lab, self._faults())

    def impossible(self) -> frozenset[str]:
        """The kinds that this lab does not support."""
        return frozenset(name for name, kind in KINDS.items() if not kind.fits(self.lab))

    def inject(self, injection: Injection, node: str = "") -> None:
        """Break one part, and mend it after its time. `node`: instead of the one drawn."""
        node = node or self.lab.node_names[injection.node]
        kind = KINDS[injection.kind]
        with self.locks[node if kind.hits is Hits.NODE else kind.name]:
            begun = time.time()
            try:
                if kind.breaks:
                    kind.breaks(self.switches, node, injection.gone)
            finally:
                self.spans.append((begun, time.time()))

    def mend(self) -> list[str]:
        """Mend whatever a failed injection has left broken. Returns what could not be mended."""
        switches, nodes = self.switches, self.lab.node_names if self.lab.realistic else []
        daemons = MEND_DAEMONS if accounted(self.lab) else MEND_DAEMONS[1:]
        steps = [(step, "") for step in MEND_LAB]
        steps += [(step, node) for node in nodes for step in MEND_NODE]
        steps += [(step, "") for step in daemons]
        steps += [(Switches.power_on, node) for node in nodes]
        broken = []
        for step, node in steps:
            try:
                step(switches, node)
            except Exception as error:
                broken.append(short(error))
        return broken


def short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0][:300]
