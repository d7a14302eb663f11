# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The batch script itself, in a bash beside the conductor: the site's set-up, modules and conda environments have to be
sourced, and what they change is the surroundings of everything after them. Each step of the script (job.sh) asks the
conductor to do it, sends its environment along, and gets back what has changed. Standard library only.

A request is a count, so many words, the lines of `env -0`, and an empty word, each ended by a NUL byte. An answer is
NAME=VALUE to export or -NAME to unset, and an empty word.
"""

from __future__ import annotations

import contextlib
import os
import resource
from dataclasses import dataclass, field

from core import processes
from core.state import Job
from job.environment import parsed
from rank import step

_LIMITS = [value for name, value in vars(resource).items() if name.startswith("RLIMIT_")]


@dataclass(eq=False)
class Script:
    process: int
    reader: int
    writer: int
    received: bytes = b""
    words: list[str] = field(default_factory=list)


def request(job: Job, script: Script) -> list[str] | None:
    """What the script asks for next, after its environment has become the job's; None once it has ended. Signals are
    heeded meanwhile: a site's set-up may take long.
    """
    while True:
        parts = _complete(script.received)
        if parts is not None:
            words, entries, script.received = parts
            job.env = parsed(entries)
            if not job.is_script:
                # Each srun of ours would take it for an option. rank.sh sets it for the ranks.
                job.env.pop("SLURM_GPUS_PER_NODE", None)
            surroundings(script.process)
            return words
        step.act_on_signals(job)
        if script.reader in processes.pause(0.25, script.reader):
            chunk = os.read(script.reader, 1 << 16)
            script.received += chunk
            if chunk:
                continue
            processes.wait(script.process, 5)
        if not processes.runs(script.process):
            with contextlib.suppress(BlockingIOError):
                os.set_blocking(script.reader, False)
                script.received += os.read(script.reader, 1 << 20)
            if _complete(script.received) is None:
                return None


def _complete(received: bytes) -> tuple[list[str], list[bytes], bytes] | None:
    """(words, environment, the rest) of a request that is there as a whole; None where it is not."""
    head, nul, rest = received.partition(b"\0")
    if not nul:
        return None
    items = rest.split(b"\0", int(head))
    if len(items) <= int(head):
        return None
    words, tail = items[:-1], items[-1]
    if tail.startswith(b"\0"):
        entries, after = b"", tail[1:]
    else:
        entries, end, after = tail.partition(b"\0\0")
        if not end:
            return None
    return [os.fsdecode(word) for word in words], entries.split(b"\0"), after


def surroundings(process: int) -> None:
    """Take over working directory, umask and limits of the script's bash: a site's set-up may change them."""
    with contextlib.suppress(OSError):
        os.chdir(f"/proc/{process}/cwd")
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{process}/status", encoding="ascii") as stream:
        masks = [line.split()[1] for line in stream if line.startswith("Umask:")]
        os.umask(int(masks[0], 8) if masks else 0o022)
    for limit in _LIMITS:
        with contextlib.suppress(OSError, ValueError):
            theirs = resource.prlimit(process, limit)
            if theirs != resource.getrlimit(limit):
                resource.setrlimit(limit, theirs)


def answer(job: Job, script: Script) -> None:
    """Let the script go on, with what has changed."""
    entries = [f"-{name}" if value is None else f"{name}={value}" for name, value in job.changed.items()]
    job.changed.clear()
    data = b"".join(os.fsencode(entry) + b"\0" for entry in [*entries, ""])
    with contextlib.suppress(BrokenPipeError):
        while data:
            data = data[os.write(script.writer, data) :]


def stop(script: Script) -> None:
    """Nothing is left for the script to do, if it has not ended."""
    if not processes.is_child(script.process):
        return
    os.close(script.writer)
    os.close(script.reader)
    processes.kill(script.process)
    processes.wait(script.process, 5)
