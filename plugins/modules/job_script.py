#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: job_script
short_description: Render the batch script of a job without submitting it
version_added: 0.1.0
author: []
description:
  - Renders the same script as M(rankzero.slurm.job) and returns it. With O(path) the script is also written on the
    host.
  - The script cannot run without its run directory and the job runtime on the cluster. Use it for reading, comparing
    and review.
extends_documentation_fragment:
  - rankzero.slurm.job_spec
  - rankzero.slurm.attributes
attributes:
  diff_mode:
    support: full
options:
  generation:
    description: The generation to render for.
    type: int
    default: 1
  path:
    description: File on the host to write the script to. Its folder must exist.
    type: path
  x_script:
    description: Internal. Set by the action plugin of this module; a task cannot set it.
    type: str
"""

EXAMPLES = r"""
- name: See the script of a job
  rankzero.slurm.job_script:
    job: jobs/gpt.yml
    overrides:
      nodes: 8
  register: rendered

- name: Keep the script beside the job, and fail the review when it changes
  rankzero.slurm.job_script:
    job: jobs/gpt.yml
    path: /project/ml/review/gpt.sbatch
  check_mode: true
  diff: true
"""

RETURN = r"""
name:
  description: The job's name.
  returned: always
  type: str
key:
  description: The launch key.
  returned: always
  type: str
generation:
  description: The generation of the rendered script.
  returned: always
  type: int
script:
  description: The batch script.
  returned: always
  type: str
launch:
  description: The manifest (launch.json) as JSON text.
  returned: always
  type: str
plan:
  description: The plan in a few lines.
  returned: always
  type: list
  elements: str
explain:
  description: What explains the plan further, in lines. The code, what is taken from where, each variable of the ranks.
  returned: always
  type: list
  elements: str
world_size:
  description: Number of ranks.
  returned: always
  type: int
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import JOB_SCRIPT
from ansible_collections.rankzero.slurm.plugins.module_utils.store.publish import write_text


def logic(module: AnsibleModule) -> dict[str, Any]:
    return write_text(module.params["path"], module.params["x_script"], check_mode=module.check_mode)


def main() -> None:
    run_module(JOB_SCRIPT, logic, supports_check_mode=True)


if __name__ == "__main__":
    main()
