# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The environment of the batch script, and how its second pass finds the conductor. Imports next to nothing: the second
pass is started before the rest of the conductor is loaded.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence

#: How the bash beside the conductor is told of its two descriptors; no other process may see it.
VARIABLE = "RANKZERO_CONDUCTOR"
#: Set by the script of a job whose container stands in its header: Slurm has read the user's login for it.
LOGIN = "RANKZERO_LOGIN_DROPPED"
_KEPT = ("SLURM", "RANKZERO_", "CUDA_", "NVIDIA_", "ROCR_", "HIP_", "GPU_", "ZE_")
_ALSO_KEPT = ("HOME", "USER", "LOGNAME", "SHELL", "PATH", "TMPDIR", "HOSTNAME", "PWD", "SHLVL")
# Bash's own: the conductor is one more level, and each program has its own.
_BASHS = ("_", VARIABLE, LOGIN)


def initial(arguments: Sequence[str]) -> dict[str, str]:
    """The environment that this process was started with, without what the user's login set. A script that a person
    submitted (`arguments` of conduct.py without --submission) has had all that is set in that person's shell.
    os.environ is not that: in the C locale Python sets LC_CTYPE for itself and all that it starts.
    """
    with open("/proc/self/environ", "rb") as stream:
        entries = stream.read().split(b"\0")
    env = parsed(entries)
    if "--submission" not in arguments or any(entry.startswith(os.fsencode(LOGIN) + b"=") for entry in entries):
        env = without_login(env)
    # How the submission reads Slurm's answers is nobody's affair in the job.
    env.pop("SLURM_TIME_FORMAT", None)
    return env


def without_login(env: Mapping[str, str]) -> dict[str, str]:
    """Only what Slurm, this collection and the system set."""
    return {name: value for name, value in env.items() if name in _ALSO_KEPT or name.startswith(_KEPT)}


def parsed(entries: Sequence[bytes]) -> dict[str, str]:
    """The variables of `NAME=VALUE` lines, without those that are bash's own."""
    pairs = (os.fsdecode(entry).partition("=") for entry in entries if b"=" in entry)
    return {name: value for name, _equals, value in pairs if name not in _BASHS}


def second_pass(path: str, arguments: Sequence[str]) -> tuple[int, int, int]:
    """Run the script once more, as our child, which asks for what comes after its set-up: (its process, where its
    requests are read, where they are answered).
    """
    env = initial(arguments)
    from_script, to_us = os.pipe()
    from_us, to_script = os.pipe()
    env[VARIABLE] = f"{from_us} {to_us}"
    level = env.get("SHLVL", "1")
    # Its level is what it would be without us.
    env["SHLVL"] = str(max(0, int(level) - 1 if level.isdigit() else 0))
    for theirs in (from_us, to_us):
        os.set_inheritable(theirs, True)
    nothing = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
    # Python ignores these two for itself.
    reset = [signal.SIGPIPE, signal.SIGXFSZ]
    words = ["/bin/bash", path, *arguments]
    process = os.posix_spawn(words[0], words, env, file_actions=nothing, setsigdef=reset)
    os.close(to_us)
    os.close(from_us)
    return process, from_script, to_script
