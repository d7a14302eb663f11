# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The setting for all contenders: a separate lab cluster, and the same clean environment for each."""

from __future__ import annotations

import os
import platform
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from ansible_collections.rankzero.slurm.plugins.module_utils.lab.layout import default_directory
from benchmarks.launch.timing import busy_share

INSTANCE = "bench"
NODES = 8
SLURM_COMMANDS = ("sbatch", "squeue", "scontrol", "sacct", "sacctmgr", "sinfo", "scancel", "srun", "salloc")
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CALM = 0.35  # share of the machine's CPU time that others may use during a measurement
PATIENCE = 10.0  # seconds to wait for that


@contextmanager
def prepared(root: Path, profile: str = "friendly", instance: str = INSTANCE, nodes: int = NODES) -> Iterator[Ground]:
    """A booted lab of a profile with an empty scratch folder. Both are removed at the end, even after an interrupt."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="rankzero-bench-") as scratch:
        ground = Ground(root, Path(scratch), profile, instance, nodes)
        try:
            ground.boot()
            yield ground
        finally:
            ground.remove()


class Ground:
    """The lab and folders of one comparison. Names ending in `_inside` are paths as the head and the nodes see them."""

    def __init__(
        self, root: Path, scratch: Path, profile: str = "friendly", instance: str = INSTANCE, nodes: int = NODES
    ) -> None:
        self.root = root
        self.scratch = scratch
        self.profile = profile
        self.instance, self.nodes = instance, nodes
        self.directory = Path(default_directory(instance, os.getuid(), pwd.getpwuid(os.getuid()).pw_dir))
        self.head = str(self.directory / "bin" / "head")
        self.inventory = str(self.directory / "inventory.yml")
        self.shared = self.directory / "shared"
        self.shared_inside = "/shared" if os.getuid() == 0 else str(self.shared)
        self.settled = self.restless = 0

    # -- the lab -----------------------------------------------------------------------------------------------------

    def boot(self) -> None:
        """Start a new lab, after removing what a killed benchmark has left."""
        self.remove()
        self._lab("present")
        for name in ("runs", "records"):
            self.path("bench", name).mkdir(parents=True)
            # On profile site an ordinary user runs the jobs.
            self.path("bench", name).chmod(0o777)

    def remove(self) -> None:
        self._lab("absent")

    def _lab(self, state: str) -> None:
        argv = [str(self.root / "scripts" / "lab"), state]
        argv += ["-e", f"lab_cluster_name={self.instance}", "-e", f"lab_cluster_nodes={self.nodes}"]
        argv += ["-e", f"lab_cluster_profile={self.profile}"]
        done = subprocess.run(argv, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"the lab cluster did not become {state}:\n{done.stdout}{done.stderr}")

    def path(self, *parts: str) -> Path:
        """A path on the shared disk as this machine sees it."""
        return self.shared.joinpath(*parts)

    def inside(self, *parts: str) -> str:
        """The same path as the head and the nodes see it."""
        return "/".join([self.shared_inside, *parts])

    def on_head(self, *argv: str) -> str:
        """Run a command on the head. Returns its stdout."""
        return subprocess.run(
            [self.head, *argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True, cwd="/"
        ).stdout

    def on_node(self, name: str, shell: str) -> None:
        """Run a line of sh on a node."""
        subprocess.run(
            [str(self.directory / "bin" / "node"), name, "sh", "-c", shell],
            stdin=subprocess.DEVNULL,
            check=True,
            cwd="/",
        )

    # -- between measurements ----------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Wait until no job is left and no other process keeps this machine busy. Counts failures to calm down."""
        self.settled += 1
        self.wait_for_empty_queue()
        until = time.time() + PATIENCE
        while busy_share() > CALM:
            if time.time() > until:
                self.restless += 1
                return

    def wait_for_empty_queue(self) -> float:
        """Wait for an empty queue. Returns the time in epoch seconds (completing jobs still hold their nodes)."""
        self.on_head("sh", "-c", 'while [ -n "$(squeue --noheader)" ]; do sleep 0.1; done')
        return time.time()

    def job_ids(self) -> set[str]:
        """Every job of the last minutes that Slurm knows."""
        return set(self.on_head("squeue", "--noheader", "--states=all", "--format=%A").split())

    # -- what contenders get -----------------------------------------------------------------------------------------

    def environment(self, first_in_path: str = "") -> dict[str, str]:
        """The same environment for all, without the settings of the user who runs the benchmark."""
        path = [first_in_path] if first_in_path else []
        return {
            "PATH": ":".join([*path, str(Path(os.environ["RANKZERO_VENV"]) / "bin"), SYSTEM_PATH]),
            "HOME": os.environ.get("HOME", "/"),
            "LANG": "C.UTF-8",
            "ANSIBLE_CONFIG": str(self.root / "benchmarks" / "launch" / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": os.environ["ANSIBLE_COLLECTIONS_PATH"],
        }

    def wrappers(self, name: str, body: str) -> str:
        """Create a directory of programs named like Slurm's, each `body` with $real set. Returns its path on the head.

        On the nodes they only call the real programs: what a job does does not count as part of the launch.
        """
        folder = self.path("bench", name)
        folder.mkdir(parents=True, exist_ok=True)
        for command in SLURM_COMMANDS:
            real = shutil.which(command, path=SYSTEM_PATH)
            if real:
                text = f'#!/bin/sh\nreal={real}\nif [ -z "${{SLURM_JOB_ID:-}}" ]; then\n{body}fi\nexec "$real" "$@"\n'
                (folder / command).write_text(text)
                (folder / command).chmod(0o755)
        return self.inside("bench", name)

    def counting(self) -> tuple[str, Path]:
        """(directory for the PATH, log): every Slurm command on the head adds its name to the log."""
        return self.wrappers("counting", f'echo "${{0##*/}}" >> {self.inside("bench", "commands")}\n'), self.path(
            "bench", "commands"
        )

    def hanging(self) -> tuple[str, Path]:
        """(directory for the PATH, mark): sbatch submits, leaves the mark, and never returns."""
        mark = self.inside("bench", "accepted")
        submit = f'"$real" "$@" > {mark}.new && mv {mark}.new {mark}; exec sleep 600'
        body = f'if [ "${{0##*/}}" = sbatch ]; then {submit}; fi\n'
        return self.wrappers("hanging", body), self.path("bench", "accepted")

    def facts(self) -> dict[str, str]:
        """The relevant facts about machine and versions, without names and paths."""
        memory = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
        return {
            "cores": str(len(os.sched_getaffinity(0))),
            "memory": f"{int(memory.split()[1]) / 2**20:.0f} GiB",
            "Slurm": self.on_head("sinfo", "--version").split()[-1],
            "ansible-core": version("ansible-core"),
            "Python": platform.python_version(),
        }
