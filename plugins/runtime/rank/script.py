# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A user's own batch script in the place of the ranks' step: started as slurmstepd would start it, in a process group
of its own. Standard library only.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import shlex
import signal
import stat
from collections.abc import Sequence

from artifact import verdict
from core import processes
from core.files import whole
from core.log import log_line
from core.state import Job

LOG, ERRORS = "rank-0000.log", "rank-0000.err"
# Works in the folder of its first argument, and prints to logs in that of its second.
_START = f'cd -- "$1" && unset OLDPWD && exec >> "$2/{LOG}" 2{{}} && shift 2 && exec "$@"'
# The same in a container: its process is found by the third.
_INSIDE = (
    f'echo "$$" > "$3" && cd -- "$1" && unset OLDPWD && exec >> "$2/{LOG}" 2{{}} < /dev/null && shift 3 && exec "$@"'
)
# What the container's runtime itself prints goes where that of ranks goes.
_ENTER = 'exec >> "$1/step.log" 2>&1 && shift && exec "$@"'
_PLACE = re.compile(r"%(?P<width>[0-9]{0,2})(?P<letter>[%AJNajnstux])")
# Slurm sets them for options that only our header has.
_OURS = ("SLURM_OPEN_MODE", "SLURM_EXPORT_ENV")
# Slurm's variables that srun needs to find the job; it would take others for options of the step.
_OF_THE_JOB = ("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_CONF", "SLURM_CLUSTER_NAME")
# How Slurm hands the options of a job's header on to the script's own steps (spank(7)).
_INHERITED = "_SLURM_SPANK_OPTION_pyxis_"


def words(job: Job, given: Sequence[str]) -> list[str]:
    """The words that start the script in this attempt. Ends the job where the script or its folder is not there.
    `given`: how many arguments it has, these, and the words that enter its container.
    """
    count = int(given[0])
    arguments, enter = given[1 : 1 + count], given[1 + count :]
    path, place = job.path("slurm_script"), folder(job)
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as stream:
            first = stream.readline(4096)
    except OSError as error:
        verdict.refuse(job, 66, f"{path}: {error.strerror}")
    logs = job.get("RANKZERO_LOGS")
    with contextlib.suppress(OSError):
        os.symlink(LOG, os.path.join(logs, ".live"))
    out, err = job.get("RANKZERO_SCRIPT_OUTPUT"), job.get("RANKZERO_SCRIPT_ERROR")
    apart = err != "" and name(job, err) != name(job, out)
    _show(job, os.path.join(place, name(job, out)), os.path.join(logs, LOG))
    if apart:
        _show(job, os.path.join(place, name(job, err)), os.path.join(logs, ERRORS))
    # As the kernel reads the line (execve(2)): one program and at most one argument. The file system may be noexec.
    program = first[len("#!") :].strip(" \t\r\n").split(None, 1)
    errors = f'>> "$2/{ERRORS}"' if apart else ">&1"
    if not enter:
        return ["/bin/sh", "-c", _START.format(errors), "script", place, logs, *program, path, *arguments]
    _keep_for_inside(job, enter)
    place = job.get("RANKZERO_WORKDIR") or place
    inside = ["-c", _INSIDE.format(errors), "script", place, logs, _process_file(job), *program, path, *arguments]
    return [
        *("/bin/sh", "-c", _ENTER, "enter", logs, *_by_step(job, enter), "/bin/bash"),
        *(f"{job.runtime}/container/enter.sh", *inside),
    ]


def _by_step(job: Job, enter: Sequence[str]) -> list[str]:
    """The words that enter the container: those of the runtime, or a step of all of this node where they are options.
    The script's own steps share what it has.
    """
    if not enter[0].startswith("--"):
        return [*enter]
    own = sorted(name for name in environment(job) if name.startswith("SLURM_") and name not in _OF_THE_JOB)
    return [
        *("env", *(word for name in own for word in ("-u", name))),
        *("srun", "--overlap", "--nodes=1", "--ntasks=1", "--ntasks-per-node=1", f"--nodelist={job.node}"),
        *(f"--cpus-per-task={job.get('SLURM_CPUS_ON_NODE', '1')}", "--cpu-bind=none", "--mem=0", "--mpi=none"),
        *("--input=none", f"--output={job.get('RANKZERO_LOGS')}/step.log", "--open-mode=append", "--export=ALL"),
        *enter,
    ]


def _keep_for_inside(job: Job, enter: Sequence[str]) -> None:
    """Let the script see Slurm's variables of the job, not those of the step that holds its container, and hand the
    container on to its own steps, as the header of sbatch would.
    """
    kept = {name: value for name, value in environment(job).items() if name.startswith("SLURM")}
    if enter[0].startswith("--"):
        options = (word[2:].partition("=") for word in enter)
        kept.update({_INHERITED + name.replace("-", "_"): value for name, _equals, value in options})
    values = job.get("RANKZERO_CONTAINER_ENV")
    try:
        with open(values, "a", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write("unset SRUN_DEBUG ${!SLURM_@} ${!PMI@}\n")
            stream.writelines(f"export {name}={shlex.quote(value)}\n" for name, value in sorted(kept.items()))
    except OSError:
        verdict.refuse(job, 73, f"cannot write {values}")


def _process_file(job: Job) -> str:
    return job.path(f".script-{job.attempt}.pid")


def send_signal(job: Job, what: int = signal.SIGTERM) -> None:
    """Signal the script itself, as slurmstepd would: srun would signal all that it has started, or end it."""
    number = 0
    if job.get("RANKZERO_CONTAINER"):
        with contextlib.suppress(OSError, ValueError), open(_process_file(job), encoding="ascii") as stream:
            number = int(stream.read(20))
    if not _is_ours(job, number):
        processes.send_signal(job.step.process, what)
        return
    with contextlib.suppress(OSError):
        os.kill(number, what)


def _is_ours(job: Job, number: int) -> bool:
    """Whether this process runs a script of this job: the number may be one of the container's own."""
    mine = {os.fsencode(f"{name}={job.get(name)}") for name in ("RANKZERO_RUN_DIR", "RANKZERO_ATTEMPT")}
    with contextlib.suppress(OSError), open(f"/proc/{number}/environ", "rb") as stream:
        return number > 0 and mine <= {*stream.read().split(b"\0")}
    return False


def folder(job: Job) -> str:
    """Where the script works: in the folder of the submission, unless it names another place."""
    return os.path.normpath(os.path.join(_submitted_from(job), job.get("RANKZERO_SCRIPT_FOLDER")))


def _submitted_from(job: Job) -> str:
    """The folder of the submission: the job's own copy, or the folder itself (code.in_place)."""
    return job.get("RANKZERO_SCRIPT_IN_PLACE") or job.path("work")


def name(job: Job, pattern: str) -> str:
    """The name of a file from a pattern of sbatch(1)."""
    job_id = job.get("SLURM_JOB_ID")
    values = {
        "%": "%", "A": job.get("SLURM_ARRAY_JOB_ID", job_id), "J": job_id, "N": job.node.partition(".")[0],
        "a": job.get("SLURM_ARRAY_TASK_ID", "4294967294"), "j": job_id, "n": "0", "s": "batch", "t": "0",
        "u": job.get("USER"), "x": job.get("RANKZERO_SCRIPT_NAME"),
    }  # fmt: skip
    # A backslash anywhere switches them off.
    if "\\" in pattern:
        return pattern.replace("\\", "")
    return _PLACE.sub(lambda match: values[match["letter"]].rjust(int(match["width"] or 0), "0"), pattern)


def _show(job: Job, path: str, log: str) -> None:
    """Let the place that the script names for its output lead to its log. What lies there and is not ours stays."""
    try:
        if os.path.islink(path) and os.readlink(path).startswith(f"{job.path('logs')}/"):
            os.unlink(path)
        if not os.path.lexists(path):
            os.symlink(log, path)
    except OSError as error:
        log_line(f"{path}: {error.strerror}: the script's output is only in the launch's own log")


def environment(job: Job) -> dict[str, str]:
    """The script's environment: what Slurm sets for a job that was submitted from its folder, the job's own variables,
    and its secrets. Ends the job where these cannot be trusted.
    """
    env = {
        name: value for name, value in job.env.items() if name not in _OURS and not name.startswith("RANKZERO_SCRIPT_")
    }
    if env.get("SLURM_JOB_DEPENDENCY") == "singleton":
        del env["SLURM_JOB_DEPENDENCY"]
    env.update(SLURM_SUBMIT_DIR=_submitted_from(job), SLURM_JOB_NAME=job.get("RANKZERO_SCRIPT_NAME"))
    if job.get("RANKZERO_SCRIPT_EXPORT"):
        env["SLURM_EXPORT_ENV"] = job.get("RANKZERO_SCRIPT_EXPORT")
    return {**env, **_secrets(job)}


def _secrets(job: Job) -> dict[str, str]:
    names = [name for name in job.get("RANKZERO_SECRETS").split(",") if name]
    if not names:
        return {}
    path = job.path("secrets.env")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, "rb") as stream:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
                verdict.refuse(
                    job, 78, f"{path} is not read: it must be a file of this user with mode 600, and no link"
                )
            text = whole(stream, path).decode("ascii")
    except (OSError, UnicodeDecodeError) as error:
        verdict.refuse(job, 78, f"{job.node} cannot read secrets.env: {error}")
    pairs = [line.partition("=") for line in text.split("\n")]
    return {name: os.fsdecode(base64.b64decode(value)) for name, _equals, value in pairs if name in names}
