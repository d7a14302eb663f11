# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run of ansible-playbook whose standard streams are a pseudo-terminal, and what stays on its screen."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
SECONDS = 240
#: What would make a terminal something else.
UNSET = ("CI", "NO_COLOR", "ANSIBLE_NOCOLOR", "ANSIBLE_FORCE_COLOR")


class Terminal:
    """Ended by `close`, whatever becomes of the test."""

    def __init__(self, argv: Sequence[str], cwd: Path, width: int, **environment: str) -> None:
        self.master, self.slave = pty.openpty()
        self.resize(width)
        self.before = termios.tcgetattr(self.slave)
        self.text = ""
        self.process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=clean({"TERM": "xterm", **environment}),
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            start_new_session=True,
            # The terminal that controls it, as a shell's.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509  # no other thread runs here
        )

    def resize(self, width: int) -> None:
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))

    def read(self, until: str = "") -> str:
        """All that is shown until its end, or until a text is there."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            # Asked before: what it writes last is there once it has ended.
            ended = self.process.poll() is not None
            ready, _none, _nothing = select.select([self.master], [], [], 0.2)
            if ready:
                self.text += os.read(self.master, 65536).decode("utf-8", "replace")
            elif ended:
                return self.text
            if until and until in self.text:
                return self.text
        pytest.fail(f"not seen: {until or 'the end'}\n{self.text}", pytrace=False)

    def interrupt(self) -> None:
        """Ctrl-C."""
        os.write(self.master, b"\x03")

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)


def clean(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of this process with these variables, and nothing that changes how a screen is drawn."""
    return {**{name: value for name, value in os.environ.items() if name not in UNSET}, **environment}


def kept(text: str) -> list[str]:
    """The lines that stay on a screen: rows that were wiped are not among them, nor are colours."""
    lines = [line.rsplit("\x1b[J", 1)[-1] for line in text.replace("\r\n", "\n").split("\n")]
    return [shown for line in lines if (shown := ANSI.sub("", line).rstrip())]
