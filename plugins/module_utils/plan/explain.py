# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Explain the environment of a job: each variable, its value and why it is set, for people and for playbooks. Pure.

There are three kinds of rows: variables that the script exports, variables whose value is known only on the node (the
rank wrapper sets them), and secrets, which are named and never shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.sealed_environment import COPIES
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.plan import Plan
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.variables import Variable
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Merged

ON_NODE = "(on the node)"
HIDDEN = "(hidden)"
VALUE_WIDTH = 40
_SOURCES = {
    "from_env": "the environment variable {} of the controller",
    "from_file": "the file {} on the cluster",
    "from_var": "the Ansible variable {}",
}


def rows(plan: Plan, merged: Merged) -> list[dict[str, str]]:
    """Every variable of a rank: name, value, reason, source, set_by, workaround."""
    given = list(plan.variables)
    names = {variable.name for variable in given}
    given += _on_the_node(plan, merged, names)
    for name, secret in sorted(plan.spec.all_secrets.items()):
        having = [role.name for role in plan.spec.roles.values() if name in role.spec.secrets]
        whose = f" of {' and '.join(having)}" if len(having) < len(plan.spec.roles) else ""
        reason = f"a secret{whose}, from {_SOURCES[secret.kind].format(secret.name)}; in no script, log or diff"
        given.append(Variable(name, HIDDEN, reason, "secrets", merged.origin(f"secrets.{name}") or "job"))
    return [
        {
            "name": item.name,
            "value": item.value,
            "reason": item.reason,
            "source": item.source,
            "set_by": item.set_by,
            "workaround": item.workaround,
        }
        for item in given
    ]


def _on_the_node(plan: Plan, merged: Merged, names: set[str]) -> Iterator[Variable]:
    """Iterate over the variables that the rank wrapper and Slurm set, in the order in which they are set."""
    if plan.spec.script is not None:
        folder = "where the script works: the job's own copy of the folder of the submission"
        yield Variable("SLURM_SUBMIT_DIR", ON_NODE, folder, "script", "batch script")
        return
    shape = plan.topology
    torchrun = "torch.distributed.run counts them"
    for name in ("RANK", "LOCAL_RANK", "NODE_RANK"):
        given = shape.starter.per == "rank" or shape.starter.own
        reason = f"the name torch expects, from {shape.starter.sources[name]}" if given else torchrun
        yield Variable(name, ON_NODE, reason, "launcher", "rank wrapper")
    ranks = f"{shape.nodes} x {shape.ranks_per_node} ranks"
    yield Variable("WORLD_SIZE", str(shape.world_size), ranks, "launcher", "rank wrapper")
    yield Variable("LOCAL_WORLD_SIZE", str(shape.ranks_per_node), "ranks of one node", "launcher", "rank wrapper")
    yield Variable("MASTER_ADDR", ON_NODE, "the first host of the allocation", "rendezvous", "batch script")
    port = plan.spec.launcher.port
    why = "launcher.port" if port else "a port from 20000 on that is free on the first node"
    yield Variable("MASTER_PORT", str(port) if port else ON_NODE, why, "rendezvous", "batch script")
    more = "8 further ports that are free on the first node, with blanks between them"
    yield Variable("RANKZERO_PORTS", ON_NODE, more, "rendezvous", "batch script")
    interface = "the interface that every node reaches the first one by, fast ones first"
    for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
        if name not in names:
            yield Variable(name, ON_NODE, interface, "fabric", "preflight")
    if plan.spec.resources.gpus_per_node and "CUDA_VISIBLE_DEVICES" not in names:
        yield Variable("CUDA_VISIBLE_DEVICES", ON_NODE, "the GPUs that Slurm gave the job", "gpus", "Slurm")
    if plan.sealed:
        copies = plan.spec.environment.local_copy
        where = merged.origin("environment.local_copy") or "policy"
        yield Variable("RANKZERO_SEALED", ON_NODE, f"local_copy {copies}: {COPIES[copies]}", "environments", where)
    if plan.spec.environment.path and plan.conda:
        scripts = "and the scripts in etc/conda/activate.d of the environment"
        yield Variable("CONDA_DEFAULT_ENV", plan.environment_dir, scripts, "environment", "batch script")


def table(variables: Sequence[Mapping[str, str]]) -> list[str]:
    """Format the rows as aligned lines: NAME  value  reason (source; set by ...)."""

    values = [printable(row["value"], VALUE_WIDTH) for row in variables]
    wide = max((len(row["name"]) for row in variables), default=0)
    across = max((len(value) for value in values), default=0)
    lines = []
    for row, value in zip(variables, values):
        extra = f"; workaround {row['workaround']}" if row["workaround"] else ""
        origin = f"({row['source']}; set by {row['set_by']}{extra})"
        lines.append(f"{row['name']:<{wide}}  {value:<{across}}  {row['reason']} {origin}")
    return lines
