#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: job_wait
short_description: Wait for a launch and show its progress
version_added: 0.1.0
author: []
description:
  - Waits until a launch has started, has produced a valid artifact, has logged a certain line, or has ended.
    Meanwhile it shows why the job is pending, what would help and when Slurm expects it to start, its nodes, the step
    and loss lines of rank 0 with the remaining time, and restarts.
  - Can wait for many launches at once (O(run_dirs)). Each poll is one command over the connection with at most one
    query to Slurm for all of them.
  - Reads the files that the job writes every five seconds, after a minute every ten, and when the job has written its
    start or its outcome. A single process on the host waits for that. Queries Slurm at growing intervals. All waits of
    one user on one host share a budget of queries (O(queue_budget)).
  - On a terminal, for one launch on one host, steps are shown as a progress bar.
  - The wait ends when the job's own outcome reports success, or when Slurm reports that the job has ended. A job that
    ended without writing its outcome has failed, whatever its state in Slurm. While Slurm does not answer, the wait
    continues.
  - Does not fail if the job fails, so that logs can be fetched next. RV(success) and RV(message) give the result, and
    M(rankzero.slurm.job_report) fails for it.
  - Stops with RV(completed=false) when the job can never start, for instance when a job that it depends on has failed.
  - Ending the wait (Ctrl-C, O(wait_timeout), a lost connection) does not affect the job. Run the same task to attach
    again.
extends_documentation_fragment:
  - rankzero.slurm.store.run
  - rankzero.slurm.store.state
  - rankzero.slurm.wait
  - rankzero.slurm.attributes
attributes:
  check_mode:
    details:
      - Returns the current state without waiting.
  diff_mode:
    support: none
options:
  run_dirs:
    description:
      - The run directories of several launches to wait for together. Replaces O(run_dir), O(name), O(key),
        O(generation) and O(job_id).
    type: list
    elements: path
  first:
    description:
      - With O(run_dirs), the wait ends when so many of the launches have ended, whichever they are; V(0) means all.
    type: int
    default: 0
  until:
    description:
      - What to wait for. The wait always ends when the launch has ended.
      - V(started) until the ranks are being started.
      - V(artifact) until the artifact exists and is valid, checked by the same program as in the job, even while the
        job continues.
      - V(pattern) until a line of a log matches O(pattern).
      - V(finished) until the launch has ended.
    type: str
    choices: [started, artifact, pattern, finished]
    default: finished
  pattern:
    description: A Python regular expression to search for in every line of the log. Used with O(until=pattern).
    type: str
  log:
    description:
      - File name of the log to read instead of the job's default (rank 0's), for example V(rank-0003.log).
    type: str
    default: ""
  logs_dest:
    description:
      - Folder on the controller, as O(rankzero.slurm.job_logs#module:dest).
      - If the launch named by O(run_dir) has ended, and what is new in its logs is at most 1 MiB, the logs come along,
        and RV(logs) is returned.
    type: path
  x_poll:
    description: Internal. Set by the action plugin of this module; a task cannot set it.
    type: dict
  x_settle:
    description: Internal. Set by the action plugin of this module; a task cannot set it.
    type: float
    default: 0.0
  x_asked:
    description: Internal. Set by the action plugin of this module; a task cannot set it.
    type: int
  x_logs:
    description: Internal. Set by the action plugin of this module; a task cannot set it.
    type: dict
seealso:
  - module: rankzero.slurm.job
  - module: rankzero.slurm.job_info
  - module: rankzero.slurm.job_logs
  - module: rankzero.slurm.job_report
"""

EXAMPLES = r"""
- name: Launch
  rankzero.slurm.job:
    job: jobs/gpt.yml
  register: launch

- name: Wait for the result
  rankzero.slurm.job_wait:
    run_dir: "{{ launch.run_dir }}"
  register: result
  failed_when: not result.success

- name: Wait for the first checkpoint
  rankzero.slurm.job_wait:
    run_dir: "{{ launch.run_dir }}"
    until: pattern
    pattern: 'saved checkpoint at iteration \d+'

- name: Wait for all of them
  rankzero.slurm.job_wait:
    run_dirs: "{{ launches | map(attribute='run_dir') }}"
  register: results
  failed_when: not results.success

- name: Wait ten minutes for the start of a job
  rankzero.slurm.job_wait:
    job_id: "1234"
    until: started
    wait_timeout: 600
"""

RETURN = r"""
launches:
  description:
    - With O(run_dirs), one element per launch with the fields below. The other values then summarise all launches.
    - Of more than 20 launches, each is returned with at most 4 KiB. C(left_out) then names the fields of which values
      are missing. M(rankzero.slurm.job_info) returns all of a single launch.
  returned: with O(run_dirs)
  type: list
  elements: dict
matched:
  description: The first line that matched O(pattern), with secrets masked; null if none did.
  returned: success
  type: str
proven:
  description: Whether the wait saw a valid artifact (O(until=artifact)), or the launch has succeeded.
  returned: success
  type: bool
completed:
  description: Whether the launch has finally ended, or with O(run_dirs) all launches.
  returned: success
  type: bool
success:
  description: Whether the newest attempt's outcome reports success, or with O(run_dirs) that of every launch.
  returned: success
  type: bool
standing:
  description: What has become of the launch, in the words of M(rankzero.slurm.job_info).
  returned: success
  type: str
  sample: succeeded
slurm_state:
  description:
    - What Slurm calls the job of the newest attempt; null if Slurm knows no job. If Slurm takes more than three seconds
      to close a job that has written its outcome, this is still V(RUNNING) or V(COMPLETING); RV(standing) does not
      depend on it.
  returned: success
  type: str
  sample: COMPLETED
message:
  description: Result of the launch in a sentence, or why the wait ended before the launch.
  returned: success
  type: str
  sample: the artifact is proven
reason:
  description: Why it is pending and what would help, or how it ended, in words.
  returned: success
  type: str
reason_code:
  description: Slurm's reason code. Empty if Slurm no longer knows the job.
  returned: success
  type: str
never_started:
  description:
    - Whether Slurm ended the job before its script started, because the job's first node could not open the job's log.
      The node then does not see the state root, or the user may not write to it there.
  returned: success
  type: bool
drained:
  description: Nodes that Slurm has drained because of the job, as in M(rankzero.slurm.job_info).
  returned: success
  type: list
  elements: dict
active:
  description: Whether the job is pending, running or may be requeued.
  returned: success
  type: bool
job_id:
  description: The Slurm job that owns the launch.
  returned: success
  type: str
name:
  description: Name of the job spec.
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
attempt:
  description: Number of the newest attempt; 0 is the first.
  returned: success
  type: int
spans:
  description:
    - The times of each attempt in epoch seconds, oldest first. C(attempt), C(began), C(ranks) (when the ranks were
      started), C(proven) (when the artifact was written), C(ended), C(nodes) (their number), C(job_id) and what
      followed. M(rankzero.slurm.job_report) divides the time of the nodes by them and by the logs.
  returned: when one launch is waited for
  type: list
  elements: dict
allocations:
  description: The nodes that Slurm has given the job, as in M(rankzero.slurm.job_info).
  returned: success
  type: list
  elements: dict
attempts:
  description: Every attempt, as M(rankzero.slurm.job_info) returns them.
  returned: success
  type: list
  elements: dict
nodes:
  description: Host names of the nodes.
  returned: success
  type: list
  elements: str
exit_code:
  description: Exit code of the program, or of the batch script if the program's is not known.
  returned: success
  type: int
started_at:
  description: When the newest attempt began, in epoch seconds.
  returned: success
  type: float
finished_at:
  description: When it ended, in epoch seconds.
  returned: success
  type: float
wall_time:
  description: Seconds between the two.
  returned: success
  type: float
artifact:
  description: The artifact as the job found it.
  returned: success
  type: dict
  contains:
    path:
      description: Where it lies on the cluster.
      type: str
    valid:
      description: Whether it is complete, newer than the attempt, and meets its requirements.
      type: bool
    scalars:
      description: Its top-level scalar values.
      type: dict
    errors:
      description: Problems of the artifact, one sentence each.
      type: list
      elements: str
outcome:
  description: The complete outcome written by the job.
  returned: success
  type: dict
progress:
  description:
    - The latest numbers in the log of rank 0, with C(step), C(total), C(loss) and C(tokens_per_second); null if none
      appeared during this wait.
  returned: success
  type: dict
run_dir:
  description: The run directory on the cluster.
  returned: success
  type: str
logs_dir:
  description: The folder of the logs in it.
  returned: success
  type: str
journal:
  description: Journal of the submission, oldest entry first.
  returned: success
  type: list
  elements: dict
logs:
  description:
    - The logs that were fetched, as M(rankzero.slurm.job_logs) returns them. Without it, that module has to fetch them,
      or the rest of them.
  returned: with O(logs_dest), if the launch has ended and its logs are small
  type: dict
source:
  description: The Slurm command that last knew the job, V(squeue), V(scontrol) or V(sacct); null if none did.
  returned: success
  type: str
choice:
  description:
    - Which launch O(name) was taken to mean, with the others of that name, their times and states. It is the newest.
    - Null if only one launch has that name.
  returned: without O(run_dirs)
  type: str
waited:
  description: Seconds of this wait.
  returned: success
  type: float
polls:
  description: Commands over the connection during this wait.
  returned: success
  type: int
slurm_commands:
  description: Number of Slurm commands run.
  returned: success
  type: int
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import WAIT_SPEC


def logic(module: AnsibleModule) -> dict[str, Any]:
    """A poll where the action plugin asks for one, which does the waiting on the controller; else a report. A poll that
    finds the proof, which ends a wait, has the report in it where that was asked for, too.
    """
    # Most calls are polls, which need less than half of what a report is made of: each imports its own.
    if module.params["x_poll"] is not None:
        from ansible_collections.rankzero.slurm.plugins.module_utils.watch.poll import Request
        from ansible_collections.rankzero.slurm.plugins.module_utils.watch.remote_poll import answer

        poll = answer(Request.of(module.params["x_poll"]))
        proven = any(view.outcome is not None and view.outcome.get("success") for view in poll.views)
        last = _reported(module) if proven and module.params["x_settle"] else None
        return {"changed": False, "poll": poll.as_dict(), **({} if last is None else {"report": last})}
    return _reported(module)


def _reported(module: AnsibleModule) -> dict[str, Any]:
    from ansible_collections.rankzero.slurm.plugins.module_utils.report.waited import reported
    from ansible_collections.rankzero.slurm.plugins.module_utils.watch import budget

    result = reported(module.params, check_mode=module.check_mode)
    if module.params["x_asked"] is not None:
        budget.drop(module.params["x_asked"])
    return result


def main() -> None:
    run_module(WAIT_SPEC, logic, supports_check_mode=True)


if __name__ == "__main__":
    main()
