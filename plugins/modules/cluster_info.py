#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_info
short_description: Gather facts and limits of a Slurm cluster
version_added: 0.1.0
author: []
description:
  - Gathers the facts that a launch depends on. These are version, controllers, partitions with their limits, states
    and features of the nodes, GPU types, accounting, container runtimes, and the settings of C(slurm.conf) that affect
    a launch.
  - Runs at most ten Slurm commands, regardless of the number of nodes, and each installed container command once.
    Fails if no controller answers.
  - With O(folders), one small job of at most two nodes finds the folders that the nodes share.
  - Lists the nodes that launches exclude because the preflight of an earlier job found them unfit.
options:
  folders:
    description:
      - Folders of which to find out whether the nodes share them, besides the home, C($SCRATCH), C($WORK), C($PROJECT),
        network file systems, and usual places such as C(/scratch). The list may be empty.
      - One job writes into each of them and removes what it has written. It waits at most two minutes for its nodes.
        Without this option, and in check mode, there is no such job.
    type: list
    elements: path
extends_documentation_fragment:
  - rankzero.slurm.store.state
  - rankzero.slurm.attributes.looks
seealso:
  - module: rankzero.slurm.job
  - module: rankzero.slurm.node_exclusion
"""

EXAMPLES = r"""
- name: Look at the cluster
  rankzero.slurm.cluster_info:
  register: found

- name: Find a folder for the state of launches
  rankzero.slurm.cluster_info:
    folders: []
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
  description: The partition of jobs that name none; null if there is no default.
  returned: success
  type: str
  sample: batch
partitions:
  description: Every partition that this user can see. If its nodes differ, the largest values are given.
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
      description: Longest time limit of a job; null if there is none.
      type: str
      sample: 1-00:00:00
    default_time:
      description: Time limit of a job that requests none; null if it is the longest one.
      type: str
    min_nodes:
      description: Minimum number of nodes of a job.
      type: int
    max_nodes:
      description: Maximum number of nodes of a job; null if only the partition's size limits it.
      type: int
    total_nodes:
      description: Number of nodes in the partition.
      type: int
    available_nodes:
      description: Number of nodes that are not down, drained or reserved.
      type: int
    node_states:
      description: Nodes by state.
      type: dict
      sample: {idle: 6, mixed: 2}
    cpus_per_node:
      description: CPUs per node.
      type: int
    memory_per_node:
      description: Memory per node in MiB.
      type: int
    gpus_per_node:
      description: GPUs per node.
      type: int
    gpu_types:
      description: Types of its GPUs, as the site names them.
      type: list
      elements: str
    features:
      description: Features that a job can request with a constraint.
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
      description: QOS whose limits apply to every job of the partition; empty if it has none.
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
  description: Whether job accounting is C(available), its C(type), and a C(message) if it is not.
  returned: success
  type: dict
containers:
  description:
    - Container runtimes that are found on this host, C(pyxis), C(enroot), C(apptainer), C(singularity), C(crun),
      C(runc), and C(slurm_oci) (an C(oci.conf), which the collection does not use). Each with C(available) and
      C(version).
    - The nodes may differ; a job checks them before its ranks start.
    - The C(version) of pyxis is derived from its options. Its C(job_level) says whether C(sbatch) has them too.
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
  description: Settings of the cluster that affect a launch. Times are in seconds.
  returned: success
  type: dict
  sample: {max_array_size: 5001, kill_wait: 30, min_job_age: 300, job_requeue: 1, preempt_mode: "OFF"}
mine:
  description: Accounts, QOS and limits of this user, if the cluster enforces any of them.
  returned: success
  type: dict
  contains:
    user:
      description: The user.
      type: str
    groups:
      description: The user's groups on this host.
      type: list
      elements: str
    enforced:
      description: The values of C(AccountingStorageEnforce); empty if nothing is enforced.
      type: list
      elements: str
    default_account:
      description: The account that is charged if a job names none.
      type: str
    associations:
      description:
        - One for each account (and partition). C(account), C(partition), C(qos) (those it may use),
          C(default_qos), and each limit that is set, by sacctmgr's name for it.
      type: list
      elements: dict
    qos:
      description: Each QOS that the user may use, with C(name), C(flags) and the limits that are set.
      type: list
      elements: dict
    unknown:
      description: Queries that failed, and why.
      type: list
      elements: str
exclusions:
  description: Nodes that launches exclude now, with C(node), C(reason), C(job_id), C(time) and C(expires).
  returned: success
  type: list
  elements: dict
proposal:
  description:
    - What a first job of this user must name, and what it gets. C(partition) and C(account), each null if Slurm chooses
      one itself; C(nodes), C(gpus_per_node) and C(max_time) of its partition.
  returned: success
  type: dict
  sample: {partition: null, account: null, nodes: 2, gpus_per_node: 8, max_time: 1-00:00:00}
shared_folders:
  description:
    - The folders that this host and the nodes share and this user can write, those of O(folders) first, then the home.
      C(path), C(home) (whether it is the home), C(own) (whether it belongs to this user), C(filesystem), C(free_mib).
  returned: if O(folders) is given, not in check mode
  type: list
  elements: dict
slurm_commands:
  description: Number of Slurm commands run.
  returned: success
  type: int
"""

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.cluster import describe
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.excluded_nodes import load, result
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.shared_folders import (
    CLUSTER_SPEC,
    proposal,
    shared_folders,
)


def logic(module: AnsibleModule) -> dict[str, Any]:
    slurm = Slurm()
    description = describe(slurm)
    # Ansible has put the home in the place of ~.
    description["exclusions"] = result(load(module.params["state_root"], str(description["cluster"]), time.time()))
    description["proposal"] = proposed = proposal(description)
    if module.params["folders"] is not None and not module.check_mode:
        description["shared_folders"] = shared_folders(slurm, module.params["folders"], proposed)
    return {"changed": False, **description, "slurm_commands": slurm.commands, "warnings": slurm.notes}


def main() -> None:
    run_module(CLUSTER_SPEC, logic, supports_check_mode=True)


if __name__ == "__main__":
    main()
