#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: job
short_description: Launch a job on Slurm exactly once
version_added: 0.1.0
author: []
description:
  - Turns a job spec into a launch. The layers (cluster, job, overrides) are merged and checked on the controller, the
    batch script is rendered there, and a single call on the cluster submits it or adopts the existing launch.
  - A launch is identified by its key, a hash of everything that determines its result. Repeating the same spec finds
    the same launch. It is adopted while its job is active, left unchanged if it has succeeded, and submitted as a new
    generation if it has failed. See O(relaunch).
  - A submission whose job id was never recorded (the controller was killed, sbatch timed out) is looked up by its job
    name before anything is submitted again. While Slurm does not answer, nothing is submitted.
  - If the code is not on the cluster yet, it is sent. If the environment or the image is missing, nothing is submitted
    and the task fails. See O(missing).
extends_documentation_fragment:
  - rankzero.slurm.job_spec
  - rankzero.slurm.missing
  - rankzero.slurm.missing.results
  - rankzero.slurm.attributes
attributes:
  check_mode:
    details:
      - Shows what would be submitted, also on a cluster where nothing has been built yet.
  diff_mode:
    support: full
    details:
      - For a new launch, shows the values of the spec and the files of the code that differ from the newest launch of
        its name. For a further generation, shows the changes of script, manifest and contract from the previous one.
options:
  state:
    description:
      - V(present) launches. V(absent) cancels the newest generation's job if it is active.
    type: str
    choices: [present, absent]
    default: present
  relaunch:
    description:
      - When to submit an ended launch again, as a new generation.
      - V(on_failure) if it has failed; V(always) also if it has succeeded; V(never) not at all.
      - An active job is always adopted.
    type: str
    choices: [on_failure, always, never]
    default: on_failure
  explain:
    description:
      - Show the code, what is taken from where, and every environment variable of the ranks with its value, the reason,
        and who set it.
    type: bool
    default: false
  planned:
    description:
      - What RV(planned) of an earlier plan was. The launch must be the one that was planned, with the same name and
        key, and may use no more than was planned. If it is not, nothing is submitted, and the error has
        C(error_code=plan_again).
      - No later generation than the planned one is submitted. So a call that comes late, again or after another one
        finds the launch in whatever way it has ended, and submits none.
    type: str
    default: ""
  first:
    description:
      - The launch is one of several submissions of the same job to several clusters, of which one runs. Its job checks
        its nodes and waits for the grant of whoever watches (M(rankzero.slurm.job_first)). Empty for a launch on this
        cluster alone. The command C(rankzero run --first) sets it.
      - C(clusters) are their names, two or more, in the same order on each. The first of them records which one runs.
        C(grant_within) is for how many seconds the job waits for the grant on its nodes, before it ends as
        V(withdrawn) (600). C(reopens) is the generation after which another one may follow here although another
        cluster ran it.
    type: dict
    default: {}
  x_request:
    description: Internal. Set by the action plugin of this module; a task cannot set it.
    type: dict
  x_runtime:
    description: Internal. Set by the action plugin of this module; a task cannot set it.
    type: dict
  x_code:
    description: Internal. Set by the action plugin of this module; a task cannot set it.
    type: str
seealso:
  - module: rankzero.slurm.job_wait
  - module: rankzero.slurm.node_exclusion
  - module: rankzero.slurm.job_script
"""

EXAMPLES = r"""
- name: Launch what the job file says, on eight nodes
  rankzero.slurm.job:
    job: jobs/gpt.yml
    cluster:
      state_root: /project/ml/rankzero
      store_root: /scratch/ml/rankzero
      resources:
        partition: batch
    overrides:
      nodes: 8
  register: launch

- name: Launch a job given in place
  rankzero.slurm.job:
    job:
      name: hello
      command: [hostname]
      resources:
        nodes: 2
        time: "00:05:00"

- name: Run it once more, although it has succeeded
  rankzero.slurm.job:
    job: jobs/gpt.yml
    relaunch: always

- name: Cancel it
  rankzero.slurm.job:
    job: jobs/gpt.yml
    state: absent
"""

RETURN = r"""
name:
  description: The job's name.
  returned: always
  type: str
  sample: gpt-small
key:
  description: The launch key. Directories and job names show its first 16 digits.
  returned: always
  type: str
generation:
  description: Number of the submission under this key, from 1; null if there was nothing to cancel.
  returned: always
  type: int
submission:
  description:
    - What this call did. V(submitted), V(adopted) (its job is active), V(unchanged) (it has ended and is not launched
      again), V(missing) (nothing was submitted, see O(missing=report)), V(planned) (check mode), V(absent).
  returned: always
  type: str
standing:
  description: What has become of the generation, in the words of M(rankzero.slurm.job_info).
  returned: when it is known
  type: str
job_id:
  description: The Slurm job id; with C(launcher.inside_job) the id of the step inside that job, such as C(1234.5).
  returned: when there is one
  type: str
  sample: "1234"
allocation:
  description: With C(launcher.inside_job), the job in which the launch runs, its nodes used, and its remaining time.
  returned: always
  type: str
run_dir:
  description: The run directory on the cluster.
  returned: always
  type: str
snapshots:
  description:
    - If something is missing, a file that lasts as long as ansible-playbook. It says what the code was, so that the
      collection's playbooks submit exactly what they have planned.
  returned: if something is missing
  type: str
commands:
  description: Command lines for this launch, with the inventory of this run.
  returned: if its job waits or runs
  type: dict
  contains:
    attach:
      description: Follows it to its end.
      type: str
      sample: ansible-playbook -i hosts.yml rankzero.slurm.attach -e run_dir=/shared/state/runs/gpt/469c8ef2a1b2c3d4/1
    cancel:
      description: Cancels it.
      type: str
missing:
  description: What must be built before the job can be submitted.
  returned: always
  type: list
  elements: dict
  contains:
    kind:
      description: V(code), V(environment) or V(runtime).
      type: str
    key:
      description: Key of the inputs.
      type: str
    path:
      description: Path where it will be stored.
      type: str
changed_since:
  description:
    - What is different from the newest launch of the same name; null if the cluster has no such launch.
  returned: if the launch is new
  type: dict
  contains:
    key:
      description: The first digits of the other launch's key.
      type: str
    generation:
      description: Its newest generation.
      type: int
    run_dir:
      description: The run directory of that generation.
      type: str
    changes:
      description: Each change of a value, a file or another input that is part of the key.
      type: list
      elements: str
      sample: [command --steps 100 -> 200, train.py +3 -1]
    text:
      description: The same in one line.
      type: str
      sample: "another launch than 469c8ef2: command --steps 100 -> 200, train.py +3 -1"
excluded:
  description:
    - Nodes that this submission excludes because the preflight of an earlier job found them unfit, with
      C(node), C(reason), C(job_id), C(time) and C(expires). See M(rankzero.slurm.node_exclusion).
  returned: always but with O(state=absent)
  type: list
  elements: dict
plan:
  description: The plan in a few lines.
  returned: always
  type: list
  elements: str
planned:
  description:
    - This launch in one word, for O(planned). Its name, key and generation, and the node-minutes that it may use at
      most, or C(any) where it has no time limit.
  returned: always but with O(state=absent)
  type: str
  sample: gpt-small/469c8ef2a1b2c3d4/1/240
proof:
  description: What proves the launch; null if the job declares no artifact.
  returned: always
  type: dict
  contains:
    path:
      description: The path of the artifact in the working directory.
      type: str
    require:
      description: The conditions on its values.
      type: dict
variables:
  description:
    - The environment variables of every rank. A value known only on the node is shown as C((on the node)), a secret
      as C((hidden)).
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Its name.
      type: str
    value:
      description: Its value.
      type: str
    reason:
      description: Why it is set.
      type: str
    source:
      description: The topic of the rule that sets it, such as V(threads) or V(caches), or the fabric.
      type: str
    set_by:
      description: Who set it. The policy, a layer (a file with its line), or a part of the job's runtime.
      type: str
    workaround:
      description: For a workaround, the affected versions and the expiry date; otherwise empty.
      type: str
explain:
  description: What explains the plan further, in lines. The code, what is taken from where, and RV(variables).
  returned: in check mode, and with O(explain)
  type: list
  elements: str
checks:
  description:
    - Checks made before the submission. C(facts), C(notes) (warnings) and C(unknown) (what could not be checked),
      each a list of sentences.
  returned: in check mode
  type: dict
sources:
  description: The store from which each item of the launch comes.
  returned: always
  type: list
  elements: dict
  contains:
    kind:
      description: V(code), V(environment), V(packages), V(image) or V(dataset).
      type: str
    key:
      description: Key of the inputs.
      type: str
    path:
      description: Its path.
      type: str
    store:
      description: The store, one of C(launch_cluster.stores) or C(launch_cluster.store_root).
      type: str
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
from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import JOB
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.launch import LaunchSubmission
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.received import carry_out
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.request import Request
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.secret_files import forgetting


def logic(module: AnsibleModule) -> dict[str, Any]:
    slurm, given = Slurm(), module.params["x_request"]

    def submission_of(request: Request) -> LaunchSubmission:
        return LaunchSubmission(request, slurm, check_mode=module.check_mode)

    with forgetting(given.get("secrets_file")):
        return carry_out(Request.of(given), submission_of, slurm, module.params, check_mode=module.check_mode)


def main() -> None:
    run_module(JOB, logic, supports_check_mode=True)


if __name__ == "__main__":
    main()
