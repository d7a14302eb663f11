#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: reconcile
short_description: Make a cluster match a folder of job specs
version_added: 0.1.0
author: []
description:
  - Reads every job file of a folder, compares the specs with the launches on the cluster, shows a plan with a reason
    for each line, and carries it out. Each spec is launched exactly once, as by M(rankzero.slurm.job).
  - The plan has a line for each spec and for each launch whose spec no longer exists. V(launch), V(adopt) (its job is
    active), V(unchanged) (it has succeeded), V(failed) (it has failed and is not launched again), V(wait) (not yet),
    V(cancel) and V(keep) (the job is left running).
  - A sweep is one line of the plan, with a count of its elements by standing. Missing elements are submitted, and
    depending on O(relaunch) failed ones.
  - A spec with C(after) is launched with its predecessors, which must be in the folder, and starts when they have
    succeeded. If a predecessor has failed and is not launched again, the line is V(wait).
  - Job files are data, nothing in them is templated. If any file has an error, or two specs have the same name,
    nothing is done.
  - Only launches that a reconciliation of the same set (O(set)) has made or adopted are ever cancelled. They are
    registered in the state root. A launch made by hand is adopted if it matches a spec exactly, and left alone
    otherwise.
  - Two reconciliations at once are safe. Each launch is admitted once, and cancelling twice does no harm.
  - Code that is not on the cluster yet is sent. Specs that need an environment or an image that is missing are not
    launched, and the task fails. See O(missing). The playbook C(rankzero.slurm.reconcile) builds everything.
extends_documentation_fragment:
  - rankzero.slurm.missing
  - rankzero.slurm.attributes
attributes:
  check_mode:
    details:
      - Shows the plan, and whether Slurm would accept the new launches.
  diff_mode:
    support: full
    details:
      - Shows the action for each launch, and script and manifest of new launches.
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
      - Name of the set of specs, which identifies the launches of this folder. It must be the same wherever the
        folder is checked out.
      - By default the address of the git remote C(origin), without credentials, with the folder's path in the
        repository. Without such a remote, the controller's host name and the folder's path.
    type: str
  removed:
    description:
      - What to do with an active job whose spec was removed. V(keep) lets it end by itself, V(cancel) cancels it.
    type: str
    choices: [keep, cancel]
    default: keep
  changed:
    description:
      - What to do if a spec has changed so that it is another launch while its earlier job is active.
      - V(wait) launches the new content once that job has ended, at a later reconciliation. V(replace) cancels the job,
        waits until it has left its nodes, and launches the new content. V(keep) launches it while that job runs.
      - For a sweep only removed elements count. New elements are launched at once.
    type: str
    choices: [wait, replace, keep]
    default: wait
  relaunch:
    description:
      - Whether to launch a failed launch again. V(never), because a reconciliation every few minutes would spend the
        allocation on a broken program, or V(on_failure), at most O(max_failures) times.
      - A job that ended before it began because a predecessor had failed is launched again in any case, once the
        predecessor is.
    type: str
    choices: [never, on_failure]
    default: never
  max_failures:
    description: Maximum number of generations of one launch with O(relaunch=on_failure).
    type: int
    default: 3
  x_request:
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
      description: V(launch), V(adopt), V(unchanged), V(failed), V(wait), V(cancel), V(keep) or V(gone).
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
      description: The job file; empty if it was removed.
      type: str
    reason:
      description: Why.
      type: str
    generation:
      description: Number of the newest generation, including a new one; null if there is none.
      type: int
    job_id:
      description: Its Slurm job id; for a sweep the arrays with active elements, separated by commas.
      type: str
    run_dir:
      description: Its run directory on the cluster; for a sweep the folder with C(sweep.json).
      type: str
    counts:
      description: For a sweep the number of elements by standing, before anything was done; null for a job.
      type: dict
      sample: {succeeded: 3, active: 1, failed: 1, missing: 1}
    elements:
      description: For a sweep the elements that are active now, with C(key), C(job_id) and C(run_dir).
      type: list
      elements: dict
    changes:
      description:
        - In check mode, for a V(launch) of a job that another launch of its name comes before, the changed values and
          files, in words such as V(command --steps 100 -> 200).
      type: list
      elements: str
    node_hours:
      description:
        - For a V(launch), the most that it may use (nodes x time x attempts; of a sweep, all that is submitted). Null
          without a time limit, and for other lines.
      type: float
    done:
      description: Whether the step was carried out. Always false in check mode.
      type: bool
    error:
      description: The error, empty if there is none.
      type: str
    leaves:
      description:
        - For a V(launch), what it takes from the controller. C(files) has a list for each folder, C(secrets) and
          C(images) are lists of names. Null for other lines.
      type: dict
counts:
  description: Number of steps by action.
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
  description: Origin of the folder, with C(repository), C(commit), C(branch), C(dirty) and C(folder).
  returned: success
  type: dict
missing:
  description: What must be built before the rest can be launched, as M(rankzero.slurm.job) returns it.
  returned: success
  type: list
  elements: dict
snapshots:
  description:
    - If something is missing, a file that lasts as long as ansible-playbook. It says what the code was, so that the
      collection's role submits exactly what it has planned.
  returned: if something is missing
  type: str
store_group_writable:
  description: As C(launch_cluster.store_group_writable).
  returned: always
  type: bool
store_root:
  description: Folder for code and environments of this cluster, expanded.
  returned: success
  type: str
slurm_commands:
  description: Number of Slurm commands run.
  returned: success
  type: int
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile.cluster import planned, prepare
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile.plan import Step
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile.request import ReconcileRequest
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile.wanted import ARGUMENTS
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.store.publish import publish_files
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.many.batch import (
    Batch,
    SlurmOfMany,
    forget_secrets,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.many.launches import BatchLaunch, unpacked
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.refs import is_present

ARGUMENT_SPEC = {**ARGUMENTS, "x_request": {"type": "dict"}}


def logic(module: AnsibleModule) -> dict[str, Any]:
    """The cluster's half: plan, register, cancel, launch. The action plugin of the same name reads the folder."""
    slurm, request = SlurmOfMany(), ReconcileRequest.of(module.params["x_request"])
    result: dict[str, Any] = {"changed": False}
    if request.steps is None:
        result["steps"] = [asdict(step) for step in planned(slurm, request)]
        result["runtime_missing"] = not (request.runtime and is_present(request.runtime))
    else:
        launches, known = unpacked(request.launches)
        batch = Batch(slurm, known, module.check_mode)
        try:
            result["held"] = _carried_out(slurm, request, request.steps, launches, batch)
        finally:
            forget_secrets(launches)
        result["answers"] = batch.results()
        result["changed"] = any(step.action in ("cancel", "launch") for step in request.steps)
    return {**result, "slurm_commands": slurm.commands, "warnings": slurm.notes}


def _carried_out(
    slurm: Slurm, request: ReconcileRequest, steps: Sequence[Step], launches: Sequence[BatchLaunch], batch: Batch
) -> list[str]:
    """Carry out the steps. A job is cancelled for its successor only once the successor can be launched.

    Returns the names of launches that were held back for that.
    """
    new = {step.name for step in steps if step.action == "launch"}
    to_launch = [launch for launch in launches if launch.name in new]
    batch.look_up(to_launch)
    if batch.check_mode:
        for launch in to_launch:
            batch.launch(launch)
        return []
    if request.runtime and request.runtime_files:
        publish_files(request.runtime.path, request.runtime_files)
    cancelled = {step.name for step in steps if step.action == "cancel"}
    held: list[str] = []
    for launch in to_launch:
        if (launch.name in cancelled or any(name in held for name in launch.follows)) and not batch.check(launch):
            held.append(launch.name)
    begun = [step for step in steps if step.name not in held]
    for sentence in prepare(slurm, replace(request, steps=[step for step in begun if _registers(step)])):
        slurm.note(sentence)
    unrecorded = {step.name for step in begun if step.action != "cancel" and not step.recorded}
    for launch in launches:
        if launch.name in new:
            if launch.name not in held:
                batch.launch(launch)
        elif launch.name in unrecorded:
            batch.record(launch)
    return held


def _registers(step: Step) -> bool:
    return step.action in ("cancel", "launch", "gone") or (step.action == "adopt" and not step.ours)


def main() -> None:
    run_module(ARGUMENT_SPEC, logic, supports_check_mode=True)


if __name__ == "__main__":
    main()
