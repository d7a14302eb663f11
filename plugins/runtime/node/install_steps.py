# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every node makes the environment on its own disk, in one task, before any rank starts: uv's lock of a project holds
on one node only, so ranks never build. install.py does the work. Standard library only.
"""

from __future__ import annotations

import contextlib
import os

from artifact import verdict
from core import held_steps
from core.clearing import remove_tree
from core.log import log_line
from core.state import Job
from node import copy_steps, node_steps


def install(job: Job, seconds: int) -> None:
    """From here on the ranks have the environment, by the same path on every node."""
    asked = job.preflight
    asked.folder = job.path("preflight", str(job.attempt))
    # The preflight looks here for what each node says of its environment.
    asked.sealing = os.path.join(asked.folder, "install")
    with contextlib.suppress(OSError):
        remove_tree(asked.sealing)
    node_steps.make_report_folder(job)
    os.makedirs(asked.sealing, exist_ok=True)
    packages, names = job.get("RANKZERO_PACKAGES"), job.get("RANKZERO_NODELIST")
    log_line(f"each node makes its environment from {packages}")
    program = ["node/install.py", "hold", asked.folder, names, "--packages", packages]
    program += ["--sha256", job.get("RANKZERO_PACKAGES_SHA256")]
    log = f"{asked.folder}/install.log"
    try:
        cpus = job.get("RANKZERO_CPUS_PER_NODE")
        holder = held_steps.tie(job, node_steps.words(job, names, cpus, log, program, bind=False))
    except OSError:
        verdict.refuse(job, 73, f"cannot make a pipe on {os.uname().nodename}")
    words = [job.python, "-IB", f"{job.runtime}/node/install.py", "wait", asked.folder, names]
    words += ["--seconds", str(seconds), "--holder", str(holder.process)]
    problems = []
    for line in held_steps.heard(job, asked.sealing, seconds + 60, words):
        mark, _space, rest = line.partition(" ")
        if mark == "problem":
            problems.append(rest)
        log_line(rest if mark == "problem" else line)
    # The preflight says it in the nodes' lines, and goes by its policy.
    if problems and not job.get("RANKZERO_PREFLIGHT_POLICY"):
        verdict.refuse(job, 78, "; ".join(problems))
    environment = node_steps.view(job, "environment")
    copy_steps.use_environment(job, environment)
    job.export("VIRTUAL_ENV", job.get("VIRTUAL_ENV") or environment)
