#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: job_info
short_description: Report the state of launches
version_added: 0.1.0
author: []
description:
  - Reports the launches selected by O(name), O(key), O(generation), O(job_id) or O(run_dir), or all launches, from
    their run directories and from Slurm's information about their jobs.
  - Queries the queue once for any number of launches, and accounting at most once for jobs that have left it. If
    accounting is off or Slurm does not answer, the state recorded in the run directory is reported, with a warning.
  - A launch has succeeded if the outcome written by its own job says so; Slurm's state is additional information.
extends_documentation_fragment:
  - rankzero.slurm.store.run
  - rankzero.slurm.store.state
  - rankzero.slurm.attributes.looks
options:
  newest:
    description: Only the newest generation of each key.
    type: bool
    default: false
  active:
    description: Only launches whose job is pending, running or may be requeued.
    type: bool
    default: false
  limit:
    description: Of the launches that are not active, report at most this many, the most recent ones. V(0) reports all.
    type: int
    default: 0
  single:
    description:
      - Only the launch that a wait or a diagnosis with the same options would choose. Of several launches of a name it
        is the newest, and RV(choice) says so. Where there is none, or no choice, the module fails.
    type: bool
    default: false
  sort:
    description:
      - Order of RV(launches) and RV(lines). A column of RV(lines), or a number of the results such as V(loss);
        V(-loss) has the largest first. Launches without it come last.
      - Without it, RV(launches) are by name, and RV(lines) have the active launches first, then the newest.
    type: str
    default: ""
  width:
    description:
      - Characters of the screen. No line of RV(lines) is longer; some columns are left out. V(0) cuts nothing.
    type: int
    default: 0
seealso:
  - module: rankzero.slurm.job
  - module: rankzero.slurm.job_wait
"""

EXAMPLES = r"""
- name: All generations of one job spec
  rankzero.slurm.job_info:
    name: gpt-small
    state_root: /shared/rankzero/state
  register: found

- name: Names, states and why they are pending
  ansible.builtin.debug:
    msg: "{{ found.launches | map(attribute='message') }}"

- name: The launch of one Slurm job
  rankzero.slurm.job_info:
    job_id: "1234"
"""

RETURN = r"""
launches:
  description: The launches, by name, key and generation, or as O(sort) says.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the job spec.
      type: str
    key:
      description: The first 16 digits of the launch key.
      type: str
    generation:
      description: Number of the submission under the key.
      type: int
    job_id:
      description: The Slurm job that owns the launch; null if none was recorded.
      type: str
    standing:
      description:
        - What has become of the launch. V(waiting) (its job is in the queue), V(running), V(succeeded) (its result is
          proven), V(failed) (it ended without a proven result, was cancelled or was refused by Slurm), V(withdrawn)
          (another cluster runs it, or nobody let it run in time), V(unsubmitted) (there is no job), V(unknown) (only
          Slurm can tell, and it does not answer), or V(untrusted) (another user could have written its run directory).
      type: str
    slurm_state:
      description: What Slurm calls the job of the newest attempt; null if Slurm knows no job.
      type: str
    active:
      description: Whether the job is pending, running or may be requeued.
      type: bool
    completed:
      description: Whether the launch has finally ended.
      type: bool
    success:
      description: Whether the newest attempt's outcome reports success.
      type: bool
    exit_code:
      description: Exit code of the program, or of the batch script if the program's is not known.
      type: int
    reason:
      description: Why it is pending and what would help, or how it ended, in words.
      type: str
    reason_code:
      description: Slurm's reason code. Empty if Slurm no longer knows the job.
      type: str
    message:
      description: Result of the launch, in a sentence; of a failure, with the cause that a diagnosis has found.
      type: str
    never_started:
      description:
        - Whether Slurm ended the job before its script started, because the job's first node could not open the job's
          log. The node then does not see the state root, or the user may not write to it there.
      type: bool
    drained:
      description:
        - Nodes that Slurm has drained because of the job, each with C(node), C(reason) (Slurm's), C(meaning) and
          C(command), with which an administrator resumes the node.
        - Queried only if Slurm holds the job because it could not start it, or if the job ended without a verdict.
      type: list
      elements: dict
    nodes:
      description: Host names of its nodes.
      type: list
      elements: str
    attempt:
      description: Number of the newest attempt; 0 is the first.
      type: int
    attempts:
      description:
        - Every attempt, oldest first, with C(attempt) (its number), C(job_id), C(slurm_state), C(started_at),
          C(finished_at), C(nodes), C(node_list) (as Slurm writes it), C(exit_code) and C(reason) (how it ended, in
          words).
        - The attempts of one launch may belong to one job, requeued or restarted on a spare node, or to successive
          jobs. Values missing from the run directory come from accounting, and are null without accounting.
      type: list
      elements: dict
    allocations:
      description:
        - The nodes that Slurm has given the job, as far as the command in C(source) tells, oldest first.
        - Each with C(job_id), C(began), C(ended), C(elapsed) (seconds), C(nodes) (their number), C(submitted), C(user)
          and C(account). C(gpus) and C(joules) are null, since only accounting knows them.
      type: list
      elements: dict
    started_at:
      description: When the newest attempt began, in epoch seconds.
      type: float
    finished_at:
      description: When it ended, in epoch seconds.
      type: float
    wall_time:
      description: Seconds between the two.
      type: float
    progress:
      description:
        - How far a running launch is, with C(step), C(total), C(loss), C(seconds_left) and C(step_age) (seconds since
          the last step), from the log of its first or last rank. A value that the log does not show is null.
        - C(seconds_left) is null while the next step is late.
        - Null if the launch does not run, or if no log shows a step.
      type: dict
    artifact:
      description:
        - The artifact as checked by the job, with C(path), C(valid), C(values), C(errors), C(sha256) and C(bytes);
          null if the spec names none or the job has not ended.
      type: dict
    outcome:
      description: All that the job wrote about its end; null while it has not.
      type: dict
    run_dir:
      description: The run directory on the cluster.
      type: str
    logs_dir:
      description: The folder of the logs in it.
      type: str
    journal:
      description: Journal of the submission, oldest entry first.
      type: list
      elements: dict
    source:
      description: Which command knew the job, V(squeue), V(scontrol) or V(sacct); null where none did.
      type: str
    left_out:
      description:
        - Names of the fields of which values are missing. Of more than 20 launches, each is returned with at most
          4 KiB. Values of the artifact are left out first, then old events and attempts. Select fewer launches to
          get all.
      returned: if values are missing
      type: list
      elements: str
omitted:
  description: Number of launches that O(limit) left out.
  returned: success
  type: int
lines:
  description:
    - The launches as aligned lines for people. C(result) is the number that O(sort) names, or else the first one that
      the artifact requires, or the loss.
  returned: success
  type: list
  elements: str
message:
  description: Why nothing was found.
  returned: when there is no launch
  type: str
choice:
  description: Which launch was chosen for a name that several launches have, for people.
  returned: with O(single), if there are several
  type: str
slurm_commands:
  description: Number of Slurm commands run.
  returned: success
  type: int
"""

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import one_alone
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.running import progress
from ansible_collections.rankzero.slurm.plugins.module_utils.run.bounded import bounded
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import LaunchReport
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launches import diagnosed
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search.launch_list import job_info
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search.listing import in_order, listing
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import INFO_SPEC
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm


def logic(module: AnsibleModule) -> dict[str, Any]:
    slurm = Slurm()
    info = job_info(slurm, module.params)
    now = time.time()
    for launch in info["launches"]:
        running = launch["active"] and launch["started_at"] is not None
        launch["progress"] = None
        problems: list[str] = []
        with one_alone(problems.append):
            launch["progress"] = progress(launch, now) if running else None
            launch["message"] = diagnosed(RunDirectory(launch["run_dir"]), LaunchReport.of(launch))
        launch["message"] = "; ".join([launch["message"], *problems])
    sort, width = module.params["sort"], module.params["width"]
    if sort:
        info["launches"] = in_order(info["launches"], sort, now)
    lines = listing(info["launches"], now, sort, width) or [info.get("message", "")]
    if info.get("choice"):
        lines.insert(0, info["choice"])
    if info["omitted"]:
        lines.append(f"{info['omitted']} older launches are not shown (limit {module.params['limit']}; 0 shows all)")
    launches = bounded(info["launches"])
    return {"changed": False, **info, "launches": launches, "lines": lines, "warnings": slurm.notes}


def main() -> None:
    run_module(INFO_SPEC, logic, supports_check_mode=True)


if __name__ == "__main__":
    main()
