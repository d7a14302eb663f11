# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that the conductor starts, and waits for: always with a time limit, or while it heeds signals. Standard
library only.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence


class Adopted:
    """A child that was started before this file was loaded, as subprocess.Popen shows one."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def send_signal(self, what: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, what)


# Our children that have not been collected yet.
_children: dict[int, subprocess.Popen[bytes] | Adopted] = {}
_wakeup: list[int] = []


def listen() -> None:
    """Let every signal that has a handler, and the end of a child, end a pause."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    _wakeup[:] = [reader]


def pause(seconds: float, *also: int) -> list[int]:
    """Wait so long, or until a signal comes, or one of the descriptors `also` can be read; those that can."""
    ready = select.select([*_wakeup, *also], [], [], max(0.0, seconds))[0]
    for reader in _wakeup:
        if reader in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(reader, 4096)
    return [descriptor for descriptor in ready if descriptor not in _wakeup]


def after(seconds: float) -> float:
    """The moment so many seconds from now, by a clock that nobody sets."""
    return time.monotonic() + seconds


def due(moment: float | None) -> bool:
    return moment is not None and time.monotonic() >= moment


def start(
    words: Sequence[str], env: Mapping[str, str], stdin: int = subprocess.DEVNULL, stdout: int | None = None,
    stderr: int | None = None, session: bool = False,
) -> int:  # fmt: skip
    """Start a program; its number. A program that cannot be started ends with 127 as in a shell."""
    try:
        child = subprocess.Popen(
            words,
            env=dict(env),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=session,
        )
    except OSError as error:
        os.write(2, os.fsencode(f"{words[0]}: {error.strerror}\n"))
        child = subprocess.Popen(["/bin/sh", "-c", "exit 127"])
    _children[child.pid] = child
    return child.pid


def adopt(number: int) -> None:
    """Wait for a child as for those that are started here."""
    _children[number] = Adopted(number)


def is_child(number: int) -> bool:
    """Whether a child of ours has not been collected yet."""
    return number in _children


def runs(number: int) -> bool:
    return number in _children and _children[number].poll() is None


def code_of(number: int) -> int:
    """The exit code of a child that has ended, as a shell says it. The child is forgotten."""
    code = _children.pop(number).returncode
    if code is None:
        raise ValueError(f"process {number} has not ended")
    return 128 - code if code < 0 else code


def send_signal(number: int, what: int = signal.SIGTERM) -> None:
    if number and number in _children:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            _children[number].send_signal(what)


def signal_group(number: int, what: int = signal.SIGTERM) -> None:
    """Signal a child, and what is in a process group of its own with it."""
    with contextlib.suppress(OSError):
        if number and os.getpgid(number) == number:
            os.killpg(number, what)
            return
    send_signal(number, what)


def kill(number: int) -> None:
    """Kill a child, and what is in a process group of its own with it."""
    signal_group(number, signal.SIGKILL)
    send_signal(number, signal.SIGKILL)


def identity(number: int) -> str:
    """What tells a process that runs from every other one of its node, now and later; empty where there is none."""
    try:
        with open(f"/proc/{number}/stat", encoding="utf-8", errors="replace") as stream:
            # The second word is the program's name, in parentheses: it may hold blanks.
            words = stream.read().rpartition(")")[2].split()
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
            boot = stream.read().strip()
    except OSError:
        return ""
    return "" if words[0] in "ZX" else f"{number} {words[19]} {boot}"


def wait(number: int, seconds: float) -> bool:
    """Wait so long for the end of a child; whether it came."""
    until = after(seconds)
    while runs(number):
        if due(until):
            return False
        pause(min(0.1, max(0.005, until - time.monotonic())))
    return True


def wait_or_kill(number: int, seconds: float) -> None:
    """Give a child so long to end, then TERM, then 10 s later KILL. Returns at most 15 s after its time."""
    if wait(number, seconds):
        return
    send_signal(number)
    if wait(number, 10):
        return
    kill(number)
    wait(number, 2)


def output_of(seconds: float, words: Sequence[str], env: Mapping[str, str], both: bool = False) -> tuple[int, str]:
    """(exit code, output) of a program that may take so long; 124 where it takes longer. `both`: its errors, too."""
    reader, writer = os.pipe()
    try:
        child = start(words, env, stdout=writer, stderr=writer if both else subprocess.DEVNULL)
    finally:
        os.close(writer)
    chunks: list[bytes] = []
    until = after(seconds)
    try:
        open_end = True
        while open_end or runs(child):
            if due(until):
                kill(child)
                wait(child, 2)
                return 124, _text(chunks)
            left = until - time.monotonic()
            if open_end and reader in pause(min(0.1, left), reader):
                chunk = os.read(reader, 65536)
                chunks.append(chunk)
                open_end = bool(chunk)
            elif not open_end:
                pause(min(0.02, left))
            elif not runs(child):
                # What it has started may hold the pipe open: what is there now is all.
                os.set_blocking(reader, False)
                with contextlib.suppress(BlockingIOError):
                    chunks.append(os.read(reader, 1 << 20))
                open_end = False
    finally:
        os.close(reader)
    return code_of(child), _text(chunks)


def _text(chunks: Sequence[bytes]) -> str:
    return os.fsdecode(b"".join(chunks)).rstrip("\n")


def run(seconds: float, words: Sequence[str], env: Mapping[str, str]) -> int:
    """The exit code of a program that may take so long; 124 where it takes longer."""
    child = start(words, env)
    if not wait(child, seconds):
        kill(child)
        wait(child, 2)
        return 124
    return code_of(child)
