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
  - The realistic way gives each node namespaces of its own, with an own network, address, host name, C(/tmp), C(/run)
    and C(/dev), two interfaces, fake GPU devices and no route to the outside. It needs root.
  - The simple way runs one C(slurmd) a node on this host, with ports of their own. Any user can do that.
  - Everything goes on running after Ansible has ended. What a killed start or a reboot left is found and cleared.
  - The role P(rankzero.slurm.lab_cluster#role) installs the packages and calls this module.
author:
  - The rankzero.slurm authors (@rankzero)
extends_documentation_fragment:
  - rankzero.slurm.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details: Shows the state and Slurm's configuration files before and after.
options:
  state:
    description:
      - V(present) boots the lab, mends what has ended in it, and starts it anew when its options have changed. Running
        jobs end with such a start.
      - V(stopped) ends every process. Slurm's state, the accounting data and the shared directory stay.
      - V(restarted) stops and starts it.
      - V(absent) ends every process and removes everything, the shared directory included.
    type: str
    choices: [present, stopped, restarted, absent]
    default: present
  name:
    description: Name of the instance. Instances of different names run beside each other.
    type: str
    default: lab
  directory:
    description:
      - Where the instance lives. An absolute path without spaces.
      - Not given, it is C(/var/lib/rankzero-lab/NAME) for root and C(~/.local/share/rankzero-lab/NAME) for others.
    type: path
  way:
    description: How nodes are made. V(auto) is V(realistic) for root and V(simple) for others.
    type: str
    choices: [auto, realistic, simple]
    default: auto
  nodes:
    description: Number of nodes, 1 to 64.
    type: int
    default: 8
  profile:
    description:
      - What kind of site the lab plays. V(friendly) stands in nobody's way.
      - V(site) does what real sites do. Control groups hold jobs to their cores, memory and devices; C(/tmp) is private
        to a job; C(/shared) comes over a network file system that caches, on the head too; an ordinary user
        (C(labuser), account C(research)) owns it; jobs without an account are rejected, comments rewritten, requeues
        off unless asked for; one sees one's own jobs only; QOS have limits; one partition preempts the other.
      - V(site) needs the realistic way and the packages C(sshfs) and C(openssh-sftp-server). The result C(features)
        says what this machine cannot do.
    type: str
    choices: [friendly, site]
    default: friendly
  cpus:
    description:
      - Cores that each node advertises. V(0) is 16; the machine may have fewer.
      - With O(profile=site) V(0) is as many as the machine has, and more are refused, because ranks are bound to real
        ones. All nodes share them.
    type: int
    default: 0
  memory:
    description: Memory that each node advertises, in MiB. The machine may have less.
    type: int
    default: 64000
  gpus:
    description: Fake GPUs a node, 0 to 16. They are devices that Slurm allocates and that nothing can compute on.
    type: int
    default: 8
  gpu_type:
    description: The GPUs' type, as in C(gpu:h100:8). Empty is none, with O(profile=site) it is V(h100).
    type: str
    default: ""
  gres:
    description: Other generic resources of each node that are only counted, as C(NAME:COUNT), such as V(lscratch:500).
    type: list
    elements: str
    default: []
  accounting:
    description: V(slurmdbd) runs slurmdbd on a MariaDB of its own. V(none) has no accounting, C(sacct) then fails.
    type: str
    choices: [slurmdbd, none]
    default: slurmdbd
  job_comments:
    description: Keep job comments in the accounting. Off is the default of sites, too.
    type: bool
    default: false
  internet:
    description:
      - Give the head a way out, an HTTP proxy on its own loopback, as a login node has. Nodes never have one.
      - In the simple way everything runs in the host's network, and this has no effect.
    type: bool
    default: true
  partitions:
    description:
      - Partitions. Each has all nodes. The first is the default unless another says so.
      - Where none is given there are C(batch) and C(short) (an hour). With O(profile=site) there are C(batch) (a day,
        15 s of grace) and C(urgent) (an hour), which preempts it.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name.
        type: str
        required: true
      max_time:
        description: Longest job, as C(slurm.conf) writes it. Quote times.
        type: str
        default: UNLIMITED
      default:
        description: Take jobs that name no partition.
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
    description: Lines to add to C(slurm.conf), each C(Key=Value).
    type: list
    elements: str
    default: []
  binds:
    description:
      - Host directories to show on the nodes as they are, writable, at the same path.
      - Programs on the host's root file system need none of this. Nodes read through to it, and what they write there
        stays on the node.
    type: list
    elements: str
    default: []
  slurm:
    description:
      - Which Slurm the lab runs. V(host) is what is installed on this machine.
      - V(24.11) and V(26.05) come with Debian 13 and with Debian unstable. Head and nodes then have a root file system
        of that Debian, with its Python, munge and MariaDB. It needs O(way=realistic).
      - Such a root is built once, by C(mmdebstrap) out of the Debian archive that the C(apt) of this machine uses, and
        kept below C(/var/lib/rankzero-lab/.roots) for all labs. Nothing of Slurm has to be installed on this machine.
      - The head still has the host's C(/root), C(/home), C(/tmp), C(/opt) and other directories that belong to no
        distribution. The nodes have O(binds) and the shared directory.
    type: str
    choices: [host, "24.11", "26.05"]
    default: host
  prune:
    description: Afterwards, remove every such root file system that no running lab uses.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Boot a lab of 8 nodes
  rankzero.slurm.lab_cluster:
    state: present
  register: lab

- name: Ask it
  ansible.builtin.command:
    argv: ["{{ lab.head }}", sinfo]
  changed_when: false

- name: A small lab for a test, without a database
  rankzero.slurm.lab_cluster:
    name: small
    nodes: 2
    accounting: none
    partitions:
      - name: debug
        max_time: "00:10:00"

- name: A lab with the Slurm of Debian 13
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

- name: Remove it with everything that is in it
  rankzero.slurm.lab_cluster:
    name: small
    state: absent
"""

RETURN = r"""
directory:
  description: Where the instance lives.
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
    - What was found. One of V(absent), V(stopped), V(running), V(changed) (it ran with other options) and V(broken)
      (parts of it ran, or a killed start had left processes).
  returned: success
  type: str
  sample: absent
now:
  description: What there is now.
  returned: success
  type: str
  sample: running
repaired:
  description: What had ended and was started again, or how many leftover processes were cleared.
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
  description: Which Slurm it runs, as O(slurm).
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
  description: What kind of site it plays, V(friendly) or V(site).
  returned: success
  type: str
  sample: site
user:
  description: The ordinary user of a lab of profile V(site), empty for others.
  returned: success
  type: str
  sample: labuser
features:
  description: What the lab enforces. Each is V(true), or the reason why this machine or profile does not.
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

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.lab import roots
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.cluster import STATES, apply
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.layout import ACCOUNTING, PROFILES, from_options
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.release import CHOICES, HOST

ARGUMENTS = {
    "state": {"type": "str", "choices": list(STATES), "default": "present"},
    "name": {"type": "str", "default": "lab"},
    "directory": {"type": "path"},
    "way": {"type": "str", "choices": ["auto", "realistic", "simple"], "default": "auto"},
    "nodes": {"type": "int", "default": 8},
    "profile": {"type": "str", "choices": list(PROFILES), "default": "friendly"},
    "cpus": {"type": "int", "default": 0},
    "memory": {"type": "int", "default": 64000},
    "gpus": {"type": "int", "default": 8},
    "gpu_type": {"type": "str", "default": ""},
    "gres": {"type": "list", "elements": "str", "default": []},
    "accounting": {"type": "str", "choices": list(ACCOUNTING), "default": "slurmdbd"},
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
    "slurm": {"type": "str", "choices": list(CHOICES), "default": HOST},
    "prune": {"type": "bool", "default": False},
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
