#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: reconcile
short_description: Make a cluster match a folder of job specs
version_added: 0.1.0
author:
  - The rankzero.slurm authors (!UNKNOWN)
description:
  - Reads every job file of a folder, compares what they ask for with the launches on the cluster, shows a plan with a
    reason for each line, and does it. Each spec is launched exactly once, as M(rankzero.slurm.job) does it.
  - The plan has a line for each spec and for each launch that no spec asks for any more. V(launch), V(adopt) (its job
    is active), V(unchanged) (it has succeeded), V(failed) (it has failed and is not launched again), V(wait) (not
    yet), V(cancel) and V(keep) (a job that is left alone).
  - A sweep is one line of the plan, with a count of its elements by what became of them. Of its elements those are
    submitted that are missing, and by O(relaunch) those that have failed.
  - A spec with C(after) is launched with what it follows, which must be in the folder, and starts when that has
    succeeded. It waits (V(wait)) for what has failed and is not launched again.
  - Job files are data, nothing in them is templated. A mistake in any file, or two specs of one name, stops everything
    before anything is done.
  - Only launches that a reconciliation of the same set (O(set)) made or took on are ever cancelled. They are registered
    in the state root. A launch made by hand is adopted where it is what a spec asks for, and left alone otherwise.
  - Two reconciliations at once are safe. Each launch is admitted once, and cancelling twice does no harm.
  - Where something must be built first, nothing is launched of the specs that need it, and RV(missing) says what to
    build. The playbook C(rankzero.slurm.reconcile) does so and calls again.
extends_documentation_fragment:
  - rankzero.slurm.attributes
  - rankzero.slurm.attributes.actiongroup_slurm
attributes:
  check_mode:
    support: full
    details:
      - Shows the plan, and whether Slurm would take what is to be launched.
  diff_mode:
    support: full
    details:
      - Shows what becomes of each launch, and script and manifest of what would be launched.
options:
  jobs:
    description:
      - Folder of job files on the controller, relative to the current directory. All files below it whose names end in
        C(.yml), C(.yaml) or C(.json) and, like their folders, do not begin with a dot.
    type: path
    required: true
  cluster:
    description:
      - As in M(rankzero.slurm.job).
      - Without C(code_roots) the jobs may take files of the git work tree that holds O(jobs), and without
        C(secrets_from) no secrets. Without git it is the current directory where that holds O(jobs), else O(jobs)
        itself.
    type: dict
    default: {}
  set:
    description:
      - Name of the set of specs. It says which launches belong to this folder, so it must stay the same, wherever the
        folder is checked out.
      - By default the address of the git remote C(origin), without credentials, with the folder's path in the
        repository. Without such a remote, the controller's host name and the folder's path.
    type: str
  removed:
    description:
      - What becomes of an active job whose spec is gone. V(keep) lets it end by itself, V(cancel) cancels it.
    type: str
    choices: [keep, cancel]
    default: keep
  changed:
    description:
      - What happens where a spec has changed in a way that makes it another launch while its earlier job is active.
      - V(wait) launches the new content once that job has ended, at a later reconciliation. V(replace) cancels the job,
        waits until it has left its nodes, and launches the new content. V(keep) launches it beside that job.
      - Of a sweep only the elements count that it has no more. One that has grown is launched at once.
    type: str
    choices: [wait, replace, keep]
    default: wait
  relaunch:
    description:
      - Whether a launch that has failed is launched again. V(never), since a reconciliation that runs every few minutes
        would spend the allocation on a program that cannot work, or V(on_failure), O(max_failures) times at most.
      - A job that ended before it began, because what it follows had failed, is launched again in any case, once that
        was launched again.
    type: str
    choices: [never, on_failure]
    default: never
  max_failures:
    description: How many generations of one launch there may be with O(relaunch=on_failure).
    type: int
    default: 3
  _request:
    description: Internal. Set by the action plugin of this module; a task cannot set it.
    type: dict
seealso:
  - module: rankzero.slurm.job
  - module: rankzero.slurm.job_wait
"""

EXAMPLES = r"""
- name: Show what would be done for the jobs in git
  rankzero.slurm.reconcile:
    jobs: jobs
  check_mode: true
  diff: true

- name: Make the cluster match them
  rankzero.slurm.reconcile:
    jobs: jobs
    removed: cancel
    changed: replace
    cluster:
      state_root: /project/ml/rankzero
      store_root: /scratch/ml/rankzero
"""

RETURN = r"""
steps:
  description: The plan, by name.
  returned: success
  type: list
  elements: dict
  contains:
    action:
      description: V(launch), V(adopt), V(unchanged), V(failed), V(wait), V(cancel) or V(keep).
      type: str
    name:
      description: The job's name.
      type: str
    key:
      description: The first 16 digits of the launch key, or of the key of the sweep.
      type: str
    kind:
      description: V(job) or V(sweep).
      type: str
    file:
      description: The job file; empty where the spec is gone.
      type: str
    reason:
      description: Why.
      type: str
    generation:
      description: Number of the newest generation, that of the new one where it was launched; null where there is none.
      type: int
    job_id:
      description: Its Slurm job; of a sweep the arrays with active elements, with commas.
      type: str
    run_dir:
      description: Its run directory on the cluster; of a sweep the folder with C(sweep.json).
      type: str
    counts:
      description: Of a sweep the number of elements by what became of them, before anything was done; null of a job.
      type: dict
      sample: {succeeded: 3, active: 1, failed: 1, missing: 1}
    elements:
      description: Of a sweep the elements that are active now, with C(key), C(job_id) and C(run_dir).
      type: list
      elements: dict
    done:
      description: Whether the step was carried out. Always false in check mode.
      type: bool
    error:
      description: Why it could not be, empty where there is no error.
      type: str
    leaves:
      description:
        - Of a V(launch) what it takes from the controller. C(files) has a list for each folder, C(secrets) and
          C(images) are lists of names. Null of other lines.
      type: dict
counts:
  description: How many steps there are of each action.
  returned: success
  type: dict
active:
  description:
    - The run directories of the launches that are active now, elements of sweeps among them, for
      O(rankzero.slurm.job_wait#module:run_dirs).
  returned: success
  type: list
  elements: str
set:
  description: The name of the set.
  returned: success
  type: str
provenance:
  description: Where the folder comes from, with C(repository), C(commit), C(branch), C(dirty) and C(folder).
  returned: success
  type: dict
missing:
  description: What must be built before the rest can be launched, as M(rankzero.slurm.job) returns it.
  returned: success
  type: list
  elements: dict
store_group_writable:
  description: As C(launch_cluster.store_group_writable).
  returned: always
  type: bool
store_root:
  description: Where code and environments of this cluster lie, expanded.
  returned: success
  type: str
slurm_commands:
  description: Number of Slurm commands that were run.
  returned: success
  type: int
"""

from dataclasses import asdict
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile.cluster import planned, prepare
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm

ARGUMENT_SPEC = {
    "jobs": {"type": "path", "required": True},
    "cluster": {"type": "dict", "default": {}},
    "set": {"type": "str"},
    "removed": {"type": "str", "choices": ["keep", "cancel"], "default": "keep"},
    "changed": {"type": "str", "choices": ["wait", "replace", "keep"], "default": "wait"},
    "relaunch": {"type": "str", "choices": ["never", "on_failure"], "default": "never"},
    "max_failures": {"type": "int", "default": 3},
    "_request": {"type": "dict"},
}


def logic(module: AnsibleModule) -> dict[str, Any]:
    """The cluster's half: plan, register, cancel. The action plugin of the same name reads the folder and launches."""
    slurm, request = Slurm(), module.params["_request"]
    result: dict[str, Any] = {"changed": False}
    if "steps" not in request:
        result["steps"] = [asdict(step) for step in planned(slurm, request)]
    elif not module.check_mode:
        for sentence in prepare(slurm, request):
            slurm.note(sentence)
        result["changed"] = any(step["action"] == "cancel" for step in request["steps"])
    for note in slurm.notes:
        module.warn(note)
    return {**result, "slurm_commands": slurm.commands}


def main() -> None:
    run_module(ARGUMENT_SPEC, logic, supports_check_mode=True)


if __name__ == "__main__":
    main()
