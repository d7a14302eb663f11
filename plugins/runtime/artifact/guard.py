# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last resort against a job that stays after its verdict: nothing that it still waits for may keep the allocation.

Everything that follows a verdict has its own time limit. Should the batch script be there long after all of them, what
it has started is killed, which ends any wait for it, and then the script itself. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

#: After the verdict. More than all that may follow it takes: the end of what is held (150 s), and where the program has
#: not succeeded a requeue, or the submission of the job that goes on.
SECONDS = {True: 240.0, False: 900.0}
AFTER_KILL_SECONDS = 15.0
POLL_SECONDS = 0.25


def state_of(number: int | str) -> tuple[int, int] | None:
    """(parent, birth) of a process; None once it is gone or a zombie."""
    try:
        with open(f"/proc/{number}/stat", encoding="ascii", errors="replace") as stream:
            fields = stream.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else (int(fields[1]), int(fields[19]))


def descendants(number: int) -> list[int]:
    """The processes that a process has started, and those that they have, children last."""
    parents: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        state = state_of(name)
        if state is not None:
            parents.setdefault(state[0], []).append(int(name))
    pids, open_ends = [], [number]
    while open_ends:
        children = parents.get(open_ends.pop(), [])
        pids += children
        open_ends += children
    return [pid for pid in pids if pid != os.getpid()]


def gone(number: int, birth: int, seconds: float) -> bool:
    """Waits so long for the end of a process; whether it came."""
    deadline = time.monotonic() + seconds
    while True:
        state = state_of(number)
        if state is None or state[1] != birth:
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_SECONDS)


def kill(number: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(number, signal.SIGKILL)


def stand(number: int, birth: int, seconds: float) -> None:
    """Until the script has ended; makes it end where it does not."""
    if gone(number, birth, seconds):
        return
    left = descendants(number)
    print(f"[rankzero] {seconds:g} s after the verdict this script is still here: ending what it has started, {left}")
    sys.stdout.flush()
    for child in reversed(left):
        kill(child)
    if not gone(number, birth, AFTER_KILL_SECONDS):
        kill(number)


def post(number: int, seconds: float) -> None:
    """Starts a guard of a process, beside whatever this program does. Returns at once."""
    state = state_of(number)
    if state is None or os.fork():
        return
    try:
        # First of all the pipes whose end is the word that the job is over (core/held_steps.py).
        os.closerange(3, 4096)
        for number_ in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number_, signal.SIG_IGN)
        # Whoever reads the output of this process must not wait for the guard: only the job's log stays open.
        if not os.path.isfile("/dev/stdout"):
            nowhere = os.open(os.devnull, os.O_RDWR)
            for standard in (0, 1, 2):
                os.dup2(nowhere, standard)
        stand(number, state[1], seconds)
    finally:
        sys.stdout.flush()
        os._exit(0)
