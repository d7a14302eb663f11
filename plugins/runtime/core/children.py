# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run another program to its end: the one way of the programs on the nodes. The conductor's are in processes.py.

Each is bounded in time and in what is kept of its output, reads nothing of this process's input, and gets the variables
that it is given. Standard library only.
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import signal
import subprocess
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Bytes that are kept: the first of the output, which may list a million files, and the last of the messages.
MOST_BYTES, MOST_MESSAGE_BYTES = 256 << 20, 1 << 20
# For a Python that is only started, perhaps from a file system that is busy, and for a tool of the node that answers.
START_SECONDS = 120.0
# For work that the job's own time limit ends: unpacking, installing, the imports of a thousand nodes at once.
WORK_SECONDS = 24 * 3600.0
KILL_SECONDS = 2.0


class Ended:
    """How a program ended: its exit code, or the negative number of a signal, and the bytes that it printed."""

    def __init__(self, returncode: int, out: bytes, err: bytes) -> None:
        self.returncode, self.out, self.err = returncode, out, err

    @property
    def stdout(self) -> str:
        return self.out.decode("utf-8", "replace").strip()

    @property
    def stderr(self) -> str:
        return self.err.decode("utf-8", "replace").strip()

    @property
    def complaint(self) -> str:
        """The last line of its messages, else its exit code; empty after a success."""
        lines = self.stderr.splitlines() or [f"exit code {self.returncode}"]
        return lines[-1] if self.returncode else ""


def run(
    words: Sequence[str],
    environment: Mapping[str, str],
    seconds: float,
    *,
    stdin: bytes = b"",
    cwd: str | None = None,
) -> Ended:
    """Run a program to its end. Raises OSError if it cannot be started; TimeoutError, which is one, if it takes longer.

    It gets a process group of its own, which is killed after that time. `stdin`: at most 64 KiB, as a pipe takes them.
    """
    until = time.monotonic() + seconds
    process = subprocess.Popen(
        list(words),
        stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(environment),
        cwd=cwd,
        start_new_session=True,
    )
    try:
        if process.stdin:
            with contextlib.suppress(BrokenPipeError), process.stdin as stream:
                stream.write(stdin)
        out, err = _read(process, until)
        return Ended(process.wait(max(0.0, until - time.monotonic())), out, err)
    except (TimeoutError, subprocess.TimeoutExpired):
        message = f"it had not ended after {seconds:g} s and was killed"
        raise TimeoutError(errno.ETIMEDOUT, message, words[0]) from None
    finally:
        _close(process)


def _read(process: subprocess.Popen[bytes], until: float) -> tuple[bytes, bytes]:
    """What it prints, until it has closed both. Raises TimeoutError."""
    out, err = bytearray(), bytearray()
    with selectors.DefaultSelector() as waiting:
        for stream, printed in ((process.stdout, out), (process.stderr, err)):
            if stream:
                waiting.register(stream, selectors.EVENT_READ, printed)
        while waiting.get_map():
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError
            for key, _events in waiting.select(left):
                part = os.read(key.fd, 1 << 16)
                if not part:
                    waiting.unregister(key.fileobj)
                key.data.extend(part)
            del out[MOST_BYTES:], err[:-MOST_MESSAGE_BYTES]
    return bytes(out), bytes(err)


def _close(process: subprocess.Popen[bytes]) -> None:
    """End what has not ended. One that hangs in the kernel, as on a broken GPU, is not waited for."""
    if process.poll() is None:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(KILL_SECONDS)
    for stream in (process.stdout, process.stderr):
        if stream:
            stream.close()
