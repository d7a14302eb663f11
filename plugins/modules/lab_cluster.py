#!/usr/bin/python

# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: lab_cluster
short_description: Boot or remove a real Slurm cluster on one machine
version_added: 0.1.0
description:
  - Boots a real Slurm cluster with munge, a head and several nodes, on one Debian 12 or Ubuntu machine.
  - The realistic way gives each node its own namespaces, with its own network, address, host name, C(/tmp), C(/run) and
    C(/dev), two interfaces, fake GPU devices and no route to the outside. It needs root.
  - The simple way runs one C(slurmd) per node on this host, each with its own ports. Any user can do that.
  - The cluster keeps running after Ansible ends. Leftovers of a killed start or a reboot are cleaned up.
  - The role P(rankzero.slurm.lab_cluster#role) installs the packages and calls this module.
author:
  - The rankzero.slurm authors (@rankzero)
extends_documentation_fragment: [rankzero.slurm.attributes]
attributes:
  diff_mode:
    support: full
    details: Shows the state and Slurm's configuration files before and after.
options:
  state:
    description:
      - V(present) boots the lab, starts daemons that have ended, and restarts it if its options have changed. A
        restart ends running jobs.
      - V(stopped) ends every process. It keeps Slurm's state, the accounting data and the shared directory.
      - V(restarted) stops and starts it.
      - V(absent) ends every process and removes everything, including the shared directory.
    type: str
    choices: [present, stopped, restarted, absent]
    default: present
  name:
    description: Name of the instance. Instances with different names can run at the same time.
    type: str
    default: lab
  directory:
    description:
      - Directory of the instance. An absolute path without spaces.
      - Default is C(/var/lib/rankzero-lab/NAME) for root and C(~/.local/share/rankzero-lab/NAME) for others.
    type: path
  way:
    description: How nodes are made. V(auto) is V(realistic) for root and V(simple) for others.
    type: str
    choices: [auto, realistic, simple]
    default: auto
  nodes:
    description: Number of nodes, 1 to 80; with O(way=simple) 1 to 1024.
    type: int
    default: 8
  profile:
    description:
      - The kind of site that the lab imitates. V(friendly) has no restrictions.
      - V(site) has the restrictions of real sites. Control groups limit jobs to their cores, memory and devices;
        C(/tmp) is private to a job; what is shared has a long path, is a network file system with caches, also on the
        head, and belongs to the lab's ordinary user (C(labuser), account C(research)), whose home is another on each
        host; jobs without an account are rejected, comments are
        rewritten, and requeues are off unless requested; users see only their own jobs; QOS have limits; one partition
        preempts the other.
      - V(site) needs the realistic way and the packages C(sshfs) and C(openssh-sftp-server). The result C(features)
        says what this machine does not support.
    type: str
    choices: [friendly, site]
    default: friendly
  cpus:
    description:
      - Cores that each node advertises. V(0) is 16; the machine may have fewer.
      - With O(profile=site) V(0) is the number of the machine's cores, and more are refused, because ranks are bound
        to real cores. All nodes share them.
    type: int
    default: 0
  memory:
    description: Memory that each node advertises, in MiB. The machine may have less.
    type: int
    default: 64000
  gpus:
    description: Fake GPUs per node, 0 to 16. Slurm allocates these devices, but they cannot compute.
    type: int
    default: 8
  gpu_type:
    description: The GPUs' type, as in C(gpu:h100:8). Empty means no type; with O(profile=site) it means V(h100).
    type: str
    default: ""
  gres:
    description: Other generic resources of each node that are only counted, as C(NAME:COUNT), such as V(lscratch:500).
    type: list
    elements: str
    default: []
  accounting:
    description: V(slurmdbd) runs slurmdbd with its own MariaDB. V(none) has no accounting, and C(sacct) fails.
    type: str
    choices: [slurmdbd, none]
    default: slurmdbd
  job_comments:
    description: Keep job comments in accounting. Off is also the default of Slurm.
    type: bool
    default: false
  internet:
    description:
      - Give the head access to the internet, by an HTTP proxy on its loopback, as on a login node. Nodes never have it.
      - In the simple way everything runs in the host's network, and this has no effect.
    type: bool
    default: true
  partitions:
    description:
      - Partitions. Each has all nodes. The first is the default unless another has C(default).
      - By default there are C(batch) and C(short) (one hour), with O(profile=site) C(batch) (one day, 15 s of grace)
        and C(urgent) (one hour), which preempts it.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name.
        type: str
        required: true
      max_time:
        description: Time limit of a job, as in C(slurm.conf). Quote times.
        type: str
        default: UNLIMITED
      default:
        description: Whether jobs that name no partition go here.
        type: bool
        default: false
      priority:
        description: Jobs of a partition of higher priority preempt those of a lower one. 1 to 65533.
        type: int
        default: 1
      grace_time:
        description: Seconds between the signal and the end of a preempted job.
        type: int
        default: 0
  slurm_conf:
    description:
      - Lines to add to C(slurm.conf), each C(Key=Value).
      - Lines that begin with C(SwitchName=), C(BlockName=) or C(BlockSizes=) go to C(topology.conf) instead.
      - A line with a key of the lab replaces the lab's.
      - With C(AuthType=auth/slurm), which Slurm has from 23.11 on, the lab has its key.
    type: list
    elements: str
    default: []
  binds:
    description:
      - Host directories to mount on the nodes, writable, at the same path.
      - Programs on the host's root file system do not need this. Nodes see that file system, and their changes to it
        stay on the node.
    type: list
    elements: str
    default: []
  slurm:
    description:
      - The Slurm release of the lab. V(host) is the one installed on this machine.
      - V(24.11) and V(26.05) come with Debian 13 and with Debian unstable. Head and nodes then have a root file system
        of that Debian, with its Python, munge and MariaDB. It needs O(way=realistic).
      - Such a root is built once with C(mmdebstrap) from the Debian archive of this machine's C(apt), and kept below
        C(/var/lib/rankzero-lab/.roots) for all labs. Slurm need not be installed on this machine.
      - The head still has the host's C(/root), C(/home), C(/tmp), C(/opt) and other directories that are not part of
        a distribution. The nodes have O(binds) and the shared directory.
    type: str
    choices: [host, "24.11", "26.05"]
    default: host
  prune:
    description: Afterwards, remove each such root file system that no running lab uses.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Boot a lab of 8 nodes
  rankzero.slurm.lab_cluster:
    state: present
  register: lab

- name: Run sinfo on its head
  ansible.builtin.command:
    argv: ["{{ lab.head }}", sinfo]
  changed_when: false

- name: Boot a small lab without a database
  rankzero.slurm.lab_cluster:
    name: small
    nodes: 2
    accounting: none
    partitions:
      - name: debug
        max_time: "00:10:00"

- name: Boot a lab with the Slurm of Debian 13
  rankzero.slurm.lab_cluster:
    name: newer
    slurm: "24.11"
    nodes: 2

- name: Remove it, and its root file system
  rankzero.slurm.lab_cluster:
    name: newer
    slurm: "24.11"
    state: absent
    prune: true

- name: Remove the small lab with all its data
  rankzero.slurm.lab_cluster:
    name: small
    state: absent
"""

RETURN = r"""
directory:
  description: Directory of the instance.
  returned: success
  type: str
  sample: /var/lib/rankzero-lab/lab
way:
  description: How its nodes are made, V(realistic) or V(simple).
  returned: success
  type: str
  sample: realistic
was:
  description:
    - The state before. One of V(absent), V(stopped), V(running), V(changed) (it ran with other options) and V(broken)
      (only parts of it ran, or a killed start had left processes).
  returned: success
  type: str
  sample: absent
now:
  description: The state now.
  returned: success
  type: str
  sample: running
repaired:
  description: Daemons that were started again, or the number of leftover processes that were ended.
  returned: success
  type: list
  elements: str
  sample: [slurmd on node03]
head:
  description: Program that runs a command on the head.
  returned: success
  type: str
  sample: /var/lib/rankzero-lab/lab/bin/head
shell:
  description: Shell on the head, for C(ansible_shell_executable) with C(ansible_connection=local).
  returned: success
  type: str
  sample: /var/lib/rankzero-lab/lab/bin/sh
inventory:
  description: Inventory file with the head in the group C(slurm_login).
  returned: success
  type: str
  sample: /var/lib/rankzero-lab/lab/inventory.yml
shared:
  description: The shared directory as the host sees it.
  returned: success
  type: str
  sample: /var/lib/rankzero-lab/lab/shared
shared_inside:
  description: The shared directory as head and nodes see it.
  returned: success
  type: str
  sample: /shared
nodes:
  description: Names of the nodes.
  returned: success
  type: list
  elements: str
  sample: [node01, node02]
slurm:
  description: Its Slurm release, as O(slurm).
  returned: success
  type: str
  sample: host
pruned:
  description: Root file systems that were removed.
  returned: success
  type: list
  elements: str
  sample: ["24.11-0123456789ab"]
profile:
  description: Its profile, V(friendly) or V(site).
  returned: success
  type: str
  sample: site
user:
  description: The ordinary user of a lab of the realistic way, empty for others.
  returned: success
  type: str
  sample: labuser
features:
  description: Features of the lab. Each is V(true), or the reason why this machine or profile lacks it.
  returned: success
  type: dict
  sample:
    cgroups: true
    affinity: true
    private_tmp: true
    job_submit: true
    network_share: true
    nfs: this kernel has no NFS client (nfs) and no server (nfsd); sshfs plays the part
cluster_name:
  description: Slurm's name of the cluster.
  returned: success
  type: str
  sample: lab-1f3a
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.lab import roots
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.cluster import apply
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.layout import from_options

ARGUMENTS: dict[str, dict[str, Any]] = {
    # options of lab_cluster: written by make reference
    "state": {"type": "str", "choices": ["present", "stopped", "restarted", "absent"], "default": "present"},
    "name": {"type": "str", "default": "lab"},
    "directory": {"type": "path"},
    "way": {"type": "str", "choices": ["auto", "realistic", "simple"], "default": "auto"},
    "nodes": {"type": "int", "default": 8},
    "profile": {"type": "str", "choices": ["friendly", "site"], "default": "friendly"},
    "cpus": {"type": "int", "default": 0},
    "memory": {"type": "int", "default": 64000},
    "gpus": {"type": "int", "default": 8},
    "gpu_type": {"type": "str", "default": ""},
    "gres": {"type": "list", "elements": "str", "default": []},
    "accounting": {"type": "str", "choices": ["slurmdbd", "none"], "default": "slurmdbd"},
    "job_comments": {"type": "bool", "default": False},
    "internet": {"type": "bool", "default": True},
    "partitions": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "name": {"type": "str", "required": True},
            "max_time": {"type": "str", "default": "UNLIMITED"},
            "default": {"type": "bool", "default": False},
            "priority": {"type": "int", "default": 1},
            "grace_time": {"type": "int", "default": 0},
        },
    },
    "slurm_conf": {"type": "list", "elements": "str", "default": []},
    "binds": {"type": "list", "elements": "str", "default": []},
    "slurm": {"type": "str", "choices": ["host", "24.11", "26.05"], "default": "host"},
    "prune": {"type": "bool", "default": False},
    # end of options
}


def logic(module: AnsibleModule) -> dict[str, object]:
    """Options to a lab, the lab into its state."""
    options = dict(module.params)
    state, prune = options.pop("state"), options.pop("prune")
    results = apply(from_options(options), state, check_mode=module.check_mode).results()
    pruned = roots.prune(check_mode=module.check_mode) if prune else []
    return {**results, "changed": bool(results["changed"] or pruned), "pruned": pruned}


def main() -> None:
    run_module(ARGUMENTS, logic, supports_check_mode=True)


if __name__ == "__main__":
    main()
