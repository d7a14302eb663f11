# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run another program to its end: the one way of the controller and the login node.

Each is bounded in time and in what is kept of its output, reads nothing of this process's input, and is told only the
variables that it is given.
"""

from __future__ import annotations

import contextlib
import io
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import MOST_BYTES, MOST_LIST_BYTES

# No build takes longer.
MOST_SECONDS = 24 * 3600


@dataclass(frozen=True)
class Ended:
    """How a program ended: its exit code, or the negative number of a signal, and what it printed."""

    returncode: int
    out: bytes
    err: bytes

    @property
    def stdout(self) -> str:
        """Its output as text, with the ends of lines as \\n; what is not UTF-8 is replaced."""
        return _text(self.out)

    @property
    def stderr(self) -> str:
        """Its messages as text, as `stdout`."""
        return _text(self.err)


class Late(RankzeroError):
    """A program had not ended in time, and was killed. `out`, `err`: what it had printed."""

    def __init__(self, program: str, seconds: float, out: bytes, err: bytes) -> None:
        super().__init__(f"{program} had not ended after {seconds:g} s and was killed. Run again.")
        self.out, self.err = out, err


def run(
    words: Sequence[str],
    environment: Mapping[str, str],
    *,
    seconds: float | None = None,
    stdin: bytes = b"",
    cwd: str | None = None,
    joined: bool = False,
) -> Ended:
    """Run a program to its end. Raises OSError if it cannot be started, and Late.

    With `seconds`, it gets a process group of its own, which is killed after that time. Without, it belongs to the
    group of this process, so it ends with the connection, and after a day. `joined`: its messages are in `out`.
    Of the output the first 256 MiB are kept, and of the messages the last 8 MiB.
    """
    most = MOST_SECONDS if seconds is None else seconds
    until = time.monotonic() + most
    printed = (bytearray(), bytearray())
    with contextlib.ExitStack() as stack:
        process = stack.enter_context(
            subprocess.Popen(
                list(words),
                stdin=stack.enter_context(_file(stdin)) if stdin else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if joined else subprocess.PIPE,
                env=dict(environment),
                cwd=cwd,
                start_new_session=seconds is not None,
            )
        )
        try:
            if _read(process, printed, until):
                return Ended(process.wait(max(0.0, until - time.monotonic())), bytes(printed[0]), bytes(printed[1]))
        except subprocess.TimeoutExpired:
            pass  # it has closed its output, and goes on
        finally:
            _kill(process, group=seconds is not None)
    raise Late(words[0], most, bytes(printed[0]), bytes(printed[1]))


def _read(process: subprocess.Popen[bytes], printed: tuple[bytearray, bytearray], until: float) -> bool:
    """Read all output; False where there may be more at the time `until`."""
    places = {stream.fileno(): place for stream, place in zip((process.stdout, process.stderr), printed) if stream}
    with selectors.DefaultSelector() as waiting:
        for number in places:
            waiting.register(number, selectors.EVENT_READ)
        while waiting.get_map():
            left = until - time.monotonic()
            if left <= 0:
                return False
            for key, _events in waiting.select(left):
                part = os.read(key.fd, 1 << 16)
                if not part:
                    waiting.unregister(key.fd)
                places[key.fd].extend(part)
            del printed[0][MOST_LIST_BYTES:], printed[1][:-MOST_BYTES]
    return True


def _kill(process: subprocess.Popen[bytes], *, group: bool) -> None:
    """End what has not ended. Once it is waited for, its number may be another's."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL) if group else process.kill()


@contextlib.contextmanager
def _file(content: bytes) -> Iterator[IO[bytes]]:
    """A file without a name, for a program that reads its input."""
    import tempfile

    with tempfile.TemporaryFile() as stream:
        stream.write(content)
        stream.seek(0)
        yield stream


def _text(content: bytes) -> str:
    return io.StringIO(content.decode("utf-8", "replace"), newline=None).getvalue()
