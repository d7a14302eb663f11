# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the programs of a launch with several run: nodes, addresses, ports. Standard library only."""

from __future__ import annotations

from artifact import verdict
from core.state import Job
from preflight import topology
from rank import roles
from start import attempt, ports, rendezvous

# Each process has its own port, counted from the first one (rank.sh).
MOST_PORTS = 1000


def settle(job: Job) -> None:
    """Keep of each role's environment what differs from the script's: the script's changes until the ranks start."""
    for role in job.roles:
        role.dropped = [name for name in job.env if name not in role.env]
        role.env = {name: value for name, value in role.env.items() if job.env.get(name) != value}


def lay_out(job: Job) -> None:
    """Give each role its nodes, and each process a port, and let every role know of all."""
    ranks = sum(role.ranks for role in job.roles)
    left = [[node for node in job.nodes if node in names] for names in job.components or [job.nodes]]
    own, others = min(ranks, MOST_PORTS), len(job.roles) - 1
    first = ports.row(job.id, own + others)
    if not first:
        verdict.refuse(job, 71, f"no {own + others} free ports in a row on {job.node}, which the roles need")
    for role in job.roles:
        if not role.beside:
            free = left[role.component]
            role.nodes = topology.together(free, role.node_count, job.preflight.blocks)
            left[role.component] = [node for node in free if node not in role.nodes]
    hosts = {role.name: role for role in job.roles}
    for number, role in enumerate(job.roles):
        if role.beside:
            role.nodes = hosts[role.beside].nodes[: role.node_count]
        if len(role.nodes) < role.node_count:
            verdict.refuse(job, 71, f"role {role.name} needs {role.node_count} nodes, and {len(role.nodes)} are left")
        address = {}
        for node in role.nodes:
            address[node] = rendezvous.master_address(job, [node, *(other for other in job.nodes if other != node)])
            if not address[node]:
                verdict.refuse(job, 71, f"the node {node} of role {role.name} has no address")
        places = [role.nodes[rank // role.per_node] for rank in range(role.ranks)]
        role.hosts = [
            f"{address[node]}:{first + (role.first_rank + rank) % MOST_PORTS}" for rank, node in enumerate(places)
        ]
        job.export("RANKZERO_PORT_FIRST", first)
        role.env.update(
            RANKZERO_NODELIST=",".join(role.nodes),
            RANKZERO_MASTER_ADDR=address[role.nodes[0]],
        )
        if attempt.HOSTFILE in " ".join(role.words):
            role.env["RANKZERO_HOSTFILE"] = attempt.list_hosts(job, role.nodes, role.per_node, role.name)
        if number:
            # Two roles may meet on the same node.
            role.env["RANKZERO_MASTER_PORT"] = str(first + own + number - 1)
        for kind, words in roles.told(role).items():
            job.export(f"RANKZERO_{role.name.upper()}_{kind.upper()}", ",".join(words))
