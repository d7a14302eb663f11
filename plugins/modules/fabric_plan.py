#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_plan
short_description: Plan an all-reduce sweep over nodes
version_added: 0.1.0
author: []
description:
  - Creates the job spec of a sweep for M(rankzero.slurm.job). The job measures all-reduces in rounds of disjoint pairs
    of nodes and then over all nodes at once, from small sizes to large ones, and compares candidate settings.
  - The playbook C(rankzero.slurm.fabric) plans, launches and reports.
extends_documentation_fragment:
  - rankzero.slurm.attributes.looks
options:
  src:
    description: Folder on the controller with the program of the sweep, C(playbooks/files/fabric) of this collection.
    type: str
    required: true
  nodes:
    description: The nodes to measure, as names or host lists such as V(node[01-04]).
    type: list
    elements: str
    default: []
  count:
    description: Number of nodes, in place of O(nodes). Slurm chooses them.
    type: int
    default: 0
  method:
    description:
      - How to measure. V(nccl_tests) uses C(all_reduce_perf) of nccl-tests on nodes with GPUs, V(torch) the torch of
        the job's Python with NCCL or Gloo. V(tcp) sends the traffic of an all-reduce, without the sums, and needs only
        Python.
      - V(auto) takes the first of these that all nodes have, and says why.
    type: str
    choices: [auto, nccl_tests, torch, tcp]
    default: auto
  all_reduce_perf:
    description:
      - Path of C(all_reduce_perf) on the nodes, built with MPI. By default it is looked up in the job's C(PATH).
    type: str
    default: ""
  mpi:
    description: The value of C(srun --mpi) for that program.
    type: str
    default: pmix
  sizes:
    description: Sizes of the all-reduces, from small to large.
    type: dict
    default: {}
    suboptions:
      min:
        description: Smallest size, such as V(64K).
        type: str
        default: 1K
      max:
        description: Upper limit of the sizes.
        type: str
        default: 256M
      factor:
        description: Factor from one size to the next.
        type: int
        default: 8
  rounds:
    description:
      - Rounds of disjoint pairs. In each round every node has a different partner. All pairs of N nodes take N - 1
        rounds.
    type: int
    default: 3
  seconds:
    description: Time limit of each measurement. A measurement that is cut off is reported with the bandwidth up to
      then.
    type: int
    default: 20
  candidates:
    description:
      - Settings to compare with the current ones, by name. Each is a map of environment variables, or empty for the
        fabric of that name.
      - Without candidates, the interfaces that all nodes have are compared, unless NCCL chooses its adapters.
    type: dict
    default: {}
  fabric:
    description: The current fabric of this cluster's jobs (C(launch_cluster.fabric)).
    type: str
    default: auto
  fabrics:
    description: The cluster's own fabrics by name (C(launch_cluster.fabrics)).
    type: raw
    default: {}
seealso:
  - module: rankzero.slurm.fabric_report
  - module: rankzero.slurm.job
"""

EXAMPLES = r"""
- name: Plan a sweep over four nodes
  rankzero.slurm.fabric_plan:
    src: "{{ playbook_dir }}/files/fabric"
    nodes: ["node[01-04]"]
    candidates:
      both_rails: {NCCL_IB_HCA: "=mlx5_0,mlx5_3"}
      roce:
  register: planned

- name: Run it
  rankzero.slurm.job:
    job: "{{ planned.job }}"
"""

RETURN = r"""
job:
  description: The job spec.
  returned: success
  type: dict
nodes:
  description: Number of nodes.
  returned: success
  type: int
lines:
  description: The plan as lines of text.
  returned: success
  type: list
  elements: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.fabric.plan import METHODS, plan
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm, expand_nodes

ARGUMENT_SPEC = {
    "src": {"type": "str", "required": True},
    "nodes": {"type": "list", "elements": "str", "default": []},
    "count": {"type": "int", "default": 0},
    "method": {"type": "str", "choices": list(METHODS), "default": "auto"},
    "all_reduce_perf": {"type": "str", "default": ""},
    "mpi": {"type": "str", "default": "pmix"},
    "sizes": {
        "type": "dict",
        "default": {},
        "apply_defaults": True,
        "options": {
            "min": {"type": "str", "default": "1K"},
            "max": {"type": "str", "default": "256M"},
            "factor": {"type": "int", "default": 8},
        },
    },
    "rounds": {"type": "int", "default": 3},
    "seconds": {"type": "int", "default": 20},
    "candidates": {"type": "dict", "default": {}},
    "fabric": {"type": "str", "default": "auto"},
    "fabrics": {"type": "raw", "default": {}},
}


def logic(module: AnsibleModule) -> dict[str, Any]:
    names = expand_nodes(Slurm(), ",".join(module.params["nodes"]))
    return {"changed": False, **plan(module.params, names)}


def main() -> None:
    run_module(ARGUMENT_SPEC, logic, supports_check_mode=True)


if __name__ == "__main__":
    main()
