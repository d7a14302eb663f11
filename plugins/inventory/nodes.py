# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inventory of a Slurm cluster's nodes. Variables and groups are computed in module_utils/slurm/nodes."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nodes
short_description: Nodes of a Slurm cluster as hosts
version_added: 0.1.0
description:
  - Makes a host of every node that C(scontrol show node) names, with its state, partitions, features, GPUs, CPUs and
    memory as variables that begin with C(slurm_).
  - All hosts are in the group C(slurm_nodes), and in C(partition_NAME), C(state_NAME), C(flag_NAME), C(feature_NAME)
    and C(gpu_TYPE). Characters that a group's name cannot have become C(_).
  - Asks with one command, whatever the number of nodes. The command may run elsewhere, as on a login node by SSH.
  - A configuration file is one whose name ends in C(slurm_nodes.yml) or C(slurm_nodes.yaml).
extends_documentation_fragment:
  - constructed
  - inventory_cache
options:
  plugin:
    description: Says that the file belongs to this plugin.
    type: str
    required: true
    choices: [rankzero.slurm.nodes]
  command:
    description:
      - The words that run scontrol. The controller often has no Slurm; then the command is that of another host, such
        as V([ssh, login, scontrol]).
      - Nobody can answer it. Give ssh its C(BatchMode=yes), so that a missing key is an error.
    type: list
    elements: str
    default: [scontrol]
  partitions:
    description:
      - Leave out nodes that are in none of these partitions.
    type: list
    elements: str
    default: []
  group_by:
    description:
      - Kinds of groups to make.
    type: list
    elements: str
    choices: [partition, state, flag, feature, gpu]
    default: [partition, state, flag, feature, gpu]
  timeout:
    description:
      - Seconds to wait for the command.
    type: int
    default: 60
seealso:
  - module: rankzero.slurm.cluster_info
notes:
  - A node's address is RV(ignore:slurm_address). Where nodes are not reached by their names, set C(ansible_host) to it
    with O(compose).
"""

EXAMPLES = r"""
---
# cluster.slurm_nodes.yml, on a host of the cluster
plugin: rankzero.slurm.nodes
---
# From a laptop, and only the nodes with GPUs
plugin: rankzero.slurm.nodes
command: [ssh, -o, BatchMode=yes, login, scontrol]
partitions: [gpu]
compose:
  ansible_host: slurm_address
  ansible_ssh_common_args: "'-J login'"
groups:
  ready: slurm_available and slurm_gpus > 0
keyed_groups:
  - key: (slurm_memory // 1024) | string
    prefix: gib
cache: true
cache_plugin: ansible.builtin.jsonfile
cache_connection: .cache/inventory
cache_timeout: 300
"""

import os
from typing import Any

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable
from ansible.utils.unsafe_proxy import wrap_var

from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import nodes
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import run_command, scrubbed

ALL = "slurm_nodes"


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    NAME = "rankzero.slurm.nodes"

    def verify_file(self, path: str) -> bool:
        return super().verify_file(path) and path.endswith((f"{ALL}.yml", f"{ALL}.yaml"))

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        known = self._known(path, cache)
        wanted = set(self.get_option("partitions"))
        present = {name for host in known for name in host["slurm_partitions"]}
        if unknown := sorted(wanted - present):
            raise AnsibleParserError(
                f"partitions: no nodes in {', '.join(unknown)}; partitions with nodes: {', '.join(sorted(present))}"
            )
        self.inventory.add_group(ALL)
        for host in known:
            if not wanted or wanted & set(host["slurm_partitions"]):
                self._add(host)

    def _known(self, path: str, cache: bool) -> list[dict[str, Any]]:
        """The variables of each host, from the cache if it is enabled and has them."""
        self.load_cache_plugin()
        key = self.get_cache_key(path)
        if cache and self.get_option("cache"):
            try:
                return list(self._cache[key])
            except KeyError:
                pass  # not in the cache, or expired
        known = [nodes.variables(node) for node in self._asked()]
        if self.get_option("cache"):
            self._cache[key] = known
        return known

    def _asked(self) -> list[nodes.Node]:
        command = [*self.get_option("command"), *nodes.QUESTION]
        command_line = " ".join(command)
        try:
            result = run_command(command, self.get_option("timeout"), scrubbed(os.environ))
        except OSError as error:
            raise AnsibleParserError(
                f"command: {command_line!r} cannot be run: {error.strerror}; name the words that run scontrol, for "
                "example [ssh, -o, BatchMode=yes, login, scontrol]"
            ) from error
        if result.timed_out:
            raise AnsibleParserError(
                f"command: {command_line!r} has not answered within {self.get_option('timeout')} s (timeout)"
            )
        parsed = nodes.parse_nodes(result.stdout)
        if result.rc or not parsed:
            complaint = result.stderr.strip() or result.stdout.strip() or "it printed no node name"
            raise AnsibleParserError(f"command: {command_line!r} failed with exit status {result.rc}: {complaint}")
        return parsed

    def _add(self, host: dict[str, Any]) -> None:
        name, strict = host["slurm_node"], self.get_option("strict")
        self.inventory.add_host(name, group=ALL)
        for variable, value in host.items():  # before ansible-core 2.19, unmarked values would be templated
            self.inventory.set_variable(name, variable, wrap_var(value))
        for group in nodes.groups(host, self.get_option("group_by")):
            self.inventory.add_host(name, group=self.inventory.add_group(self._sanitize_group_name(group)))
        self._set_composite_vars(self.get_option("compose"), host, name, strict=strict)
        self._add_host_to_composed_groups(self.get_option("groups"), host, name, strict=strict)
        self._add_host_to_keyed_groups(self.get_option("keyed_groups"), host, name, strict=strict)
