# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that a script's own srun lines name for their output (srun -o), copied to the logs after the script.

Which these are is known from Slurm's accounting, which keeps the command line of each step. Standard library only.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from core import slurm
from core.log import log_line
from core.state import SIGNAL, Job
from rank import option_reader

ACCOUNTING_SECONDS = 10
# Slurm ends the job KillWait seconds (30 by default) after its first signal: until then the verdict must be written.
HURRIED_SECONDS, HURRIED_BYTES = 3, 128 << 20
# Of a file, its last bytes; of a script, so many files and bytes.
MOST_OF_A_FILE, MOST_FILES, MOST_BYTES = 64 << 20, 4096, 1 << 30
# Clocks of two file systems differ a little.
CLOCK_SECONDS = 2
# A step of the job, and the command line that started it: 123.0|srun -o log_%t.txt python train.py
_STEP = re.compile(r"[0-9_]+\.(?P<step>[0-9]+)\|(?P<line>(?:\S*/)?srun .*)")
_PLACE = re.compile(r"%(?P<width>[0-9]{0,2})(?P<letter>[%AJNajnstux])")
#: What stands in a name for what differs between tasks and nodes, or is not known here.
_ANY = {"t": r"(?P<rank>[0-9]+)", "n": "[0-9]+", "N": "[^/]+", "x": "[^/]*", "A": "[0-9]+", "a": "[0-9]+"}


@dataclass(frozen=True)
class Output:
    """A pattern of srun(1) for files, absolute. `kind`: out or err."""

    step: int
    kind: str
    pattern: str


def copy_outputs(job: Job, folder: str) -> None:
    """Copy the files of the steps of this attempt. `folder`: in which the script has worked."""
    hurried = job.step.ended_by == SIGNAL
    words = ("--noheader", "--parsable2", f"--jobs={job.get('SLURM_JOB_ID')}", "--format=JobID,SubmitLine")
    code, text = slurm.query(job, "sacct", *words, seconds=HURRIED_SECONDS if hurried else ACCOUNTING_SECONDS)
    if code != 0:
        return
    left, files = HURRIED_BYTES if hurried else MOST_BYTES, 0
    try:
        began = os.stat(job.path(".attempt")).st_mtime - CLOCK_SECONDS
        for output in outputs(text, folder):
            for path, name in written(job, output, began):
                if files == MOST_FILES or left <= 0:
                    log_line(f"of the files that steps wrote, {files} are among the logs")
                    return
                left -= _copied(path, os.path.join(job.get("RANKZERO_LOGS"), f"step-{output.step}", name))
                files += 1
    except OSError as error:
        log_line(f"{error.filename}: {error.strerror}: not among the logs")


def outputs(text: str, folder: str) -> list[Output]:
    """The patterns that the steps name, each once. `text`: the answer of sacct; `folder`: where srun was called."""
    named: dict[Output, None] = {}
    for line in text.splitlines():
        match = _STEP.fullmatch(line)
        if match is None:
            continue
        rest = [(0, word) for word in match["line"].split()[1:]]
        known = option_reader.SRUN.names
        given = {option.name: option.value for option in option_reader.options(rest, option_reader.SRUN, known, [])}
        place = os.path.join(folder, str(given.get("chdir", "")))
        for kind, name in (("out", "output"), ("err", "error")):
            value = given.get(name)
            # `none`, `all` and a number of a task are no files (srun(1)).
            if isinstance(value, str) and value not in ("", "none", "all") and not value.isdecimal():
                pattern = os.path.normpath(os.path.join(place, value))
                named[Output(int(match["step"]), kind, pattern)] = None
    return list(named)


def written(job: Job, output: Output, began: float) -> Iterator[tuple[str, str]]:
    """Iterate over (path, name among the logs) of the files of a pattern that were written since `began`."""
    loose: list[str] = []
    expression: list[str] = []
    end = 0
    pattern = output.pattern
    for match in _PLACE.finditer(pattern) if "\\" not in pattern else ():
        literal = pattern[end : match.start()]
        value = _value(job, output.step, match["letter"])
        own = "" if value is None else value.rjust(int(match["width"] or 0), "0")
        loose += [glob.escape(literal), "*" if value is None else glob.escape(own)]
        expression += [re.escape(literal), _ANY[match["letter"]] if value is None else re.escape(own)]
        end = match.end()
    rest = pattern[end:].replace("\\", "")
    loose.append(glob.escape(rest))
    expression.append(re.escape(rest))
    whole = "".join(expression)
    # A name of a group may be used once.
    first, again, tail = whole.partition("(?P<rank>")
    whole = f"{first}{again}{tail.replace('(?P<rank>', '(?:')}"
    for path in sorted(glob.iglob("".join(loose))):
        of_pattern = re.fullmatch(whole, path)
        status = os.lstat(path)
        if of_pattern and stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_mtime >= began:
            rank = of_pattern.groupdict().get("rank")
            yield path, f"rank-{int(rank):04d}.{output.kind}" if rank else os.path.basename(path)


def _value(job: Job, step: int, letter: str) -> str | None:
    """What a letter of a pattern stands for; None where it differs between files."""
    job_id = job.get("SLURM_JOB_ID")
    known = {"%": "%", "j": job_id, "J": f"{job_id}.{step}", "s": str(step), "u": job.get("USER")}
    return known.get(letter)


def _copied(source: str, target: str) -> int:
    """Copy the end of a file; the number of its bytes."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as reader, open(target, "wb") as writer:
        reader.seek(max(0, os.fstat(descriptor).st_size - MOST_OF_A_FILE))
        shutil.copyfileobj(reader, writer)
        return writer.tell()
