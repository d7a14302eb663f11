#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_exclusion
short_description: Exclude nodes from the next launches, or use them again
version_added: 0.1.0
author: []
description:
  - If a job's preflight finds an unfit node, the next launches on the cluster exclude that node for some time
    (C(preflight.exclude_for) of the job spec). This module removes nodes from that list, or adds nodes to it.
  - M(rankzero.slurm.cluster_info) lists them. Nothing is changed in Slurm. Other users, and other values of
    O(state_root), are not affected.
extends_documentation_fragment:
  - rankzero.slurm.store.state
  - rankzero.slurm.attributes
attributes:
  diff_mode:
    support: full
options:
  nodes:
    description:
      - The nodes, as names or host lists such as V(node[07-09]).
      - Without any, O(state=absent) removes all of them.
    type: list
    elements: str
  state:
    description: V(present) excludes the nodes, V(absent) uses them again.
    type: str
    choices: [present, absent]
    default: present
  reason:
    description: Why the nodes are excluded. It is shown whenever a launch excludes them. Required with
      O(state=present).
    type: str
  exclude_for:
    description: Duration in seconds, at most a year (31536000).
    type: int
    default: 86400
seealso:
  - module: rankzero.slurm.cluster_info
  - module: rankzero.slurm.job
"""

EXAMPLES = r"""
- name: Use a repaired node again
  rankzero.slurm.node_exclusion:
    nodes: [node07]
    state: absent

- name: Use all nodes again
  rankzero.slurm.node_exclusion:
    state: absent

- name: Exclude two nodes for an hour
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
  description: The nodes that launches exclude now.
  returned: success
  type: list
  elements: dict
  contains:
    node:
      description: Its name.
      type: str
    reason:
      description: The reason.
      type: str
    job_id:
      description: The job whose preflight found it; empty if it was added by this module.
      type: str
    time:
      description: Start of the exclusion, in seconds since 1970.
      type: float
    expires:
      description: End of the exclusion, in seconds since 1970.
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
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import STATE_ARGUMENTS
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.excluded_nodes import change

ARGUMENT_SPEC = {
    "nodes": {"type": "list", "elements": "str"},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "reason": {"type": "str"},
    "exclude_for": {"type": "int", "default": 86400},
    **STATE_ARGUMENTS,
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
