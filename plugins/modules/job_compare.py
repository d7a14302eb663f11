#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: job_compare
short_description: Compare the results of launches
version_added: 0.1.0
author: []
description:
  - Shows the numbers in the artifacts of launches that have succeeded, side by side, with speed-up and efficiency
    against the first launch. Speed-up is the time of the first launch divided by the time of this one. Efficiency is
    the speed-up divided by the growth of the number of ranks.
  - Changes nothing.
extends_documentation_fragment:
  - rankzero.slurm.store.state
  - rankzero.slurm.attributes.looks
options:
  launches:
    description:
      - The launches to compare, each a job id, C(NAME), C(NAME/KEY), C(NAME/KEY/GENERATION) or a run directory. A name
        is its newest launch.
      - A single name selects the newest generation of each of its keys, in the order in which they were submitted.
    type: list
    elements: str
    required: true
  time:
    description:
      - The number in the artifacts that is the time to compare, or V(wall_time) for the time of the whole job.
      - Default is the first of V(seconds_per_epoch), V(seconds_per_step) and V(wall_time) that all launches have.
    type: str
seealso:
  - module: rankzero.slurm.job_info
  - module: rankzero.slurm.job_sweep_info
"""

EXAMPLES = r"""
- name: Compare an epoch on 3 and on 5 nodes
  rankzero.slurm.job_compare:
    launches: ["1234", "1240"]
    time: seconds_per_epoch

- name: Compare all launches of a job spec that differ in their settings
  rankzero.slurm.job_compare:
    launches: [gpt-small]
    state_root: /shared/rankzero/state
"""

RETURN = r"""
launches:
  description: The launches in the order of the comparison.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the job spec.
      type: str
    key:
      description: The first 16 digits of the launch key.
      type: str
    generation:
      description: Number of the submission under the key.
      type: int
    job_id:
      description: The Slurm job.
      type: str
    run_dir:
      description: The run directory on the cluster.
      type: str
    nodes:
      description: Number of its nodes.
      type: int
    ranks:
      description: Number of its ranks; null if it is not recorded.
      type: int
    wall_time:
      description: Seconds that the newest attempt took.
      type: float
    scalars:
      description: The numbers in its artifact.
      type: dict
    seconds:
      description: The time that is compared.
      type: float
    speed_up:
      description: Time of the first launch divided by the time of this one; null if a time is unknown.
      type: float
    efficiency:
      description: Speed-up divided by the growth of the number of ranks.
      type: float
    code_changes:
      description:
        - The changed lines of code against the first launch, as lines of a unified diff without secrets, at most 60 and
          for the first four launches that follow. Empty if the code is the same.
      type: list
      elements: str
time:
  description: Name of the time that is compared.
  returned: success
  type: str
lines:
  description: The comparison as aligned lines for people, with a column for each launch.
  returned: success
  type: list
  elements: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.report.comparison import ARGUMENTS, compare
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm


def logic(module: AnsibleModule) -> dict[str, Any]:
    slurm = Slurm()
    return {"changed": False, **compare(slurm, module.params), "warnings": slurm.notes}


def main() -> None:
    run_module(ARGUMENTS, logic, supports_check_mode=True)


if __name__ == "__main__":
    main()
