#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: job_sweep_info
short_description: Say what became of a sweep, and which element is best
version_added: 0.1.0
author:
  - The rankzero.slurm authors (!UNKNOWN)
description:
  - Reports every element of a sweep with its values, what became of it and what its artifact holds, and the best one by
    a number of the artifact. Shows a table, and writes C(results.csv) and C(results.json) on the controller.
  - With O(wait) it waits until no element is active any more. Each look is one question to Slurm, however many elements
    there are. Ending the wait does nothing to the sweep; the same task attaches again.
  - Does not fail for elements that failed; RV(success) tells.
extends_documentation_fragment:
  - rankzero.slurm.attributes
  - rankzero.slurm.attributes.actiongroup_slurm
attributes:
  check_mode:
    support: full
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
      - Instead of O(sweep_dir), the name of the job. Of several sweeps the newest one counts.
    type: str
  key:
    description:
      - With O(name), the key of the sweep or its beginning.
    type: str
  state_root:
    description:
      - With O(name), where the runs of this cluster lie (C(launch_cluster.state_root)).
    type: path
    default: ~/.rankzero/state
  metric:
    description:
      - The number of the artifact to compare by, in place of C(sweep.metric). Dots go down.
    type: str
  goal:
    description:
      - Whether the best element has the smallest metric or the largest, in place of C(sweep.goal).
    type: str
    choices: [min, max]
  wait:
    description:
      - Wait until no element is active.
    type: bool
    default: false
  wait_timeout:
    description:
      - Seconds to wait; V(0) waits as long as it takes. The sweep goes on when the wait ends.
    type: int
    default: 0
  poll_max:
    description:
      - The most seconds between two looks. The first ones follow each other faster.
    type: float
    default: 15.0
  reconnect_timeout:
    description:
      - Seconds during which a lost connection is tried again while the task waits, as for M(rankzero.slurm.job_wait).
    type: int
    default: 120
  dest:
    description:
      - Folder on the controller; the files are written to NAME/sweep-KEY in it. Without it none are written.
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
  description: The number that they are compared by; null where none is.
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
      description: V(succeeded), V(failed), V(active), V(unknown) (its submission was lost) or V(missing).
      type: str
    state:
      description: Slurm's state; null where Slurm was not asked, or does not know it.
      type: str
    metric:
      description: Its metric; null where it has none.
      type: float
    values:
      description: The scalars at the top of its artifact.
      type: dict
    message:
      description: What became of it, in a sentence.
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
best:
  description: The element with the best metric; null where no metric is asked for or none has succeeded yet.
  returned: success
  type: dict
first_failed:
  description: The element that failed first; null where none did.
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
  description: Slurm's complaint where it did not answer; then only what the elements wrote themselves is known.
  returned: success
  type: str
waited:
  description: Seconds of this wait.
  returned: success
  type: float
polls:
  description: How often the cluster was asked.
  returned: success
  type: int
slurm_commands:
  description: Number of Slurm commands of the last look.
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
    found = results(slurm, module.params)
    for note in slurm.notes:
        module.warn(note)
    return {"changed": False, **found, "slurm_commands": slurm.commands}


def main() -> None:
    run_module(ACTION_ARGUMENTS, logic, supports_check_mode=True)


if __name__ == "__main__":
    main()
