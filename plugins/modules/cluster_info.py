#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_info
short_description: Say what a Slurm cluster is and what it allows
version_added: 0.1.0
author:
  - The rankzero.slurm authors (!UNKNOWN)
description:
  - Gathers what a launch depends on. Version, controllers, partitions with their limits, states and features of the
    nodes, GPU types, accounting, ways to run containers, and the settings of C(slurm.conf) that decide how a launch
    behaves.
  - Takes at most ten Slurm commands, however many nodes there are, and one of each container command that is there.
    Fails where no controller answers.
  - Lists the nodes that launches leave out, because the preflight of an earlier job found them not to be fit.
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
  state_root:
    description: Folder on the cluster that the launches' C(state_root) names; there the left out nodes are recorded.
    type: path
    default: ~/.rankzero/state
seealso:
  - module: rankzero.slurm.job
  - module: rankzero.slurm.node_exclusion
"""

EXAMPLES = r"""
- name: Look at the cluster
  rankzero.slurm.cluster_info:
  register: found

- name: Show the limits of the default partition
  ansible.builtin.debug:
    msg: "{{ found.partitions | selectattr('default') | first }}"
"""

RETURN = r"""
cluster:
  description: The cluster's name.
  returned: success
  type: str
  sample: lab
version:
  description: Slurm's version.
  returned: success
  type: str
  sample: 22.05.8
controllers:
  description: Each slurmctld, with C(role), C(host) and whether it is C(up).
  returned: success
  type: list
  elements: dict
default_partition:
  description: Where jobs go that name no partition; null where there is none.
  returned: success
  type: str
  sample: batch
partitions:
  description: Every partition that this user can see. Where its nodes differ, the largest numbers are given.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Its name.
      type: str
    default:
      description: Whether it is the default.
      type: bool
    state:
      description: V(up), V(down), V(drain) or V(inact).
      type: str
    max_time:
      description: Longest time limit of a job; null where there is none.
      type: str
      sample: 1-00:00:00
    default_time:
      description: Time limit of a job that asks for none; null where it is the longest.
      type: str
    min_nodes:
      description: Fewest nodes of a job.
      type: int
    max_nodes:
      description: Most nodes of a job; null where only the number of nodes limits it.
      type: int
    total_nodes:
      description: Nodes of the partition.
      type: int
    available_nodes:
      description: Those of them that are not down, drained or reserved.
      type: int
    node_states:
      description: Nodes by state.
      type: dict
      sample: {idle: 6, mixed: 2}
    cpus_per_node:
      description: CPUs of a node.
      type: int
    memory_per_node:
      description: Memory of a node in MiB.
      type: int
    gpus_per_node:
      description: GPUs of a node.
      type: int
    gpu_types:
      description: Types of its GPUs, as the site names them.
      type: list
      elements: str
    features:
      description: Features that a job can ask for with a constraint.
      type: list
      elements: str
    mixed:
      description: Whether its nodes differ in CPUs, memory or devices.
      type: bool
    preempt_mode:
      description: What happens to a job that is preempted here.
      type: str
    grace_time:
      description: Seconds that a preempted job has to end.
      type: int
    allow_accounts:
      description: Accounts that may use it.
      type: str
    deny_accounts:
      description: Accounts that may not.
      type: str
    allow_qos:
      description: QOS that may use it.
      type: str
    deny_qos:
      description: QOS that may not.
      type: str
    allow_groups:
      description: Groups of the system whose members may use it.
      type: str
    qos:
      description: QOS whose limits hold for every job of the partition; empty where it has none.
      type: str
node_states:
  description: Nodes of the whole cluster by state.
  returned: success
  type: dict
  sample: {idle: 8}
features:
  description: Features of all nodes.
  returned: success
  type: list
  elements: str
gpu_types:
  description: Types of GPU of all nodes.
  returned: success
  type: list
  elements: str
accounting:
  description: Whether job accounting is C(available), its C(type), and a C(message) where it is not.
  returned: success
  type: dict
containers:
  description:
    - Ways to run a container that this host shows, C(pyxis), C(enroot), C(apptainer), C(singularity), C(crun), C(runc),
      and C(slurm_oci) (an C(oci.conf), which the collection does not use). Each with C(available) and C(version).
    - What the nodes have may differ; a job looks there before its ranks start.
    - The C(version) of pyxis is what its options tell. Its C(job_level) says whether C(sbatch) knows them, too.
  returned: success
  type: dict
  sample:
    pyxis: {available: true, version: 0.15 or newer, job_level: true}
    enroot: {available: true, version: 3.4.1}
    apptainer: {available: false, version: null}
    singularity: {available: false, version: null}
    crun: {available: true, version: 1.8.1}
    runc: {available: false, version: null}
    slurm_oci: {available: false, version: null}
settings:
  description: Settings of the cluster that decide how a launch behaves. Times are in seconds.
  returned: success
  type: dict
  sample: {max_array_size: 5001, kill_wait: 30, min_job_age: 300, job_requeue: 1, preempt_mode: "OFF"}
mine:
  description: What this user may charge and use, where the cluster enforces accounts, QOS or limits.
  returned: success
  type: dict
  contains:
    user:
      description: The user.
      type: str
    groups:
      description: The groups of the system that this host knows the user in.
      type: list
      elements: str
    enforced:
      description: What C(AccountingStorageEnforce) names; empty where nothing is enforced.
      type: list
      elements: str
    default_account:
      description: The account that is charged where a job names none.
      type: str
    associations:
      description:
        - One for each account (and partition). C(account), C(partition), C(qos) (those that are open to it),
          C(default_qos), and each limit that is set, by sacctmgr's name for it.
      type: list
      elements: dict
    qos:
      description: Each QOS that is open to the user, with C(name), C(flags) and the limits that are set.
      type: list
      elements: dict
    unknown:
      description: What could not be asked, and why.
      type: list
      elements: str
exclusions:
  description: Nodes that launches leave out now, with C(node), C(reason), C(job_id), C(time) and C(expires).
  returned: success
  type: list
  elements: dict
slurm_commands:
  description: How many commands it took.
  returned: success
  type: int
"""

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import DEFAULT_STATE_ROOT
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.cluster import describe
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.excluded_nodes import load, result

ARGUMENT_SPEC = {"state_root": {"type": "path", "default": DEFAULT_STATE_ROOT}}


def logic(module: AnsibleModule) -> dict[str, Any]:
    slurm = Slurm()
    found = describe(slurm)
    # Ansible has put the home in the place of ~.
    found["exclusions"] = result(load(module.params["state_root"], str(found["cluster"]), time.time()))
    for note in slurm.notes:
        module.warn(note)
    return {"changed": False, **found, "slurm_commands": slurm.commands}


def main() -> None:
    run_module(ARGUMENT_SPEC, logic, supports_check_mode=True)


if __name__ == "__main__":
    main()
