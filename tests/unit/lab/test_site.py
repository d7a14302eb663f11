# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Profile site: its options, what a machine can play of it, control groups, the share, the user."""

from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.lab import boot, cluster, layout, profile, slurmconf
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.layout import Lab, Partition
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.machine import cgroups, sharing
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.slurmconf import Host
from ansible_collections.rankzero.slurm.plugins.modules import lab_cluster
from tests.unit.lab.labs import ENFORCED

MOUNTS = """\
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime shared:9 - cgroup cgroup rw,cpuset
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
36 31 0:33 / /sys/fs/cgroup/devices rw,relatime - cgroup cgroup rw,devices
37 31 0:34 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
"""
OWN = "9:name=systemd:/\n4:memory:/group/of mine\n3:cpu,cpuset:/\n0::/\n"


def site(**options: object) -> Lab:
    """A lab of the module's options, profile site."""
    own = ("state", "prune")  # not of the lab
    given = {name: entry.get("default") for name, entry in lab_cluster.ARGUMENTS.items() if name not in own}
    return layout.from_options({**given, "way": "realistic", "directory": "/x", "profile": "site", **options})


def problems(lab: Lab, uid: int = 0) -> str:
    try:
        layout.check(lab, uid)
    except RankzeroError as error:
        return error.message
    return ""


# ---- options ----------------------------------------------------------------------------------------------------


def test_the_profile_decides_what_is_not_given() -> None:
    lab = site()
    assert (lab.cpus, lab.gpu_type, lab.partitions) == (layout.processors(), "h100", layout.SITE_PARTITIONS)
    assert problems(lab) == ""
    own = site(cpus=1, gpu_type="a100", partitions=[{"name": "x", "priority": 3, "grace_time": 5}])
    assert (own.cpus, own.gpu_type, own.partitions) == (1, "a100", (Partition("x", priority=3, grace_time=5),))


def test_bad_options_are_named() -> None:
    assert "profile: 'site' is not allowed; it needs nodes of their own" in problems(site(way="simple"), uid=1000)
    many = layout.processors() + 1
    assert f"cpus: {many} is not allowed; profile site binds ranks to real cores" in problems(site(cpus=many))
    assert "gpu_type: 'h 100' is not allowed" in problems(site(gpu_type="h 100"))
    bad = [{"name": "x", "priority": 0}, {"name": "y", "grace_time": -1}]
    said = problems(site(partitions=bad))
    assert said.count("a priority is 1 to 65533") == 2, said


def test_nothing_is_bound_over_the_share() -> None:
    share = site().shared_inside
    for bind in (share, f"{share}/x", "/lustre", "/lustre/"):
        assert f"binds: {bind!r} is not allowed" in problems(site(binds=[bind]))
    assert problems(site(binds=["/shared", "/lus", f"{share}2"])) == ""


def test_priorities_preempt_in_any_profile() -> None:
    partitions = (Partition("low", grace_time=9), Partition("high", priority=4))
    text = slurmconf.render(Lab("a", "/a", partitions=partitions), Host("vm"))["slurm.conf"]
    assert "PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\n" in text
    assert "PartitionName=low Nodes=ALL Default=YES MaxTime=UNLIMITED State=UP GraceTime=9\n" in text
    assert "PartitionName=high Nodes=ALL Default=NO MaxTime=UNLIMITED State=UP PriorityTier=4\n" in text


# ---- what the machine can play ----------------------------------------------------------------------------------


def test_every_lab_names_every_feature() -> None:
    friendly = profile.probe(Lab("a", "/a"))
    assert set(friendly.values()) == {"profile friendly does not do this"}
    assert set(profile.probe(site())) == set(friendly)


def test_hierarchies_of_version_1_are_found() -> None:
    found = cgroups.hierarchies(MOUNTS)
    assert found == {name: f"/sys/fs/cgroup/{name}" for name in cgroups.CONTROLLERS}
    assert cgroups.obstacle({}) == "this machine has no version 1 control groups for cpuset, devices, freezer, memory"


def test_hierarchies_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    places = dict.fromkeys(cgroups.CONTROLLERS, str(tmp_path))
    assert cgroups.obstacle(places) == ""
    assert "cannot be written here" in cgroups.obstacle({**places, "memory": "/nowhere"})


def test_the_own_group_is_the_starters() -> None:
    assert cgroups.own_group(OWN, "memory") == "/group/of mine"
    assert cgroups.own_group(OWN, "cpuset") == ""
    assert cgroups.own_group(OWN, "devices") == ""


def test_a_labs_groups_are_swept_wherever_they_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in ("slice/rankzero-lab-1/node01/slurm/job_1", "rankzero-lab-1/node02", "rankzero-lab-12/node01"):
        (tmp_path / path).mkdir(parents=True)
    monkeypatch.setattr(cgroups, "mounted", lambda: {"memory": str(tmp_path)})
    assert cgroups.sweep("rankzero-lab-1") == []
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert left == ["rankzero-lab-12", "rankzero-lab-12/node01", "slice"]


def test_a_group_that_is_in_use_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rankzero-lab-1").mkdir()
    (tmp_path / "rankzero-lab-1" / "file").touch()  # rmdir fails, as for a group with a process
    monkeypatch.setattr(cgroups, "mounted", lambda: {"memory": str(tmp_path)})
    assert cgroups.sweep("rankzero-lab-1", timeout=0) == [str(tmp_path / "rankzero-lab-1")]


def test_a_kernel_without_fuse_or_nfs_is_named() -> None:
    assert sharing.obstacle("nodev\tfuse\n\text4\n") == ""
    assert "no FUSE" in sharing.obstacle("\tfuseblk\n")
    assert sharing.nfs_obstacle("nodev\tnfs\n") == "this kernel has no NFS server (nfsd); sshfs plays the part"
    assert sharing.nfs_obstacle("nodev\tnfs\nnodev\tnfsd\n") == "sshfs plays the part"


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster.shutil, "which", lambda name, path: None if name == "sshfs" else f"/bin/{name}")
    monkeypatch.setattr(sharing, "_PROGRAMS", ("/nowhere",))
    assert cluster.missing_packages(site()) == ["openssh-sftp-server", "sshfs"]
    assert cluster.missing_packages(Lab("a", "/a")) == []


# ---- its parts --------------------------------------------------------------------------------------------------


def test_the_labs_user_takes_the_place_of_a_namesake() -> None:
    host = "root:x:0:0::/root:/bin/sh\nlabuser:x:7:7::/:/bin/sh\nother:x:260001:1::/:/bin/sh\nlast:x:9:9::/:/bin/sh\n"
    files = profile.user_files(site(), host, "root:x:0:\nlabuser:x:7:\n")
    assert [line.split(":")[0] for line in files["passwd"].splitlines()] == ["root", "last", "labuser"]
    assert files["group"] == "root:x:0:\nlabuser:*:260001:\n"


def test_a_fake_mount_is_not_taken_for_the_share(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "1 2 0:3 / /shared rw - ext4 /dev/a rw\n1 2 0:3 / /shared2 rw - fuse.sshfs a:/b rw\n"
    monkeypatch.setattr("builtins.open", lambda *_args, **_options: io.StringIO(lines))
    assert not sharing.mounted(1, "/shared")
    assert sharing.mounted(1, "/shared2")


@pytest.mark.parametrize(("knows", "said"), [("-o no_contain_symlinks", True), ("-o transform_symlinks", False)])
def test_an_absolute_link_is_followed_whatever_this_sshfs_does_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, knows: str, said: bool
) -> None:
    """Since 2026 sshfs refuses it unless told otherwise, with an option that older ones do not know."""
    sshfs = tmp_path / "sshfs"
    sshfs.write_text(f'#!/bin/sh\ncase $1 in --help) echo "    {knows}" >&2 ;; *) echo "$*" ;; esac\n')
    sshfs.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    argv = [word.replace("umount", "true") for word in sharing.mount_argv(site())]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert ("no_contain_symlinks" in done.stdout.split()[-1].split(",")) is said


def test_the_server_gives_each_client_a_program_of_its_own(tmp_path: Path) -> None:
    program = tmp_path / "echo"
    program.write_text("#!/bin/sh\nread word; echo $$ $word\n")
    program.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    code = f"import sys; from {sharing.__name__} import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, "127.0.0.1", str(port), str(program)]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}) as server:
        try:
            said = []
            for word in ("one", "two"):
                while True:
                    try:
                        client = socket.create_connection(("127.0.0.1", port))
                        break
                    except ConnectionRefusedError:
                        assert server.poll() is None
                with client, client.makefile("rw") as stream:
                    stream.write(f"{word}\n")
                    stream.flush()
                    said.append(stream.read().split())
        finally:
            server.kill()
    assert [words[1] for words in said] == ["one", "two"]
    assert said[0][0] != said[1][0]


def test_the_host_is_asked_once_and_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile, "probe", lambda _lab: ENFORCED)
    assert boot.settle_host(site()).features == ENFORCED
