# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""state_root and store_root before the submission: writable, with room, not of this host alone."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission import storage
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.needs import StorageNeeds
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.storage import Mounted, Places
from tests.unit.slurm.recorded import FakeSlurm, said

#: Lines as the kernel writes them: root on a disk, /home from a server, /scratch on another disk, a blank in a name.
MOUNTINFO = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
30 22 0:40 / /home rw,relatime - nfs4 server:/export/home rw,vers=4.2
31 22 8:1 / /scratch rw - xfs /dev/sdb rw
32 22 0:24 / /dev/shm rw - tmpfs tmpfs rw
33 22 0:41 / /with\\040blank rw - lustre 10.0.0.1@o2ib:/fs rw
34 30 0:42 / /home rw - nfs4 other:/export/home rw
"""
MOUNTS = storage.parse_mounts(MOUNTINFO)
# quota -wp, as its manual page shows it. No file system with quotas was at hand to record it.
QUOTA = """\
Disk quotas for user eve (uid 1000):
     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace
      server:/q  950000* 900000 1000000 1718000000 1000       0       0       0
      /dev/vda       10       0       0       0      10    9999   10000       0
"""


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("/etc/x", "/dev/vda"),
        ("/home/eve", "other:/export/home"),
        ("/homes", "/dev/vda"),
        ("/scratch", "/dev/sdb"),
        ("/with blank/x", "10.0.0.1@o2ib:/fs"),
    ],
)
def test_the_mount_of_a_path(path: str, source: str) -> None:
    found = storage.mount_of(path, MOUNTS)
    assert found is not None and found.source == source


def test_what_this_host_has_for_itself() -> None:
    here = socket.gethostname()
    assert storage.alone("/home/eve", MOUNTS) is None
    assert storage.alone("/scratch/eve", MOUNTS) is None, "a mount of its own may be the one that is exported"
    assert storage.alone("/srv/eve", MOUNTS) == f"it is on the root file system of {here} (ext4)"
    assert storage.alone("/srv/eve", MOUNTS, "# none\n/srv 10.0.0.0/8(rw)\n") is None
    assert storage.alone("/dev/shm/x", MOUNTS) == f"it is in the memory of {here} (tmpfs)"
    assert storage.alone("/srv", []) is None


def test_quotas() -> None:
    assert storage.parse_quota(QUOTA, "server:/q") == (50000, None)
    assert storage.parse_quota(QUOTA, "/dev/vda") == (None, 9990)
    assert storage.parse_quota(QUOTA, "elsewhere") == (None, None)
    assert storage.parse_quota("", "") == (None, None)


@pytest.mark.parametrize(("kib", "text"), [(4, "4 KiB"), (102400, "100 MiB"), (3 * 2**20, "3 GiB"), (2**31, "2.0 TiB")])
def test_sizes(kib: int, text: str) -> None:
    assert storage.size(kib) == text


def looking(quota: str | None = None, mounts: list[Mounted] | None = None, thorough: bool = True) -> Places:
    fake = FakeSlurm(**({} if quota is None else {"quota": said(quota, rc=1)}))
    made = Places(fake.slurm(), thorough=thorough)
    made.mounts, made.exports = mounts if mounts is not None else made.mounts, ""
    return made


def test_a_place_that_can_be_made(tmp_path: Path) -> None:
    shared = [Mounted("/", "nfs4", "server:/q")]
    target = str(tmp_path / "not" / "yet")
    problems, notes, seen = looking(mounts=shared).root("state_root", target, 1)
    assert (problems, notes) == ([], [])
    assert seen.startswith(f"state_root {target}: nfs4, ") and seen.endswith(" free")


def test_a_place_that_cannot(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (problem,), _notes, _seen = looking().root("state_root", str(tmp_path / "file" / "x"), 1)
    assert problem.startswith(f"state_root: cannot write below {tmp_path}/file: Not a directory. Name a folder")
    if os.geteuid() != 0:
        (problem,), _notes, _seen = looking().root("store_root", "/etc/rankzero", 1)
        assert problem.startswith("store_root: cannot write below /etc: Permission denied.")


def test_too_little_room_on_disk_and_in_the_quota(tmp_path: Path) -> None:
    mounts = [Mounted("/", "nfs4", "server:/q")]
    (problem,), _notes, seen = looking(QUOTA, mounts).root("store_root", str(tmp_path), 60_000)
    assert problem.startswith(f"store_root: 49 MiB left of your quota at {tmp_path}, at least 59 MiB are wanted")
    assert seen.endswith("49 MiB left of the quota")
    assert looking(QUOTA, mounts, thorough=False).root("store_root", str(tmp_path), 60_000)[0] == []
    (problem,), _notes, _seen = looking(None, mounts).root("store_root", str(tmp_path), 2**60)
    assert " free at " in problem and "make room there, or name another folder (launch_cluster.store_root)" in problem
    few = QUOTA.replace("9999   10000", "0   500")
    (problem,), _notes, _seen = looking(few, [Mounted("/", "ext4", "/dev/vda")]).root("store_root", str(tmp_path), 1)
    assert problem.startswith("store_root: 490 files left of your quota")


def test_a_place_of_this_host_is_a_warning_where_it_is_new(tmp_path: Path) -> None:
    disk = [Mounted("/", "ext4", "/dev/vda")]
    _problems, (note,), _seen = looking(mounts=disk).root("state_root", str(tmp_path / "new"), 1)
    assert note.startswith(f"launch_cluster.state_root: {tmp_path}/new may not be seen by the nodes: it is on the root")
    assert looking(mounts=disk).root("state_root", str(tmp_path), 1)[1] == []
    memory = [Mounted("/", "tmpfs", "tmpfs")]
    assert looking(mounts=memory).root("state_root", str(tmp_path), 1)[1], "gone with the next boot: said each time"


def test_a_store_of_others_will_do_where_nothing_is_built(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    roots = {"state_root": str(tmp_path), "store_root": str(tmp_path / "file" / "x"), "caches": str(tmp_path / "file")}
    asked = StorageNeeds(roots=roots)
    problems, notes, _facts = storage.check_folders(FakeSlurm().slurm(), asked, thorough=False, building=False)
    assert problems == [] and any(note.startswith("caches: cannot write below") for note in notes)
    (problem,), _notes, _facts = storage.check_folders(FakeSlurm().slurm(), asked, thorough=False, building=True)
    assert problem.startswith("store_root: cannot write below")


def test_what_the_nodes_are_to_mount(tmp_path: Path) -> None:
    asked = StorageNeeds(sources=[["container.mounts", "/nowhere/none"]])
    _problems, (note,), _facts = storage.check_folders(FakeSlurm().slurm(), asked, thorough=True)
    assert note.startswith("container.mounts: /nowhere/none is not on ") and "each node checks it" in note
    disk = looking(mounts=[Mounted("/", "ext4", "/dev/vda")])
    (note,) = disk.source("container.image", str(tmp_path))
    assert note.startswith(f"container.image: {tmp_path} may not be seen by the nodes")
    assert looking(mounts=[Mounted("/", "lustre", "x")]).source("container.image", str(tmp_path)) == []
