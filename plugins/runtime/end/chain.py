# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where Slurm may not requeue the job (JobRequeue=0, and a site that takes --requeue away), another job takes over
the same generation: submitted by the first one before it ends, to run after it, and given the claim. The attempts count
on. Standard library only.
"""

from __future__ import annotations

import re

from core import processes, slurm
from core.log import log_line, publish
from core.state import Job

# As the collection submits (module_utils/slurm/client.py).
_GIVEN = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "KRB5CCNAME", "SLURM_CONF")
# The options of sbatch that jobs of one launch may differ in, by scontrol's names for them.
_SHOWN = {
    "account": "Account", "constraint": "Features", "partition": "Partition", "qos": "QOS",
    "reservation": "Reservation", "time": "TimeLimit",
}  # fmt: skip


def hand_on(job: Job, why: str, excluded: str) -> tuple[str, str]:
    """(the new job, "") that this generation was handed on to, or ("", why that cannot be). `excluded`: nodes that it
    does not get.
    """
    # A script that was submitted by hand stands for another generation than the one it runs as.
    if job.submission is None:
        return "", "the script was submitted by hand"
    if job.attached:
        return "", "it is a step of another job"
    if job.get("SLURM_ARRAY_JOB_ID"):
        return "", "it is a task of an array"
    shown = slurm.show_job(job) if not excluded or job.get("RANKZERO_ANY_OF") else ""
    excluded = excluded or slurm.field(shown, "ExcNodeList")
    # The variables of this job are options to sbatch, and would become the next one's.
    clean = {name: job.env[name] for name in _GIVEN if job.get(name)}
    words = ["sbatch", "--parsable", f"--dependency=afterany:{job.get('SLURM_JOB_ID')},singleton"]
    words += [f"--exclude={excluded}"] if excluded else []
    # What this job was given in place of what its script says (resources.any_of).
    own = {name: slurm.field(shown, _SHOWN[name]) for name in job.get("RANKZERO_ANY_OF").split() if name in _SHOWN}
    words += [f"--{name}={value}" for name, value in own.items() if value]
    words += [job.path("job.sbatch"), "--submission", f"chain:{job.id}"]
    code, text = processes.output_of(180, words, clean, both=True)
    if code != 0:
        return "", text
    numbers = re.findall(r"^(\d+)(?:;.*)?$", text, re.MULTILINE)
    if not numbers:
        return "", f"sbatch named no job: {text}"
    # From here on the launch is the next job's. Should this one die before, the next takes what it was promised.
    publish(job.path(".uncounted"), f"{job.attempt + 1}\n")
    publish(job.path("claim"), f"{job.generation} {job.cluster} {numbers[-1]}\n")
    log_line(f"{why}; job {numbers[-1]} takes over")
    return numbers[-1], ""
