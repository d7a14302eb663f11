#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: course_checkoff
short_description: Check which tasks of a course each student has completed, and by what evidence
version_added: 0.1.0
author: []
description:
  - Reads the run directories of a class that M(rankzero.slurm.course_class) created, asks accounting once for all
    jobs, and checks each task of each student.
  - A student's files are only the student's claim. They are compared with Slurm's records (job, user, account, job
    name, working directory, nodes, times, exit code, steps), with the launch key, which is computed again, and with
    the change times that the file system recorded.
  - A task is V(passed) if nothing contradicts it, V(failed) if something does, and V(unproven) if Slurm cannot be
    asked, as on a cluster without accounting.
  - No link in a student's folder is followed, no pipe is opened, and nothing is executed.
extends_documentation_fragment:
  - rankzero.slurm.attributes.looks
options:
  root:
    description: Folder of the class, the O(rankzero.slurm.course_class#module:root) it was created with.
    type: path
    required: true
  students:
    description: Ids of the students to check. An empty list means all.
    type: list
    elements: str
    default: []
  job:
    description: Name of the job spec that the students launch.
    type: str
    default: ddp-lab
  nodes:
    description:
      - The numbers of nodes. Each needs a run. With several numbers, comparing the times of an epoch is a task as
        well.
    type: list
    elements: int
    default: [3, 5]
  ranks_per_node:
    description: Ranks on each node.
    type: int
    default: 2
  artifact:
    description:
      - JSON file in the working directory of a run with C(world_size), C(ranks), C(world_size_proven),
        C(models_identical), C(hosts), C(epochs) and the value named by O(epoch_time), as the program of
        C(examples/cpu_ddp_lab) writes it.
    type: str
    default: result.json
  saved:
    description: Files that rank 0 must have saved in the working directory.
    type: list
    elements: str
    default: [model.pt]
  epoch_time:
    description: The value in O(artifact) with the seconds per epoch.
    type: str
    default: seconds_per_epoch
  code:
    description:
      - Allowed digests of the code, as M(rankzero.slurm.code_snapshot) returns them.
      - An empty list means any code. The digest of each run is in the evidence.
    type: list
    elements: str
    default: []
  pick:
    description:
      - Which of a student's runs on a number of nodes counts, V(latest) or V(best). All are listed.
      - The latest is decided by Slurm's records. The best has passed the most tasks.
    type: str
    choices: [latest, best]
    default: latest
  clock_slack:
    description: Seconds by which the clocks of the file system, of the nodes and of Slurm's controller may differ.
    type: float
    default: 10.0
  dest:
    description:
      - Folder on the controller for C(COURSE.csv) and C(COURSE.json), relative to the working directory.
      - Without it, and in check mode, no files are written.
    type: path
  evidence:
    description: Show all evidence of each student, not only that against a task.
    type: bool
    default: false
seealso:
  - module: rankzero.slurm.course_class
  - module: rankzero.slurm.job_info
"""

EXAMPLES = r"""
- name: Check the class, and write the tables for grading
  rankzero.slurm.course_checkoff:
    root: /shared/course/ddp
    dest: checkoff

- name: Check the best run of one student, and show all evidence
  rankzero.slurm.course_checkoff:
    root: /shared/course/ddp
    students: [ada]
    pick: best
    evidence: true
"""

RETURN = r"""
course:
  description: The course.
  returned: success
  type: str
accounting:
  description: V(ok), V(disabled), V(silent), or V(unknown) if there were no jobs to ask about.
  returned: success
  type: str
counts:
  description: Number of students that are V(passed), V(failed) and V(unproven).
  returned: success
  type: dict
students:
  description: The students, in the order of the class.
  returned: success
  type: list
  elements: dict
  contains:
    id:
      description: The student.
      type: str
    result:
      description: V(passed), V(failed) or V(unproven). A failed task outweighs an unproven one.
      type: str
    passed:
      description: Number of tasks passed.
      type: int
    of:
      description: Number of tasks.
      type: int
    tasks:
      description:
        - C(task) (record, key, preflight, sanity, world_size, saved, epoch_time), C(nodes), C(result) and C(evidence).
        - Each piece of evidence has C(ok) (null if unknown), C(text), and C(source), which is V(slurm), V(system) (the
          file system) or V(student).
      type: list
      elements: dict
    runs:
      description:
        - All runs, the oldest first, with C(run_dir), C(nodes), C(job_id), C(generation), C(submitted) (epoch seconds),
          C(state), C(passed), C(of) and C(counts) (whether this run counts).
      type: list
      elements: dict
    notes:
      description: Points for a person to check, such as a result that another student has as well.
      type: list
      elements: str
    lines:
      description: All evidence, as lines of text.
      type: list
      elements: str
lines:
  description: The class as a table, then the evidence against tasks that are not passed. They are also displayed.
  returned: success
  type: list
  elements: str
files:
  description: Paths of the tables on the controller, C(csv) and C(json); empty if none were written.
  returned: success
  type: dict
csv:
  description: The class as a table for grading, one line per student.
  returned: success
  type: str
slurm_commands:
  description: Number of Slurm commands run.
  returned: success
  type: int
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module

# Before anything else is imported, which an old Python may not be able to.
# isort: split
from ansible_collections.rankzero.slurm.plugins.module_utils.course.checkoff import ACTION_ARGUMENTS, check
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm


def logic(module: AnsibleModule) -> dict[str, Any]:
    slurm = Slurm()
    return {"changed": False, **check(slurm, module.params), "warnings": slurm.notes}


def main() -> None:
    run_module(ACTION_ARGUMENTS, logic, supports_check_mode=True)


if __name__ == "__main__":
    main()
