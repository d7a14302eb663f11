# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run another program to its end: the one way of the controller, the login node and the programs on the nodes.

Each is bounded in time and in what is kept of its output, reads nothing of this process's input, and gets the variables
that it is given. The conductor's children are in its processes.py. The job runtime uses this file as well.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence

# Bytes that are kept: the first of the output, which may list a million files, and the last of the messages.
MOST_OUTPUT, MOST_MESSAGES = 256 << 20, 8 << 20
# For a Python that is only started, perhaps from a file system that is busy, and for a tool of the node that answers.
START_SECONDS = 120.0
# For work that the job's own time limit ends: unpacking, installing, the imports of a thousand nodes at once. No build
# takes longer.
WORK_SECONDS = 24 * 3600.0
KILL_SECONDS = 2.0
# A pipe that can be written to takes this many bytes at once.
_PIPE = 4096


class Ended:
    """How a program ended: its exit code, or the negative number of a signal, and the bytes that it printed."""

    def __init__(self, returncode: int, out: bytes, err: bytes) -> None:
        self.returncode, self.out, self.err = returncode, out, err

    @property
    def stdout(self) -> str:
        """Its output as text, with the ends of lines as \\n; what is not UTF-8 is replaced."""
        return _text(self.out)

    @property
    def stderr(self) -> str:
        """Its messages as text, as `stdout`."""
        return _text(self.err)

    @property
    def complaint(self) -> str:
        """The last line of its messages, else its exit code; empty after a success."""
        lines = self.stderr.strip().splitlines() or [f"exit code {self.returncode}"]
        return lines[-1] if self.returncode else ""


class TooLate(TimeoutError):
    """A program had not ended in time, and was killed. `out`, `err`: what it had printed."""

    def __init__(self, program: str, seconds: float, out: bytes, err: bytes) -> None:
        super().__init__(errno.ETIMEDOUT, f"it had not ended after {seconds:g} s and was killed", program)
        self.out, self.err = out, err


def run(
    words: Sequence[str],
    environment: Mapping[str, str],
    seconds: float,
    *,
    stdin: bytes = b"",
    cwd: str | None = None,
    joined: bool = False,
    group: bool = True,
    most: int | None = None,
) -> Ended:
    """Run a program to its end. Raises OSError if it cannot be started; TooLate, which is one, if it takes longer.

    With `group` it gets a process group of its own, which is killed after that time. Without, it belongs to the group
    of this process, so it ends with the connection. `joined`: its messages are in `out`. `most`: bytes of its output
    that are kept.
    """
    until = time.monotonic() + seconds
    out, err = bytearray(), bytearray()
    # pylint: disable-next=ansible-bad-function
    process = subprocess.Popen(
        list(words),
        stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if joined else subprocess.PIPE,
        env=dict(environment),
        cwd=cwd,
        start_new_session=group,
    )
    try:
        if _exchange(process, stdin, (out, err), until, MOST_OUTPUT if most is None else most):
            return Ended(process.wait(max(0.0, until - time.monotonic())), bytes(out), bytes(err))
    except subprocess.TimeoutExpired:
        pass  # it has closed its output, and goes on
    finally:
        _close(process, group=group)
    raise TooLate(words[0], seconds, bytes(out), bytes(err))


def _exchange(
    process: subprocess.Popen[bytes], stdin: bytes, printed: tuple[bytearray, bytearray], until: float, most: int
) -> bool:
    """Write its input and read all output; False where there may be more at the time `until`."""
    rest = memoryview(stdin)
    with selectors.DefaultSelector() as waiting:
        for stream, place in zip((process.stdout, process.stderr), printed):
            if stream:
                waiting.register(stream, selectors.EVENT_READ, place)
        if process.stdin:
            waiting.register(process.stdin, selectors.EVENT_WRITE)
        while waiting.get_map():
            left = until - time.monotonic()
            if left <= 0:
                return False
            for key, events in waiting.select(left):
                if events & selectors.EVENT_WRITE:
                    rest = rest[_written(key.fd, rest) :]
                    if not rest and process.stdin:
                        waiting.unregister(process.stdin)
                        process.stdin.close()
                    continue
                part = os.read(key.fd, 1 << 16)
                if not part:
                    waiting.unregister(key.fileobj)
                key.data.extend(part)
            del printed[0][most:], printed[1][:-MOST_MESSAGES]
    return True


def _written(descriptor: int, content: memoryview) -> int:
    """The number of bytes that a pipe has taken; all of them where nobody reads it any more."""
    try:
        return os.write(descriptor, content[:_PIPE])
    except BrokenPipeError:
        return len(content)


def _close(process: subprocess.Popen[bytes], *, group: bool) -> None:
    """End what has not ended. One that hangs in the kernel, as on a broken GPU, is not waited for."""
    if process.poll() is None:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL) if group else process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(KILL_SECONDS)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream:
            stream.close()


def _text(content: bytes) -> str:
    return io.StringIO(content.decode("utf-8", "replace"), newline=None).getvalue()
