#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: job_pipeline
short_description: Launch jobs that depend on each other
version_added: 0.1.0
author: []
description:
  - Submits several jobs at once. Each starts when its predecessors have succeeded (C(--dependency=afterok); a job
    fails without a valid artifact). The jobs may include sweeps.
  - Each job is launched exactly once, as by M(rankzero.slurm.job). Succeeded jobs are not run again and nothing waits
    for them. Active jobs are adopted. Failed jobs are submitted again with all their successors.
  - The keys of a job's predecessors are part of its own key. With another tokeniser, training is another launch.
  - The ranks get the run directory of each predecessor as C(RANKZERO_AFTER_NAME), with its artifact below C(work).
    For a sweep it is the folder with C(sweep.json), which lists the elements.
  - If a job fails, Slurm cancels its successors (C(--kill-on-invalid-dep)).
  - Jobs of which none follows another are submitted by one call of the cluster, however many they are. One that cannot
    be submitted fails the task after the others have been submitted.
  - If the code is not on the cluster yet, it is sent. If an environment or an image is missing, nothing is submitted
    and the task fails. See O(missing). The playbook C(rankzero.slurm.pipeline) builds everything.
extends_documentation_fragment:
  - rankzero.slurm.missing
  - rankzero.slurm.missing.results
  - rankzero.slurm.attributes
attributes:
  check_mode:
    details:
      - Shows for each job whether it would be submitted or cancelled.
  diff_mode:
    support: full
    details:
      - Shows the diffs of M(rankzero.slurm.job) and M(rankzero.slurm.job_sweep) for each job, and the cancelled jobs.
options:
  job:
    description:
      - A pipeline file (a map with C(jobs), a list of job files relative to it), a job file with C(after), or a list of
        job files.
      - In a list each job follows the one before it, unless its spec has C(after), or its item is a map with C(job) and
        C(after). An empty list means that it follows none. C(job) may be a job spec as a map, whose paths are relative
        to the working directory.
    type: raw
    required: true
  cluster:
    description:
      - Settings of the cluster, as for M(rankzero.slurm.job).
    type: dict
    default: {}
  overrides:
    description:
      - Values that override those of every job, as for M(rankzero.slurm.job).
    type: dict
    default: {}
  relaunch:
    description:
      - When to submit an ended job again, as for M(rankzero.slurm.job).
    type: str
    choices: [on_failure, always, never]
    default: on_failure
  state:
    description:
      - V(present) launches. V(absent) cancels all active jobs, the last one first, and leaves ended jobs unchanged.
        It identifies the launches by their keys, so the job files must be unchanged.
    type: str
    choices: [present, absent]
    default: present
  x_request:
    description: Internal. Set by the action plugin of this module; a task cannot set it.
    type: dict
  x_runtime:
    description: Internal. Set by the action plugin of this module; a task cannot set it.
    type: dict
seealso:
  - module: rankzero.slurm.job
  - module: rankzero.slurm.job_sweep
"""

EXAMPLES = r"""
- name: Tokenise, train, evaluate
  rankzero.slurm.job_pipeline:
    job: pipelines/gpt.yml
  register: pipeline

- name: The same from a list
  rankzero.slurm.job_pipeline:
    job:
      - jobs/tokenise.yml
      - jobs/train.yml
      - job: jobs/evaluate.yml
        after: [jobs/train.yml]

- name: Two jobs that follow none, by one call
  rankzero.slurm.job_pipeline:
    job:
      - job: jobs/train.yml
        after: []
      - job: {name: hello, command: [hostname], resources: {nodes: 2}}
        after: []

- name: Cancel what is active of it
  rankzero.slurm.job_pipeline:
    job: pipelines/gpt.yml
    state: absent
"""

RETURN = r"""
stages:
  description:
    - The jobs in the order of their launch, each as M(rankzero.slurm.job) or M(rankzero.slurm.job_sweep) returns it.
  returned: always
  type: list
  elements: dict
  contains:
    kind:
      description: V(job) or V(sweep).
      type: str
    file:
      description: Its job file; of a spec in the list C(item) and its number, from 1.
      type: str
    name:
      description: Its name.
      type: str
    submission:
      description: Action taken. With O(state=absent) V(absent), or V(cancelled) for a sweep with active elements.
      type: str
    run_dir:
      description: Its run directory; for a sweep C(sweep_dir) instead.
      type: str
snapshots:
  description:
    - If something is missing, a file that lasts as long as ansible-playbook. It says what the code was, so that the
      collection's playbooks submit exactly what they have planned.
  returned: if something is missing
  type: str
missing:
  description:
    - What must be built before anything is submitted, for all jobs together, as M(rankzero.slurm.job) returns it.
  returned: always
  type: list
  elements: dict
store_group_writable:
  description: As C(launch_cluster.store_group_writable).
  returned: always
  type: bool
store_root:
  description: Folder for code and environments of this cluster, expanded.
  returned: always
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import JOB_PIPELINE
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.many.batch import SlurmOfMany, launched_together


def logic(module: AnsibleModule) -> dict[str, Any]:
    """Jobs of which none follows another, by one call. Those that follow others are launched by module `job`."""
    given = module.params["x_request"]
    if given is None:
        raise RankzeroError("job_pipeline works on the controller: its action plugin was not found beside it")
    return launched_together(SlurmOfMany(), given["launches"], module.params["x_runtime"], check_mode=module.check_mode)


def main() -> None:
    run_module(JOB_PIPELINE, logic, supports_check_mode=True)


if __name__ == "__main__":
    main()
