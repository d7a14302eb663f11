# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sealed environments on a node: what is read, copied, mounted and cleared; and whole jobs with stand-ins for Slurm."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.unit.runtime.harness import ENVIRONMENT_KEY, Job, Site, sealed_environment, wait_for

pytestmark = pytest.mark.skipif(
    shutil.which("mksquashfs") is None or shutil.which("unsquashfs") is None, reason="no squashfs-tools on this machine"
)


def fuse() -> None:
    if shutil.which("squashfuse") is None or not os.access("/dev/fuse", os.W_OK):
        pytest.skip("squashfuse or /dev/fuse is not on this machine")


def damage(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


# --- the file


def test_a_file_is_read_twice_before_a_node_is_blamed(
    parts: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, sealed = sealed_environment(tmp_path / "store" / "e"), parts["sealed_file"]
    source = sealed.find(str(file), "")
    target = tmp_path / "copy"
    assert sealed.verified(source, str(target)) == 1
    assert target.read_bytes() == file.read_bytes() and target.stat().st_mode & 0o777 == 0o600
    real, answers = sealed.digest_of, ["of another file"]
    monkeypatch.setattr(sealed, "digest_of", lambda *given: answers.pop() if answers else real(*given))
    assert sealed.verified(source) == 2
    monkeypatch.undo()
    damage(file)
    with pytest.raises(sealed.Damaged, match=r"published with sha256 \w{16}, and has \w{16} here \(read twice\)"):
        sealed.verified(source)


def test_the_archive_of_a_store_that_no_node_sees_holds_the_file(parts: dict[str, ModuleType], tmp_path: Path) -> None:
    file, sealed = sealed_environment(tmp_path / "store" / "e"), parts["sealed_file"]
    content, archive = file.read_bytes(), tmp_path / "environment-e.tar"
    parts["pack"].keep(str(file.parent), str(archive))
    shutil.rmtree(file.parent)
    assert sealed.find(str(file), "") is None
    source = sealed.find(str(file), str(archive))
    assert sealed.verified(source, str(tmp_path / "copy")) == 1
    assert (tmp_path / "copy").read_bytes() == content
    archive.write_bytes(b"no archive")
    with pytest.raises(parts["disk"].Trouble, match="cannot be read"):
        sealed.find(str(file), str(archive))


@pytest.mark.parametrize(
    ("policy", "network", "kind", "copied"),
    [
        ("auto", True, "ext4", True),
        ("auto", False, "ext4", False),
        ("auto", True, "tmpfs", False),
        ("always", False, "tmpfs", True),
        ("never", True, "ext4", False),
    ],
)
def test_a_copy_is_made_where_it_pays(
    parts: dict[str, ModuleType],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    policy: str,
    network: bool,
    kind: str,
    copied: bool,
) -> None:
    """With `auto`: from a server to a disk, and never to memory."""
    monkeypatch.setattr(parts["disk"], "on_network", lambda path: network and path == "/store/file")
    monkeypatch.setattr(parts["disk"], "file_system", lambda _path: kind)
    node = SimpleNamespace(places=[str(tmp_path)], limit=0, view="sealed")
    source = parts["sealed_file"].Source("/store/file", {"bytes": 10})
    assert (parts["sealed_file"].room_for_copy(node, source, policy) == str(tmp_path)) is copied


def test_a_copy_that_is_asked_for_and_has_no_room_is_a_problem(parts: dict[str, ModuleType], tmp_path: Path) -> None:
    node = SimpleNamespace(places=[str(tmp_path)], limit=0, view="sealed")
    source = parts["sealed_file"].Source("/store/file", {"bytes": 1 << 60})
    with pytest.raises(parts["disk"].Trouble, match="no room: "):
        parts["sealed_file"].room_for_copy(node, source, "always")


# --- the mount


def test_where_nothing_mounts_or_unpacks_every_package_is_named(
    parts: dict[str, ModuleType], disk: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = disk.Home(disk.COMMON)
    try:
        monkeypatch.setattr(parts["sealed_mount"], "by_kernel", lambda *_given: "only root may")
        monkeypatch.setattr(parts["sealed_mount"], "program", lambda *_names: None)
        node = SimpleNamespace(places=[str(tmp_path)], limit=0, view="sealed")
        with pytest.raises(disk.Trouble) as caught:
            parts["sealed_mount"].mounted(node, str(tmp_path / "file"), {"unpacked": 1, "files": 1}, [], [])
    finally:
        home.leave()
    assert str(caught.value) == (
        "it can be neither mounted nor unpacked (kernel: only root may; squashfuse: no squashfuse (package "
        "squashfuse); unpacked: no unsquashfs (package squashfs-tools))"
    )


def test_it_is_not_unpacked_into_more_memory_than_the_job_has(
    parts: dict[str, ModuleType], disk: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "file_system", lambda _path: "tmpfs")
    node = SimpleNamespace(places=["/tmp"], limit=64, view="sealed")
    with pytest.raises(disk.Trouble, match="memory of the job, half of it at most"):
        parts["sealed_mount"].unpacked(node, "/file", {"unpacked": 40 << 20, "files": 1}, [])


def test_a_mount_whose_process_was_killed_is_swept(
    parts: dict[str, ModuleType], disk: ModuleType, tmp_path: Path
) -> None:
    fuse()
    file = sealed_environment(tmp_path / "store" / "e")
    home, daemons = disk.Home(disk.COMMON), []
    point = os.path.join(home.path, "sealed.mount")
    os.mkdir(point)
    assert parts["sealed_mount"].by_fuse(str(file), point, daemons) is None
    assert Path(point, "data").read_text() == "of the environment\n"
    # Slurm ends all processes of a job in this order; the ranks may need theirs between the two.
    daemons[0].send_signal(signal.SIGTERM)
    time.sleep(0.1)
    assert daemons[0].poll() is None
    daemons[0].kill()
    daemons[0].wait()
    with pytest.raises(OSError, match="not connected"):
        os.listdir(point)
    os.close(home.lock)  # as the kernel does for a process that was killed
    assert disk.sweep([disk.COMMON]) == [home.path]
    assert not os.path.lexists(home.path) and disk.mounts(home.path) == []


# --- whole jobs


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site(tmp_path)
    # Programs and not functions: others than bash start them.
    made.program("srun", f'exec {shlex.join([sys.executable, "-I", str(made.tools / "srun.py")])} "$@"')
    sealed_environment(made.store / "environments" / ENVIRONMENT_KEY)
    return made


def sealed(site: Site, program: str, **spec: Any) -> Job:
    given = {"setup": {"commands": [f"export PATH={site.tools}:$PATH"]}, "shell": program}
    chosen = {"mode": "sealed", **spec.pop("environment", {})}
    return site.job({**given, "environment": chosen, **spec}, environment=True)


def nothing_left(job: Job) -> bool:
    mark = f"-{zlib.crc32(os.fsencode(str(job.run))):08x}"
    mounts = Path("/proc/self/mounts").read_text(encoding="utf-8")
    return not any(name.endswith(mark) for place in ("/tmp", "/var/tmp") for name in os.listdir(place)) and (
        mark not in mounts
    )


LINE = 'echo "$RANKZERO_PYTHON" "$(command -v python)" "$(cat "$RANKZERO_SEALED/data")"'


@pytest.mark.parametrize("copy", ["always", "never"])
def test_ranks_run_the_python_on_their_node_and_it_is_gone_at_the_end(site: Site, copy: str) -> None:
    job = sealed(site, LINE, environment={"local_copy": copy}, resources={"nodes": 2})
    assert job.finish(nodes="n1,n2") == 0, job.log()
    # Nodes that share one machine share one mount.
    words = [json.loads((job.run / "sealed" / "0" / f"{name}.json").read_text()) for name in ("n1", "n2")]
    assert sorted(word["how"] == "shared" for word in words) == [False, True]
    (how,) = (word["how"] for word in words if word["how"] != "shared")
    assert how.endswith(",copied") is (copy == "always")
    assert "env=sealed" in (job.run / "preflight" / "0" / "table").read_text()
    own, found, *data = (job.run / "logs/0/rank-0001.log").read_text().splitlines()[-1].split()
    assert own == found and own.startswith("/tmp/rankzero-") and own.endswith("/sealed/bin/python")
    assert data == ["of", "the", "environment"]
    assert nothing_left(job)


def test_without_fuse_it_is_unpacked(site: Site) -> None:
    for name in ("mount", "squashfuse", "squashfuse_ll"):
        site.program(name, "echo not here >&2; exit 1")
    job = sealed(site, LINE)
    assert job.finish() == 0, job.log()
    assert json.loads((job.run / "sealed/0/localhost.json").read_text())["how"] == "unpacked"
    assert "of the environment" in (job.run / "logs/0/rank-0000.log").read_text()
    assert nothing_left(job)


def test_ranks_that_save_themselves_still_have_it(site: Site) -> None:
    line = f"trap '{LINE}; exit 5' TERM; touch begun; while :; do sleep 0.1; done"
    job = sealed(site, line)
    process = job.start()
    wait_for((job.run / "work" / "begun").exists, process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 5
    assert "of the environment" in (job.run / "logs/0/rank-0000.log").read_text()
    assert nothing_left(job)


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (damage, r"is damaged as this node sees it: it was published with sha256 "),
        (lambda file: shutil.rmtree(file.parent), r"no node of the job sees .*/environment\.sqsh"),
    ],
)
@pytest.mark.parametrize("preflight", [True, False])
def test_a_file_that_will_not_do_stops_the_job(
    site: Site, break_it: Callable[[Path], None], said: str, preflight: bool
) -> None:
    break_it(site.store / "environments" / ENVIRONMENT_KEY / "environment.sqsh")
    job = sealed(site, LINE, preflight={"enabled": preflight})
    assert job.finish() == 69
    message = job.outcome()["message"]
    assert message.startswith("preflight: localhost: environment: " if preflight else "environment: localhost: "), (
        message
    )
    assert subprocess.run(["grep", "-Eq", said], input=message, text=True, check=False).returncode == 0, message
    assert not list((job.run / "logs" / "0").glob("rank-*"))
    assert nothing_left(job)


def test_a_node_that_is_lost_as_the_environment_comes_is_not_waited_for(site: Site) -> None:
    """It has ten minutes for a large file: a job stood there to its time limit."""
    job = sealed(site, LINE, resources={"nodes": 2}, preflight={"enabled": False})
    site.lose("n2")
    assert job.finish(nodes="n1,n2", RANKZERO_LOOK_SECONDS="2") == 69
    assert job.outcome()["message"] == "environment: n2: it failed before the ranks started"
    assert "n2 is lost: it is not waited for" in job.log()
    assert nothing_left(job)


def test_a_step_that_has_ended_says_nothing_more(site: Site) -> None:
    """As after a crash of slurmctld, which has forgotten the job's memory: nobody collects the step yet."""
    real = (site.tools / "srun").read_text(encoding="utf-8").splitlines()[1]
    refused = "echo 'srun: error: Unable to create step for job 1' >&2; exit 1"
    site.program("srun", f'case "$*" in *RANKZERO_HOLDS=1*) {refused} ;; esac\n{real}')
    job = sealed(site, LINE, preflight={"enabled": False})
    assert job.finish() == 69
    assert "its step has ended; see hold.log" in job.outcome()["message"]
    assert "Unable to create step" in (job.run / "sealed" / "0" / "hold.log").read_text(encoding="utf-8")


def test_the_word_beside_a_file_is_not_believed(site: Site) -> None:
    """Content and record were changed together, after the job was submitted."""
    file = site.store / "environments" / ENVIRONMENT_KEY / "environment.sqsh"
    job = sealed(site, LINE)
    damage(file)
    record = json.loads((file.parent / "env.json").read_text(encoding="utf-8"))
    record["sealed"]["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
    (file.parent / "env.json").write_text(json.dumps(record), encoding="utf-8")
    assert job.finish() == 69
    assert "is damaged as this node sees it" in job.outcome()["message"]
    assert not list((job.run / "logs" / "0").glob("rank-*"))
