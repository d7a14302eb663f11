#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_report
short_description: Report slow nodes of a fabric sweep, and write the best settings
version_added: 0.1.0
author: []
description:
  - Reads the measurements of a sweep of M(rankzero.slurm.fabric_plan), shows bandwidth by size and by node, and reports
    nodes or pairs that are outliers, or that everything is slow. You can run it again with other thresholds.
  - Writes the settings with the best result to a C(group_vars) file on the controller, for review.
extends_documentation_fragment:
  - rankzero.slurm.attributes
attributes:
  diff_mode:
    support: full
options:
  run_dir:
    description: The run directory of the sweep, as M(rankzero.slurm.job) returns it.
    type: path
    required: true
  cluster:
    description: The result of M(rankzero.slurm.cluster_info), for suggestions.
    type: dict
    default: {}
  share:
    description:
      - A node below this share of the median is an outlier if it is one by O(mads) as well. Below half of this share
        it always is.
    type: float
    default: 0.7
  mads:
    description: A node more than this number of scaled median absolute deviations below the median is an outlier.
    type: float
    default: 4.0
  expected:
    description:
      - Bus bandwidth of a healthy node in GB/s (10^9 bytes per second). If the median is below O(share) of it,
        everything is slow. 0 means unknown.
    type: float
    default: 0.0
  dest:
    description: File on the controller to write the settings to. Its folder is created. By default nothing is written.
    type: path
  overwrite:
    description:
      - Replace a file at O(dest) even if it was not written by this module or was changed since. A backup is kept.
      - Otherwise the module fails and does not change such a file.
    type: bool
    default: false
seealso:
  - module: rankzero.slurm.fabric_plan
  - module: rankzero.slurm.fabric_info
  - module: rankzero.slurm.node_exclusion
"""

EXAMPLES = r"""
- name: Evaluate a sweep again, with a stricter threshold
  rankzero.slurm.fabric_report:
    run_dir: "{{ launch.run_dir }}"
    share: 0.9
    dest: group_vars/slurm_login/fabric.yml
"""

RETURN = r"""
verdict:
  description: V(fine), V(slow_nodes), V(slow_pairs), V(all_slow) or V(unknown) (too few nodes to compare).
  returned: success
  type: str
median:
  description: Median of the nodes' best pairs, bus bandwidth in bytes per second.
  returned: success
  type: float
nodes:
  description: Each node with C(name), C(best) and C(worst) pair in bytes per second, C(pairs) and whether it is
    C(slow).
  returned: success
  type: list
  elements: dict
slow_nodes:
  description: Names of the outliers.
  returned: success
  type: list
  elements: str
slow_pairs:
  description: Pairs that are slow although both of their nodes are fine with others.
  returned: success
  type: list
  elements: list
findings:
  description: The findings, a sentence each.
  returned: success
  type: list
  elements: str
method:
  description: The method of measurement.
  returned: success
  type: str
backend:
  description: V(nccl), V(gloo) or V(tcp).
  returned: success
  type: str
why:
  description: Why that method was used.
  returned: success
  type: str
job_id:
  description: The Slurm job of the sweep.
  returned: success
  type: str
measured_at:
  description: Time of the measurement, in seconds since 1970.
  returned: success
  type: int
candidates:
  description:
    - The settings compared, the current ones first, each with C(name), C(variables), C(interface) and C(median).
  returned: success
  type: list
  elements: dict
chosen:
  description: Name of the best candidate.
  returned: success
  type: str
variables:
  description:
    - The variables to set for it, each with C(value) and C(reason). Empty if the current settings are the best.
  returned: success
  type: dict
suggestions:
  description: What the cluster C(looks_like), C(fabrics) that fit with reasons, and what to check (C(look_at)).
  returned: success
  type: dict
reason:
  description: The reason to exclude the slow nodes.
  returned: success
  type: str
table:
  description: The report as a table.
  returned: success
  type: list
  elements: str
group_vars:
  description: The text of the file.
  returned: success
  type: str
dest:
  description: The file that was written.
  returned: when O(dest) is given
  type: str
backup:
  description: Path of the backup of the previous file.
  returned: when it was replaced with O(overwrite)
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.fabric.judge import GIGA, Rule
from ansible_collections.rankzero.slurm.plugins.module_utils.fabric.result import ACTION_ARGUMENTS, described


def logic(module: AnsibleModule) -> dict[str, Any]:
    asked = module.params
    rule = Rule(asked["share"], asked["mads"], asked["expected"] * GIGA)
    return {"changed": False, **described(asked["run_dir"], asked["cluster"], rule)}


def main() -> None:
    # What is done with the file is the business of the action plugin.
    run_module(ACTION_ARGUMENTS, logic, supports_check_mode=True)


if __name__ == "__main__":
    main()
