# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs that start the ranks: one record for each value of `launcher.kind`, ours and those of a cluster. Pure.

A record is data: the words of a command, in which {names} stand for what is known only on the node, and the variables
in which its processes learn their rank. runtime/rank/node.sh puts the values in, word by word and without a shell, and
runtime/rank/rank.sh makes each process a rank. A cluster adds records or replaces ours by name
(`launch_cluster.launchers`): the topology, the rules, the script and the plan do not know whose a record is.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.spec import types as t

#: What {name} in a word of a command stands for: the variable that has the value on the node.
PLACES: Mapping[str, str] = {
    "python": "RANKZERO_PYTHON",
    "nodes": "RANKZERO_NODES",
    "ranks_per_node": "RANKZERO_RANKS_PER_NODE",
    "world_size": "RANKZERO_WORLD_SIZE",
    "cpus_per_node": "RANKZERO_CPUS_PER_NODE",
    "gpus_per_node": "RANKZERO_GPUS_PER_NODE",
    "node": "SLURM_NODEID",
    "hosts": "RANKZERO_NODELIST",
    "hostfile": "RANKZERO_HOSTFILE",
    "master_addr": "RANKZERO_MASTER_ADDR",
    "master_port": "RANKZERO_MASTER_PORT",
    "id": "RANKZERO_RENDEZVOUS_ID",
    "run_dir": "RANKZERO_RUN_DIR",
}
#: Words that stand for several: the start of a rank with its program, and what the chosen rendezvous needs.
RANK, RENDEZVOUS = "{rank}", "{rendezvous}"
_PLACE = re.compile(r"\{([a-z_]+)\}")
#: The values of launcher.rendezvous.
WAYS = ("static", "c10d")

#: What a rank is told, and the variable from which rank.sh takes it where Slurm starts the ranks.
BY_SLURM: Mapping[str, str] = {
    "RANK": "SLURM_PROCID",
    "LOCAL_RANK": "SLURM_LOCALID",
    "NODE_RANK": "SLURM_NODEID",
    "WORLD_SIZE": "RANKZERO_WORLD_SIZE",
    "LOCAL_WORLD_SIZE": "RANKZERO_RANKS_PER_NODE",
    "MASTER_ADDR": "RANKZERO_MASTER_ADDR",
    "MASTER_PORT": "RANKZERO_MASTER_PORT",
}
#: The same where another program starts them: it must set these, unless its record says where else the value is.
BY_TORCH: Mapping[str, str] = {**{name: name for name in BY_SLURM}, "NODE_RANK": "GROUP_RANK"}


def digest_of(record: JsonObject) -> str:
    """Return the digest of what a cluster has declared, without what is only for people."""
    counting = {name: value for name, value in record.items() if name not in ("doc", "program")}
    return hashlib.sha256(json.dumps(counting, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Starter:
    """A program that starts the ranks.

    `per`: Slurm starts one task for each `rank`, for each `node`, or one for the whole `job`, on its first node.
    `command`: the words that each task runs; {rank} becomes the start of a rank with its program, and a task without a
    command is a rank itself, with `job` the only one. `rendezvous`: how its nodes can meet, and the words for which
    {rendezvous} stands then; a single one is no choice. `ranks`: what a rank is told (BY_SLURM) -> the variable that
    its start sets, where that is another one. `packages`: Python packages that the job's environment must have for it;
    the preflight looks for them. `called`: the programs and modules by which people start it in a command.
    `one_node`: it starts ranks on a single node only. `program`: its name for people, if that differs from `kind`.
    `own`: the cluster has declared it.
    """

    kind: str
    doc: str
    per: str
    command: tuple[str, ...] = ()
    rendezvous: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ranks: Mapping[str, str] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    called: tuple[str, ...] = ()
    one_node: bool = False
    program: str = ""
    own: bool = False

    @property
    def shown(self) -> str:
        """The name for people."""
        return self.program or self.kind

    @property
    def names(self) -> str:
        """Whose variables tell a process its rank, as runtime/rank/rank.sh reads them: Slurm's (`srun`) or torch's
        (`torchrun`); nobody's of a `script`.
        """
        if self is SCRIPT:
            return "script"
        return "srun" if self.told_by_slurm else "torchrun"

    @property
    def once(self) -> bool:
        """Whether one program runs, on the first node, however many nodes the job has."""
        return self.per == "job" and not self.command

    @property
    def told_by_slurm(self) -> bool:
        """Whether each of Slurm's tasks is a rank."""
        return self.per == "rank" or self.once

    @property
    def sources(self) -> Mapping[str, str]:
        """What a rank is told -> the variable from which rank.sh takes it."""
        return {**(BY_SLURM if self.told_by_slurm else BY_TORCH), **self.ranks}

    @property
    def script(self) -> str:
        """The file of the job runtime that each of Slurm's tasks runs."""
        return "rank/node.sh" if self.command else "rank/rank.sh"

    def meets(self, wanted: str) -> str | None:
        """How its nodes meet, of launcher.rendezvous; None if they need not."""
        return wanted if wanted in self.rendezvous else next(iter(self.rendezvous), None)

    def words(self, meeting: str | None) -> tuple[str, ...]:
        """The command as node.sh takes it: {VARIABLE} in a word is the variable's value on the node."""
        words: list[str] = []
        for word in self.command:
            words += self.rendezvous.get(meeting or "", ()) if word == RENDEZVOUS else (word,)
        return tuple(
            word if word == RANK else _PLACE.sub(lambda match: f"{{{PLACES.get(match[1], match[1])}}}", word)
            for word in words
        )

    def record(self) -> JsonObject:
        """The record as launch.json has it."""
        return {name: value for name, value in dataclasses.asdict(self).items() if name != "called"}

    def keyed(self) -> dict[str, str]:
        """What the launch key says of it besides its name: of a cluster's own record, what determines the ranks."""
        if not self.own:
            return {}
        return {"launcher": digest_of(self.record())}


_TORCHRUN = (
    *("{python}", "-m", "torch.distributed.run", "--nnodes={nodes}", "--nproc-per-node={ranks_per_node}"),
    # Behind --, no option of the program is taken for one of torchrun (--sig for --signals-to-handle).
    *(RENDEZVOUS, "--no-python", "--", RANK),
)

# A script starts its own programs. It is chosen by `script`, not by launcher.kind.
SCRIPT = Starter(kind="script", doc="the script, once on the first node", per="job")
# Not to be replaced by a cluster's own: how many ranks there are does not depend on the cluster.
ONCE = Starter(kind="none", doc="nothing: the program runs once, on the first node", per="job")

STARTERS: tuple[Starter, ...] = (
    Starter(
        kind="srun",
        doc="Slurm itself, one task per rank",
        per="rank",
        called=("srun",),
    ),
    Starter(
        kind="torchrun",
        doc="torch.distributed.run, one task per node",
        per="node",
        command=_TORCHRUN,
        rendezvous={
            "static": ("--node-rank={node}", "--master-addr={master_addr}", "--master-port={master_port}"),
            # The node that has this address opens the store, and the others connect to it; the id keeps two jobs apart.
            "c10d": ("--rdzv-backend=c10d", "--rdzv-endpoint={master_addr}:{master_port}", "--rdzv-id={id}"),
        },
        packages=("torch",),
        called=("torchrun", "torch.distributed.run", "torch.distributed.launch"),
    ),
    Starter(
        kind="standalone",
        doc="torch.distributed.run on a single node, without rendezvous",
        per="node",
        command=_TORCHRUN,
        rendezvous={"standalone": ("--standalone",)},
        packages=("torch",),
        one_node=True,
        program="torchrun",
    ),
    Starter(
        kind="accelerate",
        doc="accelerate launch, one task per node, for two ranks or more",
        per="node",
        command=(
            *("{python}", "-m", "accelerate.commands.launch", "--multi_gpu", "--num_machines={nodes}"),
            *("--num_processes={world_size}", "--machine_rank={node}", RENDEZVOUS),
            # What is not said here is taken from a file in the user's home, which no launch key knows.
            *("--mixed_precision=no", "--dynamo_backend=no", "--gpu_ids=all", "--no_python", RANK),
        ),
        rendezvous={"static": ("--main_process_ip={master_addr}", "--main_process_port={master_port}")},
        packages=("accelerate",),
        called=("accelerate", "accelerate.commands.launch"),
    ),
    Starter(
        kind="deepspeed",
        doc="DeepSpeed's launcher, one task per node",
        per="node",
        command=(
            *("{python}", "-m", "deepspeed.launcher.runner", "--hostfile={hostfile}", "--num_nodes={nodes}"),
            # Without ssh each node starts its own ranks, and has to be told which one it is.
            *("--num_gpus={ranks_per_node}", "--no_ssh", "--node_rank={node}", RENDEZVOUS),
            *("--no_local_rank", "--no_python", RANK),
        ),
        rendezvous={"static": ("--master_addr={master_addr}", "--master_port={master_port}")},
        ranks={"NODE_RANK": "CROSS_RANK", "LOCAL_WORLD_SIZE": "LOCAL_SIZE"},
        packages=("deepspeed",),
        called=("deepspeed", "deepspeed.launcher.runner"),
    ),
    Starter(
        kind="mpirun",
        doc="Open MPI's mpirun on the first node, which starts the ranks of all nodes; with PMIx srun does that",
        per="job",
        command=(
            # Its step has the nodes' CPUs already, and the daemons that it starts with srun share them.
            *("env", "SLURM_OVERLAP=1", "mpirun"),
            # It would take the hosts of its own step, which has one.
            *("--mca", "ras", "^slurm", "--hostfile", "{hostfile}"),
            *("--bind-to", "none", "--map-by", "ppr:{ranks_per_node}:node", "-n", "{world_size}", RANK),
        ),
        ranks={
            "RANK": "OMPI_COMM_WORLD_RANK",
            "LOCAL_RANK": "OMPI_COMM_WORLD_LOCAL_RANK",
            "NODE_RANK": "RANKZERO_NODE_RANK",
            "WORLD_SIZE": "OMPI_COMM_WORLD_SIZE",
            "LOCAL_WORLD_SIZE": "OMPI_COMM_WORLD_LOCAL_SIZE",
            "MASTER_ADDR": "RANKZERO_MASTER_ADDR",
            "MASTER_PORT": "RANKZERO_MASTER_PORT",
        },
        called=("mpirun", "mpiexec"),
    ),
    ONCE,
)


Launchers = Mapping[str, Starter]


def starters(own: Launchers) -> tuple[Starter, ...]:
    """Return all records, ours first. `own`: the cluster's, each in the place of ours with its name."""
    return (*(own.get(row.kind, row) for row in STARTERS), *(own[kind] for kind in own if kind not in _KINDS))


def starter(kind: str, own: Launchers) -> Starter:
    """Return the record of a kind. Raises Invalid if there is none."""
    rows = {row.kind: row for row in starters(own)}
    t.choice(*rows).parse(kind)
    return rows[kind]


def knowing(rendezvous: str, own: Launchers) -> tuple[Starter, ...]:
    """Return the records that support a value of launcher.rendezvous."""
    return tuple(row for row in starters(own) if rendezvous in row.rendezvous)


_KINDS = tuple(row.kind for row in STARTERS)
KIND = t.declared("launchers", *_KINDS)


def _word(value: object) -> str:
    word = t.to_text(value)
    for name in _PLACE.findall(word):
        if f"{{{name}}}" in (RANK, RENDEZVOUS):
            if word != f"{{{name}}}":
                raise t.Invalid(f"has {{{name}}} within {t.shown(word)}; it is a word of its own")
        elif name not in PLACES:
            known = ", ".join(f"{{{place}}}" for place in ("rank", "rendezvous", *PLACES))
            raise t.Invalid(f"has the unknown {{{name}}}{t.suggestion(name, list(PLACES))}; known: {known}")
    return word


_WORDS = t.listed(t.Type("word", _word, {"type": list(t.SCALARS)}), filled=True)
_VARIABLE = t.text(r"[A-Za-z_][A-Za-z0-9_]*", "the name of an environment variable")
_TOLD = t.mapped("|".join(BY_SLURM), f"one of {', '.join(BY_SLURM)}", _VARIABLE)
#: The keys of a cluster's record, with the type of each.
_KEYS: Mapping[str, t.Type] = {
    "doc": t.text(lines=False),
    "per": t.choice("rank", "node", "job"),
    "command": _WORDS,
    "rendezvous": t.mapped("|".join(WAYS), f"one of {', '.join(WAYS)}", _WORDS),
    "ranks": _TOLD,
    "packages": t.listed(t.text(r"[A-Za-z_][A-Za-z0-9_.]*", "the name of a Python package")),
    "one_node": t.BOOLEAN,
}
_REQUIRED = ("per", "command")


def _contradictions(fields: Mapping[str, Any]) -> list[str]:
    """What is wrong between the words of a command and of its rendezvous."""
    command: tuple[str, ...] = fields["command"]
    rendezvous: Mapping[str, Iterable[str]] = fields.get("rendezvous", {})
    problems = []
    if command.count(RANK) != 1:
        problems.append(f"command must have the word {RANK} once: there the program of a rank begins")
    if (RENDEZVOUS in command) != bool(rendezvous):
        problems.append(f"the word {RENDEZVOUS} in command and the map rendezvous need each other")
    if any(word in (RANK, RENDEZVOUS) for words in rendezvous.values() for word in words):
        problems.append(f"rendezvous has {RANK} or {RENDEZVOUS}, which are words of command")
    return problems


_RECORDS = t.mapped(t.DECLARED_NAME, t.DECLARED_WORDS, t.record("launcher", _KEYS, _REQUIRED, _contradictions))


def _parse_own(value: object) -> dict[str, Starter]:
    records = _RECORDS.parse(value)
    if ONCE.kind in records:
        raise t.Invalid(f"{ONCE.kind} is the program without a launcher; choose another name")
    return {
        kind: Starter(kind, fields.pop("doc", "the cluster's own"), own=True, **fields)
        for kind, fields in records.items()
    }


OWN_LAUNCHERS = t.Type("map of launchers", _parse_own, dict(_RECORDS.schema))
