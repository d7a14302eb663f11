# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the nodes of a launch are asked (stacks.py): by files on shared storage, which the conductor alone looks at, and
by its words to the nodes (teller.py). A node that does not hear them looks itself. Standard library only.
"""

from __future__ import annotations

import os
import socket
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: HOST:PORT of the conductor, for the samplers of nodes without a collector.
VARIABLE = "RANKZERO_ASKED_AT"
# Seconds between two looks, and until the conductor has said its first word.
EVERY, FIRST_SECONDS = 2, 10.0
# A word is shorter.
MOST_BYTES = 4096
# Seconds without a new line in the job's log until a node looks by itself; after that, each time they have doubled.
QUIET = 60


class Asked:
    """Whether somebody wants to know, by the files of an attempt on shared storage."""

    def __init__(self, environ: Mapping[str, str], clock: Callable[[], float] = time.time) -> None:
        run, attempt = environ["RANKZERO_RUN_DIR"], environ["RANKZERO_ATTEMPT"]
        self.folder, self.clock = os.path.join(run, "stacks", attempt), clock
        # The log that a wait follows (rank.sh), its size, since when it has that, and when to look next.
        self.log = os.path.join(environ.get("RANKZERO_LOGS") or os.path.join(run, "logs", attempt), ".live")
        self.size, self.since = -1, self.clock()
        self.next: float = QUIET
        self.looks = 0

    def word(self) -> str:
        """How often the log has been silent for long, and the newest request. Another word asks for a look."""
        self.looks += self.quiet(self.clock())
        return f"{self.looks} {self.request()}"

    def quiet(self, now: float) -> bool:
        """Whether the job's log has not grown for so long that the node looks."""
        try:
            size = os.stat(self.log).st_size
        except OSError:
            return False
        if size != self.size:
            self.size, self.since, self.next = size, now, QUIET
        if now - self.since < self.next:
            return False
        self.next = 2 * (now - self.since)
        return True

    def request(self) -> str:
        """The id of the newest request; "" if there is none."""
        return word_in(os.path.join(self.folder, "request"))


def word_in(path: str) -> str:
    """The word that a file holds; "" if there is none."""
    try:
        with open(path, encoding="ascii") as stream:
            return stream.read(96).strip()
    except (OSError, ValueError):
        return ""


class Hearer:
    """The newest word. Where the conductor cannot be reached, or has gone, the node looks itself: `look`."""

    def __init__(self, place: str, look: Callable[[], str]) -> None:
        """`place`: HOST:PORT, empty where nobody tells."""
        self.look, self.word, self.rest = look, "", b""
        self.line: socket.socket | None = None
        host, _colon, port = place.rpartition(":")
        if not host:
            return
        try:
            self.line = socket.create_connection((host, int(port)), FIRST_SECONDS)
            while not self.word:
                self._read(self.line)
            self.line.setblocking(False)
        except (OSError, ValueError):
            self._close()

    def __call__(self) -> str:
        while self.line is not None:
            try:
                self._read(self.line)
            except BlockingIOError:
                return self.word
            except OSError:
                self._close()
        return self.look()

    def _read(self, line: socket.socket) -> None:
        """Take in what has come. Raises OSError where nothing has, and where nobody is there any more."""
        data = line.recv(MOST_BYTES)
        if not data:
            raise ConnectionResetError
        *lines, self.rest = (self.rest + data).split(b"\n")
        if len(self.rest) > MOST_BYTES:
            raise ConnectionResetError
        if lines:
            self.word = lines[-1].decode("ascii", "replace")

    def _close(self) -> None:
        if self.line is not None:
            self.line.close()
        self.line = None
