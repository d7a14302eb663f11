#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: course_checkoff
short_description: Say which tasks of a course each student has done, and by whose word
version_added: 0.1.0
author:
  - The rankzero.slurm authors (!UNKNOWN)
description:
  - Reads the run directories of a class that M(rankzero.slurm.course_class) has made, asks accounting once for all
    jobs, and judges each task of each student.
  - A student's files are the student's word. They are compared with Slurm's records (job, user, account, job name,
    working directory, nodes, times, exit code, steps), with the launch key, computed again, and with the times at
    which the file system saw the files change.
  - A task is V(passed) where nothing contradicts it, V(failed) where something does, and V(unproven) where Slurm
    cannot be asked, as on a cluster without accounting.
  - Nothing in a student's folder is followed, waited for or run.
extends_documentation_fragment:
  - rankzero.slurm.attributes
  - rankzero.slurm.attributes.actiongroup_slurm
attributes:
  check_mode:
    support: full
    details:
      - Never changes anything.
  diff_mode:
    support: none
options:
  root:
    description: Folder of the class, as O(rankzero.slurm.course_class#module:root) had it.
    type: path
    required: true
  students:
    description: Ids of those to check. None means all.
    type: list
    elements: str
    default: []
  job:
    description: Name of the job spec that the students launch.
    type: str
    default: ddp-lab
  nodes:
    description:
      - The numbers of nodes to run on. For each there is to be a run. With several the times of an epoch are compared,
        as a task of its own.
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
        C(models_identical), C(hosts), C(epochs) and what O(epoch_time) names, as the program of C(examples/cpu_ddp_lab)
        writes it.
    type: str
    default: result.json
  saved:
    description: Files in the working directory that rank 0 has to have saved.
    type: list
    elements: str
    default: [model.pt]
  epoch_time:
    description: The value in O(artifact) that has the seconds of an epoch.
    type: str
    default: seconds_per_epoch
  code:
    description:
      - Digests of the code that may have run, as M(rankzero.slurm.code_snapshot) has them.
      - None means any. The digest of each is in the evidence.
    type: list
    elements: str
    default: []
  pick:
    description:
      - Which of a student's runs on so many nodes counts, V(latest) or V(best). All are listed.
      - Slurm says which is the latest. The best one has passed the most tasks.
    type: str
    choices: [latest, best]
    default: latest
  clock_slack:
    description: Seconds by which the clocks of the file system, of the nodes and of Slurm's controller may differ.
    type: float
    default: 10.0
  dest:
    description:
      - Folder on the controller for C(COURSE.csv) and C(COURSE.json), relative to the current one.
      - Without it, and in check mode, none are written.
    type: path
  evidence:
    description: Show all evidence of each student, and not only what speaks against a task.
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

- name: One student, with all evidence, whose best run counts
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
  description: V(ok), V(disabled), V(silent), or V(unknown) where there was nothing to ask for.
  returned: success
  type: str
counts:
  description: How many students have V(passed), V(failed) or are V(unproven).
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
      description: V(passed), V(failed) or V(unproven); a failed task decides over an unproven one.
      type: str
    passed:
      description: Number of tasks that are passed.
      type: int
    of:
      description: Number of tasks.
      type: int
    tasks:
      description:
        - C(task) (record, key, preflight, sanity, world_size, saved, epoch_time), C(nodes), C(result) and C(evidence).
        - Each piece of evidence has C(ok) (null is missing), C(text), and C(source), which is V(slurm), V(system) (the
          file system) or V(student).
      type: list
      elements: dict
    runs:
      description:
        - All runs, the oldest first, with C(run_dir), C(nodes), C(job_id), C(generation), C(submitted) (epoch seconds),
          C(state), C(passed), C(of) and C(counts) (whether this is the one).
      type: list
      elements: dict
    notes:
      description: What a person should look at, such as a result that another student has, too.
      type: list
      elements: str
    lines:
      description: All evidence, as lines for people.
      type: list
      elements: str
lines:
  description: The class as a table, then the evidence of what is not passed. They are shown, too.
  returned: success
  type: list
  elements: str
files:
  description: Paths of the tables on the controller, C(csv) and C(json); empty where none were written.
  returned: success
  type: dict
csv:
  description: The class as a table for grading, a line a student.
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
    result = check(slurm, module.params)
    for note in slurm.notes:
        module.warn(note)
    return {"changed": False, **result}


def main() -> None:
    run_module(ACTION_ARGUMENTS, logic, supports_check_mode=True)


if __name__ == "__main__":
    main()
