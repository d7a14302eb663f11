# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a command and record when it did what. Times are in seconds; `at` fields are epoch seconds of this machine."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

JOB_ID = re.compile(r"\bjob (\d+)\b")
TASKS = re.compile(r"^\S+ +: ok=(\d+) +changed=\d+ +unreachable=\d+ +failed=(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Command:
    """A command to start: argv, working directory, and its complete environment."""

    argv: Sequence[str]
    cwd: Path
    environment: Mapping[str, str]


@dataclass
class Run:
    """A running or finished command."""

    process: subprocess.Popen[str]
    began: float
    id_at: float | None = None
    ended_at: float | None = None
    job_id: str | None = None
    cpu: float = 0.0  # seconds of CPU time, of the command and of its children
    output: list[str] = field(default_factory=list)
    reader: threading.Thread | None = None

    @property
    def to_id(self) -> float | None:
        """Seconds from the start of the command until it had printed the id of its job."""
        return None if self.id_at is None else self.id_at - self.began

    @property
    def to_end(self) -> float:
        """Seconds from the start of the command to its end."""
        assert self.ended_at is not None
        return self.ended_at - self.began

    @property
    def text(self) -> str:
        return "".join(self.output)

    @property
    def tasks(self) -> int | None:
        """The number of tasks that ran, from ansible-playbook's recap; None for other commands."""
        recap = TASKS.search(self.text)
        return int(recap[1]) + int(recap[2]) if recap else None

    def finish(self, timeout: float = 300) -> Run:
        """Wait for the end. Raises RuntimeError with the command's output if it failed or hung."""
        assert self.reader is not None
        self.reader.join(timeout)
        if self.reader.is_alive():
            kill_tree(self.process.pid)
            self.reader.join()
            raise RuntimeError(f"{self.process.args!r} did not end within {timeout:g} s:\n{self.text}")
        if self.process.returncode != 0:
            raise RuntimeError(f"{self.process.args!r} ended with {self.process.returncode}:\n{self.text}")
        return self

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            match = JOB_ID.search(line)
            if match and self.id_at is None:
                self.id_at, self.job_id = time.time(), match[1]
            self.output.append(line)
        _pid, status, usage = os.wait4(self.process.pid, 0)
        self.ended_at = time.time()
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.cpu = usage.ru_utime + usage.ru_stime


def start(command: Command) -> Run:
    """Start the command without a terminal."""
    began = time.time()
    process = subprocess.Popen(
        list(command.argv),
        cwd=command.cwd,
        env=dict(command.environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    run = Run(process, began)
    run.reader = threading.Thread(target=run._read, daemon=True)
    run.reader.start()
    return run


def kill_tree(pid: int) -> None:
    """SIGKILL a process and its descendants, which are collected first: a child of a dead parent cannot be traced."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                parent = int(Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry))
    doomed = [pid]
    for process in doomed:
        doomed.extend(children.get(process, []))
    for process in doomed:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def busy_share(seconds: float = 0.4) -> float:
    """Share of this machine's CPU time that was in use during the next `seconds`."""
    before = _cpu_times()
    time.sleep(seconds)
    total, idle = (after - first for after, first in zip(_cpu_times(), before))
    return 1 - idle / total if total else 0.0


def _cpu_times() -> tuple[int, int]:
    values = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(values), values[3] + values[4]
