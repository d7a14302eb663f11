# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The samplers of a launch without collectors hear from the conductor what their nodes are asked (asked.py): each of
them would have to look at the shared storage all the time. A word is a line of text, and whoever connects is told the
same: it says nothing that is worth hiding, and nothing is read of a connection. Standard library only.
"""

from __future__ import annotations

import contextlib
import socket

from core import processes
from rank.asked import EVERY, VARIABLE, Asked
from start import rendezvous

TYPE_CHECKING = False
if TYPE_CHECKING:
    from core.state import Job

# So many connections for each node; strangers get no more. A node without one looks itself.
MOST = 4


class Teller:
    """The conductor's end."""

    def __init__(self, job: Job) -> None:
        self.asked = Asked(job.env)
        self.word, self.next = self.asked.word(), processes.after(EVERY)
        self.most = MOST * len(job.nodes)
        self.lines: list[socket.socket] = []
        both = socket.has_dualstack_ipv6()
        self.server = socket.create_server(
            ("", 0), family=socket.AF_INET6 if both else socket.AF_INET, backlog=self.most, dualstack_ipv6=both
        )
        self.server.setblocking(False)
        # The ranks meet on the first node of theirs, which may be another one.
        own = job.node == job.nodes[0]
        host = job.get("RANKZERO_MASTER_ADDR") if own else rendezvous.master_address(job, [job.node, *job.nodes])
        job.export(VARIABLE, f"{host}:{self.server.getsockname()[1]}")

    def tell_nodes(self, _job: Job) -> None:
        """Take in who has connected, and say to all what is new."""
        with contextlib.suppress(OSError):
            while len(self.lines) < self.most:
                line = self.server.accept()[0]
                line.setblocking(False)
                self.lines.append(line)
                self.send_word([line])
        if processes.due(self.next):
            self.next, word = processes.after(EVERY), self.asked.word()
            if word != self.word:
                self.word = word
                self.send_word(list(self.lines))

    def send_word(self, lines: list[socket.socket]) -> None:
        """A node that has gone, or does not read, is not told any more."""
        data = f"{self.word}\n".encode("ascii", "replace")
        for line in lines:
            try:
                heard = line.send(data) == len(data)
            except OSError:
                heard = False
            if not heard:
                line.close()
                self.lines.remove(line)

    def close(self) -> None:
        for line in (self.server, *self.lines):
            line.close()


def begin(job: Job) -> Teller | None:
    """Before the ranks start: where their nodes are sampled. Without it each node looks itself."""
    job.drop(VARIABLE)
    sampled = job.get("RANKZERO_MONITOR_HOST", "0") + job.get("RANKZERO_MONITOR_GPU", "0")
    if sampled == "00" or job.is_script or job.get("RANKZERO_LOG_PER"):
        return None
    try:
        made = Teller(job)
    except OSError:
        return None
    job.looks.append(made.tell_nodes)
    return made


def finish(job: Job, made: Teller | None) -> None:
    """Once the ranks have ended."""
    if made is not None:
        job.looks.remove(made.tell_nodes)
        made.close()
