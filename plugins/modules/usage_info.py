#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: usage_info
short_description: Sum up what launches used
version_added: 0.1.0
author: []
description:
  - Sums up the node-hours, GPU-hours and energy of all launches in a state root, by user, account, month or name, and
    what they went to.
  - Nodes and times come from accounting, with one command for all launches, and without it from the run directories.
  - Launches that have ended are kept in an index in the state root, so that their logs are read only once. Of the logs
    of a launch, at most one MiB is read.
extends_documentation_fragment:
  - rankzero.slurm.store.state
  - rankzero.slurm.attributes
attributes:
  check_mode:
    details:
      - In check mode no file is written.
  diff_mode:
    support: partial
    details:
      - Shows the rows of O(dest) that change.
options:
  by:
    description:
      - What makes a row. V(month) is that in which a launch got its first nodes, in the time zone of the login node.
      - V(user) and V(account) are those of accounting; without it, the owner of the state root, and
        C(resources.account) of the job spec.
    type: list
    elements: str
    choices: [user, account, month, name]
    default: [user, account, month]
  name:
    description: Only launches with this name.
    type: str
  since:
    description: Only launches of this month and later ones, as C(2026-03).
    type: str
  until:
    description: Only launches of this month and earlier ones.
    type: str
  dest:
    description:
      - A file on the controller for the rows as CSV. It is replaced only if its content differs. No link that may have
        come with the code is followed.
    type: path
seealso:
  - module: rankzero.slurm.report_page
  - module: rankzero.slurm.job_info
"""

EXAMPLES = r"""
- name: Node-hours by account and month
  rankzero.slurm.usage_info:
    by: [account, month]
    since: 2026-01
  register: used

- name: Show them
  ansible.builtin.debug:
    msg: "{{ used.lines }}"
"""

RETURN = r"""
rows:
  description:
    - A row for each user, account, month or name, in their order. Besides these, each has C(launches),
      C(node_hours), C(gpu_hours), C(energy_kwh), C(queue_hours), C(estimated) (how many of the launches are not known
      to accounting), and the node-hours of each part of the ledger.
    - A value is null where no launch of the row tells it.
  returned: success
  type: list
  elements: dict
lines:
  description: The rows as aligned lines for people.
  returned: success
  type: list
  elements: str
csv:
  description: The rows as CSV.
  returned: success
  type: str
promised:
  description:
    - What all launches that wait or run may still use (nodes x time x attempts, without what they have used), as
      C(node_hours) and C(gpu_hours). Not limited by O(since) and O(until).
  returned: success
  type: dict
untrusted:
  description: Number of run directories that another user could have written. They count for nothing.
  returned: success
  type: int
slurm_commands:
  description: Number of Slurm commands run.
  returned: success
  type: int
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.sums import ACTION_ARGUMENTS, usage


def logic(module: AnsibleModule) -> dict[str, Any]:
    slurm = Slurm()
    return {"changed": False, **usage(slurm, module.params), "warnings": slurm.notes}


def main() -> None:
    run_module(ACTION_ARGUMENTS, logic, supports_check_mode=True)


if __name__ == "__main__":
    main()
