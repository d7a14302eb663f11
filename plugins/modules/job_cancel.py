#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: job_cancel
short_description: Cancel the active jobs of recorded launches
version_added: 0.1.0
author: []
description:
  - Cancels the active job of the launch selected by O(run_dir), O(job_id), or O(name) with O(key) and O(generation).
    The job file is not needed. To cancel what a job file describes, use O(rankzero.slurm.job#module:state=absent).
  - Launches that have ended are left unchanged, and so are jobs that were cancelled before and are about to end. A
    launch that is not recorded is an error.
  - Of a launch inside another job (C(launcher.inside_job)), only its own steps end.
extends_documentation_fragment:
  - rankzero.slurm.store.run
  - rankzero.slurm.store.state
  - rankzero.slurm.attributes
attributes:
  diff_mode:
    support: none
options:
  all:
    description:
      - Cancel all active launches that are selected, although they belong to several jobs. By default that is an error.
      - The active elements of one submission of a sweep are one job.
    type: bool
    default: false
seealso:
  - module: rankzero.slurm.job
  - module: rankzero.slurm.job_info
"""

EXAMPLES = r"""
- name: Cancel the active launch of this name
  rankzero.slurm.job_cancel:
    name: gpt-small
    state_root: /shared/rankzero/state

- name: Cancel the launch of one Slurm job
  rankzero.slurm.job_cancel:
    job_id: "1234"
"""

RETURN = r"""
cancelled:
  description: The launches whose jobs were cancelled, in check mode those that would be.
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
      description: The Slurm job, or the step inside another job.
      type: str
    run_dir:
      description: The run directory on the cluster.
      type: str
    standing:
      description: What had become of it before, in the words of M(rankzero.slurm.job_info).
      type: str
unchanged:
  description: The selected launches that have ended or are about to end after a cancellation, each as in RV(cancelled).
  returned: success
  type: list
  elements: dict
lines:
  description: The same for people, one line for each launch.
  returned: success
  type: list
  elements: str
slurm_commands:
  description: Number of Slurm commands run.
  returned: success
  type: int
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import RUN_ARGUMENTS
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.cancel import cancel

ARGUMENT_SPEC = {**RUN_ARGUMENTS, "all": {"type": "bool", "default": False}}


def logic(module: AnsibleModule) -> dict[str, Any]:
    slurm = Slurm()
    return {**cancel(slurm, module.params, check_mode=module.check_mode), "warnings": slurm.notes}


def main() -> None:
    run_module(ARGUMENT_SPEC, logic, supports_check_mode=True)


if __name__ == "__main__":
    main()
