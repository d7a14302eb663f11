# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clusters as others build them: Slurm in a prefix that only the PATH of a login names, nodes that no user sees, nodes
that start on demand, no accounting, and hosts without a way to an index.
"""

from __future__ import annotations

import os
import shlex
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.conftest import LabCluster, booted, instance_name, lab_of
from tests.cluster.launching import RESULT, Site, log_of, rank_logs

COMMANDS = ("sbatch", "squeue", "sinfo", "scontrol", "sacct", "scancel", "srun", "salloc")
PREFIX = "cm/apps/slurm/current/bin"
#: Below what the lab shares: a file for each command that hides it, as an overlay does (mknod NAME c 0 0).
HIDDEN = "cm/hidden"
CONF = [
    "PrivateData=accounts,cloud,events,jobs,nodes,reservations,usage,users",
    "SuspendProgram=/bin/true",
    "ResumeProgram=/bin/true",
    "SuspendTime=1",
    "SuspendExcNodes=node[01-02]",
    "NodeName=cloud[1-4] State=CLOUD CPUs=4 RealMemory=8000",
    "PartitionName=elastic Nodes=cloud[1-4] MaxTime=60 State=UP",
]


def hide(lab: LabCluster) -> list[str]:
    """The command that leaves a host of the lab without the usual files of Slurm; in its own mounts."""
    below = f"lowerdir={lab.shared_inside}/{HIDDEN}:/usr/bin"
    return ["mount", "-t", "overlay", "-o", below, "hidden", "/usr/bin"]


@pytest.fixture(scope="module")
def built() -> Iterator[LabCluster]:
    """A lab whose nodes have the commands of Slurm in one folder that is no usual one."""
    lab = lab_of(instance_name("built"), nodes=2, accounting="none", internet=False, slurm_conf=CONF)
    with booted(lab) as running:
        if running.way != "realistic":
            pytest.skip("commands are moved away in the mount namespace of a node")
        place = Path(running.shared, PREFIX)
        place.mkdir(parents=True)
        Path(running.shared, HIDDEN).mkdir()
        for name in COMMANDS:
            shutil.copy2(f"/usr/bin/{name}", place)
            os.mknod(Path(running.shared, HIDDEN, name), stat.S_IFCHR)
        for name in running.nodes:
            running.node(name, hide(running))
        yield running


@pytest.fixture
def site(built: LabCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    made = Site(built, tmp_path, request.node.name)
    yield made
    made.close()


def login(site: Site) -> dict[str, str]:
    """The variable of a host whose PATH names Slurm's folder, as a site's profile makes it; nothing else has it."""
    path = f'PATH="{site.lab.shared_inside}/{PREFIX}:$PATH" exec /bin/sh "$@"'
    inside = f"""[ "$(id -u)" = 0 ] || {path}"""  # Ansible becomes the user there, and calls the shell again
    hidden = f"{site.lab.dir}/bin/head unshare --mount /bin/sh -c '{shlex.join(hide(site.lab))} && {path}' sh"
    return {"ansible_shell_executable": site.shell("login", f'{inside}\nexec {hidden} "$@"')}


def test_a_launch_finds_slurm_where_only_the_login_does(site: Site) -> None:
    """The job's own steps, too. There is no accounting, and its user sees no node beforehand."""
    assert "denied" in site.head(["sinfo"], check=False).stderr
    job = site.job(
        # The result ends the job, and the other rank may not have said anything yet.
        "command -v srun; touch said.$SLURM_PROCID; "
        f"until [ -e said.0 ] && [ -e said.1 ]; do sleep 0.1; done; {RESULT}",
        resources={"nodes": 2, "time": "00:05:00", "partition": "batch"},
        artifact={"path": "result.json", "require": {"loss": {"lt": 2}}, "then": "end"},
    )
    played = site.play_many({"login": {**login(site), "launch_job": job}}, launch_wait=True)
    launch = played.launch("login")
    assert played.rc == 0, played.output
    assert site.outcome(launch)["success"], log_of(site.run_dir(launch), launch["job_id"])
    logs = rank_logs(site.run_dir(launch)).values()
    # Around it stands what the job says of the rank, and its end.
    lines = [line for log in logs for line in log.splitlines() if line.endswith("/srun")]
    assert lines == [f"{site.lab.shared_inside}/{PREFIX}/srun"] * 2


def test_nodes_that_are_off_are_waited_for(site: Site) -> None:
    """Slurm powers them up for the job. Here nothing does, and the job is cancelled."""
    shown = site.lab.head(["sinfo", "--noheader", "--partition=elastic", "--format=%t"]).stdout.split()
    assert shown and all(state in ("idle~", "idle%", "idle!") for state in shown), shown
    job = site.job("true", resources={"nodes": 3, "time": "00:05:00", "partition": "elastic"})
    played = site.play_many({"login": {**login(site), "launch_job": job}}, launch_wait=True, launch_wait_timeout=5)
    launch = played.launch("login")
    site.lab.head(["scancel", launch["job_id"]])
    assert "nodes are being prepared" in played.output, played.output
