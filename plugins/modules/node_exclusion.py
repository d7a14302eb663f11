#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_exclusion
short_description: Leave nodes out of the next launches, or use them again
version_added: 0.1.0
author:
  - The rankzero.slurm authors (!UNKNOWN)
description:
  - A job whose preflight finds a node not to be fit has the next launches of the cluster leave that node out for a
    while (C(preflight.exclude_for) of the job spec). This module forgets such nodes, or adds one.
  - M(rankzero.slurm.cluster_info) lists them. Nothing is changed in Slurm. Other users, and other values of
    O(state_root), are not affected.
extends_documentation_fragment:
  - rankzero.slurm.attributes
  - rankzero.slurm.attributes.actiongroup_slurm
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
options:
  nodes:
    description:
      - The nodes, as names or host lists such as V(node[07-09]).
      - Without any, O(state=absent) forgets all of them.
    type: list
    elements: str
  state:
    description: V(present) leaves them out, V(absent) uses them again.
    type: str
    choices: [present, absent]
    default: present
  reason:
    description: Why they are left out. People see it whenever a launch does so. Required with O(state=present).
    type: str
  exclude_for:
    description: For how many seconds, at most a year (31536000).
    type: int
    default: 86400
  state_root:
    description: Folder on the cluster that the launches' C(state_root) names.
    type: path
    default: ~/.rankzero/state
seealso:
  - module: rankzero.slurm.cluster_info
  - module: rankzero.slurm.job
"""

EXAMPLES = r"""
- name: Use a node again that was repaired
  rankzero.slurm.node_exclusion:
    nodes: [node07]
    state: absent

- name: Use all nodes again
  rankzero.slurm.node_exclusion:
    state: absent

- name: Leave two nodes out for an hour
  rankzero.slurm.node_exclusion:
    nodes: ["node[08-09]"]
    reason: their switch is being replaced
    exclude_for: 3600
"""

RETURN = r"""
cluster:
  description: The cluster's name.
  returned: success
  type: str
  sample: lab
exclusions:
  description: The nodes that launches leave out now.
  returned: success
  type: list
  elements: dict
  contains:
    node:
      description: Its name.
      type: str
    reason:
      description: Why.
      type: str
    job_id:
      description: The job whose preflight found it; empty where a person said so.
      type: str
    time:
      description: Since when, in seconds since 1970.
      type: float
    expires:
      description: Till when, in seconds since 1970.
      type: float
slurm_commands:
  description: Number of Slurm commands run.
  returned: success
  type: int
"""

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import DEFAULT_STATE_ROOT
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.excluded_nodes import change

ARGUMENT_SPEC = {
    "nodes": {"type": "list", "elements": "str"},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "reason": {"type": "str"},
    "exclude_for": {"type": "int", "default": 86400},
    "state_root": {"type": "path", "default": DEFAULT_STATE_ROOT},
}


def logic(module: AnsibleModule) -> dict[str, Any]:
    slurm = Slurm()
    result = change(slurm, module.params, time.time(), module.check_mode)
    return {**result, "slurm_commands": slurm.commands}


def main() -> None:
    required = [("state", "present", ("nodes", "reason"))]
    run_module(ARGUMENT_SPEC, logic, supports_check_mode=True, required_if=required)


if __name__ == "__main__":
    main()
