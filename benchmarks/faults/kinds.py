# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds of faults of --random: one record each. A fault of a daemon, a node or a disk is only its record."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.lab.layout import Lab
from benchmarks.faults.switches import Breaks, Switches, again_and_again, until


class Hits(enum.Enum):
    """What a fault hits. Faults of launches and playbooks may share a batch, because others do not notice them."""

    LAUNCH = "one launch, and the process that makes it"
    TWICE = "one launch, by a second launcher"
    PLAYBOOK = "the launches of one playbook"
    ALL = "every launch"
    NODE = "every launch on a node, which needs its own namespaces"
    RANKS = "a node of one launch, by another fault once its ranks run"


@dataclass(frozen=True)
class Kind:
    """One kind. `weight`: the approximate number of 100 injections; faults of one launch are cheap.

    `most`: about how many injections a batch has, of those that have a batch of their own. `gone`: for how many seconds
    something is gone, or by how much a clock is ahead. `breaks`: how. `fits`: the labs that can have it. `slow`: it
    takes too long for the tests.
    """

    name: str
    title: str
    weight: int
    hits: Hits
    most: int = 0
    gone: tuple[float, float] = (0.0, 0.0)
    breaks: Breaks | None = None
    fits: Callable[[Lab], bool] = lambda _lab: True
    slow: bool = False

    @property
    def own(self) -> bool:
        """Whether it hits single launches."""
        return self.hits in (Hits.LAUNCH, Hits.TWICE, Hits.PLAYBOOK)


def realistic(lab: Lab) -> bool:
    return lab.realistic


def accounted(lab: Lab) -> bool:
    return lab.accounting == "slurmdbd"


def own_disk(lab: Lab) -> bool:
    """Only a small disk of its own may be filled."""
    return os.path.ismount(lab.shared)


#: Kinds that other modules name: how they are injected is code.
MODULE, HANDOVER, HEAL, PAIR = "module", "handover", "heal", "pair"
CLOCKS, ADOPT, TREE, SERVER = "clocks", "adopt", "tree", "server"
_OFF = until(Switches.power_off, Switches.power_on)
_KINDS = (
    Kind(MODULE, "the module is killed", 22, Hits.LAUNCH),
    Kind("two", "two launchers at once", 9, Hits.TWICE),
    Kind(
        CLOCKS, "two launchers, their clocks apart by -2 h to 1 day", 9, Hits.TWICE,
        gone=(-7200.0, 86400.0),
    ),
    Kind(ADOPT, "two launchers, one of another version of the collection", 9, Hits.TWICE),
    Kind("ansible", "ansible-playbook is killed", 5, Hits.PLAYBOOK, slow=True),
    Kind(TREE, "ansible-playbook and all its processes are killed", 5, Hits.PLAYBOOK, slow=True),
    Kind(HANDOVER, "the early signal, where a successor must go on", 6, Hits.LAUNCH),
    Kind(SERVER, "a server of a role is killed", 12, Hits.LAUNCH),
    Kind(
        "slurmctld", "slurmctld is killed and started again", 9, Hits.ALL, 28, (0.0, 2.0),
        until(Switches.crash_slurmctld, Switches.start_slurmctld),
    ),
    Kind(
        "slurmdbd", "slurmdbd is killed and started again", 4, Hits.ALL, 20, (0.0, 5.0),
        until(Switches.crash_slurmdbd, Switches.start_slurmdbd), accounted, slow=True,
    ),
    Kind("node", "a node is off for 2 s to 60 s", 4, Hits.NODE, 10, (2.0, 60.0), _OFF, realistic, slow=True),
    Kind("reboot", "a node reboots within seconds", 4, Hits.NODE, 24, (0.0, 0.0), _OFF, realistic, slow=True),
    Kind(
        "frozen", "slurmctld is frozen (SIGSTOP) for 2 s to 30 s", 3, Hits.ALL, 4, (2.0, 30.0),
        until(Switches.freeze_slurmctld, Switches.thaw_slurmctld), slow=True,
    ),
    Kind(
        "slurmd", "a slurmd is frozen for 2 s to 25 s", 3, Hits.NODE, 16, (2.0, 25.0),
        until(Switches.freeze_slurmd, Switches.thaw_slurmd), realistic, slow=True,
    ),
    Kind(
        "partition", "both networks of a node are down for 3 s to 40 s", 4, Hits.NODE, 10, (3.0, 40.0),
        until(Switches.link_down, Switches.link_up), realistic, slow=True,
    ),
    Kind(
        "flap", "both networks of a node come and go for 2 s to 15 s", 4, Hits.NODE, 16, (2.0, 15.0),
        again_and_again(Switches.link_down, Switches.link_up), realistic, slow=True,
    ),
    Kind(
        "shared", "/shared is gone on a node for 1 s to 20 s", 4, Hits.NODE, 24, (1.0, 20.0),
        until(Switches.hide, Switches.unhide), realistic, slow=True,
    ),
    Kind(
        "read_only", "/shared is read-only on a node for 1 s to 20 s", 3, Hits.NODE, 24, (1.0, 20.0),
        until(Switches.protect, Switches.unprotect), realistic,
    ),
    Kind(
        "full", "the disk of /shared is full for 1 s to 12 s", 3, Hits.ALL, 10, (1.0, 12.0),
        until(Switches.fill, Switches.empty), own_disk, slow=True,
    ),
    Kind(HEAL, "a node is lost under ranks that a spare node may heal", 3, Hits.RANKS, 3, fits=realistic, slow=True),
    Kind(PAIR, "two of these", 5, Hits.ALL, 14, slow=True),
)  # fmt: skip
KINDS = {kind.name: kind for kind in _KINDS}
#: The faults that take a node from under the ranks of a launch.
LOSE_RANKS = ("node", "reboot", "partition")
#: What mends any fault that was interrupted, in this order.
MEND_LAB = (Switches.empty, Switches.thaw_slurmctld)
MEND_NODE = (Switches.link_up, Switches.unhide, Switches.unprotect, Switches.thaw_slurmd)
MEND_DAEMONS = (Switches.start_slurmdbd, Switches.start_slurmctld)
