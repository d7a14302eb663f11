#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: course_class
short_description: Make a class on a cluster, with a folder, an account and limits for each student
version_added: 0.1.0
author:
  - The rankzero.slurm authors (!UNKNOWN)
description:
  - Makes a folder for each student on shared storage, an account for each below one for the class in Slurm's
    accounting, and the limits of both.
  - What the cluster cannot do is no error. It is said in RV(undone), and the rest is done. A cluster without accounting
    has folders only; a cluster that does not enforce limits has them written down.
  - Logins are the site's business, and none is made here.
  - No folder of a student is ever removed, and nothing is written into one.
extends_documentation_fragment:
  - rankzero.slurm.attributes
  - rankzero.slurm.attributes.actiongroup_slurm
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
options:
  name:
    description:
      - The course. Its account in accounting has this name, and a student's is C(NAME-ID).
      - An account of the site that has such a name is left alone, with an error.
    type: str
    required: true
  students:
    description:
      - The ids of all students. An id consists of small letters, digits, C(.), C(_) and C(-), at most 32 of them, and
        begins with a letter or a digit.
      - Who was listed before and is not any more keeps folder and account, and is named in RV(former).
      - Needed with O(state=present).
    type: list
    elements: str
    default: []
  root:
    description: Folder of the class on storage that all nodes see.
    type: path
    required: true
  mode:
    description:
      - With V(accounts) a student's id is his login on the cluster. His folder is his own; giving it to him needs root.
      - With V(projects) all share the login that the task runs as, and a student is a folder and an account.
    type: str
    choices: [projects, accounts]
    default: projects
  store:
    description:
      - With O(mode=projects), folder for the code and the environments of all. Empty means C(store) in O(root).
    type: path
    default: ""
  group:
    description: A group whose members may read the folders of the students. Empty means nobody but the owner.
    type: str
    default: ""
  accounting:
    description:
      - V(auto) makes accounts and limits as far as accounting is there and lets the user of the task.
      - V(required) fails where anything of that cannot be had. V(off) does not ask.
    type: str
    choices: [auto, required, "off"]
    default: auto
  parent:
    description: The account in accounting under which the one of the class stands.
    type: str
    default: root
  limits:
    description: The most that a student's jobs may have together. What is left away is not limited.
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
    description: The most that the jobs of the whole class may have together.
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
  state:
    description: V(absent) removes the accounts, the record of the class and the students' variables. All folders stay.
    type: str
    choices: [present, absent]
    default: present
seealso:
  - module: rankzero.slurm.course_checkoff
"""

EXAMPLES = r"""
- name: A class whose students share a login
  rankzero.slurm.course_class:
    name: ddp
    root: /shared/course/ddp
    students: [ada, ben]
    limits: {nodes: 5, jobs: 2, time: "00:20:00"}
  register: class

- name: What this cluster could not do
  ansible.builtin.debug:
    var: class.undone

- name: A class of people with logins of their own, whose teachers are in group staff
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
      description: What they are charged to; null where there is no accounting.
      type: str
    folder:
      description: The student's folder.
      type: str
    vars:
      description: File with the student's C(launch_cluster), for C(ansible-playbook -e @FILE).
      type: str
    launch_cluster:
      description: What is in it.
      type: dict
former:
  description: Ids of those who were listed before. With O(state=absent) all.
  returned: success
  type: list
  elements: str
changes:
  description: What was made so, or would be in check mode, a line each.
  returned: success
  type: list
  elements: str
undone:
  description: What this cluster, or this user, could not do, in sentences.
  returned: success
  type: list
  elements: str
enforced:
  description: Whether Slurm holds the students to their limits.
  returned: success
  type: bool
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module

# Before anything else is imported, which an old Python may not be able to.
# isort: split
from ansible_collections.rankzero.slurm.plugins.module_utils.course.classes import ARGUMENTS, change
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm


def logic(module: AnsibleModule) -> dict[str, Any]:
    result = change(Slurm(), module.params, check_mode=module.check_mode)
    for sentence in result["undone"]:
        module.warn(sentence)
    return result


def main() -> None:
    run_module(ARGUMENTS, logic, supports_check_mode=True, required_if=[("state", "present", ("students",))])


if __name__ == "__main__":
    main()
