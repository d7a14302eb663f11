# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find nodes that Slurm itself has drained because of a job. Only an administrator can return them to service.

Sources for the reasons that Slurm sets: drain_nodes() in slurmctld's agent.c, proc_req.c and job_mgr.c, and messages of
slurmd (22.05 to 26.05).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SlurmError
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import states
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm, expand_nodes
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import JobRecord

#: Slurm's reason, in lower case -> what it means.
REASONS = {
    "duplicate jobid": (
        "it still ran a job of the number that slurmctld sent it, one that slurmctld had forgotten in a crash"
    ),
    "batch job complete failure": "slurmd could not start the job's script, or could not clean up after it",
    "kill task failed": "processes of a job did not end when Slurm killed them",
    "epilog error": "the site's epilog failed after a job",
    "prolog error": "the site's prolog failed before a job",
    "prolog/epilog failure": "the site's prolog failed before a job, or its epilog after one",
}
#: Final states of a job that the node, rather than the program, may have caused.
_ENDS = ("CANCELLED", "FAILED", "NODE_FAIL")


@dataclass(frozen=True)
class Drained:
    """A node that accepts no jobs: Slurm's `reason` and its `meaning`."""

    node: str
    reason: str
    meaning: str

    @property
    def sentence(self) -> str:
        """The node, Slurm's reason and its meaning, for people."""
        return f"Slurm has drained {self.node} ({self.reason}: {self.meaning})"

    @property
    def command(self) -> str:
        """The command with which an administrator returns the node to service."""
        return f"scontrol update NodeName={self.node} State=RESUME"

    def as_dict(self) -> dict[str, str]:
        """Return the fields and `command`, as modules return them."""
        return {**asdict(self), "command": self.command}


def parse(text: str) -> list[Drained]:
    """Return the nodes in the output of `sinfo --Node --format=%N|%E` that Slurm itself drained, once each, in its
    order.
    """
    nodes: dict[str, Drained] = {}
    for line in text.splitlines():
        node, _bar, reason = line.strip().partition("|")
        meaning = REASONS.get(reason.strip().lower())
        if node and meaning:
            nodes[node] = Drained(node, reason.strip(), meaning)
    return list(nodes.values())


def of(slurm: Slurm, record: JobRecord | None, *, verdict: bool) -> list[Drained]:
    """Return the nodes that were drained because of a job.

    Slurm is asked only about a job that it holds because it could not start it, or a job that ended without a `verdict`
    of its own. It is asked once for all jobs. If Slurm does not answer, the result is empty.
    """
    if record is None:
        return []
    held = record.pending and states.launch_failed(record.reason)
    ended = record.final and record.state in _ENDS and bool(record.node_list) and not verdict
    if not held and not ended:
        return []
    try:
        if slurm.drained_nodes is None:
            result = slurm.attempt("sinfo", "--noheader", "--Node", "--states=drain", "--format=%N|%E")
            slurm.drained_nodes = result.stdout if result.rc == 0 else ""
        nodes = parse(slurm.drained_nodes)
        # A job that is pending again no longer has nodes, so all drained nodes are shown.
        if held or not nodes:
            return nodes
        names = set(expand_nodes(slurm, record.node_list))
    except SlurmError:
        return []
    return [drained for drained in nodes if drained.node in names]


def sentences(nodes: Sequence[Drained], *, commands: bool) -> str:
    """Describe the drained nodes; with `commands` also what an administrator must run."""
    parts = [node.sentence for node in nodes]
    if parts and commands:
        parts.append("an administrator resumes it with: " + "; ".join(node.command for node in nodes))
    return "; ".join(parts)
