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
      - When they are over, the result has the same shape with RV(completed=false) and the task does not fail. The job
        goes on, and the same task attaches to it again.
    type: int
    default: 0
  poll_min:
    description: Seconds between the first polls.
    type: float
    default: 0.5
  poll_max:
    description:
      - Most seconds between two questions to Slurm. They grow from O(poll_min).
      - What the job itself writes is looked at about every second while it runs, which costs Slurm nothing.
    type: float
    default: 10.0
  outcome_grace:
    description:
      - Seconds that the outcome of an ended job may take to become visible on this host. Network file systems remember
        for a while that a file was missing.
    type: int
    default: 40
  reconnect_timeout:
    description:
      - Seconds during which a lost connection to the host is tried again, ever more slowly. After that the task fails
        and says how to attach to the job again.
      - It fails at once, without another try, where the host asks for a login that nobody answers here. A second factor
        is asked for once, by the person who opens the connection, and never by a wait.
    type: int
    default: 120
  queue_budget:
    description:
      - Most questions to Slurm in a minute from this host by this user, all waits together; V(0) is no limit. Where
        they are used up, waits go on by what the jobs write, and ask again when the minute is over.
    type: int
    default: 60
"""
