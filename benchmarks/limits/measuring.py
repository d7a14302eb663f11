# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The largest memory of a command and its processes, and of the processes of the job runtime on the nodes."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

#: Runs a command as its only child, and prints the largest resident memory of any process that was waited for (kB).
_PARENT = """
import resource, subprocess, sys
with open(sys.argv[1], 'w') as output:
    code = subprocess.call(sys.argv[2:], stdin=subprocess.DEVNULL, stdout=output, stderr=output)
print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
#: A program of the job runtime on a command line, as its file.
_PROGRAM = re.compile(r"/runtime/[0-9a-f]{32}/((?:\w+/)?\w+\.(?:py|sh))")
LOOK_SECONDS = 0.1


def peak_of(argv: Sequence[str], folder: Path, environment: Mapping[str, str], output: Path) -> tuple[int, int]:
    """(exit code, MB) of a command; what it prints goes to a file."""
    done = subprocess.run(
        [sys.executable, "-c", _PARENT, str(output), *argv],
        cwd=folder,
        env=dict(environment),
        capture_output=True,
        text=True,
        check=True,
    )
    code, kilobytes = map(int, done.stdout.split())
    return code, kilobytes // 1024


class RuntimeMemory:
    """Looks at all processes of this machine, lab nodes included, until it is closed. `peaks`: program -> MB.

    The kernel keeps the largest resident memory of a process (VmHWM), so only processes of a moment are missed.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self.peaks: dict[str, int] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> RuntimeMemory:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            for number in filter(str.isdigit, os.listdir("/proc")):
                with contextlib.suppress(OSError, ValueError, StopIteration):
                    words = Path("/proc", number, "cmdline").read_bytes().decode(errors="replace")
                    program = _PROGRAM.search(words)
                    if program and self.root in words:
                        lines = Path("/proc", number, "status").read_text().splitlines()
                        peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) // 1024
                        self.peaks[program[1]] = max(peak, self.peaks.get(program[1], 0))
