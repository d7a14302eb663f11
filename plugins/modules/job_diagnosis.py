#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: job_diagnosis
short_description: Say why a job failed
version_added: 0.1.0
author:
  - The rankzero.slurm authors (!UNKNOWN)
description:
  - Reads the logs of every rank of a launch, the batch script's and the launcher's, and what the job and Slurm say of
    its end. Names one cause with its line, rank and node, what followed from it, and a remedy in the job spec's words.
  - The cause is chosen by evidence, not by the last or the loudest line. An exception of one rank goes before what the
    others say because of it, such as watchdog timeouts, lost connections and launchers' summaries.
  - With O(path) it reads a file or a folder of logs that any launcher wrote.
  - Besides the logs it asks accounting (state, exit codes, memory), the preflight's table and the monitors' samples.
  - Of a job that waits it says why in words, and what to change. Of a job that runs it answers the launch check-list,
    and says whether it stands still and which rank is behind.
  - A site's own programs may be known by families of its own, see O(families).
  - Logs may be of any size, packed with gzip or zstd, and hold any bytes. A file that cannot be read is named, and the
    rest is analysed. Logs without a failure are called healthy.
extends_documentation_fragment:
  - rankzero.slurm.store.run
  - rankzero.slurm.store.roots
  - rankzero.slurm.attributes
  - rankzero.slurm.attributes.actiongroup_slurm
attributes:
  check_mode:
    support: full
    details:
      - Reads everything and writes no C(diagnosis.json).
  diff_mode:
    support: none
options:
  path:
    description:
      - A log, or a folder of logs, of any launcher, on the host where the module runs. Decides over the options that
        name a launch; Slurm is not asked and nothing is written.
    type: path
  write:
    description: Whether to keep the diagnosis of a finished launch as C(diagnosis.json) in its run directory.
    type: bool
    default: true
  families:
    description:
      - YAML files on the controller, or folders of them, with a site's own families of failures. They are data, checked
        on the controller, and can run nothing. What they hold is described in C(docs/diagnosis.md).
      - The role and the playbooks take them from C(launch_cluster.diagnosis_families).
    type: list
    elements: str
    default: []
  _families:
    description: Internal. Set by the action plugin of this module; a task cannot set it.
    type: list
    elements: dict
    default: []
  stall_factor:
    description: A running job stands still when it makes no step for so many times the median step time.
    type: float
    default: 10.0
  stall_seconds:
    description: Nothing shorter than this is called standing still, in seconds.
    type: float
    default: 60.0
  processes:
    description: How many processes read many or big logs. V(0) takes as many as there are processors, at most four.
    type: int
    default: 0
seealso:
  - module: rankzero.slurm.job_logs
  - module: rankzero.slurm.job_wait
"""

EXAMPLES = r"""
- name: Why did it fail?
  rankzero.slurm.job_diagnosis:
    run_dir: "{{ launch.run_dir }}"
  register: why

- name: Show it
  ansible.builtin.debug:
    msg: "{{ why.lines }}"

- name: Is it alive, and who is behind?
  rankzero.slurm.job_diagnosis:
    job_id: "1234"
    stall_factor: 20
    families: diagnosis/families

- name: Logs that another launcher wrote
  rankzero.slurm.job_diagnosis:
    path: /scratch/me/logs
"""

RETURN = r"""
diagnosis:
  description: The cause and what speaks for it.
  returned: success
  type: dict
  contains:
    healthy:
      description: Whether no failure is to be seen.
      type: bool
    family:
      description: The kind of failure, for machines.
      type: str
      sample: cuda_oom
    what:
      description: The kind of failure in words.
      type: str
    confidence:
      description: V(high), V(medium) or V(low).
      type: str
    root:
      description:
        - The line that shows it, with C(file), C(line), C(text), C(family), C(rank) and C(node).
        - Null where no failure is to be seen.
      type: dict
    ranks:
      description: The ranks that say it.
      type: list
      elements: int
    nodes:
      description: The nodes that say it.
      type: list
      elements: str
    evidence:
      description: The root and one line of each other kind, each like C(root).
      type: list
      elements: dict
    chain:
      description: What led to what, in words.
      type: list
      elements: str
    remedy:
      description: What to do, in the job spec's words.
      type: str
    retry:
      description: Whether the same launch may succeed when it is tried again.
      type: bool
    blame:
      description: The node to leave out, where one is to blame.
      type: list
      elements: str
    files:
      description: How many logs were read.
      type: int
    bytes:
      description: How many bytes these have.
      type: int
    unreadable:
      description: The files that could not be read, with C(file) and C(why).
      type: list
      elements: dict
    launch:
      description: Which launch it is; without O(path) only.
      type: dict
    checklist:
      description:
        - The launch check-list. Each C(question) with its C(answer), and C(ok), null where nothing can be said.
        - Did all ranks start, is the world size right, which network has NCCL, do steps come, was the model saved.
      type: list
      elements: dict
    stall:
      description:
        - Of a job that stands still its C(age) and the C(median) step time in seconds, the newest C(step), the ranks
          that are C(behind), C(nodes) whose GPUs are idle while the others' are busy, and a C(message).
        - Null of one that makes steps. Of running jobs only.
      type: dict
    facts:
      description:
        - What speaks besides the logs. C(accounting) by step, C(exit_code), C(preflight) of nodes that were not fit,
          C(samples) of the monitors by node, and C(reason) of a job that waits. Without O(path) only.
      type: dict
lines:
  description: The diagnosis for a screen, at most 15 lines.
  returned: success
  type: list
  elements: str
families:
  description: How many kinds of failure the module knows by their wording.
  returned: success
  type: int
  sample: 37
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.report.diagnose import DIAGNOSIS_SPEC, diagnose
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm


def logic(module: AnsibleModule) -> dict[str, Any]:
    slurm = Slurm()
    found = diagnose(slurm, module.params, check_mode=module.check_mode)
    for note in slurm.notes:
        module.warn(note)
    return found


def main() -> None:
    run_module(DIAGNOSIS_SPEC, logic, supports_check_mode=True)


if __name__ == "__main__":
    main()
