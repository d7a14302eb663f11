# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Give a command the user's terminal, from inside an Ansible task.

A task runs in a worker whose standard streams are not the terminal and which, since ansible-core 2.19, is in its own
session. The terminal is that of its parent, and is opened by name. The command gets its own pseudo-terminal, so that it
handles Ctrl-C and job control itself. A process in a third session copies the bytes, the window size and the modes
between the two terminals. Run as a program: terminal.py TERMINAL COMMAND [ARGUMENT ...]; its standard output is the
beginning of what the command printed.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
import tty
from collections.abc import Sequence

# How often (seconds) the window size is checked: a terminal reports changes only to processes of its own session.
WINDOW_SECONDS = 0.5
BLOCK = 65536
# How many bytes of a command's first output are kept: what Slurm prints until a shell opens is far less.
KEPT = 16384
# The copying process's exit code if the user's terminal cannot be opened; shells do not use it.
NO_TERMINAL = 125


def terminal_of(pid: int) -> str | None:
    """The path of a process's terminal, or None. Uses ps(1), which works on every system."""
    done = subprocess.run(["ps", "-o", "tty=", "-p", str(pid)], capture_output=True, text=True, check=False)
    name = done.stdout.strip()
    if done.returncode != 0 or not re.fullmatch(r"[A-Za-z0-9/]+", name):
        return None
    path = f"/dev/{name}"
    return path if os.path.exists(path) else None


def hand_over(terminal: str, command: Sequence[str]) -> tuple[int, str]:
    """Run `command` at `terminal` until it ends. Returns its exit code and the beginning of what it printed."""
    argv = [sys.executable, os.path.abspath(__file__), terminal, *command]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True, check=False)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def main(arguments: Sequence[str]) -> int:
    """Run the copying process; see this module's docstring."""
    try:
        terminal = os.open(arguments[0], os.O_RDWR | os.O_NOCTTY)
        modes = termios.tcgetattr(terminal)
    except (OSError, termios.error) as error:
        sys.stderr.write(f"{arguments[0]}: {error}\n")
        return NO_TERMINAL
    pid, inner = pty.fork()
    if pid == 0:
        try:
            os.execvp(arguments[1], list(arguments[1:]))
        except OSError as error:
            os.write(2, f"{arguments[1]}: {error.strerror}\r\n".encode())
            os._exit(127)

    def ended(_number: int, _frame: object) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, ended)
    signal.signal(signal.SIGHUP, ended)
    printed = bytearray()
    try:
        tty.setraw(terminal)
        _carry(terminal, inner, printed)
    finally:
        termios.tcsetattr(terminal, termios.TCSAFLUSH, modes)
        # If the command still runs, closing its terminal sends it a hang-up.
        os.close(inner)
    os.write(1, printed)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _carry(outer: int, inner: int, printed: bytearray) -> None:
    """Copy bytes both ways until the command has ended or the user's terminal is gone. `printed` receives the first
    bytes of the command's output.
    """
    looked, size = 0.0, b""
    parent = os.getppid()
    while os.getppid() == parent:
        if time.monotonic() - looked >= WINDOW_SECONDS:
            looked = time.monotonic()
            now = fcntl.ioctl(outer, termios.TIOCGWINSZ, b"\0" * 8)
            if now != size:
                fcntl.ioctl(inner, termios.TIOCSWINSZ, now)
                size = now
        ready, _none, _nothing = select.select([outer, inner], [], [], WINDOW_SECONDS)
        for source, target in ((inner, outer), (outer, inner)):
            if source not in ready:
                continue
            try:
                data = os.read(source, BLOCK)
            except OSError:
                # Linux reports this error when the other end of a terminal is closed.
                data = b""
            if not data:
                return
            if source == inner and len(printed) < KEPT:
                printed += data[: KEPT - len(printed)]
            while data:
                data = data[os.write(target, data) :]


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
