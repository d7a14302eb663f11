# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clusters as others build them: configless, Slurm in a prefix that only the PATH of a login names, a Python 3.6 as
python3 on the login and the nodes, nodes that no user sees, nodes that start on demand, no accounting, and hosts
without a way to an index.
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
#: Below what the lab shares: a file for each command that hides it, as an overlay does (mknod NAME c 0 0); a python3.
HIDDEN, OLD_BIN = "cm/hidden", "cm/old"
#: The python3 of systems that are still in use; the newer one lies beside it under its own name, as there.
OLD = next(iter(sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/3.6.*"))), None)
NEW = os.path.realpath("/usr/bin/python3")
CONTROLLER = "head:6817"
CONF = [
    "SlurmctldParameters=enable_configless",
    "PrivateData=accounts,cloud,events,jobs,nodes,reservations,usage,users",
    "SuspendProgram=/bin/true",
    "ResumeProgram=/bin/true",
    "SuspendTime=1",
    "SuspendExcNodes=node[01-02]",
    "NodeName=cloud[1-4] State=CLOUD CPUs=4 RealMemory=8000",
    "PartitionName=elastic Nodes=cloud[1-4] MaxTime=60 State=UP",
]


def hide(lab: LabCluster, *folders: str) -> str:
    """The line that leaves a host of the lab without the usual files of Slurm, and lays `folders` of what is shared
    over its /usr/bin; in its own mounts.
    """
    below = "lowerdir=" + "".join(f"{lab.shared_inside}/{folder}:" for folder in (HIDDEN, *folders)) + "/usr/bin"
    return f"mount -t overlay -o {shlex.quote(below)} hidden /usr/bin && mount -t tmpfs hidden /etc/slurm"


def bring_old_python(lab: LabCluster) -> None:
    """Put a real Python 3.6 where `hide` takes it from."""
    Path(lab.shared, OLD_BIN).mkdir()
    if OLD is None:
        return
    place, inside = Path(lab.shared, "cm/python3.6"), f"{lab.shared_inside}/cm/python3.6"
    left_out = shutil.ignore_patterns("test", "tests", "__pycache__", "config-*", "site-packages", "idlelib", "*.a")
    shutil.copytree(OLD / "lib", place / "lib", ignore=left_out, symlinks=True)
    (place / "bin").mkdir()
    shutil.copy2(OLD / "bin/python3.6", place / "bin")
    python3 = Path(lab.shared, OLD_BIN, "python3")
    python3.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH={inside}/lib exec {inside}/bin/python3.6 "$@"\n', encoding="utf-8")
    python3.chmod(0o755)


@pytest.fixture(scope="module")
def built() -> Iterator[LabCluster]:
    """A lab whose nodes have the commands of Slurm in one folder that is no usual one, and no configuration."""
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
        bring_old_python(running)
        for name in running.nodes:
            running.faults.stop("slurmd", name)
            running.node(name, ["sh", "-c", f"{hide(running, OLD_BIN)} && exec slurmd --conf-server {CONTROLLER}"])
        shown = ["sinfo", "--noheader", f"--nodes={','.join(running.nodes)}", "--partition=batch", "--format=%T %D"]
        running.wait_until(lambda: running.head(shown).stdout.split() == ["idle", "2"], 60, "the nodes are back")
        yield running


@pytest.fixture
def site(built: LabCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    made = Site(built, tmp_path, request.node.name)
    yield made
    made.close()


def login(site: Site, python: str = NEW) -> dict[str, str]:
    """The variables of a host whose PATH names Slurm's folder, and which says who has its configuration, as a site's
    profile makes it; nothing else has them. `python`: its interpreter.
    """
    path = f'PATH="{site.lab.shared_inside}/{PREFIX}:$PATH" SLURM_CONF_SERVER={CONTROLLER} exec /bin/sh "$@"'
    inside = f"""[ "$(id -u)" = 0 ] || {path}"""  # Ansible becomes the user there, and calls the shell again
    hidden = (
        f"{site.lab.dir}/bin/head unshare --mount /bin/sh -c {shlex.quote(f'{hide(site.lab, OLD_BIN)} && {path}')} sh"
    )
    shell = site.shell("login", f'{inside}\nexec {hidden} "$@"')
    return {"ansible_shell_executable": shell, "ansible_python_interpreter": python}


@pytest.mark.skipif(OLD is None, reason="pyenv has no Python 3.6 here")
def test_a_login_whose_python_is_too_old_is_named_with_what_to_set(site: Site) -> None:
    played = site.play_many({"login": {**login(site, "/usr/bin/python3"), "launch_job": site.job("true")}})
    told = " ".join(played.output.split())
    assert played.rc and "is Python 3.6." in told and "ansible_python_interpreter" in told, told
    assert not site.jobs()


def test_a_launch_finds_slurm_where_only_the_login_does(site: Site) -> None:
    """The job's own steps, too, with the newer Python that lies beside the node's python3. There is no accounting, and
    its user sees no node beforehand.
    """
    old = site.lab.node(site.lab.nodes[0], ["/usr/bin/python3", "--version"]).stdout
    assert old.startswith("Python 3.6." if OLD else "Python 3."), old
    for host in site.lab.nodes:
        assert not site.lab.node(host, ["ls", "/etc/slurm"]).stdout, "a node has no configuration"
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

    def shown(mark: str) -> bool:
        """Whether sinfo puts `mark` behind the state of a node of the partition."""
        return mark in site.lab.head(["sinfo", "--noheader", "--partition=elastic", "--format=%t"]).stdout

    site.lab.wait_until(lambda: shown("idle~"), 60, "nodes are powered down")
    assert "POWERED_DOWN" in site.lab.head(["scontrol", "show", "node", "cloud1"]).stdout
    job = site.job("true", resources={"nodes": 3, "time": "00:05:00", "partition": "elastic"})
    played = site.play_many({"login": {**login(site), "launch_job": job}}, launch_wait=True, launch_wait_timeout=5)
    launch = played.launch("login")
    site.lab.wait_until(lambda: shown("#"), 60, "nodes are powered up")
    site.lab.head(["scancel", launch["job_id"]])
    assert "nodes are being prepared" in played.output, played.output
