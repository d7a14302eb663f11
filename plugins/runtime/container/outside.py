# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a batch script does for ranks that run in a container, all of it outside: enter.sh is the part inside. Standard
library only.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Sequence

from artifact import verdict
from core import processes
from core.log import ending
from core.log_names import ranks_of
from core.state import PROGRAM, SETUP, Job, Role

# A network file system may show the last logs late: their absence is believed after half a minute only.
LOOKS = 35
_PYXIS = ("PYXIS_CONTAINER_", "_SLURM_SPANK_OPTION_pyxis_", "SLURM_SPANK__SLURM_SPANK_OPTION_pyxis_")
_MEMORY = r"[Oo]ut [Oo]f [Mm]emory|oom.kill|OOM"


def facts(job: Job, runtime: str, name: str) -> list[str]:
    """What is declared of a runtime under a name."""
    begin = f"{runtime} {name} "
    own = job.get("RANKZERO_CONTAINER_FACTS").splitlines()
    with open(os.path.join(job.runtime, "container", "containers.txt"), encoding="utf-8") as stream:
        # One that the cluster declares stands before ours of the same name.
        lines = own if any(line.startswith(f"{runtime} ") for line in own) else stream.read().splitlines()
    return [line[len(begin) :] for line in lines if line.startswith(begin)]


def prepare(job: Job, runtime: str, variables: Sequence[str]) -> None:
    """Before the preflight. `variables`: those whose value here wins over the image's."""
    # A site's module may set these for everybody, and Slurm hands on what stands in the job's header: they would put
    # the preflight into a container, too.
    for name in [name for name in job.env if name.startswith(_PYXIS)]:
        job.drop(name)
    commands = facts(job, runtime, "command")
    if commands:
        paths = [path for path in (shutil.which(name, path=job.get("PATH")) for name in commands) if path]
        if not paths:
            absent, where = facts(job, runtime, "absent")[0], os.uname().nodename
            verdict.refuse(job, 78, f"{absent} in PATH on {where}: name its module in setup.modules")
        job.export(f"RANKZERO_{runtime.upper()}", paths[0])
    # What a node makes for its container is mounted in the scratch folder, seen by nobody else. The user's home is not
    # there, and the image may be read-only: made here, because the image may lack mkdir.
    for folder in [job.path(name) for name in facts(job, runtime, "scratch")] + [job.path("home", ".cache")]:
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError:
            verdict.refuse(job, 73, f"cannot create {folder}")
    # The image's values beat those of the job, and hooks of the image set some more: a file survives both.
    role = job.get("RANKZERO_ROLE")
    values = job.path(f".container-{job.attempt}{f'-{role}' if role else ''}.env")
    job.export("RANKZERO_CONTAINER_ENV", values)
    try:
        with open(values, "w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.writelines(f"export {name}={shlex.quote(job.env[name])}\n" for name in variables if name in job.env)
    except OSError:
        verdict.refuse(job, 73, f"cannot write {values}")


def reason(text: str, patterns: Sequence[str]) -> str:
    """The line of a log that says best why a container did not start; empty where none does: the memory limit of
    Slurm, then what the runtime has declared of its own words (`patterns`), the best first. The nodes' lines come in
    any order, and those without a reason ("child 7 failed with error code: 1") often first.
    """
    for pattern in (_MEMORY, *patterns):
        for line in text.splitlines():
            if re.search(pattern, line):
                return line[:400]
    return ""


def logged(job: Job, ranks: range) -> int:
    """How many of these ranks have begun a log, of whichever style of names."""
    walk = os.walk(job.get("RANKZERO_LOGS"))
    seen = {rank for _folder, _folders, names in walk for name in names for rank in ranks_of(name)}
    return sum(rank in ranks for rank in seen)


def prove(job: Job) -> None:
    """After the step, where it is not the program that has failed. A container that did not start leaves no rank, and
    what it said in the step's log; a node on which it did not start can even leave srun with exit code 0: every rank
    must have a log. Of a launch with roles: those of the role that decides.
    """
    step, log, count = job.step, os.path.join(job.get("RANKZERO_LOGS"), "step.log"), job.number("RANKZERO_WORLD_SIZE")
    if step.ended_by != PROGRAM:
        return
    if job.failed_role:
        _blame(job, job.failed_role, log)
        return
    runtime, ranks = _runtime(job, job.roles[0] if job.roles else None), range(count)
    if not runtime:
        return
    if step.exit_code != 0:
        if not logged(job, ranks):
            step.ended_by = SETUP
            who = "the script did not start" if job.is_script else "no rank started"
            step.message = f"{who} in its container: {failure(job, runtime, log)}"
        return
    for _look in range(job.number("RANKZERO_LOG_LOOKS", LOOKS)):
        if logged(job, ranks) >= count:
            return
        processes.pause(1)
    step.ended_by, step.exit_code = SETUP, 70
    step.message = (
        f"{logged(job, ranks)} of {count} ranks started, although srun says success: the container did not start "
        f"everywhere; see {log}"
    )


def _runtime(job: Job, role: Role | None) -> str:
    """The runtime of the container of a role, or of the only program; empty where it runs in none."""
    return (role.env.get("RANKZERO_CONTAINER") if role else "") or job.get("RANKZERO_CONTAINER")


def _blame(job: Job, failed: Role, log: str) -> None:
    """Say of the role that has ended the launch that it did not even start in its container, where that is so."""
    runtime = _runtime(job, failed)
    if runtime and not logged(job, range(failed.first_rank, failed.first_rank + failed.ranks)):
        job.step.message = f"role {failed.name} did not start in its container: {failure(job, runtime, log)}"


def failure(job: Job, runtime: str, log: str) -> str:
    """What the step's log says of a container that did not start, or where it can be read."""
    try:
        problem = reason(ending(log), facts(job, runtime, "log"))
    except OSError:
        problem = ""
    if re.search(_MEMORY, problem):
        problem += "; an image that is unpacked into memory counts against the step's: ask for more in resources.memory"
    return problem or f"see {log}"
