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
import stat
from collections.abc import Sequence

from artifact import verdict
from core.files import whole
from core.log import say
from core.state import Job

LOG, ERRORS = "rank-0000.log", "rank-0000.err"
# Works in the folder of its first argument, and prints to logs in that of its second.
_START = f'cd -- "$1" && unset OLDPWD && exec >> "$2/{LOG}" 2{{}} && shift 2 && exec "$@"'
_PLACE = re.compile(r"%(?P<width>[0-9]{0,2})(?P<letter>[%AJNajnstux])")
# Slurm sets them for options that only our header has.
_OURS = ("SLURM_OPEN_MODE", "SLURM_EXPORT_ENV")


def words(job: Job, arguments: Sequence[str]) -> list[str]:
    """The words that start the script in this attempt. Ends the job where the script or its folder is not there."""
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
    start = _START.format(f'>> "$2/{ERRORS}"' if apart else ">&1")
    return ["/bin/sh", "-c", start, "script", place, logs, *program, path, *arguments]


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
        say(f"{path}: {error.strerror}: the script's output is only in the launch's own log")


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
