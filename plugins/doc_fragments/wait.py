# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of everything that waits for a launch."""

from __future__ import annotations


class ModuleDocFragment:
    """Read by Ansible's documentation loader: one class attribute is one fragment."""

    DOCUMENTATION = r"""
options:
  wait_timeout:
    description:
      - Seconds to wait; V(0) waits as long as the job takes.
      - After that time the result has the same structure with RV(completed=false), and the task does not fail. The
        job continues. Run the same task to attach to it again.
    type: int
    default: 0
  poll_min:
    description: Seconds between the first polls.
    type: float
    default: 0.5
  poll_max:
    description:
      - Maximum seconds between two queries to Slurm. The interval grows from O(poll_min).
      - The files that the job writes are read every five seconds, after a minute every ten, and when the job has
        written its start or its outcome, at no cost to Slurm.
    type: float
    default: 10.0
  outcome_grace:
    description:
      - Seconds after the end of a job within which its outcome may become visible on this host. Network file systems
        cache for a while that a file was missing.
      - They count from the end that Slurm gives. A wait that sees the end later looks for the outcome for at least ten
        seconds.
      - If the run directory is on a disk of this host and the job has left nothing there, its nodes write to another
        folder. Then the wait ends after five seconds.
    type: int
    default: 40
  reconnect_timeout:
    description:
      - Seconds for which a lost connection to the host is retried, at growing intervals. After that the task fails
        and shows how to attach to the job again.
      - It fails at once, without a retry, if the host asks for an interactive login. A second factor is requested
        once, when a person opens the connection, and never by a wait.
    type: int
    default: 120
  queue_budget:
    description:
      - Maximum queries to Slurm per minute from this host by this user, over all waits; V(0) means no limit. When
        they are used up, waits rely on the files of the jobs, and query again when the minute is over.
    type: int
    default: 60
"""
