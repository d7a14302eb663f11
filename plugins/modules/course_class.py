#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: course_class
short_description: Create a class on a cluster, with a folder, an account and limits for each student
version_added: 0.1.0
author: []
description:
  - Creates a folder for each student on shared storage. In Slurm's accounting it creates an account for the class, one
    below it for each student, and the limits of both.
  - If the cluster does not support a part of this, the part is listed in RV(undone) and the rest is done. Without
    accounting there are only folders. Limits are recorded even if the cluster does not enforce them.
  - It does not create logins.
  - It never removes a student's folder, and writes nothing into it.
extends_documentation_fragment:
  - rankzero.slurm.attributes
attributes:
  diff_mode:
    support: full
options:
  name:
    description:
      - The course. Its account in accounting has this name, and a student's is C(NAME-ID).
      - If the site already has an account of that name, it is not changed, and the module fails.
    type: str
    required: true
  students:
    description:
      - The ids of all students. An id consists of lower-case letters, digits, C(.), C(_) and C(-), at most 32 of them,
        and begins with a letter or a digit.
      - A student who is no longer listed keeps folder and account, and is named in RV(former).
      - Required with O(state=present).
    type: list
    elements: str
    default: []
  root:
    description: Folder of the class on storage that all nodes see.
    type: path
    required: true
  mode:
    description:
      - With V(accounts) a student's id is their login on the cluster, and they own their folder. This needs root.
      - With V(projects) all share the login that runs the task, and a student is a folder and an account.
    type: str
    choices: [projects, accounts]
    default: projects
  store:
    description:
      - With O(mode=projects), the folder for code and environments of all students. Empty means C(store) in
        O(root).
    type: path
    default: ""
  group:
    description: A group whose members may read the students' folders. Empty means only the owner.
    type: str
    default: ""
  accounting:
    description:
      - V(auto) creates accounts and limits if there is accounting and the user of the task has the permission.
      - V(required) fails if any of that is not possible. V(off) does not use accounting.
    type: str
    choices: [auto, required, "off"]
    default: auto
  parent:
    description: The parent of the class's account in accounting.
    type: str
    default: root
  limits:
    description: Limits for all jobs of one student together. Resources that are not listed are not limited.
    type: dict
    default: {}
    suboptions:
      nodes:
        description: Nodes at once.
        type: int
      cpus:
        description: CPUs at once.
        type: int
      gpus:
        description: GPUs at once.
        type: int
      jobs:
        description: Jobs that wait or run.
        type: int
      time:
        description: Time limit of one job, as V(00:30:00), in quotes.
        type: str
      cpu_minutes:
        description: CPU minutes in the whole course.
        type: int
  class_limits:
    description: Limits for all jobs of the class together.
    type: dict
    default: {}
    suboptions:
      nodes:
        description: Nodes at once.
        type: int
      cpus:
        description: CPUs at once.
        type: int
      gpus:
        description: GPUs at once.
        type: int
      jobs:
        description: Jobs that wait or run.
        type: int
      cpu_minutes:
        description: CPU minutes in the whole course.
        type: int
  exercise:
    description:
      - Folder on the controller, which is copied to C(exercise) in O(root) as one archive. Empty means that nothing is
        copied.
      - Only files that differ are sent, and no file is removed there.
      - In a git work tree, the files that git ignores are left out. Elsewhere, the usual debris is.
    type: str
    default: ""
  state:
    description: V(absent) removes the accounts, the class record and the students' variables. It keeps all folders.
    type: str
    choices: [present, absent]
    default: present
  x_request:
    description: Internal. Set by the action plugin of this module; a task cannot set it.
    type: dict
seealso:
  - module: rankzero.slurm.course_checkoff
"""

EXAMPLES = r"""
- name: Create a class whose students share a login
  rankzero.slurm.course_class:
    name: ddp
    root: /shared/course/ddp
    students: [ada, ben]
    limits: {nodes: 5, jobs: 2, time: "00:20:00"}
  register: class

- name: Show what this cluster could not do
  ansible.builtin.debug:
    var: class.undone

- name: Create a class whose students have their own logins, with teachers in group staff
  rankzero.slurm.course_class:
    name: ddp
    root: /shared/course/ddp
    mode: accounts
    group: staff
    students: "{{ lookup('ansible.builtin.file', 'students.txt').splitlines() }}"
    class_limits: {nodes: 20}
  become: true
"""

RETURN = r"""
students:
  description: The class.
  returned: success
  type: list
  elements: dict
  contains:
    id:
      description: The student.
      type: str
    user:
      description: The login of the student's jobs.
      type: str
    account:
      description: The account that is charged; null without accounting.
      type: str
    folder:
      description: The student's folder.
      type: str
    vars:
      description: File with the student's C(launch_cluster), for C(ansible-playbook -e @FILE).
      type: str
    command:
      description: The command line with which the student launches, with the inventory of this run.
      type: str
      sample: ansible-playbook -i inventory/login_node.yml train.yml -e @/shared/course/ddp/vars/ada.json
    launch_cluster:
      description: The content of that file.
      type: dict
former:
  description: Ids that are no longer listed. With O(state=absent) all of them.
  returned: success
  type: list
  elements: str
changes:
  description: The changes that were made, or would be made in check mode, one per line.
  returned: success
  type: list
  elements: str
undone:
  description: What this cluster does not support or this user may not do, in sentences.
  returned: success
  type: list
  elements: str
enforced:
  description: Whether Slurm enforces the limits.
  returned: success
  type: bool
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module

# Before anything else is imported, which an old Python may not be able to.
# isort: split
from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import COURSE_CLASS, REQUEST
from ansible_collections.rankzero.slurm.plugins.module_utils.course.classes import change
from ansible_collections.rankzero.slurm.plugins.module_utils.course.exercise import ExerciseRequest, hand_out, lacking
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm


def logic(module: AnsibleModule) -> dict[str, Any]:
    request = ExerciseRequest.of(module.params["x_request"] or {})
    if request.archive:
        return {"changes": hand_out(module.params["root"], request.archive)}
    result = change(Slurm(), module.params, check_mode=module.check_mode)
    for sentence in result["undone"]:
        module.warn(sentence)
    return {**result, "lacking": lacking(module.params["root"], request.files)}


def main() -> None:
    run_module(
        {**COURSE_CLASS, **REQUEST},
        logic,
        publishes=True,
        supports_check_mode=True,
        required_if=[("state", "present", ("students",))],
    )


if __name__ == "__main__":
    main()
