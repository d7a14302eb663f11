#!/usr/bin/python
# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_info
short_description: Show which variables a fabric sets, and why
version_added: 0.1.0
author: []
description:
  - Checks the fabrics of a cluster and compares one of them with the site's own files on this host
    (C(/etc/nccl.conf), C(/etc/rccl.conf) and those in the user's home). The files on the nodes may differ.
  - Suggests fabrics that fit the cluster, and what to check if that is not clear.
  - A workaround that has expired causes a warning. It is still set.
extends_documentation_fragment:
  - rankzero.slurm.attributes.looks
options:
  fabric:
    description: Name of a fabric of the collection or of O(fabrics).
    type: str
    default: auto
  fabrics:
    description:
      - The cluster's own fabrics by name, in addition to those of the collection or replacing them
        (C(launch_cluster.fabrics)).
      - Each is a map of variables to a value, or to a map of C(value), C(reason), C(version) and C(expires).
    type: raw
    default: {}
  gpu_types:
    description: Types of the cluster's GPUs, to compare with those that the fabric is meant for.
    type: list
    elements: str
    default: []
  cluster:
    description: The result of M(rankzero.slurm.cluster_info), for RV(suggestions).
    type: dict
    default: {}
  measured:
    description:
      - Fabrics that a fabric check measured and wrote (C(nccl_measured)), to show whether they are in use.
    type: raw
    default: {}
seealso:
  - module: rankzero.slurm.cluster_info
  - module: rankzero.slurm.fabric_report
"""

EXAMPLES = r"""
- name: Gather facts about the cluster
  rankzero.slurm.cluster_info:
  register: cluster

- name: Check its fabric
  rankzero.slurm.fabric_info:
    fabric: roce
    fabrics:
      roce:
        NCCL_NET: IB
        NCCL_NVLS_ENABLE:
          value: "0"
          reason: all-reduce hangs with two jobs on a node
          version: NCCL 2.19
          expires: "2027-06-30"
    cluster: "{{ cluster }}"
  register: found

- name: Show it
  ansible.builtin.debug:
    msg: "{{ found.table }}"
"""

RETURN = r"""
fabric:
  description: Its name.
  returned: success
  type: str
title:
  description: What it is.
  returned: success
  type: str
settings:
  description: Its variables, and those of the site's files that it does not set.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The variable.
      type: str
    value:
      description: Its value.
      type: str
    reason:
      description: Why it is set.
      type: str
    source:
      description: The fabric, the setting of the cluster, or the file that sets it.
      type: str
    version:
      description: For a workaround, the versions that need it.
      type: str
    expires:
      description: For a workaround, its expiry date.
      type: str
    expired:
      description: Whether it has expired.
      type: bool
    replaces:
      description: Files of the site that set another value, with that value.
      type: str
site_files:
  description: The settings of the site's files on this host, by path.
  returned: success
  type: dict
expired:
  description: A sentence for each expired workaround of this fabric and of the cluster's own fabrics.
  returned: success
  type: list
  elements: str
notes:
  description: Possible mismatches.
  returned: success
  type: list
  elements: str
suggestions:
  description:
    - What the cluster C(looks_like), the C(fabrics) that fit (each with C(fabric) and C(reason)), and what to check
      (C(look_at)).
    - Slurm does not know the nodes' networks. M(rankzero.slurm.fabric_report) has suggestions based on the nodes.
  returned: success
  type: dict
  sample:
    looks_like: "this cluster looks like: 2 partitions, 8 GPUs a node (h100)"
    fabrics: [{fabric: infiniband_h100, reason: GPUs h100; if its network is InfiniBand}]
    look_at: ["the networks of the nodes, which a login node cannot see: ..."]
known:
  description: Names of all fabrics that a job can choose.
  returned: success
  type: list
  elements: str
table:
  description: The settings as a table, then measurements, then the suggestions.
  returned: success
  type: list
  elements: str
"""

from datetime import date
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ansible import run_module
from ansible_collections.rankzero.slurm.plugins.module_utils.fabric.report import suggestions
from ansible_collections.rankzero.slurm.plugins.module_utils.fabric.site_files import read_present
from ansible_collections.rankzero.slurm.plugins.module_utils.fabric.suggest import suggest
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.fabric_report import (
    SITE_FILES,
    describe,
    measured,
    parse_conf,
)

ARGUMENT_SPEC = {
    # options of fabric_info: written by make reference
    "fabric": {"type": "str", "default": "auto"},
    "fabrics": {"type": "raw", "default": {}},
    "gpu_types": {"type": "list", "elements": "str", "default": []},
    "cluster": {"type": "dict", "default": {}},
    "measured": {"type": "raw", "default": {}},
    # end of options
}


def logic(module: AnsibleModule) -> dict[str, Any]:
    asked = module.params
    site = {path: parse_conf(text) for path, text in read_present(SITE_FILES).items()}
    description = describe(
        asked["fabric"], asked["fabrics"], site=site, gpu_types=asked["gpu_types"], today=date.today()
    )
    for sentence in description["expired"] + description["notes"]:
        module.warn(sentence)
    description["suggestions"] = suggest(asked["cluster"], {})
    description["table"] += measured(asked["measured"], asked["fabrics"], asked["fabric"])
    description["table"] += suggestions(description["suggestions"]) if asked["cluster"] else []
    return {"changed": False, **description}


def main() -> None:
    run_module(ARGUMENT_SPEC, logic, supports_check_mode=True)


if __name__ == "__main__":
    main()
