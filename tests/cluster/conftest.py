# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab cluster of the tests: booted for the session under a name of its own, and removed at its end.

A cluster that is found on the machine is never used. RANKZERO_TEST_KEEP_LAB=1 leaves the lab running and uses it again
the next time, for fast development. RANKZERO_TEST_SLURM=24.11 (26.05) runs the tests on that Slurm.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import itertools
import os
import shutil
import subprocess
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.lab import cluster, faults, layout
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.machine import cgroups
from tests import wheels
from tests.cluster import attack
from tests.cluster.launching import Site
from tests.cluster.newcomer import Newcomer
from tests.repository import COLLECTION

ROOT = Path(__file__).resolve().parents[2]


class LabCluster:
    """A running lab, as tests use it."""

    def __init__(self, lab: layout.Lab) -> None:
        self.lab = lab
        self.name = lab.name
        self.way = lab.way
        self.dir = Path(lab.directory)
        self.inventory = self.dir / "inventory.yml"
        self.shell = self.dir / "bin" / "sh"
        self.shared = Path(lab.shared)  # on the host
        self.shared_inside = lab.shared_inside  # on the head and the nodes
        self.nodes = lab.node_names
        self.cluster_name = lab.cluster_name

    @property
    def faults(self) -> faults.Faults:
        return faults.Faults.of(self.lab.directory)

    def head(
        self,
        argv: Sequence[str],
        check: bool = True,
        env: Mapping[str, str] | None = None,
        timeout: float = 60,
        input: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the head; `env` are variables that it gets besides the login environment."""
        return self._run([str(self.dir / "bin" / "head")], argv, check, env, timeout, input)

    def node(
        self,
        name: str,
        argv: Sequence[str],
        check: bool = True,
        env: Mapping[str, str] | None = None,
        timeout: float = 60,
        input: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on a node."""
        return self._run([str(self.dir / "bin" / "node"), name], argv, check, env, timeout, input)

    def _run(
        self,
        prefix: list[str],
        argv: Sequence[str],
        check: bool,
        env: Mapping[str, str] | None,
        timeout: float,
        input: str | None,
    ) -> subprocess.CompletedProcess[str]:
        settings = ["/usr/bin/env", *(f"{key}={value}" for key, value in (env or {}).items())] if env else []
        command = [*prefix, *settings, *argv]
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            timeout=timeout,
            input=input,
            stdin=subprocess.DEVNULL if input is None else None,
            cwd="/",
        )
        if check and done.returncode != 0:
            pytest.fail(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done

    def release(self, job_id: str) -> None:
        """Let a held job start. A slurmctld that has just come up refuses this for a while."""
        command = ["scontrol", "release", job_id]
        self.wait_until(lambda: not self.head(command, check=False).returncode, 60, f"job {job_id} is not released")

    def wait_until(self, condition: Callable[[], object], timeout: float = 60, what: str = "") -> None:
        """Poll until `condition` is true; fail the test after `timeout` seconds.

        It looks a quarter of the time at most: a look may start programs, and what is waited for wants the processor.
        """
        looked = time.monotonic()
        deadline = looked + timeout
        while not condition():
            now = time.monotonic()
            if now > deadline:
                pytest.fail(f"did not happen within {timeout:.0f} s: {what or condition}")
            time.sleep(max(0.05, 3 * (now - looked)))
            looked = time.monotonic()

    def run_job(self, *sbatch: str, script: str, timeout: float = 60) -> tuple[str, str]:
        """Submit a batch script, wait for its end; (job id, what it printed)."""
        output = self.shared / f"job-{time.monotonic_ns()}.out"
        inside = f"{self.shared_inside}/{output.name}"
        options = ["--parsable", "--wait", f"--output={inside}", f"--chdir={self.shared_inside}"]
        done = self.head(["sbatch", *options, *sbatch], input=f"#!/bin/bash\n{script}\n", timeout=timeout, check=False)
        text = output.read_text(encoding="utf-8") if output.exists() else ""
        assert done.returncode == 0, f"{done.stderr}\n{text}"
        return done.stdout.strip(), text


def lab_of(name: str, **options: object) -> layout.Lab:
    """A lab with the defaults of the role, in its usual place."""
    settings: dict[str, object] = {
        "name": name, "directory": "", "way": "auto", "nodes": 8, "cpus": 16, "memory": 64000, "gpus": 8,
        "accounting": "slurmdbd", "job_comments": False, "internet": True,
        "partitions": [{"name": "batch", "default": True}, {"name": "short", "max_time": "01:00:00"}],
        "slurm_conf": [], "binds": [], "slurm": os.environ.get("RANKZERO_TEST_SLURM", "host"),
        "profile": "friendly", "gpu_type": "", "gres": [],
    }  # fmt: skip
    return layout.from_options({**settings, **options})


@contextlib.contextmanager
def booted(lab: layout.Lab) -> Iterator[LabCluster]:
    """A running lab of that kind, made anew, and removed at the end."""
    cluster.apply(lab, "absent")
    cluster.apply(lab, "present")
    try:
        yield LabCluster(lab)
    finally:
        cluster.apply(lab, "absent")


def instance_name(what: str = "test") -> str:
    """Unique to this checkout and to this session: several of both may test at once."""
    number = _session_number()
    return f"{what}-{zlib.crc32(str(ROOT).encode()):08x}" + (f"-{number}" if number > 1 else "")


@functools.cache
def _session_number() -> int:
    """The lowest number that no running session of this checkout has: a killed session's number, and lab, is free."""
    for number in itertools.count(1):
        name = f"rankzero-tests-{os.getuid()}-{zlib.crc32(str(ROOT).encode()):08x}-{number}.lock"
        descriptor = os.open(Path(tempfile.gettempdir(), name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held until this process ends
        except BlockingIOError:
            os.close(descriptor)
        else:
            return number
    raise AssertionError("count() does not end")


@pytest.fixture(scope="session")
def lab() -> Iterator[LabCluster]:
    """The lab of this test session. Whatever an earlier, killed session left is removed first."""
    this = lab_of(instance_name())
    keep = os.environ.get("RANKZERO_TEST_KEEP_LAB") == "1"
    if not keep:
        cluster.apply(this, "absent")
    cluster.apply(this, "present")
    try:
        yield LabCluster(this)
    finally:
        if not keep:
            cluster.apply(this, "absent")


@pytest.fixture(scope="session")
def site_lab() -> Iterator[LabCluster]:
    """A lab of profile site, for all test modules that ask for one."""
    if os.getuid() != 0:
        pytest.skip("a lab of profile site needs root")
    this = lab_of(instance_name("site"), profile="site", nodes=2, cpus=0, partitions=[], internet=False)
    with booted(this) as running:
        yield running
    assert cgroups.groups_left(this.group) == [], "control groups of the lab are left"


@pytest.fixture
def small() -> Iterator[layout.Lab]:
    """Options of a lab of two nodes without a database, not started. Removed afterwards."""
    lab = lab_of(instance_name("small"), nodes=2, accounting="none")
    cluster.apply(lab, "absent")
    yield lab
    cluster.apply(lab, "absent")


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A directory that every user can pass (those of pytest are closed)."""
    with tempfile.TemporaryDirectory(prefix="rankzero-place-", dir="/var/tmp") as place:
        os.chmod(place, 0o755)
        yield Path(place)


@pytest.fixture
def site(lab: LabCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    """An ordinary user who launches on the session's lab. Files that need another lab have a fixture of this name."""
    root = request.node.get_closest_marker("needs_root") is not None
    made = Site(lab, tmp_path, request.node.name, root)
    yield made
    made.close()


@pytest.fixture
def attack_lab(lab: LabCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[attack.AttackLab]:
    """The session's lab with a victim, an attacker and an administrator on it; see attack.py."""
    attack.skip_without_users(lab)
    attack.add_accounts(lab)
    made = attack.AttackLab(lab, tmp_path, request.node.name)
    yield made
    made.close()


@pytest.fixture
def runtime(attack_lab: attack.AttackLab) -> str:
    """The job's runtime, and the library, as everybody on the lab sees them."""
    inside = attack_lab.shared_folder(0o755)
    place = attack_lab.host_path(inside)
    shutil.copytree(ROOT / "plugins" / "runtime", place / "runtime", ignore=shutil.ignore_patterns("__pycache__"))
    library = place.joinpath("library", *COLLECTION.split("."), "plugins")
    shutil.copytree(
        ROOT / "plugins" / "module_utils", library / "module_utils", ignore=shutil.ignore_patterns("__pycache__")
    )
    subprocess.run(["chmod", "-R", "a+rX", str(place)], check=True)
    return inside


@pytest.fixture(scope="session")
def command(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of the wheel, in an environment of its own."""
    return wheels.installed(wheels.built(tmp_path_factory.mktemp("wheel")), tmp_path_factory.mktemp("venv"))


@pytest.fixture
def newcomer(command: Path, tmp_path: Path) -> Iterator[Newcomer]:
    # A path of pytest is too long for the socket of an SSH connection.
    with tempfile.TemporaryDirectory(prefix="rankzero-", dir="/tmp") as home:
        made = Newcomer(tmp_path, command, Path(home))
        yield made
        made.close()
