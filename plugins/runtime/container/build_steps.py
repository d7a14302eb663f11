# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The environment of a job in a container: made once, by one task on one node, inside the image and before any rank
starts. build.py does the work there. Later jobs with the same packages and the same image use the same folder. Standard
library only.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Sequence

from artifact import verdict
from container import outside
from core import processes
from core.log import ending, log_line
from core.state import Job
from rank import step

# What one task runs inside: an image without python3 says so itself.
_BUILD = (
    'command -v python3 > /dev/null || { echo "problem the image has no python3"; exit 78; }; exec python3 -IB "$@"'
)
# A network file system may show the new folder late.
LOOKS = 35
# Bytes at the end of the log of a build that are looked at.
LAST_BYTES = 256 << 10


def install(job: Job, seconds: int, folder: str, enter: Sequence[str]) -> None:
    """From here on the ranks' Python is that of the environment. `folder`: for all environments of these packages in
    this image; `enter`: the options or words that start the container.
    """
    place = os.path.join(folder, version(job.get("RANKZERO_IMAGE")))
    environment = os.path.join(place, "environment")
    try:
        os.makedirs(place, exist_ok=True)
    except OSError as error:
        verdict.refuse(job, 73, f"environment: cannot create {place}: {error.strerror}")
    if os.path.isdir(environment):
        log_line(f"environment: made by an earlier job inside this image: {environment}")
    else:
        _build(job, seconds, place, enter)
    current = os.path.join(folder, f".current-{job.id}")
    # For people and for the interactive shell; the ranks use the path that cannot change.
    with contextlib.suppress(OSError):
        os.symlink(os.path.basename(place), current)
        os.replace(current, os.path.join(folder, "current"))
    job.export("RANKZERO_MADE_INSIDE", "1")
    job.export("RANKZERO_PYTHON", f"{environment}/bin/python")
    job.export("VIRTUAL_ENV", environment)


def version(image: str) -> str:
    """A name for this version of an image: a changed file is another image. Empty: a name in a registry."""
    try:
        status = os.stat(image) if image else None
    except OSError:
        # The preflight says so of every node.
        status = None
    facts = f"{status.st_size} {status.st_mtime_ns}" if status else "named"
    return hashlib.sha256(facts.encode()).hexdigest()[:16]


def _build(job: Job, seconds: int, place: str, enter: Sequence[str]) -> None:
    environment, log = os.path.join(place, "environment"), job.path("preflight", str(job.attempt), "environment.log")
    os.makedirs(os.path.dirname(log), exist_ok=True)
    log_line(f"environment: made on {job.nodes[0]} inside the image, from {job.get('RANKZERO_PACKAGES')}")
    # What the node's own programs need is not what the image's do.
    words = ["env", *(word for name in job.get("RANKZERO_CLEARED").split() for word in ("-u", name))]
    words += ["srun", "--overlap", "--nodes=1", "--ntasks=1", "--ntasks-per-node=1", f"--nodelist={job.nodes[0]}"]
    words += [f"--cpus-per-task={job.get('RANKZERO_CPUS_PER_NODE')}", "--cpu-bind=none", "--mem=0", "--export=ALL"]
    words += [f"--output={log}", "--open-mode=append", *enter, "/bin/bash", f"{job.runtime}/container/enter.sh"]
    words += ["-c", _BUILD, "build", f"{job.runtime}/container/build.py", place, job.get("RANKZERO_PACKAGES")]
    code = step.run_bounded(job, seconds, [*words, "--sha256", job.get("RANKZERO_PACKAGES_SHA256")])
    for _look in range(job.number("RANKZERO_LOG_LOOKS", LOOKS) if code == 0 else 0):
        if os.path.isdir(environment):
            break
        processes.pause(1)
    if code != 0 or not os.path.isdir(environment):
        verdict.refuse(job, 78, f"environment: {_problem(job, log, code)}")


def _problem(job: Job, log: str, code: int) -> str:
    """What went wrong: build.py's own words, else the runtime's."""
    try:
        lines = ending(log, most=LAST_BYTES).splitlines()
    except OSError:
        lines = []
    own = [line.partition(" ")[2] for line in lines if line.startswith("problem ")]
    if own:
        return own[-1]
    # What the runtime says of itself, and at least the last words.
    words = [re.sub(r"\x1b\[[0-9;]*m", "", line).strip() for line in lines]
    last = "; ".join([line for line in words if line][-2:])
    why = outside.failure(job, job.get("RANKZERO_CONTAINER"), log)
    why = f"{last[:300]} ({why})" if last and why.startswith("see ") else why
    return f"the step that makes it inside the image ended with exit code {code}: {why}"
