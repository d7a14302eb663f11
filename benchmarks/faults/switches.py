# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be broken in a lab by faults at random times, and how it is mended.

All methods take a node, also those of a part that no node has, so that a record in kinds.py can name any two of them.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.faults import Faults
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.layout import Lab
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.machine import network

#: Seconds within which a daemon must start again.
START = 30.0
#: Seconds for which a flapping link is down, and up again.
FLAPS = 0.4
#: A file on the disk of /shared that fills it, and how much of the disk it writes at a time.
FILLING, PIECE = ".fills-the-disk", 1 << 20


@dataclass(frozen=True)
class Switches:
    """The switches of a running lab. `faults`: its own, of the lab as it is recorded now."""

    lab: Lab
    faults: Faults

    def power_off(self, node: str) -> None:
        self.faults.power_off(node)

    def power_on(self, node: str) -> None:
        self.faults.power_on(node)

    def link_down(self, node: str) -> None:
        """Switch off all networks of a node."""
        for interface in network.INTERFACES:
            self.faults.link_down(node, interface)

    def link_up(self, node: str) -> None:
        for interface in network.INTERFACES:
            self.faults.link_up(node, interface)

    def hide(self, node: str) -> None:
        """Take /shared away from a node."""
        self.faults.hide(node, self.lab.shared_inside)

    def unhide(self, node: str) -> None:
        self.faults.unhide(node, self.lab.shared_inside)

    def protect(self, node: str) -> None:
        """Make /shared read-only on a node."""
        self.faults.protect(node, self.lab.shared_inside)

    def unprotect(self, node: str) -> None:
        self.faults.unprotect(node, self.lab.shared_inside)

    def freeze_slurmd(self, node: str) -> None:
        self.faults.freeze("slurmd", node)

    def thaw_slurmd(self, node: str) -> None:
        self.faults.thaw("slurmd", node)

    def freeze_slurmctld(self, node: str) -> None:
        self.faults.freeze("slurmctld")

    def thaw_slurmctld(self, node: str) -> None:
        self.faults.thaw("slurmctld")

    def crash_slurmctld(self, node: str) -> None:
        self.faults.crash("slurmctld")

    def start_slurmctld(self, node: str) -> None:
        self._start("slurmctld")

    def crash_slurmdbd(self, node: str) -> None:
        self.faults.crash("slurmdbd")

    def start_slurmdbd(self, node: str) -> None:
        self._start("slurmdbd")

    def fill(self, node: str) -> None:
        """Write to the disk of /shared until nothing is left of it."""
        with contextlib.suppress(OSError), Path(self.lab.shared, FILLING).open("ab", buffering=0) as stream:
            while stream.write(bytes(PIECE)):
                pass

    def empty(self, node: str) -> None:
        Path(self.lab.shared, FILLING).unlink(missing_ok=True)

    def _start(self, daemon: str) -> None:
        """Start a daemon with retries, as a service manager does: a slurmctld without saved state needs slurmdbd."""
        deadline = time.monotonic() + START
        while True:
            try:
                return self.faults.start(daemon)
            except RankzeroError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(1.0)


#: Breaks a part, keeps it broken for so many seconds, and mends it.
Breaks = Callable[[Switches, str, float], None]


def until(broken: Callable[[Switches, str], None], mended: Callable[[Switches, str], None]) -> Breaks:
    """Broken once, and mended once."""

    def carry_out(switches: Switches, node: str, seconds: float) -> None:
        try:
            broken(switches, node)
            time.sleep(seconds)
        finally:
            mended(switches, node)

    return carry_out


def again_and_again(broken: Callable[[Switches, str], None], mended: Callable[[Switches, str], None]) -> Breaks:
    """Broken and mended in turn."""

    def carry_out(switches: Switches, node: str, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            until(broken, mended)(switches, node, FLAPS)
            time.sleep(FLAPS)

    return carry_out
