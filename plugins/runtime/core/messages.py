# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages about the job, where it is to send them itself (notify, from_job). Imported only then. Standard library
only.
"""

from __future__ import annotations

import os

from core import processes
from core.state import Job

# A job does not wait longer for its messages: the receivers that were not told are left to others.
SECONDS = 30


_senders: list[int] = []


def send(job: Job, event: str) -> None:
    """Begin to send the messages about an event, `started` or `ended`, in a process of their own."""
    program = os.path.join(job.runtime, "end", "notify.py")
    _senders.append(processes.start([job.python, "-I", program, job.run_dir, event], job.env))


def send_and_wait(job: Job, event: str) -> None:
    """Send the messages about an event, and those that are still being sent, before the script goes on."""
    send(job, event)
    until = processes.after(SECONDS)
    while any(map(processes.runs, _senders)) and not processes.due(until):
        processes.pause(0.05)
    for sender in _senders:
        processes.kill(sender)
        processes.wait(sender, 2)
    _senders.clear()
