# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small labs for the tests of the lab itself: starts by a process that may be killed, and what a lab leaves."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from ansible_collections.rankzero.slurm.plugins.module_utils.lab import agents, boot, cluster, layout
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.machine import cgroups, processes
from tests.cluster.conftest import LabCluster

#: A program that brings a lab into a state: options as JSON, and the state.
APPLY = (
    "import json, sys\n"
    "from ansible_collections.rankzero.slurm.plugins.module_utils.lab import cluster, layout\n"
    "options, state = json.loads(sys.argv[1]), sys.argv[2]\n"
    "report = cluster.apply(layout.from_options(options), state)\n"
    "print(json.dumps(report.results()))\n"
)


def as_json(lab: layout.Lab) -> str:
    """The options of a lab for APPLY."""
    return json.dumps(dataclasses.asdict(lab))


def members(lab: layout.Lab) -> list[processes.Identity]:
    return processes.members(processes.Marks(lab.marker, agents.agent_program(lab), lab.directory))


def host_state(lab: layout.Lab) -> dict[str, object]:
    """What a lab must not leave on the host: mounts, network interfaces, control groups, entries of /.

    Other labs run beside it, and come and go: of mounts and groups only its own are shown.
    """
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    return {
        "mounts": [line for line in mounts if lab.directory in line],
        "interfaces": sorted(os.listdir("/sys/class/net")),
        "groups": cgroups.groups_left(lab.group),
        "root": sorted(os.listdir("/")),
    }


def start_in_background(lab: layout.Lab, state: str = "present") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", APPLY, as_json(lab), state],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def kill_a_start(lab: layout.Lab, after: float) -> None:
    """SIGKILL so many seconds after a start began: the next start brings up exactly one whole lab."""
    starter = start_in_background(lab)
    time.sleep(after)
    starter.kill()
    starter.wait()
    cluster.apply(lab, "present")
    assert set(boot.nodes_up(lab)) == {"node01", "node02"}
    LabCluster(lab).run_job("--nodes=2", script="true")
    supervisors = [
        who
        for who in members(lab)
        if Path(f"/proc/{who.pid}/cmdline").read_bytes().count(b"/agents/lab.json")
        and not Path(f"/proc/{who.pid}/cmdline").read_bytes().startswith(b"/usr/bin/unshare")
    ]
    assert len(supervisors) == 1
