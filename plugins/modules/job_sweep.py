#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: job_sweep
short_description: Launch one job with many values as a job array, each element exactly once
version_added: 0.1.0
author: []
description:
  - Turns a job spec with a section C(sweep) (grid, zip, list or random) into one job array, or several if the sweep
    is larger than the cluster's MaxArraySize.
  - Each element is the same launch as if its values were written into the spec by hand. It has its own key, which
    does not depend on other elements, and its own run directory with artifact and logs.
  - Running the same sweep again submits only missing or failed elements. A succeeded element is not run again, a
    pending or running one is adopted. If the grid has grown, the new elements are submitted.
  - If the code is not on the cluster yet, it is sent. If the environment or the image is missing, nothing is submitted
    and the task fails. See O(missing). The playbook C(rankzero.slurm.sweep) builds everything.
extends_documentation_fragment:
  - rankzero.slurm.job_spec
  - rankzero.slurm.missing
  - rankzero.slurm.missing.results
  - rankzero.slurm.attributes
attributes:
  check_mode:
    details:
      - Shows for each element whether it would be submitted, and why.
  diff_mode:
    support: full
    details:
      - Shows the current and the resulting states of the elements.
options:
  state:
    description:
      - V(present) launches the elements, V(absent) cancels the active ones.
    type: str
    choices: [present, absent]
    default: present
  elements:
    description:
      - Elements to launch, or with O(state=absent) to cancel. Each is the number of an element in this sweep, its
        key, or at least the first six digits of the key. Empty means all elements.
    type: list
    elements: str
    default: []
  relaunch:
    description:
      - When to submit an ended element again, as a new generation.
      - V(on_failure) if it has failed; V(always) also if it has succeeded; V(never) not at all.
      - An active element is always adopted.
    type: str
    choices: [on_failure, always, never]
    default: on_failure
  x_request:
    description: Internal. Set by the action plugin of this module; a task cannot set it.
    type: dict
  x_runtime:
    description: Internal. Set by the action plugin of this module; a task cannot set it.
    type: dict
  x_secrets_file:
    description: Internal. Set by the action plugin of this module; a task cannot set it.
    type: path
seealso:
  - module: rankzero.slurm.job
  - module: rankzero.slurm.job_sweep_info
"""

EXAMPLES = r"""
- name: Launch what the job file's section `sweep` says
  rankzero.slurm.job_sweep:
    job: sweeps/lr.yml
  register: sweep

- name: Wait for all of it, show the table and write results.csv
  rankzero.slurm.job_sweep_info:
    sweep_dir: "{{ sweep.sweep_dir }}"
    wait: true
    dest: runs

- name: Cancel one element
  rankzero.slurm.job_sweep:
    job: sweeps/lr.yml
    state: absent
    elements: ["3"]
"""

RETURN = r"""
name:
  description: The job's name.
  returned: always
  type: str
  sample: lr
key:
  description: The key of the sweep, a hash of the keys of its elements.
  returned: always
  type: str
sweep_dir:
  description: The folder on the cluster with the arrays of this sweep, and C(sweep.json).
  returned: always
  type: str
submission:
  description:
    - What this call did, for the element that comes first in this list. V(missing) (nothing was submitted, see
      O(missing)), V(planned) (check mode), V(submitted), V(cancelled), V(adopted) (active), V(unchanged) (ended and not
      launched again), V(absent).
  returned: always
  type: str
counts:
  description: Number of elements by what this call did.
  returned: always
  type: dict
  sample: {submitted: 2, unchanged: 4}
elements:
  description: The elements in the order of the sweep.
  returned: always
  type: list
  elements: dict
  contains:
    number:
      description: Its number in this sweep, from 0. It may change when the sweep grows; the key does not.
      type: int
    key:
      description: Its launch key.
      type: str
    parameters:
      description: Its values by name.
      type: dict
    submission:
      description: What this call did about the element, in the words of RV(submission).
      type: str
    why:
      description: Why it is submitted, in words, or its result.
      type: str
    standing:
      description: What has become of it, in the words of M(rankzero.slurm.job_info).
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
    left_out:
      description: Names of the fields of which values are missing. Of more than 20 elements, each has at most 4 KiB.
      returned: if values are missing
      type: list
      elements: str
arrays:
  description: The job arrays that this call submitted.
  returned: always
  type: list
  elements: dict
  contains:
    job_id:
      description: The array's job id.
      type: str
    run_dir:
      description: Its folder, with the parameter file C(elements), the script and its journal.
      type: str
    tasks:
      description: Its tasks in sbatch notation.
      type: str
    elements:
      description: How many they are.
      type: int
snapshots:
  description:
    - If something is missing, a file that lasts as long as ansible-playbook. It says what the code was, so that the
      collection's playbooks submit exactly what they have planned.
  returned: if something is missing
  type: str
missing:
  description: What must be built before anything can be submitted, as M(rankzero.slurm.job) returns it.
  returned: always
  type: list
  elements: dict
plan:
  description: The plan in a few lines.
  returned: always
  type: list
  elements: str
checks:
  description: Checks made before the submission, as returned by M(rankzero.slurm.job).
  returned: in check mode
  type: dict
sources:
  description: The store from which each item of the launches comes, as returned by M(rankzero.slurm.job).
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
slurm_commands:
  description: Number of Slurm commands run.
  returned: always
  type: int
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import JOB_SWEEP
from ansible_collections.rankzero.slurm.plugins.module_utils.run.bounded import bounded
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.received import carry_out
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.secret_files import forgetting
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.sweep import SweepSubmission
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.sweep_request import SweepRequest


def logic(module: AnsibleModule) -> dict[str, Any]:
    slurm, secrets_file = Slurm(), module.params["x_secrets_file"]

    def submission_of(request: SweepRequest) -> SweepSubmission:
        return SweepSubmission(request, slurm, check_mode=module.check_mode)

    with forgetting(secrets_file):
        request = SweepRequest.of({**module.params["x_request"], "only": module.params["elements"]})
        request = request.changed(secrets_file=secrets_file)
        result = carry_out(request, submission_of, slurm, module.params, check_mode=module.check_mode)
    return {**result, "elements": bounded(result["elements"])}


def main() -> None:
    run_module(JOB_SWEEP, logic, supports_check_mode=True)


if __name__ == "__main__":
    main()
