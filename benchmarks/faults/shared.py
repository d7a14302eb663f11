# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults at random times that hit every launch of a batch: what breaks, for how long, and how it is mended."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.faults import Faults
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.layout import Lab
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.machine import network
from benchmarks.faults import instants
from benchmarks.faults.instants import Injection

#: Seconds within which a daemon must start again.
START = 30.0
#: Seconds for which a flapping link is down, and up again.
FLAPS = 0.4
#: A file on the disk of /shared that fills it, and how much of the disk it writes at a time.
FILLING, PIECE = ".fills-the-disk", 1 << 20


class Breaker:
    """Breaks shared parts of one lab, each by one injection at a time."""

    def __init__(self, lab: Lab, switches: Callable[[], Faults]) -> None:
        self.lab = lab
        self.switches = switches
        self.locks = {kind: threading.Lock() for kind in (*instants.GONE, *lab.node_names)}
        #: When each fault began and was mended, in epoch seconds.
        self.spans: list[tuple[float, float]] = []

    def impossible(self) -> frozenset[str]:
        """The kinds that this lab does not support."""
        without: set[str] = set()
        if self.lab.accounting != "slurmdbd":
            without |= {instants.SLURMDBD}
        if not self.lab.realistic:
            without |= {*instants.OF_A_NODE}
        if not os.path.ismount(self.lab.shared):
            # Only a small disk of its own may be filled.
            without |= {instants.FULL}
        return frozenset(without)

    def inject(self, injection: Injection) -> None:
        """Break one part, and mend it after its time."""
        node = self.lab.node_names[injection.node]
        with self.locks[node if injection.kind in instants.OF_A_NODE else injection.kind]:
            begun = time.time()
            try:
                with self._broken(injection, node):
                    time.sleep(injection.gone)
            finally:
                self.spans.append((begun, time.time()))

    @contextlib.contextmanager
    def _broken(self, injection: Injection, node: str) -> Iterator[None]:
        kind, switches, shared = injection.kind, self.switches(), self.lab.shared_inside
        if kind == instants.FLAP:
            self._flap(switches, node, injection.gone)
            return (yield)
        broke, mend = {
            instants.NODE: (lambda: switches.power_off(node), lambda: switches.power_on(node)),
            instants.REBOOT: (lambda: switches.power_off(node), lambda: switches.power_on(node)),
            instants.FROZEN: (lambda: switches.freeze("slurmctld"), lambda: switches.thaw("slurmctld")),
            instants.SLURMD: (lambda: switches.freeze("slurmd", node), lambda: switches.thaw("slurmd", node)),
            instants.PARTITION: (lambda: links(switches.link_down, node), lambda: links(switches.link_up, node)),
            instants.SHARED: (lambda: switches.hide(node, shared), lambda: switches.unhide(node, shared)),
            instants.READ_ONLY: (
                lambda: switches.protect(node, shared),
                lambda: switches.unprotect(node, shared),
            ),
            instants.FULL: (self.fill, self.empty),
        }.get(kind) or (lambda: switches.crash(kind), lambda: self.start(kind))
        broke()
        try:
            yield
        finally:
            mend()

    def _flap(self, switches: Faults, node: str, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for switch in (switches.link_down, switches.link_up):
                links(switch, node)
                time.sleep(FLAPS)

    def fill(self) -> None:
        """Write to the disk of /shared until nothing is left of it."""
        with contextlib.suppress(OSError), Path(self.lab.shared, FILLING).open("ab", buffering=0) as stream:
            while stream.write(bytes(PIECE)):
                pass

    def empty(self) -> None:
        Path(self.lab.shared, FILLING).unlink(missing_ok=True)

    def start(self, daemon: str) -> None:
        """Start a daemon with retries, as a service manager does: a slurmctld without saved state needs slurmdbd."""
        deadline = time.monotonic() + START
        while True:
            try:
                return self.switches().start(daemon)
            except RankzeroError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(1.0)

    def mend(self) -> list[str]:
        """Mend whatever a failed injection has left broken. Returns what could not be mended."""
        switches, nodes = self.switches(), self.lab.node_names if self.lab.realistic else []
        daemons = ["slurmdbd", "slurmctld"] if self.lab.accounting == "slurmdbd" else ["slurmctld"]
        steps: list[Callable[[], None]] = [self.empty, lambda: switches.thaw("slurmctld")]
        for node in nodes:
            steps += [
                lambda node=node: links(switches.link_up, node),
                lambda node=node: switches.unhide(node, self.lab.shared_inside),
                lambda node=node: switches.unprotect(node, self.lab.shared_inside),
                lambda node=node: switches.thaw("slurmd", node),
            ]
        steps += [lambda daemon=daemon: switches.start(daemon) for daemon in daemons]
        steps += [lambda node=node: switches.power_on(node) for node in nodes]
        broken = []
        for step in steps:
            try:
                step()
            except Exception as error:
                broken.append(short(error))
        return broken


def links(switch: Callable[[str, str], None], node: str) -> None:
    """Switch all networks of a node."""
    for interface in network.INTERFACES:
        switch(node, interface)


def short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0][:300]
