# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The life of a job: its early signal and restarts, and what is watched while it runs. Pure; no I/O."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.spec import types as t
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fields import Sbatch, option

# TERM already has a meaning to the batch script: scancel, the time limit itself and preemption send it, and after those
# the job must not put itself back into the queue. USR1 is the artifact watcher's. USR2 means the early signal alone.
EARLY_SIGNAL = "USR2"


@dataclass(frozen=True)
class Checkpoint:
    dir: str | None = option(
        t.text(r"/[^\0\n]*", "an absolute path on the cluster"),
        "Folder for the program's checkpoints, passed to the ranks as RANKZERO_CHECKPOINT_DIR and created if "
        "missing. One live job owns it: a second launch that names it is refused while the first one's job is "
        "active.",
        example="/scratch/ml/gpt/checkpoints",
    )
    signal_before_end: int | None = option(
        t.whole(1, 65535),
        "Seconds before the time limit at which the ranks are signalled to save. Slurm may be up to a minute "
        "early. Default: no signal.",
        key=False,
        example=120,
        sbatch=Sbatch(
            "signal",
            either=True,
            inside="{value} has no meaning inside job {job}: the time limit of that job is not the launch's own; set "
            "it to null, or launch without launcher.attach",
        ),
    )
    signal: str = option(
        t.choice("TERM", "INT", "HUP", "USR1", "USR2"), "The signal sent to the ranks.", "TERM", key=False
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
            "launch without launcher.attach",
        ),
        instead_of=("no-requeue",),
    )
    max_restarts: int = option(
        t.whole(0),
        "Maximum number of restarts, for any reason, after which the job no longer requeues itself.",
        5,
        key=False,
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
    host: int = option(
        t.whole(0, 3600),
        "Seconds between two samples of a node's load, memory and CPUs; 0 disables them.",
        15,
        key=False,
    )
    gpu: int = option(
        t.whole(0, 3600), "Seconds between two samples of a node's GPUs by nvidia-smi; 0 disables them.", 15, key=False
    )
    timestamps: int = option(
        t.whole(0, 86400), "Seconds between two timestamps in the job's log; 0 disables them.", 0, key=False
    )


@dataclass(frozen=True)
class Logs:
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


def header(checkpoint: Checkpoint, spares: int) -> list[tuple[str, str | bool]]:
    """The #SBATCH lines of the early signal, requeues and nodes that fail (sbatch(1)); what is not asked for stays
    the site's. A job with spare nodes goes on without a node that fails.
    """
    options: list[tuple[str, str | bool]] = []
    if checkpoint.signal_before_end:
        options.append(("signal", f"B:{EARLY_SIGNAL}@{checkpoint.signal_before_end}"))
    if checkpoint.requeue is not None:
        options.append(("requeue" if checkpoint.requeue else "no-requeue", True))
    if spares:
        options.append(("no-kill", True))
    return options


def exports(checkpoint: Checkpoint, monitor: Monitor, logs: Logs, spares: int) -> list[tuple[str, str]]:
    """What the job's runtime must know, as variables of the batch script."""
    found = [("RANKZERO_MONITOR_HOST", str(monitor.host)), ("RANKZERO_MONITOR_GPU", str(monitor.gpu))]
    if logs != Logs():
        found += [("RANKZERO_LOG_STYLE", logs.style), ("RANKZERO_LOG_FOLLOW", logs.follow)]
    if checkpoint.dir:
        found.append(("RANKZERO_CHECKPOINT_DIR", posixpath.normpath(checkpoint.dir)))
    if monitor.timestamps:
        found.append(("RANKZERO_TIMESTAMPS", str(monitor.timestamps)))
    if checkpoint.signal_before_end:
        found.append(("RANKZERO_EARLY_SECONDS", str(checkpoint.signal_before_end)))
        found.append(("RANKZERO_EARLY_SIGNAL", checkpoint.signal))
    if checkpoint.requeue:
        found.append(("RANKZERO_MAX_RESTARTS", str(checkpoint.max_restarts)))
    if spares:
        found += [("RANKZERO_SPARES", str(spares)), ("RANKZERO_SPARE_RESTARTS", str(checkpoint.max_restarts))]
    if checkpoint.progress and (checkpoint.requeue or spares):
        found.append(("RANKZERO_PROGRESS", posixpath.normpath(checkpoint.progress)))
    return found


def findings(asked: Checkpoint, time: str, spares: int) -> Iterator[tuple[Sequence[str], str]]:
    """What does not fit together, as validate.Finding. `time`: the time limit."""
    early = asked.signal_before_end
    if early and t.time_minutes(time) * 60 <= early:
        yield (
            ["checkpoint.signal_before_end", "resources.time"],
            (
                f"checkpoint.signal_before_end: {early} s is not less than the time limit {time}; the "
                "ranks would be told to stop at once"
            ),
        )
    if asked.dir is not None and posixpath.normpath(asked.dir).strip("/") == "":
        yield ["checkpoint.dir"], "checkpoint.dir: / is no folder of checkpoints; name one of the job's own"
    if asked.progress is not None:
        path = posixpath.normpath(asked.progress)
        if posixpath.isabs(path) or path in (".", "..") or path.startswith("../"):
            yield (
                ["checkpoint.progress"],
                (
                    f"checkpoint.progress: {asked.progress!r} is outside the run directory; give a path relative to "
                    "the ranks' working directory"
                ),
            )
        if not (asked.requeue and early) and not spares:
            yield (
                ["checkpoint.progress", "checkpoint.requeue", "checkpoint.signal_before_end"],
                (
                    "checkpoint.progress: has no effect unless checkpoint.requeue is true and "
                    "checkpoint.signal_before_end is given, or there are resources.spares"
                ),
            )
