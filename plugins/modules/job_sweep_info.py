#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: job_sweep_info
short_description: Report the results of a sweep and its best element
version_added: 0.1.0
author: []
description:
  - Reports every element of a sweep with its values, state and artifact, and the best element by a number in the
    artifact. Shows a table, and writes C(results.csv) and C(results.json) on the controller.
  - With O(wait) it waits until no element is active any more. Each poll is one query to Slurm, however many elements
    there are. Ending the wait does not affect the sweep; run the same task to attach again.
  - Does not fail if elements failed; see RV(success).
extends_documentation_fragment:
  - rankzero.slurm.store.state
  - rankzero.slurm.attributes
attributes:
  check_mode:
    details:
      - Changes nothing on the cluster in any mode. Under check mode it does not wait, and writes no file here.
  diff_mode:
    support: none
options:
  sweep_dir:
    description:
      - The sweep's folder on the cluster, as M(rankzero.slurm.job_sweep) returns it.
    type: path
  name:
    description:
      - Name of the job, instead of O(sweep_dir). If there are several sweeps, the newest one is used.
    type: str
  key:
    description:
      - With O(name), the key of the sweep or its beginning.
    type: str
  metric:
    description:
      - The number in the artifact to compare, instead of C(sweep.metric). Dots separate levels.
    type: str
  goal:
    description:
      - Whether the best element has the smallest or the largest metric, instead of C(sweep.goal).
    type: str
    choices: [min, max]
  wait:
    description:
      - Wait until no element is active.
    type: bool
    default: false
  wait_timeout:
    description:
      - Seconds to wait; V(0) waits as long as it takes. The sweep continues when the wait ends.
    type: int
    default: 0
  poll_max:
    description:
      - Maximum seconds between two polls. The first polls are closer together.
    type: float
    default: 15.0
  reconnect_timeout:
    description:
      - Seconds for which a lost connection is retried while the task waits, as for M(rankzero.slurm.job_wait).
    type: int
    default: 120
  dest:
    description:
      - Folder on the controller for the files, which are written to NAME/sweep-KEY in it. If not set, no files are
        written.
    type: path
seealso:
  - module: rankzero.slurm.job_sweep
"""

EXAMPLES = r"""
- name: The newest sweep of that name so far
  rankzero.slurm.job_sweep_info:
    name: lr
    state_root: /project/ml/rankzero
  register: sweep

- name: The best learning rate
  ansible.builtin.debug:
    msg: "{{ sweep.best.parameters.lr }}"
  when: sweep.best is not none

- name: Wait for it, then compare by another number
  rankzero.slurm.job_sweep_info:
    name: lr
    state_root: /project/ml/rankzero
    wait: true
    metric: eval.accuracy
    goal: max
    dest: runs
"""

RETURN = r"""
name:
  description: The job's name.
  returned: success
  type: str
key:
  description: The key of the sweep.
  returned: success
  type: str
sweep_dir:
  description: Its folder on the cluster.
  returned: success
  type: str
completed:
  description: Whether no element is active any more.
  returned: success
  type: bool
success:
  description: Whether every element has succeeded.
  returned: success
  type: bool
counts:
  description: Number of elements by standing.
  returned: success
  type: dict
  sample: {succeeded: 5, failed: 1}
metric:
  description: The number by which elements are compared; null if there is none.
  returned: success
  type: str
goal:
  description: V(min) or V(max).
  returned: success
  type: str
elements:
  description: The elements in the order of the sweep.
  returned: success
  type: list
  elements: dict
  contains:
    number:
      description: Its number in this sweep.
      type: int
    key:
      description: Its launch key.
      type: str
    parameters:
      description: Its values by name.
      type: dict
    standing:
      description: What has become of it, in the words of M(rankzero.slurm.job_info).
      type: str
    slurm_state:
      description: Slurm's state; null if Slurm was not queried, or does not know the job.
      type: str
    metric:
      description: Its metric; null if it has none.
      type: float
    scalars:
      description: The top-level scalar values of its artifact.
      type: dict
    message:
      description: Its result, in a sentence.
      type: str
    job_id:
      description: The Slurm job as ARRAY_TASK.
      type: str
    generation:
      description: Number of the submission under its key.
      type: int
    run_dir:
      description: Its run directory on the cluster.
      type: str
    wall_time:
      description: Seconds of its newest attempt.
      type: float
    finished_at:
      description: When it ended, in epoch seconds.
      type: float
    left_out:
      description:
        - Names of the fields of which values are missing. Of more than 20 elements, each has at most 4 KiB. The files
          in O(dest) contain all values.
      returned: if values are missing
      type: list
      elements: str
best:
  description: The element with the best metric; null without a metric, or if no element has succeeded yet.
  returned: success
  type: dict
first_failed:
  description: The element that failed first; null if none did.
  returned: success
  type: dict
table:
  description: The table as lines.
  returned: success
  type: list
  elements: str
files:
  description: The files that were written, by kind.
  returned: success
  type: dict
silent:
  description: Slurm's error if it did not answer; in that case only the records of the elements are known.
  returned: success
  type: str
waited:
  description: Seconds of this wait.
  returned: success
  type: float
polls:
  description: Number of polls of the cluster.
  returned: success
  type: int
slurm_commands:
  description: Number of Slurm commands of the last poll.
  returned: success
  type: int
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.report.sweep_results import ACTION_ARGUMENTS, results
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm


def logic(module: AnsibleModule) -> dict[str, Any]:
    """One look: the waiting itself is done by the action plugin of the same name, on the controller."""
    slurm = Slurm()
    sweep = results(slurm, module.params)
    return {"changed": False, **sweep.as_dict(), "slurm_commands": slurm.commands, "warnings": slurm.notes}


def main() -> None:
    run_module(ACTION_ARGUMENTS, logic, supports_check_mode=True)


if __name__ == "__main__":
    main()
