#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: job_first
short_description: Let a launch run on the cluster that starts it first
version_added: 0.1.0
author: []
description:
  - Carries out a step of whoever watches a launch that was submitted to several clusters (option C(first) of
    M(rankzero.slurm.job)). The command C(rankzero run --first) does all of them; so may a timer.
  - The job that has its nodes asks for a grant and waits for it. First the winner is recorded at the first cluster
    named (V(record)), once and for ever. Then each cluster is told (V(settle)), which grants the winner what it waits
    for, and withdraws the others.
  - Every step may be done again, and by several at once.
extends_documentation_fragment:
  - rankzero.slurm.store.run
  - rankzero.slurm.store.state
  - rankzero.slurm.attributes
attributes:
  check_mode:
    details:
      - Only looks.
  diff_mode:
    support: none
options:
  step:
    description:
      - V(look) reads. V(record) records O(winner), on the first of O(clusters) only. V(settle) grants or withdraws the
        launch on this cluster.
    type: str
    choices: [look, record, settle]
    default: look
  clusters:
    description: The clusters that the launch was submitted to, in the order that it was submitted with.
    type: list
    elements: str
    required: true
  cluster:
    description: Which of them this one is. Required by V(settle).
    type: str
    default: ""
  winner:
    description: The cluster that runs the launch and its run directory there, with a blank between them, as RV(winner).
    type: str
    default: ""
  arbiter:
    description:
      - RV(key) of the launch on the first of O(clusters). With O(name) it selects the launch that was asked with that
        one, whose own key may be another one.
    type: str
    default: ""
seealso:
  - module: rankzero.slurm.job
  - module: rankzero.slurm.job_info
"""

EXAMPLES = r"""
- name: Look whether the job has its nodes
  rankzero.slurm.job_first:
    name: gpt-small
    clusters: [alpha, beta]
  register: looked
  until: looked.asks or not looked.active
  retries: 60
  delay: 1

- name: Record on the first of the clusters that it runs there
  rankzero.slurm.job_first:
    run_dir: "{{ looked.run_dir }}"
    clusters: [alpha, beta]
    step: record
    winner: "alpha {{ looked.run_dir }}"
  register: recorded

- name: Let it run here, or withdraw it if another cluster has won
  rankzero.slurm.job_first:
    name: gpt-small
    clusters: [alpha, beta]
    cluster: alpha
    step: settle
    winner: "{{ recorded.winner }}"
"""

RETURN = r"""
name:
  description: The job's name.
  returned: success
  type: str
key:
  description: The first 16 digits of the launch key.
  returned: success
  type: str
generation:
  description: Number of the submission under the key.
  returned: success
  type: int
run_dir:
  description: The run directory on the cluster.
  returned: success
  type: str
job_id:
  description: The Slurm job.
  returned: success
  type: str
standing:
  description: What has become of it, in the words of M(rankzero.slurm.job_info).
  returned: success
  type: str
message:
  description: The same as a sentence.
  returned: success
  type: str
active:
  description: Whether its job waits or runs, as far as is known.
  returned: success
  type: bool
success:
  description: Whether its result is proven.
  returned: success
  type: bool
clusters:
  description: The clusters that this generation was submitted to; empty if it waits for no grant.
  returned: success
  type: list
  elements: str
asks:
  description: Whether its job has its nodes and waits for the grant.
  returned: success
  type: bool
grant:
  description: The grant, whose first word is V(granted) or V(withdrawn); empty if there is none.
  returned: success
  type: str
winner:
  description: The winner that is recorded here, with its run directory; empty if there is none.
  returned: success
  type: str
  sample: beta /scratch/alice/rankzero/runs/gpt-small/469c8ef2a1b2c3d4/1
lines:
  description: RV(message), and RV(winner) and RV(grant) where there are any, for people.
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
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import FIRST_SPEC
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.first import step


def logic(module: AnsibleModule) -> dict[str, Any]:
    slurm = Slurm()
    return {**step(slurm, module.params, check_mode=module.check_mode), "warnings": slurm.notes}


def main() -> None:
    run_module(FIRST_SPEC, logic, supports_check_mode=True)


if __name__ == "__main__":
    main()
