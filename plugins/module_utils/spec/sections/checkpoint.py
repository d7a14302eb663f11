# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The life cycle of a job: its early signal and restarts, and what is monitored while it runs. Pure; no I/O."""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.spec import types as t
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fields import Sbatch, option

# TERM already has a meaning for the batch script: scancel, the time limit itself and preemption send it, and after them
# the job must not requeue itself. The artifact watcher uses USR1. USR2 is used only for the early signal.
EARLY_SIGNAL = "USR2"
# Values of logs.per, and the number of ranks up to which each has a separate log by default. With more, a job leaves
# about as many files as it has nodes, which is worth the start of a collector on each.
PER_RANK, PER_NODE = "rank", "node"
PER, MOST_LOGS = (PER_RANK, PER_NODE, "first"), 16


@dataclass(frozen=True)
class Checkpoint:
    """Section `checkpoint`: saving, signals, requeue and restarts."""

    dir: str | None = option(
        t.text(r"/[^\0\n]*", "an absolute path on the cluster"),
        "Folder for the program's checkpoints, passed to the ranks as RANKZERO_CHECKPOINT_DIR and created if "
        "missing. One live job owns it: a second launch that names it is refused while the first one's job is "
        "active.",
        example="/scratch/ml/gpt/checkpoints",
    )
    fresh: bool = option(
        t.BOOLEAN,
        "Give each launch its own folder inside `dir`, KEY.GENERATION, so that it never resumes from the "
        "checkpoints of another launch, nor of an earlier generation (`rerun`). RANKZERO_CHECKPOINT_DIR names that "
        "folder. A requeued job resumes from its own checkpoints. Nothing is deleted.",
        False,
        example=True,
    )
    signal_before_end: int | None = option(
        t.integer(1, 65535, seconds=True),
        "Seconds before the time limit at which the ranks are signalled to save. Slurm may be up to a minute "
        "early. Default: no signal.",
        key=False,
        example=120,
        sbatch=Sbatch(
            "signal",
            either=True,
            inside="{value} has no meaning inside job {job}: the time limit of that job is not the launch's own; set "
            "it to null, or launch without launcher.inside_job",
        ),
    )
    signal: str = option(
        t.choice("TERM", "INT", "HUP", "USR1", "USR2"),
        "The signal sent to the ranks. USR1 and USR2 are kept from a launcher that starts them, such as torchrun; at "
        "the others it ends its ranks, torchrun after 30 s at most.",
        "TERM",
        key=False,
    )
    requeue: bool | None = option(
        t.BOOLEAN,
        "Whether the job is requeued: by itself if its ranks have ended after the early signal without a valid "
        "artifact, by Slurm after a node failure or a preemption. `false` forbids both. By default only Slurm "
        "decides. With `true`, if the site forbids requeueing, a successor job continues.",
        key=False,
        example=True,
        sbatch=Sbatch(
            "requeue",
            either=True,
            inside="{value} has no meaning inside job {job}: that job is not the launch's own; set it to null, or "
            "launch without launcher.inside_job",
        ),
        instead_of=("no-requeue",),
    )
    max_restarts: int = option(
        t.integer(0),
        "Maximum number of restarts, for any reason, after which the job no longer requeues itself.",
        5,
        key=False,
        also=("max_retries", "retries"),
    )
    progress: str | None = option(
        t.text(r"[^\0\n]+", "a path"),
        "A file that changes with every attempt that makes progress, relative to `dir` or, without `dir`, to the "
        "ranks' working directory. Two attempts that leave it unchanged end the job.",
        key=False,
        example="checkpoint.pt",
    )


@dataclass(frozen=True)
class Monitor:
    """Section `monitor`: samples of the nodes. All values are in seconds."""

    host: int = option(
        t.integer(0, 3600, seconds=True),
        "Seconds between two samples of a node's load, memory and CPUs; 0 disables them.",
        15,
        key=False,
    )
    gpu: int = option(
        t.integer(0, 3600, seconds=True),
        "Seconds between two samples of a node's GPUs by nvidia-smi, and of their PCIe throughput where it is known; 0 "
        "disables them.",
        15,
        key=False,
    )
    timestamps: int = option(
        t.integer(0, 86400, seconds=True),
        "Seconds between two timestamps in the job's log; 0 disables them.",
        0,
        key=False,
    )


@dataclass(frozen=True)
class Logs:
    """Section `logs`: names of the ranks' logs, and which one is followed."""

    style: str = option(
        t.choice("rank", "slurm"),
        "Names of the ranks' logs in the folder of an attempt. `rank`: rank-0000.log. `slurm`: "
        "<job>.<id>.<node>.<task>.out, where the task is the rank.",
        "rank",
        key=False,
        example="slurm",
    )
    follow: str = option(
        t.choice("first", "last"),
        "The rank whose log lines are shown while waiting. Some frameworks print their losses on the last rank.",
        "first",
        key=False,
        example="last",
    )
    per: str | None = option(
        t.choice(*PER),
        "The files of the ranks' logs. `rank`: one for each rank. `node`: one for each node, whose lines begin with "
        "the rank, as with `srun --label`. `first`: during the run only the log of the rank that is followed; of each "
        "other rank the beginning and the last 1 MiB, in one file for each node, at the end. The rank that is followed "
        f"always has a separate file. Default: `rank` for up to {MOST_LOGS} ranks, with roles and with `style: slurm`, "
        "else `node`.",
        key=False,
        example="node",
    )


def _receivers(value: object) -> object:
    # Only jobs that notify somebody need the rules.
    from ansible_collections.rankzero.slurm.plugins.module_utils.spec.notify import receivers

    return receivers(value)


NOTIFY = t.Type(
    "list of receivers",
    _receivers,
    {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "url_env": {"type": "string", "pattern": "^RANKZERO_NOTIFY_[A-Z0-9_]+$"},
                "url_file": {"type": "string", "pattern": "^[~/]"},
                "mail": {"type": "string"},
                "format": {"enum": ["slack", "teams", "ntfy", "json"]},
                "events": {
                    "type": "array",
                    "items": {"enum": ["started", "first_step", "stalled", "failed", "proven"]},
                    "minItems": 1,
                },
                "from_job": dict(t.BOOLEAN.schema),
            },
            "additionalProperties": False,
        },
    },
)
