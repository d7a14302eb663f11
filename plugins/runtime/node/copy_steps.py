# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that lacks code or environment gets a copy on its own disk for the time of the job. copies.py does the work
on the nodes; this starts its steps, one after the other. Every node that takes part then has a folder of the same name
in /tmp, the view: links in it lead to the shared path where the node sees it, else to its copy. What the ranks are
given goes through the view, so that it is right on every node. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable

from artifact import verdict
from core import held_steps, processes, workdir
from core.log import log_line, publish_json
from core.state import Job
from node import node_steps
from node.reports import reports_of


def _step(job: Job, seconds: int, command: str, names: str, *options: str) -> list[str]:
    """A step of copies.py. `seconds`: 0 is as long as it likes."""
    folder = job.preflight.folder
    program = ["node/copies.py", command, folder, names, *options]
    return ["timeout", "-k", "5", str(seconds), *node_steps.words(job, names, "1", f"{folder}/stage.log", program)]


def _here(job: Job, seconds: float, *words: str) -> str:
    program = [job.python, "-I", f"{job.runtime}/node/copies.py", *words]
    return processes.output_of(seconds, program, job.env)[1]


def copy_missing(job: Job) -> None:
    """After every node has reported and before their reports are judged: bring what is missing, and say so in the
    reports.
    """
    asked, deadline = job.preflight, processes.after(job.number("RANKZERO_STAGE_BUDGET"))
    # Mostly nothing is missing, and then no program need be started to say so.
    if not any(report and report.get("lacks") for report in reports_of(asked.folder, asked.names.split(",")).values()):
        return
    options = ["--code", job.get("RANKZERO_CODE"), "--python", job.get("RANKZERO_PYTHON")]
    plan = _here(
        job, 120, "plan", asked.folder, asked.names, *options, "--archives", job.get("RANKZERO_ARCHIVES")
    ).splitlines()
    if not plan:
        return
    holders, job.copies.view = plan[0][len("hold ") :], plan[1][len("view ") :]
    try:
        job.copies.holder = held_steps.tie(job, _step(job, 0, "hold", holders))
        job.before_release.append(remove)
    except OSError:
        verdict.refuse(job, 73, f"cannot make a pipe on {os.uname().nodename}")
    for line in plan[2:]:
        kind, source = line.split(" ", 1)
        _copy(job, kind, source, holders, max(1, int(deadline - time.monotonic())))
        THROUGH[kind](job, os.path.join(job.copies.view, kind))


def _copy(job: Job, kind: str, source: str, holders: str, left: int) -> None:
    """Let one node send, and those that are to have it receive."""
    folder, holder = job.preflight.folder, job.copies.holder
    if holder is None:
        raise ValueError("nothing holds the nodes' views open: they are made before anything is copied into them")
    log_line(f"copying the {kind} to the nodes that are to have it, from {source}")
    common = ["--kind", kind, "--seconds", str(left)]
    sender = processes.start(_step(job, left, "send", source, *common), job.env)
    ends = ["--holder", str(holder.process), "--sender", str(sender)]
    targets = _here(job, left + 30, "targets", folder, holders, *common, *ends)
    receiver = 0
    if targets:
        imports = ["--imports", job.get("RANKZERO_PREFLIGHT_IMPORTS")]
        receiver = processes.start(_step(job, left, "receive", targets, *common, *imports), job.env)
    processes.wait_or_kill(sender, left + 10)
    # Else those who wait for it would do so until the budget is spent.
    mark = os.path.join(folder, "stage", f"{kind}.sent")
    if not os.path.exists(mark):
        publish_json(mark, {"problem": f"the step that sent it from {source} was ended"})
    if receiver:
        processes.wait_or_kill(receiver, left + 10)


def _code_through(job: Job, now: str) -> None:
    """From here on the ranks see the code through the view."""
    copies = job.copies
    copies.snapshot = job.get("RANKZERO_CODE")
    job.export("RANKZERO_CODE", now)
    with open(job.path(".staged"), "w", encoding="ascii"):
        pass
    try:
        workdir.relink(job.path("work"), copies.snapshot, now)
        # The first node may not have got it; its report then says why.
        if os.path.isdir(now):
            workdir.lay_out(job.path("work"), now, job.get("RANKZERO_ARTIFACT_PATH"), job.works_in_a_copy)
    except OSError:
        verdict.refuse(job, 66, f"cannot lay out {job.path('work')}")


def _environment_through(job: Job, now: str) -> None:
    """From here on the ranks see the environment through the view."""
    copies = job.copies
    copies.python, copies.virtual_env = job.get("RANKZERO_PYTHON"), job.get("VIRTUAL_ENV")
    use_environment(job, now)
    if copies.virtual_env == copies.python.partition("/bin/")[0]:
        job.export("VIRTUAL_ENV", now)


#: What can be copied -> what makes the ranks see its copy, whose path in the view it gets.
THROUGH: dict[str, Callable[[Job, str], None]] = {"code": _code_through, "environment": _environment_through}


def use_environment(job: Job, environment: str) -> None:
    """The ranks' Python is in a folder on their own node. Not in the PATH of this script, whose steps reach nodes that
    have no such folder, or another user's (rank.sh).
    """
    job.export("RANKZERO_PYTHON", f"{environment}/bin/python")
    job.export("RANKZERO_BIN", f"{environment}/bin")


def remove(job: Job) -> None:
    """The nodes remove their copies, and what the ranks are given is as before."""
    copies = job.copies
    if copies.holder is None:
        return
    held_steps.untie(job, copies.holder)
    copies.holder = None
    if copies.snapshot:
        with contextlib.suppress(OSError):
            workdir.relink(job.path("work"), job.get("RANKZERO_CODE"), copies.snapshot)
            os.unlink(job.path(".staged"))
        job.export("RANKZERO_CODE", copies.snapshot)
        copies.snapshot = ""
    if copies.python is not None:
        job.export("RANKZERO_PYTHON", copies.python)
        if job.get("VIRTUAL_ENV"):
            job.export("VIRTUAL_ENV", copies.virtual_env)
        job.drop("RANKZERO_BIN")
        copies.python = None
