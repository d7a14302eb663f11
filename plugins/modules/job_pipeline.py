#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: job_pipeline
short_description: Launch jobs that follow each other
version_added: 0.1.0
author:
  - The rankzero.slurm authors (!UNKNOWN)
description:
  - Launches several jobs at once, each to start when those that it follows have succeeded (C(--dependency=afterok),
    with the job's own proof of its artifact behind it). Sweeps may be among them.
  - Each is a launch as M(rankzero.slurm.job) makes it, exactly once. What has succeeded already is not run again, and
    nothing waits for it. What is active is adopted. What has failed is submitted again with all that follow it.
  - The keys of the launches that a job follows are part of its own key. Another tokeniser is another training.
  - The ranks find the run directory of each job they follow as C(RANKZERO_AFTER_NAME), with its artifact below
    C(work). For a sweep it is the folder with C(sweep.json), which names the elements.
  - When a job fails Slurm cancels those that follow it (C(--kill-on-invalid-dep)).
extends_documentation_fragment:
  - rankzero.slurm.attributes
  - rankzero.slurm.attributes.actiongroup_slurm
attributes:
  check_mode:
    support: full
    details:
      - Says of each job whether it would be submitted, or cancelled.
  diff_mode:
    support: full
    details:
      - Shows what M(rankzero.slurm.job) and M(rankzero.slurm.job_sweep) show, for each job, and what is cancelled.
options:
  job:
    description:
      - A pipeline file (a map with C(jobs), a list of job files relative to it), a job file with C(after), or a list of
        job files.
      - In a list each job follows the one before it, unless its spec has C(after), or its item is a map with C(job) and
        C(after).
    type: raw
    required: true
  cluster:
    description:
      - What belongs to the cluster, as for M(rankzero.slurm.job).
    type: dict
    default: {}
  overrides:
    description:
      - Values over those of every job, as for M(rankzero.slurm.job).
    type: dict
    default: {}
  relaunch:
    description:
      - When a job that has ended is submitted again, as for M(rankzero.slurm.job).
    type: str
    choices: [on_failure, always, never]
    default: on_failure
  state:
    description:
      - V(present) launches. V(absent) cancels what is active of all jobs, the last one first, and leaves alone what has
        ended. It knows the launches by their keys, so it needs the job files as they were.
    type: str
    choices: [present, absent]
    default: present
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
      description: Its job file.
      type: str
    name:
      description: Its name.
      type: str
    launch_state:
      description: What was done. With O(state=absent) V(absent), or V(cancelled) for a sweep with active elements.
      type: str
    run_dir:
      description: Its run directory; for a sweep there is C(sweep_dir).
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
  description: Where code and environments of this cluster lie, expanded.
  returned: always
  type: str
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.job_arguments import LAUNCH_ARGUMENTS


def main() -> None:
    module = AnsibleModule(argument_spec=LAUNCH_ARGUMENTS, supports_check_mode=True)
    module.fail_json(msg="job_pipeline works on the controller: its action plugin was not found beside it.")


if __name__ == "__main__":
    main()
