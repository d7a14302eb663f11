# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A sealed environment, or a packed dataset, on the nodes of a job: one file, which a step of its own mounts on every
node and holds as long as the job lives. Under proctrack/cgroup a mount made by FUSE ends with the step that made it, so
the ranks' own step is no place for it. sealed.py does the work on the nodes. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import dataclass

from artifact import verdict
from core import held_steps, processes
from core.clearing import remove_tree
from core.log import log_line, publish_json
from core.state import Held, Job
from node import copy_steps, node_steps

# Nodes unmount at once, and srun waits for one that is lost: all others would be held as long as copies are removed.
LET_GO_SECONDS = 10.0


@dataclass(eq=False)
class Mount:
    """One file that is mounted on the nodes under the name `view`, with the folder in which they report."""

    folder: str
    nodes: str
    seconds: str
    view: str = "sealed"

    def step(self, job: Job, limit: str, command: str, names: str, *options: str) -> list[str]:
        """A command of sealed.py on nodes, on all their CPUs, which it leaves to the ranks. In a session of its own: a
        terminal's Ctrl-C is not for it.
        """
        program = ["node/sealed.py", command, self.folder, names, *self._options(), *options]
        cpus, log = job.get("RANKZERO_CPUS_PER_NODE"), f"{self.folder}/hold.log"
        return ["timeout", "-k", "5", limit, *node_steps.words(job, names, cpus, log, program, bind=False)]

    def here(self, job: Job, command: str, *options: str) -> list[str]:
        words = [sys.executable, "-I", f"{job.runtime}/node/sealed.py", command, self.folder, self.nodes]
        return held_steps.heard(job, self.folder, 2 * int(self.seconds) + 60, [*words, *self._options(), *options])

    def _options(self) -> list[str]:
        return ["--view", self.view, "--seconds", self.seconds]

    def hold(self, job: Job, *options: str) -> Held:
        """Start the step that holds it as long as we hold its standard input open."""
        try:
            return held_steps.tie(
                job, self.step(job, "0", "hold", self.nodes, *options), f"{self.folder}/hold.log", LET_GO_SECONDS
            )
        except OSError:
            verdict.refuse(job, 73, f"cannot make a pipe on {os.uname().nodename}")

    def problems(self, job: Job) -> str:
        return "; ".join(self.here(job, "problems"))


def mount(job: Job, view: str, seconds: str) -> Mount:
    """What an attempt that was cut short has said counts no more."""
    folder = job.path("sealed", str(job.attempt) if view == "sealed" else f"{job.attempt}.{view}")
    with contextlib.suppress(OSError):
        remove_tree(folder)
    try:
        os.makedirs(folder)
    except OSError:
        verdict.refuse(job, 73, f"cannot create {folder}")
    return Mount(folder, job.get("RANKZERO_NODELIST"), seconds, view)


def seal(job: Job, folder: str, sha256: str = "", role: str = "", copy: str = "") -> None:
    """Mount the environment in a folder of the store on every node of the job. From here on the ranks' Python is the
    one on their node. A node without it is named by the preflight, or here where there is none. `role`, whether its
    nodes copy it (never, auto, always): it is for that role, whose lines of the script take it up.
    """
    file, archives = f"{folder}/environment.sqsh", job.get("RANKZERO_ARCHIVES")
    archive = f"{archives}/environment-{os.path.basename(folder)}.tar" if archives else ""
    made = mount(job, f"sealed-{role}" if role else "sealed", job.get("RANKZERO_SEALED_BUDGET"))
    options = ["--archive", archive, "--sha256", sha256, "--copy", copy or job.get("RANKZERO_SEALED_COPY")]
    holder = made.hold(job, "--file", file, *options)
    sent = False
    for line in made.here(job, "await", "--file", file, "--holder", str(holder.process)):
        word, _space, rest = line.partition(" ")
        source, _space, names = rest.partition(" ")
        if word == "send":
            sent = True
            _send(job, made, file, source, names)
    if sent:
        made.here(job, "await", "--again", "--holder", str(holder.process))
    place = node_steps.view(job, made.view)
    if role:
        job.export(f"RANKZERO_{role.upper()}_SEALED", place)
    else:
        job.preflight.sealing = made.folder
        job.export("RANKZERO_SEALED", place)
        copy_steps.use_environment(job, place)
    if role or not job.get("RANKZERO_PREFLIGHT_POLICY"):
        problems = made.problems(job)
        if problems:
            verdict.refuse(job, 69, f"{f'roles.{role}.' if role else ''}environment: {problems}")


def _send(job: Job, made: Mount, file: str, source: str, names: str) -> None:
    """Let one node send the file to those where it is not."""
    log_line(f"sending the environment to {names}, where its file is not, from {source}")
    receiver = processes.start(made.step(job, made.seconds, "receive", names), job.env, session=True)
    sender = processes.start(made.step(job, made.seconds, "send", source, "--file", file), job.env, session=True)
    patience = int(made.seconds) + 10
    processes.wait_or_kill(sender, patience)
    # Else those who wait for it would do so until the budget is spent.
    mark = os.path.join(made.folder, "sent")
    if not os.path.exists(mark):
        publish_json(mark, {"problem": f"the step that sent it from {source} was ended"})
    processes.wait_or_kill(receiver, patience)


def data(job: Job, name: str, folder: str) -> None:
    """A dataset that the ranks read where it is."""
    if not os.path.isdir(folder) and not os.path.isfile(folder):
        where = os.uname().nodename
        verdict.refuse(
            job, 66, f"data.{name}: {folder} is not on {where}: stage it on storage that the nodes see (role dataset)"
        )


def data_packed(job: Job, name: str, file: str, copy: str, variable: str, seconds: str, sha256: str = "") -> None:
    """A packed one: its squashfs file, whether nodes copy it (never, auto, always), and the variable that says where it
    is.
    """
    made = mount(job, f"data-{name}", seconds)
    holder = made.hold(job, "--file", file, "--sha256", sha256, "--copy", copy)
    made.here(job, "await", "--holder", str(holder.process))
    problems = made.problems(job)
    if problems:
        verdict.refuse(job, 69, f"data.{name}: {problems}")
    job.export(variable, node_steps.view(job, made.view))
